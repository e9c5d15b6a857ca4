"""Forgetting: what an item said is gone from everywhere, its key tells when, and others are untouched."""

from collections.abc import Awaitable
from datetime import datetime, timezone
from typing import Any

import pytest

from memory_context import AgentMemory, MemoryStore
from memory_context.store.items import MemoryCriteria
from tests.conftest import Server, database_of

pytestmark = pytest.mark.fake_embedder

TABLES = (
    *("agent_memory_contents", "agent_memory_names", "agent_memory_chunks", "agent_memory_terms"),
    *("agent_memory_embeddings", "jobs"),
)


def rows_left(server: Server, url: str) -> dict[str, int]:
    """Return how many rows each table of the index has."""
    name = database_of(url)
    return {table: server.execute(f"SELECT count(*) FROM memory_context.{table}", name)[0][0] for table in TABLES}  # type: ignore[misc]


def passages(server: Server, url: str) -> tuple[object, object]:
    """Return how many passages there are said to be, and how many there are."""
    (row,) = server.execute(
        """SELECT (SELECT sum(chunk_count) FROM memory_context.agent_memory_statistics),
        (SELECT count(*) FROM memory_context.agent_memory_chunks)""",
        database_of(url),
    )
    return row[0], row[1]


@pytest.mark.parametrize("is_indexed", [True, False])
async def test_a_forgotten_item_is_gone_and_says_when(
    store: MemoryStore, server: Server, database_url: str, is_indexed: bool
):
    """Indexed or not: nothing of its text is left in any table."""
    memory = AgentMemory(store, "alice", "coder", "s")
    ref = await memory.store(
        "the secret harbour\n" * 200, description="secret plan", tags=["secret"], metadata={"secret": 1}
    )
    kept = await memory.store("another text")
    if is_indexed:
        await store.flush_index()
    assert await memory.forget(ref.key) is True
    assert await memory.forget(ref.key) is False
    await store.flush_index()
    assert await memory.retrieve(ref.key) is None
    assert f"forgotten on {datetime.now(timezone.utc):%Y-%m-%d}" in str(await memory.not_found(ref.key))
    assert await memory.retrieve_contents([ref.key]) == {}
    assert [item.key for item in await memory.query()] == [kept.key]
    for query in ("secret harbour", ref.key, "secret plan"):
        assert ref.key not in [hit.item.key for hit in await memory.search(query)]
    assert passages(server, database_url) == (1, 1)
    assert rows_left(server, database_url)["jobs"] == 0
    text = server.execute(
        """SELECT (SELECT string_agg(memory::text, '') FROM memory_context.agent_memories AS memory)
        || (SELECT string_agg(chunk::text, '') FROM memory_context.agent_memory_chunks AS chunk)
        || (SELECT string_agg(content::text, '') FROM memory_context.agent_memory_contents AS content)
        || coalesce((SELECT string_agg(name::text, '') FROM memory_context.agent_memory_names AS name), '')
        || (SELECT string_agg(term::text, '') FROM memory_context.agent_memory_terms AS term)""",
        database_of(database_url),
    )[0][0]
    assert "another" in str(text)
    assert "secret" not in str(text)
    assert "harbour" not in str(text)


async def test_forgetting_goes_no_further_than_the_own_scope(store: MemoryStore):
    """Not to other sessions, agents or users, however far reading goes."""
    scopes = [("alice", "coder", "one"), ("alice", "coder", "two"), ("alice", "critic", "one"), ("bob", "coder", "one")]
    scopes += [("alice", None, None), ("alice", "coder", None)]
    memories = [AgentMemory(store, *scope) for scope in scopes]
    keys = [(await memory.store(f"text {number}")).key for number, memory in enumerate(memories)]
    await store.flush_index()
    first = memories[0]
    for key in keys[1:]:
        assert await first.forget(key) is False
    assert await first.forget("no_such_key") is False
    assert await first.forget("'; DROP TABLE agent_memories\x00") is False
    assert await first.clear() == 1
    assert await first.clear() == 0
    for memory, key in zip(memories[1:], keys[1:], strict=True):
        assert await memory.retrieve(key) is not None
        assert key in [hit.item.key for hit in await memory.search("text")]
    assert await memories[4].clear() == 1  # that of no agent and no session, and no other
    assert await memories[5].retrieve(keys[5]) is not None


async def test_clear_forgets_everything_of_the_scope(store: MemoryStore, server: Server, database_url: str):
    """Indexed and not, many at once; the count of passages is that of what is left."""
    memory, other = AgentMemory(store, "alice", "coder", "s"), AgentMemory(store, "alice", "coder", "t")
    for number in range(40):
        await memory.store(f"text {number}\n" * 200)
    await other.store("stays")
    await store.flush_index()
    for number in range(5):
        await memory.store(f"not indexed {number}")
    assert await memory.clear() == 45
    await store.flush_index()
    assert passages(server, database_url) == (1, 1)
    assert rows_left(server, database_url)["agent_memory_embeddings"] == 1
    assert [hit.passage for hit in await memory.search("text stays")] == ["stays"]
    assert await memory.query() == [item for item in await memory.query() if item.session_id == "t"]


async def test_one_item_has_the_time_of_a_call_and_all_have_that_of_a_batch(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    memory = AgentMemory(store, "alice", "coder", "s")
    keys = [(await memory.store(text)).key for text in ("one", "two", "three")]
    write, kinds = store._database.write, list[str]()

    def noted(*given: Any, kind: str = "call", **others: Any) -> Awaitable[Any]:
        if others.get("changes_user_memory"):  # the items go
            kinds.append(kind)
        return write(*given, kind=kind, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(store._database, "write", noted)
    assert await memory.forget(keys[0])
    assert await memory.clear() == 2
    assert kinds == ["call", "batch"]


async def test_what_was_forgotten_may_be_stored_again_and_again(store: MemoryStore):
    """It is found again; the keys of the forgotten ones go on telling that they were."""
    memory = AgentMemory(store, "alice")
    keys: list[str] = []
    for _ in range(6):
        ref = await memory.store("the harbour at dawn")
        await store.flush_index()
        item = await memory.retrieve(ref.key)
        assert item is not None
        assert item.content == "the harbour at dawn"
        assert [hit.item.key for hit in await memory.search("harbour")] == [ref.key]
        assert await memory.store("the harbour at dawn") == ref
        assert ref.key not in keys
        keys.append(ref.key)
        assert await memory.forget(ref.key)
    for key in keys:
        assert "was forgotten on" in str(await memory.not_found(key))
    _, profile = await store.search.candidates("alice", "harbour", ["harbour"], MemoryCriteria())
    assert (profile.passages, profile.frequencies["harbour"]) == (0, 0)


async def test_a_forgotten_key_is_not_offered(store: MemoryStore):
    """Among the nearest there are living ones only."""
    memory = AgentMemory(store, "alice")
    ref = await memory.store("text", source="npm install")
    await memory.forget(ref.key)
    assert "did you mean" not in str(await memory.not_found(ref.key[:-1]))
