"""ConversationArchive: transcripts and chat messages of sessions, durable, in batches.

    append:  lock the session's row ─▶ batch, if its number is free ─▶ chat messages that are new     one transaction
    read:    the last batch that begins anew ─▶ ... ─▶ the head

Writes are idempotent: a retry with the same sequence and hash returns `known`, and a batch never replaces another. A
deleted session refuses everything. A batch that was changed behind the archive's back is noticed when it is read.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

import psycopg
from psycopg.rows import DictRow

from memory_context.errors import SessionGoneError, StoreError
from memory_context.identifiers import SessionKey, checked_identifier

from .conversation_rows import (
    Appended,
    Archived,
    ChatMessage,
    NewBatch,
    SessionInfo,
    batches_from_rows,
    chat_from_row,
    chat_params,
    checked_place,
    params_for,
)
from .database import Database
from .events import EventLog
from .forget import BATCH_ITEMS, ProgressCallback, counted_rows, deletable_rows, forgetting, tally_of
from .limits import StoreLimits, TransactionKind
from .pool import Statement
from .sql import load_queries

__all__ = ["ConversationArchive"]

_QUERIES = load_queries("conversations")
_THREADS = load_queries("threads")
_DELETED = "23M01"  # what touch_session raises
_DELETE = ("lock_session", "insert_session_deleted", "update_session_deleted")


class ConversationArchive:
    """The sessions of one database; every method acts as one user.

    Attributes:
        write_transactions: How many transactions this object committed.
    """

    def __init__(self, database: Database, events: EventLog) -> None:
        self._database = database
        self._events = events
        self.write_transactions = 0

    @property
    def limits(self) -> StoreLimits:
        """How long calls wait for the database."""
        return self._database.limits

    async def append(
        self,
        key: SessionKey,
        *,
        batch: NewBatch | None = None,
        chat: Sequence[ChatMessage] = (),
        title: str | None = None,
        title_is_final: bool = False,
        summary: str | None = None,
        branch: str = "",
    ) -> Appended:
        """Archive a batch of an agent's transcript, chat messages, or both, in one transaction; say what was new.

        The session is made if it is new. After a cancellation or a lost connection it may or may not be archived;
        archiving it again is harmless.

        Args:
            key: The session, and the agent whose transcript the batch is of.
            batch: The next stretch of the transcript; None for none.
            chat: Messages as a person sees them; those the session has already are left out.
            title: Taken if the session has none yet, or this one is final.
            title_is_final: Whether the title replaces another.
            summary: Replaces the one before; None leaves it.
            branch: The line that the batch is on; "" for the main one.

        Raises:
            SessionGoneError: The session was deleted; nothing was stored.
            StoreError: The database refused or cannot be reached; nothing was stored.
            ValueError: The body of the batch is not JSON-native, a time has no timezone, or the session's id is none.
        """
        checked_identifier("session_id", key.session_id)
        place = {**key._asdict(), "branch": branch}
        named = {
            "title": title or None,
            "title_is_final": title_is_final,
            "summary": summary,
        }
        statements = [Statement(_QUERIES["touch_session"], {**place, **named})]
        if batch is not None:
            statements.append(Statement(_QUERIES["append_batch"], {**place, **await params_for(batch)}))
        if chat:
            statements.append(Statement(_QUERIES["append_chat"], {**place, **chat_params(chat)}))
        statements.append(Statement(_QUERIES["fetch_head"], place))
        try:
            _, *done, (head,) = await self._write(key.user_id, statements)
        except StoreError as error:
            cause = error.__cause__
            if isinstance(cause, psycopg.Error) and cause.sqlstate == _DELETED:
                raise SessionGoneError(f"session {key.session_id!r} was {cause.diag.message_primary}") from cause
            raise
        return Appended(
            outcome="stored" if batch is None else done[0][0]["outcome"],
            head=head["head"],
            stored_chat_ids=tuple(done[-1][0]["stored_ids"]) if chat else (),
        )

    async def read(self, key: SessionKey, *, branch: str = "") -> Archived:
        """Return what an agent's transcript in a session can be resumed from, in one round trip.

        Raises:
            StoreError: The database refused or cannot be reached.
        """
        place = {**key._asdict(), "branch": branch}
        names = ("select_batches", "fetch_head", "select_branches", "select_later_items", "fetch_session")
        batches, (head,), branches, later, sessions = await self._database.read(
            key.user_id, *(Statement(_QUERIES[name], place) for name in names), kind="transfer"
        )
        if not sessions:  # unknown, or being deleted
            batches, branches, head = [], [], {"head": -1}
        others = (row["branch"] for row in branches)
        return Archived(
            batches=await batches_from_rows(batches),
            head=head["head"],
            branches=tuple(other for other in others if other != branch),
            later_items=tuple((row["memory_key"], int(row["message"])) for row in later),
            session=SessionInfo(**sessions[0]) if sessions else None,
        )

    async def session(self, user_id: str, session_id: str) -> SessionInfo | None:
        """Return what is known of a session; None if it is unknown or was deleted."""
        params = {"user_id": user_id, "session_id": session_id}
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["fetch_session"], params))
        return SessionInfo(**rows[0]) if rows else None

    async def deleted_at(self, user_id: str, session_id: str) -> datetime | None:
        """Return when a session was deleted, in UTC; None if it was not."""
        params = {"user_id": user_id, "session_id": session_id}
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["fetch_deletion"], params))
        return rows[0]["deleted_at"] if rows else None

    async def sessions(
        self, user_id: str, *, limit: int = 50, before: tuple[datetime, str] | None = None, only_chats: bool = False
    ) -> list[SessionInfo]:
        """Return a page of a user's sessions, those used last first.

        Args:
            user_id: The user.
            limit: How many at most.
            before: `last_activity_at` and id of the last session of the previous page; None for the first page.
            only_chats: Only sessions with chat messages.
        """
        params = {"user_id": user_id, "only_chats": only_chats, **checked_place(limit, before)}
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["select_sessions"], params))
        return [SessionInfo(**row) for row in rows]

    async def chat_page(
        self, user_id: str, session_id: str, *, limit: int = 50, before: tuple[datetime, str] | None = None
    ) -> list[ChatMessage]:
        """Return the newest chat messages of a session before a place, the oldest of them first.

        Args:
            user_id: The user.
            session_id: The session.
            limit: How many at most.
            before: `timestamp` and id of the first message of the page after; None for the newest page.
        """
        params = {
            "user_id": user_id,
            "session_id": session_id,
            **checked_place(limit, before),
        }
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["select_chat_page"], params))
        return [chat_from_row(row) for row in reversed(rows)]

    async def known_chat_ids(self, user_id: str, session_id: str, ids: Iterable[str]) -> set[str]:
        """Return those of these ids under which the session has a chat message."""
        params = {
            "user_id": user_id,
            "session_id": session_id,
            "message_ids": list(ids),
        }
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["select_known_chat_ids"], params))
        return {row["id"] for row in rows}

    async def delete_session(self, user_id: str, session_id: str, *, progress: ProgressCallback | None = None) -> bool:
        """Delete a session and those of its sub-agents (`<session>/...`), with their items; False if it is unknown.

        The first transaction leaves a tombstone, which refuses later reads and writes. Then all goes in batches.
        After an interruption, or when something was stored meanwhile, deleting the session again goes on.

        Args:
            user_id: The user.
            session_id: The session.
            progress: Called after each batch with the rows done and the rows there were.

        Raises:
            StoreError: The database failed; call it again.
            ValueError: The id is unusable.
        """
        checked_identifier("session_id", session_id)
        await self._events.flush(user_id)  # or they would be written after the deletion
        params = {"user_id": user_id, "session_id": session_id, "limit": BATCH_ITEMS}
        deletions, counts = deletable_rows(user_id, session_id)
        statements = [
            *(Statement(_QUERIES[name], params) for name in _DELETE),
            Statement(_THREADS["update_thread_deleted"], params),
            *deletions,
            Statement(_QUERIES["select_session_item_ids"], params),
        ]
        tally = await tally_of(self._database, user_id, counts, progress)
        was_known = False
        while True:
            *_, sessions, threads = (results := await self._write(user_id, statements))[: -len(deletions) - 1]
            rows, items = counted_rows(results[-len(deletions) - 1 : -1]), results[-1]
            if items:
                kind: TransactionKind = "call" if len(items) < BATCH_ITEMS else "batch"
                await self._write(user_id, forgetting(user_id, items), kind)
            tally.add(rows + len(items))
            if not (rows or items or sessions or threads):
                tally.finish()
                return was_known
            was_known = True

    async def _write(
        self, user_id: str, statements: Sequence[Statement], kind: TransactionKind = "call"
    ) -> list[list[DictRow]]:
        rows = await self._database.write(user_id, *statements, kind=kind)
        self.write_transactions += 1
        return rows
