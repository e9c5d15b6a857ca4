"""The field of a list that an agent walks through: its answer used one value, so it may need the others next."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, cast

from ..text import find_document

__all__ = ["walked_column"]

_VISITED = 20_000
_LEAST_VALUES, _LEAST_LENGTH, _MOST_LENGTH = 3, 3, 100


def walked_column(text: str, answer: str) -> tuple[str, list[str]] | None:
    """Return a field of JSON records and the values of it that the answer did not use, those after a used one first.

    None if the answer used no value of any list. Of several fields the one with most values in the answer counts.
    """
    document = find_document(text) if answer else None
    if document is None:
        return None
    best: tuple[int, str, list[str]] = (0, "", [])
    for name, values in _columns(document.value).items():
        if len(values) < _LEAST_VALUES:
            continue
        used = [number for number, value in enumerate(values) if _stands_in(value, answer)]
        if used and len(used) > best[0] and len(used) < len(values):
            turned = [*values[used[0] + 1 :], *values[: used[0]]]
            best = len(used), name, [value for value in turned if not _stands_in(value, answer)]
    return best[1:] if best[0] else None


def _columns(value: Any) -> dict[str, list[str]]:
    """Return the distinct short values of each field, in order; fields are the same whatever list they stand in."""
    columns: dict[str, dict[str, None]] = {}
    for name, leaf in islice(_leaves(value, ""), _VISITED):
        text = str(leaf)
        if _LEAST_LENGTH <= len(text) <= _MOST_LENGTH and text.isprintable():
            columns.setdefault(name, {})[text] = None
    return {name: list(values) for name, values in columns.items()}


def _leaves(value: Any, name: str) -> Iterator[tuple[str, str | int]]:
    stack: list[tuple[str, Any]] = [(name, value)]
    while stack:
        key, node = stack.pop()
        if isinstance(node, dict):
            stack += reversed(list(cast("dict[str, Any]", node).items()))
        elif isinstance(node, list):
            stack += [(key, item) for item in reversed(cast("list[Any]", node))]
        elif isinstance(node, (str, int)) and not isinstance(node, bool):
            yield key, node


def _stands_in(value: str, answer: str) -> bool:
    place = answer.find(value)
    while place >= 0:
        around = answer[place - 1 : place] + answer[place + len(value) : place + len(value) + 1]
        if not any(one.isalnum() or one == "_" for one in around):
            return True
        place = answer.find(value, place + 1)
    return False
