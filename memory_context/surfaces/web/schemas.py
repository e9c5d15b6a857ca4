"""Request and response bodies: requests are parsed strictly and within limits, responses carry any text."""

import base64
import binascii
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Request, Response
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import ClientDisconnect
from typing_extensions import Self

from memory_context.foundation.identifiers import checked_identifier
from memory_context.store.conversation_rows import ChatMessage as StoredMessage

from ..access.bodies import BodyLimits, BodyRefusal, ClientGone, check_json, off_the_loop
from ..access.bodies import read_body as read_bytes
from .problems import ALWAYS, OF_BODY, Flaw, ProblemError, ProblemKind, problem_responses

__all__ = [
    "JSON",
    "ArchiveRequest",
    "Archived",
    "ChatAnswer",
    "ChatMessage",
    "ChatRequest",
    "ChatStep",
    "Identifier",
    "MessagePage",
    "NotesEntry",
    "NotesText",
    "NotesVersionEntry",
    "NotesVersions",
    "SessionEntry",
    "SessionPage",
    "Wire",
    "decode_cursor",
    "encode_cursor",
    "json_response",
    "parse",
    "read_body",
    "replace_surrogates",
    "route",
    "to_json",
]

JSON = "application/json"

_MAX_FLAWS = 20
_FIRST_YEAR, _LAST_YEAR = 1970, 9000  # conversion of timezones cannot overflow
_SURROGATES = re.compile("[\ud800-\udfff]")
_REFUSALS: Mapping[str, ProblemKind] = {"too-large": "too-large", "too-slow": "body-too-slow", "not-json": "not-json"}

_Model = TypeVar("_Model", bound=BaseModel)


def _check_id(value: str) -> str:
    return checked_identifier("id", value)


def _check_time(value: datetime) -> datetime:
    if not _FIRST_YEAR <= value.year <= _LAST_YEAR:
        raise ValueError(f"use a year from {_FIRST_YEAR} to {_LAST_YEAR}")
    return value


Identifier = Annotated[
    str,
    Field(min_length=1, max_length=128, json_schema_extra={"pattern": "^[ -~\u00a1-\u00ac\u00ae-\u00ff]+$"}),
    AfterValidator(_check_id),
]
"""1 to 128 printable characters; OpenAPI promises those of Latin-1."""
Timestamp = Annotated[
    AwareDatetime,
    Field(json_schema_extra={"pattern": r"^(19[7-9]\d|[2-8]\d{3})-"}),
    AfterValidator(_check_time),
]


class Wire(BaseModel):
    """A strict, frozen body."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    @classmethod
    def of(cls, value: Any) -> Self:
        """Return the body of a stored value: its attributes of the same names, or of a field's alias."""
        names = {name: field.validation_alias or name for name, field in cls.model_fields.items()}
        return cls.model_construct(**{name: getattr(value, str(stored)) for name, stored in names.items()})


class ChatMessage(Wire):
    """A message as a person sees it.

    Attributes:
        id: Made by the sender; the same id is the same message.
        timestamp: Time with a timezone; messages are ordered by time, then by id.
        unverified: A client brought this answer and the server cannot confirm it; ignored in requests.
    """

    id: Identifier
    text: str
    sender: Literal["user", "ai"]
    timestamp: Timestamp
    unverified: bool = False

    def to_store(self) -> StoredMessage:
        """A client's answer is unverified."""
        return StoredMessage(self.id, self.text, self.sender, self.timestamp, is_verified=self.sender == "user")

    @classmethod
    def of(cls, value: StoredMessage) -> Self:
        known = {name: getattr(value, name) for name in ("id", "text", "sender", "timestamp")}
        return cls.model_construct(**known, unverified=not value.is_verified)


class ChatRequest(Wire):
    """New messages in order; known ones are skipped, the trailing ones of the user are answered.

    Attributes:
        session_id: An unused id begins a session. Null begins one, too, or finds the one of the same first message.
        agent_id: Null for the session's agent, or the first.
        stream: Whether to answer with server-sent events, as with `Accept: text/event-stream`.
    """

    new_messages: Annotated[list[ChatMessage], Field(min_length=1, fail_fast=True)]
    session_id: Identifier | None = None
    agent_id: Identifier | None = None
    stream: bool = False


class ArchiveRequest(Wire):
    """Chat messages to make durable; an unused session id begins a session, with the agent or the first."""

    session_id: Identifier
    messages_batch: Annotated[list[ChatMessage], Field(min_length=1, fail_fast=True)]
    agent_id: Identifier | None = None


class ChatStep(Wire):
    """A step of the agent on the way to its answer.

    Attributes:
        kind: `call` of a tool; its `result`, large ones as their placeholder; `memory` that was opened.
    """

    kind: Literal["call", "result", "memory"]
    name: str
    summary: str


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
    steps: list[ChatStep] = []
    stored_ids: list[str]
    replayed: bool


class Archived(Wire):
    """Ids of the batch, all durable now."""

    stored_ids: list[str]


class SessionEntry(Wire):
    """A session in a list; title and summary may be empty, only durable messages are counted."""

    session_id: str
    agent_id: str
    title: str
    summary: str
    message_count: Annotated[int, Field(validation_alias="chat_count")]
    created_at: datetime
    last_activity_at: datetime


class SessionPage(Wire):
    """A page of sessions, most recently used first; `next` is the cursor for the following page, null at the end."""

    sessions: list[SessionEntry]
    next: str | None


class MessagePage(Wire):
    """A page of messages, oldest first; `next` is the cursor for older messages, null at the end."""

    messages: list[ChatMessage]
    next: str | None


class NotesText(Wire):
    """Long-term notes, Markdown; "" for none."""

    notes: str


class NotesEntry(Wire):
    """The long-term notes of an agent; version 0 means that none were written yet."""

    agent_id: str
    notes: str
    version: int
    updated_at: datetime | None


class NotesVersionEntry(Wire):
    """A version of notes; `repeats` is the version whose text it is."""

    version: int
    notes: Annotated[str, Field(validation_alias="text")]
    repeats: int
    operation: str
    written_at: datetime


class NotesVersions(Wire):
    """The versions of notes, newest first."""

    versions: list[NotesVersionEntry]


# --- reading and writing


async def read_body(request: Request, limits: BodyLimits, model: type[_Model]) -> _Model:
    """Parse a request body within limits; raise ProblemError."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != JSON or request.headers.get("content-encoding", "identity") != "identity":
        raise ProblemError("wrong-media-type", f"send JSON, uncompressed, as {JSON}")

    def parse_within_limits(body: bytes) -> _Model:
        check_json(body, limits)
        return parse(model, body)

    try:
        body = await read_bytes(request.receive, limits, request.headers.get("content-length", ""))
        return await off_the_loop(parse_within_limits, body)
    except BodyRefusal as refusal:
        raise ProblemError(_REFUSALS[refusal.kind], str(refusal)) from None
    except ClientGone:
        raise ClientDisconnect from None


def route(
    router: APIRouter,
    method: str,
    path: str,
    summary: str,
    answer: type[BaseModel] | None,
    *problems: ProblemKind,
    body: type[BaseModel] | None = None,
    described: Mapping[str, Any] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the decorator of a route, with its description for OpenAPI.

    Args:
        answer: None for a 204.
        problems: Beside those of every route, and of every body.
        described: More of the answer's description.
    """
    found: dict[int | str, dict[str, Any]] = {} if answer is None else {200: {"model": answer, **(described or {})}}
    return router.api_route(
        path,
        methods=[method],
        summary=summary,
        status_code=204 if answer is None else 200,
        response_class=Response,
        openapi_extra=_request_body(body) if body else None,
        responses=found | problem_responses(*ALWAYS, *(OF_BODY if body else ()), *problems),
    )


def _request_body(model: type[BaseModel]) -> dict[str, Any]:
    """Describe a body for OpenAPI, as `read_body` bypasses FastAPI's models."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema}}}}


def parse(model: type[_Model], body: bytes) -> _Model:
    """Parse a body; raise ProblemError with the JSON pointer of each flaw."""
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        if found[0]["type"] == "json_invalid":
            raise ProblemError("not-json", found[0]["msg"]) from None
        flaws = [Flaw(detail=one["msg"], pointer=_pointer(one["loc"])) for one in found[:_MAX_FLAWS]]
        raise ProblemError("invalid", f"{len(found)} of its parts are not as they have to be", flaws=flaws) from None


def _pointer(place: Sequence[int | str]) -> str:
    return "#/" + "/".join(str(part).replace("~", "~0").replace("/", "~1")[:100] for part in place)


def to_json(value: BaseModel) -> str:
    """Return ASCII JSON, which carries any text."""
    return json.dumps(value.model_dump(), default=_time_to_json, separators=(",", ":"))


def _time_to_json(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")
    raise TypeError(f"{value!r} is not a wire value")


def replace_surrogates(text: str) -> str:
    """Replace each lone surrogate by U+FFFD."""
    return _SURROGATES.sub("\ufffd", text)


def encode_cursor(at: datetime, id_: str) -> str:
    """Return a place as an opaque URL-safe cursor."""
    place = f"{at.astimezone(timezone.utc).isoformat()} {id_}".encode("utf-8", "surrogatepass")
    return base64.urlsafe_b64encode(place).decode().rstrip("=")


def decode_cursor(cursor: str | None) -> tuple[datetime, str] | None:
    """Return the place of a cursor; raise ProblemError for a foreign one."""
    if cursor is None:
        return None
    try:
        place = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        at, _, id_ = place.decode("utf-8", "surrogatepass").partition(" ")
        return _check_time(datetime.fromisoformat(at).astimezone(timezone.utc)), _check_id(id_)
    except (ValueError, binascii.Error, OverflowError):
        text = "`before` was never given by this server: send the `next` of the page before, or leave it out"
        raise ProblemError("unknown-cursor", text) from None


def json_response(value: BaseModel, headers: Mapping[str, str] | None = None) -> Response:
    """Return a value as the answer of a request."""
    return Response(to_json(value), headers=headers, media_type=JSON)
