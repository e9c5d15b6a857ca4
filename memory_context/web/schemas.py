"""What goes over the wire, as values: requests that are read strictly, answers that are written whatever they hold.

Promise: what a request says is either exactly one of these values or refused in words that name the place; text is
taken as it is, except for halves of surrogate pairs, which no UTF-8 can carry.
"""

import base64
import binascii
import json
import re
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from ..identifiers import checked_identifier
from ..store import ChatMessage as StoredMessage
from ..store import SessionInfo
from .problems import Flaw, ProblemError

__all__ = [
    "ArchiveRequest",
    "Archived",
    "ChatAnswer",
    "ChatMessage",
    "ChatRequest",
    "ChatStep",
    "Identifier",
    "MessagePage",
    "SessionEntry",
    "SessionPage",
    "cursor_of",
    "parsed",
    "place_of",
    "whole_text",
    "written",
]

_FLAWS_TOLD = 20
_FIRST_YEAR, _LAST_YEAR = 1970, 9000  # one timezone further in either direction there is still a calendar
_HALF_PAIRS = re.compile("[\ud800-\udfff]")

_Model = TypeVar("_Model", bound=BaseModel)


def _identifier(value: str) -> str:
    return checked_identifier("id", value)


def _usual(value: datetime) -> datetime:
    if not _FIRST_YEAR <= value.year <= _LAST_YEAR:
        raise ValueError(f"use a year from {_FIRST_YEAR} to {_LAST_YEAR}")
    return value


Identifier = Annotated[
    str,
    Field(min_length=1, max_length=128, json_schema_extra={"pattern": "^[ -~\u00a1-\u00ac\u00ae-\u00ff]+$"}),
    AfterValidator(_identifier),
]
"""1 to 128 printable characters; the description of the API promises those of Latin-1."""
Timestamp = Annotated[
    AwareDatetime,
    Field(json_schema_extra={"pattern": r"^(19[7-9]\d|[2-8]\d{3})-"}),
    AfterValidator(_usual),
]


class _Wire(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ChatMessage(_Wire):
    """One message as a person sees it.

    Attributes:
        id: 1 to 128 printable characters, made by whoever says it first; the same id is the same message.
        text: What was said.
        sender: `user` or `ai`.
        timestamp: When, with its timezone. Messages of a session are in the order of their times, then of their ids.
        unverified: A client brought this answer and the server cannot confirm it; ignored in requests.
    """

    id: Identifier
    text: str
    sender: Literal["user", "ai"]
    timestamp: Timestamp
    unverified: bool = False

    def to_store(self) -> StoredMessage:
        """Return it as the store takes it: an answer that a client brings is unverified."""
        return StoredMessage(self.id, self.text, self.sender, self.timestamp, is_verified=self.sender == "user")

    @classmethod
    def of(cls, message: StoredMessage) -> "ChatMessage":
        """Return what the store has, as it goes over the wire."""
        return cls.model_construct(
            id=message.id,
            text=message.text,
            sender=message.sender,
            timestamp=message.timestamp,
            unverified=not message.is_verified,
        )


class ChatRequest(_Wire):
    """What a person said, and in which session.

    Attributes:
        new_messages: What the session may not know yet, in order; known ones are passed over. The last stretch of the
            user's messages is answered.
        session_id: The user's session; an id of one's own making that is not in use begins one. Null begins one, too;
            asking again with the same first message finds it.
        agent_id: Who is to answer, one of the agents; null for whoever the session began with, or the first.
        stream: Whether the answer comes as server-sent events; `Accept: text/event-stream` asks for the same.
    """

    new_messages: Annotated[list[ChatMessage], Field(min_length=1, fail_fast=True)]
    session_id: Identifier | None = None
    agent_id: Identifier | None = None
    stream: bool = False


class ArchiveRequest(_Wire):
    """Chat messages that a page wants to be durable, such as when it is closed.

    Attributes:
        session_id: Their session; an id that is not in use begins one.
        messages_batch: The messages; those the session has are not stored again.
        agent_id: Who answers in a session that begins; null for the first of the agents.
    """

    session_id: Identifier
    messages_batch: Annotated[list[ChatMessage], Field(min_length=1, fail_fast=True)]
    agent_id: Identifier | None = None


class ChatStep(_Wire):
    """Something the agent did on the way to its answer.

    Attributes:
        kind: `call`: it calls a tool. `result`: what that gave, short; large results as the placeholder they became.
            `memory`: what was opened for it.
        name: The tool, or what was opened.
        summary: A line on it.
    """

    kind: Literal["call", "result", "memory"]
    name: str
    summary: str


class ChatAnswer(_Wire):
    """The answer as a whole.

    Attributes:
        session_id: The session.
        agent_id: Who answered.
        message: The answer; null if there was nothing to answer.
        steps: What the agent did on the way.
        stored_ids: Messages that are durable now and not reported so before; others follow with a later answer.
        replayed: Whether the answer was known and no agent was asked.
    """

    session_id: str
    agent_id: str
    message: ChatMessage | None
    steps: list[ChatStep] = []
    stored_ids: list[str]
    replayed: bool


class Archived(_Wire):
    """What is durable now.

    Attributes:
        stored_ids: Ids of the batch, those included that were durable before.
    """

    stored_ids: list[str]


class SessionEntry(_Wire):
    """A session in a list.

    Attributes:
        session_id: Its id.
        agent_id: The agent it began with.
        title: A few words; empty for none.
        summary: More of them; empty for none.
        message_count: Chat messages that are durable.
        created_at: When it began.
        last_activity_at: When something of it was stored last.
    """

    session_id: str
    agent_id: str
    title: str
    summary: str
    message_count: int
    created_at: datetime
    last_activity_at: datetime

    @classmethod
    def of(cls, info: SessionInfo) -> "SessionEntry":
        """Return what the store knows of a session."""
        return cls(
            session_id=info.session_id,
            agent_id=info.agent_id,
            title=info.title,
            summary=info.summary,
            message_count=info.chat_count,
            created_at=info.created_at,
            last_activity_at=info.last_activity_at,
        )


class SessionPage(_Wire):
    """Sessions, the last used first.

    Attributes:
        sessions: The sessions.
        next: To be given as `before` for the next page; null if there is none.
    """

    sessions: list[SessionEntry]
    next: str | None


class MessagePage(_Wire):
    """Messages of a session, the oldest of the page first.

    Attributes:
        messages: The messages.
        next: To be given as `before` for the page of those before; null if there is none.
    """

    messages: list[ChatMessage]
    next: str | None


def parsed(model: type[_Model], body: bytes) -> _Model:
    """Return a body as the value it has to be.

    Raises:
        ProblemError: It is no JSON (400), or not that value (422, with each place).
    """
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        told = error.errors(include_url=False, include_context=False, include_input=False)
        if told[0]["type"] == "json_invalid":
            raise ProblemError("not-json", told[0]["msg"]) from None
        flaws = [Flaw(detail=one["msg"], pointer=_pointer(one["loc"])) for one in told[:_FLAWS_TOLD]]
        raise ProblemError("invalid", f"{len(told)} of its parts are not as they have to be", flaws=flaws) from None


def _pointer(place: Sequence[int | str]) -> str:
    return "#/" + "/".join(str(part).replace("~", "~0").replace("/", "~1")[:100] for part in place)


def written(value: BaseModel) -> str:
    """Return a value as JSON, in ASCII, so that no text can break it."""
    return json.dumps(value.model_dump(), default=_written_time, separators=(",", ":"))


def _written_time(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    raise TypeError(f"{value!r} does not go over the wire")


def whole_text(text: str) -> str:
    """Return a text that goes over the wire and back: each half of a surrogate pair replaced by U+FFFD."""
    return _HALF_PAIRS.sub("\ufffd", text)


def cursor_of(at: datetime, id_: str) -> str:
    """Return a place in a list as an opaque word for a URL."""
    place = f"{at.astimezone(timezone.utc).isoformat()} {id_}".encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(place).decode().rstrip("=")


def place_of(cursor: str | None) -> tuple[datetime, str] | None:
    """Return the place that `cursor_of` was given; None for None.

    Raises:
        ProblemError: The cursor has the right form, but no list ever gave it (404).
    """
    if cursor is None:
        return None
    try:
        place = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        at, _, id_ = place.decode("utf-8", "surrogatepass").partition(" ")
        return _usual(datetime.fromisoformat(at).astimezone(timezone.utc)), _identifier(id_)
    except (ValueError, binascii.Error, OverflowError):
        text = "`before` was never given by this server: send the `next` of the page before, or leave it out"
        raise ProblemError("unknown-cursor", text) from None
