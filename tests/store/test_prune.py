"""Retention: what nobody used goes, and only that; each guard by itself."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any

import pytest

from memory_context import AgentMemory, MemoryStore
from memory_context.foundation.identifiers import SessionKey
from memory_context.memory.items import KNOWN_TYPES
from memory_context.store import tables
from memory_context.store.admin import prune
from memory_context.store.admin.prune import PruneReport
from memory_context.store.conversations import ChatMessage, NewBatch
from memory_context.store.items import NewItem
from memory_context.store.sql import Statement
from tests.conftest import Server, database_of
from tests.embeddings.fakes import FakeEmbedder

pytestmark = [pytest.mark.fake_embedder, pytest.mark.usefixtures("index_when_flushed")]

PERIOD = timedelta(days=90)
OLD = datetime.now(timezone.utc) - timedelta(days=100)

Age = Callable[..., None]


@pytest.fixture
def execute(server: Server, database_url: str) -> Callable[[str], list[tuple[object, ...]]]:
    """Run a statement as the superuser."""
    return lambda statement: server.execute(statement, database_of(database_url))


Execute = Callable[[str], list[tuple[object, ...]]]


@pytest.fixture
def age(execute: Execute) -> Age:
    """Make everything that is there a hundred days old."""

    def make_old() -> None:
        for table, columns in {
            "agent_memories": ("created_at", "updated_at", "last_used_at"),
            "agent_memory_events": ("created_at",),
            "agent_sessions": ("created_at", "last_activity_at"),
        }.items():
            setting = ", ".join(f"{column} = '{OLD.isoformat()}'" for column in columns)
            execute(f"UPDATE memory_context.{table} SET {setting}")
        execute("UPDATE memory_context.agent_sessions SET deleted_at = last_activity_at WHERE deleted_at IS NOT NULL")

    return make_old


async def keep(store: MemoryStore, key: str, session: str = "", user: str = "alice", type: str = "custom") -> None:
    """Store an item."""
    await store.items.insert_memories(user, [NewItem(f"harbour {key}", "", 1, type, key=key, session_id=session)])


async def archive(
    store: MemoryStore, session: str, *, keys: tuple[str, ...] = (), user: str = "alice", number: int = 0
) -> None:
    """Archive a batch that refers to items, and a chat message."""
    now = datetime.now(timezone.utc)
    batch = NewBatch(number, {"number": number}, 1, number == 0, keys, (), now, now)
    chat = [ChatMessage(f"m{number}", "hello", "user", now)]
    await store.conversations.append(SessionKey(user, "coder", session), batch=batch, chat=chat)


async def left(store: MemoryStore, user: str = "alice") -> set[str]:
    """Return the keys of items that are not forgotten."""
    return set(await store.items.select_keys(user, limit=None))


# --- items


async def test_what_nobody_used_is_forgotten(store: MemoryStore, execute: Execute, age: Age) -> None:
    """Its content and all it is found by; a tombstone says when. What is new stays, and is found."""
    memory = AgentMemory(store, "alice", "coder", "s")
    old = await memory.store("the old harbour")
    await store.flush_index()
    waiting = await memory.store("another harbour, not indexed")
    age()
    new = await memory.store("the new harbour")
    report = await store.prune(PERIOD)
    assert report == PruneReport(items=2, events=0, sessions=0, content_bytes=43)
    for ref in (old, waiting):
        assert "was forgotten on" in str(await memory.not_found(ref.key))
    assert execute("SELECT count(*) FROM memory_context.jobs") == [(1,)]
    await store.flush_index()
    assert [hit.item.ref for hit in await memory.search("harbour")] == [new]
    counts = {
        table: execute(f"SELECT count(*) FROM memory_context.{table}")[0][0]
        for table in ("agent_memory_chunks", "agent_memory_embeddings")
    }
    assert counts == {"agent_memory_chunks": 1, "agent_memory_embeddings": 1}
    assert execute("SELECT chunk_count FROM memory_context.agent_memory_statistics") == [(1,)]
    assert execute("SELECT count(DISTINCT content_id) FROM memory_context.agent_memory_terms") == [(1,)]
    assert await store.prune(PERIOD) == PruneReport()


@pytest.mark.parametrize("column", ["created_at", "updated_at", "last_used_at"])
async def test_an_item_that_was_stored_or_used_lately_stays(
    store: MemoryStore, execute: Execute, age: Age, column: str
) -> None:
    """Whichever of the three it was."""
    await keep(store, "k")
    age()
    execute(f"UPDATE memory_context.agent_memories SET {column} = now()")
    assert await store.prune(PERIOD) == PruneReport()
    assert await left(store) == {"k"}


async def test_what_a_user_said_of_themselves_is_never_pruned(store: MemoryStore, execute: Execute, age: Age) -> None:
    """Nor when it is asked for, which is refused by name; nor a secret that an earlier version stored."""
    for type in KNOWN_TYPES:
        await keep(store, type, type=type)
    await keep(store, "user_secret")
    execute("UPDATE memory_context.agent_memories SET memory_type = memory_key WHERE memory_key = 'user_secret'")
    age()
    await store.prune(PERIOD)
    kept = "SELECT memory_key FROM memory_context.agent_memories WHERE is_active"
    assert {key for (key,) in execute(kept)} == {"user_preference", "user_fact", "user_secret"}
    with pytest.raises(ValueError, match=r"\['user_fact', 'user_secret'\] are never pruned"):
        await store.prune(PERIOD, types=["custom", "user_fact", "user_secret"])


async def test_every_type_is_pruned_or_kept() -> None:
    """A new type has to be one of them."""
    assert sorted((*prune.PRUNED_TYPES, *prune.KEPT_TYPES)) == sorted((*KNOWN_TYPES, "user_secret", "conversation"))


async def test_only_the_given_types_are_pruned(store: MemoryStore, age: Age) -> None:
    """None of an empty list; an application's own type goes only when it is named."""
    for type in ("custom", "article", "web_content", "artikel"):
        await keep(store, type, type=type)
    age()
    assert (await store.prune(PERIOD, types=[])).items == 0
    assert (await store.prune(PERIOD, types=["custom", "article"])).items == 2
    assert await left(store) == {"web_content", "artikel"}
    assert (await store.prune(PERIOD)).items == 1
    assert await left(store) == {"artikel"}
    assert (await store.prune(PERIOD, types=["artikel"])).items == 1
    with pytest.raises(ValueError, match="give a list"):
        await store.prune(PERIOD, types="custom")


@pytest.mark.parametrize(
    ("session", "keys", "stays"),
    [
        ("s", (), True),
        ("s/reader", (), True),
        ("s/reader/clerk", (), True),
        ("other", ("k",), True),
        ("", ("k",), True),
        ("s2", (), False),
        ("s2/reader", (), False),
        ("other", (), False),
        ("other/s", ("other",), False),
        ("", (), False),
    ],
)
@pytest.mark.thorough
async def test_an_item_stays_as_long_as_an_active_session_has_it(
    store: MemoryStore, execute: Execute, age: Age, session: str, keys: tuple[str, ...], stays: bool
) -> None:
    """As its own, as a sub-agent's, or in what was archived of it; once the session is not active, the item goes."""
    await keep(store, "k", session)
    await archive(store, "s", keys=("x", *keys))
    age()
    await archive(store, "s", number=1)
    assert (await store.prune(PERIOD)).items == int(not stays)
    assert await left(store) == ({"k"} if stays else set())
    age()
    assert (await store.prune(PERIOD)).items == int(stays)


async def test_a_deleted_session_holds_nothing(store: MemoryStore, execute: Execute, age: Age) -> None:
    """However lately that was."""
    await archive(store, "s")
    await store.conversations.delete_session("alice", "s")
    await keep(store, "k", "s")
    age()
    execute("UPDATE memory_context.agent_sessions SET last_activity_at = now(), deleted_at = now()")
    assert (await store.prune(PERIOD)).items == 1


async def test_sessions_of_one_user_hold_nothing_of_another(store: MemoryStore, age: Age) -> None:
    """Though keys and sessions have the same names."""
    for user in ("alice", "bob"):
        await keep(store, "own", "s", user)
        await keep(store, "referred", "", user)
    age()
    await archive(store, "s", keys=("referred",), user="bob")
    assert (await store.prune(PERIOD)).items == 2
    assert (await left(store, "alice"), await left(store, "bob")) == (set(), {"own", "referred"})


async def test_what_is_stored_again_meanwhile_stays(
    store: MemoryStore, age: Age, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the deletion somebody got its key again, and may refer to it."""
    for key in ("k1", "k2"):
        await keep(store, key)
    age()
    database = store._database
    read = database.read

    async def read_then_store(user_id: str | None, *statements: Statement, **kind: Any) -> Any:
        rows = await read(user_id, *statements, **kind)
        if b"last_used_at <" in statements[0].query and rows[0]:
            await keep(store, "k1")
        return rows

    monkeypatch.setattr(database, "read", read_then_store)
    assert (await store.prune(PERIOD)).items == 1
    assert await left(store) == {"k1"}
    assert await store.items.fetch_contents("alice", ["k1"]) == {"k1": "harbour k1"}


# --- events and conversations


async def test_old_events_go_and_others_stay(
    store: MemoryStore, age: Age, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batches."""
    small = [replace(table, batch_rows=2) for table in tables.TABLES]
    monkeypatch.setattr(tables, "TABLES", small)
    memory = AgentMemory(store, "alice", "coder", "s")
    ref = await memory.store("the harbour")
    for _ in range(5):
        memory.trail.note("retrieved", [ref.key], "old")
    await store.events.flush()
    age()
    memory.trail.note("retrieved", [ref.key], "new")
    await store.events.flush()
    assert await store.prune(PERIOD) == PruneReport(events=5)
    assert execute("SELECT detail FROM memory_context.agent_memory_events") == [("new",)]


async def test_old_sessions_go_and_may_begin_anew(store: MemoryStore, age: Age, execute: Execute) -> None:
    """With what was said in them, not as if they had been deleted; active ones stay."""
    for session in ("old", "s"):
        await archive(store, session, keys=("k",))
    age()
    await archive(store, "s", number=1)
    assert await store.prune(PERIOD) == PruneReport()
    assert await store.prune(PERIOD, conversations=True) == PruneReport(sessions=1)
    assert [session.session_id for session in await store.conversations.sessions("alice")] == ["s"]
    assert execute("SELECT DISTINCT session_id FROM memory_context.recent_conversation_history") == [("s",)]
    await archive(store, "old")
    assert (await store.conversations.read(SessionKey("alice", "coder", "old"))).head == 0


async def test_dry_run_counts_what_pruning_takes_and_changes_nothing(
    store: MemoryStore, age: Age, execute: Execute
) -> None:
    """Of items, events and conversations; what active sessions have or refer to stays, as in earnest."""
    memory = AgentMemory(store, "alice", "coder", "old")
    for text in ("the harbour", "the old harbour"):
        ref = await memory.store(text)
    await keep(store, "referred")
    await keep(store, "fact", type="user_fact")
    memory.trail.note("retrieved", [ref.key], "old")
    await store.events.flush()
    for session in ("old", "s", "s/reader", "gone"):
        await archive(store, session, keys=("referred",))
    await store.conversations.delete_session("alice", "gone")
    age()
    await archive(store, "s", keys=("referred",), number=1)
    expected = await store.prune(PERIOD, dry_run=True)
    assert expected == PruneReport(items=2, events=1, sessions=1, content_bytes=26)
    assert await store.prune(PERIOD, dry_run=True, conversations=True) == expected
    assert await store.prune(PERIOD, conversations=True) == expected
    assert await store.prune(PERIOD, dry_run=True) == PruneReport()


async def test_a_sub_agents_session_stays_while_one_above_it_is_active(store: MemoryStore, age: Age) -> None:
    """It may be asked again."""
    for session in ("s", "s/reader", "s/reader/clerk", "s2/reader"):
        await archive(store, session)
    age()
    await archive(store, "s", number=1)
    assert (await store.prune(PERIOD, conversations=True)).sessions == 1
    sessions = await store.conversations.sessions("alice")
    assert {session.session_id for session in sessions} == {"s", "s/reader", "s/reader/clerk"}
    age()
    assert (await store.prune(PERIOD, conversations=True)).sessions == 3


async def test_tombstones_of_sessions_go_when_they_are_old(store: MemoryStore, age: Age, execute: Execute) -> None:
    """They are not counted: their archive was gone. One of a session deleted lately stays."""
    for session in ("gone", "lately"):
        await archive(store, session)
        await store.conversations.delete_session("alice", session)
    age()
    execute("UPDATE memory_context.agent_sessions SET deleted_at = now() WHERE session_id = 'lately'")
    assert await store.prune(PERIOD, conversations=True) == PruneReport()
    assert execute("SELECT session_id FROM memory_context.agent_sessions") == [("lately",)]


# --- the run


@pytest.mark.parametrize(
    ("older_than", "reason"),
    [
        (timedelta(0), "above zero"),
        (timedelta(days=-1), "above zero"),
        (timedelta.max, "before the year 1"),
        (datetime(2024, 1, 1), "no timezone"),
        (datetime.now(timezone.utc) + timedelta(days=1), "in the past"),
    ],
)
async def test_an_age_that_makes_no_sense_is_refused(
    store: MemoryStore, older_than: timedelta | datetime, reason: str
) -> None:
    """Before anything is forgotten."""
    await keep(store, "k")
    with pytest.raises(ValueError, match=f"older_than=.*{reason}"):
        await store.prune(older_than)
    assert await left(store) == {"k"}


async def test_prune_refuses_the_present_moment(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would forget what was stored a moment ago."""

    class Stopped(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Stopped":
            return cls(2026, 1, 1, tzinfo=tz)

    monkeypatch.setattr(prune, "datetime", Stopped)
    with pytest.raises(ValueError, match="in the past"):
        await store.prune(Stopped.now(timezone.utc))


async def test_a_time_may_be_given_instead_of_an_age(store: MemoryStore, age: Age) -> None:
    """What is older than that goes."""
    await keep(store, "k")
    age()
    assert (await store.prune(OLD)).items == 0
    assert (await store.prune(OLD + timedelta(seconds=1))).items == 1


async def fill(store: MemoryStore, age: Age) -> None:
    """Let three users have seven old items and two old sessions each, and one item that stays."""
    for user in ("alice", "bob", "carol"):
        for number in range(7):
            await keep(store, f"k{number}", user=user)
        for session in ("s1", "s2"):
            await archive(store, session, user=user)
    age()
    for user in ("alice", "bob", "carol"):
        await keep(store, "new", user=user)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prune, "BATCH_ITEMS", 3)
    monkeypatch.setattr(prune, "BATCH_SESSIONS", 1)
    monkeypatch.setattr("memory_context.store.database._USERS_PER_PAGE", 2)


@pytest.mark.usefixtures("small_batches")
async def test_progress_is_told_after_each_transaction(store: MemoryStore, age: Age) -> None:
    """It never goes back, and ends with what is reported."""
    await fill(store, age)
    told: list[tuple[int, int]] = []
    report = await store.prune(PERIOD, conversations=True, progress=lambda *done: told.append(done))
    assert report == PruneReport(items=21, sessions=6, content_bytes=210)
    assert told == [(0, 3)] * 5 + [(1, 3)] * 6 + [(2, 3)] * 6 + [(3, 3)]
    for user in ("alice", "bob", "carol"):
        assert await left(store, user) == {"new"}


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("after", range(1, 16, 2))
@pytest.mark.thorough
async def test_broken_off_it_is_called_again(store: MemoryStore, age: Age, after: int) -> None:
    """Wherever that was: what was reported done is done, and the rest follows."""
    await fill(store, age)
    told: list[int] = []

    def stop(users_done: int, _: int) -> None:
        told.append(users_done)
        if len(told) == after:
            raise KeyError("stop")

    with pytest.raises(KeyError):
        await store.prune(PERIOD, conversations=True, progress=stop)
    await store.prune(PERIOD, conversations=True)
    for user in ("alice", "bob", "carol"):
        assert await left(store, user) == {"new"}
        assert await store.conversations.sessions(user) == []


@pytest.mark.usefixtures("small_batches")
async def test_two_at_once_share_the_work(store: MemoryStore, age: Age, database_url: str) -> None:
    """Beside those who store, index, archive and forget; nobody blocks anybody, and nothing is counted twice."""
    await fill(store, age)
    work: list[Awaitable[Any]] = []
    async with MemoryStore(database_url, FakeEmbedder()) as other:
        for user in ("alice", "bob", "carol"):
            work += [archive(other, "s3", user=user), keep(other, "newer", user=user)]
        done = await asyncio.gather(
            store.prune(PERIOD, conversations=True),
            other.prune(PERIOD, conversations=True),
            store.flush_index(),
            other.flush_index(),
            *work,
        )
    assert done[0].items + done[1].items == 21
    assert done[0].content_bytes + done[1].content_bytes == 210
    for user in ("alice", "bob", "carol"):
        assert await left(store, user) == {"new", "newer"}
        assert [session.session_id for session in await store.conversations.sessions(user)] == ["s3"]
