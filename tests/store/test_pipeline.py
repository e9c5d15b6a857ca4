"""A transaction is one exchange: parameters, rows and errors are those of its statements, in order."""

import psycopg
import pytest

from memory_context import MemoryStore
from memory_context.foundation.errors import StoreError
from memory_context.store.sql import Statement
from tests.support.waiting import soon


async def test_placeholders_are_numbered_by_name_and_percent_signs_are_halved(store: MemoryStore) -> None:
    query = b"SELECT %(a)s::text || '%%' || %(a)s || %(b)s AS joined, %(c)b::bytea AS raw, %(d)s::text IS NULL AS gone"
    statement = Statement(query, {"a": "1", "b": "2\x00", "c": b"\x00", "d": None, "unused": object()})
    rows = await store._database.read("alice", statement, Statement(b"SELECT 1 AS one WHERE false"))
    assert rows == [[{"joined": "1%12\x00", "raw": b"\x00", "gone": True}], []]


async def test_first_error_of_a_transaction_is_raised_and_nothing_is_committed(store: MemoryStore) -> None:
    """What follows it is skipped, and the next transaction is not concerned."""
    made = Statement(b"INSERT INTO memory_context.memory_users (user_id) VALUES (%(user_id)s)")
    broken = Statement(b"SELECT 1 / 0"), Statement(b"SELECT no_such_column")
    with pytest.raises(StoreError, match="division by zero") as caught:
        await store._database.write("alice", made, *broken)
    assert isinstance(caught.value.__cause__, psycopg.errors.DivisionByZero)
    users = Statement(b"SELECT count(*) AS users FROM memory_context.memory_users WHERE user_id = %(user_id)s")
    assert await store._database.read("alice", users) == [[{"users": 0}]]


async def test_missing_parameter_sends_nothing(store: MemoryStore) -> None:
    with pytest.raises(KeyError, match="b"):
        await store._database.read("alice", Statement(b"SELECT %(b)s", {"a": 1}))
    assert await store._database.read("alice", Statement(b"SELECT 1 AS one")) == [[{"one": 1}]]


async def test_long_parameters_and_long_rows_pass_each_other(store: MemoryStore) -> None:
    """The server answers while it is still sent to, and neither side waits for the other."""
    text = "x" * 50_000
    echo = Statement(b"SELECT repeat(%(text)s, 10) AS echo", {"text": text})
    rows = await soon(store._database.read("alice", *[echo] * 30))
    assert [len(row["echo"]) for (row,) in rows] == [500_000] * 30
