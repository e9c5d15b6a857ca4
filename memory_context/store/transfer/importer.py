"""Imports an exported file: a page of lines is stored in one transaction before the next is read.

The database checks each row by its columns and conditions. Existing rows are never changed, so an import can be
repeated: after an interruption, or once a damaged file is mended.
"""

import asyncio
import base64
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import IO, Any, NamedTuple, cast

import psycopg

from memory_context.foundation.errors import StoreError
from memory_context.foundation.references import KEY_PATTERN
from memory_context.foundation.utf8 import ESCAPE, is_plain, json_object, to_utf8, unescape

from ..conversations import ChatMessage
from ..database import EVERY_AGENT, Database
from ..items import SECRET_TYPE, imported_origin
from ..sql import Statement, load_queries
from ..statements import without_claims
from ..tables import ITEMS, TABLES, Column, Table, columns_of
from . import END, FORMAT, FORMAT_VERSION

__all__ = ["ImportReport", "TransferError", "bounded_lines", "import_lines"]

_QUERIES = load_queries("transfer")
_ITEMS = load_queries("agent_memories")
_THREADS = load_queries("threads")

LINE_LIMIT_BYTES = 400_000_000  # earlier versions exported items of up to 256 MiB, in Base64
PAGE_ROWS = 500
PAGE_BYTES = 4_000_000
_REFUSALS = (psycopg.DataError, psycopg.IntegrityError)


class TransferError(ValueError):
    """A file cannot be imported; the text names the line, or the lines of a page that the database refused."""


@dataclass(frozen=True)
class ImportReport:
    """Counts of imported records, by kind.

    Attributes:
        known: There already, or forgotten, deleted or another user's here: the row here stays.
        different: Names of records left out since another row has their place, or their content another key.
        secrets: Items of type `user_secret`, which earlier versions exported in clear: left out.
    """

    user_id: str
    stored: Counter[str] = field(default_factory=Counter[str])
    known: Counter[str] = field(default_factory=Counter[str])
    different: list[str] = field(default_factory=list[str])
    secrets: list[str] = field(default_factory=list[str])


def bounded_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file; `TransferError` if one is too long: a small compressed file may hold any length."""
    number = 0
    while line := file.readline(LINE_LIMIT_BYTES):
        number += 1
        if len(line) == LINE_LIMIT_BYTES and not line.endswith(b"\n"):
            raise TransferError(f"line {number}: longer than {LINE_LIMIT_BYTES:,} bytes: the file is damaged")
        yield line


async def import_lines(database: Database, lines: Iterable[bytes], user_id: str | None) -> ImportReport:
    """Import a file; see `StoreAdmin.import_lines`."""
    rest = iter(lines)
    user_in_file = _user_of(await asyncio.to_thread(next, rest, b""))
    report = ImportReport(user_id or user_in_file)
    select = _QUERIES("select_columns", names=[table.name for table in TABLES])
    columns = columns_of((await database.read(report.user_id, select))[0])
    pages = _pages(rest, report.secrets)
    while (page := await asyncio.to_thread(next, pages, None)) is not None:
        await _store(database, report, columns[page.table.name], page)
        del page  # free it before the next is read
    return report


# --- the file


class _Page(NamedTuple):
    """Records of one table, with their lines, and parameters of its statements."""

    table: Table
    lines: Sequence[int]
    params: Mapping[str, Any]


def _user_of(header: bytes) -> str:
    fields = json_object(header) or {}
    if fields.get("format") != FORMAT:
        raise TransferError('line 1: this is no export: it does not begin with {"format": "memory-context", …}')
    if fields.get("version") not in range(1, FORMAT_VERSION + 1):
        raise TransferError(
            f"line 1: the file has version {fields.get('version')!r} of the format, this memory_context reads "
            f"{FORMAT_VERSION}: upgrade it with pip install -U memory-context"
        )
    if not isinstance(user := fields.get("user"), str) or not user:
        raise TransferError("line 1: it does not say whose the rows are")
    return unescape(user)


def _pages(lines: Iterator[bytes], secrets: list[str]) -> Iterator[_Page]:
    """Yield pages of one table each; `TransferError` for a damaged line, and at the end of a file that is cut off."""
    tables = {table.record: table for table in TABLES}
    counts = Counter[str]()
    table, page, octets = ITEMS, dict[int, Any](), 0
    number = 1
    for number, data in enumerate(lines, 2):
        try:
            fields = json_object(data)
            if fields is None:
                raise ValueError("not a JSON object")
            record = fields["record"]
            if record == END:
                if counts != Counter(fields["records"]):
                    raise ValueError(f"there should be {fields['records']} before it, there are {dict(counts)}")
                if next(lines, None) is not None:  # a compressed file has its checksum behind this line
                    raise ValueError("something comes after the last line")
                break
            if record not in tables:
                raise ValueError(f"{record!r} is no kind of record: it is one of {', '.join(tables)}, {END}")
            counts[record] += 1
            row = _CHECKS.get(record, lambda _: None)(fields) or data.decode()
        except KeyError as error:
            raise TransferError(f"line {number}: {error} is missing") from None
        except (TypeError, ValueError, AttributeError) as error:
            raise TransferError(f"line {number}: {error}") from None
        if isinstance(row, _Item) and row.record["is_active"] and row.record["memory_type"] == SECRET_TYPE:
            secrets.append(row.record["memory_key"])
            continue
        if page and (tables[record] is not table or len(page) >= PAGE_ROWS or octets + len(data) > PAGE_BYTES):
            yield _page(table, page)
            page, octets = {}, 0
        table, page[number], octets = tables[record], row, octets + len(data)
    else:
        raise TransferError(f"the file is cut off after line {number}: its last line is missing")
    if page:
        yield _page(table, page)


class _Item(NamedTuple):
    """An item for the database; its content and the hash go beside it, as JSON cannot hold every text."""

    record: dict[str, Any]
    content: str | None = None
    raw: bytes | None = None
    size: int = 0
    content_type: str | None = None
    sha256: bytes | None = None


def _item(fields: dict[str, Any]) -> _Item:
    """Return an item whose key can be referred to, whose content has its hash, and that claims no user's words."""
    if not KEY_PATTERN.fullmatch(fields["memory_key"]):
        raise ValueError(f"{fields['memory_key'][:100]!r} is no memory key")
    fields = without_claims({**fields, "origin": imported_origin({"origin": None, **fields})})
    text, in_base64, kind = fields.pop("content"), fields.pop("content_base64", None), fields.pop("content_type", None)
    if not fields["is_active"]:
        return _Item(fields)
    data = to_utf8(unescape(text)) if in_base64 is None else base64.b64decode(in_base64, validate=True)
    sha256 = hashlib.sha256(data)
    if sha256.hexdigest() != fields["content_sha256"]:
        raise ValueError("the content has not the hash beside it: the file was changed or damaged")
    content = None if kind else data.decode("utf-8", "surrogatepass")
    if content is not None and is_plain(content) and ESCAPE not in content:
        return _Item(fields, content, None, len(data), None, sha256.digest())
    return _Item(fields, None, data, len(data), kind, sha256.digest())


def _check_batch(fields: dict[str, Any]) -> None:
    """Refuse a chat or transcript that fails whenever its session is shown."""
    messages = fields["message_batch"]
    if fields["kind"] != "client":
        if not isinstance(messages, dict):
            raise ValueError("a stretch of a transcript is an object")
        return
    for one in cast("list[dict[str, Any]]", messages):
        ChatMessage(unescape(one["id"]), unescape(one["text"]), one["sender"], datetime.fromisoformat(one["timestamp"]))
    if [one["id"] for one in messages] != fields["message_ids"] or fields["message_count"] != len(messages):
        raise ValueError("message_ids and message_count are not those of the messages")


_CHECKS: Mapping[str, Callable[[dict[str, Any]], _Item | None]] = {"item": _item, "batch": _check_batch}


def _page(table: Table, rows: Mapping[int, Any]) -> _Page:
    if table.name != ITEMS.name:
        return _Page(table, [*rows], {"records": f"[{','.join(rows.values())}]"})
    records, *parallel = zip(*rows.values(), strict=True)
    names = ("contents", "contents_raw", "sizes", "content_types", "hashes")
    params = {"records": json.dumps(records), **dict(zip(names, map(list, parallel), strict=True))}
    return _Page(table, [*rows], params)


# --- the tables


async def _store(database: Database, report: ImportReport, columns: Sequence[Column], page: _Page) -> None:
    """Store missing rows in one transaction, and count."""
    table, lines, params = page
    steps = [
        *_QUERIES.each(table.before_insert, params),
        Statement(table.statement("insert_rows", columns), params),
        *_QUERIES.each(table.after_insert, params),
        _THREADS("insert_known_user", params),
        _ITEMS("upsert_pending_user", params),
    ]
    try:
        results = await database.write(report.user_id, *steps, agent_id=EVERY_AGENT, kind="batch")
    except StoreError as error:
        if isinstance(error.__cause__, _REFUSALS):
            said = error.__cause__.diag.message_primary or error
            raise TransferError(f"lines {lines[0]} to {lines[-1]}: the database refuses one: {said}") from error
        raise
    stored, different = int(results[len(table.before_insert)][0]["stored"]), list[str]()
    if stored < len(lines) and table.if_left_out:
        # only now: without statistics of a new user these read all rows of the user for each page
        checks = _QUERIES.each(table.if_left_out, params)
        found, *_ = await database.write(report.user_id, *checks, agent_id=EVERY_AGENT, kind="batch")
        different = [row["name"] for row in found]
    report.stored[table.record] += stored
    report.known[table.record] += len(lines) - stored - len(different)
    report.different.extend(different)
