"""Values and rows of sessions and their messages."""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal

from memory_context.foundation.identifiers import checked_identifier
from memory_context.foundation.runtime.background import in_thread_if_large

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
