"""Exports rows of a user or session from one snapshot, in bounded memory: pages are limited by rows and bytes."""

import base64
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from datetime import datetime, timezone
from importlib.metadata import version
from typing import Any

from psycopg.rows import DictRow

from memory_context.foundation.patterns import regex
from memory_context.foundation.utf8 import escape, escape_json, to_utf8, unescape

from ..connection import Connection, dedicated, driver_errors
from ..database import EVERY_AGENT, Database
from ..items import checked_content
from ..sql import load_migrations, load_queries
from ..tables import ITEMS, TABLES, Column, Table, columns_of
from . import END, FORMAT, FORMAT_VERSION

__all__ = ["export_lines"]

_QUERIES = load_queries("transfer")
_TRANSACTIONS = load_queries("transactions")

PAGE_ROWS = 500
PAGE_BYTES = 4_000_000
PAGE_PACKED_BYTES = 500_000  # compressed, to a tenth and less
LONG_CHARACTERS = 1_000_000
_NOT_ASCII = regex(r"[^\x00-\x7f]+")


async def export_lines(
    database: Database, user_id: str, session_id: str | None, progress: Callable[[int, int | None], None] | None
) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a file; nothing if the user has no rows. After a `StoreError` the file is incomplete."""
    where = database.location.where
    _, login = await database.ready()
    with driver_errors(where):
        async with dedicated(login, database.limits.opening_seconds) as connection:
            connection.allow(database.limits.batch_seconds)
            scope = {"user_id": user_id, "session_id": session_id}
            await connection.fetch(_TRANSACTIONS["begin_snapshot"], binary=True)
            await connection.fetch(_TRANSACTIONS["act_as"], {**scope, "agent_id": EVERY_AGENT}, binary=True)
            await connection.fetch(_QUERIES["set_transfer_scope"], binary=True)
            names = {"names": [table.name for table in TABLES]}
            columns = columns_of(await connection.fetch(_QUERIES["select_columns"], names, binary=True))
            total = None
            if session_id is None:
                counts = [await connection.fetch(table.statement("count_rows"), scope, binary=True) for table in TABLES]
                total = sum(row["rows"] for (row,) in counts)
            done = 0
            written = {table.record: 0 for table in TABLES}
            for table in TABLES:
                seconds = database.limits.batch_seconds
                async with aclosing(_rows(connection, table, columns[table.name], scope, seconds)) as rows:
                    async for row in rows:
                        if not done:
                            yield _header(scope)
                        yield _row(table, row)
                        done += 1
                        written[table.record] += 1
                        if progress is not None:
                            progress(done, total)
            if done:
                yield _line({"record": END, "records": written})


async def _rows(
    connection: Connection, table: Table, columns: Sequence[Column], scope: dict[str, Any], seconds: float
) -> AsyncGenerator[DictRow, None]:
    params = {
        **scope,
        **table.start,
        "limit": PAGE_ROWS,
        "bytes_limit": PAGE_BYTES,
        "packed_bytes_limit": PAGE_PACKED_BYTES,
    }
    query = table.statement("select_page", columns)
    while True:
        connection.allow(seconds)  # for each page: many take longer, and so may a reader between them
        rows = await connection.fetch(query, params, binary=True)
        if not rows:
            return
        params |= {name: value for name, value in rows[-1].items() if name in table.start}
        while rows:  # free each before the next page
            yield rows.pop(0)


def _header(scope: dict[str, Any]) -> bytes:
    return _line(
        {
            "format": FORMAT,
            "version": FORMAT_VERSION,
            "library": version("memory-context"),
            "schema_version": load_migrations()[-1].version,
            "user": escape(scope["user_id"]),
            "session": escape_json(scope["session_id"]),
            "exported_at": datetime.now(timezone.utc).isoformat(),
        }
    )


def _row(table: Table, row: DictRow) -> bytes:
    record: str = row["record"]
    if not record.isascii():
        record = _NOT_ASCII.sub(lambda found: json.dumps(found[0])[1:-1], record)  # only in strings
    head = f'{{"record":"{table.record}",{record[1:]}'
    if table.name != ITEMS.name:
        return f"{head}\n".encode("ascii")
    head, in_base64 = head[:-1], b""
    text = b"null"
    if row["is_active"]:
        fields: dict[str, Any] = json.loads(record)
        content = checked_content(unescape(fields["memory_key"]), row, bytes.fromhex(fields["content_sha256"]))
        data = bytes(row["content_raw"]) if row["content_type"] else to_utf8(content)
        if not row["content_type"]:
            text = json.dumps(escape(content)).encode("ascii")
        # escapes can make a text six times as long, and a line has a limit
        if row["content_type"] or (len(content) > LONG_CHARACTERS and len(text) > len(data) * 4 / 3):
            text, in_base64 = b"null", b',"content_base64":"' + base64.b64encode(data) + b'"'
    return b'%s,"content":%s%s}\n' % (head.encode("ascii"), text, in_base64)


def _line(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"
