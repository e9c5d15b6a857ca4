"""The routes of the chat, for any FastAPI application.

    POST   {prefix}                            ask: a whole answer, or server-sent events
    POST   {prefix}/session/archive_messages   store chat messages, also by a beacon
    GET    {prefix}/sessions                   list, most recently used first
    GET    {prefix}/sessions/{id}
    GET    {prefix}/sessions/{id}/messages     pages
    DELETE {prefix}/sessions/{id}
    GET    {prefix}/notes/{agent}              long-term notes; their version is the ETag
    PUT    {prefix}/notes/{agent}              replaces them, If-Match
           {prefix}/memory, {prefix}/secrets   see `user_memory`

The OpenAPI description lists every response, errors included.
"""

import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any

from autogen_core.models import ChatCompletionClient
from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request, Response
from limits import RateLimitItemPerMinute
from limits.aio.strategies import MovingWindowRateLimiter
from limits.storage import storage_from_string

from memory_context.foundation.errors import ConflictError, NotesError
from memory_context.foundation.identifiers import checked_identifier
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.runtime.background import OutageLog
from memory_context.memory.notes import LongTermNotes
from memory_context.sessions.live.entry import SessionStates
from memory_context.store.memory_store import MemoryStore
from memory_context.store.notes import AgentNotes

from ..access.errors import REFUSALS, invalid, refusals, route_class, try_again
from ..access.user_memory import add_user_memory
from ..access.wire import Identifier
from .chat import AgentBuilder, CacheBuilder, Chat, ChatLimits
from .run import EVENTS, collect, stream
from .schemas import (
    Archived,
    ArchiveRequest,
    ChatAnswer,
    ChatMessage,
    ChatRequest,
    MessagePage,
    NotesEntry,
    NotesText,
    SessionEntry,
    SessionId,
    SessionPage,
    decode_cursor,
    encode_cursor,
)

__all__ = ["HOST_SETTING", "ChatRouter", "CurrentUser", "RequestLimiter", "anonymous", "create_chat_router"]

CurrentUser = Callable[..., str | Awaitable[str]]
"""A FastAPI dependency that returns the user's id, or raises HTTPException."""

HOST_SETTING = "hosts (--public-host of memory-context serve)"
_MEMORY = "async+memory://"

Limit = Annotated[int, Query(ge=1, le=200)]
Before = Annotated[
    str | None,
    Query(
        pattern="^[A-Za-z0-9_-]{20,1000}$",
        description="The `next` of the page before; a value that no page gave is a 404.",
    ),
]

IfMatch = Annotated[
    str | None, Header(pattern='^"[0-9]{1,18}"$', description='The ETag of the notes that were read, such as `"3"`.')
]


class ChatRouter(APIRouter):
    """The routes of a chat; without their lifespan, an application opens and closes `chat` itself."""

    chat: Chat


def create_chat_router(
    memory_store: MemoryStore,
    build_agent: AgentBuilder | Mapping[str, AgentBuilder],
    current_user: CurrentUser | None = None,
    *,
    allow_anonymous: bool = False,
    agents: Sequence[str] = (),
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    policy: ContextPolicy | None = None,
    model_client: ChatCompletionClient | None = None,
    states: SessionStates | None = None,
    cache: CacheBuilder | None = None,
    limits: ChatLimits | None = None,
    limits_storage_url: str = _MEMORY,
    prefix: str = "/api/chat",
) -> ChatRouter:
    """Return the routes of a chat, for `app.include_router(...)`; their lifespan archives at the end.

    Args:
        memory_store: Store of the conversations, which stays open.
        build_agent: Makes an AutoGen agent or team around the context of a session; or such functions by agent id.
        current_user: The application's dependency that returns the user's id.
        allow_anonymous: Without `current_user`: everybody is the same user and reads the same sessions.
        agents: Ids of the agents that one `build_agent` makes by `context.agent_id`; the first is the default.
        hosts: Public names, such as `chat.example.org`; `*` for any. Loopback names are always allowed.
        origins: Other origins whose pages may write, such as `https://app.example.org`.
        model_client: Light model of the contexts.
        states: Session states kept between requests, such as `RedisStates`.
        cache: Makes the cache of live sessions, with states of its own.
        limits_storage_url: Storage of request counts; `async+redis://…` for several processes.

    Raises:
        ValueError: There is neither `current_user` nor `allow_anonymous`, or an argument is unusable.
    """
    if current_user is None and not allow_anonymous:
        raise ValueError(
            "unauthenticated: give current_user, your dependency that returns a user id, "
            "or allow_anonymous=True to let everybody be the same user"
        )
    limits = limits or ChatLimits()
    chat = Chat(
        memory_store,
        _builders(build_agent, agents),
        policy=policy,
        model_client=model_client,
        states=states,
        cache=cache,
        limits=limits,
    )

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None, None]:
        await chat.open()
        try:
            yield
        finally:
            await chat.close()

    route = route_class(limits.body_bytes, hosts, origins, HOST_SETTING)
    router = ChatRouter(prefix=prefix, route_class=route, tags=["chat"], lifespan=lifespan, responses=REFUSALS)
    router.chat = chat
    user = _user_dependency(current_user, RequestLimiter(limits.requests_per_minute, limits_storage_url))
    _add_answering(router, user, limits.ping_seconds)
    _add_sessions(router, user)
    _add_notes(router, user)
    add_user_memory(router, memory_store, user)
    return router


def _builders(
    build_agent: AgentBuilder | Mapping[str, AgentBuilder], agents: Sequence[str]
) -> Mapping[str, AgentBuilder]:
    if callable(build_agent):
        if not agents or isinstance(agents, str):
            raise ValueError(
                f"agents={agents!r}: name the agents that build_agent makes, such as agents=['assistant']; "
                "the first answers where a request names none"
            )
        builders: Mapping[str, AgentBuilder] = dict.fromkeys(agents, build_agent)
    elif agents and list(agents) != list(build_agent):
        raise ValueError(f"agents={agents!r}: build_agent names {', '.join(map(repr, build_agent))}; leave agents out")
    else:
        builders = {**build_agent}
    for agent_id in builders:
        checked_identifier("agent_id", agent_id)
    return builders


class RequestLimiter:
    """Counts requests in a moving window of a minute; without its storage, requests pass uncounted."""

    def __init__(self, per_minute: int, storage_url: str = _MEMORY) -> None:
        options = {} if storage_url == _MEMORY else {"implementation": "redispy"}
        self._item = RateLimitItemPerMinute(per_minute)
        self._limiter = MovingWindowRateLimiter(storage_from_string(storage_url, **options))  # pyright: ignore[reportArgumentType]
        self._outages = OutageLog()

    async def check(self, client: str) -> None:
        """Count a request; raise HTTPException over the limit."""
        try:
            is_allowed = await self._limiter.hit(self._item, "chat", client)
            window = None if is_allowed else await self._limiter.get_window_stats(self._item, "chat", client)
        except Exception as error:
            self._outages.failed("counting requests", "requests are not counted for now: %r", error)
            return
        self._outages.worked("counting requests")
        if window is not None:
            seconds = max(1, math.ceil(window.reset_time - time.time()))
            raise try_again(429, f"more than {self._item.amount} in a minute; come back in {seconds} s", seconds)


async def anonymous() -> str:
    """Return the user that everybody is without `current_user`."""
    return "anonymous"


def _user_dependency(current_user: CurrentUser | None, limiter: RequestLimiter) -> Any:
    async def counted_user(request: Request, told: Any = Depends(current_user or anonymous)) -> str:  # noqa: B008
        try:
            user_id = checked_identifier("user_id", told)
        except ValueError:
            raise HTTPException(403, "the user id has to be 1 to 128 printable characters") from None
        address = request.client.host if request.client else ""
        await limiter.check(f"user {user_id}" if current_user else f"address {address}")
        return user_id

    return Depends(counted_user)


def _add_answering(router: ChatRouter, user: Any, ping_seconds: int) -> None:
    chat = router.chat
    answered: dict[int | str, dict[str, Any]] = {
        200: {
            "description": "The answer; or the events session, delta, step, message, done, error",
            "content": {EVENTS: {"schema": {"type": "string"}}},
        }
    }
    refused = refusals(
        _404="There is no such agent",
        _409="The session is busy, or another agent's",
        _410="The session was deleted",
        _502="The agent failed",
        _504="The agent took too long",
    )

    @router.post(
        "", summary="Say something and get the answer", response_model=ChatAnswer, responses=answered | refused
    )
    async def say(request: Request, asked: ChatRequest, user_id: str = user) -> Response | ChatAnswer:
        messages = [message.to_store() for message in asked.new_messages]
        run = await chat.answer(user_id, asked.session_id, asked.agent_id, messages)
        if asked.stream or EVENTS in request.headers.get("accept", ""):
            return await stream(request, run, ping_seconds)
        return await collect(request, run)

    @router.post(
        "/session/archive_messages",
        summary="Make chat messages durable",
        responses=refusals(_404="There is no such agent", _410="The session was deleted"),
    )
    async def archive(asked: ArchiveRequest, user_id: str = user) -> Archived:
        messages = [message.to_store() for message in asked.messages_batch]
        return Archived(stored_ids=await chat.archive(user_id, asked.session_id, asked.agent_id, messages))

    _ = say, archive


def _add_sessions(router: ChatRouter, user: Any) -> None:
    chat = router.chat
    of_session = refusals(_404="There is no such session or page", _410="The session was deleted")

    @router.get(
        "/sessions",
        summary="List one's sessions, the last used first",
        responses=refusals(_404="There is no such page"),
    )
    async def sessions(limit: Limit = 50, before: Before = None, user_id: str = user) -> SessionPage:
        found = await chat.list_sessions(user_id, limit, decode_cursor(before))
        more = encode_cursor(found[-1].last_activity_at, found[-1].session_id) if len(found) == limit else None
        return SessionPage(sessions=[SessionEntry.model_validate(info) for info in found], next=more)

    @router.get("/sessions/{session_id:chat_id}", summary="What is known of a session", responses=of_session)
    async def session(session_id: SessionId, user_id: str = user) -> SessionEntry:
        return SessionEntry.model_validate(await chat.session(user_id, session_id))

    @router.get(
        "/sessions/{session_id:chat_id}/messages",
        summary="The messages of a session, the newest page first, the oldest of a page first",
        responses=of_session,
    )
    async def messages(
        session_id: SessionId, limit: Limit = 50, before: Before = None, user_id: str = user
    ) -> MessagePage:
        found = await chat.messages(user_id, session_id, limit, decode_cursor(before))
        more = encode_cursor(found[0].timestamp, found[0].id) if len(found) == limit else None
        return MessagePage(messages=[ChatMessage.of(message) for message in found], next=more)

    @router.delete(
        "/sessions/{session_id:chat_id}",
        status_code=204,
        summary="Delete a session with all that was stored in it",
        responses=of_session,
    )
    async def delete(session_id: SessionId, user_id: str = user) -> None:
        await chat.delete(user_id, session_id)

    _ = sessions, session, messages, delete


def _add_notes(router: ChatRouter, user: Any) -> None:
    chat, agent = router.chat, refusals(_404="There is no such agent")

    def notes_of_user(agent_id: Identifier, user_id: str = user) -> LongTermNotes:
        return chat.notes(user_id, agent_id)

    own = Depends(notes_of_user)

    def told(response: Response, agent_id: str, found: AgentNotes) -> NotesEntry:
        response.headers["ETag"] = f'"{found.version}"'
        return NotesEntry(agent_id=agent_id, notes=found.text, version=found.version, updated_at=found.updated_at)

    @router.get(
        "/notes/{agent_id:chat_id}",
        summary="The long-term notes of an agent about the user; their version is the ETag",
        responses=agent,
    )
    async def read(response: Response, notes: LongTermNotes = own) -> NotesEntry:
        return told(response, notes.agent_id, await notes.fetch())

    @router.put(
        "/notes/{agent_id:chat_id}",
        summary="Replace the notes, if the version in If-Match is in force; that of no notes is 0",
        responses=agent | refusals(_412="Another version is in force", _428="If-Match has to name a version"),
    )
    async def write(
        asked: NotesText, response: Response, if_match: IfMatch = None, notes: LongTermNotes = own
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
