"""A whole application around the chat routes, and the command `memory-context serve`.

`/health` covers the process, `/ready` the store, within two seconds.
"""

import asyncio
import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import uvicorn
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ChatCompletionClient
from fastapi import APIRouter, FastAPI, HTTPException, Request
from fastapi.staticfiles import StaticFiles

from memory_context.context.builder import LightModelChoice, choose_light_model, openai_client
from memory_context.context.context import MemoryContext
from memory_context.foundation.errors import StoreError
from memory_context.foundation.outages import outages_of
from memory_context.sessions.live.redis import RedisStates
from memory_context.store.memory_store import MemoryStore

from ..access.gate import Gate, GateRules, ProxyRefusal, Tokens, TrustedProxy, UsageError, is_loopback
from ..http_server import ConnectionLimits, bounded_config, check_port, serve_until_stopped
from .chat import AgentBuilder, Chat
from .problems import ProblemError, ProblemRoute, problem_responses
from .router import HOST_SETTING, CurrentUser, create_chat_router

__all__ = ["ServeOptions", "create_app", "serve", "user_dependency"]

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
    """Return an application with a chat under `/api/chat`, `/health` and `/ready`; arguments as `create_chat_router`.

    Hosts and origins also hold for the probes and for the files of `static_folder`, such as a chat page.

    Raises:
        ValueError: The folder does not exist, or `create_chat_router` refuses an argument.
    """
    if static_folder is not None and not Path(static_folder).is_dir():
        raise ValueError(f"static_folder={str(static_folder)!r}: there is no such folder")
    chat_router = create_chat_router(memory_store, build_agent, current_user, hosts=hosts, origins=origins, **settings)
    app = FastAPI(title="memory_context chat", summary="Conversations with agents whose memory lasts")
    app.add_middleware(Gate, rules=GateRules(hosts, origins, host_setting=HOST_SETTING))
    app.include_router(chat_router)
    app.include_router(_probes(chat_router.chat))
    if static_folder is not None:
        app.mount("/", StaticFiles(directory=static_folder, html=True), name="static")
    return app


def _probes(chat: Chat) -> APIRouter:
    router = APIRouter(route_class=ProblemRoute, tags=["probes"])

    @router.get("/health", summary="Whether the process answers")
    async def health() -> dict[str, str]:
        return {"status": "alive"}

    @router.get(
        "/ready", summary="Whether requests can be served", responses=problem_responses("internal", "unavailable")
    )
    async def ready() -> dict[str, str]:
        try:
            await asyncio.wait_for(chat.check(), _READY_SECONDS)
        except (StoreError, asyncio.TimeoutError) as error:
            reason = str(error) or f"the store did not answer in {_READY_SECONDS:g} s"
            outages_of(chat).failed("ready", "not ready: %s", reason)
            raise ProblemError("unavailable", "the store does not answer", retry_after_seconds=2) from None
        outages_of(chat).worked("ready")
        return {"status": "ready"}

    _ = health, ready
    return router


# --- the command


@dataclass(frozen=True)
class ServeOptions:
    """Options of `memory-context serve`, as its help explains them."""

    agent: str | None = None
    agent_ids: tuple[str, ...] = ("assistant",)
    model: str = "gpt-4o-mini"
    host: str = "127.0.0.1"
    port: int = 8000
    url: str | None = None
    static_folder: Path | None = None
    redis_url: str | None = None
    allow_anonymous: bool = False
    user_header: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    proxy_secret_env: str | None = None
    proxy_secret_header: str = "X-Proxy-Secret"
    public_hosts: tuple[str, ...] = ()
    token_env: str | None = None
    connections: int = ConnectionLimits.connections
    light_model: str | None = None


def serve(options: ServeOptions) -> None:
    """Serve a chat until the process is told to stop.

    Raises:
        UsageError: An option is missing, or two contradict each other.
        OSError: The port is taken.
        StoreError: The database cannot be used.
    """
    check_port(options.host, options.port)
    if options.agent is None and not os.environ.get("OPENAI_API_KEY"):
        raise UsageError(
            "there is no agent: give --agent module:function, "
            "or set OPENAI_API_KEY (and OPENAI_BASE_URL for another server) for an assistant on --model"
        )
    try:
        build_agent, own = _assistant(options.model) if options.agent is None else _import_agent(options.agent)
        light_model = choose_light_model(own, options.light_model)
    except ValueError as error:
        raise UsageError(str(error)) from None
    current_user = user_dependency(options)
    asyncio.run(_serve(options, build_agent, current_user, light_model))


async def _serve(
    options: ServeOptions,
    build_agent: AgentBuilder,
    current_user: CurrentUser | None,
    light_model: LightModelChoice,
) -> None:
    store = MemoryStore(options.url) if options.url else MemoryStore.default()
    redis = options.redis_url
    try:
        await store.open()  # before the port
        store.consolidate_daily()
        app = create_app(
            store,
            build_agent,
            current_user,
            agents=options.agent_ids,
            allow_anonymous=current_user is None,
            model_client=light_model.client,
            static_folder=options.static_folder,
            hosts=options.public_hosts,
            states=RedisStates(redis) if redis else None,
            limits_storage_url=f"async+{redis}" if redis else "async+memory://",
        )
        config = bounded_config(
            app,
            ConnectionLimits(options.connections),
            host=options.host,
            port=options.port,
            proxy_headers=options.user_header is None,  # else X-Forwarded-For would hide the proxy's address
        )
        print(light_model, file=sys.stderr, flush=True)
        await serve_until_stopped(uvicorn.Server(config))
    finally:
        await store.close()


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


def user_dependency(options: ServeOptions) -> CurrentUser | None:
    """Return the dependency that authenticates users; None if everybody is the same user.

    Raises:
        UsageError: Several ways are named, or none though other machines reach the port.
    """
    ways = {
        "--allow-anonymous": options.allow_anonymous,
        "--user-header": options.user_header,
        "--token-env": options.token_env,
    }
    given = [name for name, value in ways.items() if value]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} contradict each other: give one of them")
    if options.user_header is None and (options.trusted_proxies or options.proxy_secret_env):
        raise UsageError("--trusted-proxy and --proxy-secret-env go with --user-header NAME")
    if options.user_header:
        secret = options.proxy_secret_env, options.proxy_secret_header
        return _by_header(
            TrustedProxy.from_options(options.user_header, options.host, options.trusted_proxies, *secret)
        )
    if options.token_env:
        return _by_token(Tokens.from_environment(options.token_env))
    if not given and not is_loopback(options.host):
        raise UsageError(
            f"--host {options.host}: others can reach it unauthenticated: give --token-env NAME, "
            "--user-header NAME behind a reverse proxy, or --allow-anonymous to let everybody be the same user"
        )
    return None


def _by_header(proxy: TrustedProxy) -> CurrentUser:
    async def current_user(request: Request) -> str:
        try:
            return proxy.user_of(request.scope)
        except ProxyRefusal as refusal:
            raise HTTPException(refusal.status, str(refusal)) from None

    return current_user


def _by_token(tokens: Tokens) -> CurrentUser:
    async def current_user(request: Request) -> str:
        user = tokens.user_of(request.headers.get("authorization", ""))
        if user is None:
            raise HTTPException(401, "send Authorization: Bearer <token>", {"WWW-Authenticate": "Bearer"})
        return user

    return current_user
