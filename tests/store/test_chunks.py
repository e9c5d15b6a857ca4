"""Passages: a partition of the content, cut where its author would."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.store.search.postings import CHUNK_CHARACTERS, INDEXED_CHARACTERS, chunks_of, index_item
from tests.support.growth import assert_linear

lines = st.lists(
    st.text("a# \n\r.", max_size=300) | st.sampled_from(["\n", "\n\n", "def f():\n", "x" * 700]), max_size=40
)
any_content = st.text(st.characters(exclude_categories=()), max_size=5000) | lines.map("".join)


@given(any_content)
def test_passages_partition_the_content(content: str):
    """Without gaps, numbered, with exact places, lines as `split` counts them, and of about the same length."""
    chunks = chunks_of(content)
    assert "".join(chunk.text for chunk in chunks) == content
    assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
    end = 0
    for chunk in chunks:
        assert chunk.start_char == end < chunk.end_char
        end = chunk.end_char
        assert content[chunk.start_char : chunk.end_char] == chunk.text
        assert chunk.start_line == content.count("\n", 0, chunk.start_char) + 1
        assert chunk.end_line == content.count("\n", 0, chunk.end_char - 1) + 1
        assert len(chunk.text) <= 1.5 * CHUNK_CHARACTERS
        assert len(chunk.text) >= 0.5 * CHUNK_CHARACTERS or len(chunks) == 1
    assert chunks == chunks_of(content)


@pytest.mark.parametrize(
    "separator", ["\n\n", "\r\n\r\n", "\n# ", "\n## ", "\ndef ", "\nexport async function ", "\n@@ "]
)
def test_cuts_fall_where_something_begins(separator: str):
    """Rather than at a nearer line end."""
    line = "some words here\n" * 40
    first, second = chunks_of(line.rstrip() + separator + "title\n" + line + line)[:2]
    assert first.text.strip() == line.strip()
    assert second.text.startswith(separator.lstrip() or "title")


def test_cuts_fall_between_lines_else_between_words_else_after_punctuation():
    """The best that the text offers."""
    assert all(chunk.text.endswith("\n") for chunk in chunks_of("some words here\n" * 500))
    assert all(chunk.text.endswith("words ") for chunk in chunks_of("words " * 500)[:-1])
    listed = json.dumps([f"item{number}" for number in range(1000)], separators=(",", ":"))
    assert all(chunk.text.endswith(',"') for chunk in chunks_of(listed)[:-1])
    assert {len(chunk.text) for chunk in chunks_of("x" * 5000)} == {CHUNK_CHARACTERS}


@pytest.mark.parametrize("words", [1, 2, 10, 150])
def test_posting_tells_the_length_of_its_passage(words: int):
    """Its low byte stands for the number of terms, within 3 %, as the formula of `search.sql` reads it."""
    (posting,) = index_item(1, "owl " * words, []).postings["owl"].decode().rstrip(",").split(",")
    assert 2 ** ((int(posting) & 255) / 16) - 1 == pytest.approx(words, rel=0.03)


def test_only_the_beginning_of_a_very_long_content_is_indexed():
    """And nothing of an empty one."""
    chunks = chunks_of("word " * (INDEXED_CHARACTERS // 2))
    assert chunks[-1].end_char == INDEXED_CHARACTERS
    assert chunks_of("") == []


@pytest.mark.parametrize("unit", ["x", "\n", "\r\n", " ", "a b\n\n", "# ", "#\n", '{"a":1},', "😀", "export "])
def test_cutting_into_passages_takes_linear_time(unit: str):
    assert_linear(chunks_of, unit)
