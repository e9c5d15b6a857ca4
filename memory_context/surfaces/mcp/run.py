"""The command `memory-context mcp`, over stdio or HTTP; SIGTERM, SIGINT and the end of stdin stop it within seconds."""

import asyncio
import json
import logging
import os
import queue
import signal
import sys
import threading
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, cast

import anyio
import uvicorn
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.server.lowlevel import Server
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from memory_context.foundation.errors import MemoryContextError
from memory_context.foundation.runtime.background import Background
from memory_context.store.memory_store import MemoryStore

from ..access.gate import Tokens, UsageError, is_loopback
from ..http_server import CONNECTIONS, bounded_config, check_port, serve_until_stopped
from .http import create_app
from .memory import ServedMemory
from .server import create_server

__all__ = ["McpOptions", "serve"]

_logger = logging.getLogger("memory_context")

_Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]


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
    async with _stdio() as streams, _opening(store):  # in this order: the database may print
        serving = Background[None]("memory_context mcp")
        running = serving.start(lambda: server.run(*streams, server.create_initialization_options()))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, running.cancel)
        with suppress(asyncio.CancelledError):
            await running


async def _serve_http(options: McpOptions, tokens: Tokens | None) -> None:
    store, server_for = _store_and_servers(options)
    app = create_app(store, lambda user: server_for(user or options.user or None), tokens, options.public_hosts)
    config = bounded_config(app, options.connections, host=options.host, port=options.port)
    async with _opening(store):
        await serve_until_stopped(uvicorn.Server(config))


def _store_and_servers(options: McpOptions) -> tuple[MemoryStore, Callable[[str | None], Server[Any, Any]]]:
    store = MemoryStore(options.url) if options.url else MemoryStore.default()

    def server_for(user: str | None) -> Server[Any, Any]:
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


# --- stdio


@asynccontextmanager
async def _stdio() -> AsyncGenerator[_Streams, None]:
    """Yield the SDK's streams.

    The SDK's own transport waits for stdin at a stop, leaves malformed lines unanswered, and refuses lone surrogates.
    """
    lines, out = _take_over()
    write = _start_writing(out)
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)

    async def deliver(read: SessionMessage | bytes) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the server has ended
            await (to_server.send(read) if isinstance(read, SessionMessage) else write(read))

    async def send() -> None:
        async for message in from_server:
            await write(message.message.model_dump_json(by_alias=True, exclude_none=True).encode())

    async with anyio.create_task_group() as tasks, to_server, incoming, outgoing, from_server:
        _start_reading(lines, deliver, to_server.close)
        tasks.start_soon(send)
        yield incoming, outgoing
        tasks.cancel_scope.cancel()


def _take_over() -> tuple[BinaryIO, BinaryIO]:
    """Keep stdin and stdout for the protocol; child processes print to stderr."""
    sys.stdout.flush()
    lines, out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return lines, out


# Daemon threads, as reading and writing cannot be cancelled.


def _start_reading(
    lines: BinaryIO, deliver: Callable[[SessionMessage | bytes], Coroutine[Any, Any, None]], at_end: Callable[[], None]
) -> None:
    loop = asyncio.get_running_loop()

    def run() -> None:
        with suppress(RuntimeError, CancelledError):  # the event loop has ended
            for line in lines:
                read = _parse(line)  # off the loop: long texts take time
                if read is not None and not loop.is_closed():
                    asyncio.run_coroutine_threadsafe(deliver(read), loop).result()
            loop.call_soon_threadsafe(at_end)

    threading.Thread(target=run, name="stdin", daemon=True).start()


def _start_writing(out: BinaryIO) -> Callable[[bytes], Awaitable[None]]:
    """Return a function that waits until its line is written."""
    loop = asyncio.get_running_loop()
    waiting: queue.SimpleQueue[tuple[bytes, asyncio.Event]] = queue.SimpleQueue()

    def run() -> None:
        with suppress(RuntimeError):  # the event loop has ended
            while True:
                data, written = waiting.get()
                with suppress(OSError):  # the client has gone; reading ends next
                    out.write(data + b"\n")
                    out.flush()
                loop.call_soon_threadsafe(written.set)

    async def write(data: bytes) -> None:
        written = asyncio.Event()
        waiting.put((data, written))
        await written.wait()

    threading.Thread(target=run, name="stdout", daemon=True).start()
    return write


def _parse(line: bytes) -> SessionMessage | bytes | None:
    """Return the message, the refusal of a malformed line, or None."""
    if not line.strip():
        return None
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return _refusal(None, types.PARSE_ERROR, "this line is no JSON")
    given: Any = cast(dict[str, Any], data).get("id") if isinstance(data, dict) else None
    if isinstance(given, str) and not given.isprintable():  # no answer could carry it
        return _refusal(None, types.INVALID_REQUEST, "this id is not printable")
    try:
        return SessionMessage(types.JSONRPCMessage.model_validate(data))
    except (ValidationError, RecursionError):
        return _refusal(given if type(given) in (str, int) else None, types.INVALID_REQUEST, "this is no message")


def _refusal(message_id: str | int | None, code: int, text: str) -> bytes:
    error = {"code": code, "message": text}
    return json.dumps({"jsonrpc": "2.0", "id": message_id, "error": error}).encode()
