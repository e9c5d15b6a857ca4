"""The connections of one event loop; each run is a whole transaction in one pipeline.

Not psycopg_pool (3.3.3): its background workers swallow cancellation when the server hangs, and callers see timeouts
instead of causes.
"""

import asyncio
import math
import os
import select
import time
from collections.abc import Mapping, Sequence

from psycopg.adapt import AdaptersMap
from psycopg.pq import TransactionStatus
from psycopg.rows import DictRow

from memory_context.foundation.errors import StoreUnavailableError

from .codec import ADAPTERS
from .connection import Connection, DeadlineError, connect
from .pipeline import run_pipeline
from .sql import Statement, load_queries

__all__ = ["ConnectionPool"]

IDLE_SECONDS = 300  # less than common firewalls grant
_WHOSE_PROCESS = load_queries("transactions")("fetch_server_process")


class ConnectionPool:
    """Up to `size` connections for one event loop. Closing one after a failed transaction rolls it back."""

    def __init__(self, size: int, slot_seconds: float) -> None:
        self.adapters: AdaptersMap = ADAPTERS
        self._slots = asyncio.Semaphore(size)
        self._slot_seconds = slot_seconds
        self._open: set[Connection] = set()
        self._idle: list[tuple[float, Connection]] = []  # LIFO, so surplus ones age
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
        """Run statements in one pipeline, and return the rows of each.

        They must begin and end their transaction: the driver's blocks add two round trips.

        Raises:
            psycopg.Error: The first error; nothing was committed, unless the connection was lost at COMMIT.
            StoreUnavailableError: No connection became free in time.
        """
        deadline = time.monotonic() + seconds
        await self._take_slot(seconds)
        try:
            connection = self._take_idle()
            if connection is None:
                connection = await connect(params, deadline - time.monotonic(), self.adapters)
                self._open.add(connection)
                statements = [*statements, _WHOSE_PROCESS]
            left = deadline - time.monotonic()
            connection.allow(left, bytes_per_second=bytes_per_second)
            try:
                rows = await run_pipeline(connection, statements)
            except BaseException as error:
                self._discard(connection)
                if isinstance(error, DeadlineError):
                    self._discard_idle()  # likely dead, too
                raise
            if statements[-1] is _WHOSE_PROCESS:
                connection.is_direct = rows.pop()[0]["process_id"] == connection.pgconn.backend_pid
            self._give_back(connection)
            return rows
        finally:
            self._slots.release()

    def close(self) -> None:
        """Close idle connections now, others when returned."""
        self._is_closed = True
        self._discard_idle()

    def abandon(self) -> None:
        """Close everything, after the event loop."""
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
        if os.getpid() == self._process_id:  # a fork's goodbye would end the parent's session
            connection.pgconn.finish()


def _has_news(connection: Connection) -> bool:
    """An idle server speaks only to say goodbye."""
    if connection.closed:
        return True
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(0))
