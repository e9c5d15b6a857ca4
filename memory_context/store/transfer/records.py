"""The export format: JSON Lines in ASCII, each a table's row, fields named like columns.

    {"format":"memory-context","version":2,"user":"alice",…}       header
    {"record":"item","memory_key":"run_shell_k3f9x2",…}            row
    {"record":"end","records":{"item":1}}                          missing if truncated

NUL and lone surrogates are U+001A and four hexadecimal digits: readers refuse JSON's escapes of them. The models of the
lines derive from the database's columns, so tables accept validated lines.
"""

import base64
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NoReturn, cast

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    create_model,
)

from memory_context.foundation.identifiers import checked_identifier
from memory_context.foundation.references import KEY_PATTERN
from memory_context.foundation.utf8 import is_plain, to_utf8, unescape, unescape_json

from ..codec import canonical_json
from ..items import Origin
from ..tables import ITEMS, TABLES, Column, Table

__all__ = [
    "END",
    "FORMAT",
    "FORMAT_VERSION",
    "Header",
    "Line",
    "Models",
    "Record",
    "TransferError",
    "ascii_json",
    "item_content",
    "models_of",
    "read_header",
    "read_line",
]

FORMAT = "memory-context"
FORMAT_VERSION = 2  # 1 had no origins
END = "end"
_READ_VERSIONS = (1, FORMAT_VERSION)
_REFUSED = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")  # candidates: NUL or surrogates
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]")


def item_content(escaped: str | None, in_base64: str | None) -> str:
    """Return the content of an item's line, in one of two forms; `ValueError` if malformed."""
    if escaped is not None:
        return unescape(escaped)
    return base64.b64decode(in_base64 or "", validate=True).decode("utf-8", "surrogatepass")


class Record(BaseModel):
    """A line after the first, with the fields of its table."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    record: str


Models = Mapping[str, tuple[Table, type[Record]]]
"""Tables and models, by record."""


def models_of(columns: Mapping[str, Sequence[Column]]) -> Models:
    """Return the models of the database's tables, by record name."""
    return {table.record: (table, _model(table, columns[table.name])) for table in TABLES if table.name in columns}


# --- fields


def _at_most(octets: int) -> AfterValidator:
    def check(text: str) -> str:
        if len(text.encode()) > octets:
            raise ValueError(f"longer than {octets} bytes")
        return text

    return AfterValidator(check)


def _checked_key(text: str) -> str:
    if not KEY_PATTERN.fullmatch(text):  # else a search that finds it fails: it has no reference
        raise ValueError("not a memory key: 1-64 of A-Z a-z 0-9 _ . -, beginning with a letter or digit")
    return text


def _checked_chat_id(text: str) -> str:
    checked_identifier("id", unescape(text))
    return text


def _checked_base64(text: str) -> str:
    base64.b64decode("".join(text.split()), validate=True)
    return text


def _checked_time(value: object) -> object:
    """Refuse numbers, which pydantic reads as Unix time."""
    if not isinstance(value, str) or not _DAY.match(value):
        raise ValueError("not a time like 2026-01-31T12:00:00Z")
    return value


def _or_none(annotation: Any) -> Any:
    return annotation | None


_Time = Annotated[AwareDatetime, Field(strict=False), BeforeValidator(_checked_time)]
_Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
_ENCODED = {
    "hex": Annotated[str, Field(pattern="^(?:[0-9a-f]{2})*$")],
    "base64": Annotated[str, AfterValidator(_checked_base64)],
}
_TYPES: dict[str, Any] = {
    "text": str,
    "text[]": list[str],
    "boolean": bool,
    "smallint": Annotated[int, Field(ge=-(2**15), lt=2**15)],
    "integer": Annotated[int, Field(ge=-(2**31), lt=2**31)],
    "bigint": Annotated[int, Field(ge=-(2**63), lt=2**63)],
    "timestamp with time zone": _Time,
    "uuid": Annotated[str, Field(pattern="^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")],
    "jsonb": dict[str, Any],
}
# Fields stricter than their columns; older files have no origin and no times of statements.
_FIELDS: dict[str, dict[str, Any]] = {
    "agent_memories": {
        "memory_key": (Annotated[str, AfterValidator(_checked_key)], ...),
        "origin": (Origin | None, None),
        "shared_with": (list[Annotated[str, _at_most(512)]], Field(default_factory=list[str])),
        "content_sha256": (_or_none(_Sha256), ...),
        "content": (str | None, ...),
        "content_base64": (str | None, None),
        "content_type": (_or_none(Annotated[str, Field(pattern=r"\A[a-z]+/[\w.+-]+\z"), _at_most(255)]), None),
        "valid_from": (_or_none(_Time), None),
        "valid_until": (_or_none(_Time), None),
        "superseded_by": (_or_none(Annotated[str, AfterValidator(_checked_key)]), None),
    },
    "recent_conversation_history": {
        "kind": (Literal["transcript", "client"], ...),
        "message_batch": (dict[str, Any] | list[dict[str, Any]], ...),
    },
    "user_secrets": {"name": (Annotated[str, Field(pattern=r"\A[A-Za-z][A-Za-z0-9_.-]{0,63}\z")], ...)},
}


def _model(table: Table, columns: Sequence[Column]) -> type[Record]:
    fields: dict[str, Any] = {column.name: (_annotation(table, column), ...) for column in columns}
    return create_model(table.record, __base__=Record, **(fields | _FIELDS.get(table.name, {})))


def _annotation(table: Table, column: Column) -> Any:
    code = table.encoding(column)
    annotation: Any = _TYPES[column.type] if code is None else _ENCODED[code]
    name = re.escape(column.name)
    if re.search(rf"\({name} <> ''::text\)", column.conditions):
        annotation = Annotated[annotation, Field(min_length=1)]
    if re.search(rf"\({name} >= 0\)", column.conditions):
        annotation = Annotated[annotation, Field(ge=0)]
    if found := re.search(rf"octet_length\({name}\) <= (\d+)", column.conditions):
        annotation = Annotated[annotation, _at_most(int(found[1]))]
    return annotation if column.is_required else _or_none(annotation)


# --- lines


class Header(BaseModel):
    """The first line of a file; `user` is escaped, `session` None for all."""

    model_config = ConfigDict(strict=True, frozen=True)

    format: Literal["memory-context"]
    version: int
    library: str
    schema_version: int
    user: Annotated[str, Field(min_length=1), _at_most(512)]
    session: str | None
    exported_at: _Time


class _ChatLine(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)

    id: Annotated[str, AfterValidator(_checked_chat_id)]
    text: str
    sender: Literal["user", "ai"]
    timestamp: _Time
    is_unverified: bool = False


_CHAT = TypeAdapter(list[_ChatLine])


def _bytes_of(item: Any) -> bytes:
    if item.content_type:
        return base64.b64decode(item.content_base64, validate=True)
    return to_utf8(item_content(item.content, item.content_base64))


def _check_item(item: Any) -> None:
    if not item.is_active:
        if (item.content, item.content_base64, item.content_sha256) != (None, None, None):
            raise ValueError("a forgotten item has no content")
    elif (item.content is None) == (item.content_base64 is None) or item.content_sha256 is None:
        raise ValueError("the content or its hash is missing, or it is there twice")
    elif item.content_type and item.content_base64 is None:
        raise ValueError("an image has its bytes in content_base64")
    elif hashlib.sha256(_bytes_of(item)).hexdigest() != item.content_sha256:
        raise ValueError("the content has not the hash beside it: the file was changed or damaged")


def _check_batch(batch: Any) -> None:
    if batch.kind == "client":
        if batch.agent_id or batch.branch or batch.begins_anew or batch.batch_sha256 is not None:
            raise ValueError("chat messages have no agent, branch or hash")
        messages = _CHAT.validate_python(batch.message_batch)
        if [message.id for message in messages] != batch.message_ids or batch.message_count != len(messages):
            raise ValueError("message_ids and message_count are not those of the messages")
        return
    body: Any = batch.message_batch
    if isinstance(body, list):
        raise ValueError("a stretch of a transcript is an object")
    if hashlib.sha256(canonical_json(unescape_json(body)).encode()).hexdigest() != batch.batch_sha256:
        raise ValueError("the batch has not the hash beside it: the file was changed or damaged")


def _check_step(step: Any) -> None:
    if (step.feedback_id is None) != (step.feedback_value is None):
        raise ValueError("feedback_id and feedback_value go together")


def _accept(_: Any) -> None:
    pass


_CHECKS: dict[str, Callable[[Any], None]] = {
    "agent_memories": _check_item,
    "recent_conversation_history": _check_batch,
    "ui_steps": _check_step,
}


class TransferError(ValueError):
    """A file cannot be imported; the text names the line."""


@dataclass(frozen=True)
class Line:
    """A validated line, numbered from 1; the last has no table, items no text."""

    number: int
    table: Table | None
    fields: Mapping[str, Any] = field(repr=False)
    text: str = field(repr=False)
    octets: int


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
    """
    try:
        text = data.decode().rstrip("\r\n")
        fields = _object(json.loads(text, parse_constant=_refuse, parse_float=_finite))
        record: Any = fields.get("record")
        if record == END:
            if not isinstance(fields.get("records"), dict):
                raise ValueError("the last line does not say how many records there are")
            return Line(number, None, fields, text, len(data))
        if record not in models:
            raise ValueError(f"{record!r} is no kind of record: it is one of {', '.join(models)}, {END}")
        if _REFUSED.search(text) and not _is_plain(fields):
            raise ValueError("NUL or a lone surrogate: write U+001A and its four hexadecimal digits")
        table, model = models[record]
        _CHECKS.get(table.name, _accept)(model.model_validate(fields))
        return Line(number, table, fields, "" if table is ITEMS else text, len(data))
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
