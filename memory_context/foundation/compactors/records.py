"""Shows JSON records as a table of what varies between them: all of them, where a window of raw JSON has a few."""

import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from ..patterns import regex
from ..references import elided
from ..text.json_text import find_document
from ..tokens import TokenCounter

__all__ = ["longest_list", "table_of"]

_LEAST_RECORDS, _MOST_RECORDS = 3, 1_000
_LEAST_SHARE = 0.6
"""Share of a content that the records take, else much would be left out unsaid."""
_LONGEST = 60
"""Characters of a short value: fields with longer ones come last."""
_LONGEST_BESIDE = 240
_CUTS = (1_000, 240, 120, 60)
"""Characters that long values are cut to, the first that fits; a few short ones of a field may be whole."""
_DEPTH, _FIELDS = 3, 200
_CONSTANTS, _NAMED = 6, 12
_TOLD_TOKENS = 60  # of the lines about what is the same and what is left out
_SPACES = regex(r"\s+")
_IDENTIFIER = regex(r"(?:^|[._-]|(?<=[a-z])(?=[A-Z]))(?:id|key|name|title|number|code|slug|path|file)$", re.IGNORECASE)


def longest_list(value: Any, where: str = "", depth: int = 4) -> tuple[str, list[dict[str, Any]]]:
    """Return the longest list of objects near the top, and where it stands."""
    if isinstance(value, list):
        rows = [cast("dict[str, Any]", item) for item in cast("list[Any]", value) if isinstance(item, dict)]
        return where, rows if len(rows) * 2 > len(cast("list[Any]", value)) else []
    inner = cast("dict[str, Any]", value).items() if isinstance(value, dict) and depth else ()
    found = (longest_list(item, f"{where}.{key}" if where else key, depth - 1) for key, item in islice(inner, 200))
    return max(found, key=lambda one: len(one[1]), default=(where, list[dict[str, Any]]()))


@dataclass(frozen=True)
class _Field:
    """A field of the records: its value in each, as one line; "" where it has none."""

    name: str
    values: Sequence[str]

    @property
    def is_address(self) -> bool:
        return any("://" in value for value in self.values)

    @property
    def worth(self) -> tuple[bool, bool, bool, int]:
        """Sort key: short fields before long ones and addresses; among them what names a record, then the shorter."""
        is_long = max(map(len, self.values)) > _LONGEST
        return self.is_address, is_long, _IDENTIFIER.search(self.name) is None, sum(map(len, self.values))

    def cells(self, longest: int) -> list[str]:
        return [self.name, *(elided(value, longest) for value in self.values)]


def table_of(text: str, limit_tokens: int, counter: TokenCounter) -> str | None:
    """Return the records that fill a JSON text as rows of the fields that vary; None if there are none, or no room.

    All records have a row. Short fields come first, those that name a record before others, as many as fit; long values
    are cut to what room is left, addresses never. Values that are the same in all records, and the names of fields that
    are left out, stand above the rows.
    """
    document = find_document(text)
    if document is None:
        return None
    value: Any = document.value
    where, records = longest_list(value)
    records = records if document.is_whole else records[:-1]  # the last one may be cut
    if not _LEAST_RECORDS <= len(records) <= _MOST_RECORDS:
        return None
    if len(json.dumps(records, ensure_ascii=False)) < _LEAST_SHARE * len(_SPACES.sub(" ", text)):
        return None
    outer = _flat(cast("dict[str, Any]", value), "", _DEPTH) if isinstance(value, dict) else ()
    short = (f"{name}={one}" for name, one in islice(outer, _FIELDS) if name != where and len(one) <= _LONGEST_BESIDE)
    beside = ", ".join(islice(short, _CONSTANTS))  # such as the cursor of the next page
    fields = _fields(records)
    columns = _columns(fields, limit_tokens - _TOLD_TOKENS - counter.count(beside), counter)
    if not columns:
        return None
    constant = [one for one in fields if len({*one.values}) == 1 and 0 < len(one.values[0]) <= _LONGEST]
    same = [f"{one.name}={one.values[0]}" for one in constant[:_CONSTANTS]]
    others = [one.name for one in fields if one.name not in columns and one not in constant and any(one.values)]
    head = f"{len(records):,} records{f' in {where}' if where else ''}{'' if document.is_whole else ', then cut off'}"
    told = [head, f"beside them: {beside}"] if beside else [head]
    if same:
        told.append(f"the same in all: {', '.join(same)}")
    if others:
        told.append(f"not here: {', '.join(others[:_NAMED])}{', …' if len(others) > _NAMED else ''}")
    rows = zip(*(columns[one.name] for one in fields if one.name in columns), strict=True)
    table = "\n".join(["; ".join(told), *(" | ".join(row) for row in rows)])
    return None if counter.is_over(table, limit_tokens) else table


def _columns(fields: Sequence[_Field], room: int, counter: TokenCounter) -> dict[str, list[str]]:
    """Return the cells of the fields that vary, as many as fit, the name above them; no two columns are equal."""
    columns: dict[str, list[str]] = {}
    told = set[tuple[str, ...]]()
    for one in sorted((one for one in fields if len({*one.values}) > 1), key=lambda one: one.worth):
        if tuple(one.values) in told:
            continue
        for longest in (sys.maxsize,) if one.is_address else _CUTS:
            cells = one.cells(longest)
            if not counter.is_over(column := " | ".join(cells), room):  # far over, nothing is counted
                room -= counter.count(column)
                columns[one.name] = cells
                told.add(tuple(one.values))
                break
    return columns


def _fields(records: Sequence[Mapping[str, Any]]) -> list[_Field]:
    """Return the fields of all records, those of inner objects by their paths."""
    flat = [dict(islice(_flat(one, "", _DEPTH), _FIELDS)) for one in records]
    names = dict.fromkeys(name for one in flat for name in one)
    return [_Field(name, [one.get(name, "") for one in flat]) for name in islice(names, _FIELDS)]


def _flat(value: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, str]]:
    for key, one in value.items():
        name = _SPACES.sub(" ", f"{prefix}{key}")
        if isinstance(one, dict) and depth > 1:
            yield from _flat(cast("dict[str, Any]", one), f"{name}.", depth - 1)
        elif one not in (None, [], {}):
            yield name, _SPACES.sub(" ", one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)).strip()
