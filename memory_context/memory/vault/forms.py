"""Values in text, replaced by their references `{{secret:NAME}}`.

Found are the value as it is, split over lines, percent-encoded, with JSON or HTML escapes, and within Base64.
"""

import base64
import html
import json
import re
from collections.abc import Mapping
from typing import Any, cast

from memory_context.foundation.patterns import BytesPattern
from memory_context.foundation.utf8 import from_utf8, to_utf8

__all__ = ["DETECTED", "SecretFilter", "is_name", "names_in", "reference", "resolved_text"]

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
REFERENCE = re.compile(rf"\{{\{{secret:({NAME.pattern})\}}\}}")
_REFERENCE_BYTES = re.compile(rb"(\{\{secret:[A-Za-z][A-Za-z0-9_.-]{0,63}\}\})")
DETECTED = "detected-"
"""Names of masked credentials begin so."""

_LINE_BREAK = r"(?:[\"']?[ \t]*[\\+]?(?:\r?\n|(?:\\+r)?\\+n)[ \t>|]*[\"']?)?"
"""Between two characters: the end of a line, raw or as an escape, perhaps of a quoted string that goes on."""
_WRAP = r"(?:\r?\n|(?:\\+r)?\\+n)?"
_BASE64 = r"[A-Za-z0-9+/_-]"
_BASE64_FORMS = {"+": r"(?:[+-]|%2[bB])", "/": r"(?:[/_]|%2[fF]|\\+/)"}
_ESCAPES = {"\n": r"(?:\\+r)?\\+n", "\r": r"\\+r", "\t": r"\\+t", "\b": r"\\+b", "\f": r"\\+f", "\\": r"\\+"}


def reference(name: str) -> str:
    """Return the reference to a value."""
    return f"{{{{secret:{name}}}}}"


def is_name(text: str) -> bool:
    """Return whether a text may name a secret."""
    return NAME.fullmatch(text) is not None


def resolved_text(text: str, values: Mapping[str, str]) -> str:
    """Return a text with values in place of these references, in one pass."""
    return REFERENCE.sub(lambda found: values.get(found[1], found[0]), text) if values else text


def names_in(text: str) -> list[str]:
    """Return the names of all references in a text."""
    return REFERENCE.findall(text) if "{{secret:" in text else []


class SecretFilter:
    """Replaces values by their references, in linear time.

    Args:
        values: Values by name, each of at least 8 characters.
    """

    def __init__(self, values: Mapping[str, str]) -> None:
        longest_first = sorted(values.items(), key=lambda one: (-len(one[1]), one[0]))
        forms = [(name, _forms_of(value)) for name, value in longest_first]
        self._patterns = [(to_utf8(reference(name)), BytesPattern(form)) for name, form in forms]
        self._any = BytesPattern("|".join(form for _, form in forms)) if forms else None

    def __repr__(self) -> str:
        return f"<SecretFilter of {len(self._patterns)} values>"

    def finds(self, text: str) -> bool:
        """Return whether a value stands in a text."""
        return self._any is not None and self._any.is_in(to_utf8(text))

    def spellings(self, text: str) -> list[str]:
        """Return the values in a text as written there."""
        if self._any is None or not self._any.is_in(data := to_utf8(text)):
            return []
        return [from_utf8(one) for _, pattern in self._patterns for one in pattern.found(data)]

    def hide(self, text: str) -> str:
        """Return the text with references in place of values; the same object without any."""
        if self._any is None or not self._any.is_in(data := to_utf8(text)):
            return text
        for said, pattern in self._patterns:  # a reference may have the letters of another value
            pieces = _REFERENCE_BYTES.split(data)
            data = b"".join(one if at % 2 else pattern.replaced(one, said) for at, one in enumerate(pieces))
        return from_utf8(data)

    def hide_arguments(self, arguments: str) -> str:
        """Hide values in a call's arguments, which stay valid JSON."""
        hidden = self.hide(arguments)
        if hidden is arguments:
            return arguments
        try:
            return json.dumps(self.hide_in(json.loads(arguments)), ensure_ascii=arguments.isascii())
        except (ValueError, RecursionError):
            return hidden  # it was no JSON before

    def hide_in(self, value: Any) -> Any:
        """Return JSON-native data with strings, names and numbers filtered."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, dict):
            fields = cast(dict[str, Any], value).items()
            return {self.hide(name): self.hide_in(one) for name, one in fields}
        if isinstance(value, (list, tuple)):
            return [self.hide_in(one) for one in cast(list[Any], value)]
        if isinstance(value, (int, float)) and not isinstance(value, bool) and self.finds(json.dumps(value)):
            return self.hide(json.dumps(value))
        return value


def _forms_of(value: str) -> str:
    data = value.encode()
    spelled = _LINE_BREAK.join(_character(one) for one in value)
    encoded = [_base64_at(data, offset) for offset in range(3)]
    return f"(?:{'|'.join([spelled, *encoded])})"


def _character(char: str) -> str:
    """Return the pattern of one character in all its spellings."""
    data = to_utf8(char)
    spellings = [_literal(data), "".join(f"%{_any_case(f'{byte:02x}')}" for byte in data)]
    utf16 = char.encode("utf-16-be", "surrogatepass")
    spellings.append("".join(rf"\\+u{_any_case(utf16[at : at + 2].hex())}" for at in range(0, len(utf16), 2)))
    if char in "\"'/":
        spellings.append(rf"\\+{char}")
    if char in _ESCAPES:
        spellings.append(_ESCAPES[char])
    if (escaped := html.escape(char)) != char:
        spellings.append(escaped)
    if char == " ":
        spellings.append(r"\+")
    if char == "\n":
        spellings.append("\r\n")
    return f"(?:{'|'.join(spellings)})"


def _base64_at(data: bytes, offset: int) -> str:
    """Return the pattern of Base64 with `offset` bytes before the value, without shared characters."""
    first, last = (0, 2, 3)[offset], (offset + len(data)) * 8 // 6
    own = base64.b64encode(bytes(offset) + data).decode()[first:last]
    before = f"{_BASE64}?" if offset else ""
    return before + _WRAP.join(_BASE64_FORMS.get(one, one) for one in own) + f"{_BASE64}?(?:=|%3[dD]){{0,2}}"


def _literal(data: bytes) -> str:
    # characters beyond ASCII are literals of a pattern in UTF-8
    text = from_utf8(data)
    return re.escape(text) if text.isascii() else text


def _any_case(digits: str) -> str:
    return "".join(f"[{one}{one.upper()}]" if one.isalpha() else one for one in digits)
