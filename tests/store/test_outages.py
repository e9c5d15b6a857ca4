"""What happens when the server is down, comes back, or hangs: an error in time, and later calls work by themselves."""

import asyncio
import gc
import logging
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from psycopg import waiting
from psycopg.conninfo import make_conninfo

from memory_context.foundation import errors
from memory_context.store import embedded, pool
from memory_context.store.admin import status
from memory_context.store.connection import Connection, connect
from memory_context.store.items import NewItem
from memory_context.store.limits import StoreLimits
from memory_context.store.memory_store import MemoryStore
from tests.conftest import Server, database_of
from tests.context.steps import a_turn_of_the_loop
from tests.support.outages import hanging
from tests.support.waiting import PATIENT_SECONDS, seconds_waited

ITEM = [NewItem("content", "", 1, key="k")]


async def test_a_cancelled_call_returns_at_once_and_leaves_nothing_open(server: Server, database_url: str) -> None:
    """Though the server hangs: neither connection nor transaction stays, and the next call works."""
    async with MemoryStore(database_url, pool_size=1) as store:
        await store.items.insert_memories("alice", ITEM)
        with hanging(server):
            for operation in (store.items.fetch_memory("alice", "k"), store.items.insert_memories("alice", ITEM)):
                with seconds_waited() as waited, pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(operation, 0.1)
                assert waited() < 0.4
        assert await store.items.fetch_contents("alice", ["k"]) == {"k": "content"}
        states = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
        assert server.execute(states) == [(0,)]


async def test_a_call_cancelled_anywhere_ends_without_a_word(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At any of its steps, also those at which the driver only yields on a busy machine: nothing of it complains."""
    complaints: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    monkeypatch.setattr(waiting, "MAX_BUSY_TIME", -1, raising=False)
    await store.items.insert_memories("alice", ITEM)
    is_done, steps = False, 0
    while not is_done:
        call = asyncio.create_task(store.items.fetch_contents("alice", ["k"]))
        for _ in range(steps):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        is_done = not call.cancelled()
        steps += 1
    del call
    gc.collect()
    assert complaints == []


def test_a_hanging_server_does_not_hold_up_the_end_of_the_program(server: Server, database_url: str) -> None:
    """Nothing runs in the background that `asyncio.run` would have to wait for."""
    store = MemoryStore(database_url, limits=StoreLimits(opening_seconds=2 * PATIENT_SECONDS))

    async def impatient() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(store.open(), 0.1)

    with hanging(server):
        started = time.monotonic()
        asyncio.run(impatient())
        assert time.monotonic() - started < PATIENT_SECONDS
    asyncio.run(store.items.insert_memories("alice", ITEM))  # type: ignore[arg-type]
    asyncio.run(store.close())


async def test_an_impatient_first_caller_does_not_undo_the_opening(database_url: str) -> None:
    """The preparation goes on for the callers that come after."""
    store = MemoryStore(database_url)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(store.open(), 0.000_001)
    assert await store.items.insert_memories("alice", ITEM) == ["k"]
    await store.close()


async def test_store_closed_while_it_opens_is_an_error_of_the_caller_and_no_cancellation(database_url: str) -> None:
    """A cancellation that nobody asked for would end the caller's task without a word; the next call opens it again."""
    store = MemoryStore(database_url)
    openings = [asyncio.create_task(store.open()), asyncio.create_task(store.items.insert_memories("alice", ITEM))]
    await a_turn_of_the_loop()
    await store.close()
    for outcome in await asyncio.gather(*openings, return_exceptions=True):
        assert isinstance(outcome, errors.StoreUnavailableError)
        assert "was closed while it was being opened" in str(outcome)
    assert await store.items.insert_memories("alice", ITEM) == ["k"]
    await store.close()


async def test_caller_cancelled_while_the_store_opens_is_cancelled_alone(database_url: str) -> None:
    """The others wait on, and no error stands in for the cancellation."""
    store = MemoryStore(database_url)
    cancelled, waiting = asyncio.create_task(store.open()), asyncio.create_task(store.open())
    await a_turn_of_the_loop()
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    await waiting
    await store.close()


async def test_error_of_an_opening_whose_caller_was_cancelled_is_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is left to take it; asyncio would print it as an exception that was never retrieved."""
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, complaint: complaints.append(complaint))

    async def refuse(*_: object, **__: object) -> None:
        opening = asyncio.current_task()
        assert opening is not None
        opening.add_done_callback(lambda _: callers[0].cancel())
        raise psycopg.OperationalError("refused")

    monkeypatch.setattr(Connection, "connect", refuse)
    callers = [asyncio.create_task(connect({}, 5))]
    await asyncio.wait(callers)
    assert callers.pop().cancelled()  # with it goes the last reference to what it waited for
    gc.collect()
    assert complaints == []


async def test_connections_that_the_server_closed_are_replaced_unnoticed(store: MemoryStore, server: Server) -> None:
    """A restart of the server between two calls is no error."""
    await asyncio.gather(*(store.items.insert_memories("alice", ITEM) for _ in range(5)))
    server.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename LIKE 'memory%'")
    for _ in range(5):
        assert await store.items.fetch_contents("alice", ["k"]) == {"k": "content"}


async def test_a_server_that_was_down_is_used_when_it_is_there(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The refusal is told at once, not after a timeout; nothing is logged that the error says."""
    params = embedded.start(home)
    url = make_conninfo(**params)
    embedded.release(home)
    store = MemoryStore(url)
    for _ in range(2):
        with pytest.raises(errors.StoreUnavailableError, match="does not answer"):
            await store.items.insert_memories("alice", ITEM)
    embedded.start(home)
    assert await store.items.insert_memories("alice", ITEM) == ["k"]
    embedded.release(home)
    for _ in range(2):
        with pytest.raises(errors.StoreUnavailableError):
            await store.items.fetch_memory("alice", "k")
    embedded.start(home)
    assert await store.items.fetch_contents("alice", ["k"]) == {"k": "content"}
    await store.close()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_the_embedded_server_is_started_again(home: Path) -> None:
    """The first call after somebody stopped it may fail, the next one has it back."""
    async with MemoryStore() as store:
        await store.items.insert_memories("alice", ITEM)
        embedded.release(home)
        with pytest.raises(errors.StoreUnavailableError):
            await store.items.fetch_memory("alice", "k")
        assert await store.items.fetch_contents("alice", ["k"]) == {"k": "content"}


@pytest.mark.usefixtures("index_when_flushed")  # whose job would take the one connection
async def test_a_busy_pool_says_so(database_url: str, server: Server) -> None:
    """Waiting for a connection has a bound."""
    async with MemoryStore(database_url, pool_size=1, limits=StoreLimits(slot_seconds=0.1)) as store:
        await store.items.insert_memories("alice", ITEM)
        await asyncio.sleep(store.limits.slot_seconds)  # a newer answer is a sign of life: then the wait is longer
        with hanging(server):
            calls = [asyncio.create_task(store.items.fetch_contents("alice", ["k"])) for _ in range(2)]
            (refused,), (served,) = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            with pytest.raises(errors.StoreUnavailableError, match="busy"):
                refused.result()
        assert await served == {"k": "content"}


async def test_a_transaction_that_waited_for_a_connection_has_a_share_of_its_time_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if the wait took nearly all of it: the database answers, others were before it."""
    now, left = [0.0], list[float]()

    async def away(params: object, seconds: float, adapters: object) -> None:
        left.append(seconds)
        raise psycopg.OperationalError("away")

    monkeypatch.setattr(pool, "connect", away)
    monkeypatch.setattr(pool, "time", SimpleNamespace(monotonic=lambda: now[0]))
    connections = pool.ConnectionPool(1, slot_seconds=PATIENT_SECONDS)
    for waited in (0, 95):
        await connections._slots.acquire()
        run = asyncio.create_task(connections.run({}, [], 100))
        await a_turn_of_the_loop()
        now[0] += waited
        connections._slots.release()
        with pytest.raises(psycopg.OperationalError):
            await run
    assert left == [100, 40]


async def test_a_database_that_was_made_anew_gets_its_schema(server: Server, database_url: str) -> None:
    """The schema is looked at again after an error."""
    async with MemoryStore(database_url) as store:
        await store.items.insert_memories("alice", ITEM)
        server.execute("DROP SCHEMA memory_context CASCADE", database_of(database_url))
        with pytest.raises(errors.StoreError):
            await store.items.fetch_memory("alice", "k")
        assert await store.items.fetch_memory("alice", "k") is None


async def test_status_closes_its_connection(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a pool of its own, since it does not migrate."""
    pools: list[pool.ConnectionPool] = []

    class Noted(pool.ConnectionPool):
        def __init__(self, size: int, slot_seconds: float) -> None:
            super().__init__(size, slot_seconds)
            pools.append(self)

    monkeypatch.setattr(status, "ConnectionPool", Noted)
    await store.admin.status()
    assert [one.held for one in pools] == [0]
