"""The command `memory-context mcp`, over the SDK's stdio or HTTP; it ends with its client, or by a signal."""

import asyncio
import logging
import warnings
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Literal

import uvicorn

from memory_context.foundation.errors import MemoryContextError
from memory_context.foundation.runtime.background import Background
from memory_context.store.memory_store import MemoryStore

from ..access.gate import Tokens, UsageError, is_loopback
from ..http_server import bounded_config, check_port, serve_until_stopped
from .http import create_app
from .memory import ServedMemory
from .server import MemoryServer, create_server

__all__ = ["serve"]

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
