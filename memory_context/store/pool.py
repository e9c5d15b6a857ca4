"""The connections of one event loop, and the one way to use them: a whole transaction in a single pipeline.

Why not psycopg_pool (3.3.3): its workers live in the background. When the server hangs, a worker that is connecting
swallows the cancellation at the end of `asyncio.run`, which then never returns; after an outage they wait out a
growing back-off although the server is there again; and a waiting caller learns of a timeout, not of the refusal
behind it. Here nothing runs in the background: who needs a connection opens it, and sees why that failed.

Promises: a connection is used again only if its transaction ended well, anything else closes it (the server then
rolls back); one that the server closed meanwhile is noticed without a round trip; a cancelled operation ends at once
and leaves nothing behind.
"""

import asyncio
import os
import select
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor, waiting
from psycopg.abc import PQGen
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow, dict_row

from memory_context.errors import StoreUnavailableError

__all__ = ["ConnectionPool", "Statement", "connect"]

WAIT_SECONDS = 5
IDLE_SECONDS = 300  # less than what firewalls between here and a server commonly grant a silent connection

_RV = TypeVar("_RV")


class Statement(NamedTuple):
    """A block of SQL and its parameters."""

    query: bytes
    params: Mapping[str, Any] | None = None


class Connection(AsyncConnection[DictRow]):
    """A connection that is closed, not waited for, when its user is cancelled."""

    async def wait(self, gen: PQGen[_RV], interval: float = 0.1, timeout: float | None = None) -> _RV:
        """As psycopg's, but on cancellation close the connection; psycopg waits up to 5 s for the server's consent."""
        limit = {} if timeout is None else {"timeout": timeout}  # new in psycopg 3.3
        try:
            return await waiting.wait_async(gen, self.pgconn.socket, interval=interval, **limit)
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            self.pgconn.finish()
            with suppress(psycopg.Error):  # left suspended, it would complain of the closed connection when collected
                gen.close()
            raise

    def __del__(self, *_: Any) -> None:
        """Stay silent: a program may end, or drop its event loop, without closing the store."""


async def connect(params: Mapping[str, str]) -> Connection:
    """Open a connection that behaves the same behind PgBouncer.

    There a server connection serves many clients: no prepared statements, no `options` at start-up, no setting that
    outlives a transaction. Preparing would make an insert of one item take 0.42 ms instead of 0.67: not worth a
    setting that somebody has to know of.
    """
    defaults = {"connect_timeout": str(WAIT_SECONDS), "fallback_application_name": "memory_context"}
    conninfo = make_conninfo(**{**defaults, **params, "client_encoding": "UTF8"})
    return await Connection.connect(conninfo, autocommit=True, prepare_threshold=None, row_factory=dict_row)


class ConnectionPool:
    """Up to `size` connections for the tasks of one event loop.

    Attributes:
        preparation: The task that makes the database ready, shared by all who wait for it in this loop.
    """

    def __init__(self, size: int) -> None:
        self.preparation: asyncio.Task[dict[str, str]] | None = None
        self._slots = asyncio.Semaphore(size)
        self._open: set[Connection] = set()
        self._idle: list[tuple[float, Connection]] = []  # the last returned is the first taken, so spare ones age
        self._is_closed = False
        self._process_id = os.getpid()

    async def run(self, params: Mapping[str, str], statements: Sequence[Statement]) -> list[list[DictRow]]:
        """Run statements in one pipeline, one round trip, and return the rows of each.

        The statements begin and end their transaction themselves: the driver's own transaction blocks would add
        two synchronisations.

        Raises:
            psycopg.Error: The first that occurred; nothing was committed unless the connection was lost at COMMIT.
            StoreUnavailableError: No connection became free in time.
        """
        await self._take_slot()
        try:
            connection = self._take_idle()
            if connection is None:
                connection = await connect(params)
                self._open.add(connection)
            try:
                rows = await _pipeline(connection, statements)
            except BaseException:
                self._discard(connection)
                raise
            self._give_back(connection)
            return rows
        finally:
            self._slots.release()

    def close(self) -> None:
        """Close what is idle now and the rest when it is returned."""
        self._is_closed = True
        if self.preparation is not None:
            self.preparation.cancel()
        while self._idle:
            self._discard(self._idle.pop()[1])

    def abandon(self) -> None:
        """Close everything, after the event loop has ended."""
        self._is_closed = True
        self._idle.clear()
        for connection in list(self._open):
            self._discard(connection)

    async def _take_slot(self) -> None:
        if not self._slots.locked():
            await self._slots.acquire()  # does not wait
            return
        try:
            await asyncio.wait_for(self._slots.acquire(), WAIT_SECONDS)
        except asyncio.TimeoutError:
            raise StoreUnavailableError(f"all connections to the database were busy for {WAIT_SECONDS} s") from None

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()[1]
            if not _has_news(connection):
                return connection
            self._discard(connection)
        return None

    def _give_back(self, connection: Connection) -> None:
        now = time.monotonic()
        if self._is_closed or connection.pgconn.transaction_status != TransactionStatus.IDLE:
            self._discard(connection)
        else:
            self._idle.append((now, connection))
        while self._idle and now - self._idle[0][0] > IDLE_SECONDS:
            self._discard(self._idle.pop(0)[1])

    def _discard(self, connection: Connection) -> None:
        self._open.discard(connection)
        if os.getpid() == self._process_id:  # a fork shares the socket: a goodbye from here would end the parent's
            connection.pgconn.finish()


def _has_news(connection: Connection) -> bool:
    """Whether an idle connection has something to read: the server speaks unasked only to say goodbye."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


async def _pipeline(connection: Connection, statements: Sequence[Statement]) -> list[list[DictRow]]:
    cursors: list[AsyncCursor[DictRow]] = []
    failure: BaseException | None = None
    try:
        async with connection.pipeline():
            try:
                for statement in statements:
                    cursor = connection.cursor(binary=True)
                    cursors.append(cursor)
                    await cursor.execute(statement.query, statement.params)
            except BaseException as error:
                # kept from the pipeline, which would wait for the server and log what this library raises
                failure = error
                connection.pgconn.finish()
    except psycopg.Error as error:
        failure = failure or error
    if failure is not None:
        raise failure
    return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]
