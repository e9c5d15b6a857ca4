"""Data as it is printed, read as far as it goes: JSON whole or cut off, JSON Lines, Python literals, YAML record lists.

Tools cut their outputs, print Python's repr or many documents at once; a strict parser sees nothing in any of them.
These parsers give what is there, with where its members stand, in time linear in a bounded window of the content.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from typing import Any, cast

from ..excerpt import Passage
from .cut_json import Member, assembled, decode, members_at, skip_space
from .literals import plain_text
from .yaml_lists import read_yaml

__all__ = ["PARSED", "Document", "find_document", "passages_of"]

PARSED = 1_000_000
"""Of a longer content so many characters are read."""
_MEMBERS = 20_000
_PARSED_LITERAL = 400_000
_LONGEST_RECORD = 200_000
_PREFACE = 300
_REST = 600
_LEAST_ITEMS = 20
_PLACED = 2000

_OPENING = re.compile(
    r"\{[ \t\r\n]*[\"'}]|\[[ \t\r\n]*(?:[\[{\"'\]]|-?\d[\d.]{0,30}[ \r\n]*[,\]]|true|false|null|None)"
)
_LITERAL = re.compile(
    r"'[^'\\]*(?:\\.[^'\\]*)*(?:'|\\?\Z)|\"[^\"\\]*(?:\\.[^\"\\]*)*(?:\"|\\?\Z)"
    r"|\b(?:None|True|False)\b|\b[A-Za-z_][\w.]{0,40}\([^()]{0,200}\)|[()]",
    re.DOTALL,
)
_TRAILING_COMMA = re.compile(r",[ \n]{0,40}([\]}])")
_CONSTANTS = {"None": "null", "True": "true", "False": "false", "(": "[", ")": "]"}


@dataclass(frozen=True)
class Document:
    """What was read.

    Attributes:
        kind: `JSON`, `JSON Lines`, `Python literal` or `YAML`.
        value: The value; of one that was cut off what is there.
        start: Where it begins.
        is_whole: Whether nothing of it is missing.
        items: Of the lists in YAML, by their `id`, where each item begins.
        members: Of containers that were cut off, by where they begin, what is in them.
    """

    kind: str
    value: Any
    start: int
    is_whole: bool
    items: "dict[int, list[int]] | None" = None
    members: "dict[int, list[Member]]" = field(default_factory=dict[int, list[Member]], repr=False)


def find_document(content: str) -> Document | None:
    """Return the document that makes up a content, apart from a few lines before and after it; None without one."""
    start = _opening(content[: _PREFACE * 2])
    if start is None:
        found = read_yaml(content)
        return Document("YAML", found.value, 0, found.is_whole, found.items) if found else None
    window = content[:PARSED]
    return _json_lines(window, start) or _json(window, start) or _python_literal(window, start)


def passages_of(content: str, document: Document, path: Sequence[str], limit: int = _PLACED) -> list[Passage]:
    """Return where the members of the container at a path stand, at most so many; empty if that is unknown.

    Args:
        content: The content in which the document was found.
        document: The document.
        path: The keys that lead to the container; an empty key stands for each member of an array of arrays.
        limit: The most members.
    """
    window = content[:PARSED]
    if document.kind == "JSON Lines":
        members = _lines(window, document.start, limit)
        return [Passage(member.start, member.end) for member in members]
    if document.items is not None:
        node: Any = document.value
        for key in path:
            node = cast("dict[str, Any]", node).get(key) if isinstance(node, dict) else None
        starts = document.items.get(id(node), [])
        return [Passage(start, end) for start, end in pairwise([*starts, len(content)])][:limit]
    if document.kind != "JSON":
        return []
    starts = [document.start]
    for key in path:
        found = chain.from_iterable(_placed(window, document, start, limit) for start in starts)
        starts = [member.value_start for member in islice(found, limit) if member.key == key]
    members = islice(chain.from_iterable(_placed(window, document, start, limit) for start in starts), limit)
    return [Passage(member.start, member.end) for member in members]


def _placed(window: str, document: Document, start: int, limit: int) -> "list[Member]":
    return document.members.get(start) or members_at(window, start, limit)[0]


def _opening(head: str) -> int | None:
    """Where a document begins: at the start, or at the start of one of the next three lines."""
    position = 0
    for _ in range(4):
        position = skip_space(head, position)
        if position > _PREFACE:
            return None
        if _OPENING.match(head, position):
            return position
        position = head.find("\n", position) + 1
        if position == 0:
            return None
    return None


def _json(window: str, start: int) -> Document | None:
    value: Any
    seen: dict[int, list[Member]] = {}
    try:
        value, end = decode(window, start)
        is_whole = True
    except ValueError:
        members, end, is_whole = members_at(window, start, seen=seen)
        value = assembled(window[start], members)
    if not value or not isinstance(value, (dict, list)) or (is_whole and _is_followed(window, end)):
        return None
    is_alone = is_whole and not window[end:].strip("` \r\n")
    if isinstance(value, list) and not is_alone:
        items = cast("list[Any]", value)
        if len(items) < _LEAST_ITEMS and not (_holds_object(items) or any(map(_holds_object, items))):
            return None  # a bracket at the beginning of another sort of text
    return Document("JSON", value, start, is_whole, members=seen)


def _holds_object(item: Any) -> bool:
    return isinstance(item, list) and any(
        inner and isinstance(inner, dict) for inner in cast("list[Any]", item)[:_LEAST_ITEMS]
    )


def _is_followed(window: str, end: int) -> bool:
    """Whether more than a few closing lines come after the end of a document."""
    return len(window) - end > max(_REST, end // 4) and bool(window[end:].strip("` \r\n"))


def _json_lines(window: str, start: int) -> Document | None:
    members = _lines(window, start, 3)
    if len(members) < 2:
        return None
    members = _lines(window, start)
    end = members[-1].end
    if len(members) < _MEMBERS and len(window) - end > max(_REST, end):
        return None
    is_whole = len(window) - end < _REST and len(window) < PARSED
    return Document("JSON Lines", [member.value for member in members], start, is_whole)


def _lines(window: str, start: int, limit: int = _MEMBERS) -> list[Member]:
    members: list[Member] = []
    position, misses = start, 0
    while len(members) < limit and misses < 3 and position < len(window):
        line_end = window.find("\n", position)
        line_end = len(window) if line_end < 0 else line_end
        is_short = line_end - position <= _LONGEST_RECORD  # decoding holds the interpreter
        if window[position : position + 1] in ("{", "[") and is_short:
            try:
                value, end = decode(window, position)
            except ValueError:
                value, end = None, -1
            if end >= 0 and not window[end:line_end].strip() and end <= line_end:
                members.append(Member("", value, position, position, end))
            else:
                misses += 1
        elif line_end - position > 1:
            misses += 1
        if misses and len(members) < 2:
            break
        position = line_end + 1
    return members


def _python_literal(window: str, start: int) -> Document | None:
    """Read a printed dict or list: translated to JSON, so that where its members stand is not known."""
    head = window[start : start + _PARSED_LITERAL]
    if "'" not in head[:_REST] and "None" not in head and "True" not in head and "False" not in head:
        return None
    found = _json(_TRAILING_COMMA.sub(r"\1", _LITERAL.sub(_as_json, head)), 0)
    if found is None:
        return None
    return Document("Python literal", found.value, start, found.is_whole and len(window) - start <= _PARSED_LITERAL)


def _as_json(match: "re.Match[str]") -> str:
    token = match[0]
    if token[0] in "'\"":
        return json.dumps(plain_text(token[1:-1]))
    return _CONSTANTS.get(token) or json.dumps(token)
