"""The driver's adapters: any str is stored, compared, searched and given back, whatever Postgres refuses of it."""

from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict

from memory_context.store.codec import stored_form
from memory_context.store.connection import Connection, dedicated

ANY_TEXT = st.text(st.characters()) | st.text(st.sampled_from('a\x00\x1a\ud83d\ude00\\"{},%_01é'), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=6,
)
ROUND_TRIP = b"""
INSERT INTO kinds VALUES (%(one)s, %(one)s, %(many)s, %(json)s)
RETURNING plain, bytewise, many, json, json -> 'inside' AS inside, json ->> 'text' AS text
"""
COMPARED = b"""
SELECT plain = %(one)s AS is_equal, bytewise = %(one)s AS is_equal_bytewise, many = %(many)s AS are_equal,
    %(one)s = ANY(many) AS is_among, many && ARRAY[%(one)s] AS overlaps,
    plain LIKE '%%' || %(pattern)s || '%%' AS is_found,
    %(one)s::text || %(other)s::text = %(joined)s::text AS is_joined, bytewise < %(other)s AS is_before,
    json @> %(json)s AND json ->> 'text' = %(one)s AS is_equal_json
FROM kinds
"""


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    async with dedicated({k: str(v) for k, v in conninfo_to_dict(database_url).items()}, 60) as connection:
        await connection.execute(
            'CREATE TEMP TABLE kinds (plain text, bytewise text COLLATE "C", many text[], json jsonb)'
        )
        yield connection


@pytest.mark.parametrize("binary", [False, True])
@given(one=ANY_TEXT, other=ANY_TEXT, rest=st.lists(ANY_TEXT, max_size=3), value=JSON)
async def test_any_str_round_trips_and_compares_in_every_kind_of_column(
    connection: Connection, binary: bool, one: str, other: str, rest: list[str], value: object
) -> None:
    """As a column, in an array and in JSON; as a parameter of equality, order, membership and LIKE."""
    await connection.execute("DELETE FROM kinds")
    many, json = [one, *rest], {"text": one, "inside": value, one: other}
    json["text"] = one
    params = {"one": one, "many": many, "json": json}
    row = await (await connection.execute(ROUND_TRIP, params, binary=binary)).fetchone()
    assert row == {
        "plain": one, "bytewise": one, "many": many, "json": json, "inside": json["inside"], "text": one
    }  # fmt: skip
    pattern = one.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    params |= {"other": other, "joined": one + other, "pattern": pattern}
    compared = await (await connection.execute(COMPARED, params, binary=binary)).fetchone()
    assert compared is not None
    assert compared.pop("is_before") == (stored_form(one) < stored_form(other))
    assert compared == dict.fromkeys(compared, True)


@given(st.text(), st.text())
def test_ordinary_text_is_stored_as_its_utf8(one: str, other: str) -> None:
    """So the escape costs nothing, and the database's own functions see the text itself."""
    text = (one + other).replace("\x00", "").replace("\x1a", "")
    assert stored_form(text) == text.encode()


@given(ANY_TEXT, ANY_TEXT)
def test_stored_forms_join_and_differ_like_their_texts(one: str, other: str) -> None:
    """A long text may travel in pieces, and two texts never become one."""
    assert stored_form(one) + stored_form(other) == stored_form(one + other)
    assert (stored_form(one) == stored_form(other)) == (one == other)
