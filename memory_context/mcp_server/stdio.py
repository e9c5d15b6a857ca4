"""The protocol on stdin and stdout of this process, for clients that start the server themselves.

The SDK has a transport of its own for this (1.30). This one promises more: whatever else in the process or in what it
starts writes to stdout (the embedded database, a stray print) goes to stderr, and nothing else reads from stdin; a
cancelled server ends at once although nobody types or reads; what is no message is answered with an error rather than
with silence; a text may hold half a surrogate pair, which JavaScript sends as `\\ud83d`.
"""

import asyncio
import json
import os
import queue
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, suppress
from typing import Any, BinaryIO, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

__all__ = ["StdioStreams", "stdio_streams"]

StdioStreams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception],
    MemoryObjectSendStream[SessionMessage],
]


@asynccontextmanager
async def stdio_streams() -> AsyncGenerator[StdioStreams, None]:
    """Yield what the SDK's server reads from and writes to; the first ends with stdin."""
    lines, out = _take_over()
    write = _start_writing(out)
    to_server, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_server = anyio.create_memory_object_stream[SessionMessage](0)

    async def deliver(read: SessionMessage | bytes) -> None:
        if isinstance(read, SessionMessage):
            await to_server.send(read)
        else:
            await write(read)

    async def send() -> None:
        async for message in from_server:
            await write(message.message.model_dump_json(by_alias=True, exclude_none=True).encode())

    async with anyio.create_task_group() as tasks, to_server, incoming, outgoing, from_server:
        _start_reading(lines, deliver, to_server.close)
        tasks.start_soon(send)
        yield incoming, outgoing
        tasks.cancel_scope.cancel()


def _take_over() -> tuple[BinaryIO, BinaryIO]:
    """Return stdin and stdout for the protocol alone: others get the null device, and stderr."""
    sys.stdout.flush()
    lines, out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return lines, out


# Both ways have a thread that nobody waits for at the end: neither reading nor writing can be cancelled.


def _start_reading(
    lines: BinaryIO, deliver: Callable[[SessionMessage | bytes], Awaitable[None]], at_end: Callable[[], None]
) -> None:
    loop = asyncio.get_running_loop()

    async def delivered(read: SessionMessage | bytes) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the server has ended
            await deliver(read)

    def run() -> None:
        with suppress(RuntimeError, CancelledError):  # so has the event loop
            for line in lines:
                read = _read(line)  # here: a long text takes its time
                if read is not None and not loop.is_closed():
                    asyncio.run_coroutine_threadsafe(delivered(read), loop).result()
            loop.call_soon_threadsafe(at_end)

    threading.Thread(target=run, name="stdin", daemon=True).start()


def _start_writing(out: BinaryIO) -> Callable[[bytes], Awaitable[None]]:
    """Return a function that writes a line and waits until it is written, or until nobody can read it any more."""
    loop = asyncio.get_running_loop()
    waiting: queue.SimpleQueue[tuple[bytes, asyncio.Event]] = queue.SimpleQueue()

    def run() -> None:
        with suppress(RuntimeError):  # the event loop has ended
            while True:
                data, written = waiting.get()
                with suppress(OSError):  # the client has gone: what is read next is the end
                    out.write(data + b"\n")
                    out.flush()
                loop.call_soon_threadsafe(written.set)

    async def write(data: bytes) -> None:
        written = asyncio.Event()
        waiting.put((data, written))
        await written.wait()

    threading.Thread(target=run, name="stdout", daemon=True).start()
    return write


def _read(line: bytes) -> SessionMessage | bytes | None:
    """Return the message of a line, the line it is refused with, or None if there is nothing in it."""
    if not line.strip():
        return None
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        return _refusal(None, types.PARSE_ERROR, "this line is no JSON")
    given: Any = cast(dict[str, Any], data).get("id") if isinstance(data, dict) else None
    if isinstance(given, str) and not given.isprintable():  # it could not be answered
        return _refusal(None, types.INVALID_REQUEST, "this id is not printable")
    try:
        return SessionMessage(types.JSONRPCMessage.model_validate(data))
    except (ValidationError, RecursionError):
        return _refusal(given if type(given) in (str, int) else None, types.INVALID_REQUEST, "this is no message")


def _refusal(message_id: str | int | None, code: int, text: str) -> bytes:
    error = {"code": code, "message": text}
    return json.dumps({"jsonrpc": "2.0", "id": message_id, "error": error}).encode()
