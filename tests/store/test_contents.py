"""What is stored is stored and indexed once for each user; who reads it, and that nobody learns of another's twin."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator

import psycopg
import pytest

from memory_context import AgentMemory, ItemNotFoundError, MemoryCriteria, MemoryStore, SearchHit
from memory_context.store import IndexReport, NewMemory, indexer
from tests.conftest import Server, database_of
from tests.embeddings.fakes import FakeEmbedder
from tests.store.older import migrate_to

TEXT = "The harbour master keeps the ledger of the ships.\n" * 60
TABLES = ("agent_memory_contents", "agent_memory_chunks", "agent_memory_terms", "agent_memory_embeddings")


@pytest.fixture
async def store(database_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MemoryStore]:
    """An open store that indexes only when it is told."""
    monkeypatch.setattr(indexer.Indexer, "nudge", lambda self, user_id: None)
    async with MemoryStore(database_url, FakeEmbedder()) as store:
        yield store


def agent(store: MemoryStore, name: str, sharing: str = "shared") -> AgentMemory:
    return AgentMemory(store, "alice", name, "s", sharing=sharing)  # type: ignore[arg-type]


def rows(server: Server, store: MemoryStore) -> dict[str, object]:
    """Return how many rows each table has."""
    database = database_of(store._database.location.url or "")
    return {name: server.execute(f"SELECT count(*) FROM memory_context.{name}", database)[0][0] for name in TABLES}


async def test_the_same_content_of_several_agents_is_stored_and_indexed_once(
    store: MemoryStore, server: Server
) -> None:
    """Each keeps its item: key, agent, type, source, description, sharing. Another user has a content of their own."""
    first = await agent(store, "a").store(TEXT, description="of a", source="shell", tags=["x"])
    await store.flush_index()
    before = rows(server, store)
    assert before["agent_memory_contents"] == 1
    second = await agent(store, "b", "read_only").store(TEXT, description="of b", type="article")
    third = await agent(store, "c", "isolated").store(TEXT, description="of c", source="page")
    assert await store.flush_index() == IndexReport(0, 0)
    assert rows(server, store) == before
    assert len({first.key, second.key, third.key}) == 3
    item = await agent(store, "b", "read_only").retrieve(second.key)
    assert item is not None
    assert (item.ref.description, item.type, item.agent_id, item.is_private) == ("of b", "article", "b", True)
    assert item.content == TEXT
    await AgentMemory(store, "bob").store(TEXT)
    assert rows(server, store)["agent_memory_contents"] == 2


async def test_lists_and_searches_show_one_hit_for_each_content(store: MemoryStore) -> None:
    """The newest item that meets the criteria and is within reach; it names the others that are, and no more."""
    keys = [(await agent(store, name).store(TEXT, source=name)).key for name in "abc"]
    hermit = await agent(store, "hermit", "isolated").store(TEXT, source="hermit")
    for is_indexed in (False, True):
        if is_indexed:
            await store.flush_index()
        for reader in (agent(store, "a"), AgentMemory(store, "alice")):
            (hit,) = await reader.search("harbour ledger")
            (listed,) = await reader.query()
            assert hit.item.key == listed.key == keys[2]
            assert hit.item.other_keys == listed.other_keys == (keys[1], keys[0])
        criteria = MemoryCriteria(sources=("a", "b"))
        (hit,) = await agent(store, "c").search("harbour ledger", criteria=criteria)
        (listed,) = await agent(store, "c").query(criteria)
        assert hit.item.key == listed.key == keys[1]
        (hit,) = await agent(store, "hermit", "isolated").search("harbour ledger")
        assert (hit.item.key, hit.item.other_keys) == (hermit.key, ())


def told(hits: list[SearchHit]) -> list[object]:
    """Return all that a reader learns of hits, but keys and times, which are the item's own."""
    return [
        (
            hit.passage,
            hit.score,
            hit.is_relevant,
            hit.item.other_keys,
            hit.item.ref.description,
            hit.item.type,
        )
        for hit in hits
    ]


@pytest.mark.parametrize("twin", ["shared", "read_only", "isolated"])
async def test_an_isolated_agent_learns_nothing_of_a_twin(database_url: str, store: MemoryStore, twin: str) -> None:
    """Whatever another agent stored of the same text: scores, ranks, counts and what is found when are as without."""
    seen: list[object] = []
    for user in ("without", "with"):
        other = AgentMemory(store, user, "other", "s", sharing=twin)  # type: ignore[arg-type]
        hermit = AgentMemory(store, user, "hermit", "t", sharing="isolated")
        if user == "with":
            for text in (TEXT, "harbour and ships, of the other only", "ledger"):
                await other.store(text, description="treasure of the other", tags=["treasure"])
            await store.flush_index()
        for text in (TEXT, "a note on the harbour", "something else\n" * 90):
            await hermit.store(text, description="of the hermit")
        found = [told(await hermit.search(query)) for query in ("harbour ledger", "treasure", "ships")]
        candidates, _ = await store.search_candidates(
            user, "harbour", ["harbour"], MemoryCriteria(), scope=hermit.scope
        )
        seen.append((found, len(candidates)))
        await store.flush_index()
        indexed = [told(await hermit.search(query)) for query in ("harbour ledger", "treasure", "ships")]
        _, profile = await store.search_candidates(
            user, "harbour", ["harbour", "treasure"], MemoryCriteria(), scope=hermit.scope
        )
        listed = [(one.ref.description, one.other_keys) for one in await hermit.query()]
        seen[-1] = (seen[-1], indexed, profile, listed)
    assert seen[0] == seen[1]


async def test_others_learn_nothing_of_an_isolated_agent(store: MemoryStore) -> None:
    """Neither by terms that only its items have, nor by how frequent a term is, nor by its twin of their own item."""
    seen: list[object] = []
    for user in ("without", "with"):
        if user == "with":
            hermit = AgentMemory(store, user, "hermit", "t", sharing="isolated")
            for text in (TEXT, "harbour of the hermit", "ledger"):
                await hermit.store(text, description="treasure of the hermit")
            await store.flush_index()
        lead = AgentMemory(store, user, "lead", "s")
        for text in (TEXT, "a note on the harbour"):
            await lead.store(text, description="of the lead")
        early = told(await lead.search("harbour treasure"))
        await store.flush_index()
        _, profile = await store.search_candidates(
            user, "harbour", ["harbour", "treasure"], MemoryCriteria(), scope=lead.scope
        )
        seen.append((early, told(await lead.search("harbour treasure")), profile))
    assert seen[0] == seen[1]


async def test_one_item_is_shared_with_one_agent(store: MemoryStore) -> None:
    """By whoever stored it: read, listed and found by that agent, however isolated; by no other, and nothing else."""
    hermit, other, third = (agent(store, name, "isolated") for name in ("hermit", "other", "third"))
    given, kept = await hermit.store(TEXT), await hermit.store("the harbour, kept")
    with pytest.raises(ItemNotFoundError, match="belongs to another agent"):
        await other.share(given.key, "third")
    with pytest.raises(ItemNotFoundError):
        await hermit.share("nothing_k3f7x2", "other")
    with pytest.raises(ValueError, match="agent_id=''"):
        await hermit.share(given.key, "")
    await hermit.share(given.key, "other")
    await hermit.share(given.key, "other")
    for is_indexed in (False, True):
        if is_indexed:
            await store.flush_index()
        item = await other.retrieve(given.key)
        assert item is not None
        assert item.content == TEXT
        assert [one.key for one in await other.query()] == [given.key]
        assert [hit.item.key for hit in await other.search("harbour")] == [given.key]
        assert await other.retrieve(kept.key) is None
        assert await third.retrieve(given.key) is None
        assert await third.search("harbour") == []
    assert not await other.forget(given.key)
    assert await hermit.forget(given.key)
    assert await other.retrieve(given.key) is None


async def test_a_content_goes_with_its_last_item(store: MemoryStore, server: Server) -> None:
    """An agent forgets its own item; what another one stored stays whole and is found."""
    first, second = agent(store, "a"), agent(store, "b", "isolated")
    one, two = await first.store(TEXT, description="zebra"), await second.store(TEXT)
    await store.flush_index()
    assert await first.forget(one.key)
    assert rows(server, store)["agent_memory_contents"] == 1
    assert await first.search("harbour zebra") == []
    assert await second.search("zebra") == [] or (await second.search("zebra"))[0].item.key == two.key
    assert (await second.retrieve(two.key)).content == TEXT  # type: ignore[union-attr]
    again = await first.store(TEXT)
    assert again.key != one.key
    assert await first.forget(again.key)
    assert await second.forget(two.key)
    assert set(rows(server, store).values()) == {0}
    await store.flush_index()


async def test_the_user_forgets_all_items_of_a_content(store: MemoryStore, server: Server) -> None:
    """Whichever agents have it, also privately; each leaves its tombstone."""
    keys = [
        (await agent(store, name, sharing).store(TEXT)).key for name, sharing in (("a", "shared"), ("b", "isolated"))
    ]
    other = await agent(store, "a").store("another harbour")
    await store.flush_index()
    assert sorted(await store.inventory.forget("alice", keys[:1])) == sorted(keys)
    assert rows(server, store)["agent_memory_contents"] == 1
    assert {one.memory_key for one in await store.inventory.forgotten("alice")} == set(keys)
    assert await store.select_keys("alice") == [other.key]


async def test_storing_indexing_and_forgetting_the_same_content_at_once(store: MemoryStore, server: Server) -> None:
    """Nobody waits for each other for good, no item loses its content, and nothing is left of what was forgotten."""
    agents = [agent(store, f"a{number}", "isolated" if number % 2 else "shared") for number in range(6)]

    async def live(memory: AgentMemory) -> None:
        for round_ in range(6):
            refs = await asyncio.gather(*(memory.store(f"{text} {round_ % 2}") for text in ("harbour", TEXT, "ledger")))
            for ref in refs:
                item = await memory.retrieve(ref.key)
                assert item is not None
                assert item.content
            await memory.clear()

    async def index() -> None:
        for _ in range(10):
            await store.flush_index()

    await asyncio.gather(*(live(memory) for memory in agents), index(), index())
    await store.flush_index()
    assert set(rows(server, store).values()) == {0}
    database = database_of(store._database.location.url or "")
    assert server.execute("SELECT chunk_count FROM memory_context.agent_memory_statistics", database) == [(0,)]
    assert server.execute("SELECT count(*) FROM memory_context.agent_memory_names", database) == [(0,)]


# --- databases of earlier versions

INSERT_OLD = b"""
    INSERT INTO memory_context.agent_memories (
        user_id, memory_key, agent_id, session_id, memory_type, source, summary, content, content_bytes, token_count,
        content_sha256, tags, content_metadata, is_private, is_active
    ) VALUES (
        'alice', %(key)s, %(agent)s, 's', 'custom', 'notes', %(summary)s, %(content)s, 40, 9, %(digest)s, '{}', '{}',
        %(private)s, %(active)s
    )
    RETURNING id
"""


async def test_a_filled_database_of_an_earlier_version_keeps_everything(
    empty_database_url: str, server: Server
) -> None:
    """Twins, private and shared, indexed and not, tombstones: each item is read as before, a content is once."""
    await asyncio.to_thread(migrate_to, empty_database_url, 7)
    await asyncio.to_thread(_fill, empty_database_url)
    async with MemoryStore(empty_database_url, FakeEmbedder()) as store:
        assert await store.flush_index() == IndexReport(0, 0)
        assert rows(server, store)["agent_memory_contents"] == 3
        lead, hermit = agent(store, "a"), agent(store, "b", "isolated")
        for memory, key, text in (
            (lead, "a_twin", "twin of the harbour"),
            (hermit, "b_twin", "twin of the harbour"),
            (lead, "c_twin", "twin of the harbour"),
            (lead, "a_late", "late ledger"),
            (hermit, "b_late", "late ledger"),
            (lead, "a_raw", "raw \x00 harbour"),
        ):
            item = await memory.retrieve(key)
            assert item is not None
            assert item.content == text
        assert "was forgotten on" in str(await lead.not_found("gone"))
        hit = (await lead.search("twin"))[0]
        assert (hit.item.key, hit.item.other_keys) == ("c_twin", ("a_twin",))
        hit = (await hermit.search("twin"))[0]
        assert (hit.item.key, hit.item.other_keys) == ("b_twin", ())
        # a word in the description of another's twin
        assert [hit for hit in await hermit.search("zebra") if hit.score.lexical] == []
        assert [hit.item.key for hit in await lead.search("zebra") if hit.score.lexical] == ["c_twin"]
        assert [hit.item.key for hit in await lead.search("ledger") if hit.score.lexical] == ["a_late"]
        assert [hit.item.key for hit in await hermit.search("ledger") if hit.score.lexical] == ["b_late"]
        new = await lead.store("twin of the harbour", source="new")
        assert (await lead.query(MemoryCriteria(sources=("new",))))[0].key == new.key
        _, profile = await store.search_candidates("alice", "", ["harbour"], MemoryCriteria(), scope=lead.scope)
        assert profile.passages == 3


def _fill(url: str) -> None:
    old: list[tuple[str, str, str, bool, bool, bool]] = [
        ("a_twin", "a", "twin of the harbour", False, True, True),
        ("b_twin", "b", "twin of the harbour", True, True, True),
        ("c_twin", "c", "twin of the harbour", False, True, False),
        ("a_late", "a", "late ledger", False, True, False),
        ("b_late", "b", "late ledger", True, True, False),
        ("gone", "a", "", False, False, False),
    ]
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO memory_context.memory_users VALUES ('alice', now())")
        for key, name, text, private, active, indexed in old:
            row = {
                "key": key,
                "agent": name,
                "content": text if active else None,
                "private": private,
                "active": active,
                "digest": hashlib.sha256((text or key).encode()).digest(),
                "summary": "zebra" if key == "a_twin" else "",
            }
            found = connection.execute(INSERT_OLD, row).fetchone()
            assert found is not None
            if indexed:
                chunk = b"INSERT INTO memory_context.agent_memory_chunks VALUES ('alice', %s, 0, 0, 19, 1, 1, %s)"
                connection.execute(chunk, (found[0], text))
                for term in ("twin", "harbour", *(["zebra"] if key == "a_twin" else [])):
                    posting = b"INSERT INTO memory_context.agent_memory_terms VALUES ('alice', %s, %s, '{296}')"
                    connection.execute(posting, (term, found[0]))
            elif active:
                job = b"INSERT INTO memory_context.index_jobs (user_id, memory_id) VALUES ('alice', %s)"
                connection.execute(job, (found[0],))
        raw = b"raw \x00 harbour"
        statement = INSERT_OLD.replace(b"content, content_bytes", b"content_raw, content_bytes")
        row = {"key": "a_raw", "agent": "a", "content": raw, "private": False, "active": True, "summary": ""}
        found = connection.execute(statement, {**row, "digest": hashlib.sha256(raw).digest()}).fetchone()
        assert found is not None
        connection.execute("INSERT INTO memory_context.index_jobs (user_id, memory_id) VALUES ('alice', %s)", found)
        connection.execute("INSERT INTO memory_context.agent_memory_statistics VALUES ('alice', 2)")


async def test_a_file_with_the_same_content_twice_comes_back_as_one(store: MemoryStore, server: Server) -> None:
    """Both items, whom they are shared with, and one content; the same file again changes nothing."""
    hermit = agent(store, "hermit", "isolated")
    given = await hermit.store(TEXT)
    await agent(store, "a").store(TEXT)
    await hermit.share(given.key, "a")
    whole = b"".join([piece async for piece in store.upkeep.export_lines("alice")])
    assert [json.loads(line)["record"] for line in whole.splitlines()[1:]].count("item") == 2
    read = lambda: whole.splitlines(keepends=True)  # noqa: E731
    report = await store.upkeep.import_lines(read, "bob")
    assert report.stored["item"] == 2
    assert rows(server, store)["agent_memory_contents"] == 2
    reader = AgentMemory(store, "bob", "a", "elsewhere", sharing="isolated")
    assert [one.key for one in await reader.query()] == [given.key]
    again = await store.upkeep.import_lines(read, "bob")
    assert (again.stored["item"], again.known["item"]) == (0, 2)
    await store.inventory.forget("bob", [given.key])
    kept = await store.upkeep.import_lines(read, "bob")
    assert kept.kept["item"] == 2
    assert rows(server, store)["agent_memory_contents"] == 1


async def test_one_transaction_may_hold_the_same_content_twice(store: MemoryStore, server: Server) -> None:
    """Stored under two sources at once."""
    items = [NewMemory(f"k{number}", TEXT, "", 1, "custom", f"s{number}") for number in range(3)]
    assert await store.insert_memories("alice", items) == ["k0", "k1", "k2"]
    assert await store.flush_index() == IndexReport(0, 0)
    assert rows(server, store)["agent_memory_contents"] == 1
