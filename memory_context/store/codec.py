"""One form of a JSON value that `jsonb` gives back unchanged, so that its hash can be made again after reading.

`jsonb` keeps neither the order of keys nor how a number was written: 1e16 comes back as an integer. Here keys are
sorted and a float is written without an exponent and with its point, which `jsonb` keeps. Promises: every str comes
back identical, every number as it was, but -0.0 as 0.0; equal values have one form.
"""

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from json.encoder import encode_basestring  # the C one where there is one
from typing import Any, cast

from memory_context.escaping import escape, unescape_json

__all__ = ["canonical_json", "read_canonical"]


def canonical_json(value: Any) -> str:
    """Return the canonical form of a JSON-native value; its strings are escaped, so that `jsonb` takes all of them.

    Raises:
        ValueError: Something in it is not JSON-native: NaN, an infinity, a key that is no str, an object.
    """
    pieces: list[str] = []
    _write(value, pieces)
    return "".join(pieces)


def read_canonical(text: str) -> Any:
    """Return the value of a canonical form, or of what `jsonb` made of it."""
    return unescape_json(json.loads(text))


def _write(value: Any, pieces: list[str]) -> None:
    if isinstance(value, str):
        pieces.append(encode_basestring(escape(value)))
    elif value is None:
        pieces.append("null")
    elif isinstance(value, bool):
        pieces.append("true" if value else "false")
    elif isinstance(value, int):
        pieces.append(int.__repr__(value))
    elif isinstance(value, float):
        pieces.append(_write_float(value))
    elif isinstance(value, Mapping):
        _write_object(cast(Mapping[Any, Any], value), pieces)
    elif isinstance(value, (list, tuple)):
        separator = "["
        for item in cast("list[Any]", value):
            pieces.append(separator)
            _write(item, pieces)
            separator = ","
        pieces.append("]" if value else "[]")
    else:
        raise ValueError(f"{value!r} is not JSON-native: use None, bool, int, float, str, lists and dicts of them")


def _write_object(value: Mapping[Any, Any], pieces: list[str]) -> None:
    if not all(isinstance(key, str) for key in value):
        raise ValueError(f"the keys of a JSON object are str, got {list(value)!r}")
    separator = "{"
    for key in sorted(value):
        pieces.append(f"{separator}{encode_basestring(escape(key))}:")
        _write(value[key], pieces)
        separator = ","
    pieces.append("}" if value else "{}")


def _write_float(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{value!r} is no JSON number: leave it out, or store None or a str")
    text = float.__repr__(value or 0.0)  # jsonb has no negative zero
    if "e" in text:
        text = f"{Decimal(text):f}"
    return text if "." in text else f"{text}.0"
