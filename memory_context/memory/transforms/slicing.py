"""Ranges of a content within a limit: whole lines if possible, else characters, with a footer that continues."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from memory_context.foundation.errors import TransformError
from memory_context.foundation.tokens import TokenCounter, cut_to_tokens

__all__ = ["LEAST_ROOM_TOKENS", "PARAMETERS", "Cut", "Slicer", "call_text", "implied_by"]

LEAST_ROOM_TOKENS = 16
"""Room beside the footer for at least a character, so that following footers terminates."""
_STEP_CHARACTERS = 65_536


@dataclass(frozen=True)
class Cut:
    """The text that a transform returns.

    Attributes:
        is_whole: `text` is exactly the content; otherwise it ends with a footer.
        label: The part shown, such as "lines 120-180 of"; a reference follows.
    """

    text: str
    is_whole: bool
    label: str


class _Range(NamedTuple):
    """A range in lines if whole, else in characters; inclusive, from 1."""

    noun: str
    first: int
    last: int
    total: int

    def call(self, key: str, first: int, last: int) -> str:
        unit = self.noun[:4]
        return call_text(key, "excerpt", {f"start_{unit}": first, f"end_{unit}": last})


class Slicer:
    """Cuts one content within an optional limit."""

    def __init__(self, content: str, key: str, counter: TokenCounter, limit: int | None, tokens: int | None) -> None:
        self.content = content
        self.key = key
        self.counter = counter
        self.limit = limit
        self._tokens = tokens
        self._lines: int | None = None

    @property
    def line_count(self) -> int:
        """A final line break starts no new line."""
        if self._lines is None:
            self._lines = self.content.count("\n") + (not self.content.endswith("\n") and bool(self.content))
        return self._lines

    @property
    def token_count(self) -> int:
        if self._tokens is None:
            self._tokens = self.counter.count(self.content)
        return self._tokens

    def lines(self, first: int, last: int | None, keep: Literal["start", "end"] = "start") -> Cut:
        """Show lines, inclusive; None ends with the content."""
        count = self.line_count
        if first > count:
            raise TransformError(f"the content has {count:,} lines; send start_line between 1 and {count}")
        start = self._line_start(first)
        end = len(self.content) if last is None or last >= count else self._line_start(last + 1)
        return self.range(start, end, keep)

    def characters(self, first: int, last: int | None) -> Cut:
        """Show characters, inclusive; None ends with the content."""
        size = len(self.content)
        if first > size:
            raise TransformError(f"the content has {size:,} characters; send start_char between 1 and {size}")
        return self.range(first - 1, size if last is None else min(last, size), by_lines=False)

    def tokens(self, n: int, keep: Literal["start", "end"]) -> Cut:
        """Show the first or last tokens, at least one character."""
        part = cut_to_tokens(self.content, n, self.counter, keep)
        if not part:
            part = self.content[:1] if keep == "start" else self.content[-1:]
        size = len(self.content)
        start, end = (0, len(part)) if keep == "start" else (size - len(part), size)
        return self.range(*(self._align(start, end, keep) if len(part) < size else (start, end)), keep)

    def range(self, start: int, end: int, keep: Literal["start", "end"] = "start", by_lines: bool = True) -> Cut:
        """Show as many characters from `start` to `end` (exclusive) as fit."""
        content = self.content
        is_over_limit = self.limit is not None and self.counter.is_over(content[start:end], self.limit)
        if start == 0 and end == len(content) and not is_over_limit:
            return Cut(content, True, "all of")
        room: int | None = None
        while True:
            footer, label = self._range_footer(start, end, keep, by_lines)
            text = f"{content[start:end]}\n{footer}"
            if self.limit is None or not self.counter.is_over(text, self.limit):
                return Cut(text, False, label)
            # Token counts of parts do not add up exactly: shrink until it fits.
            room = self._room(footer) if room is None else room - max(1, room // 50)
            if room < LEAST_ROOM_TOKENS:
                raise self._no_room(footer)
            part = cut_to_tokens(content[start:end], room, self.counter, keep)
            start, end = (start, start + len(part)) if keep == "start" else (end - len(part), end)
            if by_lines:
                start, end = self._align(start, end, keep)

    def within_limit(self, text: str, footer: str) -> str:
        """Return text and footer, the text cut to fit the limit."""
        whole = f"{text}\n{footer}" if text else footer
        if self.limit is None or not self.counter.is_over(whole, self.limit):
            return whole
        room = self._room(footer)
        while text and room >= LEAST_ROOM_TOKENS:
            whole = f"{cut_to_tokens(text, room, self.counter)}\n{footer}"
            if not self.counter.is_over(whole, self.limit):
                return whole
            room -= max(1, room // 50)
        raise self._no_room(footer)

    def call_for(self, start: int, end: int) -> str:
        """Return the tool call that shows a range."""
        span = self._span(start, end)
        return span.call(self.key, span.first, span.last)

    def described(self) -> str:
        return f"{self.line_count:,} lines ({self.token_count:,} tokens in all)"

    def _room(self, footer: str) -> int:
        assert self.limit is not None
        return self.limit - self.counter.count("\n" + footer)

    def _no_room(self, footer: str) -> ValueError:
        least = self.counter.count("\n" + footer) + 2 * LEAST_ROOM_TOKENS
        return ValueError(f"answer_limit_tokens={self.limit!r} has no room for the footer; use at least {least}")

    def _span(self, start: int, end: int, by_lines: bool = True) -> _Range:
        content = self.content
        if not (by_lines and self._is_line_end(start) and self._is_line_end(end)):
            return _Range("characters", start + 1, end, len(content))
        first = content.count("\n", 0, start) + 1
        last = first + content.count("\n", start, end) - (content[end - 1] == "\n")
        return _Range("lines", first, last, self.line_count)

    def _range_footer(self, start: int, end: int, keep: str, by_lines: bool) -> tuple[str, str]:
        span = self._span(start, end, by_lines)
        noun, first, last, total = span
        shown = f"{noun} {first:,}-{last:,} of {total:,} ({self.token_count:,} tokens in all)"
        label = f"{noun} {first}-{last} of"
        length = last - first + 1
        if keep == "end" and first > 1:
            return f"[{shown}. Before: {span.call(self.key, max(first - length, 1), first - 1)}]", label
        if last == total:
            return f"[{shown}. That is the end.]", label
        return f"[{shown}. Next: {span.call(self.key, last + 1, min(last + length, total))}]", label

    def _align(self, start: int, end: int, keep: str) -> tuple[int, int]:
        """Move a cut back to a line end that keeps at least half."""
        if keep == "start":
            line_end = self.content.rfind("\n", start, end) + 1
            return (start, line_end) if not self._is_line_end(end) and 2 * line_end >= start + end else (start, end)
        line_start = self.content.find("\n", start, end) + 1
        return (line_start, end) if not self._is_line_end(start) and 0 < 2 * line_start <= start + end else (start, end)

    def _is_line_end(self, offset: int) -> bool:
        return offset in (0, len(self.content)) or self.content[offset - 1] == "\n"

    def _line_start(self, line: int) -> int:
        """Return a line's offset without iterating over the lines before."""
        offset, missing = 0, line - 1
        while missing and (count := self.content.count("\n", offset, offset + _STEP_CHARACTERS)) < missing:
            missing -= count
            offset += _STEP_CHARACTERS
        for _ in range(missing):
            offset = self.content.find("\n", offset) + 1
        return offset


PARAMETERS: dict[str, tuple[str, ...]] = {
    "full": (),
    "filtered": (
        *("pattern", "json_path", "first_match", "max_matches"),
        *("ignore_case", "context_lines", "context_chars"),
    ),
    "excerpt": ("start_line", "end_line", "start_char", "end_char"),
    "first_n": ("n", "unit"),
    "last_n": ("n", "unit"),
    "summary": ("limit_tokens",),
}
"""Names of the parameters of each transform; the first that takes a given one is implied by it."""


def implied_by(parameters: Iterable[str]) -> str:
    """Return the first transform that takes one of these parameters; full without any."""
    given = {*parameters}
    return next((name for name, taken in PARAMETERS.items() if given.intersection(taken)), "full")


def call_text(key: str, transform: str, params: dict[str, Any]) -> str:
    """Return the tool call for an item and transform, which is named unless its parameters imply it."""
    named = {} if transform == implied_by(params) else {"transform": transform}
    arguments = {"memory_key": key} | named | params
    values = (str(one) if isinstance(one, int) else json.dumps(one, ensure_ascii=False) for one in arguments.values())
    return f"retrieve_memory({', '.join(map('='.join, zip(arguments, values, strict=True)))})"
