"""The routes of what is kept of a user: statements, names of secrets (never values), and agents' notes.

GET    {prefix}/memory                    preferences and facts, newest first, and those to be confirmed
POST   {prefix}/memory                    add one
PUT    {prefix}/memory/{key}              edit: the older one stays, linked
POST   {prefix}/memory/{key}/confirm
DELETE {prefix}/memory/{key}              forget
GET    {prefix}/secrets                   names of secrets
DELETE {prefix}/secrets/{name}
GET    {prefix}/notes/{agent}             long-term notes; their version is the ETag
PUT    {prefix}/notes/{agent}             replaces them, If-Match
GET    {prefix}/notes/{agent}/versions
"""

from collections.abc import Awaitable
from datetime import date, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Path, Query, Request, Response
from pydantic import AwareDatetime, Field

from memory_context.foundation.errors import ConflictError, ItemNotFoundError, NotesError, SecretError
from memory_context.foundation.references import KEY_PATTERN, MemoryRef
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.items import MemoryItem
from memory_context.store.items import TRUSTED_ORIGINS, USER_TYPES
from memory_context.store.memory_store import MemoryStore
from memory_context.store.notes import AgentNotes

from ..access.bodies import BodyLimits
from .chat import Chat, ChatLimits
from .problems import Flaw, ProblemError
from .schemas import (
    Identifier,
    NotesEntry,
    NotesText,
    NotesVersionEntry,
    NotesVersions,
    Wire,
    json_response,
    read_body,
    route,
)

__all__ = ["add_notes", "add_user_memory"]

_Name = Annotated[str, Path(pattern="^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
_Key = Annotated[str, Path(pattern=f"^{KEY_PATTERN.pattern}$")]


class StatementRequest(Wire):
    """A statement of one line and at most 300 characters; an edit keeps the type."""

    statement: Annotated[str, Field(min_length=1, max_length=2000)]
    type: Literal["user_preference", "user_fact"] = "user_fact"


class StatementEntry(Wire):
    """A statement about the user.

    Attributes:
        origin: `user_words`, `user_edit` and `application` are user memory; all others wait for confirmation.
        quote: The user's words that it rests on, said in `session_id`; empty if it was entered or stored.
        confirmed_by: Who entered or confirmed it.
        valid_until: Null while it holds; `superseded_by` names what replaced it.
    """

    key: str
    statement: str
    type: str
    origin: str
    quote: str
    session_id: str
    confirmed_by: str
    valid_from: datetime
    valid_until: datetime | None
    superseded_by: str | None

    @classmethod
    def of(cls, value: MemoryItem) -> "StatementEntry":
        words = {name: str(value.metadata.get(name) or "") for name in ("quote", "quoted_session", "confirmed_by")}
        is_claim = value.origin not in TRUSTED_ORIGINS  # its metadata is the claim of whoever stored it
        return cls(
            key=value.key,
            statement=value.content,
            type=value.type,
            origin=value.origin,
            quote="" if is_claim else words["quote"],
            session_id="" if is_claim else words["quoted_session"],
            confirmed_by="" if is_claim else words["confirmed_by"],
            valid_from=value.valid_from or value.created_at,
            valid_until=value.valid_until,
            superseded_by=value.superseded_by,
        )


class StatementPage(Wire):
    """User memory, and items of the same types that a model, tool or file stored, whole up to 2,000 characters."""

    statements: list[StatementEntry]
    unconfirmed: list[StatementEntry]


class StatementKey(Wire):
    """The key of the statement that holds now."""

    key: str


class SecretEntry(Wire):
    """The name of a secret, which texts hold as `{{secret:NAME}}`; one without a value came with an import."""

    name: str
    has_value: bool
    updated_at: datetime


class SecretList(Wire):
    """The user's secrets by name; no route returns or takes a value."""

    secrets: list[SecretEntry]


def add_user_memory(router: APIRouter, memory_store: MemoryStore, user: Any, limits: BodyLimits) -> None:
    """Add the routes; `user` is the dependency that returns the authenticated user's id."""

    @route(router, "GET", "/memory", "What is known of the user", StatementPage)
    async def statements(
        as_of: Annotated[AwareDatetime | date | None, Query()] = None, superseded: bool = False, user_id: str = user
    ) -> Response:
        memory = AgentMemory(memory_store, user_id)
        known = await memory.user_memory(as_of, with_superseded=superseded)
        claims = await memory.unconfirmed()
        return json_response(
            StatementPage(
                statements=[StatementEntry.of(item) for item in known],
                unconfirmed=[StatementEntry.of(item) for item in claims],
            )
        )

    @route(router, "POST", "/memory", "Add a preference or fact", StatementKey, body=StatementRequest)
    async def add(request: Request, user_id: str = user) -> Response:
        asked = await read_body(request, limits, StatementRequest)
        return await _changed(AgentMemory(memory_store, user_id).add(asked.statement, type=asked.type))

    summary = "Edit a preference or fact; the older one stays, linked"

    @route(router, "PUT", "/memory/{key}", summary, StatementKey, "unknown-statement", body=StatementRequest)
    async def edit(request: Request, key: _Key, user_id: str = user) -> Response:
        asked = await read_body(request, limits, StatementRequest)
        return await _changed(AgentMemory(memory_store, user_id).edit(key, asked.statement))

    summary = "Confirm what a model, tool or file stored"

    @route(router, "POST", "/memory/{key}/confirm", summary, StatementKey, "unknown-statement")
    async def confirm(key: _Key, user_id: str = user) -> Response:
        return await _changed(AgentMemory(memory_store, user_id).confirm(key))

    @route(router, "DELETE", "/memory/{key}", "Forget a preference or fact", None, "unknown-statement")
    async def forget(key: _Key, user_id: str = user) -> Response:
        found = await memory_store.items.fetch_memory(user_id, key)
        if found is None or found.type not in USER_TYPES or not await memory_store.user_stats.forget(user_id, [key]):
            raise ProblemError("unknown-statement", f"no preference or fact {key!r} is stored")
        return Response(status_code=204)

    @route(router, "GET", "/secrets", "The names of the user's secrets", SecretList)
    async def secrets(user_id: str = user) -> Response:
        names = await AgentMemory(memory_store, user_id).secrets.names()
        return json_response(SecretList(secrets=[SecretEntry.of(one) for one in names]))

    @route(router, "DELETE", "/secrets/{name}", "Delete a secret; texts keep its name", None, "unknown-secret")
    async def delete_secret(name: _Name, user_id: str = user) -> Response:
        if not await AgentMemory(memory_store, user_id).secrets.delete(name):
            raise ProblemError("unknown-secret", f"no secret {name!r} is stored")
        return Response(status_code=204)

    _ = statements, add, edit, confirm, forget, secrets, delete_secret


async def _changed(change: Awaitable[MemoryRef]) -> Response:
    try:
        return json_response(StatementKey(key=(await change).key))
    except ItemNotFoundError as error:
        raise ProblemError("unknown-statement", str(error)) from None
    except (SecretError, ValueError) as error:
        raise ProblemError("invalid", str(error)) from None


IfMatch = Annotated[
    str | None, Header(pattern='^"[0-9]{1,18}"$', description='The ETag of the notes that were read, such as `"3"`.')
]


def add_notes(router: APIRouter, user: Any, chat: Chat, limits: ChatLimits) -> None:
    """Add the routes; `user` is the dependency that returns the user's id."""

    def answer(agent_id: str, found: AgentNotes) -> Response:
        body = NotesEntry(agent_id=agent_id, notes=found.text, version=found.version, updated_at=found.updated_at)
        return json_response(body, {"ETag": f'"{found.version}"'})

    @route(
        router,
        "GET",
        "/notes/{agent_id}",
        "The long-term notes of an agent about the user; their version is the ETag",
        NotesEntry,
        "unknown-agent",
    )
    async def notes(agent_id: Identifier, user_id: str = user) -> Response:
        return answer(agent_id, await chat.notes(user_id, agent_id).fetch())

    @route(
        router,
        "PUT",
        "/notes/{agent_id}",
        "Replace the notes, if the version in If-Match is in force; that of no notes is 0",
        NotesEntry,
        "unknown-agent",
        "stale-version",
        "version-needed",
        body=NotesText,
    )
    async def write(request: Request, agent_id: Identifier, if_match: IfMatch = None, user_id: str = user) -> Response:
        notes = chat.notes(user_id, agent_id)
        asked = await read_body(request, limits.body, NotesText)
        if if_match is None:
            raise ProblemError("version-needed", "send the ETag of the notes that you read as If-Match")
        version = int(if_match.strip('"'))
        try:
            return answer(agent_id, await notes.overwrite(asked.notes, expected_version=version))
        except ConflictError as error:
            raise ProblemError("stale-version", str(error)) from None
        except NotesError as error:
            flaws = [Flaw(detail=str(error), pointer="#/notes")]
            raise ProblemError("invalid", "these notes are not taken", flaws=flaws) from None

    summary = "The notes in force and their last versions, the newest first"

    @route(router, "GET", "/notes/{agent_id}/versions", summary, NotesVersions, "unknown-agent")
    async def versions(agent_id: Identifier, user_id: str = user) -> Response:
        found = await chat.notes(user_id, agent_id).versions()
        return json_response(NotesVersions(versions=[NotesVersionEntry.of(one) for one in found]))

    _ = notes, write, versions
