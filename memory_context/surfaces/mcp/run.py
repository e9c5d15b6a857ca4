"""The command `memory-context mcp`, over the SDK's stdio or HTTP; it ends with its client, or by a signal."""

import asyncio
import logging
import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import uvicorn

from memory_context.foundation.errors import MemoryContextError
from memory_context.foundation.runtime.background import Background
from memory_context.store.memory_store import MemoryStore

from ..access.gate import Tokens, UsageError, is_loopback
from ..http_server import CONNECTIONS, bounded_config, check_port, serve_until_stopped
from .http import create_app
from .memory import ServedMemory
from .server import MemoryServer, create_server

__all__ = ["McpOptions", "serve"]

_logger = logging.getLogger("memory_context")


@dataclass(frozen=True)
class McpOptions:
    """Options of `memory-context mcp`, as its help explains them."""

    url: str | None = None
    user: str | None = None
    agent: str = "mcp"
    session: str | None = None
    transport: Literal["stdio", "http"] = "stdio"
    host: str = "127.0.0.1"
    port: int = 8001
    token_env: str | None = None
    public_hosts: tuple[str, ...] = ()
    read_only: bool = False
    forgets: bool = False
    connections: int = CONNECTIONS


def serve(options: McpOptions) -> None:
    """Serve a memory until the process is told to stop, or its client has gone.

    Raises:
        UsageError: An option is missing, or two contradict each other.
        OSError: The port is taken.
        ValueError: An address or an id is unusable.
    """
    if options.read_only and options.forgets:
        raise UsageError("--read-only contradicts --forget: leave one of them out")
    if options.transport == "http":
        check_port(options.host, options.port)
    tokens = _tokens(options)
    # before the SDK's, which breaks lines for a terminal: clients keep stderr in a file
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # global: the SDK records warnings in another thread, which undoes local filters
    warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR")
    asyncio.run(_serve_stdio(options) if options.transport == "stdio" else _serve_http(options, tokens))


def _tokens(options: McpOptions) -> Tokens | None:
    if options.token_env is None:
        if options.transport == "http" and not is_loopback(options.host):
            raise UsageError(f"--host {options.host}: others can reach it unauthenticated: give --token-env NAME")
        return None
    if options.transport == "stdio":
        raise UsageError("--token-env is for --transport http; on stdio the client is whoever started the server")
    if options.user:
        raise UsageError("--user, or MEMORY_CONTEXT_USER, contradicts --token-env: a token says whose it is")
    return Tokens.from_environment(options.token_env)


async def _serve_stdio(options: McpOptions) -> None:
    store, server_for = _store_and_servers(options)
    server = server_for(options.user or None)
    async with _opening(store):
        await server.run_stdio_async()


async def _serve_http(options: McpOptions, tokens: Tokens | None) -> None:
    store, server_for = _store_and_servers(options)
    app = create_app(store, lambda user: server_for(user or options.user or None), tokens, options.public_hosts)
    config = bounded_config(app, options.connections, host=options.host, port=options.port)
    async with _opening(store):
        await serve_until_stopped(uvicorn.Server(config))


def _store_and_servers(options: McpOptions) -> tuple[MemoryStore, Callable[[str | None], MemoryServer]]:
    store = MemoryStore(options.url) if options.url else MemoryStore.default()

    def server_for(user: str | None) -> MemoryServer:
        served = ServedMemory(store, user, agent_id=options.agent, session_id=options.session or "")
        return create_server(served, read_only=options.read_only, forgets=options.forgets)

    return store, server_for


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
