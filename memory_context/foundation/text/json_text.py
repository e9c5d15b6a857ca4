"""Lenient reader of JSON and Python literals: truncated, one a line, amid other text, or quoted. Linear in a bounded
window.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import from_json

from ..patterns import regex

__all__ = [
    "PARSED_CHARACTERS",
    "Document",
    "Literal",
    "escape_pattern",
    "find_document",
    "json_objects",
    "read_literal",
]

PARSED_CHARACTERS = 1_000_000
"""Most characters read of a content."""
_RECORDS = 20_000
_LONGEST_RECORD = 200_000
_PARSED_LITERAL = 400_000
_PREFACE, _REST = 300, 600  # most characters around a document
_LEAST_ITEMS = 20
_OBJECTS = 64  # most objects; each costs at most one pass

_DECODER = json.JSONDecoder(strict=False)
_SPACE = regex(r"[ \t\r\n\ufeff]*")
_OPENING = regex(r"\{[ \t\r\n]*[\"'}]|\[[ \t\r\n]*(?:[\[{\"'\]]|-?\d[\d.]{0,30}[ \r\n]*[,\]]|true|false|null|None)")
_PYTHON = regex(
    r"'[^'\\]*(?:\\.[^'\\]*)*(?:'|\\?\Z)|\"[^\"\\]*(?:\\.[^\"\\]*)*(?:\"|\\?\Z)"
    r"|\b(?:None|True|False)\b|\b[A-Za-z_][\w.]{0,40}\([^()]{0,200}\)|[()]",
    re.DOTALL,
)
_TRAILING_COMMA = regex(r",(\s{0,40}[}\]])")
_CONSTANTS = {"None": "null", "True": "true", "False": "false", "(": "[", ")": "]"}
_PLACE = regex(r" at line (\d+) column (\d+)$")

_JSON_ESCAPE = regex(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[\s\S])")
_PYTHON_ESCAPE = regex(r"\\(?:U[0-9a-fA-F]{8}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[\s\S])")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


@dataclass(frozen=True)
class Document:
    """A parsed document.

    Attributes:
        kind: `JSON`, `JSON Lines` or `Python literal`.
        value: Object or array, as far as complete.
        is_whole: Not truncated.
    """

    kind: str
    value: Any
    is_whole: bool


@dataclass(frozen=True)
class Literal:
    """A quoted text.

    Attributes:
        start: Offset behind the opening quote.
        end: Offset of the closing quote.
        text: Decoded.
        is_python: Escapes are Python's.
    """

    start: int
    end: int
    text: str
    is_python: bool


def find_document(content: str) -> Document | None:
    """Return the document that fills a content, but for a few lines around it; else None."""
    start = _opening(content[: _PREFACE * 2])
    if start is None:
        return None
    window = content[:PARSED_CHARACTERS]
    return _json_lines(window, start) or _json(window, start) or _python_literal(window, start)


def json_objects(text: str, *, is_cut: bool = False) -> list[dict[str, Any]]:
    """Return the outermost JSON objects of a text, in order; trailing commas are forgiven.

    Args:
        is_cut: Without a whole object, read the truncated one.
    """
    found = _objects(text) or _objects(_TRAILING_COMMA.sub(r"\1", text))
    start = text.find("{")
    if found or start < 0 or not is_cut:
        return found
    value = _partial(text[start:])
    return [cast("dict[str, Any]", value)] if isinstance(value, dict) else []


def escape_pattern(is_python: bool) -> "re.Pattern[str]":
    """Return the pattern of one escape, each one character."""
    return _PYTHON_ESCAPE if is_python else _JSON_ESCAPE


def read_literal(content: str, position: int, is_python: bool) -> Literal:
    """Return the literal that begins at a quote; a truncated one ends with the content."""
    if not is_python:
        try:
            text, end = _DECODER.raw_decode(content, position)
            return Literal(position + 1, end - 1, text, False)
        except ValueError:
            pass
    quote, start = content[position], position + 1
    end = content.find(quote, start)
    while end > 0 and _is_escaped(content, start, end):
        end = content.find(quote, end + 1)
    end = len(content) if end < 0 else end
    return Literal(start, end, escape_pattern(is_python).sub(_meaning, content[start:end]), is_python)


def _opening(head: str) -> int | None:
    """Find a document at the start of the first four lines."""
    position = 0
    for _ in range(4):
        position = cast("re.Match[str]", _SPACE.match(head, position)).end()
        if position > _PREFACE:
            return None
        if _OPENING.match(head, position):
            return position
        position = head.find("\n", position) + 1
        if position == 0:
            return None
    return None


def _json(window: str, start: int) -> Document | None:
    value, end = _decoded(window, start)
    is_whole = end is not None
    if end is None:
        value, end = _partial(window[start:]), len(window)
    is_alone = not window[end:].strip("` \r\n")
    if not value or not isinstance(value, (dict, list)):
        return None
    if is_whole and not is_alone and len(window) - end > max(_REST, end // 4):
        return None  # too much follows
    if isinstance(value, list) and not (is_whole and is_alone):
        items = cast("list[Any]", value)
        if len(items) < _LEAST_ITEMS and not (_holds_object(items) or any(map(_holds_object, items))):
            return None  # not JSON, just an opening bracket
    return Document("JSON", value, is_whole)


def _holds_object(item: Any) -> bool:
    items = cast("list[Any]", item)[:_LEAST_ITEMS] if isinstance(item, list) else []
    return any(inner and isinstance(inner, dict) for inner in items)


def _json_lines(window: str, start: int) -> Document | None:
    values: list[Any] = []
    position, end, misses = start, start, 0
    while len(values) < _RECORDS and misses < 3 and position < len(window) and (values or not misses):
        line_end = window.find("\n", position)
        line_end = len(window) if line_end < 0 else line_end
        end_of_value = None
        if window[position : position + 1] in ("{", "[") and line_end - position <= _LONGEST_RECORD:
            value, end_of_value = _decoded(window, position)  # holds the GIL
            if end_of_value is not None and not window[end_of_value:line_end].strip() and end_of_value <= line_end:
                values.append(value)
                end = end_of_value
            else:
                end_of_value = None
        misses += end_of_value is None and line_end - position > 1
        if misses and len(values) < 2:
            return None
        position = line_end + 1
    if len(values) < 2 or (len(values) < _RECORDS and len(window) - end > max(_REST, end)):
        return None
    return Document("JSON Lines", values, len(window) - end < _REST and len(window) < PARSED_CHARACTERS)


def _python_literal(window: str, start: int) -> Document | None:
    head = window[start : start + _PARSED_LITERAL]
    if "'" not in head[:_REST] and "None" not in head and "True" not in head and "False" not in head:
        return None
    found = _json(_TRAILING_COMMA.sub(r"\1", _PYTHON.sub(_as_json, head)), 0)
    if found is None:
        return None
    return Document("Python literal", found.value, found.is_whole and len(window) - start <= _PARSED_LITERAL)


def _as_json(match: "re.Match[str]") -> str:
    token = match[0]
    if token[0] in "'\"":
        return json.dumps(_PYTHON_ESCAPE.sub(_meaning, token[1:-1]))
    return _CONSTANTS.get(token) or json.dumps(token)


def _decoded(text: str, position: int) -> tuple[Any, int | None]:
    """Return the value and its end; None and None if incomplete."""
    try:
        return _DECODER.raw_decode(text, position)
    except (ValueError, RecursionError):  # ValueError also for huge integers
        return None, None


def _partial(text: str) -> Any:
    """Return the complete part of a truncated value."""
    data = text.encode("utf-8", "replace")
    for _ in range(2):
        try:
            return from_json(data, allow_partial="trailing-strings")
        except ValueError as error:  # read up to an invalid character
            place = _PLACE.search(str(error))
            data = data[: _offset(data, int(place[1]), int(place[2]))] if place else b""
    return None


def _offset(data: bytes, line: int, column: int) -> int:
    start = 0
    for _ in range(line - 1):
        start = data.find(b"\n", start) + 1
    return max(start + column - 1, 0)


def _objects(text: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    start = text.find("{")
    for _ in range(_OBJECTS):
        if start < 0:
            break
        value, end = _decoded(text, start)
        if end is not None:
            found.append(value)
        start = text.find("{", start + 1 if end is None else end)
    return found


def _is_escaped(content: str, start: int, position: int) -> bool:
    backslashes = position
    while backslashes > start and content[backslashes - 1] == "\\":
        backslashes -= 1
    return (position - backslashes) % 2 == 1


def _meaning(match: "re.Match[str]") -> str:
    escape = match[0]
    if len(escape) == 2:
        return _LETTERS.get(escape[1], escape[1])
    if len(escape) == 12:  # a surrogate pair of JSON
        return chr(0x10000 + ((int(escape[2:6], 16) & 0x3FF) << 10) + (int(escape[8:], 16) & 0x3FF))
    code = int(escape[2:], 16)
    return chr(code) if code < 0x110000 else "�"
