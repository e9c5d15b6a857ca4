"""Serving a memory from the command line: to the program that started the process, or over HTTP.

Promises: the server starts although the store is down, tells so in its answers, and uses it once it is there, since a
desktop application shows no more of a server that ended than that it did; SIGTERM, SIGINT and the end of stdin stop it
within seconds; nobody else reaches a memory without a token; what is missing is said before anything is served.
"""

import asyncio
import logging
import signal
import warnings
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal

import uvicorn
from mcp.server.lowlevel import Server

from ..access import Tokens, UsageError, is_loopback
from ..errors import MemoryContextError
from ..http_server import ConnectionLimits, bounded_config, check_port, serve_until_stopped
from ..runtime import Background
from ..store import MemoryStore
from .http import create_app
from .memory import ServedMemory
from .server import create_server
from .stdio import stdio_streams

__all__ = ["McpOptions", "serve"]

_logger = logging.getLogger("memory_context")


@dataclass(frozen=True)
class McpOptions:
    """What `memory-context mcp` was told.

    Attributes:
        url: The database; None for MEMORY_CONTEXT_URL, and without that the embedded server.
        user: Whose memory it is; None for the only user there is.
        agent: The agent that items are stored as.
        session: The session they are stored in, and that is read if none is named; None for none.
        transport: How clients speak to it.
        host: Where to listen.
        port: Where to listen; 0 for any free one.
        token_env: The environment variable with `user:token` pairs.
        public_hosts: Names under which clients reach it over HTTP, beside those of this machine.
        read_only: Whether nothing can be stored.
        forgets: Whether `forget_memory` is offered.
        connections: The most connections at a time over HTTP.
    """

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
    connections: int = ConnectionLimits.connections


def serve(options: McpOptions) -> None:
    """Serve a memory until the process is told to stop, or its client has gone.

    Raises:
        UsageError: Something is missing or contradicts itself.
        OSError: The port is taken.
        ValueError: An address or an id is none.
    """
    if options.read_only and options.forgets:
        raise UsageError("--read-only contradicts --forget: leave one of them out")
    if options.transport == "http":
        check_port(options.host, options.port)
    tokens = _tokens(options)
    # importing the embedded server says so, also where that was silenced: the SDK records warnings in another thread
    warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR")
    asyncio.run(_serve_stdio(options) if options.transport == "stdio" else _serve_http(options, tokens))


def _tokens(options: McpOptions) -> Tokens | None:
    """Return who is let in; None if that needs no token."""
    if options.token_env is None:
        if options.transport == "http" and not is_loopback(options.host):
            raise UsageError(
                f"--host {options.host}: others can reach it, and nobody says who asks: give --token-env NAME"
            )
        return None
    if options.transport == "stdio":
        raise UsageError("--token-env is for --transport http; on stdio the client is whoever started the server")
    if options.user:
        raise UsageError("--user, or MEMORY_CONTEXT_USER, contradicts --token-env: a token says whose it is")
    return Tokens.from_environment(options.token_env)


async def _serve_stdio(options: McpOptions) -> None:
    store, server_for = _made(options)
    server = server_for(options.user or None)
    async with stdio_streams() as streams, _opening(store):  # in this order: what is started may print
        serving = Background[None]("memory_context mcp")
        running = serving.start(lambda: server.run(*streams, server.create_initialization_options()))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, running.cancel)
        with suppress(asyncio.CancelledError):
            await running


async def _serve_http(options: McpOptions, tokens: Tokens | None) -> None:
    store, server_for = _made(options)
    app = create_app(store, lambda user: server_for(user or options.user or None), tokens, options.public_hosts)
    server = uvicorn.Server(
        bounded_config(app, ConnectionLimits(options.connections), host=options.host, port=options.port)
    )
    async with _opening(store):
        await serve_until_stopped(server)


def _made(options: McpOptions) -> tuple[MemoryStore, Callable[[str | None], Server[Any, Any]]]:
    """Return the store, and what makes the server of a user."""
    store = MemoryStore(options.url) if options.url else MemoryStore.default()

    def server_for(user: str | None) -> Server[Any, Any]:
        served = ServedMemory(store, user, agent_id=options.agent, session_id=options.session or "")
        return create_server(served, read_only=options.read_only, forgets=options.forgets)

    return store, server_for


@asynccontextmanager
async def _opening(store: MemoryStore) -> AsyncGenerator[None, None]:
    """Have the store opened in the background, and closed at the end."""

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
