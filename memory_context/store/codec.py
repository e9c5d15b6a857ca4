"""How Python's str, JSON and times travel to Postgres and back: every value comes back as it was, times in UTC.

A str may hold two things that Postgres `text` and `jsonb` refuse: NUL, and lone surrogates, which have no UTF-8 either.
The adapters of each connection write them as U+001A and four hexadecimal digits (`memory_context.utf8`). The escape
goes character by character: equal strings are equal in the database, parts of a string are parts, and the order of
keys is the order of what is stored. Nothing above the driver sees it but the lines of an export.

The canonical form of JSON is one that `jsonb` gives back unchanged, so that its hash can be made again after reading.
`jsonb` keeps neither the order of keys nor how a number was written: 1e16 comes back as an integer. Here keys are
sorted and a float is written without an exponent and with its point. Every number comes back as it
was, but -0.0 as 0.0.
"""

import json
import math
from collections.abc import Mapping
from datetime import timezone
from decimal import Decimal
from json.encoder import encode_basestring  # the C one where there is one
from typing import Any, cast

import psycopg
from psycopg.abc import AdaptContext, Buffer
from psycopg.adapt import AdaptersMap, Dumper, Loader
from psycopg.pq import Format
from psycopg.types.datetime import TimestamptzBinaryLoader, TimestamptzLoader

from memory_context.utf8 import escape, unescape, unescape_json

__all__ = ["ADAPTERS", "canonical_json", "read_canonical", "stored_form"]

_JSONB = psycopg.adapters.types["jsonb"].oid


class _TextDumper(Dumper):
    """Of no type, as the driver's own: the server takes the text for what it needs."""

    def dump(self, obj: str) -> Buffer:
        return stored_form(obj)


class _TextLoader(Loader):
    def load(self, data: Buffer) -> str:
        return unescape(str(data, "utf-8"))


class _BinaryTextLoader(_TextLoader):
    format = Format.BINARY


class _UtcLoader(TimestamptzLoader):
    """Times are in UTC, whatever the time zone of the session."""

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
        return super().load(data[1:])  # after the version of the format


class _BinaryJsonLoader(_JsonLoader):
    format = Format.BINARY


def _adapters() -> AdaptersMap:
    adapters = AdaptersMap(psycopg.adapters)
    adapters.register_dumper(str, _TextDumper)
    adapters.register_dumper(dict, _JsonDumper)
    adapters.register_loader("text", _TextLoader)
    adapters.register_loader("text", _BinaryTextLoader)
    adapters.register_loader("timestamptz", _UtcLoader)
    adapters.register_loader("timestamptz", _BinaryUtcLoader)
    adapters.register_loader("json", _JsonLoader)
    adapters.register_loader("json", _BinaryJsonLoader)
    adapters.register_loader("jsonb", _JsonLoader)
    adapters.register_loader("jsonb", _BinaryJsonbLoader)
    return adapters


ADAPTERS = _adapters()
"""Of every connection; a database adds the type of its embeddings."""


def stored_form(text: str) -> bytes:
    """Return the bytes of a text as the database has it."""
    return escape(text).encode()


def canonical_json(value: Any) -> str:
    """Return the canonical form of a JSON-native value, its strings escaped.

    Raises:
        ValueError: Something in it is not JSON-native: NaN, an infinity, a key that is not a str, an object.
    """
    pieces: list[str] = []
    _write(value, pieces)
    return "".join(pieces)


def read_canonical(text: str) -> Any:
    """Return the value of a canonical form, or of what `jsonb` made of it."""
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
