"""One prepared database: transactions that act as one user, in a single pipeline.

Each event loop has its own pool.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

import psycopg
from pgvector.psycopg.halfvec import register_halfvec_info
from psycopg.adapt import AdaptersMap
from psycopg.rows import DictRow
from psycopg.types import TypeInfo

from memory_context.foundation.errors import SchemaError, StoreError, StoreUnavailableError
from memory_context.foundation.runtime.background import Background, attempt
from memory_context.foundation.telemetry import DATABASE_SECONDS, POOL, count, gauge

from .codec import ADAPTERS
from .connection import Connection, dedicated, driver_errors
from .limits import StoreLimits, TransactionKind, extend, most_seconds
from .location import OWNER_URL_ENV, Location, read_url
from .pool import ConnectionPool
from .redact import Forgettings
from .schema import ensure_pool_login, fetch_login, is_usable, migrate, refuse_unsafe
from .sql import Statement, load_queries

__all__ = ["EVERY_AGENT", "Database", "every_user", "is_set_up", "prepare", "reach_server"]

EVERY_AGENT = None
"""Acts for the user as a whole, as exports and erasing do."""
_NO_AGENT = ""
_TRANSACTIONS = load_queries("transactions")
_SCHEMA = load_queries("schema")
_USERS = load_queries("users")
_USERS_PER_PAGE = 500
_FIRST = 0.8  # of a wait: the server gives up first and says why
_SET_UP_SECONDS = 30.0
_OF_A_HEALTHY_SERVER = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.LockNotAvailable,
    psycopg.errors.QueryCanceled,
)


class Database:
    """The database at a location, prepared by the first operation."""

    def __init__(self, location: Location, pool_size: int, limits: StoreLimits) -> None:
        self.location = location
        self.limits = limits
        self.write_transactions = 0
        self.forgettings = Forgettings()
        self.user_memory_changes = Counter[str]()  # by user, in this process
        self._pool_size = pool_size
        self._login: dict[str, str] | None = None  # None: not prepared
        self._adapters = ADAPTERS
        self._preparing = Background[tuple[dict[str, str], AdaptersMap]]("memory_context preparation")
        # strong references: a collected loop would leak its connections
        self._pools: dict[asyncio.AbstractEventLoop, ConnectionPool] = {}
        gauge(POOL, self.connections, "memory_context.connection.state")

    async def read(
        self,
        user_id: str | None,
        *statements: Statement,
        agent_id: str | None = _NO_AGENT,
        kind: TransactionKind = "call",
    ) -> list[list[DictRow]]:
        """Run statements in one read-only transaction; return the rows of each.

        With `user_id` None only rows that belong to nobody are visible. Rows of one agent, such as its notes, are
        visible to that `agent_id` and to `EVERY_AGENT`.
        """
        return await self._transaction("begin_read", (user_id, agent_id), statements, kind)

    async def write(
        self,
        user_id: str | None,
        *statements: Statement,
        agent_id: str | None = _NO_AGENT,
        kind: TransactionKind = "call",
        changes_user_memory: bool = False,
    ) -> list[list[DictRow]]:
        """Run statements in one transaction; return the rows of each.

        A deadlock is retried once. After `StoreError` nothing was written, unless the commit lost its connection or
        passed its deadline. With `changes_user_memory` running sessions of this process read it again. With `user_id`
        None only functions of the owner find rows.
        """
        try:
            rows = await self._transaction("begin_write", (user_id, agent_id), statements, kind)
        except StoreError as error:
            if not isinstance(error.__cause__, psycopg.errors.DeadlockDetected):
                raise
            rows = await self._transaction("begin_write", (user_id, agent_id), statements, kind)
        self.write_transactions += 1
        if changes_user_memory and user_id is not None:
            self.user_memory_changes[user_id] += 1
        return rows

    async def ready(self, *, is_patient: bool = False) -> tuple[ConnectionPool, dict[str, str]]:
        """Return this event loop's pool and login, once the database is usable.

        `is_patient` waits for all migrations. `SchemaError` if a person has to act first.
        """
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            self._sweep()
            pool = self._pools[loop] = ConnectionPool(self._pool_size, self.limits.slot_seconds)
        if self._login is not None:
            pool.adapters = self._adapters
            return pool, self._login
        # a shared task: an impatient caller must not cancel the server's start
        seconds = min(self.limits.start_seconds, most_seconds())
        where = self.location.where
        try:
            login, pool.adapters = await self._preparing.result(
                lambda: prepare(self.location, self.limits),
                None if is_patient else seconds,
                if_stopped=f"{where} was closed while it was being opened",
            )
        except asyncio.TimeoutError:
            raise StoreUnavailableError(
                f"the database was not ready after {seconds:.3g} s: its server still starts, or its schema is brought "
                f"up to date; this goes on, try again later ({where})"
            ) from None
        self._login, self._adapters = login, pool.adapters
        return pool, login

    async def started(self) -> None:
        """Wait for the embedded server (30 s)."""
        if self.location.url is None and self._login is None:
            try:
                await asyncio.wait_for(self.ready(is_patient=True), _SET_UP_SECONDS)
            except asyncio.TimeoutError as error:
                raise StoreUnavailableError(
                    f"the embedded server was not set up in {_SET_UP_SECONDS:g} s ({self.location.where})"
                ) from error

    def connections(self) -> dict[str, int]:
        pools = list(self._pools.values())
        idle, held = sum(pool.idle for pool in pools), sum(pool.held for pool in pools)
        return {"idle": idle, "used": held - idle}

    def close(self) -> None:
        """Close connections of this and ended loops."""
        self._sweep()
        if pool := self._pools.pop(asyncio.get_running_loop(), None):
            pool.close()
        if preparation := self._preparing.running():
            preparation.cancel()

    async def _transaction(
        self, begin: str, who: tuple[str | None, str | None], statements: Sequence[Statement], kind: TransactionKind
    ) -> list[list[DictRow]]:
        most = most_seconds()
        started = time.monotonic()
        labels = {"db.system.name": "postgresql", "memory_context.transaction.kind": begin.removeprefix("begin_")}
        try:
            pool, login = await self.ready()
            limits = self.limits
            values = (value for one in statements for value in one.params.values())
            content_bytes = sum(len(value) for value in values if isinstance(value, (str, bytes)))
            waits = limits.waits_of(kind, content_bytes)
            extend(content_bytes / limits.bytes_per_second)
            left = most - (time.monotonic() - started)
            seconds = min(waits.seconds, left)
            settings = {
                "plan_cache_mode": "force_generic_plan" if any(one.keeps_plan for one in statements) else None,
                "statement_timeout": _milliseconds(min(waits.statement_seconds, _FIRST * left)),
                "lock_timeout": _milliseconds(min(waits.lock_seconds, _FIRST * left)),
            }
            user_id, agent_id = who
            limiting = "limit_waits" if user_id is None else "act_within_limits"
            limited = _TRANSACTIONS(limiting, settings, user_id=user_id, agent_id=agent_id)._replace(keeps_plan=True)
            own = (one._replace(params={"user_id": user_id, **one.params}) for one in statements)
            everything = [_TRANSACTIONS(begin), limited, *own, _TRANSACTIONS("commit")]
            try:
                with driver_errors(self.location.where):
                    rows = await pool.run(login, everything, seconds, bytes_per_second=waits.bytes_per_second)
            except StoreError as error:
                if not isinstance(error.__cause__, _OF_A_HEALTHY_SERVER):
                    self._login = None  # it may come back elsewhere or empty: prepare again
                raise
            return rows[2:-1]
        except BaseException as error:
            labels["error.type"] = type(error).__qualname__
            raise
        finally:
            count(DATABASE_SECONDS, labels, time.monotonic() - started)

    def _sweep(self) -> None:
        for loop, pool in list(self._pools.items()):
            if loop.is_closed():
                del self._pools[loop]
                pool.abandon()


def _milliseconds(seconds: float) -> str:
    return f"{max(round(seconds * 1000), 1)}ms"


async def prepare(location: Location, limits: StoreLimits) -> tuple[dict[str, str], AdaptersMap]:
    """Prepare the database; return the pool login's parameters and adapters. Idempotent across processes."""
    where = location.where
    params = await reach_server(location, limits)
    with driver_errors(where):
        if location.owner_url is not None:
            owner_params = read_url(location.owner_url)
            async with dedicated(owner_params, limits.opening_seconds) as owner:
                await migrate(owner, owner_params, where, limits)
        async with dedicated(params, limits.opening_seconds) as connection:
            login = await fetch_login(connection)
            if login.is_owner:
                await migrate(connection, params, where, limits)
                params = await ensure_pool_login(connection, params, where, limits.migration_seconds)
                return params, await _vector_adapters(connection)
            if not login.has_schema:
                raise SchemaError(
                    f"the schema memory_context is missing and login {login.name!r} may not create it: give the URL "
                    f"of a login that may, in {OWNER_URL_ENV}, and start once ({where})"
                )
            refuse_unsafe(login, where)
            if not await is_usable(connection, where):
                raise SchemaError(
                    f"the schema memory_context is older than this version and login {login.name!r} may not change "
                    f"it: give the owner's URL in {OWNER_URL_ENV} and start once ({where})"
                )
            return params, await _vector_adapters(connection)


async def _vector_adapters(connection: Connection) -> AdaptersMap:
    """Return adapters with this database's `halfvec`; each lookup is a round trip."""
    adapters = AdaptersMap(ADAPTERS)
    for row in await connection.fetch(_SCHEMA["fetch_vector_type"]):
        register_halfvec_info(cast(Any, adapters), TypeInfo("halfvec", row["oid"], row["array_oid"]))
    return adapters


async def reach_server(location: Location, limits: StoreLimits) -> dict[str, str]:
    """Return the login's parameters; start the embedded server."""
    if location.url is not None:
        return read_url(location.url)
    assert location.folder is not None
    from .embedded import start  # lazy: does not import on Windows

    starting = await attempt(asyncio.to_thread(start, location.folder), limits.start_seconds)
    if starting is None:  # the thread continues
        raise StoreUnavailableError(
            f"the embedded Postgres in {location.folder} did not start within {limits.start_seconds:.3g} s; a new "
            "folder takes longest: try again, or give the store more start_seconds"
        )
    return starting.result()


def is_set_up(location: Location) -> bool:
    """Return whether a server exists to inspect; first use sets up the embedded one."""
    if location.folder is None:
        return True
    data = location.folder / "postgres"
    try:
        nearest = next(place for place in (location.folder, *location.folder.parents) if place.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            return True
        return (data / "PG_VERSION").exists() or (data.exists() and (not data.is_dir() or any(data.iterdir())))
    except OSError:  # not ours to look into: starting says why, and what helps
        return True


async def every_user(database: Database) -> AsyncIterator[str]:
    """Yield all users in a fixed order, as the owner or a login that may `list_users`."""
    await database.ready()
    location = database.location
    limits = database.limits
    params = await reach_server(location, limits) if location.owner_url is None else read_url(location.owner_url)
    after = ""
    while True:
        with driver_errors(location.where):
            async with dedicated(params, limits.transaction_seconds) as connection:
                page = {"after": after, "limit": _USERS_PER_PAGE}
                try:
                    rows = await connection.fetch(_USERS["select_users"], page)
                except psycopg.errors.InsufficientPrivilege as error:
                    login = connection.info.user
                    raise StoreError(
                        f"login {login!r} may not list the users, which maintenance of all of them needs: name the "
                        f"owner's URL in {OWNER_URL_ENV}, or run GRANT EXECUTE ON FUNCTION "
                        f'memory_context.list_users(text, integer) TO "{login}"; ({location.where})'
                    ) from error
        for row in rows:
            yield row["user_id"]
        if len(rows) < _USERS_PER_PAGE:
            return
        after = rows[-1]["user_id"]
