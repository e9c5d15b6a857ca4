"""Compares two readings of a page: lines that differ, without lines that change by themselves."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from ..open_file import ChangedLines
from .snapshot import Line

__all__ = ["Blinking", "Change", "changes_between", "told_changes"]

_MOST_COMPARED = 3000
_MOST_TOLD = 10
_FAST_SECONDS = 2.0
"""A number that changes within it without an action is a clock; a later one may be news."""
_OFTEN = 2
_MOST_ALIGNED = 100
_MOST_KNOWN = 500
_LINE_CHARACTERS, _OLD_LINE_CHARACTERS = 300, 120
_RUNNING = re.compile("[\\d|/\\\\.…·•●○\u2800-\u28ff◐-◿▁-█-]+")
"""Digits, and what spinners are made of."""


@dataclass(frozen=True)
class Change:
    """Lines that took the place of others; `at` is the index in the page as it is now."""

    removed: Sequence[Line]
    added: Sequence[Line]
    at: int


@dataclass
class Blinking:
    """Lines of one document that change without an action."""

    _shapes: set[str] = field(default_factory=set[str])
    _coming: set[str] = field(default_factory=set[str])
    _seen: Counter[str] = field(default_factory=Counter[str])

    def keys(self, lines: Sequence[Line]) -> list[tuple[int, str]]:
        """Return the lines by which pages are compared, with their indexes."""
        keys = [shape if (shape := _shape(one)) in self._shapes else one.key for one in lines]
        return [(at, key) for at, key in enumerate(keys) if lines[at].key not in self._coming]

    def note(self, before: Sequence[Line], after: Sequence[Line], seconds: float) -> None:
        """Learn from what changed without an action within so many seconds."""
        if len(self._seen) > _MOST_KNOWN:
            self._seen.clear()
        for change in changes_between(before, after, self):
            pairs, gone, came = _aligned(change)
            for _, new in pairs:
                self._count(_shape(new), self._shapes, 1 if seconds < _FAST_SECONDS else _OFTEN)
            if len(gone) + len(came) <= _OFTEN:
                for one in (*gone, *came):
                    self._count(one.key, self._coming, _OFTEN)

    def _count(self, key: str, known: set[str], often: int) -> None:
        self._seen[key] += 1
        if self._seen[key] >= often:
            known.add(key)


def _aligned(change: Change) -> tuple[list[tuple[Line, Line]], list[Line], list[Line]]:
    """Return the lines of a change that differ in numbers alone, those that went, and those that came."""
    if len(change.removed) * len(change.added) > _MOST_ALIGNED:
        return [], [*change.removed], [*change.added]
    gone, came = [*change.removed], list[Line]()
    pairs: list[tuple[Line, Line]] = []
    for new in change.added:
        old = next((one for one in gone if _shape(one) == _shape(new)), None)
        if old is None:
            came.append(new)
        else:
            gone.remove(old)
            pairs.append((old, new))
    return pairs, gone, came


def _shape(line: Line) -> str:
    return _RUNNING.sub("#", line.key)


def changes_between(before: Sequence[Line], after: Sequence[Line], blinking: Blinking) -> list[Change]:
    """Return the differences in order, without references and without what blinks."""
    old, new = blinking.keys(before), blinking.keys(after)
    old_keys, new_keys = [key for _, key in old], [key for _, key in new]
    span = ChangedLines.between(old_keys, new_keys)
    first = span.first
    a, b = old_keys[first : span.old_end], new_keys[first : span.new_end]
    if len(a) + len(b) > _MOST_COMPARED:
        codes = [("replace", 0, len(a), 0, len(b))]
    else:
        codes = SequenceMatcher(None, a, b).get_opcodes()
    return [
        Change(
            [before[at] for at, _ in old[first + i : first + j]],
            [after[at] for at, _ in new[first + k : first + m]],
            new[first + k][0] if first + k < len(new) else len(after),
        )
        for tag, i, j, k, m in codes
        if tag != "equal"
    ]


def told_changes(changes: Sequence[Change], page: Sequence[Line]) -> list[str]:
    """Return at most about ten lines of what went (-), came (+) and changed (~), each below the line it belongs to."""
    told: list[str] = []
    room, above, left = _MOST_TOLD, "", 0
    for change in changes:
        lines = _lines_of(change)
        if len(lines) > room:  # what came matters more
            lines = sorted(lines, key=lambda line: line.startswith("- "))
        shown, left = lines[:room], left + max(len(lines) - room, 0)
        if shown and (context := _context(page, change.at)) != above:
            told += [f"in {_cut(context, _OLD_LINE_CHARACTERS)}:"] if context else []
            above = context
        told += [f"  {one}" if above else one for one in shown]
        room -= len(shown)
    return [*told, f"[{left:,} more lines changed]"] if left else told


def _lines_of(change: Change) -> list[str]:
    if len(change.removed) == len(change.added):
        pairs = [*zip(change.removed, change.added, strict=True)]
        was = [_was(old.key, new.key) for old, new in pairs]
        if all(one is not None for one in was):
            return [
                f"~ {_cut(new.text, _LINE_CHARACTERS)}{f' (was {old})' if old else ''}"
                for (_, new), old in zip(pairs, was, strict=True)
            ]
    gone = [f"- {_cut(one.key, _OLD_LINE_CHARACTERS)}" for one in change.removed]
    return [*gone, *(f"+ {_cut(one.text, _LINE_CHARACTERS)}" for one in change.added)]


def _was(old: str, new: str) -> str | None:
    """Return the words of a line that it does not have any more; None if it is another line."""
    before = old.split(" ")
    span = ChangedLines.between([one.rstrip(":,") for one in before], [one.rstrip(":,") for one in new.split(" ")])
    words = before[span.first : span.old_end]
    return _cut(" ".join(words), _OLD_LINE_CHARACTERS) if 2 * len(words) <= len(before) else None


def _context(page: Sequence[Line], at: int) -> str:
    """Return the line that a place belongs to: the next one above that is less deep, or else a heading."""
    depth = page[at].depth if at < len(page) else 0
    for line in reversed(page[:at]):
        if line.depth < depth or (line.depth == depth and line.key.startswith("heading")):
            return line.key
    return ""


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[:characters]}…"
