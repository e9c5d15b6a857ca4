"""What an agent is told of a page: what changed as an observation, what there is as the state, lines that match."""

import re
import time
from collections.abc import Iterator, Sequence

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.patterns import LinePattern, OutOfTimeError
from memory_context.foundation.tokens import TokenCounter, cut_to_tokens

from ..tree_diff import diff_lines, tree_lines
from .screen import Shown

__all__ = ["found_lines", "page_head", "page_state", "shown_url", "tree_change"]

_URL_CHARACTERS = 200
_TITLE_CHARACTERS = 200
_MOST_CHARACTERS = 60_000
_MOST_HITS = 50
_FIND_SECONDS = 2.0


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


def tree_change(before: Shown, after: Shown) -> str:
    """Return what changed in the tree; the whole tree when that is shorter or it is another page."""
    if before.page_id == after.page_id:
        if before.tree.fingerprint == after.tree.fingerprint:
            return ""
        change = "\n".join(diff_lines(before.tree, after.tree, after.refs, before.refs))
        whole = _within(after.lines(), len(change))
        if whole is None:
            return _bounded(change.split("\n")) if change else ""
        return whole
    return _bounded(after.lines())


def _within(lines: Iterator[str], limit: int) -> str | None:
    """Return lines if all of them are shorter than a limit."""
    kept: list[str] = []
    for line in lines:
        limit -= len(line) + 1
        if limit < 0:
            return None
        kept.append(line)
    return "\n".join(kept)


def _bounded(lines: Iterator[str] | Sequence[str]) -> str:
    kept: list[str] = []
    size = left_out = 0
    for line in lines:
        size += len(line) + 1
        if size > _MOST_CHARACTERS:
            left_out += 1
        else:
            kept.append(line)
    return "\n".join([*kept, f"[{left_out:,} more lines: find them by a text]"] if left_out else kept)


def page_state(page: Shown, notes: Sequence[str], limit_tokens: int, counter: TokenCounter, connector_id: str) -> str:
    """Return address, title, tabs, notes, and as much of the tree as fits: what is in view and below it, if not all."""
    head = "\n".join([f"URL: {shown_url(page.url)}", *page_head(page), *notes])
    room = limit_tokens - counter.count(head) - 40
    whole = _within(page.lines(), 6 * max(room, 0))
    if whole is not None and not counter.is_over(whole, room):
        more = "\n[The page has more elements than are read.]" if page.is_cut else ""
        return f"{head}\n{whole}{more}"
    part = _part(page, max(room, 0), counter)
    elements = page.tree.size - 1
    return f"{head}\n{part}\n[A part in view of {elements:,} elements: {connector_id}_find or {connector_id}_scroll.]"


def _part(page: Shown, room: int, counter: TokenCounter) -> str:
    """Return what is in view and below it; if that leaves room, also what is above it, the nearest first."""

    def lines(first: int) -> str:
        shown = page.in_view | {*range(first, page.tree.size)}
        return "\n".join(_first(tree_lines(page.tree, page.refs, only=shown), 8 * room))

    first = max(page.in_view, default=0)
    text, step = lines(first), first
    while step > 1 and not counter.is_over(text, room):
        step //= 2
        more = lines(first - step)
        if not counter.is_over(more, room):
            first, text = first - step, more
    part = cut_to_tokens(text, room, counter)
    return part if len(part) == len(text) else part[: max(part.rfind("\n"), 0)]


def _first(lines: Iterator[str], most_characters: int) -> Iterator[str]:
    for line in lines:
        yield line
        most_characters -= len(line)
        if most_characters < 0:
            return


def found_lines(page: Shown, pattern: str, *, is_regex: bool) -> str:
    """Return the lines of the tree that match, each below the last line above it that is less indented."""
    lines = [*page.lines(has_tables=False)]
    found = [*_matching(lines, LinePattern(pattern if is_regex else re.escape(pattern), ignore_case=True))]
    if not found:
        raise ConnectorError(f"no element of {len(lines):,} lines has {pattern[:100]!r}; scroll, as pages load more")
    hits: list[str] = []
    told: int | None = None
    for index in found[:_MOST_HITS]:
        above = _above(lines, index)
        if above is not None and above not in (told, *found):
            hits.append(lines[above].strip())
        told = above
        hits.append(f"  {lines[index].strip()}" if above is not None else lines[index])
    if len(found) > _MOST_HITS:
        hits.append(f"[{len(found) - _MOST_HITS} more; use a rarer text]")
    return "\n".join(hits)


def _matching(lines: Sequence[str], pattern: LinePattern) -> Iterator[int]:
    ends_at = time.monotonic() + _FIND_SECONDS
    for index, line in enumerate(lines):
        data = line.encode("utf-8", "replace")
        try:
            if next(pattern.spans(data, 0, len(data), ends_at), None) is not None:
                yield index
        except OutOfTimeError:
            return


def _above(lines: Sequence[str], index: int) -> int | None:
    indent = len(lines[index]) - len(lines[index].lstrip())
    return next((at for at in range(index - 1, -1, -1) if len(lines[at]) - len(lines[at].lstrip()) < indent), None)
