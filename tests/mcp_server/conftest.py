"""Servers of a memory and real clients of the SDK: in memory, and over HTTP on a real port."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.memory import create_connected_server_and_client_session

from memory_context import MemoryStore
from memory_context.surfaces.access.gate import Tokens
from memory_context.surfaces.mcp import ServedMemory, create_server
from memory_context.surfaces.mcp.run import create_app
from tests.embeddings.fakes import FakeEmbedder
from tests.support.serving import serving
from tests.support.waiting import PATIENT_SECONDS


@pytest.fixture
def embedder() -> FakeEmbedder:
    return FakeEmbedder()


def connected(
    store: MemoryStore,
    user: str | None = "alice",
    *,
    read_only: bool = False,
    forgets: bool = False,
    asked: Any = None,
    **settings: Any,
) -> AbstractAsyncContextManager[ClientSession]:
    """`async with connected(store) as client`: a client of a server, in memory; `asked` answers what it is asked."""
    server = create_server(ServedMemory(store, user, **settings), read_only=read_only, forgets=forgets)
    return create_connected_server_and_client_session(server, elicitation_callback=asked)


@asynccontextmanager
async def listening(
    store: MemoryStore,
    tokens: dict[str, str] | None = None,
    hosts: tuple[str, ...] = (),
    *,
    port: int = 0,
    **offers: bool,
) -> AsyncIterator[str]:
    """Serve over HTTP in this event loop, on any port by default; yields the address."""
    known = None if tokens is None else Tokens(tokens)
    app = create_app(store, lambda user: create_server(ServedMemory(store, user or "alice"), **offers), known, hosts)
    async with serving(uvicorn.Config(app, log_level="warning", access_log=False, ws="none"), port) as (_, port):
        yield f"http://127.0.0.1:{port}"


@asynccontextmanager
async def over_http(url: str, token: str | None = None, asked: Any = None) -> AsyncIterator[ClientSession]:
    """`async with over_http(url, token) as client`."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        httpx.AsyncClient(headers=headers, timeout=PATIENT_SECONDS) as http,
        streamable_http_client(f"{url}/mcp", http_client=http) as (read, write, _),
        ClientSession(read, write, elicitation_callback=asked) as client,
    ):
        await client.initialize()
        yield client


def said(result: types.CallToolResult) -> str:
    """Return the text of an answer."""
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


def key_of(result: types.CallToolResult) -> str:
    """Return the key of what was stored."""
    assert result.structuredContent is not None, said(result)
    return result.structuredContent["memory_key"]


async def stored(client: ClientSession, content: str, description: str = "a note") -> str:
    """Store a text and return its key."""
    return key_of(await client.call_tool("store_memory", {"content": content, "description": description}))
