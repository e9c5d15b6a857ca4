"""ConversationArchive: durable transcripts and chat messages of sessions, and the claims that say who holds one live.

    append:  lock the session's row ─▶ batch, if its number is free ─▶ new chat messages     one transaction
    read:    the last batch that begins anew ─▶ ... ─▶ the head

Retries with the same sequence and hash return `known`; no batch replaces another.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import islice
from typing import Any, Literal
from uuid import UUID

import psycopg
from psycopg.rows import DictRow

from memory_context.foundation.errors import SessionGoneError, StoreError
from memory_context.foundation.identifiers import SessionKey, checked_identifier, checked_limit
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.utf8 import strings_in

from .codec import canonical_json, read_canonical
from .database import Database
from .events import EventLog
from .forget import BATCH_ITEMS, ProgressCallback, counted_rows, deletable_rows, forgetting, redact, tally_of
from .items import MemoryItem, ReadScope, content_of, item_from_row, scope_params
from .jobs import Jobs, NewJob, enqueue
from .limits import StoreLimits, TransactionKind
from .redact import Traces
from .sql import Statement, load_queries

__all__ = [
    "LEAST_SECONDS",
    "Appended",
    "Archived",
    "ChatMessage",
    "ChatSender",
    "ClaimRows",
    "ConversationArchive",
    "NewBatch",
    "SessionInfo",
    "StoredBatch",
    "batches_from_rows",
    "chat_from_row",
    "chat_params",
    "checked_place",
    "params_for",
]

_STRINGS = 2000  # so many tell whether a batch is large; that of a small turn has 150


ChatSender = Literal["user", "ai"]


@dataclass(frozen=True)
class ChatMessage:
    """One message as a person sees it; `ValueError` for unusable values.

    Attributes:
        id: 1 to 128 printable characters, unique in its session.
        timestamp: With a timezone; kept in UTC, to the microsecond.
        is_verified: False if the server cannot confirm a client's answer.
    """

    id: str
    text: str
    sender: ChatSender
    timestamp: datetime
    is_verified: bool = True

    def __post_init__(self) -> None:
        checked_identifier("id", self.id)
        if self.sender not in ("user", "ai"):
            raise ValueError(f"sender={self.sender!r}: use 'user' or 'ai'")
        object.__setattr__(self, "timestamp", _in_utc("timestamp", self.timestamp))


@dataclass(frozen=True)
class NewBatch:
    """The next stretch of one agent's transcript, numbered from 0; times have a timezone.

    Attributes:
        message_count: New messages.
        begins_anew: It holds the whole transcript, so reading starts here.
    """

    sequence: int
    body: Mapping[str, Any]
    message_count: int
    begins_anew: bool
    memory_keys: tuple[str, ...]
    chat_ids: tuple[str, ...]
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True)
class StoredBatch(NewBatch):
    """A batch as read; `is_intact` if its body still has its hash."""

    sha256: str
    is_intact: bool
    archived_at: datetime


@dataclass(frozen=True)
class SessionInfo:
    """Summary of a session begun by `agent_id`; times are of archiving, in UTC."""

    session_id: str
    agent_id: str
    title: str
    summary: str
    message_count: int
    chat_count: int
    created_at: datetime
    last_activity_at: datetime


@dataclass(frozen=True)
class Archived:
    """The archive of one agent in a session, to resume from.

    Attributes:
        batches: From the last that begins anew; `sequence` may have gaps.
        head: The highest sequence; -1 for none.
        branch: The line that was read; "" is the first one.
        branches: Other lines, from concurrent processes.
        later_items: Keys stored after the last batch, with message numbers.
    """

    batches: tuple[StoredBatch, ...]
    head: int
    branch: str
    branches: tuple[str, ...]
    later_items: tuple[tuple[str, int], ...]
    session: SessionInfo | None


@dataclass(frozen=True)
class Appended:
    """The outcome of `append`; `head` is -1 for an empty branch.

    Attributes:
        outcome: `known`: stored before; `conflict`: another batch has its number.
        stored_chat_ids: New chat messages.
        forgotten_keys: Those of the known keys whose items were forgotten.
    """

    outcome: Literal["stored", "known", "conflict"]
    head: int
    stored_chat_ids: tuple[str, ...]
    forgotten_keys: tuple[str, ...] = ()


async def params_for(batch: NewBatch) -> dict[str, Any]:
    """Return the parameters of `append_batch`; `ValueError` if invalid."""
    size = sum(map(len, map(str, islice(strings_in(batch.body), _STRINGS))))
    text = await in_thread_if_large(size, canonical_json, batch.body)
    return {
        "sequence": batch.sequence,
        "message_batch": text,
        "batch_sha256": _sha256(text),
        "message_count": batch.message_count,
        "begins_anew": batch.begins_anew,
        "memory_keys": list(batch.memory_keys),
        "message_ids": list(batch.chat_ids),
        "started_at": _in_utc("started_at", batch.started_at),
        "ended_at": _in_utc("ended_at", batch.ended_at),
    }


async def batches_from_rows(rows: Sequence[Mapping[str, Any]]) -> tuple[StoredBatch, ...]:
    """Return batches, decoding large ones in a thread."""
    size = sum(len(row["message_batch"]) for row in rows) / 10  # hashing is cheap
    return await in_thread_if_large(size, lambda: tuple(map(_batch_from_row, rows)))


def chat_params(chat: Sequence[ChatMessage]) -> dict[str, Any]:
    """Return the parameters of `append_chat`, deduplicated by id."""
    by_id: dict[str, ChatMessage] = {}
    for message in chat:
        by_id.setdefault(message.id, message)
    messages = [
        {
            "id": message.id,
            "text": message.text,
            "sender": message.sender,
            "timestamp": message.timestamp.isoformat(timespec="microseconds"),
            **({} if message.is_verified else {"is_unverified": True}),
        }
        for message in by_id.values()
    ]
    return {"messages": canonical_json(messages)}


def chat_from_row(row: Mapping[str, Any]) -> ChatMessage:
    """Return the chat message of a row."""
    return ChatMessage(
        row["id"],
        row["text"],
        row["sender"],
        datetime.fromisoformat(row["sent_at"]),
        is_verified=not row["is_unverified"],
    )


def checked_place(limit: int, before: tuple[datetime, str] | None) -> dict[str, Any]:
    """Return a page's parameters; `ValueError` if invalid."""
    checked_limit(limit)
    if before is None:
        return {"limit": limit, "before_at": None, "before_id": ""}
    return {"limit": limit, "before_at": _in_utc("before", before[0]), "before_id": before[1]}


def _batch_from_row(row: Mapping[str, Any]) -> StoredBatch:
    body = read_canonical(row["message_batch"])
    stored = bytes(row["batch_sha256"])
    return StoredBatch(
        sequence=row["sequence"],
        body=body,
        message_count=row["message_count"],
        begins_anew=row["begins_anew"],
        memory_keys=tuple(row["memory_keys"]),
        chat_ids=tuple(row["message_ids"]),
        started_at=row["start_timestamp"],
        ended_at=row["end_timestamp"],
        sha256=stored.hex(),
        is_intact=_sha256(canonical_json(body)) == stored,
        archived_at=row["archived_at"],
    )


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _in_utc(name: str, time: datetime) -> datetime:
    if time.tzinfo is None or time.utcoffset() is None:
        raise ValueError(f"{name}={time!r} has no timezone: use datetime.now(timezone.utc), or one with an offset")
    try:
        return time.astimezone(timezone.utc)
    except OverflowError:
        raise ValueError(f"{name}={time!r} lies outside the years 1 to 9999 in UTC") from None


_CLAIMS = load_queries("session_claims")
_LEASE_SECONDS = 10.0  # a killed process keeps its sessions for so long

LEAST_SECONDS = 0.7 * _LEASE_SECONDS
"""Of a lease that remain after each answer: longer ones are not renewed, which spares writes."""


class ClaimRows:
    """The claims in one database, each with a random id. All raise StoreUnavailableError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, key: SessionKey, claim: UUID) -> bool:
        """Return whether the session is now held under this claim; else its holder hears that it is wanted."""
        params = {**key._asdict(), "claim": claim, "lease_seconds": _LEASE_SECONDS}
        *_, rows = await self._database.write(
            key.user_id, _CLAIMS("delete_stale_claims"), _CLAIMS("claim_session", params)
        )
        return rows[0]["is_mine"]

    async def renew(self, claims: Collection[UUID]) -> tuple[set[UUID], set[UUID]]:
        """Renew claims; return those that are lost, and those whose sessions another process wants."""
        params = {"claims": [*claims], "lease_seconds": _LEASE_SECONDS, "least_seconds": LEAST_SECONDS}
        (rows,) = await self._database.write(None, _CLAIMS("renew_claims", params))
        lost = {row["claim"] for row in rows if row["is_lost"]}
        return lost, {row["claim"] for row in rows} - lost

    async def release(self, key: SessionKey, claim: UUID) -> None:
        """Neither hold a session nor wait for it; pass it to the claim that does."""
        names = ("pass_session", "free_session", "withdraw_wish")
        await self._database.write(key.user_id, *_CLAIMS.each(names, {**key._asdict(), "claim": claim}))


_QUERIES = load_queries("conversations")
_THREADS = load_queries("threads")
_MESSAGE_CHARACTERS = 20_000
_GONE, _UNKNOWN = "23M01", "23502"  # raised by touch_session
_DELETE = ("lock_session", "insert_session_deleted")


class ConversationArchive:
    """The sessions of one database."""

    def __init__(self, database: Database, events: EventLog, jobs: Jobs) -> None:
        self._database = database
        self._events = events
        self._jobs = jobs
        self.write_transactions = 0

    @property
    def limits(self) -> StoreLimits:
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
        jobs: Sequence[NewJob] = (),
        known_keys: Collection[str] = (),
        is_known: bool = False,
    ) -> Appended:
        """Archive a batch, chat messages, or both, in one transaction; the session is created if new.

        What the batch holds of forgotten items is removed. With it goes a look for those of `known_keys`, all that the
        transcript refers to, that were forgotten meanwhile.

        Retrying is harmless: handlers of jobs, which it writes again, are idempotent. A title replaces an existing one
        only if `title_is_final`.

        Args:
            is_known: The session was archived before, so without a row its user was erased.

        Raises:
            SessionGoneError: The session was deleted, or its user erased.
            ValueError: The body is not JSON-native, a time is naive, or the session id is invalid.
        """
        checked_identifier("session_id", key.session_id)
        place = {**key._asdict(), "branch": branch}
        named = {"title": title or None, "title_is_final": title_is_final, "summary": summary, "is_known": is_known}
        statements = [_QUERIES("touch_session", {**place, **named})]
        if batch is not None:
            params = {**place, **await params_for(batch)}
            statements.append(_QUERIES("append_batch", params))
            statements.append(_forgotten({*known_keys, *batch.memory_keys}))
        if chat:
            statements.append(_QUERIES("append_chat", {**place, **chat_params(chat)}))
        statements.append(_QUERIES("fetch_head", place))
        archived = len(statements)
        statements += enqueue(*jobs)
        try:
            _, *done, (head,) = (await self._write(key.user_id, statements))[:archived]
        except StoreError as error:
            cause = error.__cause__
            if isinstance(cause, psycopg.Error) and cause.sqlstate in ((_GONE, _UNKNOWN) if is_known else (_GONE,)):
                was = "erased with its user" if cause.sqlstate == _UNKNOWN else cause.diag.message_primary
                raise SessionGoneError(f"session {key.session_id!r} was {was}") from cause
            raise
        forgotten = [row["key"] for row in done[1]] if batch is not None else []
        if batch is not None and forgotten:
            traces = Traces.of(forgotten)
            if traces.redacted(batch.body, key.session_id) != batch.body:
                await self.drop_forgotten(key, traces)
        if jobs:
            self._jobs.wake(key.user_id)
        return Appended(
            outcome="stored" if batch is None else done[0][0]["outcome"],
            head=head["head"],
            stored_chat_ids=tuple(done[-1][0]["stored_ids"]) if chat else (),
            forgotten_keys=tuple(forgotten),
        )

    async def drop_forgotten(self, key: SessionKey, traces: Traces) -> None:
        """Rewrite batches of a process that did not know that items were forgotten, and tell its contexts."""
        await redact(self._database, key.user_id, traces, within_session=key.session_id, places=[key])

    async def forgotten_keys(self, user_id: str, keys: Collection[str]) -> list[str]:
        """Return those of some keys whose items were forgotten."""
        if not keys:
            return []
        (rows,) = await self._database.read(user_id, _forgotten(keys))
        return [row["key"] for row in rows]

    async def read(self, key: SessionKey, *, branch: str | None = None) -> Archived:
        """Return a line of an agent in a session; without `branch` the one whose last message is the newest."""
        place = {**key._asdict(), "branch": branch}
        names = ("select_batches", "select_branches", "select_later_items", "fetch_session")
        batches, branches, later, sessions = await self._database.read(
            key.user_id, *_QUERIES.each(names, place), kind="transfer"
        )
        if not sessions:  # unknown, or being deleted
            batches, branches = [], []
        line = batches[0]["branch"] if batches else branch or ""
        others = (row["branch"] for row in branches)
        return Archived(
            batches=await batches_from_rows(batches),
            head=batches[-1]["sequence"] if batches else -1,
            branch=line,
            branches=tuple(other for other in others if other != line),
            later_items=tuple((row["memory_key"], int(row["message"])) for row in later),
            session=SessionInfo(**sessions[0]) if sessions else None,
        )

    async def session(self, user_id: str, session_id: str) -> SessionInfo | None:
        (rows,) = await self._database.read(user_id, _QUERIES("fetch_session", session_id=session_id))
        return SessionInfo(**rows[0]) if rows else None

    async def deleted_at(self, user_id: str, session_id: str) -> datetime | None:
        (rows,) = await self._database.read(user_id, _QUERIES("fetch_deletion", session_id=session_id))
        return rows[0]["deleted_at"] if rows else None

    async def sessions(
        self,
        user_id: str,
        *,
        limit: int = 50,
        before: tuple[datetime, str] | None = None,
        only_chats: bool = False,
        words: Sequence[str] = (),
        agent: str = "",
        since: datetime | None = None,
    ) -> list[SessionInfo]:
        """Return a page of sessions, last used first.

        Args:
            before: `last_activity_at` and id of the previous page's last session.
            words: All of them stand in its id, title or summary, in any case of letters.
            agent: The one that began it; "" for any.
            since: It was used at this time or later.
        """
        filters: dict[str, object] = {"only_chats": only_chats, "words": list(words), "agent": agent, "since": since}
        (rows,) = await self._database.read(
            user_id, _QUERIES("select_sessions", checked_place(limit, before), **filters)
        )
        return [SessionInfo(**row) for row in rows]

    async def log_decisions(
        self, user_id: str, kinds: Sequence[str], *, session_id: str = "", limit: int = 50
    ) -> list[tuple[SessionInfo, list[Any]]]:
        """Return sessions that hold decisions of these kinds, last used first, with these decisions as saved.

        Sessions of sub-agents, private ones and `session_id` are left out.
        """
        params = {"user_id": user_id, "kinds": list(kinds), "session_id": session_id, "limit": limit}
        select = Statement(_QUERIES["select_log_decisions"], params)
        (rows,) = await self._database.read(user_id, select, kind="transfer")
        return [
            (SessionInfo(**row), read_canonical(decisions)) for row in rows for decisions in (row.pop("decisions"),)
        ]

    async def chat_page(
        self, user_id: str, session_id: str, *, limit: int = 50, before: tuple[datetime, str] | None = None
    ) -> list[ChatMessage]:
        """Return the newest chat messages before a place (`timestamp` and id), oldest first."""
        (rows,) = await self._database.read(
            user_id, _QUERIES("select_chat_page", checked_place(limit, before), session_id=session_id)
        )
        return [chat_from_row(row) for row in reversed(rows)]

    async def known_chat_ids(self, user_id: str, session_id: str, ids: Iterable[str]) -> set[str]:
        (rows,) = await self._database.read(
            user_id, _QUERIES("select_known_chat_ids", session_id=session_id, message_ids=list(ids))
        )
        return {row["id"] for row in rows}

    async def messages(
        self,
        user_id: str,
        *,
        memory_key: str | None = None,
        session_id: str = "",
        first: int = 1,
        before: int = 0,
        limit: int = 50,
        scope: ReadScope,
    ) -> list[MemoryItem]:
        """Return messages as items with at most 20,000 characters, in order: from `before` ahead of a message on, or of
        a session from number `first` on."""
        (rows,) = await self._database.read(
            user_id,
            _QUERIES(
                "select_messages",
                scope_params(scope),
                memory_key=memory_key,
                session_id=session_id,
                first=first,
                messages_before=before,
                limit=limit,
                characters_limit=_MESSAGE_CHARACTERS,
            ),
        )
        texts = [content_of(row) for row in rows]
        return [
            item_from_row(row, text, "all of", is_whole=len(text) < _MESSAGE_CHARACTERS)
            for row, text in zip(rows, texts, strict=True)
        ]

    async def delete_session(self, user_id: str, session_id: str, *, progress: ProgressCallback | None = None) -> bool:
        """Delete a session, its sub-agents' (`<session>/...`) and their items; False if unknown.

        The first transaction writes a tombstone and takes the messages out of the search. Repeat after an interruption.
        """
        checked_identifier("session_id", session_id)
        await self._events.flush(user_id)  # else they would outlive the deletion
        params: dict[str, object] = {"session_id": session_id, "limit": BATCH_ITEMS}
        deletions, counts = deletable_rows(session_id)
        select_said = _QUERIES("select_said_ids", params)
        tally = await tally_of(self._database, user_id, counts, progress)
        was_known = False
        while True:
            (said,) = await self._database.read(user_id, select_said)
            params["memory_ids"] = [row["id"] for row in said]
            statements = [
                *_QUERIES.each(_DELETE, params),
                *(forgetting(said) if said else ()),
                _QUERIES("update_session_deleted", params),
                _THREADS("update_thread_deleted", params),
                *deletions,
                _QUERIES("select_session_item_ids", params),
            ]
            results = await self._write(user_id, statements, "call" if len(said) < BATCH_ITEMS else "batch")
            *_, sessions, threads = results[: -len(deletions) - 1]
            rows, items = counted_rows(results[-len(deletions) - 1 : -1]), results[-1]
            if items:
                kind: TransactionKind = "call" if len(items) < BATCH_ITEMS else "batch"
                await self._write(user_id, forgetting(items), kind)
            tally.add(rows + len(items) + len(said))
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


def _forgotten(keys: Collection[str]) -> Statement:
    return _QUERIES("select_forgotten_keys", memory_keys="\n".join(sorted(keys)))
