"""The command `memory-context mcp`, over the SDK's stdio or HTTP; it ends with its client, or by a signal.

HTTP is stateless, with a server for each user:

POST /mcp       "streamable HTTP", each answer one JSON body
GET  /health    whether the database answers
GET  /metrics   numbers of the process and of the database
"""

import asyncio
import logging
import warnings
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_context.foundation.errors import MemoryContextError, StoreError
from memory_context.foundation.runtime.background import Background, outages_of
from memory_context.store.memory_store import MemoryStore

from ..access.gate import Gate, Tokens, UsageError, is_loopback
from ..http_server import bounded_config, check_port, serve_until_stopped
from ..metrics import CountRequests, Metrics
from .memory import ServedMemory
from .server import MemoryServer, create_server

__all__ = ["create_app", "serve"]

_logger = logging.getLogger("memory_context")


def serve(
    *,
    url: str | None,
    user: str | None,
    agent: str,
    session: str | None,
    transport: Literal["stdio", "http"],
    host: str,
    port: int,
    token_env: str | None,
    public_hosts: Sequence[str] | None,
    read_only: bool,
    forgets: bool,
    connections: int,
) -> None:
    """Serve a memory until the process is told to stop, or its client has gone; options as in the help of the command.

    Raises:
        UsageError: An option is missing, or two contradict each other.
        OSError: The port is taken.
        ValueError: An address or an id is unusable.
    """
    if read_only and forgets:
        raise UsageError("--read-only contradicts --forget: leave one of them out")
    if transport == "http":
        check_port(host, port)
    tokens = _tokens(transport, host, user, token_env)
    # before the SDK's, which breaks lines for a terminal: clients keep stderr in a file
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # global: the SDK records warnings in another thread, which undoes local filters
    warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR")

    async def work() -> None:
        store = MemoryStore(url) if url else MemoryStore.default()

        def server_for(user_id: str | None) -> MemoryServer:
            served = ServedMemory(store, user_id or user or None, agent_id=agent, session_id=session or "")
            return create_server(served, read_only=read_only, forgets=forgets)

        if transport == "stdio":
            server = server_for(None)
            async with _opening(store):
                await server.run_stdio_async()
            return
        app = create_app(store, server_for, tokens, public_hosts or ())
        config = bounded_config(app, connections, host=host, port=port)
        async with _opening(store):
            await serve_until_stopped(uvicorn.Server(config))

    asyncio.run(work())


def _tokens(transport: str, host: str, user: str | None, token_env: str | None) -> Tokens | None:
    if token_env is None:
        if transport == "http" and not is_loopback(host):
            raise UsageError(f"--host {host}: others can reach it unauthenticated: give --token-env NAME")
        return None
    if transport == "stdio":
        raise UsageError("--token-env is for --transport http; on stdio the client is whoever started the server")
    if user:
        raise UsageError("--user, or MEMORY_CONTEXT_USER, contradicts --token-env: a token says whose it is")
    return Tokens.from_environment(token_env)


@asynccontextmanager
async def _opening(store: MemoryStore) -> AsyncGenerator[None, None]:
    """Open the store in the background; close it at the end."""

    async def open_store() -> None:
        try:
            await store.open()
        except MemoryContextError as error:
            _logger.warning("going on without the store for now: %s", error)

    opening = Background[None]("memory_context opening")
    opening.start(open_store)
    try:
        yield
    finally:
        opening.cancel()
        await store.close()


# --- over HTTP


def create_app(
    store: MemoryStore,
    server_for: Callable[[str | None], MemoryServer],
    tokens: Tokens | None,
    hosts: Collection[str] = (),
) -> Starlette:
    """Return an application with a server for each user with a token; without tokens, for anybody.

    Pages of this machine, such as a local inspector, may write. `hosts` are the public names.
    """
    users = [None] if tokens is None else sorted(tokens.users)
    apps = {user: server_for(user).streamable_http_app() for user in users}

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        async with AsyncExitStack() as running:
            for app in apps.values():
                await running.enter_async_context(app.router.lifespan_context(app))
            yield

    async def health(_: Request) -> Response:
        try:
            await store.user_stats.only_user()
        except StoreError as error:  # names hosts: only for the log
            outages_of(store).failed("healthy", "not healthy: %s", error)
            return JSONResponse({"status": "unavailable"}, 503)
        outages_of(store).worked("healthy")
        return JSONResponse({"status": "ok"})

    # without GET: the SDK would keep a stream open for it, and send nothing
    routes = [Route("/mcp", _Users(apps, tokens), methods=["POST"]), Route("/health", health)]
    routes.append(Route("/metrics", Metrics(store).answer))
    gate = Middleware(Gate, hosts=hosts, loopback_pages=True, host_setting="--public-host")
    return Starlette(routes=routes, lifespan=lifespan, middleware=[Middleware(CountRequests), gate])


class _Users:
    """Passes a request on to the server of the user whose token it holds."""

    def __init__(self, apps: Mapping[str | None, ASGIApp], tokens: Tokens | None) -> None:
        self._apps = apps
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        user = self._tokens and self._tokens.user_of(Headers(scope=scope).get("authorization", ""))
        if self._tokens is not None and user is None:
            raise HTTPException(401, "send Authorization: Bearer <token>", {"WWW-Authenticate": "Bearer"})
        await self._apps[user](scope, receive, send)
