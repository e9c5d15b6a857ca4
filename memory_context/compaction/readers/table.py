"""Tables: CSV and TSV, Markdown, what psql and mysql print, columns of fixed width as of `docker ps` or `kubectl get`.

Agents come back to a table for the row of a name, for which columns there are, and for how many rows it has.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import zip_longest

from ..compactor import Result
from ..excerpt import Passage
from ..reading import Reading
from .calls import call_of
from .columns import Column, categories, is_naming, ranges
from .framing import FACTS, LANDMARKS, NAMES, described, fact, frame_of
from .grid import Grid, find_grid

__all__ = ["read_table"]

_LONGEST_NAME = 60
_COLUMNS = 40
_LABELS = 50

_NOTHING = {"", "NULL", "null", "NaN", "N/A", "-", "<none>"}
_NUMBER_STARTS = set("-+.0123456789")


def read_table(result: Result) -> Reading | None:
    """Return what a table says: columns, number of rows, first column, least and greatest; None if it is none."""
    content = result.content
    frame = frame_of(content, call_of(result).command)
    table = find_grid(content, frame.body)
    if table is None:
        return None
    columns = [
        Column(name, _values(cells))
        for name, cells in zip(table.header, zip_longest(*table.rows, fillvalue=""), strict=False)
    ]
    key = _key_column(columns)
    named = key.texts if key else []
    empty = {column.name: sum(value is None for value in column.values) for column in columns[:_COLUMNS]}
    shown = [name + (f" ({empty[name]:,} empty)" if empty.get(name) else "") for name in table.header[:_COLUMNS]]
    facts = [f"columns: {', '.join(shown)}", *ranges(columns, named), *categories(columns)]
    count = f"{table.count:,}{'' if table.is_exact else '+'} rows"
    names = list(dict.fromkeys([*(name for name in named if name), *table.header]))
    extremes = sorted({index for column in columns for index in column.extremes if index < len(table.places)})
    return Reading(
        described(f"{table.kind}, {count}", f"({', '.join(table.header[:8])})", f"{len(content):,} characters"),
        has_failed=frame.has_failed,
        facts=[fact(line) for line in facts][:FACTS],
        names=[name for name in names if 1 < len(name) <= 2 * _LONGEST_NAME and name.isprintable()][:NAMES],
        landmarks=[
            table.head,
            *(Passage(*place) for place in table.places[:2]),
            *(Passage(*table.places[index]) for index in extremes),
            *(Passage(*place) for place in table.places[-2:]),
        ][:LANDMARKS],
        labels=list(_labels(table, named)),
    )


def _values(cells: Sequence[str]) -> "Sequence[str | float | int | None]":
    """Return what the cells of a column mean; a whole column of one sort at once."""
    head = next((cell for cell in cells if cell.strip()), "")
    if isinstance(_value(head), (int, float)):
        for sort in (int, float):
            with suppress(ValueError):
                return [None if (number := sort(cell)) != number else number for cell in cells]
        return [_value(cell) for cell in cells]
    return [None if (text := cell.strip()) in _NOTHING else text for cell in cells]


def _value(cell: str) -> "str | float | int | None":
    """Return what a cell means: a number, a text, or None if it is empty."""
    text = cell.strip()
    if text in _NOTHING:
        return None
    if text[0] in _NUMBER_STARTS and len(text) < 20 and "_" not in text:
        try:
            return int(text)
        except ValueError:
            try:
                return float(text)
            except ValueError:
                return text
    return text


def _key_column(columns: Sequence[Column]) -> Column | None:
    """The column that rows are called by: the first of texts under a naming name, else of numbers, else any."""
    texts = [column for column in columns if any(isinstance(value, str) for value in column.values[:50])]
    named = [column for column in columns if is_naming(column.name.lower())]
    return next(iter([*(column for column in named if column in texts), *named, *texts, *columns]), None)


def _labels(table: Grid, named: Sequence[str]) -> Iterator[tuple[Passage, str]]:
    """Name stretches of rows by their first and last."""
    count = min(len(table.places), len(named))
    step = max(-(-count // _LABELS), 1)
    for start in range(0, count, step):
        last = min(start + step, count) - 1
        name = named[start] if last == start else f"{named[start][:30]} to {named[last][:30]}"
        yield Passage(table.places[start][0], table.places[last][1]), name[: 2 * _LONGEST_NAME]
