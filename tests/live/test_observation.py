"""Observational memory with a real, tiny model: chunks, tokens and stream are real; no quality is claimed of them."""

from collections.abc import Callable

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.base import TaskResult
from autogen_agentchat.messages import ModelClientStreamingChunkEvent
from autogen_core.models import AssistantMessage, UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient

from benchmarks.longmemeval import ask, settle, small_set
from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.light_model import guards
from memory_context.foundation.policy import ExpansionPolicy

from ..context.steps import add_step
from .conftest import WINDOW_TOKENS

ClientOf = Callable[[int], OpenAIChatCompletionClient]

PATIENT = ContextPolicy(
    token_budget=2500,
    expansion=ExpansionPolicy(enabled=False),
)


@pytest.fixture(autouse=True)
def _is_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_context.compaction.observation.activation._BUFFER_MOST_TOKENS", 800)
    for name in ("OBSERVING_SECONDS", "OBSERVING_NOW_SECONDS"):
        monkeypatch.setattr(guards, name, 300)
    monkeypatch.setattr(guards.LightModelGuards, "window_tokens", _window_tokens)


async def _window_tokens(self: guards.LightModelGuards) -> int:
    return WINDOW_TOKENS


async def test_a_real_model_observes_while_an_agent_streams_with_it(client_of: ClientOf, store: MemoryStore) -> None:
    """Each chunk tells what it cost; a model that is too small for the form makes none, and the oldest steps fold."""
    observer, actor = client_of(200), client_of(30)
    async with MemoryContext("alice", "coder", "live", store, model_client=observer, policy=PATIENT) as context:
        for berth in range(3):
            ship = f"Ship {berth} of captain Orwyn lies at berth {berth * 37}. "
            await context.add_message(UserMessage(content=f"Note that: {ship}", source="user"))
            await add_step(context, ship * 8, name="look_at_berth")
            await context.get_messages()
            await context.add_message(AssistantMessage(content=f"Noted: {ship}", source="coder"))
            await settle(context)
        agent = AssistantAgent(
            "coder", actor, model_context=context, system_message="Answer in five words.", model_client_stream=True
        )
        pieces, answer = 0, ""
        async for event in agent.run_stream(task="Who is the captain?"):
            pieces += isinstance(event, ModelClientStreamingChunkEvent)
            if isinstance(event, TaskResult):
                answer = event.messages[-1].to_text()  # type: ignore[union-attr]
        log = context.transcript.state.observation
    chunks = [*log.chunks, *log.buffered]
    print(f"\n{answer[:200]!r} in {pieces} pieces; {context.stats.light_model}")
    for chunk in chunks:
        print(f"messages {chunk.first + 1}-{chunk.last}: {chunk.record}\n{chunk.text}")
    assert pieces > 1
    assert [chunk.first for chunk in chunks[1:]] == [chunk.last for chunk in chunks[:-1]]
    for chunk in chunks:
        assert chunk.lines
        assert chunk.record is not None
        assert chunk.record.completion_tokens > 0, "it was asked, and its tokens are in the bill"
    assert context.stats.light_model.observations.tokens > 0


async def test_harness_runs_with_a_real_model_in_all_roles(client_of: ClientOf, store: MemoryStore) -> None:
    (question,) = small_set(1, turns=5)
    client = client_of(60)
    outcome = await ask(question, store, PATIENT, actor=client, light=client, judge=client)
    print(f"\n{outcome}")
    assert outcome.error == ""
    assert outcome.response
    assert outcome.light_model_tokens > 0
