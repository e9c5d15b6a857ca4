"""Every transaction ends by a limit, at the server or at the client, and the next one finds a fresh connection."""

import asyncio
import gc
import inspect
import re
import time
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql
from psycopg.abc import PQGen
from psycopg.waiting import Wait

from benchmarks.proxy import Proxy
from memory_context.foundation.errors import StoreUnavailableError
from memory_context.foundation.identifiers import SessionKey
from memory_context.store.connection import DeadlineError, dedicated
from memory_context.store.items import NewItem
from memory_context.store.limits import StoreLimits, _calls, at_most, within
from memory_context.store.location import read_url
from memory_context.store.memory_store import MemoryStore
from memory_context.store.pool import ConnectionPool
from memory_context.store.sql import Statement
from tests.support.waiting import PATIENT_SECONDS, soon, until

from ..conftest import Server, database_of

ITEM = [NewItem("content", "", 1, key="k")]
OTHER = [NewItem("content of another", "", 1, key="l")]
QUICK = StoreLimits(transaction_seconds=0.4, opening_seconds=0.4)
SLOW_SERVER = StoreLimits(transaction_seconds=0.3, statement_seconds=60, lock_seconds=60)
WAITING_READS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%may_read%'"


@contextmanager
def locked(url: str, statement: str) -> Iterator[psycopg.Connection]:
    """Hold the locks of a statement in another connection."""
    with psycopg.connect(url) as connection:
        connection.execute(sql.SQL(statement))  # type: ignore[arg-type]
        yield connection
        connection.rollback()


def table_locked(url: str):
    return locked(url, "LOCK TABLE memory_context.agent_memories IN ACCESS EXCLUSIVE MODE")


async def ended(store: MemoryStore, call: Awaitable[object], limits: StoreLimits = QUICK) -> StoreUnavailableError:
    """Return what a call raises under short limits, which hold for nothing else: a busy machine needs longer."""
    database = store._database
    usual, database.limits = database.limits, limits
    try:
        with pytest.raises(StoreUnavailableError) as caught:
            await soon(call)
        return caught.value
    finally:
        database.limits = usual


async def test_silent_connection_is_given_up_and_the_next_call_opens_another(proxy: Proxy, proxy_url: str):
    """Also with a single slot: the dead transaction gives it back, and the server is asked to cancel."""
    async with MemoryStore(proxy_url, pool_size=1) as store:
        await store.items.insert_memories("alice", ITEM)
        proxy.fail("silent", new=False)
        error = await ended(store, store.items.fetch_memory("alice", "k"))
        assert isinstance(error.__cause__, DeadlineError)
        assert (found := re.search(r"no whole answer within (\S+) s", str(error)))
        assert float(found[1]) < PATIENT_SECONDS
        assert await store.items.fetch_contents("alice", ["k"]) == {"k": "content"}


async def test_idle_connections_are_not_trusted_after_one_fell_silent(proxy: Proxy, proxy_url: str):
    """They lead the same way; each would cost another wait."""
    async with MemoryStore(proxy_url) as store:
        await asyncio.gather(*(store.items.insert_memories("alice", ITEM) for _ in range(5)))
        proxy.fail("silent", new=False)
        await ended(store, store.items.fetch_memory("alice", "k"))
        for _ in range(5):
            assert await store.items.fetch_contents("alice", ["k"]) == {"k": "content"}


async def test_silent_server_ends_connecting(proxy: Proxy, proxy_url: str):
    """The driver alone would wait at least 2 s for each address."""
    store = MemoryStore(proxy_url)
    proxy.fail("silent")
    error = await ended(store, store.items.fetch_memory("alice", "k"))
    assert "no connection within" in str(error)
    proxy.heal()
    assert await store.items.fetch_memory("alice", "k") is None
    await store.close()


async def test_dripping_answer_is_bounded_as_a_whole(proxy: Proxy, proxy_url: str):
    """Bytes that keep coming do not extend the transaction."""
    async with MemoryStore(proxy_url) as store:
        await store.items.insert_memories("alice", ITEM)
        proxy.fail("drip")
        assert isinstance((await ended(store, store.items.fetch_memory("alice", "k"))).__cause__, DeadlineError)
        proxy.heal()
        assert await store.items.fetch_contents("alice", ["k"]) == {"k": "content"}


async def test_table_lock_ends_by_the_lock_timeout_of_the_server(database_url: str):
    """The server answers, so the database is not looked at anew, and works on when the lock is gone."""
    async with MemoryStore(database_url) as store:
        with table_locked(database_url):
            fetched, stored = store.items.fetch_memory("alice", "k"), store.items.insert_memories("alice", ITEM)
            for call in (fetched, stored, store.admin.status()):
                error = await ended(store, call, StoreLimits(lock_seconds=0.1))
                assert isinstance(error.__cause__, psycopg.errors.LockNotAvailable)
        assert await store.items.insert_memories("alice", ITEM) == ["k"]


async def test_long_statement_ends_by_the_statement_timeout_of_the_server(database_url: str):
    async with MemoryStore(database_url) as store:
        with table_locked(database_url):
            error = await ended(store, store.items.select_keys("alice"), StoreLimits(statement_seconds=0.1))
        assert isinstance(error.__cause__, psycopg.errors.QueryCanceled)


async def test_statement_of_a_given_up_connection_is_cancelled(server: Server, proxy: Proxy, proxy_url: str):
    """The client asks for it on another connection; the server's own timeouts would take a minute here."""
    async with MemoryStore(proxy_url) as store:
        await store.items.insert_memories("alice", ITEM)
        with table_locked(server.url(database_of(proxy_url))):
            await ended(store, store.items.fetch_memory("alice", "k"), SLOW_SERVER)
            await until(lambda: server.execute(WAITING_READS) == [(0,)])
        await until(lambda: proxy.cancels == 1)


async def test_commit_without_an_answer_is_settled_by_repeating_it(proxy: Proxy, proxy_url: str, server: Server):
    """The transaction took effect and its answer was lost; the same items again have the same keys, once."""
    async with MemoryStore(proxy_url) as store:
        await store.items.insert_memories("alice", ITEM)
        proxy.fail("mute", new=False)
        patient = StoreLimits(transaction_seconds=3)  # the server has the request before it is cancelled
        error = await ended(store, store.items.insert_memories("alice", OTHER), patient)
        assert isinstance(error.__cause__, DeadlineError)
        count = "SELECT count(*) FROM memory_context.agent_memories WHERE memory_key = 'l'"
        await until(lambda: server.execute(count, database_of(proxy_url)) == [(1,)])
        assert await store.items.insert_memories("alice", OTHER) == ["l"]
        assert server.execute(count, database_of(proxy_url)) == [(1,)]


async def test_cancelled_call_sends_a_cancel_request_and_leaves_no_task(proxy: Proxy, proxy_url: str, server: Server):
    """Nothing is pending in the event loop afterwards but what serves the proxy."""
    async with MemoryStore(proxy_url, limits=replace(SLOW_SERVER, transaction_seconds=60)) as store:
        await store.items.insert_memories("alice", ITEM)
        with table_locked(server.url(database_of(proxy_url))):
            call = asyncio.create_task(store.items.fetch_memory("alice", "k"))
            await until(lambda: server.execute(WAITING_READS) == [(1,)])
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until(lambda: server.execute(WAITING_READS) == [(0,)])
        await until(lambda: proxy.cancels == 1)


async def test_content_gets_time_by_its_size(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """A further second for each 10 MB, for the transaction and for each of its statements."""
    seconds: list[float] = []
    run = ConnectionPool.run

    async def noted(pool, params, statements, limit, **others):
        seconds.append(limit)
        return await run(pool, params, statements, limit, **others)

    monkeypatch.setattr(ConnectionPool, "run", noted)
    await store.items.insert_memories("alice", [NewItem("x" * 2_000_000, "", 1, key="k")])
    assert 5.2 <= seconds[0] < 5.21


async def test_answer_that_keeps_coming_extends_the_deadline_by_its_bytes(proxy: Proxy, proxy_url: str):
    """Content that takes longer than a transaction may, at more than the least rate, comes whole."""
    long = "x" * 1_200_000
    async with MemoryStore(proxy_url) as store:
        await store.items.insert_memories("alice", [NewItem(long, "", 1, key="k")])
        proxy.fail("slow")
        store._database.limits = StoreLimits(transaction_seconds=0.5, bytes_per_second=100_000)
        assert await soon(store.items.fetch_contents("alice", ["k"])) == {"k": long}


async def test_call_gets_time_for_the_bytes_of_its_transactions(store: MemoryStore):
    """Also the call around it; what was sent before it began does not count."""
    left: list[float] = []

    async def call(key: str) -> None:
        await store.items.insert_memories("alice", [NewItem("x" * 10_000, "", 1, key=key)])
        left.append(_calls.get()[-1].ends_at - time.monotonic())

    async def calls() -> None:
        await within(PATIENT_SECONDS, call("k"))
        await within(PATIENT_SECONDS, call("l"))
        left.append(_calls.get()[-1].ends_at - time.monotonic())

    store._database.limits = StoreLimits(bytes_per_second=1)
    await within(PATIENT_SECONDS, calls())
    assert [round(seconds, -4) for seconds in left] == [10_000, 10_000, 20_000]


async def test_call_that_fails_when_its_time_is_over_leaves_no_complaint():
    """Nobody waits for it any more, and asyncio would print a traceback when it is collected."""
    complaints: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))

    async def fails_late() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError

    with pytest.raises(StoreUnavailableError):
        await within(0.01, fails_late())
    gc.collect()
    assert complaints == []


async def test_history_may_come_slowly_but_not_fall_silent(proxy: Proxy, proxy_url: str):
    """The transfer of a session gets time by its bytes; a connection that says nothing is given up like any other."""
    async with MemoryStore(proxy_url) as store:
        await store.conversations.sessions("alice")
        proxy.fail("silent", new=False)
        error = await ended(store, store.conversations.read(SessionKey("alice", "a", "s")))
        assert isinstance(error.__cause__, DeadlineError)


async def test_step_shortens_the_transactions_in_it(proxy: Proxy, proxy_url: str):
    """Those of tasks that are made in it too; outside of it the usual limits hold."""
    async with MemoryStore(proxy_url) as store:
        await store.items.insert_memories("alice", ITEM)
        proxy.fail("silent", new=False)
        with at_most(0.2):
            call = asyncio.create_task(store.items.fetch_memory("alice", "k"))
        with pytest.raises(StoreUnavailableError):
            await soon(call, StoreLimits().transaction_seconds)
        assert await store.items.fetch_contents("alice", ["k"]) == {"k": "content"}


async def test_server_gives_up_before_a_step_does(store: MemoryStore):
    """Locks and statements get a share of what the step has left, so that the server says what it waited for."""
    names = Statement(
        b"SELECT current_setting('lock_timeout') AS lock, current_setting('statement_timeout') AS statement"
    )
    with at_most(2):
        ((row,),) = await store._database.read("alice", names)
    for limit in row.values():
        assert limit.endswith("ms")
        assert 0 < int(limit.removesuffix("ms")) <= 1600


async def test_late_exchange_is_closed_and_not_left_suspended(database_url: str):
    """Its clean-up runs now, not when it is collected."""

    def never_ready() -> PQGen[None]:
        while True:
            yield Wait.R

    exchange = never_ready()
    async with dedicated(read_url(database_url), 10) as connection:
        connection.allow(0.01)
        with pytest.raises(DeadlineError):
            await soon(connection.wait(exchange))
    assert inspect.getgeneratorstate(exchange) == inspect.GEN_CLOSED
