"""The export format: JSON Lines in ASCII, each a table's row, fields named like columns.

    {"format":"memory-context","version":2,"user":"alice",…}       header
    {"record":"item","memory_key":"run_shell_k3f9x2",…}            row
    {"record":"end","records":{"item":1}}                          missing if truncated

NUL and lone surrogates are U+001A and four hexadecimal digits: readers refuse JSON's escapes of them.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

from pydantic import ValidationError

from memory_context.errors import SecretError
from memory_context.utf8 import is_plain

from ..items import SECRET_TYPE
from ..tables import ITEMS, Table
from .records import Header, Models, check_record

__all__ = [
    "END",
    "FORMAT",
    "FORMAT_VERSION",
    "Line",
    "TransferError",
    "ascii_json",
    "read_header",
    "read_line",
]

FORMAT = "memory-context"
FORMAT_VERSION = 2  # 1 had no origins
END = "end"
_READ_VERSIONS = (1, FORMAT_VERSION)

_REFUSED = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")  # candidates: NUL or surrogates
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


class TransferError(ValueError):
    """A file cannot be imported; the text names the line."""


@dataclass(frozen=True)
class Line:
    """A validated line, numbered from 1; the last has no table, items no text."""

    number: int
    table: Table | None
    fields: Mapping[str, Any] = field(repr=False)
    text: str = field(repr=False)


def ascii_json(text: str) -> str:
    """Return JSON with escapes for non-ASCII characters."""
    if text.isascii():
        return text
    return _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], text)  # only in strings


def read_header(data: bytes) -> Header:
    """Return the first line; `TransferError` if the format or version is unknown."""
    try:
        fields = _object(json.loads(data))
    except (ValueError, RecursionError):
        fields = {}
    if fields.get("format") != FORMAT:
        raise TransferError('line 1: this is no export: it does not begin with {"format": "memory-context", …}')
    if fields.get("version") not in _READ_VERSIONS:
        raise TransferError(
            f"line 1: the file has version {fields.get('version')!r} of the format, this memory_context reads "
            f"{FORMAT_VERSION}: upgrade it with pip install -U memory-context"
        )
    try:
        return Header.model_validate(fields)
    except ValidationError as error:
        raise TransferError(f"line 1: {_said(error)}") from None


def read_line(number: int, data: bytes, models: Models) -> Line:
    """Return a later line, validated against the columns of its table.

    Raises:
        TransferError: The table would refuse it.
        SecretError: It is an item of the secret type.
    """
    try:
        text = data.decode().rstrip("\r\n")
        fields = _object(json.loads(text, parse_constant=_refuse, parse_float=_finite))
        record: Any = fields.get("record")
        if record == END:
            if not isinstance(fields.get("records"), dict):
                raise ValueError("the last line does not say how many records there are")
            return Line(number, None, fields, text)
        if record not in models:
            raise ValueError(f"{record!r} is no kind of record: it is one of {', '.join(models)}, {END}")
        if _REFUSED.search(text) and not _is_plain(fields):
            raise ValueError("NUL or a lone surrogate: write U+001A and its four hexadecimal digits")
        table, model = models[record]
        check_record(table, model.model_validate(fields))
        if table is ITEMS and fields["is_active"] and fields["memory_type"] == SECRET_TYPE:
            raise SecretError(
                f"line {number}: item {fields['memory_key']!r} is of type {SECRET_TYPE!r}, which is refused, since "
                "everything stored is plain text: memory-context import encrypts it if MEMORY_CONTEXT_SECRET_KEY is "
                "set, and leaves it out with --erase-secrets"
            )
        return Line(number, table, fields, "" if table is ITEMS else text)
    except ValidationError as error:
        raise TransferError(f"line {number}: {_said(error)}") from None
    except json.JSONDecodeError as error:
        raise TransferError(f"line {number}: not JSON: {error.msg} at character {error.pos + 1}") from None
    except UnicodeDecodeError:
        raise TransferError(f"line {number}: not UTF-8") from None
    except RecursionError:
        raise TransferError(f"line {number}: nested too deeply") from None
    except ValueError as error:
        raise TransferError(f"line {number}: {error}") from None


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return cast(dict[str, Any], value)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits[:20]} is too large a number")
    return number


def _is_plain(value: Any) -> bool:
    """Return whether Postgres accepts every string in a value."""
    if isinstance(value, str):
        return is_plain(value)
    if isinstance(value, dict):
        return all(is_plain(key) and _is_plain(item) for key, item in cast(dict[str, Any], value).items())
    return all(map(_is_plain, cast(list[Any], value))) if isinstance(value, list) else True


def _said(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}" if place else first["msg"]
