"""The columns of records and of tables: which of them names things, and what can be said of the values of one.

An answer to a follow-up question is often the least, the greatest or the count of a kind: these are a line each.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

__all__ = ["Column", "categories", "is_naming", "ranges"]

_NAMING = {
    "id", "key", "name", "title", "path", "url", "uri", "email", "code", "slug", "sku", "file", "filename", "link",
    "login", "username", "user", "symbol", "uuid", "guid", "sha", "ref", "number", "label", "host", "hostname", "tool",
    "pod", "names", "image", "package", "module", "server", "href", "handle", "phone", "isbn", "ticker", "command",
    "pid",
}  # fmt: skip
_NO_MEASURES = (
    "lat", "lon", "lng", "latitude", "longitude", "zip", "phone", "timestamp", "time", "year", "index", "row",
)  # fmt: skip
_KINDS = 5
_LEAST_ROWS = 3
_MEASURES = 6
_GROUPS = 4


@dataclass(frozen=True)
class Column:
    """A field of records.

    Attributes:
        name: Its name; `a.b` for the field b of the objects in field a.
        values: One value a record; None where there is none.
        missing: How many records do not have it.
    """

    name: str
    values: Sequence[Any]
    missing: int = 0

    @cached_property
    def texts(self) -> list[str]:
        """Return the values as texts, in order; empty where there is none or it is no scalar."""
        return [
            value if isinstance(value, str) else str(value) if isinstance(value, (int, float)) else ""
            for value in self.values
        ]

    @cached_property
    def numbers(self) -> Sequence[tuple[float, int]] | None:
        """The numbers with their records' indices; None if it has other values or is no measure."""
        if is_naming(self.name) or self.name.rpartition(".")[2].lower() in _NO_MEASURES:
            return None
        found: list[tuple[float, int]] = []
        for index, value in enumerate(self.values):
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                if math.isfinite(value if abs(value) < 1e300 else math.inf):
                    found.append((value, index))
            elif value is not None and value != "":
                return None
        return found if len(found) >= _LEAST_ROWS else None

    @cached_property
    def extremes(self) -> tuple[int, ...]:
        """Return which records have the least and the greatest number; empty if it has none or all are equal."""
        if not self.numbers:
            return ()
        least, greatest = min(self.numbers), max(self.numbers, key=lambda pair: (pair[0], -pair[1]))
        return (least[1], greatest[1]) if least[0] != greatest[0] else ()


def is_naming(name: str) -> bool:
    """Whether values under this name are what things are called by, such as `id`, `flight_number` or `userEmail`."""
    last = name.rpartition(".")[2]
    words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in last[:60]).replace("-", "_")
    return last.lower().rpartition(" ")[2] in _NAMING or words.rpartition("_")[2] in _NAMING


def ranges(columns: Sequence[Column], named: Sequence[str] = ()) -> Iterator[str]:
    """Yield a line for the measures: the least and the greatest of each, and which records have them."""
    found: list[str] = []
    for column in columns:
        if extremes := column.extremes:
            low, high = (f"{column.values[index]}{_called(named, index)}" for index in extremes)
            found.append(f"{column.name} {low} to {high}")
    for start in range(0, min(len(found), _MEASURES), 2):
        yield "; ".join(found[start : start + 2])


def _called(named: Sequence[str], index: int) -> str:
    return f" ({named[index][:40]})" if index < len(named) and named[index] else ""


def categories(columns: Sequence[Column]) -> Iterator[str]:
    """Yield a line for each column with few different values: how often each occurs."""
    yielded = 0
    for column in columns:
        if len(column.values) < _LEAST_ROWS or column.numbers is not None or yielded == _GROUPS:
            continue
        kinds: Counter[str] = Counter()
        for value in column.values:
            if isinstance(value, (str, bool)):
                kinds[str(value)] += 1
            if len(kinds) > _KINDS:
                break
        if 0 < len(kinds) <= _KINDS and sum(kinds.values()) >= _LEAST_ROWS and max(kinds.values()) > 1 and any(kinds):
            yielded += 1
            yield f"{column.name}: " + ", ".join(
                f"{kind[:40] or 'empty'} {count:,}" for kind, count in kinds.most_common()
            )
