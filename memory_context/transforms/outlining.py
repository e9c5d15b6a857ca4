"""What structured data holds, said in lines: the keys and counts of a JSON document, the columns of a table.

Lines of such data say little by themselves, so a summary of it tells its shape. The most important line comes first;
each has its place, so that any number of them can be shown in order. Pure, in linear time, for any str.
"""

import csv
import json
import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from ..references import shorten

__all__ = ["Outline", "OutlineLine", "outline"]

_VALUE_CHARACTERS = 160
_NAMES = 20  # of keys or columns, named in one line
_CHILDREN = 50  # of an object, each with a line of its own
_EXAMINED_ELEMENTS = 1_000  # of a list, to know its keys
_DEEPEST = 12
_SAMPLED_ROWS = 20
_MOST_DIFFERENT = 5  # values that are counted one by one

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COLUMN = re.compile(r"[^\W\d_][^\n\"{}<>]{0,59}")
_DELIMITERS = (",", "\t", ";", "|")
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


@dataclass(frozen=True)
class OutlineLine:
    """One statement about a content.

    Attributes:
        place: Where it stands among the others.
        text: The statement.
    """

    place: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Outline:
    """What structured data holds.

    Attributes:
        what: What the content is, such as "a JSON document".
        lines: The statements, the most important first.
        json_path: A path that opens a part of it; None if it is no JSON document.
    """

    what: str
    lines: Iterator[OutlineLine]
    json_path: str | None = None


def outline(content: str) -> Outline | None:
    """Return the outline of a content that is a JSON document or a table with a header; None if it is neither."""
    document = _document(content)
    if document is not None:
        return Outline("a JSON document", _json_lines(document), _path_to_open(document))
    table = _table(content)
    return None if table is None else Outline("a table", _table_lines(*table))


def _document(content: str) -> "dict[str, Any] | list[Any] | None":
    if content.lstrip()[:1] not in ("{", "["):
        return None
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, Any] | list[Any]", document) if document else None


def _json_lines(document: "dict[str, Any] | list[Any]") -> Iterator[OutlineLine]:
    """Yield what each value is, those near the root first; of a list, only the first element is entered."""
    waiting: deque[tuple[tuple[int, ...], str, Any]] = deque([((), "$", document)])
    while waiting:
        place, path, value = waiting.popleft()
        yield OutlineLine(place, f"{path}: {_described(value)}")
        if len(place) == _DEEPEST:
            continue
        for number, (step, child) in enumerate(_children(value)):
            waiting.append(((*place, number), path + step, child))


def _children(value: Any) -> list[tuple[str, Any]]:
    """Return what of a value has statements of its own, each with the step that leads there."""
    if isinstance(value, dict):
        named = cast("dict[str, Any]", value)
        return [(_step(name), child) for name, child in islice(named.items(), _CHILDREN)]
    first = cast("list[Any]", value)[:1] if isinstance(value, list) else []
    return [("[0]", child) for child in first if isinstance(child, (dict, list))]


def _step(name: str) -> str:
    return f".{name}" if _NAME.fullmatch(name) else f"[{json.dumps(name[:_VALUE_CHARACTERS], ensure_ascii=False)}]"


def _described(value: Any) -> str:
    if isinstance(value, dict):
        names = list(cast("dict[str, Any]", value))
        return f"object, {_counted(len(names), 'key')}{_listed(names)}"
    if isinstance(value, list):
        return _described_list(cast("list[Any]", value))
    text = value[: 2 * _VALUE_CHARACTERS] if isinstance(value, str) else value
    shown = shorten(json.dumps(text, ensure_ascii=False), _VALUE_CHARACTERS)
    is_long = isinstance(value, str) and len(value) > _VALUE_CHARACTERS
    return f"{shown} ({len(value):,} characters)" if is_long else shown


def _described_list(elements: list[Any]) -> str:
    examined = elements[:_EXAMINED_ELEMENTS]
    kinds = {_kind(element) for element in examined}
    noun = kinds.pop() if len(kinds) == 1 else "value"
    count = f"list, {_counted(len(elements), noun)}"
    if noun == "object":
        objects = cast("list[dict[str, Any]]", examined)
        return count + _listed(list(dict.fromkeys(name for element in objects for name in element)), " with ")
    simple = [element for element in examined[:_MOST_DIFFERENT] if not isinstance(element, (dict, list))]
    shown = ", ".join(_described(element) for element in simple)
    return (
        f"{count}: {shorten(shown, _VALUE_CHARACTERS)}{', …' if len(elements) > len(simple) else ''}"
        if shown
        else count
    )


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "value"
    kinds = ((dict, "object"), (list, "list"), (str, "text"), ((int, float), "number"))
    return next(name for kind, name in kinds if isinstance(value, kind))


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _listed(names: Sequence[str], before: str = ": ") -> str:
    if not names:
        return ""
    more = f", … ({len(names) - _NAMES} more)" if len(names) > _NAMES else ""
    return before + ", ".join(shorten(name, 40) for name in names[:_NAMES]) + more


def _path_to_open(document: "dict[str, Any] | list[Any]") -> str:
    """Return the path of the first container in the document, or of what is at its top."""
    if isinstance(document, list):
        return "$[0]"
    for name, value in document.items():
        if isinstance(value, (dict, list)) and value and _NAME.fullmatch(name) and len(name) <= 40:
            return f"$.{name}" + ("[0]" if isinstance(value, list) else "")
    return "$.*"


def _table(content: str) -> tuple[str, list[list[str]]] | None:
    """Return the delimiter and the rows of a table with a header; None if the content does not look like one."""
    sample = [line for line in content[:65_536].split("\n", _SAMPLED_ROWS)[:_SAMPLED_ROWS] if line.strip()]
    if len(sample) < 3:
        return None
    for delimiter in _DELIMITERS:
        if delimiter not in sample[0]:
            continue
        try:
            columns = [len(row) for row in csv.reader(sample[:-1], delimiter=delimiter)]
            header = next(csv.reader(sample[:1], delimiter=delimiter))
            names = [name.strip() for name in header]
            is_header = len(set(names)) == len(names) >= 2 and all(map(_COLUMN.fullmatch, names))
            if is_header and set(columns) == {len(names)}:
                lines = (line + "\n" for line in content.split("\n"))  # splitlines would cut at other characters, too
                return delimiter, [row for row in csv.reader(lines, delimiter=delimiter) if row]
        except (csv.Error, StopIteration):
            continue
    return None


def _table_lines(delimiter: str, rows: list[list[str]]) -> Iterator[OutlineLine]:
    names, body = [name.strip() for name in rows[0]], rows[1:]
    size = f"{_counted(len(body), 'row')}, {_counted(len(names), 'column')}"
    yield OutlineLine((0,), f"table: {size}{_listed(names)}")
    yield OutlineLine((2,), f"first row: {shorten(delimiter.join(body[0]), 2 * _VALUE_CHARACTERS)}")
    for number, name in enumerate(names):
        values = [row[number].strip() for row in body if number < len(row) and row[number].strip()]
        yield OutlineLine((1, number), f"column {shorten(name, 40)}: {_described_column(values, len(body))}")
    yield OutlineLine((3,), f"last row: {shorten(delimiter.join(body[-1]), 2 * _VALUE_CHARACTERS)}")


def _described_column(values: list[str], row_count: int) -> str:
    empty = f", {row_count - len(values):,} empty" if len(values) < row_count else ""
    counts = Counter(values)
    if len(counts) <= _MOST_DIFFERENT:
        return ", ".join(f"{shorten(value, 40)} ({count:,})" for value, count in counts.most_common()) + empty
    if all(map(_NUMBER.fullmatch, counts)):
        least, most = min(counts, key=float), max(counts, key=float)
        return f"numbers from {shorten(least, 40)} to {shorten(most, 40)}{empty}"
    most, count = counts.most_common(1)[0]
    often = f", most often {shorten(most, 40)} ({count:,})" if count > 1 else f", such as {shorten(most, 40)}"
    return f"{len(counts):,} different{often}{empty}"
