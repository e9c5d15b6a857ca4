"""Values and rows of sessions: batches of transcripts, chat messages, and what is known of a session."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from memory_context.identifiers import checked_identifier
from memory_context.runtime import in_thread_if_large

from .codec import canonical_json, read_canonical

__all__ = [
    "Appended",
    "Archived",
    "ChatMessage",
    "ChatSender",
    "NewBatch",
    "SessionInfo",
    "StoredBatch",
    "batches_from_rows",
    "chat_from_row",
    "chat_params",
    "checked_place",
    "params_for",
]


ChatSender = Literal["user", "ai"]


@dataclass(frozen=True)
class ChatMessage:
    """One message as a person sees it.

    Attributes:
        id: 1 to 128 printable characters, unique in its session.
        text: Any str.
        sender: `user` or `ai`.
        timestamp: With a timezone; kept in UTC, to the microsecond.
        is_verified: False for an answer that a client brought and the server cannot confirm.

    Raises:
        ValueError: One of them is unusable; says what to send instead.
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
    """The next stretch of one agent's transcript.

    Attributes:
        sequence: Its number, from 0.
        body: JSON-native values; every str is kept.
        message_count: Messages that are new with it.
        begins_anew: Whether it holds everything from the beginning, so that reading starts here.
        memory_keys: The items it refers to.
        chat_ids: The chat messages whose words are in it.
        started_at: Time of its first entry, with a timezone.
        ended_at: Time of its last entry, with a timezone.
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
    """A batch as it was read.

    Attributes:
        sha256: The hash it was archived with, in hexadecimal digits.
        is_intact: Whether its body still has that hash: then it is exactly what was archived.
        archived_at: In UTC.
    """

    sha256: str
    is_intact: bool
    archived_at: datetime


@dataclass(frozen=True)
class SessionInfo:
    """What is known of a session.

    Attributes:
        session_id: Its id.
        agent_id: The agent that began it.
        title: A few words; empty for none.
        summary: A sentence or two; empty for none.
        message_count: Messages in its transcripts.
        chat_count: Chat messages.
        created_at: First archived, in UTC.
        last_activity_at: Last archived, in UTC.
    """

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
        batches: From the last one that begins anew, in order; `sequence` may have gaps.
        head: The highest sequence; -1 for none.
        branches: Other branches of this agent, which processes archived beside this one.
        later_items: Keys of items stored after the last batch, with the number of their message.
        session: None if the session is unknown or was deleted.
    """

    batches: tuple[StoredBatch, ...]
    head: int
    branches: tuple[str, ...]
    later_items: tuple[tuple[str, int], ...]
    session: SessionInfo | None


@dataclass(frozen=True)
class Appended:
    """The outcome of `append`.

    Attributes:
        outcome: `stored` (also without a batch); `known`, the same batch was there already; `conflict`, another has its
            number, and the batch was not stored.
        head: The highest sequence on this branch afterwards; -1 for none.
        stored_chat_ids: The chat messages that were new.
    """

    outcome: Literal["stored", "known", "conflict"]
    head: int
    stored_chat_ids: tuple[str, ...]


async def params_for(batch: NewBatch) -> dict[str, Any]:
    """Return the parameters of `append_batch`; `ValueError` for a body that is not JSON, or a time without zone."""
    text, digest = await asyncio.to_thread(_hashed, batch.body)
    return {
        "sequence": batch.sequence,
        "message_batch": text,
        "batch_sha256": digest,
        "message_count": batch.message_count,
        "begins_anew": batch.begins_anew,
        "memory_keys": list(batch.memory_keys),
        "message_ids": list(batch.chat_ids),
        "started_at": _in_utc("started_at", batch.started_at),
        "ended_at": _in_utc("ended_at", batch.ended_at),
    }


async def batches_from_rows(rows: Sequence[Mapping[str, Any]]) -> tuple[StoredBatch, ...]:
    """Return the batches of rows; a large transcript is decoded and hashed in a thread."""
    size = sum(len(row["message_batch"]) for row in rows) / 10  # hashing takes less than reading
    return await in_thread_if_large(size, lambda: tuple(map(_batch_from_row, rows)))


def chat_params(chat: Sequence[ChatMessage]) -> dict[str, Any]:
    """Return the parameters of `append_chat`; of messages with one id the first counts."""
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
    """Return the parameters of a page; `ValueError` for a limit under 1 or a time without zone."""
    if limit < 1:
        raise ValueError(f"limit={limit!r}: use at least 1")
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


def _hashed(body: Mapping[str, Any]) -> tuple[str, bytes]:
    text = canonical_json(body)
    return text, _sha256(text)


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _in_utc(name: str, time: datetime) -> datetime:
    if time.tzinfo is None or time.utcoffset() is None:
        raise ValueError(f"{name}={time!r} has no timezone: use datetime.now(timezone.utc), or one with an offset")
    try:
        return time.astimezone(timezone.utc)
    except OverflowError:
        raise ValueError(f"{name}={time!r} lies outside the years 1 to 9999 in UTC") from None
