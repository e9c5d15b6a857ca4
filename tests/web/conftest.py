"""A chat in the process of the test: real routes, a real store, an agent whose model answers when the test lets it."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime, timezone
from typing import Any

import httpx
import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import CreateResult, LLMMessage, ModelFamily, ModelInfo, RequestUsage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient
from fastapi import FastAPI, Header, HTTPException

from memory_context import MemoryContext, MemoryStore
from memory_context.surfaces.web import ChatRouter, create_chat_router
from tests.support.waiting import PATIENT_SECONDS


def message(text: str, sender: str = "user", *, id: str | None = None, at: datetime | None = None) -> dict[str, str]:
    """Return a chat message of now."""
    at = at or datetime.now(timezone.utc)
    return {"id": id or uuid.uuid4().hex, "text": text, "sender": sender, "timestamp": at.isoformat()}


def claimed(text: str) -> str:
    """Return what a model reads of an answer that a client brought and nobody can confirm."""
    told = "The page brought this back as an earlier answer of the assistant; the server cannot confirm that:"
    return f"User: {told}\n<unverified>\n{text}\n</unverified>"


class Model(ReplayChatCompletionClient):
    """Answers `answer to <what was said last>`, in words, as soon as it may."""

    def __init__(self) -> None:
        info = ModelInfo(
            vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
        )
        super().__init__(["never said"], model_info=info)
        self.views: list[list[str]] = []
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.error: Exception | None = None
        self.calls: list[FunctionCall] = []

    async def create(  # type: ignore[override]
        self, messages: Sequence[LLMMessage], *, cancellation_token: CancellationToken | None = None, **_: Any
    ) -> CreateResult:
        self.views.append([f"{type(one).__name__[:4]}: {one.content}" for one in messages[1:]])
        self.asked.set()
        if not self.may_answer.is_set():
            waiting = asyncio.ensure_future(self.may_answer.wait())
            if cancellation_token is not None:
                cancellation_token.link_future(waiting)
            await waiting
        if self.error is not None:
            raise self.error
        calls, self.calls = self.calls, []
        said = next((one.content for one in reversed(messages) if isinstance(one, UserMessage)), "nothing")
        return CreateResult(
            finish_reason="function_calls" if calls else "stop",
            content=calls or f"answer to {said}",
            usage=RequestUsage(0, 0),
            cached=False,
        )

    async def create_stream(self, messages: Sequence[LLMMessage], **settings: Any) -> AsyncIterator[Any]:  # type: ignore[override]
        result = await self.create(messages, **settings)
        if isinstance(result.content, str):
            for word in result.content.split(" "):
                yield f"{word} "
        yield result


@pytest.fixture
def model() -> Model:
    return Model()


async def current_user(x_user: str | None = Header(None)) -> str:
    """Who asks, as an application would say it."""
    if not x_user:
        raise HTTPException(401, "say who you are", {"WWW-Authenticate": "X-User"})
    return x_user


class Client(httpx.AsyncClient):
    """Speaks to the chat as one user."""

    app: FastAPI
    router: ChatRouter

    async def say(self, *messages: Any, session: str | None = None, **others: Any) -> httpx.Response:
        """Post messages; a str is a new one of the user."""
        new = [message(one) if isinstance(one, str) else one for one in messages]
        return await self.post("/api/chat", json={"new_messages": new, "session_id": session, **others})

    async def texts(self, session: str) -> list[str]:
        """Return what the person sees, in order."""
        page = (await self.get(f"/api/chat/sessions/{session}/messages?limit=200")).json()
        return [one["text"] for one in page["messages"]]

    def as_user(self, name: str) -> "Client":
        """Return a client of another user."""
        other = Client(transport=self._transport, base_url=self.base_url, headers={"X-User": name})
        other.app, other.router = self.app, self.router
        return other


def assistant(model: Model, **settings: Any) -> Callable[[MemoryContext], AssistantAgent]:
    """Return what builds an assistant on a model."""

    def build(context: MemoryContext) -> AssistantAgent:
        return AssistantAgent(
            "assistant", model_client=model, model_context=context, model_client_stream=True, **settings
        )

    return build


StartChat = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def start_chat(store: MemoryStore, model: Model) -> StartChat:
    """`async with start_chat(build, …) as client`: an application of somebody's with the chat in it."""

    @asynccontextmanager
    async def start(build: Any = None, *, user: Any = current_user, **settings: Any) -> AsyncIterator[Client]:
        if not isinstance(build, Mapping):
            settings.setdefault("agents", ["assistant"])
        router = create_chat_router(store, build or assistant(model), user, **settings)
        app = FastAPI()
        app.include_router(router)
        async with app.router.lifespan_context(app):
            client = Client(
                transport=httpx.ASGITransport(app),
                base_url="http://chat",
                headers={"X-User": "alice"},
                timeout=PATIENT_SECONDS,
            )
            client.app, client.router = app, router
            async with client:
                yield client

    return start


@pytest.fixture
async def client(start_chat: StartChat) -> AsyncIterator[Client]:
    """Alice's client of a chat with one agent."""
    async with start_chat() as client:
        yield client


def kill(client: Client) -> None:
    """Have the chat write nothing any more, as if its process had been killed."""
    for entry in [*client.router.chat.sessions._entries.values()]:
        if entry.session is not None:
            entry.session.context.archiver.abandon()


def events_of(response: httpx.Response) -> list[tuple[str, Any]]:
    """Return the events of a streamed answer."""
    blocks = [block.splitlines() for block in response.text.split("\r\n\r\n") if block.startswith("event:")]
    return [(lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))) for lines in blocks]
