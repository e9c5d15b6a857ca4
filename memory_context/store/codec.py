"""Lossless adapters for str, JSON and times (UTC).

NUL and lone surrogates, which Postgres refuses, are escaped per character, which keeps equality and order. Canonical
JSON (sorted keys, floats without exponent) survives `jsonb` unchanged, so hashes can be recomputed.
"""

import json
import math
from collections.abc import Mapping
from datetime import timezone
from decimal import Decimal
from json.encoder import encode_basestring
from typing import Any, cast

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import AdaptersMap, Dumper, Loader
from psycopg.pq import Format
from psycopg.types.datetime import TimestamptzBinaryLoader, TimestamptzLoader

from memory_context.foundation.utf8 import ESCAPE, escape, unescape, unescape_json

__all__ = ["ADAPTERS", "canonical_json", "read_canonical", "stored_form"]

_JSON = json.JSONDecoder()
_JSONB = psycopg.adapters.types["jsonb"].oid


class _TextDumper(Dumper):
    def dump(self, obj: str) -> Buffer:
        return stored_form(obj)


class _TextLoader(Loader):
    def load(self, data: Buffer) -> str:
        text = str(data, "utf-8")
        return unescape(text) if ESCAPE in text else text  # a call for each value would cost as much as all else


class _BinaryTextLoader(_TextLoader):
    format = Format.BINARY


class _UtcLoader(TimestamptzLoader):
    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        self._timezone = timezone.utc


class _BinaryUtcLoader(TimestamptzBinaryLoader):
    def __init__(self, oid: int, context: AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        self._timezone = timezone.utc


class _JsonDumper(Dumper):
    oid = _JSONB

    def dump(self, obj: dict[str, Any]) -> Buffer:
        return canonical_json(obj).encode()


class _JsonLoader(Loader):
    def load(self, data: Buffer) -> Any:
        return read_canonical(str(data, "utf-8"))


class _BinaryJsonbLoader(_JsonLoader):
    format = Format.BINARY

    def load(self, data: Buffer) -> Any:
        text = str(data, "utf-8")
        value, _ = _JSON.raw_decode(text, 1)  # behind the version; for short values four times as fast as json.loads
        return unescape_json(value) if "\\u001a" in text else value


class _BinaryJsonLoader(_JsonLoader):
    format = Format.BINARY


ADAPTERS = AdaptersMap(psycopg.adapters)
"""Adapters of every connection; a database adds its embedding type."""
ADAPTERS.register_dumper(str, _TextDumper)
ADAPTERS.register_dumper(dict, _JsonDumper)
for _loaders in (
    {"text": _TextLoader, "timestamptz": _UtcLoader, "json": _JsonLoader, "jsonb": _JsonLoader},
    {
        "text": _BinaryTextLoader,
        "timestamptz": _BinaryUtcLoader,
        "json": _BinaryJsonLoader,
        "jsonb": _BinaryJsonbLoader,
    },
):
    for _type, _loader in _loaders.items():
        ADAPTERS.register_loader(_type, _loader)


def stored_form(text: str) -> bytes:
    """Return the bytes of a text as the database has it."""
    return escape(text).encode()


def canonical_json(value: Any) -> str:
    """Return a JSON-native value's canonical form, escaped; -0.0 becomes 0.0. `ValueError` for any other value."""
    pieces: list[str] = []
    _write(value, pieces)
    return "".join(pieces)


def read_canonical(text: str) -> Any:
    """Return the value of a canonical form, or of its `jsonb` form."""
    value = json.loads(text)
    return unescape_json(value) if "\\u001a" in text else value


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
