"""Any Python str as UTF-8, and as text that Postgres and JSON take, exactly.

A str may hold two things that Postgres `text` and `jsonb` refuse: NUL, and lone surrogates (half of a UTF-16 pair, as
broken tools print them), which have no UTF-8 either. `escape` writes both, and its own escape character U+001A, as
U+001A and four hexadecimal digits; `unescape` is its exact inverse. U+001A is SUBSTITUTE, the control character for
what cannot be said; ordinary text has none and passes unchanged. The driver applies it to what is stored
(`store.codec`); saved states and the lines of an export hold it.

Long texts are taken in pieces: no other thread runs, and so no event loop turns, while one call converts a text.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

__all__ = [
    "ESCAPE",
    "PIECE_CHARACTERS",
    "escape",
    "escape_json",
    "from_utf8",
    "is_plain",
    "pieces_of",
    "sayable",
    "to_utf8",
    "unescape",
    "unescape_json",
]

ESCAPE = "\x1a"
PIECE_CHARACTERS = 32_768
"""The most that one call converts: a few milliseconds if every character is one that UTF-8 refuses."""

_REFUSED = re.compile("[\x00\ud800-\udfff]")
_ESCAPES = {code: f"{ESCAPE}{code:04x}" for code in (0x00, ord(ESCAPE), *range(0xD800, 0xE000))}
_ESCAPED = re.compile("\x1a([0-9a-f]{4})")


def pieces_of(text: str) -> Iterator[str]:
    """Yield a text in pieces of `PIECE_CHARACTERS`; none ends between the two halves of a UTF-16 pair."""
    start = 0
    while len(text) - start > PIECE_CHARACTERS:
        end = start + PIECE_CHARACTERS
        end += "\ud800" <= text[end - 1] <= "\udbff" and "\udc00" <= text[end] <= "\udfff"
        yield text[start:end]
        start = end
    yield text[start:]


def is_plain(text: str) -> bool:
    """Return whether Postgres `text` and UTF-8 take this string as it is."""
    return (text.isascii() and "\x00" not in text) or not any(map(_REFUSED.search, pieces_of(text)))


def escape(text: str) -> str:
    """Return a string without NUL and lone surrogates; `unescape` gives the original back."""
    if ESCAPE not in text and is_plain(text):
        return text
    return "".join([piece.translate(_ESCAPES) for piece in pieces_of(text)])


def unescape(text: str) -> str:
    """Return what `escape` was given."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) if ESCAPE in text else text


def escape_json(value: Any) -> Any:
    """`escape` every string, keys included, in a JSON-native value."""
    return _map_strings(value, escape)


def unescape_json(value: Any) -> Any:
    """Return what `escape_json` was given."""
    return _map_strings(value, unescape)


def to_utf8(text: str) -> bytes:
    """Encode any str: lone surrogates become their three-byte form ("surrogatepass")."""
    return b"".join([piece.encode("utf-8", "surrogatepass") for piece in pieces_of(text)])


def sayable(text: str) -> str:
    """Return a text that UTF-8 and JSON take: each lone surrogate is spelled, such as `\\ud83d`. Cannot be undone."""
    return text.encode("utf-8", "backslashreplace").decode()


def from_utf8(data: bytes) -> str:
    """Return what `to_utf8` was given; of data that was cut, without the character that the cut went through."""
    pieces: list[str] = []
    start = 0
    while start < len(data):
        end = min(start + PIECE_CHARACTERS, len(data))
        while end < len(data) and data[end] & 0xC0 == 0x80 and end - start > PIECE_CHARACTERS - 4:
            end -= 1  # back to where a character begins
        try:
            pieces.append(data[start:end].decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError as error:
            if start + error.start < len(data) - 3:
                raise
            pieces.append(data[start : start + error.start].decode("utf-8", "surrogatepass"))
        start = end
    return "".join(pieces)


def _map_strings(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _map_strings(item, change) for key, item in cast(dict[str, Any], value).items()}
    if isinstance(value, (list, tuple)):
        return [_map_strings(item, change) for item in cast(list[Any], value)]
    return value
