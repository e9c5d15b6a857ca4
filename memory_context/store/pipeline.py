"""A whole transaction in one exchange: every statement is sent at once, then the results are read.

psycopg's own pipeline flushes and polls for every statement, which costs the client as much as a small insert.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import psycopg
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult
from psycopg.rows import DictRow

from .connection import Connection
from .sql import Statement

__all__ = ["run_pipeline"]

_PLANS_LIMIT = 50
"""Kept on one connection, of some 300 kB; types of parameters differ with the criteria that a search names."""
_LONG = 200_000
_PLACEHOLDER = re.compile(rb"%(?:\((\w+)\)([sb])|%)")
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
    are_answers: list[bool] = []  # of each result; preparing a statement has one of its own
    for statement in statements:
        are_answers += [False] * _queue(connection, statement) + [True]
        if any(isinstance(value, (str, bytes)) and len(value) > _LONG for value in statement.params.values()):
            yield from send(pgconn)  # else libpq copies its unsent buffer for each statement that follows
    pgconn.pipeline_sync()
    yield from send(pgconn)
    rows: list[list[DictRow]] = []
    for is_answer in are_answers:
        result = yield from _result(connection)
        if is_answer:
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
