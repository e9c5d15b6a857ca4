"""JSON and Python literals as tools and models print them: whole, cut off, one a line, amid other text, quoted.

A strict parser reads none of the latter. These functions return what is there, in time linear in a bounded window.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, cast

from pydantic_core import from_json

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
"""Of a longer content so many characters are read."""
_RECORDS = 20_000
_LONGEST_RECORD = 200_000
_PARSED_LITERAL = 400_000
_PREFACE, _REST = 300, 600  # characters before and after a document that may belong to something else
_LEAST_ITEMS = 20
_OBJECTS = 64  # looked for in a text; each costs at most one pass over it

_DECODER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"[ \t\r\n\ufeff]*")
_OPENING = re.compile(
    r"\{[ \t\r\n]*[\"'}]|\[[ \t\r\n]*(?:[\[{\"'\]]|-?\d[\d.]{0,30}[ \r\n]*[,\]]|true|false|null|None)"
)
_PYTHON = re.compile(
    r"'[^'\\]*(?:\\.[^'\\]*)*(?:'|\\?\Z)|\"[^\"\\]*(?:\\.[^\"\\]*)*(?:\"|\\?\Z)"
    r"|\b(?:None|True|False)\b|\b[A-Za-z_][\w.]{0,40}\([^()]{0,200}\)|[()]",
    re.DOTALL,
)
_TRAILING_COMMA = re.compile(r",(\s{0,40}[}\]])")
_CONSTANTS = {"None": "null", "True": "true", "False": "false", "(": "[", ")": "]"}
_PLACE = re.compile(r" at line (\d+) column (\d+)$")

_JSON_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[\s\S])")
_PYTHON_ESCAPE = re.compile(r"\\(?:U[0-9a-fA-F]{8}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[\s\S])")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


@dataclass(frozen=True)
class Document:
    """A document of data.

    Attributes:
        kind: `JSON`, `JSON Lines` or `Python literal`.
        value: The object or array; of one that was cut off, as far as it goes.
        is_whole: Whether nothing of it is missing.
    """

    kind: str
    value: Any
    is_whole: bool


@dataclass(frozen=True)
class Literal:
    """A quoted text.

    Attributes:
        start: Offset behind the opening quote; `end` is that of the closing one.
        text: The decoded text.
        is_python: Whether its escapes are Python's.
    """

    start: int
    end: int
    text: str
    is_python: bool


def find_document(content: str) -> Document | None:
    """Return the document that makes up a content, apart from a few lines before and after it; None without one."""
    start = _opening(content[: _PREFACE * 2])
    if start is None:
        return None
    window = content[:PARSED_CHARACTERS]
    return _json_lines(window, start) or _json(window, start) or _python_literal(window, start)


def json_objects(text: str, *, is_cut: bool = False) -> list[dict[str, Any]]:
    """Return the outermost JSON objects of a text, in order; trailing commas are forgiven.

    Args:
        text: Any text.
        is_cut: Whether an object that the text breaks off in is read, too, if there is no other.
    """
    found = _objects(text) or _objects(_TRAILING_COMMA.sub(r"\1", text))
    start = text.find("{")
    if found or start < 0 or not is_cut:
        return found
    value = _partial(text[start:])
    return [cast("dict[str, Any]", value)] if isinstance(value, dict) else []


def escape_pattern(is_python: bool) -> "re.Pattern[str]":
    """Return the pattern of one escape, of Python or of JSON; each stands for one character."""
    return _PYTHON_ESCAPE if is_python else _JSON_ESCAPE


def read_literal(content: str, position: int, is_python: bool) -> Literal:
    """Return the quoted text that begins at a quote; it ends with the content if it was cut off."""
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
    """Return the offset of a document: at the start, or at the start of one of the next three lines."""
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
        return None  # more than a few closing lines come after it
    if isinstance(value, list) and not (is_whole and is_alone):
        items = cast("list[Any]", value)
        if len(items) < _LEAST_ITEMS and not (_holds_object(items) or any(map(_holds_object, items))):
            return None  # a bracket at the beginning of another sort of text
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
            value, end_of_value = _decoded(window, position)  # holds the interpreter
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
    """Read a printed dict or list, translated to JSON."""
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
    """Return the value that begins here and where it ends; None and None if it is not whole."""
    try:
        return _DECODER.raw_decode(text, position)
    except (ValueError, RecursionError):  # ValueError also for a number of thousands of digits
        return None, None


def _partial(text: str) -> Any:
    """Return as much of the value that a text begins with as is there; None if there is nothing."""
    data = text.encode("utf-8", "replace")
    for _ in range(2):
        try:
            return from_json(data, allow_partial="trailing-strings")
        except ValueError as error:  # a character that no JSON has: read up to it
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
    if len(escape) == 12:  # a pair of JSON
        return chr(0x10000 + ((int(escape[2:6], 16) & 0x3FF) << 10) + (int(escape[8:], 16) & 0x3FF))
    code = int(escape[2:], 16)
    return chr(code) if code < 0x110000 else "�"
