"""What a user has in the store: counted, summed up, and forgotten by its keys.

Everything of one user counts, also what one of the user's agents keeps from the others: it is private to an agent, not
from the user.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import Any

from psycopg.rows import DictRow

from ...identifiers import SessionKey
from ..database import Database, only_user
from ..forget import forgetting
from ..items import SECRET_TYPE, ReadScope, scope_params
from ..pool import Statement
from ..sql import load_queries

__all__ = [
    "DaySum",
    "Forgettable",
    "KindSum",
    "SessionExtent",
    "Tombstone",
    "TranscriptInfo",
    "UserExtent",
    "UserStats",
]

_QUERIES = load_queries("user_stats")


@dataclass(frozen=True)
class KindSum:
    """Items of one type from one source that are not forgotten; private ones are read by one agent only."""

    memory_type: str
    source: str
    items: int
    content_bytes: int
    tokens: int
    private_items: int


@dataclass(frozen=True)
class DaySum:
    """Items of one day (UTC) that are not forgotten; fields as in `KindSum`."""

    stored_on: date
    items: int
    content_bytes: int
    tokens: int


@dataclass(frozen=True)
class Tombstone:
    """A forgotten item, without what it said; times are in UTC, ids are empty for none."""

    memory_key: str
    memory_type: str
    source: str
    agent_id: str
    session_id: str
    created_at: datetime
    forgotten_at: datetime


@dataclass(frozen=True)
class Forgettable:
    """An item that goes when keys are forgotten, as an agent sees it.

    Attributes:
        memory_key: Its key.
        description: One line that says what it is; nothing of a secret.
        memory_type: Its type.
        token_count: Tokens of its content.
        content_bytes: Bytes of its content in UTF-8.
        is_readable: Whether the agent may read it.
        is_writable: Whether the agent may forget it: its own of this session, or one that all agents share.
        version: Ids of the row and its content, and when it was stored last; changes when it is stored again.
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
    """Sessions of a user that were not deleted, messages in their transcripts, and chat messages."""

    sessions: int
    messages: int
    chats: int


@dataclass(frozen=True)
class SessionExtent:
    """What goes with a deleted session: its sub-agents' sessions, the items of all these, tokens of their contents."""

    subagent_sessions: int
    items: int
    tokens: int


@dataclass(frozen=True)
class TranscriptInfo:
    """One line of one agent's transcript in a session; `branch` is empty for the main line, times are in UTC."""

    agent_id: str
    branch: str
    batches: int
    messages: int
    archived_at: datetime


class UserStats:
    """What there is of each user; every method acts as one and raises `StoreError` if the database fails.

    Args:
        database: Where it is.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def only_user(self) -> tuple[int, str | None]:
        """Return 1 and the only user of the store; 0 and None if there is none, 2 and None if there are several."""
        return await only_user(self._database)

    async def scope(self, user_id: str) -> ReadScope:
        """Return the scope of the user: it reads all of their items that there are now, also what agents keep apart."""
        rows = await self._rows("select_keys_beside_private", user_id)
        return ReadScope(keys=tuple(row["memory_key"] for row in rows)) if rows else ReadScope()

    async def forgotten(self, user_id: str, *, session_id: str | None = None, limit: int = 50) -> list[Tombstone]:
        """Return the tombstones of forgotten items, those forgotten last first."""
        rows = await self._rows("select_forgotten", user_id, session_id=session_id, limit=limit)
        return [Tombstone(**_in_utc(row)) for row in rows]

    async def keys_beginning(self, user_id: str, beginning: str, limit: int) -> list[str]:
        """Return the keys of the user's items that begin with a text, in their order."""
        rows = await self._rows("select_keys_beginning", user_id, beginning=beginning, limit=limit)
        return [row["memory_key"] for row in rows]

    async def sessions_beginning(self, user_id: str, beginning: str, limit: int) -> list[str]:
        """Return the ids of the user's sessions that begin with a text, in their order."""
        rows = await self._rows("select_sessions_beginning", user_id, beginning=beginning, limit=limit)
        return [row["session_id"] for row in rows]

    async def keys_of_contents(self, user_id: str, memory_keys: Sequence[str]) -> list[str]:
        """Return the keys of all items that `forget` would take: those named and others with the same content."""
        rows = await self._rows("select_ids_of_contents", user_id, memory_keys=list(memory_keys))
        return [row["memory_key"] for row in rows]

    async def forget(self, user_id: str, memory_keys: Sequence[str]) -> list[str]:
        """Forget these items and all others with the same content, whichever agent stored them; return their keys.

        All in one transaction; each leaves a tombstone.
        """
        return await self._forget(
            user_id, await self._rows("select_ids_of_contents", user_id, memory_keys=list(memory_keys))
        )

    async def forgettable(
        self, user_id: str, memory_keys: Sequence[str], by: ReadScope, *, is_shared: bool
    ) -> list[Forgettable]:
        """Return what would go with these keys if an agent forgot them; keys that it may not read are left out.

        Args:
            user_id: Whose items.
            memory_keys: The keys.
            by: The agent.
            is_shared: Whether all of the user's agents read what it stores, so that it may forget what they share.
        """
        named = {"memory_keys": list(memory_keys), "is_shared": is_shared, **scope_params(by)}
        return [_forgettable(**row) for row in await self._rows("select_forgettable", user_id, **named)]

    async def forget_items(self, user_id: str, items: Sequence[Forgettable]) -> list[str]:
        """Forget exactly these items, in one transaction; return the keys of those that were still there."""
        return await self._forget(user_id, [{"id": one.version[0], "content_id": one.version[1]} for one in items])

    async def kinds(self, user_id: str, *, session_id: str | None = None) -> list[KindSum]:
        """Return how much is stored of each type and source, of one session or of all; the most tokens first."""
        return [KindSum(**row) for row in await self._rows("sum_items_by_kind", user_id, session_id=session_id)]

    async def days(self, user_id: str, limit: int) -> list[DaySum]:
        """Return how much was stored on each of the newest days on which anything was, the newest first."""
        return [DaySum(**row) for row in await self._rows("sum_items_by_day", user_id, limit=limit)]

    async def extent(self, user_id: str) -> UserExtent:
        """Return how many sessions a user has, and how much was said in them."""
        (row,) = await self._rows("fetch_user_extent", user_id)
        return UserExtent(**row)

    async def session_extent(self, user_id: str, session_id: str) -> SessionExtent:
        """Return what goes with a session when it is deleted, beside what was said in it."""
        (row,) = await self._rows("fetch_session_extent", user_id, session_id=session_id)
        return SessionExtent(**row)

    async def transcripts(self, user_id: str, session_id: str) -> list[TranscriptInfo]:
        """Return the transcripts of a session, line by line; the one that was archived in last, first."""
        rows = await self._rows("select_transcripts", user_id, session_id=session_id)
        return [TranscriptInfo(**_in_utc(row)) for row in rows]

    async def event_counts(self, key: SessionKey) -> dict[str, int]:
        """Return how many events of each kind an agent caused in a session."""
        rows = await self._rows("count_events", **key._asdict())
        return {row["kind"]: row["events"] for row in rows}

    async def _rows(self, name: str, user_id: str, **params: Any) -> list[DictRow]:
        statement = Statement(_QUERIES[name], {"user_id": user_id, **params})
        (rows,) = await self._database.read(user_id, statement)
        return rows

    async def _forget(self, user_id: str, rows: Sequence[DictRow]) -> list[str]:
        if not rows:
            return []
        *_, gone, _ = await self._database.write(user_id, *forgetting(user_id, rows))
        return [row["memory_key"] for row in gone]


def _in_utc(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: one.astimezone(timezone.utc) if isinstance(one, datetime) else one for name, one in row.items()}


def _forgettable(
    id: int, content_id: int, updated_at: datetime, summary: str, memory_type: str, **others: Any
) -> Forgettable:
    description = "a secret: not shown" if memory_type == SECRET_TYPE else summary
    version = (id, content_id, updated_at)
    return Forgettable(description=description, memory_type=memory_type, version=version, **others)
