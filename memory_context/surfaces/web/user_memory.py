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
"""

from collections.abc import Awaitable, Mapping
from datetime import date, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, HTTPException, Path, Query, Response
from pydantic import AwareDatetime, Field

from memory_context.foundation.errors import ConflictError, NotesError, SecretError
from memory_context.foundation.references import KEY_PATTERN, MemoryRef
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.items import MemoryItem
from memory_context.memory.notes import LongTermNotes
from memory_context.store.items import TRUSTED_ORIGINS, USER_TYPES
from memory_context.store.memory_store import MemoryStore
from memory_context.store.notes import AgentNotes

from ..access.errors import invalid, refusals
from .chat import Chat
from .schemas import Identifier, Text, Wire

__all__ = ["add_notes", "add_user_memory"]

_Name = Annotated[str, Path(pattern="^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
_Key = Annotated[str, Path(pattern=f"^{KEY_PATTERN.pattern}$")]
_STATEMENT = refusals(_404="There is no such statement")
_SECRET = refusals(_404="There is no such secret")
_AGENT = refusals(_404="There is no such agent")


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
    statement: Text
    type: str
    origin: str
    quote: Text
    session_id: Text
    confirmed_by: Text
    valid_from: datetime
    valid_until: datetime | None
    superseded_by: str | None

    @classmethod
    def of(cls, value: MemoryItem) -> "StatementEntry":
        # of an untrusted origin the metadata is the claim of whoever stored it
        told: Mapping[str, Any] = value.metadata if value.origin in TRUSTED_ORIGINS else {}
        return cls(
            key=value.key,
            statement=value.content,
            type=value.type,
            origin=value.origin,
            quote=str(told.get("quote") or ""),
            session_id=str(told.get("quoted_session") or ""),
            confirmed_by=str(told.get("confirmed_by") or ""),
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


class NotesText(Wire):
    """Long-term notes, Markdown; "" for none."""

    notes: str


class NotesEntry(Wire):
    """The long-term notes of an agent; version 0 means that none were written yet."""

    agent_id: str
    notes: Text
    version: int
    updated_at: datetime | None


def add_user_memory(router: APIRouter, memory_store: MemoryStore, user: Any) -> None:
    """Add the routes; `user` is the dependency that returns the authenticated user's id."""

    def memory_of_user(user_id: str = user) -> AgentMemory:
        return AgentMemory(memory_store, user_id)

    own = Depends(memory_of_user)

    @router.get("/memory", summary="What is known of the user")
    async def statements(
        as_of: Annotated[AwareDatetime | date | None, Query()] = None,
        superseded: bool = False,
        memory: AgentMemory = own,
    ) -> StatementPage:
        known = await memory.user_memory(as_of, with_superseded=superseded)
        claims = await memory.unconfirmed()
        return StatementPage(
            statements=[StatementEntry.of(item) for item in known],
            unconfirmed=[StatementEntry.of(item) for item in claims],
        )

    @router.post("/memory", summary="Add a preference or fact")
    async def add(asked: StatementRequest, memory: AgentMemory = own) -> StatementKey:
        return await _changed(memory.add(asked.statement, type=asked.type))

    @router.put("/memory/{key}", summary="Edit a preference or fact; the older one stays, linked", responses=_STATEMENT)
    async def edit(asked: StatementRequest, key: _Key, memory: AgentMemory = own) -> StatementKey:
        return await _changed(memory.edit(key, asked.statement))

    @router.post("/memory/{key}/confirm", summary="Confirm what a model, tool or file stored", responses=_STATEMENT)
    async def confirm(key: _Key, memory: AgentMemory = own) -> StatementKey:
        return await _changed(memory.confirm(key))

    @router.delete("/memory/{key}", status_code=204, summary="Forget a preference or fact", responses=_STATEMENT)
    async def forget(key: _Key, user_id: str = user) -> None:
        found = await memory_store.items.fetch_memory(user_id, key)
        if found is None or found.type not in USER_TYPES or not await memory_store.user_stats.forget(user_id, [key]):
            raise HTTPException(404, f"no preference or fact {key!r} is stored")

    @router.get("/secrets", summary="The names of the user's secrets")
    async def secrets(memory: AgentMemory = own) -> SecretList:
        return SecretList.model_validate({"secrets": await memory.secrets.names()})

    @router.delete(
        "/secrets/{name}", status_code=204, summary="Delete a secret; texts keep its name", responses=_SECRET
    )
    async def delete_secret(name: _Name, memory: AgentMemory = own) -> None:
        if not await memory.secrets.delete(name):
            raise HTTPException(404, f"no secret {name!r} is stored")

    _ = statements, add, edit, confirm, forget, secrets, delete_secret


async def _changed(change: Awaitable[MemoryRef]) -> StatementKey:
    try:
        return StatementKey(key=(await change).key)
    except (SecretError, ValueError) as error:
        raise invalid(str(error), "statement") from None


_IfMatch = Annotated[
    str | None, Header(pattern='^"[0-9]{1,18}"$', description='The ETag of the notes that were read, such as `"3"`.')
]


def add_notes(router: APIRouter, user: Any, chat: Chat) -> None:
    """Add the routes; `user` is the dependency that returns the user's id."""

    def notes_of_user(agent_id: Identifier, user_id: str = user) -> LongTermNotes:
        return chat.notes(user_id, agent_id)

    own = Depends(notes_of_user)

    def told(response: Response, agent_id: str, found: AgentNotes) -> NotesEntry:
        response.headers["ETag"] = f'"{found.version}"'
        return NotesEntry(agent_id=agent_id, notes=found.text, version=found.version, updated_at=found.updated_at)

    @router.get(
        "/notes/{agent_id:chat_id}",
        summary="The long-term notes of an agent about the user; their version is the ETag",
        responses=_AGENT,
    )
    async def read(response: Response, notes: LongTermNotes = own) -> NotesEntry:
        return told(response, notes.agent_id, await notes.fetch())

    @router.put(
        "/notes/{agent_id:chat_id}",
        summary="Replace the notes, if the version in If-Match is in force; that of no notes is 0",
        responses=_AGENT | refusals(_412="Another version is in force", _428="If-Match has to name a version"),
    )
    async def write(
        asked: NotesText, response: Response, if_match: _IfMatch = None, notes: LongTermNotes = own
    ) -> NotesEntry:
        if if_match is None:
            raise HTTPException(428, "send the ETag of the notes that you read as If-Match")
        try:
            found = await notes.overwrite(asked.notes, expected_version=int(if_match.strip('"')))
        except ConflictError as error:
            raise HTTPException(412, str(error)) from None
        except NotesError as error:
            raise invalid(str(error), "notes") from None
        return told(response, notes.agent_id, found)

    _ = read, write
