"""The routes of what is kept of a user, for any surface: statements, and names of secrets (never values).

GET    {prefix}/memory                    preferences and facts, newest first, and those to be confirmed
POST   {prefix}/memory                    add one
PUT    {prefix}/memory/{key}              edit: the older one stays, linked
POST   {prefix}/memory/{key}/confirm
DELETE {prefix}/memory/{key}              forget
GET    {prefix}/secrets                   names of secrets
DELETE {prefix}/secrets/{name}
"""

from collections.abc import Awaitable, Mapping
from datetime import date, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Path, Query
from pydantic import AwareDatetime, Field

from memory_context.foundation.errors import SecretError
from memory_context.foundation.references import KEY_PATTERN, MemoryRef
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.items import MemoryItem
from memory_context.store.items import TRUSTED_ORIGINS, USER_TYPES
from memory_context.store.memory_store import MemoryStore

from .errors import invalid, refusals
from .wire import Text, Wire

__all__ = ["add_user_memory"]

_Name = Annotated[str, Path(pattern="^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
_Key = Annotated[str, Path(pattern=f"^{KEY_PATTERN.pattern}$")]
_STATEMENT = refusals(_404="There is no such statement")
_SECRET = refusals(_404="There is no such secret")


class StatementRequest(Wire):
    """A statement of one line and at most 300 characters; an edit keeps the type."""

    statement: Annotated[str, Field(min_length=1, max_length=2000)]
    type: Literal["user_preference", "user_fact"] = "user_fact"


class StatementEntry(Wire):
    """A statement about the user.

    Attributes:
        origin: `user_words`, `user_edit` and `application` are user memory; all others wait for confirmation.
        quote: The user's words that it rests on, said in message number `message` of `session_id`; empty if it was
            entered or stored.
        confirmed_by: Who entered or confirmed it.
        valid_from: Since when it holds; `recorded_at` is when it was stored.
        valid_until: Null while it holds; `superseded_by` names what replaced it.
    """

    key: str
    statement: Text
    type: str
    origin: str
    quote: Text
    session_id: Text
    message: int | None
    confirmed_by: Text
    recorded_at: datetime
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
            message=said_at if isinstance(said_at := told.get("quoted_at"), int) else None,
            confirmed_by=str(told.get("confirmed_by") or ""),
            recorded_at=value.created_at,
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


def add_user_memory(router: APIRouter, memory_store: MemoryStore, user: Any) -> None:
    """Add the routes; `user` is the dependency that returns the authenticated user's id."""

    def memory_of_user(user_id: str = user) -> AgentMemory:
        return AgentMemory(memory_store, user_id)

    own = Depends(memory_of_user)

    @router.get("/memory", summary="What is known of the user")
    async def statements(
        as_of: Annotated[AwareDatetime | date | None, Query()] = None,
        superseded: bool = False,
        limit: Annotated[int, Query(ge=1, le=5000)] = 200,
        memory: AgentMemory = own,
    ) -> StatementPage:
        known = await memory.user_memory(as_of, with_superseded=superseded, limit=limit)
        claims = await memory.unconfirmed(limit)
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
