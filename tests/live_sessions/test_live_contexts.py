"""Real contexts in the cache: a conversation goes on in another process, wherever it was left."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

from memory_context import ContextPolicy, MemoryContext, MemoryStore, UserMemoryPolicy
from memory_context.foundation.identifiers import SessionKey
from memory_context.sessions.live.cache import SessionCache
from tests.support.waiting import soon

from .fakes import States, key_of, take_away

KEY = key_of("s")
ALONE = ContextPolicy(user_memory=UserMemoryPolicy(enabled=False))  # views name no other session, whenever it ended


class Conversation(MemoryContext):
    """A context as the cache keeps it."""

    def __init__(self, *identity: str, memory_store: MemoryStore, policy: ContextPolicy) -> None:
        super().__init__(*identity, memory_store=memory_store, policy=policy)
        self.is_closed = asyncio.Event()

    @property
    def is_dirty(self) -> bool:
        return self.archiver.is_dirty

    async def close(self) -> None:
        await super().close()
        self.is_closed.set()


Open = Callable[..., SessionCache[Conversation]]


@pytest.fixture
async def open_cache(database_url: str) -> AsyncIterator[Open]:
    """Open a cache with a store of its own, as another process would."""
    opened: list[tuple[SessionCache[Conversation], MemoryStore]] = []

    def open_one(**others: object) -> SessionCache[Conversation]:
        store = MemoryStore(database_url)

        def make(key: SessionKey) -> Conversation:
            return Conversation(*key, memory_store=store, policy=ALONE)

        cache = SessionCache(make, memory_store=store, **others)  # type: ignore[arg-type]
        opened.append((cache, store))
        return cache

    yield open_one
    for cache, store in opened:
        await cache.close()
        await store.close()


async def chat(cache: SessionCache[Conversation], text: str, answer: str) -> list[str]:
    """Have an agent answer in the session; return what its model saw."""
    async with cache.hold(KEY) as context:
        model = ReplayChatCompletionClient([answer])
        agent = AssistantAgent("coder", model_client=model, model_context=context)
        await agent.run(task=text)
        return [str(message.content) for message in model.create_calls[0]["messages"][1:]]


@pytest.mark.parametrize("has_states", [False, True])
async def test_a_conversation_goes_on_in_another_process_and_back(open_cache: Open, has_states: bool) -> None:
    """Each hand-over brings all that was said; in one process it costs nothing."""
    states = States() if has_states else None
    here, there = open_cache(states=states), open_cache(states=states)
    said: list[str] = []
    for number, cache in enumerate([here, here, there, here, there, there]):
        text, answer = f"question {number}", f"answer {number}"
        assert await chat(cache, text, answer) == [*said, text]
        said += [text, answer]
    assert (here.stats.hits, here.stats.handovers, there.stats.hits, there.stats.handovers) == (1, 2, 1, 1)


async def test_sessions_that_leave_for_others_come_back_whole(open_cache: Open) -> None:
    """More conversations than there is room for, all at once."""
    cache = open_cache(size=4, wait_seconds=30)
    keys = [key_of(str(number)) for number in range(8)]

    async def talk(key: SessionKey) -> None:
        for turn in range(3):
            async with cache.hold(key) as context:
                assert context.transcript.end == turn
                await context.add_message(UserMessage(content=f"{key.session_id}: {turn}", source="user"))
            await asyncio.sleep(0)

    await asyncio.gather(*(talk(key) for key in keys))
    for key in keys:
        async with cache.hold(key) as context:
            texts = [message.content for message in await context.get_messages()]
        assert texts == [f"{key.session_id}: {turn}" for turn in range(3)]
    assert cache.stats.evictions >= 4


async def test_a_lost_claim_loses_nothing_that_was_said(open_cache: Open, store: MemoryStore) -> None:
    """What was not archived when the claim was lost is archived, and the session goes on from there."""
    cache = open_cache()
    await chat(cache, "question", "answer")
    context = cache.peek(KEY)
    assert context is not None
    await take_away(store, KEY)
    await soon(context.is_closed)
    assert await chat(cache, "further", "more") == ["question", "answer", "further"]
    assert cache.stats.misses == 2
