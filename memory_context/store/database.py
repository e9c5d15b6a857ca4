"""One prepared database: transactions that act as one user, each in a single pipeline.

It belongs to no event loop: it keeps one pool for each loop that uses it, since a team of agents may run under several
`asyncio.run` calls.
"""

import asyncio
import time
from collections.abc import Sequence

import psycopg
from psycopg.adapt import AdaptersMap
from psycopg.rows import DictRow

from memory_context.errors import StoreError, StoreUnavailableError
from memory_context.escaping import escape
from memory_context.runtime import Background

from .failures import driver_errors
from .limits import StoreLimits, TransactionKind, extend, most_seconds
from .location import Location
from .pool import ConnectionPool, Statement
from .preparation import prepare
from .sqlfiles import load_queries

__all__ = ["Database"]

_TRANSACTIONS = load_queries("transactions")
_FIRST = 0.8  # of what a step waits: the server, which says why, gives up before the client does
_SET_UP_SECONDS = 30.0
_OF_A_HEALTHY_SERVER = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.errors.LockNotAvailable,
    psycopg.errors.QueryCanceled,
)


class Database:
    """The database at a location; the first operation in each event loop makes it ready.

    Args:
        location: Where it is.
        pool_size: Connections at most, per event loop.
        limits: How long to wait for it.

    Attributes:
        location: Where it is.
        limits: How long to wait for it.
        write_transactions: How many writing transactions of this object were committed.
    """

    def __init__(self, location: Location, pool_size: int, limits: StoreLimits) -> None:
        self.location = location
        self.limits = limits
        self.write_transactions = 0
        self._pool_size = pool_size
        self._login: dict[str, str] | None = None  # None: the database has to be prepared, for the first time or again
        self._adapters: AdaptersMap | None = None
        self._preparing = Background[tuple[dict[str, str], AdaptersMap]]("memory_context preparation")
        # not weakly: a loop that is collected before the next sweep would leave its connections to the collector
        self._pools: dict[asyncio.AbstractEventLoop, ConnectionPool] = {}

    async def read(
        self, user_id: str | None, *statements: Statement, kind: TransactionKind = "call"
    ) -> list[list[DictRow]]:
        """Run statements in one transaction that cannot write; return the rows of each.

        Args:
            user_id: Whose rows are seen; None for the one list that belongs to nobody.
            *statements: What to run, in order.
            kind: What it is, which says how long it may take.

        Raises:
            StoreError: The database refused or cannot be reached.
        """
        return await self._transaction("begin_read", user_id, statements, kind)

    async def write(self, user_id: str, *statements: Statement, kind: TransactionKind = "call") -> list[list[DictRow]]:
        """Run statements in one transaction as this user, all or none; return the rows of each.

        Raises:
            StoreError: The database refused or cannot be reached; nothing was written unless the connection was lost,
                or the deadline passed, while committing.
        """
        rows = await self._transaction("begin_write", user_id, statements, kind)
        self.write_transactions += 1
        return rows

    async def ready(self, *, is_patient: bool = False) -> tuple[ConnectionPool, dict[str, str]]:
        """Return this event loop's pool and the login it uses, once the database can be used.

        Args:
            is_patient: Whether to wait for all migrations, however many are missing; each is bounded by itself.

        Raises:
            StoreUnavailableError: The server does not answer or could not be started.
            SchemaError: A person has to do something first; says what.
        """
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            self._sweep()
            pool = self._pools[loop] = ConnectionPool(self._pool_size, self.limits.slot_seconds)
        if self._login is not None:
            pool.adapters = self._adapters
            return pool, self._login
        # One task for all who wait, and not theirs: a caller with little patience does not undo the start of the
        # server, which takes seconds in a new folder.
        seconds = min(self.limits.start_seconds, most_seconds())
        where = self.location.describe()
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
        """Wait for the embedded server if it is not up yet: the first start in a folder takes seconds.

        Raises:
            StoreError: It could not be started, or not in 30 s.
        """
        if self.location.url is None and self._login is None:
            try:
                await asyncio.wait_for(self.ready(is_patient=True), _SET_UP_SECONDS)
            except asyncio.TimeoutError as error:
                raise StoreUnavailableError(
                    f"the embedded server was not set up in {_SET_UP_SECONDS:g} s ({self.location.describe()})"
                ) from error

    def close(self) -> None:
        """Close this event loop's connections, and those of loops that have ended; the next call opens new ones."""
        self._sweep()
        if pool := self._pools.pop(asyncio.get_running_loop(), None):
            pool.close()
        if preparation := self._preparing.running():
            preparation.cancel()

    async def _transaction(
        self, begin: str, user_id: str | None, statements: Sequence[Statement], kind: TransactionKind
    ) -> list[list[DictRow]]:
        most = most_seconds()
        started = time.monotonic()
        pool, login = await self.ready()
        limits = self.limits
        content_bytes = sum(map(_content_bytes, statements))
        waits = limits.waits_of(kind, content_bytes)
        extend(content_bytes / limits.bytes_per_second)
        left = most - (time.monotonic() - started)
        seconds = min(waits.seconds, left)
        settings = {
            "statement_timeout": _milliseconds(min(waits.statement_seconds, _FIRST * left)),
            "lock_timeout": _milliseconds(min(waits.lock_seconds, _FIRST * left)),
        }
        opening = [Statement(_TRANSACTIONS[begin]), Statement(_TRANSACTIONS["limit_waits"], settings)]
        if user_id is not None:
            opening.append(Statement(_TRANSACTIONS["act_as"], {"user_id": escape(user_id)}))
        try:
            with driver_errors(self.location.describe()):
                everything = [*opening, *statements, Statement(_TRANSACTIONS["commit"])]
                rows = await pool.run(login, everything, seconds, bytes_per_second=waits.bytes_per_second)
        except StoreError as error:
            if not isinstance(error.__cause__, _OF_A_HEALTHY_SERVER):
                self._login = None  # the server may come back elsewhere, or empty: look again before the next call
            raise
        return rows[len(opening) : -1]

    def _sweep(self) -> None:
        for loop, pool in list(self._pools.items()):
            if loop.is_closed():
                del self._pools[loop]
                pool.abandon()


def _content_bytes(statement: Statement) -> int:
    """Return about how many bytes of content a statement carries."""
    return sum(len(value) for value in (statement.params or {}).values() if isinstance(value, (str, bytes)))


def _milliseconds(seconds: float) -> str:
    return f"{max(round(seconds * 1000), 1)}ms"
