"""Request and response bodies."""

import base64
import binascii
from datetime import datetime, timezone
from typing import Annotated, Literal

from fastapi import HTTPException
from pydantic import AfterValidator, AwareDatetime, Field
from typing_extensions import Self

from memory_context.foundation.identifiers import checked_identifier
from memory_context.store.conversations import ChatMessage as StoredMessage

from ..access.wire import Identifier, Text, Wire

__all__ = [
    "ArchiveRequest",
    "Archived",
    "ChatAnswer",
    "ChatMessage",
    "ChatRequest",
    "ChatStep",
    "MessagePage",
    "NewMessage",
    "NotesEntry",
    "NotesText",
    "SessionEntry",
    "SessionId",
    "SessionPage",
    "decode_cursor",
    "encode_cursor",
]

_MAX_MESSAGES = 100
_MAX_CHARACTERS = 200_000
_FIRST_YEAR, _LAST_YEAR = 1970, 9000  # conversion of timezones cannot overflow


def _check_session_id(value: str) -> str:
    if value in (".", ".."):  # browsers and proxies take them out of an address
        raise ValueError("use another session id than . or ..")
    return value


def _check_time(value: datetime) -> datetime:
    if not _FIRST_YEAR <= value.year <= _LAST_YEAR:
        raise ValueError(f"use a year from {_FIRST_YEAR} to {_LAST_YEAR}")
    return value.astimezone(timezone.utc)


SessionId = Annotated[Identifier, AfterValidator(_check_session_id)]
Timestamp = Annotated[
    AwareDatetime,
    Field(json_schema_extra={"pattern": r"^(19[7-9]\d|[2-8]\d{3})-"}),
    AfterValidator(_check_time),
]


class ChatMessage(Wire):
    """A message as a person sees it.

    Attributes:
        id: Made by the sender; the same id is the same message.
        timestamp: Messages are ordered by time, then by id.
        unverified: A client brought this answer and the server cannot confirm it; ignored in requests.
    """

    id: str
    text: Text
    sender: Literal["user", "ai"]
    timestamp: datetime
    unverified: bool = False

    @classmethod
    def of(cls, value: StoredMessage) -> Self:
        at = value.timestamp.astimezone(timezone.utc)
        return cls(id=value.id, text=value.text, sender=value.sender, timestamp=at, unverified=not value.is_verified)


class NewMessage(ChatMessage):
    """A message that a client sends; its timestamp has a timezone."""

    id: Identifier
    text: Annotated[str, Field(max_length=_MAX_CHARACTERS)]
    timestamp: Timestamp

    def to_store(self) -> StoredMessage:
        """A client's answer is unverified."""
        return StoredMessage(self.id, self.text, self.sender, self.timestamp, is_verified=self.sender == "user")


Batch = Annotated[list[NewMessage], Field(min_length=1, max_length=_MAX_MESSAGES, fail_fast=True)]


class ChatRequest(Wire):
    """New messages in order; known ones are skipped, the trailing ones of the user are answered.

    Attributes:
        session_id: An unused id begins a session. Null begins one, too, or finds the one of the same first message.
        agent_id: Null for the session's agent, or the first.
        stream: Whether to answer with server-sent events, as with `Accept: text/event-stream`.
    """

    new_messages: Batch
    session_id: SessionId | None = None
    agent_id: Identifier | None = None
    stream: bool = False


class ArchiveRequest(Wire):
    """Chat messages to make durable; an unused session id begins a session, with the agent or the first."""

    session_id: SessionId
    messages_batch: Batch
    agent_id: Identifier | None = None


class ChatStep(Wire):
    """A step of the agent on the way to its answer.

    Attributes:
        kind: `call` of a tool; its `result`, large ones as their placeholder; `memory` that was opened.
    """

    kind: Literal["call", "result", "memory"]
    name: Text
    summary: Text


class ChatAnswer(Wire):
    """The whole answer.

    Attributes:
        message: The answer; null if there was nothing to answer.
        stored_ids: Messages that became durable since the last answer.
        replayed: Whether the answer was known, so that no agent ran.
    """

    session_id: str
    agent_id: str
    message: ChatMessage | None
    steps: list[ChatStep] = Field(default_factory=list[ChatStep])
    stored_ids: list[str]
    replayed: bool


class Archived(Wire):
    """Ids of the batch, all durable now."""

    stored_ids: list[str]


class SessionEntry(Wire):
    """A session in a list; title and summary may be empty, only durable messages are counted."""

    session_id: str
    agent_id: str
    title: Text
    summary: Text
    message_count: Annotated[int, Field(validation_alias="chat_count")]
    created_at: datetime
    last_activity_at: datetime


class SessionPage(Wire):
    """A page of sessions, most recently used first; `next` is the cursor for the following page, null at the end."""

    sessions: list[SessionEntry]
    next: str | None


class NotesText(Wire):
    """Long-term notes, Markdown; "" for none."""

    notes: str


class NotesEntry(Wire):
    """The long-term notes of an agent; version 0 means that none were written yet."""

    agent_id: str
    notes: Text
    version: int
    updated_at: datetime | None


class MessagePage(Wire):
    """A page of messages, oldest first; `next` is the cursor for older messages, null at the end."""

    messages: list[ChatMessage]
    next: str | None


def encode_cursor(at: datetime, id_: str) -> str:
    """Return a place as an opaque URL-safe cursor."""
    place = f"{at.astimezone(timezone.utc).isoformat()} {id_}".encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(place).decode().rstrip("=")


def decode_cursor(cursor: str | None) -> tuple[datetime, str] | None:
    """Return the place of a cursor; raise HTTPException for a foreign one."""
    if cursor is None:
        return None
    try:
        place = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        at, _, id_ = place.decode("utf-8", "surrogatepass").partition(" ")
        return _check_time(datetime.fromisoformat(at)), checked_identifier("id", id_)
    except (ValueError, binascii.Error, OverflowError):
        text = "`before` was never given by this server: send the `next` of the page before, or leave it out"
        raise HTTPException(404, text) from None
