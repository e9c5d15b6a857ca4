"""Serving a chat from the command line: who may ask, which agent answers, and how the process ends.

Promises: everybody is let in only where that was said, or where nobody else can reach the port; SIGTERM and SIGINT stop
what runs within seconds and archive what is buffered; what is missing is said in one line, with the remedy.
"""

import asyncio
import os
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import uvicorn
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ChatCompletionClient
from fastapi import HTTPException, Request

from ..access import ProxyRefusal, Tokens, TrustedProxy, UsageError, is_loopback
from ..context import MemoryContext
from ..context_builder import LightModelChoice, choose_light_model, openai_client
from ..http_server import ConnectionLimits, bounded_config, check_port, serve_until_stopped
from ..sessions import RedisClaims, RedisStates
from ..store import MemoryStore
from .app import create_app
from .chat import AgentBuilder
from .router import CurrentUser

__all__ = ["ServeOptions", "serve", "user_dependency"]

_SYSTEM_MESSAGE = "You are a helpful assistant."


@dataclass(frozen=True)
class ServeOptions:
    """What `memory-context serve` was told.

    Attributes:
        agent: `module:function` that makes an agent around a context; None for an assistant on `model`. The module's
            `model_client`, if it has one, is the agent's own model.
        agent_ids: The ids it is registered under; the first answers where a request names none.
        model: The model of that assistant.
        light_model: Decides beside the agents: a model at OPENAI_BASE_URL, `own` for the agent's own, or `off`; None
            for what MEMORY_CONTEXT_LIGHT_MODEL says, else `own`.
        host: Where to listen.
        port: Where to listen; 0 for any free one.
        url: The database; None for MEMORY_CONTEXT_URL, and without that the embedded server.
        static_folder: Files to be served beside the chat.
        redis_url: Where processes share states, claims and counts; None for the database and this process.
        allow_anonymous: Whether everybody is the same user.
        user_header: The header in which a reverse proxy says who asks.
        trusted_proxies: Addresses or networks that the proxy connects from; without them and a secret, this machine.
        proxy_secret_env: The environment variable with the secret that the proxy sends along.
        proxy_secret_header: The header with that secret.
        public_hosts: Names under which people reach the server, beside those of this machine.
        token_env: The environment variable with `user:token` pairs.
        connections: The most connections at a time.
    """

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
        UsageError: Something is missing or contradicts itself.
        OSError: The port is taken.
        StoreError: The database cannot be used.
        ValueError: An address cannot be read.
    """
    check_port(options.host, options.port)
    if options.agent is None and not os.environ.get("OPENAI_API_KEY"):
        raise UsageError(
            "there is no agent: give --agent module:function, "
            "or set OPENAI_API_KEY (and OPENAI_BASE_URL for another server) for an assistant on --model"
        )
    try:
        build_agent, own = _assistant(options.model) if options.agent is None else _loaded(options.agent)
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
        await store.open()  # before the port is: what is wrong with the database is said in one line
        app = create_app(
            store,
            build_agent,
            current_user,
            agents=options.agent_ids,
            allow_anonymous=current_user is None,
            model_client=light_model.client,
            static_folder=options.static_folder,
            hosts=options.public_hosts,
            claims=RedisClaims(redis) if redis else store.advisory_claims(),
            states=RedisStates(redis) if redis else None,
            limits_storage_url=f"async+{redis}" if redis else "async+memory://",
        )
        config = bounded_config(
            app,
            ConnectionLimits(options.connections),
            host=options.host,
            port=options.port,
            proxy_headers=options.user_header is None,  # else X-Forwarded-For would hide where the proxy connects from
        )
        print(light_model, file=sys.stderr, flush=True)  # with the lines of the server
        await serve_until_stopped(uvicorn.Server(config))
    finally:
        await store.close()


def _loaded(agent: str) -> tuple[AgentBuilder, ChatCompletionClient | None]:
    """Return the function that makes agents, and the model client that its module names."""
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
        system_message = f"{_SYSTEM_MESSAGE}\n\n{context.instructions()}"
        context.note_agent(system_message=system_message)
        return AssistantAgent(
            "assistant",
            model_client=client,
            model_context=context,
            tools=list[Any](context.tools()),  # from the first call on: it may be told to remember something
            system_message=system_message,
            model_client_stream=True,
            max_tool_iterations=10,
        )

    return build, client


# --- who asks


def user_dependency(options: ServeOptions) -> CurrentUser | None:
    """Return the dependency that says who asks; None if everybody is the same user.

    Raises:
        UsageError: That was not said, or not in one way.
    """
    given = [
        name
        for name, value in (
            ("--allow-anonymous", options.allow_anonymous),
            ("--user-header", options.user_header),
            ("--token-env", options.token_env),
        )
        if value
    ]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} contradict each other: give one of them")
    if options.user_header is None and (options.trusted_proxies or options.proxy_secret_env):
        raise UsageError("--trusted-proxy and --proxy-secret-env go with --user-header NAME")
    if options.user_header:
        return _by_header(
            TrustedProxy.from_options(
                options.user_header,
                options.host,
                options.trusted_proxies,
                options.proxy_secret_env,
                options.proxy_secret_header,
            )
        )
    if options.token_env:
        return _by_token(Tokens.from_environment(options.token_env))
    if not given and not is_loopback(options.host):
        raise UsageError(
            f"--host {options.host}: others can reach it, and nobody says who asks: give --token-env NAME, "
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
