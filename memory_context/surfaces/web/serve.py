"""A whole application around the chat routes, and the command `memory-context serve`.

`/health` covers the process, `/ready` the store, within two seconds; `/metrics` has the numbers of both.
"""

import asyncio
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import uvicorn
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ChatCompletionClient
from fastapi import APIRouter, Depends, FastAPI, HTTPException
from fastapi.middleware.cors import CORSMiddleware
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from fastapi.staticfiles import StaticFiles

from memory_context.context.builder import choose_light_model, openai_client
from memory_context.context.context import MemoryContext
from memory_context.foundation.errors import StoreError
from memory_context.foundation.runtime.background import outages_of
from memory_context.sessions.live.redis import RedisStates
from memory_context.store.memory_store import MemoryStore

from ..access.errors import Refusal, try_again
from ..access.gate import Gate, Tokens, UsageError, is_loopback
from ..http_server import bounded_config, check_port, serve_until_stopped
from ..inspector.router import create_inspector_router
from ..metrics import CountRequests, Metrics
from .chat import AgentBuilder, Chat
from .router import HOST_SETTING, CurrentUser, anonymous, create_chat_router

__all__ = ["create_app", "serve", "user_dependency"]

_READY_SECONDS = 2.0
_SYSTEM_MESSAGE = "You are a helpful assistant."


def create_app(
    memory_store: MemoryStore,
    build_agent: AgentBuilder | Mapping[str, AgentBuilder],
    current_user: CurrentUser | None = None,
    *,
    static_folder: str | Path | None = None,
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    **settings: Any,
) -> FastAPI:
    """Return an application with a chat under `/api/chat`, the inspector, `/health` and `/ready`.

    Arguments are those of `create_chat_router`.

    Hosts and origins also hold for the probes and for the files of `static_folder`, such as a chat page.

    Raises:
        ValueError: The folder does not exist, or `create_chat_router` refuses an argument.
    """
    if static_folder is not None and not Path(static_folder).is_dir():
        raise ValueError(f"static_folder={str(static_folder)!r}: there is no such folder")
    chat_router = create_chat_router(memory_store, build_agent, current_user, hosts=hosts, origins=origins, **settings)
    app = FastAPI(title="memory_context chat", summary="Conversations with agents whose memory lasts")
    app.include_router(chat_router)
    app.include_router(_probes(chat_router.chat))
    app.add_route("/metrics", Metrics(memory_store).answer, include_in_schema=False)
    inspector = create_inspector_router(
        memory_store,
        current_user or anonymous,
        policy=settings.get("policy"),
        light_model=settings.get("model_client"),
        hosts=hosts,
        origins=origins,
    )
    app.include_router(inspector)
    if static_folder is not None:
        app.mount("/", StaticFiles(directory=static_folder, html=True), name="static")
    app.add_middleware(Gate, hosts=hosts, origins=origins, host_setting=HOST_SETTING)
    app.add_middleware(CountRequests)
    if origins:  # around the gate, so that pages can read its refusals
        app.add_middleware(
            CORSMiddleware,
            allow_origins=origins,
            allow_credentials="*" not in origins,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["ETag", "Retry-After"],
        )
    return app


def _probes(chat: Chat) -> APIRouter:
    router = APIRouter(tags=["probes"])

    @router.get("/health", summary="Whether the process answers")
    async def health() -> dict[str, str]:
        return {"status": "alive"}

    @router.get("/ready", summary="Whether requests can be served", responses={503: {"model": Refusal}})
    async def ready() -> dict[str, str]:
        try:
            await asyncio.wait_for(chat.check(), _READY_SECONDS)
        except (StoreError, asyncio.TimeoutError) as error:
            reason = str(error) or f"the store did not answer in {_READY_SECONDS:g} s"
            outages_of(chat).failed("ready", "not ready: %s", reason)
            raise try_again(503, "the store does not answer", 2) from None
        outages_of(chat).worked("ready")
        return {"status": "ready"}

    _ = health, ready
    return router


# --- the command


def serve(
    *,
    agent: str | None,
    agent_ids: Sequence[str] | None,
    model: str,
    light_model: str | None,
    host: str,
    port: int,
    url: str | None,
    static_folder: Path | None,
    redis_url: str | None,
    allow_anonymous: bool,
    public_hosts: Sequence[str] | None,
    token_env: str | None,
    connections: int,
) -> None:
    """Serve a chat until the process is told to stop; the command's help explains the options.

    Raises:
        UsageError: An option is missing, or two contradict each other.
        OSError: The port is taken.
        StoreError: The database cannot be used.
    """
    check_port(host, port)
    if agent is None and not os.environ.get("OPENAI_API_KEY"):
        raise UsageError(
            "there is no agent: give --agent module:function, "
            "or set OPENAI_API_KEY (and OPENAI_BASE_URL for another server) for an assistant on --model"
        )
    try:
        build_agent, own = _assistant(model) if agent is None else _import_agent(agent)
        chosen = choose_light_model(own, light_model)
    except ValueError as error:
        raise UsageError(str(error)) from None
    current_user = user_dependency(host, token_env, allow_anonymous)

    async def work() -> None:
        store = MemoryStore(url) if url else MemoryStore.default()
        try:
            await store.open()  # before the port
            store.consolidate_daily()
            app = create_app(
                store,
                build_agent,
                current_user,
                agents=agent_ids or ["assistant"],
                allow_anonymous=current_user is None,
                model_client=chosen.client,
                static_folder=static_folder,
                hosts=public_hosts or (),
                states=RedisStates(redis_url) if redis_url else None,
                limits_storage_url=f"async+{redis_url}" if redis_url else "async+memory://",
            )
            print(chosen, file=sys.stderr, flush=True)
            config = bounded_config(app, connections, host=host, port=port)
            await serve_until_stopped(uvicorn.Server(config))
        finally:
            await store.close()

    asyncio.run(work())


def _import_agent(agent: str) -> tuple[AgentBuilder, ChatCompletionClient | None]:
    module_name, _, function_name = agent.partition(":")
    if not module_name or not function_name:
        raise UsageError(f"--agent {agent!r}: use module:function, a function that takes a MemoryContext")
    sys.path.insert(0, os.getcwd())
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise UsageError(f"--agent {agent!r}: {error}; it is looked for from this folder, too") from None
    found, own = getattr(module, function_name, None), getattr(module, "model_client", None)
    if not callable(found):
        raise UsageError(f"--agent {agent!r}: {module_name} has no function {function_name!r}")
    return cast(AgentBuilder, found), own if isinstance(own, ChatCompletionClient) else None


def _assistant(model: str) -> tuple[AgentBuilder, ChatCompletionClient]:
    client = openai_client(model)

    def build(context: MemoryContext) -> AssistantAgent:
        context.note_agent(system_message=_SYSTEM_MESSAGE, model_client=client)
        return AssistantAgent(
            "assistant",
            model_client=client,
            model_context=context,
            tools=list[Any](context.tools()),
            system_message=_SYSTEM_MESSAGE,
            model_client_stream=True,
            max_tool_iterations=10,
        )

    return build, client


def user_dependency(host: str, token_env: str | None, allow_anonymous: bool) -> CurrentUser | None:
    """Return the dependency that authenticates users by bearer tokens; None if everybody is the same user.

    Raises:
        UsageError: Tokens contradict anonymous use, or there are none though other machines reach the port.
    """
    if token_env and allow_anonymous:
        raise UsageError("--allow-anonymous and --token-env contradict each other: give one of them")
    if not token_env:
        if allow_anonymous or is_loopback(host):
            return None
        raise UsageError(
            f"--host {host}: others can reach it unauthenticated: give --token-env NAME, "
            "or --allow-anonymous to let everybody be the same user"
        )
    tokens = Tokens.from_environment(token_env)
    bearer = HTTPBearer(auto_error=False)

    async def current_user(given: HTTPAuthorizationCredentials | None = Depends(bearer)) -> str:  # noqa: B008
        user = tokens.user_of(f"{given.scheme} {given.credentials}") if given else None
        if user is None:
            raise HTTPException(401, "send Authorization: Bearer <token>", {"WWW-Authenticate": "Bearer"})
        return user

    return current_user
