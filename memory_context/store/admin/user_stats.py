"""What there is in the store, for whoever looks after it: counted, summed up, and forgotten by its keys.

Promise: everything of one user counts, also what one of the user's agents keeps from the others. It is private to an
agent, not from the user; whoever asks here is the user, or acts for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone

from psycopg.rows import DictRow

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
    """How much is stored of one type from one source.

    Attributes:
        memory_type: The type.
        source: Where it came from.
        items: How many.
        content_bytes: Bytes of their contents in UTF-8.
        tokens: Tokens of their contents.
        private_items: How many of them only one agent reads.
    """

    memory_type: str
    source: str
    items: int
    content_bytes: int
    tokens: int
    private_items: int


@dataclass(frozen=True)
class DaySum:
    """How much was stored on one day and is not forgotten.

    Attributes:
        stored_on: The day, in UTC.
        items: How many.
        content_bytes: Bytes of their contents in UTF-8.
        tokens: Tokens of their contents.
    """

    stored_on: date
    items: int
    content_bytes: int
    tokens: int


@dataclass(frozen=True)
class Tombstone:
    """What is left of a forgotten item.

    Attributes:
        memory_key: Its key.
        memory_type: What sort of memory it was.
        source: Where it came from.
        agent_id: The agent that stored it; empty for none.
        session_id: The session it was stored in; empty for none.
        created_at: When it was stored first, in UTC.
        forgotten_at: When it was forgotten, in UTC.
    """

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
        memory_type: What sort of memory it is.
        token_count: Tokens of its content.
        content_bytes: Bytes of its content in UTF-8.
        is_readable: Whether the agent may read it.
        is_writable: Whether the agent may forget it: its own of this session, or one that all agents share.
        version: Changes when the item is stored again; with the ids of the row and its content.
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
    """How many sessions a user has, and how much was said in them.

    Attributes:
        sessions: Sessions that were not deleted.
        messages: Messages in their transcripts.
        chats: Chat messages.
    """

    sessions: int
    messages: int
    chats: int


@dataclass(frozen=True)
class SessionExtent:
    """What goes with a session when it is deleted, beside what was said in it.

    Attributes:
        subagent_sessions: Sessions of its sub-agents.
        items: Items of all these sessions.
        tokens: Tokens of their contents.
    """

    subagent_sessions: int
    items: int
    tokens: int


@dataclass(frozen=True)
class TranscriptInfo:
    """One line of one agent's transcript in a session.

    Attributes:
        agent_id: The agent.
        branch: Empty for the main line; others were gone on with by a process that found its number taken.
        batches: How many batches it has.
        messages: How many messages.
        archived_at: When the last batch was archived, in UTC.
    """

    agent_id: str
    branch: str
    batches: int
    messages: int
    archived_at: datetime


class UserStats:
    """What there is of each user; every method acts as one.

    Args:
        database: Where it is.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def only_user(self) -> tuple[int, str | None]:
        """Return 1 and the only user of the store; 0 and None if there is none, 2 and None if there are several.

        Raises:
            StoreError: The database failed.
        """
        return await only_user(self._database)

    async def scope(self, user_id: str) -> ReadScope:
        """Return the scope of the user: it reads all of their items that there are now, also what agents keep apart."""
        params = {"user_id": user_id}
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["select_keys_beside_private"], params))
        return ReadScope(keys=tuple(row["memory_key"] for row in rows)) if rows else ReadScope()

    async def forgotten(self, user_id: str, *, session_id: str | None = None, limit: int = 50) -> list[Tombstone]:
        """Return what is left of forgotten items, those forgotten last first."""
        params = {"user_id": user_id, "session_id": session_id, "limit": limit}
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["select_forgotten"], params))
        return [
            Tombstone(
                row["memory_key"],
                row["memory_type"],
                row["source"],
                row["agent_id"],
                row["session_id"],
                row["created_at"].astimezone(timezone.utc),
                row["updated_at"].astimezone(timezone.utc),
            )
            for row in rows
        ]

    async def keys_beginning(self, user_id: str, beginning: str, limit: int) -> list[str]:
        """Return the keys of the user's items that begin with a text, in their order."""
        params = {"user_id": user_id, "beginning": beginning, "limit": limit}
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["select_keys_beginning"], params))
        return [row["memory_key"] for row in rows]

    async def sessions_beginning(self, user_id: str, beginning: str, limit: int) -> list[str]:
        """Return the ids of the user's sessions that begin with a text, in their order."""
        params = {"user_id": user_id, "beginning": beginning, "limit": limit}
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["select_sessions_beginning"], params))
        return [row["session_id"] for row in rows]

    async def keys_of_contents(self, user_id: str, memory_keys: Sequence[str]) -> list[str]:
        """Return the keys of all items that `forget` would take: those named and others with the same content.

        Raises:
            StoreError: The database failed.
        """
        return [row["memory_key"] for row in await self._same_contents(user_id, memory_keys)]

    async def forget(self, user_id: str, memory_keys: Sequence[str]) -> list[str]:
        """Forget what is behind keys: these items and all others with the same content; return their keys.

        Whichever agent and session stored them: the user wants the content gone. All in one transaction; each leaves a
        tombstone.

        Raises:
            StoreError: The database failed; nothing was forgotten.
        """
        return await self._forget(user_id, await self._same_contents(user_id, memory_keys))

    async def forgettable(
        self, user_id: str, memory_keys: Sequence[str], by: ReadScope, *, is_shared: bool
    ) -> list[Forgettable]:
        """Return what would go with these keys if an agent forgot them; keys that it may not read are left out.

        Args:
            user_id: Whose items.
            memory_keys: The keys.
            by: The agent.
            is_shared: Whether all of the user's agents read what it stores, so that it may forget what they share.

        Raises:
            StoreError: The database failed.
        """
        keys = list(memory_keys)
        params = {"user_id": user_id, "memory_keys": keys, "is_shared": is_shared, **scope_params(by)}
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["select_forgettable"], params))
        return [_forgettable(row) for row in rows]

    async def forget_items(self, user_id: str, items: Sequence[Forgettable]) -> list[str]:
        """Forget exactly these items, in one transaction; return the keys of those that were still there.

        Raises:
            StoreError: The database failed.
        """
        rows = [{"id": item.version[0], "content_id": item.version[1]} for item in items]
        return await self._forget(user_id, rows)

    async def _forget(self, user_id: str, rows: Sequence[DictRow]) -> list[str]:
        if not rows:
            return []
        *_, gone, _ = await self._database.write(user_id, *forgetting(user_id, rows))
        return [row["memory_key"] for row in gone]

    async def _same_contents(self, user_id: str, memory_keys: Sequence[str]) -> list[DictRow]:
        params = {"user_id": user_id, "memory_keys": list(memory_keys)}
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["select_ids_of_contents"], params))
        return rows

    async def kinds(self, user_id: str, *, session_id: str | None = None) -> list[KindSum]:
        """Return how much is stored of each type and source, of one session or of all; what takes most first."""
        params = {"user_id": user_id, "session_id": session_id}
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["sum_items_by_kind"], params))
        return [
            KindSum(
                row["memory_type"],
                row["source"],
                row["items"],
                row["content_bytes"],
                row["tokens"],
                row["private_items"],
            )
            for row in rows
        ]

    async def days(self, user_id: str, limit: int) -> list[DaySum]:
        """Return how much was stored on each of the newest days on which anything was, the newest first."""
        params = {"user_id": user_id, "limit": limit}
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["sum_items_by_day"], params))
        return [DaySum(row["stored_on"], row["items"], row["content_bytes"], row["tokens"]) for row in rows]

    async def extent(self, user_id: str) -> UserExtent:
        """Return how many sessions a user has, and how much was said in them."""
        params = {"user_id": user_id}
        ((row,),) = await self._database.read(user_id, Statement(_QUERIES["fetch_user_extent"], params))
        return UserExtent(row["sessions"], row["messages"], row["chats"])

    async def session_extent(self, user_id: str, session_id: str) -> SessionExtent:
        """Return what goes with a session when it is deleted, beside what was said in it."""
        params = {"user_id": user_id, "session_id": session_id}
        ((row,),) = await self._database.read(user_id, Statement(_QUERIES["fetch_session_extent"], params))
        return SessionExtent(row["subagent_sessions"], row["items"], row["tokens"])

    async def transcripts(self, user_id: str, session_id: str) -> list[TranscriptInfo]:
        """Return whose transcripts a session has, line by line; the one that was archived in last, first."""
        params = {"user_id": user_id, "session_id": session_id}
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["select_transcripts"], params))
        return [
            TranscriptInfo(
                row["agent_id"],
                row["branch"],
                row["batches"],
                row["messages"],
                row["archived_at"].astimezone(timezone.utc),
            )
            for row in rows
        ]

    async def event_counts(self, user_id: str, session_id: str, agent_id: str) -> dict[str, int]:
        """Return how often each kind of thing happened to items in a session by an agent's doing."""
        params = {"user_id": user_id, "session_id": session_id, "agent_id": agent_id}
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["count_events"], params))
        return {row["kind"]: row["events"] for row in rows}


def _forgettable(row: DictRow) -> Forgettable:
    memory_type = row["memory_type"]
    return Forgettable(
        memory_key=row["memory_key"],
        description="a secret: not shown" if memory_type == SECRET_TYPE else row["summary"],
        memory_type=memory_type,
        token_count=row["token_count"],
        content_bytes=row["content_bytes"],
        is_readable=row["is_readable"],
        is_writable=row["is_writable"],
        version=(row["id"], row["content_id"], row["updated_at"]),
    )
