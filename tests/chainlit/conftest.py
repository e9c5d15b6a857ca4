"""Chainlit's own server in this process, over a data layer on a real database."""

import asyncio
import atexit
import tempfile
import warnings
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import AsyncMock
from uuid import uuid4

import httpx
import pytest

from memory_context.store.memory_store import MemoryStore
from tests.embeddings.fakes import FakeEmbedder

_folder = tempfile.TemporaryDirectory(prefix="mc-chainlit-")
atexit.register(_folder.cleanup)
with warnings.catch_warnings(), pytest.MonkeyPatch.context() as _patch:
    _patch.setenv(
        "CHAINLIT_APP_ROOT", _folder.name
    )  # importing it writes its settings there, its files come there later
    warnings.simplefilter("ignore")
    import chainlit.element as elements
    import chainlit.server
    import chainlit.socket
    from chainlit import data
    from chainlit.config import config
    from chainlit.context import ChainlitContext, context_var, get_context
    from chainlit.message import Message
    from chainlit.session import WebsocketSession
    from chainlit.step import Step
    from chainlit.types import Feedback, Pagination, ThreadFilter
    from chainlit.user import PersistedUser, User

    from memory_context.surfaces.chainlit import MemoryDataLayer

__all__ = [
    "Feedback",
    "MemoryDataLayer",
    "Message",
    "Pagination",
    "Step",
    "ThreadFilter",
    "User",
    "chainlit",
    "chat",
    "data",
    "elements",
    "get_context",
    "log_in",
]


@pytest.fixture
def embedder() -> FakeEmbedder:
    return FakeEmbedder()


@pytest.fixture
def store(index_when_flushed: None, store: MemoryStore) -> MemoryStore:
    """An open store of an empty database that indexes nothing."""
    return store


@pytest.fixture
def layer(store: MemoryStore) -> MemoryDataLayer:
    """A data layer on an empty database."""
    return MemoryDataLayer(store)


@contextmanager
def chat(user_id: str | None, thread_id: str, *, has_spoken: bool = True) -> Iterator[WebsocketSession]:
    """Be in a chat of a user, as Chainlit's tasks are; without one nobody is logged in."""
    user = PersistedUser(id=user_id, identifier=user_id, createdAt="") if user_id else None
    session = WebsocketSession(
        id=str(uuid4()),
        socket_id=str(uuid4()),
        emit=AsyncMock(),
        emit_call=AsyncMock(),
        user_env={},
        client_type="webapp",
        thread_id=thread_id,
        user=user,
    )
    session.has_first_interaction = has_spoken
    token = context_var.set(ChainlitContext(session))
    try:
        yield session
    finally:
        context_var.reset(token)


class Browser(httpx.AsyncClient):
    """A client whose every request is a task of its own, as it is to a server."""

    async def request(self, *args: Any, **kwargs: Any) -> httpx.Response:
        return await asyncio.create_task(super().request(*args, **kwargs))


@pytest.fixture
async def web(layer: MemoryDataLayer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[httpx.AsyncClient]:
    """A client of Chainlit's server, which logs in whoever knows the password "secret"."""

    async def log_in(name: str, password: str) -> User | None:
        return User(identifier=name, metadata={"role": "reader"}) if password == "secret" else None

    monkeypatch.setenv("CHAINLIT_AUTH_SECRET", "x" * 64)
    monkeypatch.setattr(data, "_data_layer", layer)
    monkeypatch.setattr(data, "_data_layer_initialized", True)
    monkeypatch.setattr(config.code, "password_auth_callback", log_in)
    transport = httpx.ASGITransport(app=chainlit.server.app)
    async with Browser(transport=transport, base_url="http://chat") as client:
        yield client


async def log_in(web: httpx.AsyncClient, user_id: str) -> None:
    """Become a user, instead of who one was."""
    web.cookies.clear()
    answer = await web.post("/login", data={"username": user_id, "password": "secret"})
    assert answer.status_code == 200, answer.text
