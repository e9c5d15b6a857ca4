"""Strict chat templates refuse two user messages in a row: a view joins memory texts with the user's words if asked."""

import itertools

import pytest
from autogen_core import Image
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.models import AssistantMessage, LLMMessage, ModelInfo, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

from memory_context import AgentMemory, ContextPolicy, MemoryContext, MemoryStore, PostgresMemory
from memory_context.foundation.messages import message_to_json
from memory_context.foundation.policy import ExpansionPolicy
from memory_context.foundation.tokens import default_token_counter
from tests.support.images import picture_of

from .steps import add_step

pytestmark = pytest.mark.fake_embedder


def context_of(store: MemoryStore, joins: bool | None, session: str = "tuesday") -> MemoryContext:
    policy = ContextPolicy(joins_user_messages=joins, token_budget=4000)
    return MemoryContext("alice", "coder", session, store, policy=policy)


def in_a_row(view: list[LLMMessage]) -> list[int]:
    pairs = enumerate(itertools.pairwise(view))
    return [at for at, (one, next_one) in pairs if isinstance(one, UserMessage) and isinstance(next_one, UserMessage)]


def client(family: str) -> ReplayChatCompletionClient:
    info = ModelInfo(vision=True, function_calling=True, json_output=False, family=family, structured_output=False)
    return ReplayChatCompletionClient(["x"], model_info=info)


async def converse(context: MemoryContext) -> list[list[LLMMessage]]:
    """Let the head and an opened item stand beside the user's words; return the views."""
    memory = AgentMemory(context.memory_store, "alice", "coder")
    await memory.remember("I call my boat Ida.")
    ref = await memory.store("\n".join(f"{n}. a line of the manual" for n in range(80)), description="the manual")
    views: list[list[LLMMessage]] = []
    for said in ("Hello.", f"What does {ref.key} say?", ["And this?", picture_of(3)], "Thanks."):
        await context.add_message(UserMessage(content=said, source="user"))
        views.append(await context.get_messages())
        await add_step(context, "look", "seen\n" * 300)
        views.append(await context.get_messages())
        await context.add_message(AssistantMessage(content="As it says.", source="coder"))
    return views


async def test_view_alternates_if_asked(store: MemoryStore) -> None:
    """The fences stay, the user's words and images are whole, and the budget counts no less than there is."""
    context = context_of(store, True)
    count = default_token_counter().count
    for view in await converse(context):
        assert not in_a_row(view)
        assert sum(count(str(one.content)) for one in view if isinstance(one.content, str)) <= 4000
    view = await context.get_messages()
    assert [message_to_json(one) for one in view] == [message_to_json(one) for one in await context.get_messages()]
    first = next(one for one in view if isinstance(one, UserMessage))
    assert isinstance(first.content, str)
    assert first.source == "user"
    assert "I call my boat Ida." in first.content.split("</memory-")[0]
    assert any(isinstance(block, Image) for one in view if isinstance(one.content, list) for block in one.content)
    await context.close()


async def test_messages_of_two_people_keep_their_names_when_joined(store: MemoryStore) -> None:
    context = context_of(store, True)
    await context.add_message(UserMessage(content="I say yes.", source="ada"))
    await context.add_message(UserMessage(content="I say no.", source="bob"))
    (only,) = await context.get_messages()
    assert only.content == "ada: I say yes.\n\nbob: I say no."
    await context.close()


@pytest.mark.parametrize(("family", "is_joined"), [("mistral", True), ("r1", True), ("gpt-4o", False)])
async def test_model_family_decides_unless_the_setting_does(store: MemoryStore, family: str, is_joined: bool) -> None:
    context = context_of(store, None)
    context.note_agent(model_client=client(family))
    assert any(in_a_row(view) for view in await converse(context)) != is_joined
    context.model_changed(client("gpt-4o"))
    await context.close()


async def test_joined_memory_texts_are_no_words_of_the_user(store: MemoryStore) -> None:
    """AutoGen's memory protocol asks with the user's words alone, also when they are joined."""
    memory = PostgresMemory("alice", agent_id="coder", memory_store=store)
    policy = ContextPolicy(joins_user_messages=True, expansion=ExpansionPolicy(enabled=False))
    context = MemoryContext("alice", "coder", "tuesday", store, policy=policy)
    await memory.add(MemoryContent(content="The lantern hangs in the harbour.", mime_type=MemoryMimeType.TEXT))
    await context.add_message(UserMessage(content="Where is the lantern?", source="user"))
    shown = [await memory.update_context(context) for _ in range(3)]
    assert [len(one.memories.results) for one in shown] == [1, 1, 1]
    assert str(await context.get_messages()).count("hangs in the harbour") == 1
    await context.close()
