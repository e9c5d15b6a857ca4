"""Web pages as Markdown, text or HTML, and what search engines answer.

Agents come back to a page for a link to follow, for the section where something stood, and for which hit was which.
Navigation and cookie banners come first on most pages and matter least.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...references import shorten
from ..compactor import Result
from ..excerpt import Passage
from ..reading import Reading
from .framing import FACTS, LABELS, LANDMARKS, NAMES, described, fact
from .markup import scan_html

__all__ = ["read_page"]

_PARSED = 500_000
_SNIFFED = 6000
_HITS = 10
_LEAST_HITS = 3
_LONGEST_LINE = 2000

_TITLE = re.compile(r"^(?:Page )?(?:Title|Name): *(\S.{0,300})$", re.MULTILINE | re.IGNORECASE)
_URL = re.compile(
    r"^(?:URL Source|URL|Source|Link|Page URL|Contents of):? *(https?://\S{1,500})", re.MULTILINE | re.IGNORECASE
)
_HEADING = re.compile(r"^(#{1,6}) +(\S.{0,200})$", re.MULTILINE)
_UNDERLINED = re.compile(r"^(\S.{0,150})\n(?:={3,200}|-{3,200})[ \t]*$", re.MULTILINE)
_LINK = re.compile(
    r"(?:(?<!!)\[([^\]\[\n]{0,300})|\[!\[[^\]\n]{0,200}\]\([^\s)]{0,600}\)[^\]\n]{0,200})\]"
    r"\((https?://[^\s)]{1,600}|/[^\s)]{0,600})(?: \"[^\"\n]{0,200}\")?\)"
)
_HIT = re.compile(
    r"^(?:#{1,4} *)?(?:\[?\d{1,4}[.\])] *)?\**(?:\[([^\]\n]{3,300})\]\((https?://[^\s]{3,600})\)"
    r"|(?:Title: *|\d{1,4}[.)] *\**)([^\n\[]{1,300}?)\**\n(?:[^\n]{0,200}\n){0,2}? *(?:\**(?:URL|Link|Source|href)\**:? *)?<?(https?://\S{3,600}))",
    re.MULTILINE,
)
_HTML = re.compile(
    r"(?:[^<\n]{0,300}\n){0,3}\s{0,200}(?:<\?xml[^>]{0,200}>\s{0,20})?"
    r"<(?:!doctype html|html|head|body|div|table|section|main|p|h[1-6])\b",
    re.IGNORECASE,
)
_BANNER = re.compile(
    r"\b(?:cookies?|consent|skip to|sign in|log in|subscribe|newsletter|privacy|terms of|all rights reserved)\b",
    re.IGNORECASE,
)
_DATE = re.compile(r"^(?:Published Time|Published|Date|Last updated):? *(\S.{0,60})$", re.MULTILINE | re.IGNORECASE)
_CODE_LINE = re.compile(
    r"^\s{0,40}(?:def |class |import |from \w+ import|return\b|if .{1,200}:$|\w+ = |[{}]|#include|//|/\*)"
)


@dataclass(frozen=True)
class _Page:
    title: str
    url: str
    headings: Sequence[tuple[Passage, str]]
    links: Sequence[tuple[str, str]]


def read_page(result: Result) -> Reading | None:
    """Return what a web page or a list of search results says; None if the content is neither."""
    content = result.content
    if _HTML.match(content[:_SNIFFED]) and "</" in content[:_SNIFFED]:
        return _read_html(content)
    window = content[:_PARSED]
    head = window[:_SNIFFED]
    hits = _hits(window) if window.count("http") >= _LEAST_HITS else []
    if len(hits) >= _LEAST_HITS:
        return _read_hits(content, hits)
    title, url = _TITLE.search(head[:2000]), _URL.search(head[:2000])
    headings = _headings(window)
    links = [(match[2], match[1] or "") for match in _LINK.finditer(window)] if "](" in window else []
    is_page = bool(title and url) or (url is not None and content.startswith(url[0][:8]))
    if not (is_page or len(links) > 2 or (len(headings) > 1 and content.count("\n\n", 0, _SNIFFED) > 2)):
        return None
    if _is_code(head):
        return None
    first = headings[0][1] if headings else ""
    page = _Page(title[1].strip() if title else first, url[1].rstrip(":,.") if url else "", headings, links)
    date = _DATE.search(head[:2000])
    return _reading("page", content, page, _paragraphs(window), [f"date: {date[1]}"] if date else [])


def _read_html(content: str) -> Reading:
    markup = scan_html(content)
    page = _Page(markup.title, "", markup.headings, markup.links)
    facts = [markup.description, *markup.forms[:5]]
    if markup.tables:
        facts.append(f"tables: {markup.tables:,}")
    return _reading("HTML page", content, page, markup.paragraphs, facts)


def _read_hits(content: str, hits: Sequence[tuple[Passage, str, str]]) -> Reading:
    least = "+" if len(content) > _PARSED else ""
    ends = [*(passage.start for passage, _, _ in hits[1:]), len(content[:_PARSED])]
    first_line = content[: hits[0][0].start].strip().split("\n")[0] if hits[0][0].start else ""
    size = f"{len(content):,} characters"
    return Reading(
        described(f"{len(hits):,}{least} search results", "", size),
        facts=[fact(line) for line in (first_line, *(f"{shorten(t, 60)} {url}" for _, t, url in hits[:_HITS])) if line],
        names=list(dict.fromkeys(url for _, _, url in hits))[:NAMES],
        landmarks=[passage for passage, _, _ in hits][:LANDMARKS],
        labels=[
            (Passage(passage.start, end), shorten(title, 60))
            for (passage, title, _), end in zip(hits[:LABELS], ends, strict=False)
        ],
    )


def _reading(kind: str, content: str, page: _Page, paragraphs: Sequence[Passage], facts: Sequence[str]) -> Reading:
    names = [text for _, text in page.headings]
    about = f"{page.title} {page.url}".strip()
    lines = [
        f"title: {about}" if about else "",
        *facts,
        f"sections: {'; '.join(shorten(name, 50) for name in names[:14])}" if names else "",
    ]
    ends = [*(passage.start for passage, _ in page.headings[1:]), min(len(content), _PARSED)]
    counts = ((len(page.headings), "heading"), (len(page.links), "link"), (len(content), "character"))
    counted = ", ".join(f"{count:,} {what}{'s' if count > 1 else ''}" for count, what in counts if count)
    return Reading(
        described(kind, page.title or page.url, counted),
        facts=[fact(line) for line in lines if line][:FACTS],
        names=_targets(page),
        landmarks=_landmarks(content, page.headings, paragraphs),
        labels=[
            (Passage(passage.start, end), shorten(text, 60))
            for (passage, text), end in zip(page.headings[:LABELS], ends, strict=False)
            if end > passage.start
        ],
    )


def _targets(page: _Page) -> list[str]:
    """Return the targets of links, the most specific first: those that occur once, deep paths, no assets."""
    counts = Counter(target for target, _ in page.links)

    def rank(target: str) -> tuple[bool, int, int]:
        path = target.split("?")[0].rstrip("/")
        is_asset = path.endswith((".png", ".jpg", ".jpeg", ".svg", ".gif", ".css", ".js", ".ico", ".webp"))
        return is_asset, counts[target], -min(path.count("/"), 5)

    targets = sorted(counts, key=rank)
    names = [page.url, *targets] if page.url else targets
    return [name for name in dict.fromkeys(names) if len(name) < 300][:NAMES]


def _hits(window: str) -> list[tuple[Passage, str, str]]:
    """Return the results of a search: a title and a URL each, at the beginning of a line."""
    found: list[tuple[Passage, str, str]] = []
    for match in _HIT.finditer(window):
        url = (match[2] or match[4]).rstrip(").,>*]") if not match[2] else match[2]
        found.append((Passage(match.start(), match.end()), (match[1] or match[3]).strip(), url))
    numbered = sum(window[passage.start : passage.start + 4].lstrip("#[* ")[:1].isdigit() for passage, _, _ in found)
    titled = sum(window.startswith("Title:", passage.start) for passage, _, _ in found)
    return found if max(numbered, titled) * 2 > len(found) else []


def _headings(window: str) -> list[tuple[Passage, str]]:
    found = [(Passage(*match.span()), match[2]) for match in _HEADING.finditer(window)] if "#" in window else []
    if "\n---" in window or "\n===" in window:
        found += [(Passage(*match.span()), match[1]) for match in _UNDERLINED.finditer(window)]
    found.sort(key=lambda heading: heading[0].start)
    in_rows = sum(b.start == a.end + 1 for (a, _), (b, _) in pairwise(found))
    if in_rows * 3 > len(found):
        return []  # comments of a script or a configuration
    return [(passage, _LINK.sub(r"\1", text).strip("# *")) for passage, text in found if len(text.strip("# *")) > 1]


def _is_code(head: str) -> bool:
    lines = [line[:300] for line in head.split("\n")[:80] if line.strip()]
    return sum(_CODE_LINE.match(line) is not None for line in lines) * 4 > len(lines)


def _paragraphs(window: str) -> list[Passage]:
    """Return lines of running text, without those that are mostly links."""
    found: list[Passage] = []
    position = 0
    for line in window.split("\n"):
        if len(line) > 80 and not line.startswith(("#", "|", "![")):
            linked = line[:_LONGEST_LINE].count("](")
            if linked * 80 < len(line[:_LONGEST_LINE]):
                found.append(Passage(position, position + min(len(line), _LONGEST_LINE)))
        position += len(line) + 1
    return found


def _landmarks(content: str, headings: Sequence[tuple[Passage, str]], paragraphs: Sequence[Passage]) -> list[Passage]:
    """Return the title, the first paragraphs, those under headings, the headings, and banners last."""
    after: list[Passage] = []
    index = 0
    for passage, _ in headings[:LABELS]:
        while index < len(paragraphs) and paragraphs[index].start < passage.end:
            index += 1
        if index < len(paragraphs):
            after.append(paragraphs[index])
    ranked = [
        *(passage for passage, _ in headings[:1]),
        *paragraphs[:2],
        *after,
        *(p for p, _ in headings),
        *paragraphs,
    ]
    unique = list(dict.fromkeys(ranked))[: LANDMARKS * 3]
    banners = [p for p in unique if _BANNER.search(content, p.start, min(p.end, p.start + 300))]
    hidden = set(banners)
    return [*(p for p in unique if p not in hidden), *banners][:LANDMARKS]
