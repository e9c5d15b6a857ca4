"""`memory_context.testing` as an application uses it: its store, its scripted model, its fixtures and its checks."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core.model_context import UnboundedChatCompletionContext
from autogen_core.models import UserMessage

from memory_context import MemoryContext
from memory_context.foundation.compactors.compactor import Compacted, Compactor, Hint, Result
from memory_context.foundation.embeddings.embedder import Embedder, Purpose
from memory_context.foundation.embeddings.wordllama import WordLlamaEmbedder
from memory_context.testing import (
    COMPACTOR_CHECKS,
    EMBEDDER_CHECKS,
    ScriptedModel,
    call,
    temporary_store,
)
from tests.support.waiting import PATIENT_SECONDS

pytestmark = pytest.mark.thorough

USER_CONFTEST = 'pytest_plugins = ["memory_context.testing.fixtures"]\n'
USER_TESTS = """
import asyncio

async def store_content(store, words):
    from memory_context import MemoryContext
    context = MemoryContext("alice", "coder", None, store)
    key = await context.store(words, "a note")
    return await context.retrieve(key)

def test_content_comes_back(memory_store):
    assert asyncio.run(store_content(memory_store, "the boiler is serviced in May")).startswith("the boiler")

def test_store_of_the_next_test_is_empty(memory_store):
    from memory_context import AgentMemory
    async def listed():
        memory = AgentMemory(memory_store, "alice", "coder", "s")
        return await memory.query()
    assert asyncio.run(listed()) == []
"""


def report(lines: int = 400) -> str:
    """Return a report of 400 lines."""
    return "\n".join(f"finding {number}: value {number * 37 % 1009}" for number in range(lines))


async def test_scripted_agent_retrieves_from_temporary_store():
    """It calls a tool, gets a reference for the large result later, and reads one line of it."""
    model = ScriptedModel(
        call("report"),
        "I have read it.",
        call("retrieve_memory", memory_key="{key}", pattern="finding 7:"),
        "{result}",
    )
    async with temporary_store() as store:
        context = MemoryContext("alice", "coder", None, store)
        agent = AssistantAgent(
            "coder", model, workbench=context.workbench([report]), model_context=context, max_tool_iterations=3
        )
        await agent.run(task="Read the report.")
        result = await agent.run(task="What is finding 7?")
    assert "finding 7: value 259" in str(result.messages[-1].content)  # type: ignore[union-attr]
    assert len(model.views) == 4


async def test_scripted_model_goes_on_by_the_view_and_streams_words():
    """Another object makes the next decision; component data holds the script."""
    script = ScriptedModel("first answer", lambda view: f"{len(view)} messages")
    context = UnboundedChatCompletionContext()
    agent = AssistantAgent("coder", script, model_context=context, model_client_stream=True)
    await agent.run(task="one")
    again = AssistantAgent("coder", ScriptedModel("never", "second"), model_context=context)
    assert (await again.run(task="two")).messages[-1].content == "second"  # type: ignore[union-attr]
    words = [one async for one in script.create_stream([UserMessage(content="one", source="user")])]
    assert words[:-1] == ["first ", "answer"]
    data = ScriptedModel("text", call("report")).dump_component()
    assert data.provider == "memory_context.testing.ScriptedModel"
    with pytest.raises(ValueError, match="a function cannot be written down"):
        script.dump_component()
    with pytest.raises(ValueError, match="at least one decision"):
        ScriptedModel()


async def test_temporary_stores_share_nothing():
    """Each has a database of its own."""
    async with temporary_store() as one, temporary_store() as other:
        key = await MemoryContext("alice", "coder", "s", one).store("only here", "a note")
        assert await MemoryContext("alice", "coder", "s", one).retrieve(key) == "only here"
        assert await MemoryContext("alice", "coder", "s", other).agent_memory.query() == []


def test_fixtures_serve_a_project_without_asyncio_plugin(tmp_path: Path):
    """A store for each test, and neither server nor folder is left."""
    (tmp_path / "conftest.py").write_text(USER_CONFTEST)
    (tmp_path / "test_user.py").write_text(USER_TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:asyncio", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENT_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_missing_pytest_is_named():
    """The fixtures say what to install; everything else works without pytest."""
    script = "import sys; sys.modules['pytest'] = None; import memory_context.testing, memory_context.testing.fixtures"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENT_SECONDS)
    assert "memory_context.testing.fixtures needs pytest: pip install pytest" in done.stderr


# --- the checks pass for what is right, and find what is wrong


@pytest.mark.parametrize("check", EMBEDDER_CHECKS, ids=lambda check: check.__name__)
async def test_built_in_embedder_keeps_the_contract(check: Callable[[Embedder], Awaitable[None]]):
    await check(WordLlamaEmbedder())


class HeadCompactor:
    """Keeps the first line."""

    def compact(self, result: Result, hint: Hint) -> Compacted:
        return Compacted(
            "It ran.", f"{len(result.content):,} characters", result.content[: hint.facts_limit_tokens // 4]
        )


@pytest.mark.parametrize("check", COMPACTOR_CHECKS, ids=lambda check: check.__name__)
async def test_small_compactor_keeps_the_contract(check: Callable[[Compactor], Awaitable[None]]):
    await check(HeadCompactor())


async def failed(checks: Sequence[Callable[..., Awaitable[None]]], *arguments: Any, seconds: float = 60) -> set[str]:
    """Return the names of the checks that something fails, or does not end in time."""
    names: set[str] = set()
    for check in checks:
        try:
            await asyncio.wait_for(check(*arguments), seconds)
        except (Exception, asyncio.TimeoutError):
            names.add(check.__name__)  # type: ignore[attr-defined]
    return names


async def test_checks_find_an_embedder_that_mixes_up_texts():
    class Reversed:
        name, dimensions = "reversed", 2

        async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
            return [[float(len(text) % 7), float(number + 1)] for number, text in enumerate(texts)]

    assert await failed(EMBEDDER_CHECKS, Reversed()) == {"embedder_keeps_order_of_texts"}


async def test_checks_find_a_compactor_beyond_its_limits_and_one_that_is_random():
    class Greedy(HeadCompactor):
        count = 0

        def compact(self, result: Result, hint: Hint) -> Compacted:
            self.count += 1
            return Compacted("It ran.", f"answer {self.count}", result.content)

    names = {"compactor_answers_within_limits", "compactor_is_deterministic"}
    assert await failed(COMPACTOR_CHECKS, Greedy()) == names
