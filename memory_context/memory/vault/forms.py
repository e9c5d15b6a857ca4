"""Values in text, replaced by their references `{{secret:NAME}}`.

Found are the value as it is, as a string of JSON, percent-encoded, escaped for HTML, and within Base64.
"""

import base64
import html
import json
import re
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote, quote_plus

from memory_context.foundation.patterns import BytesPattern, regex
from memory_context.foundation.utf8 import from_utf8, to_utf8

__all__ = ["DETECTED", "SecretFilter", "is_name", "names_in", "reference", "resolved_text"]

NAME = regex(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")
REFERENCE = regex(rf"\{{\{{secret:({NAME.pattern})\}}\}}")
_REFERENCE_BYTES = regex(rb"(\{\{secret:[A-Za-z][A-Za-z0-9_.-]{0,63}\}\})")
DETECTED = "detected-"
"""Names of masked credentials begin so."""

_BASE64_FORMS = {"+": "[+-]", "/": "[/_]"}


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
    whole = {value, value.replace("\n", "\r\n")}
    in_json = {json.dumps(one, ensure_ascii=is_ascii)[1:-1] for one in whole for is_ascii in (True, False)}
    in_json |= {one.replace("/", "\\/") for one in in_json}  # as PHP writes it; Go does so with &, < and >
    in_json |= {one.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e") for one in in_json}
    in_json |= {json.dumps(one, ensure_ascii=False)[1:-1] for one in in_json}  # JSON within JSON
    in_urls = {made for one in whole for made in (quote(one, safe=""), quote(one), quote_plus(one))}
    in_urls |= {re.sub("%..", lambda code: code[0].lower(), one) for one in in_urls}
    spelled = {*whole, *in_json, *in_urls, *map(html.escape, whole)}
    # characters beyond ASCII are literals of a pattern in UTF-8
    literals = [
        "".join(re.escape(char) if char.isascii() else char for char in one)
        for one in sorted(spelled, key=len, reverse=True)
    ]
    return f"(?:{'|'.join([*literals, *(_base64_at(value.encode(), offset) for offset in range(3))])})"


def _base64_at(data: bytes, offset: int) -> str:
    """Return the pattern of Base64 with `offset` bytes before the value, without shared characters."""
    first, last = (0, 2, 3)[offset], (offset + len(data)) * 8 // 6
    own = base64.b64encode(bytes(offset) + data).decode()[first:last]
    before = "[A-Za-z0-9+/_-]?" if offset else ""
    return before + "".join(_BASE64_FORMS.get(one, one) for one in own) + "[A-Za-z0-9+/_-]?={0,2}"
