"""Matches of a pattern, as in `grep -n -C 2`.

Ordinary lines match once and are shown whole; in a long line each occurrence is a match, shown with its surroundings.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from memory_context.foundation.errors import TransformError
from memory_context.foundation.patterns import LinePattern, OutOfTimeError
from memory_context.foundation.utf8 import to_utf8, without_terminal_codes

__all__ = ["FilterResult", "find_matches"]

_LONG_LINE_CHARACTERS = 400
_LONG_CONTEXT_CHARACTERS = 200
_SEARCH_SECONDS = 8.0
# Searches run in chunks of whole lines, to check the clock between.
_STRETCH_BYTES = 262_144
# RE2 time is bounded by pattern size times text: about 50 s at this product.
_WORST_STEPS = 10_000_000_000
_CONTINUATION_BYTES = bytes(range(0x80, 0xC0))


@dataclass(frozen=True)
class FilterResult:
    """The requested matches or values.

    Attributes:
        shown: Number of requested matches.
        total: Number of matches in the content.
        is_total_exact: False if the search stopped early.
        render: Returns the first so many requested matches as text.
        note: Addition to the footer.
    """

    shown: int
    total: int
    is_total_exact: bool
    render: Callable[[int], str]
    note: str = ""


class _Hit(NamedTuple):
    """A match in a line; offsets in characters of the content, from 0."""

    line: int
    line_start: int
    line_end: int
    start: int
    end: int

    @property
    def is_in_long_line(self) -> bool:
        return self.line_end - self.line_start > _LONG_LINE_CHARACTERS


@dataclass
class _Line:
    start: int
    end: int
    hits: list[_Hit] = field(default_factory=list[_Hit])


def find_matches(
    content: str,
    pattern: str,
    *,
    ignore_case: bool,
    context_lines: int = 0,
    context_chars: int = 0,
    first_match: int = 1,
    max_matches: int = 1,
) -> FilterResult:
    """Return the matches from the `first_match`-th on, by default the first one.

    Codes of terminals are left out, unless that would shift positions, or the pattern matches only with them.

    Raises:
        TransformError: The pattern is invalid, or nothing was found in time.
    """
    plain = without_terminal_codes(content)
    deadline = time.monotonic() + _SEARCH_SECONDS  # of both searches
    lines = LinePattern(pattern, ignore_case)
    search = _Search(plain, lines, first_match, max_matches, deadline)
    search.run()
    if plain is not content and (not search.total or any(hit.is_in_long_line for hit in search.hits)):
        plain, search = content, _Search(content, lines, first_match, max_matches, deadline)
        search.run()
    if not search.is_complete and not search.hits:
        raise TransformError(
            f"searching with {pattern!r} took longer than {_SEARCH_SECONDS:g} s; send a simpler pattern, "
            "best a literal word, without parts that may be empty"
        )
    hits = search.hits

    def render(count: int) -> str:
        return "\n".join(_render(plain, hits[:count], context_lines, context_chars))

    has_positions = any(hit.is_in_long_line for hit in hits)
    note = "Chars count from the start of the content, as start_char does." if has_positions else ""
    return FilterResult(len(hits), search.total, search.is_complete, render, note)


class _Search:
    def __init__(self, content: str, pattern: LinePattern, first_match: int, max_matches: int, deadline: float) -> None:
        self.hits: list[_Hit] = []
        self.total = 0
        self.is_complete = False
        self._content = content
        self._data = to_utf8(content)
        self._is_ascii = len(self._data) == len(content)
        self._pattern = pattern
        self._wanted = range(first_match, first_match + max_matches)
        self._deadline = deadline
        self._line, self._line_at = 1, 0  # line number at a byte offset
        self._character, self._character_at = 0, 0  # characters before a byte offset

    def run(self) -> None:
        data, start = self._data, 0
        try:
            while start < len(data):
                end = _find(data, start + _STRETCH_BYTES, len(data))
                self._check_cost(end - start)
                while start < end:
                    span = next(self._pattern.spans(data, start, end, self._deadline), None)
                    start = end + 1 if span is None else self._take_line(start, span)
                if time.monotonic() > self._deadline:
                    return
        except OutOfTimeError:
            return
        self.is_complete = True

    def _take_line(self, start: int, span: tuple[int, int]) -> int:
        """Record the next matching line's matches; return the following line's start."""
        data = self._data
        line_start = data.rfind(b"\n", start, span[0]) + 1 or start
        line_end = _find(data, span[1], len(data))
        spans: Iterator[tuple[int, int]] = iter((span,))
        if self._is_long(line_start, line_end):
            spans = self._pattern.spans(data, line_start, line_end, self._deadline)
        for match_start, match_end in spans:
            self.total += 1
            if self.total in self._wanted:
                self._keep(line_start, match_start, match_end)
        return line_end + 1

    def _is_long(self, line_start: int, line_end: int) -> bool:
        size = line_end - line_start
        if size <= _LONG_LINE_CHARACTERS or self._is_ascii or size > 4 * _LONG_LINE_CHARACTERS:
            return size > _LONG_LINE_CHARACTERS
        return _count_characters(self._data[line_start:line_end]) > _LONG_LINE_CHARACTERS

    def _keep(self, line_start: int, match_start: int, match_end: int) -> None:
        self._line += self._data.count(b"\n", self._line_at, max(line_start, self._line_at))
        self._line_at = max(line_start, self._line_at)
        if self.hits and self.hits[-1].line == self._line:
            start_of_line = self.hits[-1].line_start
        else:
            start_of_line = self._advance(line_start)
        start = self._advance(match_start)
        end = start + (match_end - match_start if self._is_ascii else self._advance(match_end) - start)
        line_end = self._content.find("\n", end)
        line_end = len(self._content) if line_end < 0 else line_end
        self.hits.append(_Hit(self._line, start_of_line, line_end, start, end))

    def _advance(self, offset: int) -> int:
        """Convert a byte offset to characters; offsets must not decrease."""
        if self._is_ascii:
            return offset
        while self._character_at < offset:  # in chunks, since slices copy
            stop = min(offset, self._character_at + 4 * _STRETCH_BYTES)
            self._character += _count_characters(self._data[self._character_at : stop])
            self._character_at = stop
        return self._character

    def _check_cost(self, size: int) -> None:
        if size > 4 * _STRETCH_BYTES and size * self._pattern.size > _WORST_STEPS:
            raise TransformError(
                f"this pattern is too complex for a line of {size:,} bytes; send a simpler one, such as a literal "
                "word, or lower its repeat counts"
            )


def _render(content: str, hits: list[_Hit], context_lines: int, context_chars: int) -> Iterator[str]:
    lines: dict[int, _Line] = {}
    for hit in hits:
        if hit.line not in lines or not lines[hit.line].hits:
            _add_context(lines, content, hit, context_lines)
        lines[hit.line].hits.append(hit)
    last = 0
    for number in sorted(lines):
        line = lines[number]
        if last and number > last + 1:
            yield "--"
        last = number
        if not line.hits:
            yield f"{number}- {_shorten(content, line)}"
        elif line.end - line.start <= _LONG_LINE_CHARACTERS:
            yield f"{number}: {content[line.start : line.end]}"
        else:
            for start, end in _windows(line, context_chars):
                before = "…" if start > line.start else ""
                after = "…" if end < line.end else ""
                yield f"line {number}, chars {start + 1}-{end}: {before}{content[start:end]}{after}"


def _add_context(lines: dict[int, _Line], content: str, hit: _Hit, context_lines: int) -> None:
    lines.setdefault(hit.line, _Line(hit.line_start, hit.line_end))
    start = hit.line_start
    for number in range(hit.line - 1, max(hit.line - 1 - context_lines, 0), -1):
        end = start - 1
        start = content.rfind("\n", 0, end) + 1
        lines.setdefault(number, _Line(start, end))
    end = hit.line_end
    for number in range(hit.line + 1, hit.line + 1 + context_lines):
        start = end + 1
        if start >= len(content):
            break
        end = content.find("\n", start)
        end = len(content) if end < 0 else end
        lines.setdefault(number, _Line(start, end))


def _windows(line: _Line, context_chars: int) -> Iterator[tuple[int, int]]:
    """Yield ranges around matches of a long line, overlaps merged."""
    window: tuple[int, int] | None = None
    for hit in line.hits:
        start = max(line.start, hit.start - context_chars)
        # a match may be as long as the line; show its beginning
        end = min(line.end, min(hit.end, hit.start + _LONG_LINE_CHARACTERS) + context_chars)
        if window and start <= window[1]:
            window = (window[0], max(end, window[1]))
            continue
        if window:
            yield window
        window = (start, end)
    if window:
        yield window


def _shorten(content: str, line: _Line) -> str:
    size = line.end - line.start
    if size <= _LONG_LINE_CHARACTERS:
        return content[line.start : line.end]
    return f"{content[line.start : line.start + _LONG_CONTEXT_CHARACTERS]}… ({size:,} characters)"


def _find(data: bytes, start: int, default: int) -> int:
    offset = data.find(b"\n", start)
    return default if offset < 0 else offset


def _count_characters(data: bytes) -> int:
    return len(data.translate(None, _CONTINUATION_BYTES))
