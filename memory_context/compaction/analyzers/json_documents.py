"""Documents of data as tools print them: JSON, JSON with its end cut off, JSON Lines, Python literals.

Tools cut their outputs, print Python's repr or many documents at once; a strict parser sees nothing in any of them.
These parsers give what is there, in time linear in a bounded window of the content.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, cast

from .literals import plain_text

__all__ = ["PARSED", "Document", "find_document"]

PARSED = 1_000_000
"""Of a longer content so many characters are read."""
_MEMBERS = 20_000
_DEEPEST = 24
_CUT_STRING = 2000
_PARSED_LITERAL = 400_000
_LONGEST_RECORD = 200_000
_PREFACE = 300
_REST = 600
_LEAST_ITEMS = 20

_DECODER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"[ \t\r\n\ufeff]*")
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
        kind: `JSON`, `JSON Lines` or `Python literal`.
        value: The object or array; of one that was cut off what is there.
        is_whole: Whether nothing of it is missing.
    """

    kind: str
    value: Any
    is_whole: bool


def find_document(content: str) -> Document | None:
    """Return the document that makes up a content, apart from a few lines before and after it; None without one."""
    start = _opening(content[: _PREFACE * 2])
    if start is None:
        return None
    window = content[:PARSED]
    return _json_lines(window, start) or _json(window, start) or _python_literal(window, start)


def _opening(head: str) -> int | None:
    """Return where a document begins: at the start, or at the start of one of the next three lines."""
    position = 0
    for _ in range(4):
        position = _skip_space(head, position)
        if position > _PREFACE:
            return None
        if _OPENING.match(head, position):
            return position
        position = head.find("\n", position) + 1
        if position == 0:
            return None
    return None


def _json(window: str, start: int) -> Document | None:
    value, end, is_whole = _value(window, start, 0)
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
    return isinstance(item, list) and any(
        inner and isinstance(inner, dict) for inner in cast("list[Any]", item)[:_LEAST_ITEMS]
    )


def _json_lines(window: str, start: int) -> Document | None:
    values: list[Any] = []
    position, end, misses = start, start, 0
    while len(values) < _MEMBERS and misses < 3 and position < len(window) and (values or not misses):
        line_end = window.find("\n", position)
        line_end = len(window) if line_end < 0 else line_end
        is_short = line_end - position <= _LONGEST_RECORD  # decoding holds the interpreter
        is_read = False
        if window[position : position + 1] in ("{", "[") and is_short:
            value, end_of_value, is_whole = _decoded(window, position)
            if is_read := is_whole and end_of_value <= line_end and not window[end_of_value:line_end].strip():
                values.append(value)
                end = end_of_value
        misses += not is_read and line_end - position > 1
        if misses and len(values) < 2:
            return None
        position = line_end + 1
    if len(values) < 2 or (len(values) < _MEMBERS and len(window) - end > max(_REST, end)):
        return None
    return Document("JSON Lines", values, len(window) - end < _REST and len(window) < PARSED)


def _python_literal(window: str, start: int) -> Document | None:
    """Read a printed dict or list, translated to JSON."""
    head = window[start : start + _PARSED_LITERAL]
    if "'" not in head[:_REST] and "None" not in head and "True" not in head and "False" not in head:
        return None
    found = _json(_TRAILING_COMMA.sub(r"\1", _LITERAL.sub(_as_json, head)), 0)
    if found is None:
        return None
    return Document("Python literal", found.value, found.is_whole and len(window) - start <= _PARSED_LITERAL)


def _as_json(match: "re.Match[str]") -> str:
    token = match[0]
    if token[0] in "'\"":
        return json.dumps(plain_text(token[1:-1]))
    return _CONSTANTS.get(token) or json.dumps(token)


def _decoded(text: str, position: int) -> tuple[Any, int, bool]:
    """Return the value that begins here, where it ends and True; of none that is whole False."""
    try:
        value, end = _DECODER.raw_decode(text, position)
        return value, end, True
    except (ValueError, RecursionError):
        return None, position, False


def _value(text: str, position: int, depth: int) -> tuple[Any, int, bool]:
    """Return the value that begins here, where it ends and whether it is whole; of one that is cut off, what is there.

    Members are decoded one by one down to the one that was cut.
    """
    value, end, is_whole = _decoded(text, position)
    opening = text[position : position + 1]
    if is_whole or depth > _DEEPEST or opening not in ("{", "[", '"'):
        return value, end, is_whole
    if opening == '"':
        return text[position + 1 : position + _CUT_STRING], len(text), False
    named: dict[str, Any] = {}
    items: list[Any] = []
    found = named if opening == "{" else items
    position = _skip_space(text, position + 1)
    while len(found) < _MEMBERS and text[position : position + 1] not in ("}", "]"):
        key = ""
        if opening == "{":
            key, end, is_whole = _decoded(text, position)
            position = _skip_space(text, end)
            if not is_whole or not isinstance(key, str) or text[position : position + 1] != ":":
                return found, end, False
            position = _skip_space(text, position + 1)
        value, end, is_whole = _value(text, position, depth + 1)
        if end == position:
            return found, end, False
        if opening == "{":
            named[key] = value
        else:
            items.append(value)
        position = _skip_space(text, end)
        if not is_whole or text[position : position + 1] not in (",", "}", "]"):
            return found, position, False
        if text[position] == ",":
            position = _skip_space(text, position + 1)
    return found, position + 1, position < len(text)


def _skip_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position
