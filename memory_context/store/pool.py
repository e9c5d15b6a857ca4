"""The connections of one event loop; each run is a whole transaction in one exchange: all is sent, then all is read.

psycopg's own pipeline flushes and polls for every statement, which costs the client as much as a small insert.

Not psycopg_pool (3.3.3), which was measured in its place. With its check on checkout a store of 1 kB took 1.65 of
INSERT and count (here 1.25), and where the server had no connection left, a call waited 3 s and heard of a timeout:
workers in the background connect, and keep the cause. Here it hears the cause at once. Without the check it was as
quick (1.19, at 1.07 to 1.13 of the client's processor time), and told causes as little.
"""

import asyncio
import math
import os
import re
import select
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap, PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ExecStatus, Format, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import DictRow

from memory_context.foundation.errors import StoreUnavailableError
from memory_context.foundation.patterns import regex

from .codec import ADAPTERS
from .connection import Connection, DeadlineError, connect
from .sql import Statement, load_queries

__all__ = ["ConnectionPool", "run_pipeline"]


_PLANS_LIMIT = 50
"""Kept on one connection, of some 300 kB; types of parameters differ with the criteria that a search names."""
_LONG = 200_000
_PLACEHOLDER = regex(rb"%(?:\((\w+)\)([sb])|%)")
_FORMATS = {b"s": PyFormat.AUTO, b"b": PyFormat.BINARY}


async def run_pipeline(connection: Connection, statements: Sequence[Statement]) -> list[list[DictRow]]:
    """Return the rows of each statement. After an error the connection has to be closed."""
    return await connection.wait(_exchange(connection, statements))


class _Positional(NamedTuple):
    """A query with `$1` for `%(name)s`, and what stands there."""

    query: bytes
    names: tuple[str, ...]
    formats: tuple[PyFormat, ...]


@lru_cache(maxsize=1000)
def _positional(query: bytes) -> _Positional:
    places: dict[bytes, PyFormat] = {}

    def place(found: re.Match[bytes]) -> bytes:
        if found[1] is None:
            return b"%"
        places.setdefault(found[1], _FORMATS[found[2]])
        return b"$%d" % (list(places).index(found[1]) + 1)

    positional = _PLACEHOLDER.sub(place, query)
    return _Positional(positional, tuple(name.decode() for name in places), tuple(places.values()))


def _exchange(connection: Connection, statements: Sequence[Statement]) -> PQGen[list[list[DictRow]]]:
    pgconn = connection.pgconn
    pgconn.enter_pipeline_mode()
    answered: list[Statement | None] = []  # by each result; preparing a statement has one of its own
    for statement in statements:
        answered += [None] * _queue(connection, statement) + [statement]
        if any(isinstance(value, (str, bytes)) and len(value) > _LONG for value in statement.params.values()):
            yield from send(pgconn)  # else libpq copies its unsent buffer for each statement that follows
    pgconn.pipeline_sync()
    yield from send(pgconn)
    rows: list[list[DictRow]] = []
    for statement in answered:
        result = yield from _result(connection)
        if statement is not None:
            rows.append(_rows(connection, result))
    yield from _result(connection)  # of the end of the pipeline
    pgconn.exit_pipeline_mode()
    return rows


def _queue(connection: Connection, statement: Statement) -> int:
    """Send a statement; return how many results come before its own."""
    query, names, formats = _positional(statement.query)
    transformer = Transformer(connection)
    values = transformer.dump_sequence([statement.params[name] for name in names], formats)
    pgconn, types, formats = connection.pgconn, transformer.types, transformer.formats
    name = connection.prepared.get((query, types))
    is_new = name is None and statement.keeps_plan and connection.is_direct and len(connection.prepared) < _PLANS_LIMIT
    if is_new:
        name = connection.prepared[query, types] = b"kept_%d" % len(connection.prepared)
        pgconn.send_prepare(name, query, types)
    if name is None:
        pgconn.send_query_params(query, values, types, formats, Format.BINARY)
    else:
        pgconn.send_query_prepared(name, values, formats, Format.BINARY)
    return int(is_new)


def _result(connection: Connection) -> PQGen[PGresult]:
    results = yield from fetch_many(connection.pgconn)
    if not results:
        raise psycopg.OperationalError("the server ended the transaction without an answer")
    if results[-1].status == ExecStatus.FATAL_ERROR:
        raise error_from_result(results[-1])
    return results[-1]


def _rows(connection: Connection, result: PGresult) -> list[DictRow]:
    if result.status != ExecStatus.TUPLES_OK:
        return []
    names = [(result.fname(column) or b"").decode() for column in range(result.nfields)]

    def row(values: Sequence[Any]) -> DictRow:
        return dict(zip(names, values, strict=True))

    transformer = Transformer(connection)
    transformer.set_pgresult(result)
    return transformer.load_rows(0, result.ntuples, row)


IDLE_SECONDS = 300  # less than common firewalls grant
_LEAST_SHARE = 0.4  # of the limit, for a transaction that waited for its slot while others were answered
_WHOSE_PROCESS = load_queries("transactions")("fetch_server_process")


class ConnectionPool:
    """Up to `size` connections for one event loop. Closing one after a failed transaction rolls it back."""

    def __init__(self, size: int, slot_seconds: float) -> None:
        self.adapters: AdaptersMap = ADAPTERS
        self._slots = asyncio.Semaphore(size)
        self._slot_seconds = slot_seconds
        self._open: set[Connection] = set()
        self._idle: list[tuple[float, Connection]] = []  # LIFO, so surplus ones age
        self._answered_at = -math.inf
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

        They must begin and end their transaction: the driver's blocks add two round trips. The wait for a connection is
        at most `slot_seconds`; while the database answers others `seconds`, and 1.4 times these together.

        Raises:
            psycopg.Error: The first error; nothing was committed, unless the connection was lost at COMMIT.
            StoreUnavailableError: No connection became free in time.
        """
        deadline = time.monotonic() + seconds
        await self._take_slot(seconds)
        deadline = max(deadline, time.monotonic() + _LEAST_SHARE * seconds)
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

    @property
    def held(self) -> int:
        """Open connections, of which `idle` wait for work."""
        return len(self._open)

    @property
    def idle(self) -> int:
        return len(self._idle)

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
        is_answering = time.monotonic() - self._answered_at < self._slot_seconds
        limit = seconds if is_answering else min(seconds, self._slot_seconds)
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
        now = self._answered_at = time.monotonic()
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
