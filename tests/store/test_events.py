"""Events are buffered and written in batches; nothing about them reaches the agent, and none is written twice."""

import asyncio
import logging
import threading
from typing import Any

import psycopg
import pytest

from memory_context import MemoryStore, StoreUnavailableError
from memory_context.foundation.runtime.background import Breaker
from memory_context.store import events
from memory_context.store.events import EventLog, NewEvent
from memory_context.store.items import NewItem
from tests.support.waiting import soon

from ..conftest import Server, database_of
from ..context.steps import a_turn_of_the_loop

Statements = list[dict[str, Any]]


def event(number: int, kind: events.EventKind = "retrieved", **others: Any) -> NewEvent:
    """Return an event that can be told from others."""
    return NewEvent(kind, (f"k{number}",), f"number {number}", "coder", "today", **others)


class Watched:
    """Sees each write of a store, and can make writes fail, before or after they are done."""

    def __init__(self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tried, self.written = asyncio.Event(), asyncio.Event()
        self.fails: str | None = None
        self.count = self.tries = 0
        write = store._database.write

        async def watched(user_id: str, *statements: Any, **kind: Any) -> Any:
            self.tries += 1
            self.tried.set()
            if self.fails == "before":
                raise StoreUnavailableError("away")
            rows = await write(user_id, *statements, **kind)
            self.count += 1
            self.written.set()
            if self.fails == "after":
                raise StoreUnavailableError("the answer was lost")
            return rows

        monkeypatch.setattr(store._database, "write", watched)


def hurry(store: MemoryStore) -> None:
    """Have single events written, and failed writes tried again, after a hundredth of a second."""
    store.events._flusher.batch_seconds = 0.01
    store.events._flusher.breaker = Breaker(0.01)


@pytest.fixture
def watched(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(store, monkeypatch)


async def details(log: EventLog, user_id: str = "alice", **others: Any) -> list[str]:
    return [one.detail for one in await log.select(user_id, "today", limit=100_000, **others)]


async def test_many_events_are_one_transaction(store: MemoryStore, watched: Watched) -> None:
    """Written by themselves when 100 are waiting; none before."""
    for number in range(events.BATCH_EVENTS - 1):
        store.events.add("alice", event(number))
    await store.items.fetch_memory("alice", "k")
    assert (watched.count, store.events.waiting) == (0, 99)
    store.events.add("alice", event(99))
    await soon(watched.written.wait())
    assert watched.count == 1
    assert await details(store.events) == [f"number {number}" for number in range(100)]


async def test_a_single_event_is_written_after_a_while(
    store: MemoryStore, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has to come by."""
    hurry(store)
    store.events.add("alice", event(1))
    await soon(watched.written.wait())
    assert await details(store.events) == ["number 1"]


async def test_closing_the_store_writes_what_is_waiting(database_url: str) -> None:
    """Of all users, each under its own name."""
    async with MemoryStore(database_url) as store:
        store.events.add("alice", event(1))
        store.events.add("bob", event(2))
    async with MemoryStore(database_url) as store:
        assert await details(store.events) == ["number 1"]
        assert await details(store.events, "bob") == ["number 2"]


def test_what_an_ended_event_loop_left_is_written_in_the_next(database_url: str) -> None:
    """A team may run under several `asyncio.run`; outside of any an event just waits."""
    store = MemoryStore(database_url)

    async def note(number: int) -> None:
        store.events.add("alice", event(number))

    async def closing() -> list[str]:
        await store.events.flush()
        found = await details(store.events)
        await store.close()
        return found

    asyncio.run(note(1))
    store.events.add("alice", event(2))
    asyncio.run(note(3))
    assert asyncio.run(closing()) == ["number 1", "number 2", "number 3"]


async def test_events_wait_while_the_store_is_away(store: MemoryStore, watched: Watched) -> None:
    """In order, and what happened meanwhile keeps the time at which it happened."""
    watched.fails = "before"
    store.events.add("alice", event(1))
    with pytest.raises(StoreUnavailableError):
        await store.events.flush()
    store.events.add("alice", event(2))
    watched.fails = None
    await store.events.flush()
    first, second = await store.events.select("alice", "today")
    assert (first.detail, second.detail) == ("number 1", "number 2")
    assert first.at < second.at


async def test_events_are_written_when_the_store_is_back_though_nobody_comes_by(
    store: MemoryStore, watched: Watched, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The outage is logged once, however often the store is tried."""
    caplog.set_level(logging.INFO, "memory_context")
    hurry(store)
    watched.fails = "before"
    store.events.add("alice", event(1))
    await soon(watched.tried.wait())
    watched.tried.clear()
    await soon(watched.tried.wait())
    watched.fails = None
    await soon(watched.written.wait())
    assert await details(store.events) == ["number 1"]
    assert caplog.text.count("events of the audit trail wait") == 1


async def test_store_that_is_away_is_not_tried_again_with_each_batch(store: MemoryStore, watched: Watched) -> None:
    """But after a while, or when somebody asks for it."""
    watched.fails = "before"
    for number in range(events.BATCH_EVENTS):
        store.events.add("alice", event(number))
    await soon(watched.tried.wait())
    for number in range(2 * events.BATCH_EVENTS):
        store.events.add("alice", event(number))
        await a_turn_of_the_loop()
    assert watched.tries == 1
    watched.fails = None
    await store.events.flush()
    assert (watched.tries, store.events.waiting) == (2, 0)
    watched.tried.clear()
    for number in range(events.BATCH_EVENTS):
        store.events.add("alice", event(number))
    await soon(watched.tried.wait())


async def test_events_of_an_erased_user_are_dropped(store: MemoryStore) -> None:
    """Those of others are not."""
    for user_id in ("alice", "bob"):
        store.events.add(user_id, event(1))
    store.events.discard("alice")
    assert not store.unwritten.is_empty
    await store.events.flush()
    assert store.unwritten.is_empty
    assert (await details(store.events), await details(store.events, "bob")) == ([], ["number 1"])


async def test_one_users_events_are_written_alone(store: MemoryStore, watched: Watched) -> None:
    for user_id in ("alice", "bob"):
        store.events.add(user_id, event(1))
    await store.events.flush("bob")
    assert (watched.count, store.events.waiting) == (1, 1)
    assert await details(store.events, "bob") == ["number 1"]


async def test_stop_ends_a_write_that_hangs_and_its_events_wait_on(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing runs on in this loop; the next flush writes them."""
    is_writing = asyncio.Event()

    async def hang(*_: Any, **__: Any) -> Any:
        is_writing.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(store._database, "write", hang)
        for number in range(events.BATCH_EVENTS):
            store.events.add("alice", event(number))
        await soon(is_writing.wait())
        await store.events.stop()
    assert [task for task in asyncio.all_tasks() if task.get_name() == "memory_context events"] == []
    assert store.events.waiting == events.BATCH_EVENTS
    await store.events.flush()
    assert len(await details(store.events)) == events.BATCH_EVENTS


async def test_oldest_events_are_dropped_beyond_the_limit(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "MOST_WAITING", 10)
    async with MemoryStore(database_url) as store:
        watched = Watched(store, monkeypatch)
        watched.fails = "before"
        for number in range(25):
            store.events.add("alice", event(number))
            if number == 20:
                with pytest.raises(StoreUnavailableError):
                    await store.events.flush()
        watched.fails = None
        await store.events.flush()
        assert await details(store.events) == [f"number {number}" for number in range(15, 25)]


async def test_a_batch_whose_answer_was_lost_counts_once(store: MemoryStore, watched: Watched) -> None:
    """It was committed, and comes again."""
    store.events.add("alice", event(1))
    watched.fails = "after"
    with pytest.raises(StoreUnavailableError):
        await store.events.flush()
    watched.fails = None
    await store.events.flush()
    assert watched.count == 2
    assert await details(store.events) == ["number 1"]


async def test_a_batch_that_is_refused_keeps_no_other_waiting(store: MemoryStore) -> None:
    store.events.add("alice", NewEvent("retrieved", ("k",), "odd", "a" * 600, "today"))
    store.events.add("bob", event(1))
    await store.events.flush()
    assert store.events.waiting == 0
    assert await details(store.events, "bob") == ["number 1"]
    store.events.add("alice", event(2))
    await store.events.flush()
    assert await details(store.events) == ["number 2"]


async def test_using_items_moves_their_last_used_at_in_the_same_batch(
    store: MemoryStore, watched: Watched, server: Server, database_url: str
) -> None:
    """One statement for all of them; what is compacted is not used by that."""
    await store.items.insert_memories("alice", [NewItem(f"text {n}", "", 1, key=f"k{n}") for n in range(4)])
    await store.items.insert_memories("bob", [NewItem("his", "", 1, key="k0")])
    name = database_of(database_url)
    server.execute("UPDATE memory_context.agent_memories SET last_used_at = '2020-01-01Z'", name)
    before = watched.count
    for number, kind in enumerate(("retrieved", "compacted", "expanded", "listed")):
        store.events.add("alice", event(number, kind))
    await store.events.flush()
    assert watched.count == before + 1
    rows = server.execute(
        "SELECT memory_key FROM memory_context.agent_memories WHERE last_used_at > '2021-01-01Z' ORDER BY 1", name
    )
    assert rows == [("k0",), ("k2",)]


async def test_an_item_that_is_held_is_not_waited_for(store: MemoryStore, server: Server, database_url: str) -> None:
    """Nor can the batch and a transaction that stores or forgets block each other."""
    await store.items.insert_memories("alice", [NewItem("text", "", 1, key="k1")])
    with psycopg.connect(database_url) as connection:
        connection.execute("SELECT FROM memory_context.agent_memories FOR UPDATE")
        store.events.add("alice", event(1))
        await soon(store.events.flush())
    assert await details(store.events) == ["number 1"]


async def test_no_user_sees_anothers_events(store: MemoryStore) -> None:
    """As with items: the rows are hidden by the database."""
    store.events.add("alice", event(1))
    await store.events.flush()
    assert await details(store.events, "bob") == []


async def test_any_text_can_be_an_event(store: MemoryStore) -> None:
    """NUL and lone surrogates too: models send them in queries."""
    odd = NewEvent("searched", (), "a\x00b \ud800", "co\x1ader", "today")
    store.events.add("al\x00ice", odd)
    await store.events.flush()
    (found,) = await store.events.select("al\x00ice", "today")
    assert (found.detail, found.agent_id) == (odd.detail, odd.agent_id)


async def test_a_write_that_is_cancelled_loses_nothing(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The events wait for the next one."""
    reached = asyncio.Event()

    async def hang(*_: Any, **__: Any) -> None:
        reached.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(store._database, "write", hang)
        store.events.add("alice", event(1))
        task = asyncio.create_task(store.events.flush())
        await reached.wait()
        assert store.events.waiting == 0
        task.cancel()
        await asyncio.wait([task])
    assert store.events.waiting == 1
    await store.events.flush()
    assert await details(store.events) == ["number 1"]


async def test_writes_of_two_event_loops_are_unwritten_until_both_are_done(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each loop has its own task, and a store serves several."""
    begun, end = threading.Barrier(3), threading.Event()

    async def hang(*_: Any, **__: Any) -> None:
        await asyncio.to_thread(begun.wait, 10)
        await asyncio.to_thread(end.wait, 10)

    monkeypatch.setattr(store._database, "write", hang)
    for user_id in ("alice", "bob"):
        store.events.add(user_id, event(1))
    writes = [asyncio.to_thread(asyncio.run, store.events.flush(user_id)) for user_id in ("alice", "bob")]
    flushed = asyncio.gather(*writes)
    await asyncio.to_thread(begun.wait, 10)
    assert store.events.unwritten == "2 events of the audit trail"
    end.set()
    await flushed
    assert store.events.unwritten == ""
