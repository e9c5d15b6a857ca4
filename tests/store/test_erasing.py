"""Erasing a user: no row is left in any table, whoever else is at work, and other users keep theirs."""

import asyncio
from dataclasses import replace
from datetime import datetime, timezone
from itertools import pairwise
from uuid import uuid4

import psycopg
import pytest
from autogen_core.models import UserMessage

from memory_context import AgentMemory, MemoryContext, MemoryCriteria, MemoryStore
from memory_context.foundation.errors import SessionGoneError
from memory_context.foundation.identifiers import SessionKey
from memory_context.store import tables
from memory_context.store.conversations import ChatMessage, NewBatch
from memory_context.store.items import NewItem
from memory_context.store.secret_rows import SealedSecret
from memory_context.store.threads import ThreadElement, ThreadStep
from tests.conftest import Server, StartPython, database_of
from tests.support.rows import row_counts
from tests.support.statements import login_of
from tests.support.waiting import soon

pytestmark = [
    pytest.mark.fake_embedder,
    pytest.mark.usefixtures("index_when_flushed"),
    pytest.mark.thorough,
]


async def fill(store: MemoryStore, user: str) -> None:
    """Give a user rows in every table: three items, a forgotten one, indexed and not; a session and a deleted one."""
    memory = AgentMemory(store, user, "coder", "s")
    for number in range(3):
        await memory.store(f"the harbour {number}\n" * 100)
    forgotten = await memory.store("forgotten")
    await AgentMemory(store, user, "hermit", "s", sharing="isolated").store("private")
    await store.flush_index()
    await memory.forget(forgotten.key)
    await memory.store("not indexed yet")
    memory.trail.note("retrieved", [forgotten.key], "full")
    await memory.notes.append("notes")
    await store.secret_rows.upsert(user, [SealedSecret("token", "", "key", bytes(12), b"sealed")])
    await store.events.flush(user)
    await archive(store, user, "s", 0)
    await archive(store, user, "gone", 0)
    assert await store.conversations.delete_session(user, "gone")
    for number, text in enumerate(("I prefer tabs", "prefer tabs.")):
        fact = NewItem(text, text, 3, "user_fact", key=f"fact_{number}a")
        await store.statements.insert_statement(user, fact, datetime(2026, 1, 1, number, tzinfo=timezone.utc))
    assert await store.consolidate(user)
    await store.claim_rows.claim(SessionKey(user, "coder", "s"), uuid4())
    await store.threads.upsert_user(user, {})
    await store.threads.upsert_step(user, ThreadStep("step", f"of {user}", {}), is_update=False)
    await store.threads.upsert_element(user, ThreadElement("element", f"of {user}", "step", {}), b"content")


async def archive(store: MemoryStore, user: str, session: str, number: int) -> None:
    """Archive a batch and a chat message."""
    now = datetime.now(timezone.utc)
    batch = NewBatch(number, {"number": number}, 1, number == 0, (), (), now, now)
    chat = [ChatMessage(f"m{number}", "hello", "user", now)]
    await store.conversations.append(SessionKey(user, "coder", session), batch=batch, chat=chat)


async def test_nothing_of_the_user_is_left(store: MemoryStore, server: Server, database_url: str) -> None:
    """In no table, the list of users included; the answer counts the items, not the tombstones."""
    for user in ("bob", "alice"):
        await fill(store, user)
    before = row_counts(server, database_url, "bob")
    assert all(row_counts(server, database_url, "alice").values()), "a table the test does not fill"
    assert await store.erase_user("alice") == 7
    assert set(row_counts(server, database_url, "alice").values()) == {0}
    assert row_counts(server, database_url, "bob") == before
    assert await store.erase_user("alice") == 0
    assert await store.erase_user("nobody") == 0


async def test_an_erased_user_begins_anew(store: MemoryStore) -> None:
    """Keys are unknown, not forgotten, and may be used again; the count of passages is right."""
    memory = AgentMemory(store, "alice", "coder", "s")
    ref = await memory.store("the harbour")
    await store.flush_index()
    await store.erase_user("alice")
    assert str(await memory.not_found(ref.key)) == f"no item {ref.key!r} in this memory"
    assert await memory.search("harbour") == []
    assert await memory.store("the harbour") == ref
    await store.flush_index()
    (hit,) = await memory.search("harbour")
    assert hit.item.ref == ref
    _, profile = await store.search.candidates("alice", "", ["harbour"], MemoryCriteria())
    assert (profile.passages, profile.frequencies["harbour"]) == (1, 1)


async def test_running_session_of_an_erased_user_is_not_written_again(
    store: MemoryStore, server: Server, database_url: str
) -> None:
    """Whichever process erased the user; a session that begins afterwards is archived."""
    context = MemoryContext("alice", "coder", "s", store)
    await context.add_message(UserMessage(content="My boat is called Kestrel.", source="user"))
    await context.archive()
    async with MemoryStore(database_url) as elsewhere:
        await elsewhere.erase_user("alice")
    await context.add_message(UserMessage(content="Go on.", source="user"))
    with pytest.raises(SessionGoneError, match="'s' was erased with its user"):
        await context.archive()
    await context.close()
    assert set(row_counts(server, database_url, "alice").values()) == {0}
    context = MemoryContext("alice", "coder", "s", store)
    await context.add_message(UserMessage(content="Hello.", source="user"))
    await context.close()
    assert [one.session_id for one in await store.conversations.sessions("alice")] == ["s"]


CLAIM = """
import asyncio, os, sys
from tests.embeddings.fakes import FakeEmbedder
from memory_context.store.memory_store import MemoryStore

class Waiting(FakeEmbedder):
    async def embed(self, texts, purpose):
        print("embedding", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        return await super().embed(texts, purpose)

async def main():
    store = MemoryStore(os.environ["TEST_URL"], Waiting())
    await store.flush_index()
    await store.close()

asyncio.run(main())
"""


async def test_an_indexer_of_another_process_that_holds_a_claim_finds_it_gone(
    store: MemoryStore, server: Server, database_url: str, start_python: StartPython
) -> None:
    """It is embedding while the user is erased; it neither fails nor writes anything for the user."""
    memory = AgentMemory(store, "alice", "coder", "s")
    for number in range(3):
        await memory.store(f"the harbour {number}")
    process = await start_python(CLAIM, TEST_URL=database_url)
    assert process.stdout is not None
    assert process.stdin is not None
    assert await process.stdout.readline() == b"embedding\n"
    claimed = "SELECT count(*) FROM memory_context.jobs WHERE claim IS NOT NULL AND kind = 'embed'"
    assert server.execute(claimed, database_of(database_url)) == [(3,)]
    assert await soon(store.erase_user("alice")) == 3
    assert set(row_counts(server, database_url, "alice").values()) == {0}
    _, errors = await soon(process.communicate(b"\n" * 50))
    assert (process.returncode, errors) == (0, b"")
    assert set(row_counts(server, database_url, "alice").values()) == {0}


async def test_a_user_of_conversations_only_is_erased_too(
    store: MemoryStore, server: Server, database_url: str
) -> None:
    """There is no item; tombstones of sessions go as well, so that the session may begin anew."""
    await archive(store, "alice", "s", 0)
    assert row_counts(server, database_url, "alice")["memory_users"] == 1
    await store.conversations.delete_session("alice", "s")
    assert await store.erase_user("alice") == 0
    assert set(row_counts(server, database_url, "alice").values()) == {0}
    await archive(store, "alice", "s", 0)
    assert (await store.conversations.read(SessionKey("alice", "coder", "s"))).head == 0


async def test_what_is_archived_while_a_user_is_erased_goes_too_or_stays_whole(
    store: MemoryStore, server: Server, database_url: str
) -> None:
    """All at once, many times: nobody blocks anybody, and whoever has a session is on the list of users."""
    for round_ in range(10):
        await asyncio.gather(
            *(archive(store, "alice", f"s{number}", round_) for number in range(4)),
            store.erase_user("alice"),
            *(archive(store, "alice", f"s{number}", round_ + 100) for number in range(4)),
        )
        left = row_counts(server, database_url, "alice")
        sessions = await store.conversations.sessions("alice")
        assert left["agent_sessions"] == len(sessions)
        assert bool(left["memory_users"]) or not sessions
        for session in sessions:
            read = await store.conversations.read(SessionKey("alice", "coder", session.session_id))
            assert session.message_count == len(read.batches)
            assert session.chat_count == len(await store.conversations.chat_page("alice", session.session_id))
    await store.erase_user("alice")
    assert set(row_counts(server, database_url, "alice").values()) == {0}


async def test_erasing_waits_for_whoever_is_beginning_a_session(
    store: MemoryStore, server: Server, database_url: str
) -> None:
    """It would not see the session yet, and leave it without a user on the list."""
    await archive(store, "alice", "s", 0)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%memory_users%'"
    with psycopg.connect(server.url(database_of(database_url), user=login_of(database_of(database_url)))) as beginning:
        beginning.execute("SELECT memory_context.act_as('alice')")
        beginning.execute("SELECT memory_context.touch_session('alice', 'new', 'coder', NULL, false, NULL)")
        erasing = asyncio.create_task(store.erase_user("alice"))
        while not erasing.done() and server.execute(waiting) == [(0,)]:
            await asyncio.wait([erasing], timeout=0.01)
        assert not erasing.done()
        beginning.commit()
        assert await erasing == 0
    assert set(row_counts(server, database_url, "alice").values()) == {0}


async def test_erasing_waits_for_whoever_is_writing_passages(
    store: MemoryStore, server: Server, database_url: str
) -> None:
    """All at once, many times: nobody blocks anybody, and what is left is whole or nothing."""
    memory = AgentMemory(store, "alice", "coder", "s")

    async def store_some(round_: int) -> None:
        for number in range(5):
            await memory.store(f"the harbour {round_} {number}\n" * 20)

    for round_ in range(10):
        await store_some(round_)
        await asyncio.gather(store.flush_index(), store.erase_user("alice"), store_some(round_), store.flush_index())
        await store.flush_index()
        items = await memory.query()
        hits = await memory.search("harbour", limit=50)
        assert {hit.item.key for hit in hits} <= {item.key for item in items}
        left = row_counts(server, database_url, "alice")
        assert bool(left["memory_users"]) or not items
        _, profile = await store.search.candidates("alice", "", ["harbour"], MemoryCriteria())
        assert profile.passages == left["agent_memory_chunks"] == left["agent_memory_embeddings"]
        assert profile.frequencies["harbour"] == profile.passages
    await store.erase_user("alice")
    assert set(row_counts(server, database_url, "alice").values()) == {0}


@pytest.mark.parametrize("way", ["erase", "forget"])
async def test_many_items_go_in_several_transactions(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """One transaction for all of them could take longer than a batch may; what is interrupted goes on."""
    monkeypatch.setattr("memory_context.store.forget.BATCH_ITEMS", 2)
    small = [replace(table, batch_rows=2) for table in tables.TABLES]
    monkeypatch.setattr(tables, "TABLES", small)
    items = [NewItem(str(n), "", 1, key=f"k{n}", agent_id="a", session_id="s") for n in range(7)]
    await store.items.insert_memories("alice", items)
    for number in range(3):
        await archive(store, "alice", "s", number)
    await store.flush_index()
    before = store._database.write_transactions
    done: list[tuple[int, int]] = []
    if way == "erase":
        assert await store.erase_user("alice", progress=lambda *one: done.append(one)) == 7
    else:
        memory = AgentMemory(store, "alice", "a", "s")
        assert await memory.clear(progress=lambda *one: done.append(one)) == 7
    assert store._database.write_transactions - before >= 4
    assert await store.items.select_keys("alice") == []
    total = 13 if way == "erase" else 7  # with the batches of both kinds
    assert done == sorted(done)
    assert (done[0], done[-1]) == ((0, total), (total, total))
    steps = [after - before for (before, _), (after, _) in pairwise(done)]
    assert max(steps) == 2, "each step is a batch"
