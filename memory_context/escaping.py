"""Strings that Postgres and UTF-8 refuse, made storable and back again, exactly.

A Python str may hold two things that neither Postgres `text` nor `jsonb` takes: the NUL character, and lone surrogates
(half of a UTF-16 pair, as broken tools print them), which have no UTF-8 encoding either. `escape` writes both, and
its own escape character U+001A, as U+001A and four hexadecimal digits; `unescape` is its exact inverse. Ordinary text
passes unchanged, at the price of one scan.
"""

import re
from typing import Any, cast

__all__ = ["escape", "escape_json", "from_utf8", "is_plain", "sayable", "to_utf8", "unescape", "unescape_json"]

_REFUSED = re.compile("[\x00\ud800-\udfff]")
_TO_ESCAPE = re.compile("[\x00\x1a\ud800-\udfff]")
_ESCAPED = re.compile("\x1a([0-9a-f]{4})")


def is_plain(text: str) -> bool:
    """Whether Postgres `text` and UTF-8 take this string as it is."""
    return (text.isascii() and "\x00" not in text) or _REFUSED.search(text) is None


def escape(text: str) -> str:
    """Return a string without NUL and lone surrogates; `unescape` gives the original back."""
    return _TO_ESCAPE.sub(lambda match: f"\x1a{ord(match[0]):04x}", text)


def unescape(text: str) -> str:
    """Return what `escape` was given."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text)


def escape_json(value: Any) -> Any:
    """`escape` every string, keys included, in a JSON-native value."""
    return _map_strings(value, escape)


def unescape_json(value: Any) -> Any:
    """Return what `escape_json` was given."""
    return _map_strings(value, unescape)


def to_utf8(text: str) -> bytes:
    """Encode any str: lone surrogates become their three-byte form ("surrogatepass")."""
    return text.encode("utf-8", "surrogatepass")


def sayable(text: str) -> str:
    """Return a text that UTF-8 and JSON take: each lone surrogate is spelled, such as `\\ud83d`. Cannot be undone."""
    return text.encode("utf-8", "backslashreplace").decode()


def from_utf8(data: bytes) -> str:
    """Return what `to_utf8` was given; of data that was cut, without the character that the cut went through."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        if error.start < len(data) - 3:
            raise
        return data[: error.start].decode("utf-8", "surrogatepass")


def _map_strings(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _map_strings(item, change) for key, item in cast(dict[str, Any], value).items()}
    if isinstance(value, (list, tuple)):
        return [_map_strings(item, change) for item in cast(list[Any], value)]
    return value
