"""Memories of many passages, filled in fast: what the indexer would have made, copied into its tables.

The passages are pieces of the standard library's source, so that words and their frequencies are real. What they are
found by is made by the package's own code (`index_item`, the default embedder); only the way into the tables is short:
COPY as the superuser, and the index of the embeddings made afterwards. An item has ten passages.
"""

import random
import sysconfig
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from pgvector import HalfVector
from psycopg import AsyncConnection

from memory_context.foundation.embeddings.embedder import embed_checked
from memory_context.foundation.embeddings.wordllama import WordLlamaEmbedder
from memory_context.store.search.indexer import model_of
from memory_context.store.search.postings import IndexedItem, index_item

__all__ = ["ITEM_PASSAGES", "Copy", "Filler", "new_content"]

ITEM_PASSAGES = 10
_PIECE = 500
_ITEMS_AT_ONCE = 50
_INDEXES = "SELECT indexname FROM pg_indexes WHERE schemaname = 'memory_context' AND indexdef LIKE '%USING hnsw%'"
_COLUMNS = {
    "agent_memory_contents": "user_id, id, content, content_bytes, content_sha256, beginning_sha256",
    "agent_memories": "user_id, id, memory_key, agent_id, session_id, memory_type, source, origin, summary, "
    "content_id, content_bytes, token_count, tags, content_metadata",
    "agent_memory_chunks": "user_id, content_id, chunk_number, start_char, end_char, start_line, end_line, text, "
    "text_sha256",
    "agent_memory_terms": "user_id, term, content_id, postings",
    "agent_memory_embeddings": "user_id, embedding_model, content_id, chunk_number, embedding",
}
_BY_ID = ("agent_memory_contents", "agent_memories")
_COPIED = {
    "agent_memory_contents": "INSERT INTO {table} (user_id, id, content, content_bytes, content_sha256, "
    "beginning_sha256) OVERRIDING SYSTEM VALUE "
    "SELECT copy.user_id, id + shift, content, content_bytes, sha256(content_sha256 || int8send(id + shift)), "
    "beginning_sha256 FROM copied JOIN copy ON id BETWEEN first AND last",
    "agent_memories": "INSERT INTO {table} (user_id, id, memory_key, agent_id, session_id, memory_type, source, "
    "origin, summary, content_id, content_bytes, token_count, tags, content_metadata) OVERRIDING SYSTEM VALUE "
    "SELECT copy.user_id, id + shift, 'custom_' || id + shift, agent_id, session_id, memory_type, source, origin, "
    "summary, content_id + shift, content_bytes, token_count, tags, content_metadata "
    "FROM copied JOIN copy ON id BETWEEN first AND last",
    "agent_memory_chunks": "INSERT INTO {table} (user_id, content_id, chunk_number, start_char, end_char, start_line, "
    "end_line, text, text_sha256) "
    "SELECT copy.user_id, content_id + shift, chunk_number, start_char, end_char, start_line, end_line, text, "
    "text_sha256 FROM copied JOIN copy ON content_id BETWEEN first AND last",
    "agent_memory_terms": "INSERT INTO {table} (user_id, term, content_id, postings) "
    "SELECT copy.user_id, term, content_id + shift, postings "
    "FROM copied JOIN copy ON content_id BETWEEN first AND last",
    "agent_memory_embeddings": "INSERT INTO {table} "
    "SELECT copy.user_id, one.embedding_model, one.content_id + shift, one.chunk_number, "
    "l2_normalize(one.embedding + other.embedding * array_fill(0.6::real, ARRAY[256])::halfvec) "
    "FROM copied AS one JOIN copy ON one.content_id BETWEEN first AND last "
    "JOIN copied AS other ON other.content_id = 1 + (one.content_id + shift) % {items} AND other.chunk_number = 0",
}
"""A copy has the texts of its source, and vectors of its own: each leans towards that of another passage."""

_CONSTRAINTS = """SELECT conname, conrelid::regclass::text, contype, pg_get_constraintdef(oid) FROM pg_constraint
WHERE contype IN ('p', 'u', 'f') AND conrelid = ANY(%s::regclass[]) ORDER BY contype = 'f' DESC"""
_DEFINITIONS = """SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index
WHERE indrelid = ANY(%s::regclass[]) AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)"""
_COUNTED = """INSERT INTO memory_context.agent_memory_statistics
SELECT user_id, count(*) FROM memory_context.agent_memory_chunks GROUP BY user_id
ON CONFLICT (user_id) DO UPDATE SET chunk_count = EXCLUDED.chunk_count"""


@dataclass(frozen=True)
class Copy:
    """Copies of so many items of the source, from the first on, for a user."""

    user_id: str
    first: int
    items: int


@cache
def _source() -> str:
    """Return the source of the standard library, without its tests: some 10 MB."""
    folder = Path(sysconfig.get_paths()["stdlib"])
    left_out = {"site-packages", "test", "tests", "idlelib", "__pycache__"}
    parts = [part for part in folder.iterdir() if part.name not in left_out]  # site-packages may have 20,000 files
    files = sorted(path for part in parts for path in ([part] if part.suffix == ".py" else part.rglob("*.py")))
    files = [path for path in files if left_out.isdisjoint(path.relative_to(folder).parts)]
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in files).replace("\0", "")


def new_content(rng: random.Random, passages: int) -> str:
    """Return a text that is cut into about so many passages, of pieces from anywhere: no two are alike."""
    source = _source()
    starts = (rng.randrange(len(source) - _PIECE) for _ in range(2 * passages))
    return "".join(f"{source[start : start + _PIECE]}\n" for start in starts)


class Filler:
    """Fills memories of one database.

    Args:
        connection: As the superuser, with autocommit.
    """

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection
        self._random = random.Random(20)
        self._embedder = WordLlamaEmbedder()
        self._counts: dict[str, int] = {}
        self._next_id = 1

    async def fill(self, user_id: str, passages: int) -> None:
        """Add items to a user's memory until it has so many passages."""
        await self._connection.execute("SET session_replication_role = replica")  # no checks of foreign keys
        while (missing := passages - self._counts.get(user_id, 0)) > 0:
            items: list[tuple[str, IndexedItem]] = []
            while missing > 0 and len(items) < _ITEMS_AT_ONCE:
                content = new_content(self._random, min(ITEM_PASSAGES, missing))
                item = index_item(self._next_id, content, ["custom", f"custom_{self._next_id}"])
                self._next_id += 1
                missing -= len(item.chunks)
                items.append((content, item))
            await self._copy(user_id, items)
            self._counts[user_id] = self._counts.get(user_id, 0) + sum(len(item.chunks) for _, item in items)
        await self._connection.execute(
            "INSERT INTO memory_context.agent_memory_statistics VALUES (%s, %s) "
            "ON CONFLICT (user_id) DO UPDATE SET chunk_count = EXCLUDED.chunk_count",
            [user_id, self._counts[user_id]],
        )
        await self._connection.execute("SET session_replication_role = origin")

    async def copy(self, source: str, copies: Sequence[Copy]) -> None:
        """Add copies of items of a filled user, all of whose items are the oldest."""
        await self._connection.execute("SET session_replication_role = replica")
        await self._connection.execute(
            "CREATE TEMPORARY TABLE copy (user_id text, first bigint, last bigint, shift bigint)"
        )
        for one in copies:
            values = [one.user_id, one.first, one.first + one.items - 1, self._next_id]
            await self._connection.execute("INSERT INTO copy VALUES (%s, %s, %s, %s)", values)
            self._next_id += one.first + one.items
        if len(copies) > 1:
            async with self._without_indexes():
                await self._copy_rows(source)
        else:
            await self._copy_rows(source)
        await self._connection.execute(_COUNTED)
        await self._connection.execute("DROP TABLE copy")
        await self._connection.execute("SET session_replication_role = origin")

    async def _copy_rows(self, source: str) -> None:
        items = self._counts[source] // ITEM_PASSAGES
        for name, statement in _COPIED.items():
            table, column = f"memory_context.{name}", "id" if name in _BY_ID else "content_id"
            of_source = f"SELECT * FROM {table} WHERE user_id = '{source}' AND {column} <= {items}"
            await self._connection.execute(f"CREATE TEMPORARY TABLE copied AS {of_source}")
            await self._connection.execute(f"CREATE INDEX ON copied ({column})")
            await self._connection.execute("ANALYZE copied")
            await self._connection.execute(statement.format(table=table, items=items))
            await self._connection.execute("DROP TABLE copied")

    @asynccontextmanager
    async def _without_indexes(self) -> AsyncIterator[None]:
        """Drop all indexes for this block: a million passages have some ninety million terms."""
        tables = [f"memory_context.{name}" for name in _COPIED]
        constraints = await (await self._connection.execute(_CONSTRAINTS, [tables])).fetchall()
        indexes = await (await self._connection.execute(_DEFINITIONS, [tables])).fetchall()
        for name, table, *_ in constraints:
            await self._connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name} CASCADE")
        for name, _ in indexes:
            await self._connection.execute(f"DROP INDEX {name}")
        yield
        for name, table, kind, definition in reversed(constraints):
            lazily = " NOT VALID" if kind == "f" else ""
            await self._connection.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}{lazily}")
        for _, definition in indexes:
            await self._connection.execute(definition)

    async def drop_index(self) -> None:
        """Drop the index of the embeddings, as copying goes faster without it."""
        await self._connection.execute("SET maintenance_work_mem = '3GB'")  # a million vectors of 256 and their graph
        for (name,) in await (await self._connection.execute(_INDEXES)).fetchall():
            await self._connection.execute(f"DROP INDEX memory_context.{name}")

    async def make_index(self) -> None:
        """Make the index of the embeddings, and let the planner know what the tables hold."""
        await self._connection.execute(
            "SELECT memory_context.ensure_embedding_index(%s, %s)",
            [model_of(self._embedder), self._embedder.dimensions],
        )
        await self._connection.execute("VACUUM ANALYZE")

    async def _copy(self, user_id: str, items: Sequence[tuple[str, IndexedItem]]) -> None:
        chunks = [(item.memory_id, chunk) for _, item in items for chunk in item.chunks]
        vectors = await embed_checked(self._embedder, [chunk.text for _, chunk in chunks], "document")
        model = model_of(self._embedder)
        await self._write(
            "agent_memory_contents", (_content_row(user_id, item.memory_id, content) for content, item in items)
        )
        await self._write("agent_memories", (_item_row(user_id, item.memory_id, content) for content, item in items))
        await self._write(
            "agent_memory_chunks",
            (
                (
                    user_id,
                    of,
                    one.number,
                    one.start_char,
                    one.end_char,
                    one.start_line,
                    one.end_line,
                    one.text,
                    sha256(one.text.encode()).digest(),
                )
                for of, one in chunks
            ),
        )
        await self._write(
            "agent_memory_terms",
            (
                (user_id, term, item.memory_id, list(map(int, postings[:-1].split(b","))))
                for _, item in items
                for term, postings in sorted(item.postings.items())
            ),
        )
        await self._write(
            "agent_memory_embeddings",
            (
                (user_id, model, memory_id, chunk.number, HalfVector(vector).to_text())
                for (memory_id, chunk), vector in zip(chunks, vectors, strict=True)
                if vector is not None
            ),
        )

    async def _write(self, table: str, rows: Iterable[Sequence[Any]]) -> None:
        async with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY memory_context.{table} ({_COLUMNS[table]}) FROM STDIN") as copy,
        ):
            for row in rows:
                await copy.write_row(row)


def _content_row(user_id: str, content_id: int, content: str) -> tuple[Any, ...]:
    data = content.encode()
    content_sha256 = sha256(data + content_id.to_bytes(8, "big")).digest()
    return (user_id, content_id, content, len(data), content_sha256, sha256(content[:2000].encode()).digest())


def _item_row(user_id: str, memory_id: int, content: str) -> tuple[Any, ...]:
    key = f"custom_{memory_id}"
    size = len(content.encode())
    return (user_id, memory_id, key, "", "", "custom", "custom", "tool", key, memory_id, size, 0, [], "{}")
