"""Reports of a page for an agent: its state, lines that match a search, and lines that changed since the last look."""

import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import islice

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.patterns import LinePattern, OutOfTimeError, regex
from memory_context.foundation.tokens import TokenCounter, cut_to_tokens

from ..open_file import ChangedLines
from .page import Shown
from .snapshot import Line

__all__ = ["VIEWPORT", "Blinking", "Change", "changes_between", "found_lines", "page_head", "page_state", "shown_url"]
__all__ += ["told_changes"]

VIEWPORT = 1280, 720
"""Width and height of the visible part, in pixels."""

_URL_CHARACTERS = 200
_TITLE_CHARACTERS = 200
_MOST_HITS = 50
_MOST_BLOCK = 8
_FIND_SECONDS = 2.0
_MOST_COMPARED = 3000
_MOST_TOLD = 10
_OFTEN = 2
_MOST_KNOWN = 500
_LINE_CHARACTERS, _OLD_LINE_CHARACTERS = 300, 120
_RUNNING = regex("[\\d|/\\\\.…·•●○\u2800-\u28ff◐-◿▁-█-]+")
"""Digits, and what spinners are made of."""


# --- the state


def shown_url(url: str) -> str:
    """Return an address as far as it can be read."""
    return url if len(url) <= _URL_CHARACTERS else f"{url[:_URL_CHARACTERS]}… ({len(url):,} characters)"


def page_head(page: Shown) -> list[str]:
    """Return title and tabs."""
    lines = [f"Title: {page.title[:_TITLE_CHARACTERS]}"] if page.title else []
    if len(page.tabs) > 1:
        lines.append("Tabs:")
        for number, title, url in page.tabs:
            shown = " (shown)" if number == page.tab else ""
            lines.append(f'  {number}. "{title[:80]}" {shown_url(url)[:120]}{shown}')
    return lines


def page_state(page: Shown, notes: Sequence[str], limit_tokens: int, counter: TokenCounter, connector_id: str) -> str:
    """Return address, title, tabs, notes, and as many lines as fit: those in view and below, if not all."""
    head = "\n".join([f"URL: {shown_url(page.url)}", *page_head(page), *notes])
    room = max(limit_tokens - counter.count(head) - 40, 0)
    whole = "\n".join(map(str, page.lines))
    if len(whole) <= 6 * room and not counter.is_over(whole, room):
        more = "\n[The page has more elements than are read.]" if page.is_cut else ""
        return f"{head}\n{whole}{more}"
    right, bottom = VIEWPORT
    in_view = (
        at
        for at, line in enumerate(page.lines)
        if any(w and h and x < right and x + w > 0 and y < bottom and y + h > 0 for x, y, w, h in line.boxes)
    )
    first = next(in_view, 0)
    rest = "\n".join(map(str, islice(page.lines, first, None)))
    part = cut_to_tokens(rest, room, counter)
    part = part if len(part) == len(rest) else part[: max(part.rfind("\n"), 0)]
    lines = len(page.lines)
    return f"{head}\n{part}\n[A part in view of {lines:,} lines: {connector_id}_find or {connector_id}_scroll.]"


# --- a search


def found_lines(page: Shown, pattern: str, *, is_regex: bool) -> str:
    """Return the lines that match, each with the part of the page that it stands in, if that is short."""
    lines = page.lines
    text = LinePattern(pattern if is_regex else re.escape(pattern), ignore_case=True)
    found: list[int] = []
    ends_at = time.monotonic() + _FIND_SECONDS
    try:
        for index, line in enumerate(lines):
            data = line.text.encode("utf-8", "replace")
            if next(text.spans(data, 0, len(data), ends_at), None) is not None:
                found.append(index)
    except OutOfTimeError:
        pass  # what was found is shown
    if not found:
        raise ConnectorError(f"no element of {len(lines):,} lines has {pattern[:100]!r}; scroll, as pages load more")
    shown = {at for index in found[:_MOST_HITS] for at in _block(lines, index)}
    more = len(found) - _MOST_HITS
    hits = [str(lines[at]) for at in sorted(shown)]
    return "\n".join([*hits, f"[{more} more; use a rarer text]"] if more > 0 else hits)


def _block(lines: Sequence[Line], index: int) -> Sequence[int]:
    """Return the line above that holds a line, and all that it holds; if that is long, what the line is about."""
    depth = lines[index].depth
    own = [index]
    if "[e" not in lines[index].text:  # a text: what can be done with it stands behind it
        behind = range(index + 1, min(index + _MOST_BLOCK // 2 + 1, len(lines)))
        own = [*range(index, next((at for at in behind if "[e" in lines[at].text), index) + 1)]
    above = next((at for at in range(index - 1, -1, -1) if lines[at].depth < depth), None)
    if above is None:
        return own
    end = next((at for at in range(index + 1, len(lines)) if lines[at].depth <= lines[above].depth), len(lines))
    return range(above, end) if end - above <= _MOST_BLOCK else [above, *own]


# --- changes


@dataclass(frozen=True)
class Change:
    """Lines that took the place of others; `at` is the index in the page as it is now."""

    removed: Sequence[Line]
    added: Sequence[Line]
    at: int


@dataclass
class Blinking:
    """Lines of one document that change twice without an action: clocks, spinners, counters, texts that come and go."""

    _seen: Counter[str] = field(default_factory=Counter[str])

    def keys(self, lines: Sequence[Line]) -> list[tuple[int, str]]:
        """Return the lines by which pages are compared, with their indexes."""
        keys = [(at, shape if self._seen[shape := _shape(one)] >= _OFTEN else one.key) for at, one in enumerate(lines)]
        return [(at, key) for at, key in keys if self._seen[f"={lines[at].key}"] < _OFTEN]

    def note(self, before: Sequence[Line], after: Sequence[Line]) -> None:
        """Learn from what changed without an action."""
        if len(self._seen) > _MOST_KNOWN:
            self._seen.clear()
        for change in changes_between(before, after, self):
            old, new = {_shape(one) for one in change.removed}, {_shape(one) for one in change.added}
            self._seen.update(old & new)
            alone = [one for one in (*change.removed, *change.added) if _shape(one) not in old & new]
            if len(alone) <= _OFTEN:  # more is a part of the page that came or went
                self._seen.update(f"={one.key}" for one in alone)


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
        pairs = [(new, _was(old.key, new.key)) for old, new in zip(change.removed, change.added, strict=True)]
        if all(was is not None for _, was in pairs):
            return [f"~ {_cut(new.text, _LINE_CHARACTERS)}{f' (was {was})' if was else ''}" for new, was in pairs]
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
