"""Imports an exported file in one pass: each page of lines is checked, compared and stored before the next is read.

Existing rows are never changed, so an import can be repeated: after an interruption, or once a damaged file is mended.
"""

import asyncio
import base64
import json
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import IO, Any

from memory_context.foundation.utf8 import ESCAPE, is_plain, to_utf8, unescape

from ..database import EVERY_AGENT, Database
from ..items import SECRET_TYPE, imported_origin
from ..sql import Statement, load_queries
from ..statements import without_claims
from ..tables import ITEMS, TABLES, Column, Table, columns_of
from .records import Line, Models, TransferError, item_content, models_of, read_header, read_line

__all__ = ["ImportReport", "bounded_lines", "import_lines"]

_QUERIES = load_queries("transfer")
_ITEMS = load_queries("agent_memories")
_THREADS = load_queries("threads")

LINE_LIMIT_BYTES = 400_000_000  # earlier versions exported items of up to 256 MiB, in Base64
_PIECE_BYTES = 1_000_000
PAGE_ROWS = 500
PAGE_BYTES = 4_000_000
_NAMED = 100
_DIFFERENT = ("taken", "elsewhere")
_CONTENT_FIELDS = ("content", "content_base64", "content_type")


def bounded_lines(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file; `TransferError` if one is too long."""
    number, pieces, octets = 1, list[bytes](), 0
    while piece := file.readline(_PIECE_BYTES):
        pieces.append(piece)
        octets += len(piece)
        # the first line of a file that is no export may be all there is
        if octets > (_PIECE_BYTES if number == 1 else LINE_LIMIT_BYTES):
            raise TransferError(f"line {number}: longer than {octets - len(piece):,} bytes: the file is damaged")
        if piece.endswith(b"\n"):
            yield b"".join(pieces)
            pieces.clear()
            number, octets = number + 1, 0
    if pieces:
        yield b"".join(pieces)


@dataclass(frozen=True)
class ImportReport:
    """Counts of imported records, by kind.

    Attributes:
        known: Existed already.
        kept: Forgotten or deleted on one side, or another user's; the row here stays.
        different: Left out, since another row has their place, or their content has another key.
        names: The first of those that differ.
        secrets: Items of type `user_secret`, which earlier versions exported in clear: left out.
    """

    user_id: str
    stored: Counter[str] = field(default_factory=Counter[str])
    known: Counter[str] = field(default_factory=Counter[str])
    kept: Counter[str] = field(default_factory=Counter[str])
    different: Counter[str] = field(default_factory=Counter[str])
    names: list[str] = field(default_factory=list[str])
    secrets: list[str] = field(default_factory=list[str])


async def import_lines(
    database: Database, lines: Iterable[bytes], user_id: str | None, *, only_check: bool
) -> ImportReport:
    """Import a file, or report the effect; see `StoreAdmin.import_lines`."""
    rest = iter(lines)
    header = read_header(await asyncio.to_thread(next, rest, b""))
    report = ImportReport(user_id or unescape(header.user))
    names = [table.name for table in TABLES]
    columns = columns_of((await database.read(report.user_id, _QUERIES("select_columns", names=names)))[0])
    async with aclosing(_pages(_checked(rest, models_of(columns), report.secrets))) as pages:
        async for table, page in pages:
            found = await _compare(database, report.user_id, table, columns[table.name], page)
            kinds = Counter(kind for kind, _ in found.values())
            report.known[table.record] += kinds["known"]
            report.different[table.record] += sum(kinds[kind] for kind in _DIFFERENT)
            stored = len(page) - len(found)
            if not only_check:
                stored = await _store(database, report.user_id, table, columns[table.name], page)
            report.stored[table.record] += stored
            report.kept[table.record] += len(page) - stored - len(found) + kinds["kept"]
            for place, (kind, other_key) in sorted(found.items()):
                if kind in _DIFFERENT and len(report.names) < _NAMED:
                    report.names.append(_name(page[place], other_key))
    return report


def _name(line: Line, other_key: str) -> str:
    if line.table is not ITEMS:
        places = [str(line.fields[name]) for name in ("session_id", "sequence", "agent_id") if name in line.fields]
        return f"{line.fields['record']} {' / '.join(places)}"
    key = unescape(line.fields["memory_key"])
    return f"{key} (its content is here as {other_key})" if other_key else key


# --- the file


def _checked(lines: Iterator[bytes], models: Models, secrets: list[str]) -> Iterator[Line]:
    """Yield the lines after the first; raises TransferError for one that is damaged, and for a file that is cut off."""
    records: Counter[str] = Counter()
    parents: dict[str, set[Any]] = defaultdict(set)
    kinds = {table.name: table.record for table in TABLES}
    number = 1
    for number, data in enumerate(lines, 2):
        line = read_line(number, data, models)
        del data
        table = line.table
        if table is None:
            if Counter(line.fields["records"]) != records:
                said, found = Counter(line.fields["records"]).total(), records.total()
                raise TransferError(f"line {number}: there should be {said} records before it, there are {found}")
            if next(lines, None) is not None:
                raise TransferError(f"line {number + 1}: something comes after the last line")
            return
        records[table.record] += 1
        if table is ITEMS:
            if line.fields["is_active"] and line.fields["memory_type"] == SECRET_TYPE:
                secrets.append(unescape(line.fields["memory_key"]))
                continue
            origin = imported_origin({"origin": None, **line.fields})
            line = replace(line, fields=without_claims({**line.fields, "origin": origin}))
        if table.session:
            owner = line.fields[table.session]
            if table.parent and owner is not None and owner not in parents[table.parent]:
                raise TransferError(f"line {number}: no {kinds[table.parent]} {owner!r} comes before it")
            if table.name in ("agent_sessions", "ui_threads"):
                parents[table.name].add(owner)
        yield line
        del line  # free it before the next is read
    raise TransferError(f"the file is cut off after line {number}: its last line is missing")


async def _pages(lines: Iterator[Line]) -> AsyncGenerator[tuple[Table, list[Line]], None]:
    """Yield pages of lines of one table each."""

    def pages() -> Iterator[tuple[Table, list[Line]]]:
        page: list[Line] = []
        page_bytes = 0
        for line in lines:
            assert line.table is not None
            is_full = len(page) >= PAGE_ROWS or page_bytes + line.octets > PAGE_BYTES
            if page and (is_full or line.table is not page[0].table):
                assert page[0].table is not None
                yield page[0].table, page
                page, page_bytes = [], 0
            page.append(line)
            page_bytes += line.octets
            del line
        if page and page[0].table is not None:
            yield page[0].table, page

    found = pages()
    while (page := await asyncio.to_thread(next, found, None)) is not None:
        yield page
        del page


# --- the tables


async def _compare(
    database: Database, user_id: str, table: Table, columns: Sequence[Column], lines: Sequence[Line]
) -> dict[int, tuple[str, str]]:
    """Return the outcome of lines that are not to be stored, by place, with another key of the same content."""
    given = [
        {"place": place, **{name: line.fields[name] for name in table.compared}} for place, line in enumerate(lines)
    ]
    params = {"records": json.dumps(given)}
    comparison = Statement(table.statement("compare_rows", columns), params)
    (rows,) = await database.read(user_id, comparison, agent_id=EVERY_AGENT, kind="batch")
    found: dict[int, tuple[str, str]] = {}
    for row in rows:
        if found.get(row["place"], ("",))[0] not in ("taken", "known", "kept"):
            found[row["place"]] = (row["outcome"], row.get("other_key", ""))
    return found


async def _store(
    database: Database, user_id: str, table: Table, columns: Sequence[Column], lines: Sequence[Line]
) -> int:
    """Store missing rows in one transaction; return their number."""
    params = await asyncio.to_thread(_params_of, table, lines)
    finish = _ITEMS("upsert_pending_user", params)
    listed = _THREADS("insert_known_user", params)
    before = _QUERIES.each(table.before_insert, params)
    insert = Statement(table.statement("insert_rows", columns), params)
    after = _QUERIES.each(table.after_insert, params)
    steps = (*before, insert, *after, listed, finish)
    results = await database.write(user_id, *steps, agent_id=EVERY_AGENT, kind="batch")
    return int(results[len(before)][0]["stored"])


def _params_of(table: Table, lines: Sequence[Line]) -> dict[str, Any]:
    if table is not ITEMS:
        return {"records": f"[{','.join(line.text for line in lines)}]"}
    contents: list[str | None] = []
    raw: list[bytes | None] = []
    sizes: list[int] = []
    records: list[dict[str, Any]] = []
    for place, line in enumerate(lines, 1):
        fields: Mapping[str, Any] = line.fields
        records.append({"place": place, **{name: one for name, one in fields.items() if name not in _CONTENT_FIELDS}})
        content, data = None, b""
        if fields.get("content_type"):
            data = base64.b64decode(fields["content_base64"])
        elif fields["is_active"]:
            content = item_content(fields["content"], fields.get("content_base64"))
            data = to_utf8(content)
        is_text = not fields.get("content_type") and (content is None or (is_plain(content) and ESCAPE not in content))
        contents.append(content if is_text else None)
        raw.append(None if is_text else data)
        sizes.append(len(data))
    types = [line.fields.get("content_type") for line in lines]
    parallel = {"contents": contents, "contents_raw": raw, "sizes": sizes, "content_types": types}
    return {"records": json.dumps(records), **parallel}
