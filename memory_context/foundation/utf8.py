"""Reversible encoding of any str for Postgres, JSON and UTF-8, and the codes of terminals in texts.

Postgres refuses NUL and lone surrogates: `escape` writes them, and U+001A itself, as U+001A and four hexadecimal
digits.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

from .patterns import regex

__all__ = [
    "ESCAPE",
    "TERMINAL_CODE",
    "escape",
    "escape_json",
    "from_utf8",
    "is_plain",
    "json_object",
    "map_strings",
    "sayable",
    "sayable_json",
    "sayable_name",
    "sendable",
    "strings_in",
    "to_utf8",
    "unescape",
    "unescape_json",
    "without_terminal_codes",
]

ESCAPE = "\x1a"
_REFUSED = regex("[\x00\ud800-\udfff]")
_ESCAPABLE = regex("[\x00\x1a\ud800-\udfff]")
_HALF = regex("[\ud800-\udfff]")
# escapes of whole characters are consumed first, and a pair of escapes with them; group 1 is a half
_IN_JSON = regex(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    "|(\\\\u[dD][89a-fA-F][0-9a-fA-F]{2}|[\ud800-\udfff])"
    "|\\\\[^\ud800-\udfff]"
)
_HALF_IN_JSON = regex("\\\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_ESCAPED = regex("\x1a([0-9a-f]{4})")

TERMINAL_CODE = re.compile(
    r"\x1b(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b\n]{0,4000}(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])"
)
"""A colour, a movement, the target of a link or a character set, as programs write them for a terminal."""


def is_plain(text: str) -> bool:
    """Return whether Postgres accepts this string."""
    return "\x00" not in text and sayable(text) is text


def sendable(text: str) -> str:
    """Replace NUL and lone surrogates, which neither Postgres nor a client of models takes, by U+FFFD."""
    return text if is_plain(text) else _REFUSED.sub("\ufffd", text)


def escape(text: str) -> str:
    """Return a string without NUL and lone surrogates, reversibly."""
    if ESCAPE not in text and is_plain(text):
        return text
    return _ESCAPABLE.sub(lambda found: f"{ESCAPE}{ord(found[0]):04x}", text)


def unescape(text: str) -> str:
    """Reverse `escape`."""
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) if ESCAPE in text else text


def escape_json(value: Any) -> Any:
    """`escape` all strings, keys included."""
    return map_strings(value, escape)


def unescape_json(value: Any) -> Any:
    """Reverse `escape_json`."""
    return map_strings(value, unescape)


def without_terminal_codes(text: str) -> str:
    """Return a text as a terminal shows it; the same object if it holds no codes."""
    return TERMINAL_CODE.sub("", text) if "\x1b" in text else text


def to_utf8(text: str) -> bytes:
    """Encode any str, lone surrogates in three bytes ("surrogatepass")."""
    return text.encode("utf-8", "surrogatepass")


def sayable(text: str) -> str:
    """Spell lone surrogates, such as `\\ud83d`, irreversibly; the same object if there are none."""
    try:
        text.encode()  # faster than a search
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def sayable_name(text: str) -> str:
    """Spell lone surrogates without a backslash, which providers refuse in names and ids."""
    return text if sayable(text) is text else _HALF.sub(lambda half: f"u{ord(half[0]):04x}", text)


def sayable_json(text: str) -> str:
    """Spell lone surrogates in the strings of a JSON text, raw and escaped ones.

    The JSON stays valid. Its parsed strings are sayable too: clients of models parse arguments and encode them again.
    """
    if ("\\u" not in text and sayable(text) is text) or not _HALF_IN_JSON.search(text):
        return text
    spelled = _IN_JSON.sub(lambda found: f"\\\\u{_half_of(found):04x}" if found[1] else found[0], text)
    return text if spelled == text else spelled


def _half_of(found: "re.Match[str]") -> int:
    return ord(found[1]) if len(found[1]) == 1 else int(found[1][2:], 16)


def from_utf8(data: bytes) -> str:
    """Reverse `to_utf8`; a last character that was cut is dropped."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        if error.start < len(data) - 3:
            raise
        return data[: error.start].decode("utf-8", "surrogatepass")


def json_object(text: str | bytes) -> dict[str, Any] | None:
    """Return the JSON object of a text; None if it is anything else."""
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast(dict[str, Any], value) if isinstance(value, dict) else None


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """Return JSON-native data with all its strings changed, keys included."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): map_strings(item, change) for key, item in cast(dict[str, Any], value).items()}
    if isinstance(value, (list, tuple)):
        return [map_strings(item, change) for item in cast(list[Any], value)]
    return value


def strings_in(value: Any) -> Iterator[str]:
    """Yield all strings of JSON-native data, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, one in cast(dict[str, Any], value).items():
            yield key
            yield from strings_in(one)
    elif isinstance(value, (list, tuple)):
        for one in cast(list[Any], value):
            yield from strings_in(one)
