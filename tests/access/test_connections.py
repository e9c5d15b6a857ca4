"""Connections that never finish their request: bounded in number and time, and in nobody's way."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest
import uvicorn

from memory_context.surfaces.http_server import ConnectionLimits, bounded_config
from tests.support.waiting import PATIENT_SECONDS

from ..support.serving import serving


class Application:
    """Answers `/` at once, and `/slow` when it may; counts what it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += 1
        if scope["path"] == "/slow":
            self.is_asked.set()
            await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


def bounded(app: Any, limits: ConnectionLimits) -> AbstractAsyncContextManager[tuple[uvicorn.Server, int]]:
    """Serve with bounded connections."""
    return serving(bounded_config(app, limits, log_level="error", lifespan="off"))


async def opened(port: int, sent: bytes = b"GET / HTTP/1.1\r\nHost: local") -> tuple[Any, Any]:
    """Open a connection that says some of a request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    await writer.drain()
    return reader, writer


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Wait until the server closes a connection, and return what it said."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("sent", [b"", b"GET", b"GET / HTTP/1.1\r\nHost: local"])
async def test_connection_with_unfinished_header_is_closed_in_time(sent: bytes):
    """Also where nothing was sent, and nothing of the application is asked."""
    app = Application()
    async with bounded(app, ConnectionLimits(header_seconds=0.05)) as (_, port):
        reader, writer = await opened(port, sent)
        assert await ended(reader) == b""
        writer.close()
    assert app.asked == 0


async def test_header_deadline_holds_for_each_request_of_a_connection():
    """A byte after an answer ends uvicorn's own wait for one; it does not begin another hour."""
    app = Application()
    async with bounded(app, ConnectionLimits(header_seconds=0.5)) as (_, port):
        reader, writer = await opened(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\nG")
        assert (await ended(reader)).endswith(b"ok")
        writer.close()
    assert app.asked == 1


async def test_oldest_idle_connection_makes_room_for_new_one():
    """Three hundred of them leave no more than allowed, and a request is answered beside them."""
    app = Application()
    async with bounded(app, ConnectionLimits(connections=20, header_seconds=1_000)) as (server, port):
        unfinished = [await opened(port) for _ in range(300)]
        async with httpx.AsyncClient(trust_env=False) as client:
            assert (await client.get(f"http://127.0.0.1:{port}/")).text == "ok"
        for reader, _ in unfinished[:280]:
            assert await ended(reader) == b""
        assert len(server.server_state.connections) <= 20
        assert not unfinished[-1][0].at_eof()
        for _, writer in unfinished:
            writer.close()


async def test_connection_with_running_request_is_never_closed():
    """Neither by the deadline of headers nor to make room; when all are at work, the next is told to come back."""
    app = Application()
    async with (
        bounded(app, ConnectionLimits(connections=2, header_seconds=0.5)) as (_, port),
        httpx.AsyncClient(trust_env=False, base_url=f"http://127.0.0.1:{port}", timeout=PATIENT_SECONDS) as client,
    ):
        first = asyncio.ensure_future(client.get("/slow"))
        await app.is_asked.wait()
        app.is_asked.clear()
        second = asyncio.ensure_future(client.get("/slow"))
        await app.is_asked.wait()
        for _ in range(3):
            reader, writer = await opened(port)
            await ended(reader)
            writer.close()
        assert (await client.get("/")).status_code == 503
        app.may_answer.set()
        assert [answer.text for answer in await asyncio.gather(first, second)] == ["ok", "ok"]


async def test_idle_keepalive_connection_makes_room():
    """Idle ones are kept for the next request of their client, as long as nobody else needs the place."""
    app = Application()
    async with bounded(app, ConnectionLimits(connections=1, header_seconds=1_000)) as (_, port):
        reader, writer = await opened(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await reader.readuntil(b"ok")
        other_reader, other_writer = await opened(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await other_reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200")
        assert await ended(reader) == b""
        writer.close()
        other_writer.close()


def test_connection_limits_must_be_above_zero():
    for limits in ({"connections": 0}, {"header_seconds": 0}):
        with pytest.raises(ValueError, match="use more than zero"):
            ConnectionLimits(**limits)
