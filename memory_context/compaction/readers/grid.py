"""Where a table stands in a text: rows under a rule, cells between delimiters, columns of fixed width."""

import csv
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

from ..excerpt import Passage

__all__ = ["Grid", "find_grid"]

_PARSED = 1_000_000
_SNIFFED_LINES = 24
_LONGEST_LINE = 4000
_LONGEST_NAME = 60
_LEAST_ROWS = 3
_PREFACE = 4
"""Lines among which a table of delimited cells may begin: tools say first what they read."""

_RULE = re.compile(r"[|+ ]*:?-{2,}:?(?:[ |+:]+-[-:|+ ]*)?$")
_CODE_ENDS = ("{", "(", "[", ";", "=", "\\", ":")
_FOOTER = re.compile(r"\(\d+ rows?\)|\d+ rows? in set.*|\[\d+ rows x \d+ columns\]|Query OK.*|Time: .*")
_WIDE = re.compile(r" {2,}|\t+")

_Kind = Literal["CSV", "TSV", "Markdown table", "psql table", "mysql table", "table"]


@dataclass(frozen=True)
class Grid:
    """The header, the rows that were read, where each stands, how many there are, and whether that is exact."""

    kind: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    places: Sequence[tuple[int, int]]
    head: Passage
    count: int
    is_exact: bool


def find_grid(content: str, body: Passage) -> Grid | None:
    """Return the table that makes up most of a body; None if there is none."""
    window = content[body.start : min(body.end, body.start + _PARSED)]
    is_whole = body.end - body.start <= _PARSED
    lines = window.split("\n")
    if not is_whole:
        lines.pop()
    starts = list(accumulate((len(line) + 1 for line in lines), initial=body.start))
    if "\r" in window:
        lines = [line.rstrip("\r") for line in lines]
    if "\0" in window:  # csv of Python 3.10 refuses it
        lines = [line.replace("\0", "") for line in lines]
    first = next((index for index, line in enumerate(lines[:_SNIFFED_LINES]) if line.strip()), None)
    if first is None or len(lines) - first < _LEAST_ROWS or len(lines[first]) > _LONGEST_LINE:
        return None
    beginnings = [index for index in range(first, min(first + _PREFACE, len(lines))) if lines[index].strip()]
    delimited = (_delimited(lines, index) for index in beginnings)
    found = _ruled(lines, first) or next(filter(None, delimited), None) or _spaced(lines, first)
    if found is None:
        return None
    kind, header, head_index, rows, indices = found
    if len(rows) < 2 or len(header) < 2:
        return None
    more = 0
    if not is_whole:
        more = content.count("\n", body.start + _PARSED, body.end) + (content[body.end - 1] != "\n")
    return Grid(
        kind,
        header,
        rows,
        [(starts[index], starts[index] + len(lines[index])) for index in indices],
        Passage(starts[head_index], starts[head_index] + len(lines[head_index])),
        len(rows) + more,
        is_whole or len(indices) == len(rows),
    )


_Found = tuple[_Kind, Sequence[str], int, Sequence[Sequence[str]], Sequence[int]]


def _ruled(lines: Sequence[str], first: int) -> _Found | None:
    """A table whose header is followed by a rule: Markdown, psql, mysql, columns under dashes."""
    rule = next((i for i in range(first, min(first + 8, len(lines))) if _is_rule(lines[i])), None)
    if rule is None:
        return None
    kind: _Kind
    if lines[rule].startswith("+"):
        kind, head = "mysql table", rule + 1
    elif "|" in lines[rule]:
        kind, head = "Markdown table", rule - 1
    else:
        kind, head = ("psql table" if "+" in lines[rule] else "table"), rule - 1
    if not first <= head < len(lines):
        return None
    split = _cells if "|" in lines[head] else _wide_cells
    header = split(lines[head])
    rows: list[Sequence[str]] = []
    indices: list[int] = []
    strangers = head - first
    for index in range(max(head, rule) + 1, len(lines)):
        line = lines[index]
        if "--" in line and _is_rule(line):
            continue
        cells = split(line[:_LONGEST_LINE])
        if len(cells) == len(header) or (split is _wide_cells and 1 < len(cells) <= len(header) + 1):
            rows.append(cells)
            indices.append(index)
        else:
            strangers += bool(line.strip()) and not _FOOTER.fullmatch(line[:200].strip())
    return (kind, header, head, rows, indices) if len(rows) > strangers and len(header) > 1 else None


def _is_rule(line: str) -> bool:
    return len(line) < _LONGEST_LINE and line[:1] in "|+-: " and "--" in line and _RULE.match(line.strip()) is not None


def _cells(line: str) -> list[str]:
    inner = line.strip()
    if inner.startswith("|"):
        inner = inner[1:-1] if inner.endswith("|") else inner[1:]
    return [cell.strip() for cell in inner.split("|")]


def _wide_cells(line: str) -> list[str]:
    if "\t" in line:
        return _WIDE.split(line.strip())
    return [stripped for cell in line.split("  ") if (stripped := cell.strip())] or [""]


def _delimited(lines: Sequence[str], first: int) -> _Found | None:
    """CSV and TSV: the same number of cells in nearly every line, under a header of short, different names."""
    sample = [line for line in lines[first : first + _SNIFFED_LINES] if line.strip()]
    for delimiter in ("\t", ",", ";", "|"):
        if delimiter not in sample[0] or sample[0].rstrip().endswith(_CODE_ENDS):
            continue
        if delimiter == "," and 2 * sum(line.count(", ") for line in sample) > sum(line.count(",") for line in sample):
            continue  # commas of prose or of code
        header = _parse(sample[:1], delimiter)[0]
        widths = [len(cells) for cells in _parse(sample, delimiter)]
        if not _is_header(header, delimiter) or widths.count(len(header)) < max(0.9 * len(widths), 2):
            continue
        parsed = _parse(lines[first:], delimiter)
        rows = [row for row in parsed[1:] if len(row) == len(header)]
        filled = [index for index in range(first, len(lines)) if lines[index] and not lines[index].isspace()]
        if len(rows) < 0.8 * (len(parsed) - 1) or len(parsed) < 0.5 * len(filled):
            return None
        # a cell with a line break puts rows out of step with lines: then only the header's place is known
        indices = filled[1:]
        kind: _Kind = "TSV" if delimiter == "\t" else "CSV"
        return kind, [cell.strip() for cell in header], first, rows, indices if len(indices) == len(rows) else []
    return None


def _parse(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    found: list[list[str]] = []
    reader = csv.reader(lines, delimiter=delimiter)
    with suppress(csv.Error):  # a cell beyond the reader's limit, at an unclosed quote
        found.extend(row for row in reader if row)
    return found or [[]]


def _is_header(cells: Sequence[str], delimiter: str) -> bool:
    least = 3 if delimiter in ",|" else 2
    names = [cell.strip() for cell in cells]
    return (
        (len(names) >= least or (len(names) == 2 and all(name.replace("_", "").isalnum() for name in names)))
        and len(set(names)) == len(names)
        and all(0 < len(name) <= _LONGEST_NAME for name in names[1:])
        and all(map(str.isprintable, names))
        and not any(map(_is_number, names))
        and not any(mark in name for name in names for mark in "{}=<>;\"'`")
        and (delimiter != "," or sum(name.count(" ") for name in names) < 2 * len(names))
    )


def _spaced(lines: Sequence[str], first: int) -> _Found | None:
    """Columns of fixed width under a header in capitals (docker, kubectl), or numbered rows (pandas)."""
    header = _wide_cells(lines[first])
    if len(names := lines[first].replace("Mounted on", "Mounted").split()) > 3 and (
        all(name.upper() == name and _is_word(name.lstrip("%")) for name in names) or names[0] == "Filesystem"
    ):
        return _in_words(lines, first, names)
    following = [_wide_cells(line) for line in lines[first + 1 : first + _SNIFFED_LINES] if line.strip()]
    if len(header) < 2 or len(following) < 2:
        return None
    is_numbered = following[0][0] == "0" and following[1][0] == "1"
    if not is_numbered and not (len(header) > 2 and all(cell.upper() == cell and _is_word(cell) for cell in header)):
        return None
    offset = int(is_numbered)
    rows: list[Sequence[str]] = []
    indices: list[int] = []
    strangers = 0
    for index in range(first + 1, len(lines)):
        cells = _wide_cells(lines[index][:_LONGEST_LINE])
        if len(cells) == len(header) + offset or (not is_numbered and 1 < len(cells) <= len(header)):
            rows.append(cells[offset:])
            indices.append(index)
        else:
            strangers += bool(lines[index].strip()) and not _FOOTER.fullmatch(lines[index][:200].strip())
    return ("table", header, first, rows, indices) if len(rows) > 3 * strangers else None


def _in_words(lines: Sequence[str], first: int, header: Sequence[str]) -> _Found | None:
    """Columns apart by single spaces, whose last one takes the rest of the line (ps, df, lsof, ss)."""
    indices = [index for index in range(first + 1, len(lines)) if lines[index].strip()]
    split = [(index, lines[index][:_LONGEST_LINE].split(None, len(header) - 1)) for index in indices]
    rows = [(index, cells) for index, cells in split if len(cells) == len(header)]
    if len(rows) < max(2, 0.9 * len(indices)):
        return None
    return "table", header, first, [cells for _, cells in rows], [index for index, _ in rows]


def _is_word(cell: str) -> bool:
    return bool(cell) and cell[0].isalpha() and len(cell) < _LONGEST_NAME


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
