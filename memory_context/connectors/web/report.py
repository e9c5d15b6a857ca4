"""Reports a page to the agent: address, title, tabs, as many lines as fit, and lines that match a search."""

import re
import time
from collections.abc import Iterator, Sequence
from itertools import islice

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.patterns import LinePattern, OutOfTimeError
from memory_context.foundation.tokens import TokenCounter, cut_to_tokens

from .capture import Shown
from .snapshot import Line

__all__ = ["found_lines", "page_head", "page_state", "shown_url"]

_URL_CHARACTERS = 200
_TITLE_CHARACTERS = 200
_MOST_HITS = 50
_MOST_BLOCK = 8
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


def page_state(
    page: Shown,
    notes: Sequence[str],
    limit_tokens: int,
    counter: TokenCounter,
    connector_id: str,
    size: tuple[int, int],
) -> str:
    """Return address, title, tabs, notes, and as many lines as fit: those in view and below, if not all.

    Args:
        size: Of the visible part, in pixels.
    """
    head = "\n".join([f"URL: {shown_url(page.url)}", *page_head(page), *notes])
    room = max(limit_tokens - counter.count(head) - 40, 0)
    whole = "\n".join(map(str, page.lines))
    if len(whole) <= 6 * room and not counter.is_over(whole, room):
        more = "\n[The page has more elements than are read.]" if page.is_cut else ""
        return f"{head}\n{whole}{more}"
    part = _part(page.lines, room, counter, size)
    lines = len(page.lines)
    return f"{head}\n{part}\n[A part in view of {lines:,} lines: {connector_id}_find or {connector_id}_scroll.]"


def _part(lines: Sequence[Line], room: int, counter: TokenCounter, size: tuple[int, int]) -> str:
    """Return what is in view and below it, as far as it fits."""
    seen = (
        at
        for at, line in enumerate(lines)
        if any(w and h and x < size[0] and x + w > 0 and y < size[1] and y + h > 0 for x, y, w, h in line.boxes)
    )
    whole = "\n".join(map(str, islice(lines, next(seen, 0), None)))
    part = cut_to_tokens(whole, room, counter)
    return part if len(part) == len(whole) else part[: max(part.rfind("\n"), 0)]


def found_lines(page: Shown, pattern: str, *, is_regex: bool) -> str:
    """Return the lines that match, each with the part of the page that it stands in, if that is short."""
    lines = page.lines
    text = LinePattern(pattern if is_regex else re.escape(pattern), ignore_case=True)
    found = [*_matching([line.text for line in lines], text)]
    if not found:
        raise ConnectorError(f"no element of {len(lines):,} lines has {pattern[:100]!r}; scroll, as pages load more")
    shown: dict[int, None] = {}
    for index in found[:_MOST_HITS]:
        shown |= dict.fromkeys(_block(lines, index))
    hits = [str(lines[at]) for at in sorted(shown)]
    return "\n".join(
        [*hits, f"[{len(found) - _MOST_HITS} more; use a rarer text]"] if len(found) > _MOST_HITS else hits
    )


def _block(lines: Sequence[Line], index: int) -> Sequence[int]:
    """Return the line above that holds a line, and all that it holds; if that is long, what the line is about."""
    depth = lines[index].depth
    above = next((at for at in range(index - 1, -1, -1) if lines[at].depth < depth), None)
    own = [index]
    if "[e" not in lines[index].text:  # a text: what can be done with it stands behind it
        behind = range(index + 1, min(index + _MOST_BLOCK // 2 + 1, len(lines)))
        acted = next((at for at in behind if "[e" in lines[at].text), index)
        own = [*range(index, acted + 1)]
    if above is None:
        return own
    end = next((at for at in range(index + 1, len(lines)) if lines[at].depth <= lines[above].depth), len(lines))
    return range(above, end) if end - above <= _MOST_BLOCK else [above, *own]


def _matching(lines: Sequence[str], pattern: LinePattern) -> Iterator[int]:
    ends_at = time.monotonic() + _FIND_SECONDS
    for index, line in enumerate(lines):
        data = line.encode("utf-8", "replace")
        try:
            if next(pattern.spans(data, 0, len(data), ends_at), None) is not None:
                yield index
        except OutOfTimeError:
            return
