"""Quoted texts of JSON and of Python, decoded also when they were cut off, and how their escapes are written."""

import json
import re
from dataclasses import dataclass

__all__ = ["Literal", "escape_pattern", "plain_text", "read_literal"]

_JSON_ESCAPE = re.compile(r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[\s\S])")
_REPR_ESCAPE = re.compile(r"\\(?:U[0-9a-fA-F]{8}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[\s\S])")
_DECODER = json.JSONDecoder(strict=False)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


@dataclass(frozen=True)
class Literal:
    """A quoted text: its characters without the quotes, what it means, and whether its escapes are Python's."""

    start: int
    end: int
    text: str
    is_repr: bool


def escape_pattern(is_repr: bool) -> "re.Pattern[str]":
    """Return what matches one escape, of Python or of JSON; each stands for one character."""
    return _REPR_ESCAPE if is_repr else _JSON_ESCAPE


def read_literal(content: str, position: int, is_repr: bool) -> Literal:
    """Return the quoted text that begins at a quote; it ends with the content if it was cut off."""
    if not is_repr:
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
    return Literal(start, end, escape_pattern(is_repr).sub(_meaning, content[start:end]), is_repr)


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


def plain_text(literal: str) -> str:
    """Return what the inside of a Python string literal, as repr writes it, means; never raises."""
    return _REPR_ESCAPE.sub(_meaning, literal) if "\\" in literal else literal
