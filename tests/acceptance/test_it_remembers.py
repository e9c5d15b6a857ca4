"""What a user says once is known in later sessions, through every surface, with a light model and by rules."""

import uuid
from collections.abc import Awaitable, Callable

import httpx
import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.models import ChatCompletionClient, LLMMessage
from fastapi import FastAPI

from memory_context import ContextPolicy, MemoryContext, MemoryStore, UserMemoryPolicy
from memory_context.foundation.identifiers import SessionKey
from memory_context.surfaces.web import create_chat_router
from memory_context.testing import ScriptedModel
from samples.chainlit_web.agents import Agents
from samples.chainlit_web.chats import LiveChat
from samples.code_agent import CodeAgent
from tests.support.waiting import PATIENT_SECONDS

from ..agents.scripted import text_of
from ..conftest import StartPython
from ..context.lights import Light, choose

SAID = "My database is Orders at db1; remember it, I always use it."
KNOWN = "- My database is Orders at db1"
REQUESTS = ("Connect to the DB like last time.", "Verbinde dich mit der Datenbank wie letztes Mal.")

Views = list[list[LLMMessage]]
Converse = Callable[[MemoryStore, str, ChatCompletionClient | None], Awaitable[Views]]
"""Has a conversation of one request in a session and with an agent of its own; returns the views of its models."""


def new_name() -> str:
    return f"project_{uuid.uuid4().hex[:8]}"


async def assistant(store: MemoryStore, request: str, light: ChatCompletionClient | None) -> Views:
    model, name = ScriptedModel("All right."), new_name()
    async with MemoryContext("alice", name, memory_store=store, model_client=light) as context:
        await AssistantAgent(name, model, model_context=context).run(task=request)
    return model.views


async def team(store: MemoryStore, request: str, light: ChatCompletionClient | None) -> Views:
    """Two agents, each with a context of its own: both know the user."""
    models = [ScriptedModel("All right."), ScriptedModel("Done.")]
    contexts = [MemoryContext("alice", new_name(), memory_store=store, model_client=light) for _ in models]
    agents = [
        AssistantAgent(context.agent_id, model, model_context=context)
        for context, model in zip(contexts, models, strict=True)
    ]
    await RoundRobinGroupChat(agents, max_turns=2).run(task=request)  # type: ignore[arg-type]
    for context in contexts:
        await context.close()
    assert all(len(model.views) == 1 for model in models)
    return [view for model in models for view in model.views]


async def chat_server(store: MemoryStore, request: str, light: ChatCompletionClient | None) -> Views:
    model = ScriptedModel("All right.")

    def build(context: MemoryContext) -> AssistantAgent:
        return AssistantAgent("assistant", model, model_context=context)

    app = FastAPI()
    router = create_chat_router(store, build, lambda: "alice", agents=["assistant"], model_client=light)
    app.include_router(router)
    new = {"id": uuid.uuid4().hex, "text": request, "sender": "user", "timestamp": "2026-01-01T10:00:00+00:00"}
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://chat", timeout=PATIENT_SECONDS
        ) as client,
    ):
        answer = await client.post("/api/chat", json={"new_messages": [new], "session_id": None})
        assert answer.status_code == 200, answer.text
    return model.views


async def chainlit(store: MemoryStore, request: str, light: ChatCompletionClient | None) -> Views:
    """The live chat of the Chainlit application, whose agent `UIAgentBuilder` makes."""
    model = ScriptedModel("All right.")
    key = SessionKey("alice", "reader", uuid.uuid4().hex)
    chat = LiveChat(key, Agents(store, model, light or "off"))
    await chat.resume()
    await chat.built.runner.run(task=request)
    await chat.archive()
    await chat.close()
    return model.views


async def coder(store: MemoryStore, request: str, light: ChatCompletionClient | None) -> Views:
    """The `CodeAgent` of the samples."""
    model = ScriptedModel("All right.")
    context = MemoryContext("alice", "coder", uuid.uuid4().hex, store, model_client=light)
    agent = CodeAgent("coder", model, model_context=context)
    await agent.run(task=request)
    await agent.close()
    await context.close()
    return model.views


@pytest.mark.parametrize("is_by_rules", [True, False])
@pytest.mark.parametrize("converse", [assistant, team, chat_server, chainlit, coder])
async def test_statement_of_one_session_is_known_in_the_next_ones(
    store: MemoryStore, converse: Converse, is_by_rules: bool
):
    """In the head of the first view of every agent, also of another project's."""
    light = None if is_by_rules else Light(choose(ambiguous=True, search="database"))
    first = await converse(store, SAID, light)
    assert KNOWN not in text_of(first[0])
    await store.jobs.flush()
    for request in REQUESTS:
        for view in await converse(store, request, light):
            assert KNOWN in text_of(view)
            assert request in text_of(view)


async def test_statement_is_known_in_another_process(store: MemoryStore, database_url: str, start_python: StartPython):
    await assistant(store, SAID, None)
    await store.jobs.flush()
    script = f"""
import asyncio
from autogen_core.models import UserMessage
from memory_context import MemoryContext, MemoryStore

async def main():
    async with MemoryStore({database_url!r}) as store, MemoryContext("alice", "other", memory_store=store) as context:
        await context.add_message(UserMessage(content={REQUESTS[0]!r}, source="user"))
        print([str(one.content) for one in await context.get_messages()])

asyncio.run(main())
"""
    process = await start_python(script)
    out, err = await process.communicate()
    assert KNOWN in out.decode(), err.decode()


@pytest.mark.parametrize("is_by_rules", [True, False])
async def test_request_recalls_the_statement_where_the_head_is_switched_off(store: MemoryStore, is_by_rules: bool):
    """What it leans on is searched, and shown as the user's own words; a thing named in an order, by a model only."""
    await assistant(store, SAID, None)
    await store.jobs.flush()
    await store.flush_index()
    light = None if is_by_rules else Light(choose(ambiguous=True, search="database Orders"))
    model, policy = ScriptedModel("All right."), ContextPolicy(user_memory=UserMemoryPolicy(enabled=False))
    for request in ("Connect to the DB like last time.", "Connect to the Orders database.")[: 1 if is_by_rules else 2]:
        context = MemoryContext("alice", "coder", memory_store=store, model_client=light, policy=policy)
        await AssistantAgent("coder", model, model_context=context).run(task=request)
        assert "My database is Orders at db1" in text_of(model.views[-1]), request
        assert context.stats.recalls == 1
