"""The connections of one event loop, and the one way to use them: a whole transaction in a single pipeline.

Why not psycopg_pool (3.3.3): its workers run in the background. When the server hangs, a connecting worker swallows the
cancellation at the end of `asyncio.run`, which then never returns; after an outage workers wait out a growing back-off;
and a waiting caller learns of a timeout, not of the cause. Here the caller that needs a connection opens it, so connect
errors reach that caller.

A connection is reused only if its transaction ended well; anything else closes it, and the server rolls back. A run
ends
by its deadline or at once when it is cancelled, and its connection with it. When one connection fell silent the idle
ones are closed too: they lead the same way.

Long parameters are sent in pieces, so that no driver call holds the event loop for long: libpq copies a statement with
its parameters in one call, 60 ms for 30 MB. Each piece becomes a setting of the transaction; the statement joins them.
"""

import asyncio
import math
import os
import select
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncCursor
from psycopg.adapt import AdaptersMap
from psycopg.generators import send
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow

from memory_context.errors import StoreUnavailableError

from .codec import ADAPTERS
from .connection import Connection, DeadlineError, connect
from .sql import load_queries

__all__ = [
    "PIECE_LENGTH",
    "ConnectionPool",
    "Statement",
    "split",
]

PIECE_LENGTH = 3 * 65_536
"""The most characters, or bytes, of one parameter: a millisecond of copying. A multiple of three, since base64 is."""

_JOINED_AT_ONCE = 50
"""Arguments of one concat(); Postgres takes 100 at most."""
_QUERIES = load_queries("transactions")


class Statement(NamedTuple):
    """A block of SQL and its parameters."""

    query: bytes
    params: Mapping[str, Any] | None = None


def split(statement: Statement, numbers: "count[int]") -> Iterator[Statement]:
    """Yield the pieces of a statement's long parameters, each to be sent when it comes, and then the statement.

    Args:
        statement: Has texts as `%(name)s`, bytes as `%(name)b`.
        numbers: Names the pieces; shared by all statements of a transaction.
    """
    query, params = statement.query, dict(statement.params or {})
    for name, value in (statement.params or {}).items():
        if not isinstance(value, (str, bytes)) or len(value) <= PIECE_LENGTH:
            continue
        pieces: list[str] = []
        for start in range(0, len(value), PIECE_LENGTH):
            setting = f"memory_context.piece_{next(numbers)}"
            pieces.append(f"current_setting('{setting}')")
            piece = {"setting": setting, "piece": value[start : start + PIECE_LENGTH]}
            yield Statement(_QUERIES["set_bytes_piece" if isinstance(value, bytes) else "set_piece"], piece)
        while len(pieces) > 1:
            groups = [pieces[start : start + _JOINED_AT_ONCE] for start in range(0, len(pieces), _JOINED_AT_ONCE)]
            pieces = [f"concat({', '.join(group)})" for group in groups]
        if isinstance(value, bytes):
            query = query.replace(f"%({name})b".encode(), f"decode({pieces[0]}, 'base64')".encode())
        else:
            query = query.replace(f"%({name})s".encode(), pieces[0].encode())
        del params[name]
    yield Statement(query, params) if len(params) < len(statement.params or {}) else statement


IDLE_SECONDS = 300  # less than what firewalls between here and a server commonly grant a silent connection


class ConnectionPool:
    """Up to `size` connections for the tasks of one event loop.

    Args:
        size: Connections at most.
        slot_seconds: The longest wait for one of them while all are in use.

    Attributes:
        adapters: Conversions of this database's types, known once it is ready.
    """

    def __init__(self, size: int, slot_seconds: float) -> None:
        self.adapters: AdaptersMap = ADAPTERS
        self._slots = asyncio.Semaphore(size)
        self._slot_seconds = slot_seconds
        self._open: set[Connection] = set()
        self._idle: list[tuple[float, Connection]] = []  # the last returned is the first taken, so spare ones age
        self._is_closed = False
        self._process_id = os.getpid()

    async def run(
        self,
        params: Mapping[str, str],
        statements: Sequence[Statement],
        seconds: float,
        *,
        bytes_per_second: float = math.inf,
    ) -> list[list[DictRow]]:
        """Run statements in one pipeline, one round trip, and return the rows of each.

        The statements begin and end their transaction themselves: the driver's transaction blocks add two
        synchronisations.

        Args:
            params: What a new connection is opened with.
            statements: Run in this order.
            seconds: The limit, with waiting for a connection and opening one.
            bytes_per_second: A further second for so many received bytes.

        Raises:
            psycopg.Error: The first that occurred; nothing was committed unless the connection was lost at COMMIT.
            StoreUnavailableError: No connection became free in time.
        """
        deadline = time.monotonic() + seconds
        await self._take_slot(seconds)
        try:
            connection = self._take_idle()
            if connection is None:
                connection = await connect(params, deadline - time.monotonic(), self.adapters)
                self._open.add(connection)
            left = deadline - time.monotonic()
            connection.allow(left, bytes_per_second=bytes_per_second)
            try:
                rows = await _pipeline(connection, statements)
            except BaseException as error:
                self._discard(connection)
                if isinstance(error, DeadlineError):
                    self._discard_idle()
                raise
            self._give_back(connection)
            return rows
        finally:
            self._slots.release()

    def close(self) -> None:
        """Close what is idle now and the rest when it is returned."""
        self._is_closed = True
        self._discard_idle()

    def abandon(self) -> None:
        """Close everything, after the event loop has ended."""
        self._is_closed = True
        self._idle.clear()
        for connection in list(self._open):
            self._discard(connection)

    async def _take_slot(self, seconds: float) -> None:
        if not self._slots.locked():
            await self._slots.acquire()  # does not wait
            return
        limit = min(seconds, self._slot_seconds)
        try:
            await asyncio.wait_for(self._slots.acquire(), limit)
        except asyncio.TimeoutError:
            raise StoreUnavailableError(f"all connections to the database were busy for {limit:.3g} s") from None

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

    def _discard_idle(self) -> None:
        while self._idle:
            self._discard(self._idle.pop()[1])

    def _discard(self, connection: Connection) -> None:
        self._open.discard(connection)
        if os.getpid() == self._process_id:  # a fork shares the socket: a goodbye from here would end the parent's
            connection.pgconn.finish()


def _has_news(connection: Connection) -> bool:
    """Return whether an idle connection has something to read: the server speaks unasked only to say goodbye."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))


async def _pipeline(connection: Connection, statements: Sequence[Statement]) -> list[list[DictRow]]:
    cursors: list[AsyncCursor[DictRow]] = []
    failure: BaseException | None = None
    numbers = count()
    try:
        async with connection.pipeline():
            try:
                for statement in statements:
                    cursors.append(await _sent(connection, statement, numbers))
            except BaseException as error:
                # kept from the pipeline, which would wait for the server and log what this library raises
                failure = error
                connection.pgconn.finish()
    except psycopg.Error as error:
        failure = failure or error
    if failure is not None:
        raise failure
    return [await cursor.fetchall() if cursor.description else [] for cursor in cursors]


async def _sent(connection: Connection, statement: Statement, numbers: "count[int]") -> AsyncCursor[DictRow]:
    cursor = connection.cursor(binary=True)
    for part in split(statement, numbers):
        cursor = connection.cursor(binary=True)
        await cursor.execute(part.query, part.params)
        if part is not statement:  # with each sending libpq moves all that it has not sent yet
            await connection.wait(send(connection.pgconn))
    return cursor
