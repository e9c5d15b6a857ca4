"""A context that observes, with an observer that keeps everything, fails or waits."""

import asyncio
import random
from collections.abc import Sequence

from autogen_core.models import AssistantMessage, LLMMessage, UserMessage

from benchmarks.observation_lives import Script
from memory_context import (
    ArchivePolicy,
    ContextPolicy,
    ExpansionPolicy,
    LearningPolicy,
    MemoryContext,
    MemoryStore,
    ObservationPolicy,
    UserMemoryPolicy,
)
from memory_context.foundation.light_model.answers import Completion
from tests.context.steps import NEVER_PAYS, a_turn_of_the_loop
from tests.support.waiting import soon

SENTENCE = "The harbour ledger lists granite, owls and trains of the quarter. "
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"  # never opened: nothing is large or archived


class Observer:
    """Keeps everything, or fails, or waits until it is released."""

    def __init__(self, *, error: Exception | None = None, is_held: bool = False) -> None:
        self.calls = 0
        self.error = error
        self.release = asyncio.Event()
        self._script = Script("lossless", random.Random(1))
        if not is_held:
            self.release.set()

    async def __call__(self, messages: Sequence[LLMMessage], limit_tokens: int) -> Completion:
        self.calls += 1
        await self.release.wait()
        if self.error is not None:
            raise self.error
        return await self._script(messages, limit_tokens)


def context_of(observer: Observer | None, store: MemoryStore | None = None, **observing: object) -> MemoryContext:
    policy = ContextPolicy(
        token_budget=4000,
        offload_threshold_tokens=100_000,
        expansion=ExpansionPolicy(enabled=False),
        cache=NEVER_PAYS,
        archive=ArchivePolicy(enabled=store is not None),
        learning=LearningPolicy(enabled=False),
        user_memory=UserMemoryPolicy(enabled=False),
        observation=ObservationPolicy.model_validate(observing),
    )
    context = MemoryContext("alice", "coder", None, store or MemoryStore(NOWHERE), policy=policy)
    context.observation.completion_function = observer
    return context


async def say(context: MemoryContext, number: int, times: int = 12) -> None:
    """Let the user and the agent say something of about 300 tokens together."""
    await context.add_message(UserMessage(content=f"item-{number} {SENTENCE * times}", source="user"))
    await context.get_messages()
    await context.add_message(AssistantMessage(content=f"item-{number + 1000} {SENTENCE * times}", source="coder"))


async def settled(context: MemoryContext) -> None:
    """Wait until nothing is in flight."""

    async def wait() -> None:
        while context.observation.is_processing:
            await a_turn_of_the_loop()

    await soon(wait())


async def fill(context: MemoryContext, turns: int = 20) -> None:
    for number in range(turns):
        await say(context, number)
        await settled(context)


def log_of(context: MemoryContext):
    return context.transcript.state.observation
