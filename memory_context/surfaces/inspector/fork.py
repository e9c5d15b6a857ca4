"""The inspector's routes that go on from what is archived: a fork from a call, and observing a session now.

POST /api/sessions/{id}/calls/{n}/fork    a new session with the history up to a call; the other stays as it is
POST /api/sessions/{id}/compact           observes what is new, by an instruction; old messages give way to it
"""

from typing import Annotated, Any

from autogen_core.models import ChatCompletionClient
from fastapi import APIRouter, HTTPException
from pydantic import Field

from memory_context.context.builder import choose_light_model
from memory_context.context.context import MemoryContext
from memory_context.foundation.errors import ConflictError
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.sessions.archive.fork import fork_session
from memory_context.sessions.live.cache import SessionCache
from memory_context.store.memory_store import MemoryStore
from memory_context.view.calls import recorded_calls

from ..access.wire import Wire
from .archive import ArchivedSessions

__all__ = ["add_fork"]

_CALLS_CHARACTERS = 1_000_000  # of reading the calls of a session: in a thread
_WAIT_SECONDS = 5.0  # for who has the session live


class CompactRequest(Wire):
    """A person's words on what to keep; "" leaves it to the observer."""

    instruction: Annotated[str, Field(max_length=4000)] = ""


def add_fork(
    router: APIRouter, store: MemoryStore, user: Any, policy: ContextPolicy, light_model: ChatCompletionClient | None
) -> None:
    """Add the routes; `user` is the dependency that returns the authenticated user's id."""
    sessions = ArchivedSessions(store)

    @router.post("/api/sessions/{session_id:chat_id}/calls/{number}/fork")
    async def fork(session_id: str, number: int, agent: str = "", user_id: str = user) -> dict[str, Any]:
        read = await sessions.read(user_id, session_id, agent)
        calls = await in_thread_if_large(_CALLS_CHARACTERS, recorded_calls, read.saved)
        call = next((one for one, _ in calls if one.number == number), None)
        if call is None or read.saved["decisions"][call.decision][1]["kind"] != "shown":
            raise HTTPException(404, f"no call {number} to fork from: there is none, or it was taken back")
        place = {"call": number, "messages": call.messages, "decision": call.decision}
        try:
            new = await fork_session(store, read.key, read.saved, **place)
        except ConflictError as error:
            raise HTTPException(409, str(error)) from None
        return {"session_id": new.session_id, "agent_id": new.agent_id}

    @router.post("/api/sessions/{session_id:chat_id}/compact")
    async def compact(session_id: str, asked: CompactRequest, agent: str = "", user_id: str = user) -> dict[str, Any]:
        key = (await sessions.read(user_id, session_id, agent)).key
        try:
            client = light_model or choose_light_model(None).client
        except ValueError as error:
            raise HTTPException(409, str(error)) from None
        if client is None:
            raise HTTPException(409, "no light model observes: name one in MEMORY_CONTEXT_LIGHT_MODEL and start again")
        told = policy.observation.instructions
        instructions = "\n".join(filter(None, (told, asked.instruction.strip())))
        observation = policy.observation.model_copy(update={"instructions": instructions, "mode": "auto"})
        return await _compacted(store, key, policy.model_copy(update={"observation": observation}), client)

    _ = fork, compact


async def _compacted(
    store: MemoryStore, key: SessionKey, policy: ContextPolicy, client: ChatCompletionClient
) -> dict[str, Any]:
    """Hold the session as a server does: who has it live elsewhere, and is not at work in it, passes it on."""
    cache = SessionCache(
        lambda key: MemoryContext(*key, store, policy=policy, model_client=client),
        memory_store=store,
        wait_seconds=_WAIT_SECONDS,
    )
    try:
        async with cache.hold(key) as context:
            left = context.transcript.state.history_start
            chunk = await context.observe_now(replaces=True)
            gone = context.transcript.state.history_start - left
            if chunk is None and not gone:
                text = "nothing is to be observed before the newest step, or the light model failed: the log says which"
                raise HTTPException(409, text)
            observed = [] if chunk is None else chunk.text.split("\n")
            return {"left": gone, "lines": observed, "observations": context.observation.observations}
    finally:
        await cache.close()
