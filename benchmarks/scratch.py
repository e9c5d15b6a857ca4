"""Databases for measuring: one that is gone afterwards, one that is never to be touched, and rows written by hand.

The server is the one users get, with its settings as they are (fsync on), so that commits cost what they cost.
"""

import asyncio
import hashlib
import tempfile
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import psutil
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.json import Jsonb

from memory_context import StoreUnavailableError
from memory_context.store import embedded
from memory_context.store.memory_store import MemoryStore

__all__ = ["RawTable", "UntouchedStore", "processor_seconds", "scratch_store"]

_CREATE = """
    CREATE TABLE public.raw_memories (
        LIKE memory_context.agent_memories INCLUDING ALL, content text, content_raw bytea, content_sha256 bytea
    );
    ALTER TABLE public.raw_memories DROP CONSTRAINT agent_memories_one_content, ALTER origin SET DEFAULT 'tool';
"""
_COLUMNS = (
    "user_id, memory_key, agent_id, session_id, memory_type, source, summary, content, content_raw, content_bytes, "
    "token_count, content_sha256, tags, related_to, content_metadata"
)


@asynccontextmanager
async def scratch_store() -> AsyncIterator[tuple[MemoryStore, str]]:
    """Yield an open store of an empty database, and the superuser's address of that database."""
    folder = Path(tempfile.mkdtemp(prefix="mc-bench-", dir="/tmp"))  # sockets need a short path
    try:
        url = make_conninfo(**await asyncio.to_thread(embedded.start, folder))
        async with MemoryStore(url) as store:
            yield store, url
    finally:
        await asyncio.to_thread(embedded.remove, folder)


def processor_seconds(url: str) -> float:
    """Return the processor time so far of this process and of the embedded server at an address.

    That of a connection's server process is lost when the connection closes, so keep them open in between.
    """
    pid_file = Path(str(conninfo_to_dict(url)["host"])) / "postmaster.pid"
    server = psutil.Process(int(pid_file.read_text(encoding="utf-8").split()[0]))
    times = [process.cpu_times() for process in (psutil.Process(), *server.children())]
    return sum(one.user + one.system for one in times)


class UntouchedStore(MemoryStore):
    """A store without a database that counts the attempts to reach it."""

    def __init__(self) -> None:
        super().__init__("postgresql://nobody@127.0.0.1:1/nowhere")
        self.accesses = 0
        self._database.ready = self._refuse  # type: ignore[method-assign]

    async def _refuse(self) -> NoReturn:
        self.accesses += 1
        raise StoreUnavailableError("the store was touched")


class RawTable:
    """A table of the same shape as the items', written by psycopg alone: the least that storing a row costs.

    Four statements in one pipeline, as the store does: BEGIN, a setting like `act_as`, INSERT, COMMIT.
    """

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self._connection = connection
        self._insert = (
            f"INSERT INTO public.raw_memories ({_COLUMNS}) VALUES "
            f"({', '.join(f'%({name})s' for name in _COLUMNS.split(', '))})"
        )

    @classmethod
    @asynccontextmanager
    async def open(cls, url: str) -> AsyncIterator["RawTable"]:
        """Create the table in this database and yield it."""
        async with await AsyncConnection.connect(url, autocommit=True, prepare_threshold=None) as connection:
            await connection.execute(_CREATE)
            yield cls(connection)

    @staticmethod
    def row(content: str) -> dict[str, Any]:
        """Return a row for a content; made before the clock runs."""
        data = content.encode()
        return {
            "user_id": "micro",
            "memory_key": f"tail_{uuid.uuid4().hex}",
            "agent_id": "agent",
            "session_id": "session",
            "memory_type": "action_result",
            "source": "tail",
            "summary": "lines=500, 400 lines",
            "content": content,
            "content_raw": None,
            "content_bytes": len(data),
            "token_count": len(data) // 4,
            "content_sha256": hashlib.sha256(data).digest(),
            "tags": [],
            "related_to": [],
            "content_metadata": Jsonb({"message": 3, "part": "result", "call_id": "call", "is_error": False}),
        }

    async def insert(self, row: Mapping[str, Any]) -> None:
        """Insert a row and commit."""
        async with self._connection.pipeline():
            await self._connection.execute("BEGIN READ WRITE")
            await self._connection.execute("SELECT set_config('memory_context.user_id', %s, true)", [row["user_id"]])
            await self._connection.execute(self._insert, row)
            await self._connection.execute("COMMIT")
