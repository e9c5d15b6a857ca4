"""The inspector's routes of what is kept of a user: statements, items, what was said, notes, secrets' names, jobs.

GET  /api/memory, /api/secrets, …             `access.user_memory`: list, add, edit, confirm, delete
GET  /api/items                               what is stored, or found, by text, type, source, session, agent, origin
GET  /api/going?key=…  POST /api/forget       what forgetting would take; forgetting exactly that
GET  /api/said                                messages, found by words, or the newest
GET  /api/sessions/{id}/said?message=…        a message with those around it, and the call that read it first
GET  /api/sessions/{id}/extent  DELETE …/{id} what goes with a session; deleting it
GET  /api/notes/{agent}  PUT  POST …/undo     long-term notes with their versions
GET  /api/jobs  POST /api/jobs/retry          what waits, and dead letters
"""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query
from pydantic import AwareDatetime, Field

from memory_context.foundation.errors import ConflictError, NotesError
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.items import MemoryItem
from memory_context.memory.notes import LongTermNotes
from memory_context.memory.scope import MemorySnapshot
from memory_context.store.items import MemoryCriteria, Origin
from memory_context.store.memory_store import MemoryStore
from memory_context.store.notes import AgentNotes
from memory_context.view.calls import recorded_calls

from ..access.errors import invalid
from ..access.user_memory import add_user_memory
from ..access.wire import Wire
from .archive import ArchivedSessions
from .items import listed

__all__ = ["add_memory"]

_PAGE_ITEMS = 50
_SCANNED_ITEMS = 1000  # for those of an origin, by which the store does not choose
_BEFORE, _AROUND = 2, 6  # messages
_Keys = Annotated[list[str], Field(min_length=1, max_length=1000)]


class ForgetRequest(Wire):
    """Keys of items, and all keys that the user was told would go with them."""

    keys: _Keys
    agreed: _Keys


class NotesRequest(Wire):
    """Notes that replace those of a version."""

    notes: str
    version: int


class UndoRequest(Wire):
    """A kept version; null for the one before."""

    version: int | None = None


def add_memory(router: APIRouter, store: MemoryStore, user: Any) -> None:
    """Add the routes; `user` is the dependency that returns the authenticated user's id."""

    async def of_user(user_id: str = user) -> AgentMemory:
        """Return the memory as its user reads it: what is private to an agent is not private from the user."""
        memory, scope = AgentMemory(store, user_id), await store.user_stats.scope(user_id)
        if scope.keys is not None:
            taken_at = datetime.now(timezone.utc)
            everything = MemorySnapshot.model_construct(
                user_id=user_id, agent_id="", session_id="", taken_at=taken_at, keys=scope.keys
            )
            await memory.restore(everything)
        return memory

    shared = APIRouter(prefix="/api", route_class=router.route_class)
    add_user_memory(shared, store, user)
    router.include_router(shared)
    _add_items(router, Depends(of_user))
    _add_forgetting(router, Depends(of_user))
    _add_sessions(router, Depends(of_user))
    _add_notes(router, store, user)
    _add_jobs(router, store, user)


def _add_items(router: APIRouter, own: Any) -> None:
    @router.get("/api/items")
    async def items(
        q: str = "",
        type: str | None = None,
        source: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        origin: Origin | None = None,
        before: AwareDatetime | None = None,
        offset: Annotated[int, Query(ge=0)] = 0,
        memory: AgentMemory = own,
    ) -> dict[str, Any]:
        chosen: dict[str, Any] = {"types": (type,) if type else (), "sources": (source,) if source else ()}
        chosen |= {"session_id": session, "agent_id": agent, "created_before": before}
        if q.strip():
            hits = await memory.search(q, _PAGE_ITEMS, MemoryCriteria(**chosen, conversation=False), reader=None)
            hits = sorted(hits, key=lambda hit: not hit.is_relevant)
            found = [{**listed(hit.item), "passage": hit.passage, "is_relevant": hit.is_relevant} for hit in hits]
            return {"items": [one for one in found if origin in (None, one["origin"])], "next": None}
        scanned = _SCANNED_ITEMS if origin else _PAGE_ITEMS + 1
        rows = await memory.query(MemoryCriteria(**chosen, limit=scanned, offset=offset), reader=None)
        of_origin = [(at, one) for at, one in enumerate(rows, offset + 1) if origin in (None, one.origin)]
        page = of_origin[:_PAGE_ITEMS]
        is_cut = len(of_origin) > len(page)
        following = page[-1][0] if is_cut else offset + len(rows) if len(rows) == scanned else None
        return {"items": [listed(one) for _, one in page], "next": following}

    _ = items


def _add_forgetting(router: APIRouter, own: Any) -> None:
    @router.get("/api/going")
    async def going(key: Annotated[list[str], Query(min_length=1)], memory: AgentMemory = own) -> dict[str, Any]:
        stats = memory.memory_store.user_stats
        found = await stats.forgettable(memory.user_id, key, memory.scope, is_shared=True)
        if not found:
            raise await memory.not_found(key[0])
        names = ("memory_key", "description", "memory_type", "token_count")
        linked = await memory.query(MemoryCriteria(related_to=key[0], limit=_PAGE_ITEMS), reader=None)
        made = [listed(one) for one in linked if one.origin == "consolidation" and key[0] in one.related_to]
        sessions = await stats.item_sessions(memory.user_id, [one.memory_key for one in found])
        items = [{name: getattr(one, name) for name in names} for one in found]
        return {"items": items, "made_from_it": made, "sessions": sessions}

    @router.post("/api/forget")
    async def forget(asked: ForgetRequest, memory: AgentMemory = own) -> dict[str, Any]:
        stats, user_id = memory.memory_store.user_stats, memory.user_id
        if sorted(await stats.keys_of_contents(user_id, asked.keys)) != sorted(asked.agreed):
            raise HTTPException(409, "what would go has changed meanwhile: look at it again")
        return {"forgotten": await stats.forget(user_id, asked.keys)}

    _ = going, forget


def _add_sessions(router: APIRouter, own: Any) -> None:
    @router.get("/api/said")
    async def said(
        q: str = "",
        session: str | None = None,
        offset: Annotated[int, Query(ge=0)] = 0,
        memory: AgentMemory = own,
    ) -> dict[str, Any]:
        criteria = MemoryCriteria(conversation=True, session_id=session, limit=_PAGE_ITEMS, offset=offset)
        if q.strip():
            hits = await memory.search(q, _PAGE_ITEMS, criteria, reader=None)
            return {"messages": [_message(hit.item) for hit in hits], "next": None}
        rows = await memory.query(criteria, reader=None)
        following = offset + len(rows) if len(rows) == _PAGE_ITEMS else None
        return {"messages": [_message(one) for one in rows], "next": following}

    @router.get("/api/sessions/{session_id:chat_id}/said")
    async def around(
        session_id: str, message: Annotated[int, Query(ge=1)], agent: str | None = None, memory: AgentMemory = own
    ) -> dict[str, Any]:
        first = max(message - _BEFORE, 1)
        read = memory.read_conversation(session_id=session_id, first_message=first, limit=_AROUND, reader=None)
        found = [one for one in map(_message, await read) if agent in (None, one["agent_id"])]
        if all(one["message"] != message for one in found):
            raise HTTPException(404, f"message {message} of session {session_id!r} is not archived, or still to come")
        agent_id = next(one["agent_id"] for one in found if one["message"] == message)
        saved = (await ArchivedSessions(memory.memory_store).read(memory.user_id, session_id, agent_id)).saved
        calls = await in_thread_if_large(len(saved["decisions"]) * 200, recorded_calls, saved)
        call = next((call.number for call, _ in calls if call.messages >= message), None)
        return {"messages": found, "agent_id": agent_id, "call": call}

    @router.get("/api/sessions/{session_id:chat_id}/extent")
    async def extent(session_id: str, memory: AgentMemory = own) -> dict[str, Any]:
        store, user_id = memory.memory_store, memory.user_id
        session = await ArchivedSessions(store).info(user_id, session_id)
        return {**asdict(session), **asdict(await store.user_stats.session_extent(user_id, session_id))}

    @router.delete("/api/sessions/{session_id:chat_id}", status_code=204)
    async def delete(session_id: str, memory: AgentMemory = own) -> None:
        if not await memory.memory_store.conversations.delete_session(memory.user_id, session_id):
            raise HTTPException(404, f"there is no session {session_id!r}")

    _ = said, around, extent, delete


def _add_notes(router: APIRouter, store: MemoryStore, user: Any) -> None:
    async def told(user_id: str, agent_id: str, found: AgentNotes) -> dict[str, Any]:
        versions = [asdict(one) for one in await LongTermNotes(store, user_id, agent_id).versions()]
        return {"agent_id": agent_id, "notes": found.text, "version": found.version, "versions": versions}

    @router.get("/api/notes")
    async def agents(user_id: str = user) -> dict[str, Any]:
        return {"agents": [asdict(one) for one in await store.notes.agents(user_id)]}

    @router.get("/api/notes/{agent_id:chat_id}")
    async def notes(agent_id: str, user_id: str = user) -> dict[str, Any]:
        return await told(user_id, agent_id, await LongTermNotes(store, user_id, agent_id).fetch())

    @router.put("/api/notes/{agent_id:chat_id}")
    async def write(agent_id: str, asked: NotesRequest, user_id: str = user) -> dict[str, Any]:
        own = LongTermNotes(store, user_id, agent_id)
        with _explained():
            return await told(user_id, agent_id, await own.overwrite(asked.notes, expected_version=asked.version))

    @router.post("/api/notes/{agent_id:chat_id}/undo")
    async def undo(agent_id: str, asked: UndoRequest, user_id: str = user) -> dict[str, Any]:
        with _explained():
            return await told(user_id, agent_id, await LongTermNotes(store, user_id, agent_id).undo(asked.version))

    _ = agents, notes, write, undo


def _add_jobs(router: APIRouter, store: MemoryStore, user: Any) -> None:
    @router.get("/api/jobs")
    async def jobs(user_id: str = user) -> dict[str, Any]:
        failed = [asdict(one) for one in await store.jobs.failures(user_id)]
        return {"kinds": await store.user_stats.jobs(user_id), "failed": failed}

    @router.post("/api/jobs/retry")
    async def retry(user_id: str = user) -> dict[str, int]:
        retried = await store.jobs.retry_failed(user_id)
        store.jobs.wake(user_id)
        return {"retried": retried}

    _ = jobs, retry


@contextmanager
def _explained() -> Generator[None, None, None]:
    try:
        yield
    except ConflictError as error:
        raise HTTPException(412, str(error)) from None
    except NotesError as error:
        raise invalid(str(error), "notes") from None


def _message(one: MemoryItem) -> dict[str, Any]:
    place = {"session_id": one.session_id, "agent_id": one.agent_id, "session_title": one.session_title}
    said = {"by": one.source, "origin": one.origin, "at": one.created_at, "key": one.key}
    return {**place, **said, "message": one.metadata.get("position"), "text": one.content or one.ref.description}
