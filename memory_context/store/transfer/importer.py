"""Imports an exported file, read twice: validated and compared with the store, then stored a page per transaction.

Invalid or conflicting files change nothing. Existing rows are never changed, so imports are idempotent.
"""

import asyncio
import base64
import hashlib
import hmac
import json
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import IO, Any, Literal, cast

from memory_context.foundation.errors import ConflictError
from memory_context.foundation.utf8 import ESCAPE, is_plain, to_utf8, unescape

from ..database import EVERY_AGENT, Database
from ..items import imported_origin
from ..sql import Statement, load_queries
from ..statements import without_claims
from ..tables import ITEMS, TABLES, Column, Table, columns_of
from .exporter import end_line
from .records import END, Line, Models, TransferError, item_content, models_of, read_header, read_line

__all__ = ["ImportReport", "ReadLines", "bounded_lines", "import_lines"]

_QUERIES = load_queries("transfer")
_ITEMS = load_queries("agent_memories")
_THREADS = load_queries("threads")

LINE_LIMIT_BYTES = 400_000_000  # earlier versions exported items of up to 256 MiB, in Base64
_PIECE_BYTES = 1_000_000
PAGE_ROWS = 500
PAGE_BYTES = 4_000_000
_CONFLICTS_SHOWN = 3
_CONTENT_FIELDS = ("content", "content_base64", "content_type")

ReadLines = Callable[[], Iterable[bytes]]
"""Reads a file from its beginning."""


def bounded_lines(file: IO[bytes], first: int = 1) -> Iterator[bytes]:
    """Yield the lines of a file; `TransferError` if one is too long."""
    number, pieces, octets = first, list[bytes](), 0
    while piece := file.readline(_PIECE_BYTES):
        pieces.append(piece)
        octets += len(piece)
        if octets > LINE_LIMIT_BYTES:
            raise TransferError(
                f"line {number}: longer than {LINE_LIMIT_BYTES:,} bytes, which no item needs: the file is damaged"
            )
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
        kept: Deleted on one side, or another user's; the row here stays.
        origins: How origins were taken: "signed" here for this user, "trusted" by the caller, or "lowered".
    """

    user_id: str
    stored: Mapping[str, int]
    known: Mapping[str, int]
    kept: Mapping[str, int]
    origins: Literal["signed", "trusted", "lowered"] = "lowered"


async def import_lines(
    database: Database, read: ReadLines, user_id: str | None, *, only_check: bool, trust_origins: bool
) -> ImportReport:
    """Import a file, or report the effect; see `StoreAdmin.import_lines`."""
    whose = unescape(read_header(next(iter(read()), b"")).user)
    user_id = user_id or whose
    is_signed = user_id == whose and await _is_signed(database, user_id, read)  # another user's origins do not count
    keeps_origins = trust_origins or is_signed
    columns = columns_of(
        (await database.read(user_id, _QUERIES("select_columns", names=[table.name for table in TABLES])))[0]
    )
    models = models_of(columns)
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    conflicts: list[str] = []
    async with aclosing(_pages(_File(read, keeps_origins, models))) as pages:
        async for table, lines in pages:
            found = await _compare(database, user_id, table, columns[table.name], lines)
            conflicts += _conflicts(lines, found)
            outcomes[table.record].update(outcome for outcome, _ in found.values())
            outcomes[table.record]["stored"] += len(lines) - len(found)
    if conflicts:
        more = len(conflicts) - _CONFLICTS_SHOWN
        raise TransferError("; ".join(conflicts[:_CONFLICTS_SHOWN]) + (f"; and {more} more" if more > 0 else ""))
    stored = {record: counts["stored"] for record, counts in outcomes.items()}
    known = {record: counts["known"] for record, counts in outcomes.items()}
    if not only_check:
        stored = dict.fromkeys(stored, 0)
        async with aclosing(_pages(_File(read, keeps_origins, models))) as pages:
            async for table, lines in pages:
                stored[table.record] += await _store(database, user_id, table, columns[table.name], lines)
    kept = {record: counts.total() - stored[record] - known[record] for record, counts in outcomes.items()}
    return ImportReport(
        user_id, stored, known, kept, "signed" if is_signed else "trusted" if trust_origins else "lowered"
    )


# --- the file


async def _is_signed(database: Database, user_id: str, read: ReadLines) -> bool:
    """Return whether this installation wrote exactly this file."""
    found = await asyncio.to_thread(_signature, read)
    if found is None:
        return False
    file_sha256, signature = found
    ((row,),) = await database.read(user_id, _QUERIES("fetch_export_signature", file_sha256=file_sha256))
    return hmac.compare_digest(bytes(row["signature"]).hex(), signature)


def _signature(read: ReadLines) -> tuple[bytes, str] | None:
    """Return the hash of the unsigned file and the signature, if any."""
    digest, last = hashlib.sha256(), b""
    for data in read():
        digest.update(last)
        last = data
    try:
        end = json.loads(last)
        if end["record"] != END or not isinstance(end["signature"], str) or not end["signature"].isascii():
            return None
        digest.update(end_line(end["records"]))
    except (ValueError, LookupError, TypeError, RecursionError):
        return None  # line validation reports it
    return digest.digest(), end["signature"]


class _File:
    """The lines of a file, in pages of one table each."""

    def __init__(self, read: ReadLines, trust_origins: bool, models: Models) -> None:
        self._trust_origins = trust_origins
        self._models = models
        self._lines = iter(read())
        read_header(next(self._lines, b""))
        self._parents: dict[str, set[Any]] = {table.parent: set() for table in TABLES if table.parent}
        self._records = {table.name: table.record for table in TABLES}

    def pages(self) -> Iterator[tuple[Table, list[Line]]]:
        page: list[Line] = []
        page_bytes = 0
        for line, octets in self._checked():
            assert line.table is not None
            is_full = len(page) >= PAGE_ROWS or page_bytes + octets > PAGE_BYTES
            if page and (is_full or line.table is not page[0].table):
                yield cast(Table, page[0].table), page
                page, page_bytes = [], 0
            page.append(line)
            page_bytes += octets
            del line  # free it before the next is read
        if page:
            yield cast(Table, page[0].table), page

    def _checked(self) -> Iterator[tuple[Line, int]]:
        records: Counter[str] = Counter()
        has_ended = False
        number = 1
        for number, data in enumerate(self._lines, 2):
            if has_ended:
                raise TransferError(f"line {number}: something comes after the last line")
            octets = len(data)
            if octets > LINE_LIMIT_BYTES:
                raise TransferError(f"line {number}: longer than {LINE_LIMIT_BYTES:,} bytes")
            line = read_line(number, data, self._models)
            del data
            if line.table is None:
                has_ended = True
                if Counter(line.fields["records"]) != records:
                    said, found = Counter(line.fields["records"]).total(), records.total()
                    raise TransferError(f"line {number}: there should be {said} records before it, there are {found}")
                continue
            table = line.table
            if table is ITEMS:
                origin = imported_origin({"origin": None, **line.fields}, is_trusted=self._trust_origins)
                fields = {**line.fields, "origin": origin}
                line = replace(line, fields=fields if self._trust_origins else without_claims(fields))
            records[table.record] += 1
            self._check_parent(line, table)
            yield line, octets
            del line
        if not has_ended:
            raise TransferError(f"the file is cut off after line {number}: its last line is missing")

    def _check_parent(self, line: Line, table: Table) -> None:
        if table.parent and table.session:
            parent = line.fields[table.session]
            if parent is not None and parent not in self._parents[table.parent]:
                raise TransferError(f"line {line.number}: no {self._records[table.parent]} {parent!r} comes before it")
        if table.name in self._parents and table.session:
            self._parents[table.name].add(line.fields[table.session])


async def _pages(file: _File) -> AsyncGenerator[tuple[Table, list[Line]], None]:
    pages = file.pages()
    while (page := await asyncio.to_thread(next, pages, None)) is not None:
        yield page
        del page


# --- the tables


async def _compare(
    database: Database, user_id: str, table: Table, columns: Sequence[Column], lines: Sequence[Line]
) -> dict[int, tuple[str, str]]:
    """Return the outcome of existing lines, by place, with a conflicting key."""
    given = [
        {"place": place, **{name: line.fields[name] for name in table.compared}} for place, line in enumerate(lines)
    ]
    params = {"records": json.dumps(given)}
    comparison = Statement(table.statement("compare_rows", columns), params)
    (rows,) = await database.read(user_id, comparison, agent_id=EVERY_AGENT, kind="batch")
    found: dict[int, tuple[str, str]] = {}
    for row in rows:
        if found.get(row["place"], ("",))[0] != "taken":
            found[row["place"]] = (row["outcome"], row.get("other_key", ""))
    return found


def _conflicts(lines: Sequence[Line], found: Mapping[int, tuple[str, str]]) -> list[str]:
    said: list[str] = []
    for place, (outcome, other_key) in sorted(found.items()):
        line = lines[place]
        if outcome == "elsewhere":
            key = unescape(line.fields["memory_key"])
            said.append(f"line {line.number}: what it holds as {key!r} is there already as {other_key!r}")
        elif outcome == "taken" and line.table is ITEMS:
            key = unescape(line.fields["memory_key"])
            said.append(f"line {line.number}: the key {key!r} is taken by another item")
        elif outcome == "taken":
            names = [str(line.fields[name]) for name in ("session_id", "sequence") if name in line.fields]
            said.append(f"line {line.number}: another {line.fields['record']} is there as {' / '.join(names)}")
    return said


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
    stored = int(results[len(before)][0]["stored"])
    if stored == len(lines):
        return stored
    if conflicts := _conflicts(lines, await _compare(database, user_id, table, columns, lines)):
        raise ConflictError(f"{conflicts[0]}, since the import began; what came before stays: import it again")
    return stored


def _params_of(table: Table, lines: Sequence[Line]) -> dict[str, Any]:
    if table is not ITEMS:
        return {"records": f"[{','.join(line.text for line in lines)}]"}
    contents: list[str | None] = []
    raw: list[bytes | None] = []
    sizes: list[int] = []
    content_types: list[str | None] = []
    records: list[dict[str, Any]] = []
    for place, line in enumerate(lines, 1):
        records.append(
            {"place": place, **{name: value for name, value in line.fields.items() if name not in _CONTENT_FIELDS}}
        )
        given = line.fields["content"], line.fields.get("content_base64")
        content_types.append(line.fields.get("content_type"))
        if content_types[-1]:
            contents.append(None)
            raw.append(base64.b64decode(given[1] or ""))
            sizes.append(len(raw[-1] or b""))
            continue
        content = None if given == (None, None) else item_content(*given)
        data = b"" if content is None else to_utf8(content)
        is_text = content is None or (is_plain(content) and ESCAPE not in content)
        contents.append(content if is_text else None)
        raw.append(None if is_text else data)
        sizes.append(len(data))
    parallel = {"contents": contents, "contents_raw": raw, "sizes": sizes, "content_types": content_types}
    return {"records": json.dumps(records), **parallel}
