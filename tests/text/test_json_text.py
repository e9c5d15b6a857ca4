"""JSON as tools and models print it: cut off, amid other text, quoted."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation.text.json_text import find_document, json_objects, read_literal

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(max_size=4), _VALUES, min_size=1, max_size=5), st.data())
def test_document_that_was_cut_off_keeps_its_whole_members(document: dict[str, object], data: st.DataObject) -> None:
    """Every member but the last is as it was."""
    content = json.dumps(document)
    found = find_document(content[: data.draw(st.integers(2, len(content) - 1))])
    if found is not None:
        assert not found.is_whole
        for key, value in list(found.value.items())[:-1]:
            assert document[key] == value


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ('{"a": 1, "b": [1, 2 ... [truncated 500 characters]', {"a": 1, "b": [1, 2]}),
        ('{"a": 1, "note": "two\nlines", "b": [1', {"a": 1, "note": "two"}),
        ('{"é☃": "\ud800", "b": tru', {"é☃": "?"}),
        ("{'a': None, 'b': (1, 2)}", {"a": None, "b": [1, 2]}),
    ],
)
def test_damaged_document_is_read_up_to_the_damage(content: str, value: object) -> None:
    """A note of the tool behind the cut, a raw line break in a string, a lone surrogate; Python's repr."""
    found = find_document(content)
    assert found is not None
    assert found.value == value


def test_objects_are_found_amid_other_text() -> None:
    """The outermost ones; trailing commas are forgiven, and the cut one is read only if asked for."""
    assert json_objects('So: {"a": {"b": 1}} and {not} {"c": 2}') == [{"a": {"b": 1}}, {"c": 2}]
    assert json_objects('{"a": [1, 2,],}') == [{"a": [1, 2]}]
    assert json_objects('I say {"a": 1, "b": "tw') == []
    assert json_objects('I say {"a": 1, "b": "tw', is_cut=True) == [{"a": 1, "b": "tw"}]


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_literal_is_decoded_as_json_or_python_wrote_it(text: str) -> None:
    """Every character of it."""
    assert read_literal(json.dumps(text), 0, is_python=False).text == text
    assert read_literal(repr(text), 0, is_python=True).text == text


def test_literal_ends_with_the_content_if_it_was_cut_off() -> None:
    """Decoded up to there."""
    assert read_literal(r'"one\ttwo\"', 0, is_python=False).text == 'one\ttwo"'
