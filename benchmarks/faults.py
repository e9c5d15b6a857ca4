"""What calls do while the database fails: each public call and tool under each fault, and which limit ended it.

The same table is a test, with short limits (`tests/faults`), and a benchmark, at the defaults.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from benchmarks.comparing import Measured
from benchmarks.fault_calls import (
    Call,
    buffer_large,
    closing_calls,
    closing_contexts,
    fill,
    own_output,
    store_calls,
    surface_calls,
)
from benchmarks.proxy import Mode, Proxy, proxied
from benchmarks.scratch import scratch_store
from memory_context import ContextPolicy, MemoryStore
from memory_context.foundation.errors import MemoryContextError
from memory_context.sessions.archive import session_archive
from memory_context.store.limits import StoreLimits

__all__ = [
    "CALL_SECONDS",
    "FAULTS",
    "STEP_SECONDS",
    "Outcome",
    "Place",
    "as_measured",
    "fill",
    "measure_faults",
    "run_calls",
    "stopped",
]

CALL_SECONDS = 10.0
STEP_SECONDS = 1.5
LARGE_BYTES = 5_000_000
_WRITTEN = (
    "agent_memories",
    "agent_memory_events",
    "agent_sessions",
    "recent_conversation_history",
    "jobs",
    "ui_steps",
    "ui_threads",
)


@dataclass(frozen=True)
class Place:
    """A database, and the ways to it.

    Attributes:
        url: The superuser's address.
        proxied_url: The same through the proxy.
        proxy: The proxy.
    """

    url: str
    proxied_url: str
    proxy: Proxy


@dataclass(frozen=True)
class Outcome:
    """How one call ended under a fault.

    Attributes:
        fault: The fault.
        call: The call.
        seconds: How long it took.
        ended_by: The limit or error that ended it: the driver's error behind a `StoreError`, `answer` for a result.
        limit_seconds: What it may take.
    """

    fault: str
    call: str
    seconds: float
    ended_by: str
    limit_seconds: float

    @property
    def is_in_time(self) -> bool:
        """Whether it answered within its limit, with a result or an error of this library."""
        return self.seconds <= self.limit_seconds and not self.ended_by.startswith("!")


# --- the faults


def _by_proxy(mode: Mode) -> Callable[[Place], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def fault(place: Place) -> AsyncIterator[None]:
        place.proxy.fail(mode)
        try:
            yield
        finally:
            place.proxy.heal()

    return fault


@asynccontextmanager
async def _refused(place: Place) -> AsyncIterator[None]:
    await place.proxy.stop()
    try:
        yield
    finally:
        await place.proxy.start()


def _held(statement: str) -> Callable[[Place], AbstractAsyncContextManager[None]]:
    """Hold the locks of a statement from another connection."""

    @asynccontextmanager
    async def fault(place: Place) -> AsyncIterator[None]:
        async with await psycopg.AsyncConnection.connect(place.url) as connection:
            await connection.execute(statement.encode())
            try:
                yield
            finally:
                await connection.rollback()

    return fault


def _set(on: str, off: str) -> Callable[[Place], AbstractAsyncContextManager[None]]:
    """Change a setting of the database for connections that are opened from now on."""

    @asynccontextmanager
    async def fault(place: Place) -> AsyncIterator[None]:
        name = str(conninfo_to_dict(place.url)["dbname"])
        postgres = make_conninfo(place.url, dbname="postgres")
        ended = f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'"
        async with await psycopg.AsyncConnection.connect(postgres, autocommit=True) as connection:
            await connection.execute(f'ALTER DATABASE "{name}" {on}'.encode())
            await connection.execute(ended.encode())
            try:
                yield
            finally:
                await connection.execute(f'ALTER DATABASE "{name}" {off}'.encode())
                await connection.execute(ended.encode())

    return fault


def _refused_rows(message: str, code: str) -> Callable[[Place], AbstractAsyncContextManager[None]]:
    """Let the server refuse each row that is written, with this error."""

    @asynccontextmanager
    async def fault(place: Place) -> AsyncIterator[None]:
        refusing = f"""CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE '{message}' USING ERRCODE = '{code}'; END $$;"""
        async with await psycopg.AsyncConnection.connect(place.url, autocommit=True) as connection:
            await connection.execute(refusing.encode())
            for name in _WRITTEN:
                trigger = f"""CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON memory_context.{name}
                    FOR EACH ROW EXECUTE FUNCTION public.refuse()"""
                await connection.execute(trigger.encode())
            try:
                yield
            finally:
                for name in _WRITTEN:
                    await connection.execute(f"DROP TRIGGER refuse ON memory_context.{name}".encode())
                await connection.execute("DROP FUNCTION public.refuse()")

    return fault


@contextmanager
def stopped(socket_folder: Path) -> Iterator[None]:
    """Stop every process of the server, as a machine that ran out of memory does, and let it go on afterwards."""
    pid = int((socket_folder / "postmaster.pid").read_text(encoding="utf-8").split()[0])
    postmaster = psutil.Process(pid)
    pids = [process.pid for process in (postmaster, *postmaster.children())]
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, _STOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):  # it ended before it could be stopped
                os.kill(pid, _CONTINUE)


_STOP, _CONTINUE = 19, 18


@asynccontextmanager
async def _stopped(place: Place) -> AsyncIterator[None]:
    with stopped(Path(str(conninfo_to_dict(place.url)["host"]))):
        yield


FAULTS: dict[str, Callable[[Place], AbstractAsyncContextManager[None]]] = {
    "table lock": _held("LOCK TABLE memory_context.agent_memories IN ACCESS EXCLUSIVE MODE"),
    "row lock": _held(
        "SELECT FROM memory_context.agent_memories, memory_context.agent_sessions, memory_context.memory_users "
        "FOR UPDATE"
    ),
    "silent": _by_proxy("silent"),
    "half-closed": _by_proxy("half_closed"),
    "dripping": _by_proxy("drip"),
    "refused": _refused,
    "read-only": _refused_rows("cannot execute INSERT in a read-only transaction", "read_only_sql_transaction"),
    "connection limit": _set("CONNECTION LIMIT 0", "CONNECTION LIMIT -1"),
    "disk full": _refused_rows("could not extend file: No space left on device", "disk_full"),
    "stopped": _stopped,
}


# --- the calls


async def run_calls(
    place: Place,
    fault: str,
    limits: StoreLimits,
    policy: ContextPolicy,
    patience_seconds: float,
    *,
    connections: int = 20,
    large_bytes: int = LARGE_BYTES,
) -> list[Outcome]:
    """Run all calls at once under a fault and return how each ended.

    Args:
        place: The database.
        fault: How it fails.
        limits: How long the store waits.
        policy: The settings of contexts.
        patience_seconds: After so long a call counts as hung.
        connections: How many are open before the fault begins; the first calls take them, others open new ones.
        large_bytes: The content that is still to be written by what is closed.
    """
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(MemoryStore(place.proxied_url, pool_size=60))
        surfaces = await stack.enter_async_context(surface_calls(store, place.proxied_url, limits))
        calls = {**store_calls(store, policy), **surfaces}
        closings = closing_contexts(place.proxied_url, policy)
        await store.flush_index()
        store._database.close()  # pyright: ignore[reportPrivateUsage]
        await asyncio.gather(*(store.items.select_keys("alice") for _ in range(connections)))
        stores = [store, *(context.memory_store for context in closings.values())]
        try:
            _limit(stores, limits)
            async with FAULTS[fault](place):
                await asyncio.gather(*(buffer_large(context, large_bytes) for context in closings.values()))
                calls |= closing_calls(closings)
                with own_output():
                    ended = await asyncio.gather(*(_ended(one, patience_seconds) for one in calls.values()))
        finally:
            _limit(stores, StoreLimits())
        for context in closings.values():
            await context.memory_store.close()
    return [
        Outcome(fault, name, seconds, by, _limit_of(name, limits, policy, large_bytes))
        for name, (seconds, by) in zip(calls, ended, strict=True)
    ]


def _limit(stores: Sequence[MemoryStore], limits: StoreLimits) -> None:
    for store in stores:
        store.limits = store._database.limits = limits  # pyright: ignore[reportPrivateUsage]


def _limit_of(name: str, limits: StoreLimits, policy: ContextPolicy, large_bytes: int) -> float:
    if name.startswith("step, known session"):  # the one wait for its history is beside the step's own
        return session_archive.RESUME_SECONDS + STEP_SECONDS
    if name.startswith("step"):
        return STEP_SECONDS
    if name.startswith("batch"):
        return limits.batch_seconds + CALL_SECONDS
    return CALL_SECONDS + (large_bytes / limits.bytes_per_second if name.startswith("close") else 0)


async def _ended(call: Call, patience_seconds: float) -> tuple[float, str]:
    began = time.monotonic()
    try:
        await asyncio.wait_for(call(), patience_seconds)
        by = "answer"
    except asyncio.TimeoutError:
        by = "! hung"
    except MemoryContextError as error:
        cause = error.__cause__
        by = type(cause if isinstance(cause, psycopg.Error) else error).__name__
    except Exception as error:
        by = f"! {type(error).__name__}"
    return time.monotonic() - began, by


async def measure_faults(faults: Sequence[str], patience_seconds: float = 100) -> list[Outcome]:
    """Run all calls under each of these faults, on new and on open connections, at the default limits."""
    outcomes: list[Outcome] = []
    for fault in faults:
        for connections in (0, 50):
            async with scratch_store() as (store, url):  # a new one: some calls do what they were asked to
                await fill(store)
                params = {name: str(value) for name, value in conninfo_to_dict(url).items()}
                async with proxied(params) as proxy:
                    place = Place(url, make_conninfo(url, host="127.0.0.1", port=str(proxy.port)), proxy)
                    ended = await run_calls(
                        place, fault, StoreLimits(), ContextPolicy(), patience_seconds, connections=connections
                    )
                    on = "open connections" if connections else "new connections"
                    outcomes += [replace(one, call=f"{one.call}, {on}") for one in ended]
    return outcomes


_SORTS = {"step": "a step within 1.5 s", "batch": "work in batches within 60 s a batch", "call": "a call within 10 s"}


def _sort_of(outcome: Outcome) -> str:
    word = outcome.call.partition(",")[0].partition(":")[0]
    return word if word in _SORTS else "call"


def as_measured(outcomes: Sequence[Outcome]) -> list[Measured]:
    """Return a figure for each fault and sort of call: how many answered in time, and the worst."""
    measured: list[Measured] = []
    for fault in dict.fromkeys(one.fault for one in outcomes):
        for sort, target in _SORTS.items():
            those = [one for one in outcomes if one.fault == fault and _sort_of(one) == sort]
            late = [one for one in those if not one.is_in_time]
            worst = max(those, key=lambda one: one.seconds)
            said = f"{len(those)} tried, worst: {worst.call}, {worst.seconds:.1f} s, {worst.ended_by}"
            if late:
                said += "; late: " + ", ".join(f"{one.call} ({one.seconds:.1f} s, {one.ended_by})" for one in late)
            measured.append(Measured(f"{fault}: {target}", len(late), "0 late", not late, said))
    return measured
