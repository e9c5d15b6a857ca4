"""The three servers behind real sockets: the chat server, the MCP server, and Chainlit as the sample runs it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
import uvicorn

from memory_context import MemoryStore
from memory_context.surfaces.web import create_app
from tests.support.mcp import INITIALIZE

from ..chainlit_web.conftest import ChainlitServer
from ..conftest import Server
from ..mcp_server.conftest import listening
from ..support.browser import free_port, module_database_of
from ..support.serving import serving
from ..web.conftest import Model, assistant, message, start_chat  # noqa: F401


@dataclass(frozen=True)
class Door:
    """A server and two requests it takes.

    Attributes:
        name: Which server.
        port: Where it listens.
        read: A path that is read.
        write: A path that is written to.
        body: What is written.
        socket: The path of its WebSocket; "" for none.
    """

    name: str
    port: int
    read: str
    write: str
    body: Any
    socket: str = ""

    @property
    def url(self) -> str:
        """Where it is reached."""
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def chat_server(store: MemoryStore, **settings: Any) -> AsyncIterator[int]:
    """Serve a chat on a real port; yields the port."""
    app = create_app(store, assistant(Model()), agents=["assistant"], allow_anonymous=True, **settings)
    async with serving(uvicorn.Config(app, log_level="warning", access_log=False)) as (_, port):
        yield port


@pytest.fixture(scope="module")
def module_url(server: Server, template: str) -> Iterator[str]:
    """The address of a database for the tests of a module."""
    with module_database_of(server, template, "access") as name:
        yield server.url(name)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["chat", "mcp", "chainlit"])
async def door(
    request: pytest.FixtureRequest, module_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Door]:
    """Each of the servers, as anonymous use on loopback has it."""
    if request.param == "chainlit":
        port = free_port()
        served = ChainlitServer(module_url, tmp_path_factory.mktemp("door"), port)
        await served.start()
        path = "/ws/socket.io/?EIO=4&transport=websocket"
        yield Door("chainlit", port, "/project/settings", "/set-session-cookie", {"session_id": "x"}, path)
        await served.stop()
        return
    async with MemoryStore(module_url) as store:
        if request.param == "chat":
            batch = {"new_messages": [message("hello")]}
            async with chat_server(store) as port:
                yield Door("chat", port, "/health", "/api/chat", batch)
        else:
            async with listening(store) as url:
                yield Door("mcp", int(url.rpartition(":")[2]), "/health", "/mcp", INITIALIZE)


@pytest.fixture
def model() -> Model:
    """The model of a chat's agent."""
    return Model()
