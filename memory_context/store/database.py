"""One prepared database: transactions that act as one user, each in a single pipeline.

It belongs to no event loop: it keeps one pool for each loop that uses it, since a team of agents may run under several
`asyncio.run` calls.
"""

import asyncio
from collections.abc import Sequence

import psycopg
from psycopg.rows import DictRow

from memory_context.errors import StoreError, StoreUnavailableError
from memory_context.escaping import escape

from .failures import driver_errors
from .location import Location
from .pool import ConnectionPool, Statement
from .preparation import prepare
from .sqlfiles import load_queries

__all__ = ["Database"]

_TRANSACTIONS = load_queries("transactions")


class Database:
    """The database at a location; the first operation in each event loop makes it ready.

    Args:
        location: Where it is.
        pool_size: Connections at most, per event loop.

    Attributes:
        location: Where it is.
        write_transactions: How many writing transactions of this object were committed.
    """

    def __init__(self, location: Location, pool_size: int) -> None:
        self.location = location
        self.write_transactions = 0
        self._pool_size = pool_size
        self._login: dict[str, str] | None = None  # None: the database has to be prepared, for the first time or again
        # not weakly: a loop that is collected before the next sweep would leave its connections to the collector
        self._pools: dict[asyncio.AbstractEventLoop, ConnectionPool] = {}

    async def read(self, user_id: str | None, *statements: Statement) -> list[list[DictRow]]:
        """Run statements in one transaction that cannot write; return the rows of each.

        Args:
            user_id: Whose rows are seen; None for the one list that belongs to nobody.
            *statements: What to run, in order.

        Raises:
            StoreError: The database refused or cannot be reached.
        """
        return await self._transaction("begin_read", user_id, statements)

    async def write(self, user_id: str, *statements: Statement) -> list[list[DictRow]]:
        """Run statements in one transaction as this user, all or none; return the rows of each.

        Raises:
            StoreError: The database refused or cannot be reached; nothing was written unless the connection was lost
                while committing.
        """
        rows = await self._transaction("begin_write", user_id, statements)
        self.write_transactions += 1
        return rows

    async def ready(self) -> tuple[ConnectionPool, dict[str, str]]:
        """Return this event loop's pool and the login it uses, once the database can be used.

        Raises:
            StoreUnavailableError: The server does not answer or could not be started.
            SchemaError: A person has to do something first; says what.
        """
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            self._sweep()
            pool = self._pools[loop] = ConnectionPool(self._pool_size)
        if self._login is not None:
            return pool, self._login
        # One task for all who wait, and not theirs: a caller with little patience does not undo the start of the
        # server, which takes seconds in a new folder.
        if pool.preparation is None or pool.preparation.done():
            pool.preparation = loop.create_task(prepare(self.location))
            pool.preparation.add_done_callback(_retrieve)
        preparation = pool.preparation
        try:
            self._login = login = await asyncio.shield(preparation)
        except asyncio.CancelledError:
            if preparation.cancelled():  # not this task was cancelled: somebody closed the store meanwhile
                raise StoreUnavailableError(
                    f"{self.location.describe()} was closed while it was being opened"
                ) from None
            raise
        return pool, login

    def close(self) -> None:
        """Close this event loop's connections, and those of loops that have ended; the next call opens new ones."""
        self._sweep()
        if pool := self._pools.pop(asyncio.get_running_loop(), None):
            pool.close()

    async def _transaction(
        self, begin: str, user_id: str | None, statements: Sequence[Statement]
    ) -> list[list[DictRow]]:
        pool, login = await self.ready()
        opening = [Statement(_TRANSACTIONS[begin])]
        if user_id is not None:
            opening.append(Statement(_TRANSACTIONS["act_as"], {"user_id": escape(user_id)}))
        try:
            with driver_errors(self.location.describe()):
                rows = await pool.run(login, [*opening, *statements, Statement(_TRANSACTIONS["commit"])])
        except StoreError as error:
            if not isinstance(error.__cause__, (psycopg.DataError, psycopg.IntegrityError)):
                self._login = None  # the server may come back elsewhere, or empty: look again before the next call
            raise
        return rows[len(opening) : -1]

    def _sweep(self) -> None:
        for loop, pool in list(self._pools.items()):
            if loop.is_closed():
                del self._pools[loop]
                pool.abandon()


def _retrieve(task: "asyncio.Task[dict[str, str]]") -> None:
    if not task.cancelled():
        task.exception()  # everyone who waited may have gone; asyncio would report it as never retrieved
