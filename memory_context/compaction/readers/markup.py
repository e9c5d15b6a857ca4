"""Raw HTML, scanned for what a page says of itself: title, headings, links, forms, tables, and its main paragraphs.

The standard parser keeps no places in the text and slows down on what is broken; an agent's page is often cut off or
broken. This scan looks at tags only, in one pass over a bounded window.
"""

import html
import re
from dataclasses import dataclass, field

from ...references import shorten
from ..excerpt import Passage

__all__ = ["Markup", "scan_html"]

_PARSED = 500_000
_LONGEST_TEXT = 4000
_KEPT = 2000
_EXAMINED = 10_000

_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]{0,15})([^<>]{0,2000})>|<!--")
_ATTRIBUTE = re.compile(r"\b(href|src|action|name|id|type|value|placeholder|content|property|method)\s{0,3}=\s{0,3}"
                        r"(\"[^\"]{0,1000}\"|'[^']{0,1000}'|[^\s\"'>]{1,500})")  # fmt: skip
_ANY_TAG = re.compile(r"<[^<>]{0,2000}>")
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_HIDDEN = {"script", "style", "noscript", "svg", "template"}
_ASIDE = {"nav", "footer", "header", "aside"}
_FIELDS = {"input", "select", "textarea", "button"}


@dataclass
class Markup:
    """What was found: texts with where they stand, in order."""

    title: str = ""
    description: str = ""
    headings: list[tuple[Passage, str]] = field(default_factory=list[tuple[Passage, str]])
    links: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    forms: list[str] = field(default_factory=list[str])
    paragraphs: list[Passage] = field(default_factory=list[Passage])
    tables: int = 0


def scan_html(content: str) -> Markup:
    """Return what the first part of an HTML text holds."""
    window = content[:_PARSED]
    found = Markup()
    aside = position = examined = 0
    form: list[str] | None = None
    while match := _TAG.search(window, position):
        position = match.end()
        if match[0] == "<!--":
            position = _after(window, "-->", position)
            continue
        tag, is_closing = match[2].lower(), bool(match[1])
        if tag in _HIDDEN and not is_closing and not match[3].endswith("/"):
            position = _after(window, f"</{match[2]}", position)
        elif tag in _ASIDE:
            aside = max(aside + (-1 if is_closing else 1), 0)
        elif tag == "form":
            if form:
                found.forms.append(" ".join(form))
            attributes = _attributes(match[3])
            where = attributes.get("action", "")
            form = None if is_closing else [f"form {attributes.get('method', '').upper()} {where}:".replace("  ", " ")]
        elif is_closing or examined > _EXAMINED:
            continue
        elif tag == "meta":
            attributes = _attributes(match[3])
            if attributes.get("name", attributes.get("property", "")).endswith("description"):
                found.description = found.description or attributes.get("content", "")
        elif tag in _FIELDS:
            (found.forms if form is None else form).append(_field(tag, _attributes(match[3]), window, position))
        elif tag == "table":
            found.tables += 1
        elif tag == "title" or tag in _HEADINGS or tag in ("a", "p"):
            examined += 1
            _take(found, tag, window, match, bool(aside))
    if form:
        found.forms.append(" ".join(form))
    return found


def _take(found: Markup, tag: str, window: str, match: "re.Match[str]", is_aside: bool) -> None:
    end = window.find(f"</{match[2]}", match.end(), match.end() + _LONGEST_TEXT)
    end = end if end >= 0 else min(match.end() + 200, len(window))
    if tag == "p":
        if end - match.end() > 60 and not is_aside:
            found.paragraphs.append(Passage(match.end(), end))
        return
    text = _plain(window[match.end() : end])
    if tag == "title":
        found.title = found.title or text
    elif tag == "a":
        target = _attributes(match[3]).get("href", "")
        if target and not target.startswith(("#", "javascript:")) and len(found.links) < _KEPT:
            found.links.append((target, text))
    elif text and not is_aside:
        found.headings.append((Passage(match.start(), end), text))


def _field(tag: str, attributes: dict[str, str], window: str, position: int) -> str:
    kind = attributes.get("type", "text" if tag == "input" else tag)
    name = attributes.get("name") or attributes.get("id") or attributes.get("placeholder", "")
    if tag == "button":
        end = window.find("</", position, position + 300)
        name = _plain(window[position:end]) if end > 0 else name
    value = attributes.get("value", "")
    return f"{name or kind}{f' ({kind})' if name and kind != 'text' else ''}{f'={value[:40]}' if value else ''}"


def _attributes(text: str) -> dict[str, str]:
    return {match[1].lower(): html.unescape(match[2].strip("\"'")) for match in _ATTRIBUTE.finditer(text)}


def _plain(text: str) -> str:
    return shorten(html.unescape(_ANY_TAG.sub(" ", text)), 160)


def _after(window: str, end: str, position: int) -> int:
    found = window.find(end, position)
    return len(window) if found < 0 else found + len(end)
