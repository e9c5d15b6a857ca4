"""The routes of the chat, to be mounted in any FastAPI application: what comes in is checked, what goes out is written.

    POST   {prefix}                            say something: the answer whole, or as server-sent events
    POST   {prefix}/session/archive_messages   make chat messages durable, also by a beacon of JSON
    GET    {prefix}/sessions                   one's sessions, the last used first
    GET    {prefix}/sessions/{id}              one of them
    GET    {prefix}/sessions/{id}/messages     its messages, page by page
    DELETE {prefix}/sessions/{id}              delete it

Promise: every answer is one of those the OpenAPI description lists, errors included, whatever comes in.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any

from autogen_core.models import ChatCompletionClient
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel
from starlette.routing import Match

from ..access import GateRules
from ..identifiers import SessionKey, checked_identifier
from ..policy import ContextPolicy
from ..sessions import Claims, SessionCache, SessionStates
from ..store import MemoryStore
from .chat import AgentBuilder, Chat
from .limits import ChatLimits, RequestLimiter, read_body
from .problems import Flaw, ProblemError, ProblemKind, ProblemRoute, problem_responses
from .schemas import (
    Archived,
    ArchiveRequest,
    ChatAnswer,
    ChatMessage,
    ChatRequest,
    Identifier,
    MessagePage,
    SessionEntry,
    SessionPage,
    cursor_of,
    parsed,
    place_of,
    written,
)
from .session import ChatSession
from .sse import EVENTS, streamed, whole

__all__ = ["HOST_SETTING", "ChatRouter", "CurrentUser", "create_chat_router"]

CurrentUser = Callable[..., str | Awaitable[str]]
"""A FastAPI dependency that returns the id of whoever asks, or raises HTTPException."""

_ANONYMOUS = "anonymous"
HOST_SETTING = "hosts (--public-host of memory-context serve)"
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE"]
_JSON = "application/json"
_ALWAYS: tuple[ProblemKind, ...] = (
    "not-allowed", "foreign-page", "foreign-host", "invalid", "too-many-requests", "internal", "unavailable",
)  # fmt: skip
_OF_BODY: tuple[ProblemKind, ...] = ("not-json", "body-too-slow", "too-large", "wrong-media-type")
_OF_SESSION: tuple[ProblemKind, ...] = ("unknown-session", "session-deleted")

SessionId = Annotated[Identifier, Path()]
Limit = Annotated[int, Query(ge=1, le=200)]
Before = Annotated[
    str | None,
    Query(
        pattern="^[A-Za-z0-9_-]{20,1000}$",
        description="The `next` of the page before; a value that no page gave is a 404.",
    ),
]


class ChatRouter(APIRouter):
    """The routes of a chat.

    Attributes:
        chat: The conversations behind them. An application whose lifespan does not reach the routers it includes opens
            and closes it itself.
    """

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
    claims: Claims | None = None,
    states: SessionStates | None = None,
    cache: "Callable[[Callable[[SessionKey], Awaitable[ChatSession]]], SessionCache[ChatSession]] | None" = None,
    limits: ChatLimits | None = None,
    limits_storage_url: str = "async+memory://",
    prefix: str = "/api/chat",
) -> ChatRouter:
    """Return the routes of a chat, for `app.include_router(...)`; they archive when it ends.

    Args:
        memory_store: Where conversations go; the application closes it.
        build_agent: Makes the agent of a session around its context, an AutoGen agent or team; or several such
            functions by agent id.
        agents: The ids of the agents that one `build_agent` makes, such as `["assistant"]`, which it finds in
            `context.agent_id`. A request that names none gets the first, one that names another a 404. Several
            `build_agent` functions name the agents themselves.
        current_user: The application's dependency that says who asks.
        allow_anonymous: Without `current_user`: everybody is the same user and reads the same sessions.
        hosts: Names under which people reach the application, such as `chat.example.org`; `*` for any. Names of this
            machine are always among them.
        origins: Other origins whose pages may write here, such as `https://app.example.org`.
        policy: The settings of contexts.
        model_client: Their light model.
        claims: Say which of several processes a session belongs to; None where there is only this one.
        states: Where the states of sessions are kept between requests, such as `RedisStates`.
        cache: Makes the cache of live sessions from what makes a session; it then has the claims and states.
        limits: What a client may ask for.
        limits_storage_url: Where requests are counted; `async+redis://…` for several processes together.
        prefix: Where the routes begin.

    Raises:
        ValueError: Nobody says who asks, and anonymous use is not allowed; or another argument cannot be used.
    """
    if current_user is None and not allow_anonymous:
        raise ValueError(
            "nobody says who asks: give current_user, your dependency that returns a user id, "
            "or allow_anonymous=True to let everybody be the same user"
        )
    builders = _registered(build_agent, agents)
    limits = limits or ChatLimits()
    chat = Chat(
        memory_store,
        builders,
        policy=policy,
        model_client=model_client,
        claims=claims,
        states=states,
        cache=cache,
        run_seconds=limits.run_seconds,
        wait_seconds=limits.wait_seconds,
    )

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncGenerator[None, None]:
        await chat.open()
        try:
            yield
        finally:
            await chat.close()

    rules = GateRules(hosts, origins, host_setting=HOST_SETTING)

    async def gate(request: Request) -> None:
        refusal = rules.refusal(request.scope)
        if refusal is not None:
            raise ProblemError(refusal.kind, refusal.detail)

    gates = [Depends(gate)]
    router = ChatRouter(prefix=prefix, route_class=ProblemRoute, tags=["chat"], lifespan=lifespan, dependencies=gates)
    router.chat = chat
    _add_routes(router, current_user or _anonymous, limits, limits_storage_url)
    return router


def _registered(
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


async def _anonymous() -> str:
    return _ANONYMOUS


def _add_routes(router: ChatRouter, current_user: CurrentUser, limits: ChatLimits, storage_url: str) -> None:
    chat = router.chat
    limiter = RequestLimiter(limits.requests_per_minute, storage_url)

    async def counted_user(request: Request, told: Any = Depends(current_user)) -> str:  # noqa: B008
        try:
            user_id = checked_identifier("user_id", told)
        except ValueError:
            raise ProblemError("not-allowed", "the user id has to be 1 to 128 printable characters") from None
        address = request.client.host if request.client else ""
        await limiter.check(f"address {address}" if current_user is _anonymous else f"user {user_id}")
        return user_id

    user = Depends(counted_user)

    @router.post(
        "",
        summary="Say something and get the answer",
        response_class=Response,
        openapi_extra=_body_of(ChatRequest),
        responses={
            200: {
                "model": ChatAnswer,
                "description": "The answer; or the events session, delta, step, message, done, error",
                "content": {EVENTS: {"schema": {"type": "string"}}},
            },
            **problem_responses(
                *_ALWAYS, *_OF_BODY, "unknown-agent", "session-busy", "other-agent", "session-deleted", "agent-failed",
                "too-slow",
            ),
        },
    )  # fmt: skip
    async def say(request: Request, user_id: str = user) -> Response:
        asked = await read_body(request, limits, partial(parsed, ChatRequest))
        _check(asked.new_messages, "new_messages", limits)
        messages = [message.to_store() for message in asked.new_messages]
        turn = await chat.answer(user_id, asked.session_id, asked.agent_id, messages)
        if asked.stream or EVENTS in request.headers.get("accept", ""):
            return await streamed(request, turn, limits.ping_seconds)
        return _ok(await whole(request, turn))

    @router.post(
        "/session/archive_messages",
        summary="Make chat messages durable",
        response_class=Response,
        openapi_extra=_body_of(ArchiveRequest),
        responses={
            200: {"model": Archived},
            **problem_responses(*_ALWAYS, *_OF_BODY, "unknown-agent", "session-deleted"),
        },
    )
    async def archive(request: Request, user_id: str = user) -> Response:
        asked = await read_body(request, limits, partial(parsed, ArchiveRequest))
        _check(asked.messages_batch, "messages_batch", limits)
        messages = [message.to_store() for message in asked.messages_batch]
        return _ok(Archived(stored_ids=await chat.archive(user_id, asked.session_id, asked.agent_id, messages)))

    @router.get(
        "/sessions",
        summary="List one's sessions, the last used first",
        response_class=Response,
        responses={200: {"model": SessionPage}, **problem_responses(*_ALWAYS, "unknown-cursor")},
    )
    async def sessions(limit: Limit = 50, before: Before = None, user_id: str = user) -> Response:
        found = await chat.list_sessions(user_id, limit, place_of(before))
        more = cursor_of(found[-1].last_activity_at, found[-1].session_id) if len(found) == limit else None
        return _ok(SessionPage(sessions=[SessionEntry.of(info) for info in found], next=more))

    @router.get(
        "/sessions/{session_id}",
        summary="What is known of a session",
        response_class=Response,
        responses={200: {"model": SessionEntry}, **problem_responses(*_ALWAYS, *_OF_SESSION)},
    )
    async def session(session_id: SessionId, user_id: str = user) -> Response:
        return _ok(SessionEntry.of(await chat.session(user_id, session_id)))

    @router.get(
        "/sessions/{session_id}/messages",
        summary="The messages of a session, the newest page first, the oldest of a page first",
        response_class=Response,
        responses={200: {"model": MessagePage}, **problem_responses(*_ALWAYS, *_OF_SESSION, "unknown-cursor")},
    )
    async def messages(
        session_id: SessionId, limit: Limit = 50, before: Before = None, user_id: str = user
    ) -> Response:
        found = await chat.messages(user_id, session_id, limit, place_of(before))
        more = cursor_of(found[0].timestamp, found[0].id) if len(found) == limit else None
        return _ok(MessagePage(messages=[ChatMessage.of(message) for message in found], next=more))

    @router.delete(
        "/sessions/{session_id}",
        summary="Delete a session with all that was stored in it",
        status_code=204,
        response_class=Response,
        responses=problem_responses(*_ALWAYS, "unknown-session"),
    )
    async def delete(session_id: SessionId, user_id: str = user) -> Response:
        await chat.delete(user_id, session_id)
        return Response(status_code=204)

    known = [*router.routes]

    @router.api_route("", methods=[one for one in _METHODS if one != "POST"], include_in_schema=False)
    @router.api_route("/{rest:path}", methods=_METHODS, include_in_schema=False)
    async def elsewhere(request: Request) -> Response:
        """Answer what no route takes, as the application's own 404 and 405 would be no problems."""
        rest = request.path_params.get("rest")
        path = router.prefix if rest is None else f"{router.prefix}/{rest}"
        scope = {**request.scope, "path": path, "root_path": ""}  # wherever the application has put the prefix
        allowed: set[str] = set()
        for route in known:
            if route.matches(scope)[0] is Match.PARTIAL:
                allowed |= getattr(route, "methods", set[str]())
        if allowed:
            methods = ", ".join(sorted(allowed))
            raise ProblemError("wrong-method", f"use {methods}", headers={"Allow": methods})
        raise ProblemError("unknown", "the chat has no such address")

    _ = say, archive, sessions, session, messages, delete, elsewhere


def _check(messages: Sequence[ChatMessage], where: str, limits: ChatLimits) -> None:
    flaws = [
        Flaw(detail=f"use at most {limits.text_characters:,} characters", pointer=f"#/{where}/{place}/text")
        for place, message in enumerate(messages)
        if len(message.text) > limits.text_characters
    ]
    if len(messages) > limits.messages:
        flaws = [Flaw(detail=f"send at most {limits.messages} at a time", pointer=f"#/{where}")]
    if flaws:
        raise ProblemError("invalid", "it is more than is taken at a time", flaws=flaws[:20])


def _ok(value: BaseModel) -> Response:
    return Response(written(value), media_type=_JSON)


def _body_of(model: type[BaseModel]) -> dict[str, Any]:
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    content = {_JSON: {"schema": schema}}
    return {"requestBody": {"required": True, "content": content}}
