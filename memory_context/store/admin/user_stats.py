"""Counts and bulk forgetting of a user's data, items private to one agent included."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.rows import DictRow

from memory_context.foundation.identifiers import SessionKey

from ..database import Database
from ..forget import forget_items
from ..items import SECRET_TYPE, ReadScope, scope_params
from ..sql import load_queries

__all__ = [
    "Forgettable",
    "KindSum",
    "SessionExtent",
    "TranscriptInfo",
    "UserExtent",
    "UserStats",
]

_QUERIES = load_queries("user_stats")
_USERS = load_queries("users")


@dataclass(frozen=True)
class KindSum:
    """Live items of one type and source."""

    memory_type: str
    source: str
    items: int
    content_bytes: int
    tokens: int
    private_items: int


@dataclass(frozen=True)
class Forgettable:
    """An item to be forgotten, as an agent sees it.

    Attributes:
        description: One line; nothing of a secret.
        is_writable: True if the agent may forget it: its own of this session, or a shared one.
        version: Row id, content id and time of storing.
    """

    memory_key: str
    description: str
    memory_type: str
    token_count: int
    content_bytes: int
    is_readable: bool
    is_writable: bool
    version: tuple[int, int, datetime]


@dataclass(frozen=True)
class UserExtent:
    """A user's sessions, messages and chat messages."""

    sessions: int
    messages: int
    chats: int


@dataclass(frozen=True)
class SessionExtent:
    """Data that goes with a deleted session."""

    subagent_sessions: int
    items: int
    tokens: int


@dataclass(frozen=True)
class TranscriptInfo:
    """A transcript of one agent; `branch` is empty for the main line."""

    agent_id: str
    branch: str
    batches: int
    messages: int
    archived_at: datetime


class UserStats:
    """Statistics of users."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def only_user(self) -> tuple[int, str | None]:
        """Return 1 and the only user; 0, or 2 for several, with None."""
        ((found,),) = await self._database.read(None, _USERS("fetch_only_user"))
        return found["users"], found["user_id"]

    async def scope(self, user_id: str) -> ReadScope:
        """Return a scope that reads everything, private items included."""
        rows = await self._rows("select_keys_beside_private", user_id)
        return ReadScope(keys=tuple(row["memory_key"] for row in rows)) if rows else ReadScope()

    async def keys_beginning(self, user_id: str, beginning: str, limit: int) -> list[str]:
        rows = await self._rows("select_keys_beginning", user_id, beginning=beginning, limit=limit)
        return [row["memory_key"] for row in rows]

    async def sessions_beginning(self, user_id: str, beginning: str, limit: int) -> list[str]:
        rows = await self._rows("select_sessions_beginning", user_id, beginning=beginning, limit=limit)
        return [row["session_id"] for row in rows]

    async def keys_of_contents(self, user_id: str, memory_keys: Sequence[str]) -> list[str]:
        """Return the keys that `forget` would take."""
        rows = await self._rows("select_ids_of_contents", user_id, memory_keys=list(memory_keys))
        return [row["memory_key"] for row in rows]

    async def forget(self, user_id: str, memory_keys: Sequence[str]) -> list[str]:
        """Forget these items and others with the same content, of any agent; return their keys."""
        rows = await self._rows("select_ids_of_contents", user_id, memory_keys=list(memory_keys))
        return await forget_items(self._database, user_id, rows)

    async def forgettable(
        self, user_id: str, memory_keys: Sequence[str], by: ReadScope, *, is_shared: bool
    ) -> list[Forgettable]:
        """Return the items that an agent would forget with these keys, without unreadable ones.

        `is_shared`: all of the user's agents read its items, so it may forget shared ones.
        """
        named = {"memory_keys": list(memory_keys), "is_shared": is_shared, **scope_params(by)}
        found: list[Forgettable] = []
        for row in await self._rows("select_forgettable", user_id, **named):
            version = row.pop("id"), row.pop("content_id"), row.pop("updated_at")
            summary = row.pop("summary")
            description = "a secret: not shown" if row["memory_type"] == SECRET_TYPE else summary
            found.append(Forgettable(description=description, version=version, **row))
        return found

    async def forget_items(self, user_id: str, items: Sequence[Forgettable]) -> list[str]:
        """Forget exactly these items; return the keys still found."""
        rows = [{"id": one.version[0], "content_id": one.version[1]} for one in items]
        return await forget_items(self._database, user_id, rows)

    async def kinds(self, user_id: str, *, session_id: str | None = None) -> list[KindSum]:
        return [KindSum(**row) for row in await self._rows("sum_items_by_kind", user_id, session_id=session_id)]

    async def extent(self, user_id: str) -> UserExtent:
        (row,) = await self._rows("fetch_user_extent", user_id)
        return UserExtent(**row)

    async def session_extent(self, user_id: str, session_id: str) -> SessionExtent:
        (row,) = await self._rows("fetch_session_extent", user_id, session_id=session_id)
        return SessionExtent(**row)

    async def transcripts(self, user_id: str, session_id: str) -> list[TranscriptInfo]:
        """Return transcripts, last archived first."""
        rows = await self._rows("select_transcripts", user_id, session_id=session_id)
        return [TranscriptInfo(**row) for row in rows]

    async def item_events(self, user_id: str, memory_key: str, limit: int = 100) -> list[DictRow]:
        """Return `at`, `kind`, `agent_id`, `session_id` and `detail` of what happened to an item, newest first."""
        return await self._rows("select_item_events", user_id, memory_key=memory_key, limit=limit)

    async def item_sessions(self, user_id: str, memory_keys: Sequence[str], limit: int = 100) -> list[DictRow]:
        """Return `session_id`, `agent_id`, `title` and `archived_at` of the transcripts that refer to items."""
        return await self._rows("select_item_sessions", user_id, memory_keys=list(memory_keys), limit=limit)

    async def jobs(self, user_id: str) -> list[DictRow]:
        """Return `kind`, `waiting`, `at_work` and `failed` of the user's jobs."""
        return await self._rows("sum_jobs_by_kind", user_id)

    async def event_counts(self, key: SessionKey) -> dict[str, int]:
        rows = await self._rows("count_events", **key._asdict())
        return {row["kind"]: row["events"] for row in rows}

    async def _rows(self, name: str, user_id: str, **params: Any) -> list[DictRow]:
        (rows,) = await self._database.read(user_id, _QUERIES(name, params))
        return rows
