"""UIAgentBuilder: what an application hands in, and what it gets."""

import ast
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, ModelFamily, ModelInfo, RequestUsage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

from memory_context import ContextPolicy, ItemNotFoundError, MemoryContext, MemoryStore
from samples.chainlit_web import ui_hook
from samples.chainlit_web.ui_hook import UIAgentBuilder


@dataclass
class DataLayer:
    """An application's own, with a store in it."""

    memory_store: MemoryStore


@pytest.mark.parametrize("wrap", [lambda store: store, DataLayer], ids=["a store", "a data layer with a store"])
async def test_contexts_keep_their_data_in_the_applications_store(wrap, store: MemoryStore) -> None:
    context = UIAgentBuilder("helper").build_model_context("alice", wrap(store), session_id="thread-1")
    assert isinstance(context, MemoryContext)
    assert (context.user_id, context.agent_id, context.session_id) == ("alice", "helper", "thread-1")
    key = await context.store("the content", "a note")
    assert await store.fetch_memory("alice", key) is not None
    await context.close()
    assert await store.fetch_memory("alice", key) is not None  # the store is the application's: still open


def test_without_a_data_layer_the_default_store_is_used(home: Path) -> None:
    """And nothing is started yet."""
    context = UIAgentBuilder().build_model_context("alice", None)
    assert context.memory_store is MemoryStore.default()
    assert list(home.iterdir()) == []


@pytest.mark.parametrize("wrong", ["postgresql://me:hidden@localhost/db", object(), DataLayer(memory_store="no")])  # type: ignore[arg-type]
def test_another_data_layer_is_refused_with_what_to_pass(wrong: object) -> None:
    with pytest.raises(TypeError, match="pass a MemoryStore, an object with one as its memory_store, or None"):
        UIAgentBuilder().build_model_context("alice", wrong)


async def test_one_user_never_reads_anothers_content(store: MemoryStore) -> None:
    builder = UIAgentBuilder()
    alice, bob = (builder.build_model_context(user, store) for user in ("alice", "bob"))
    key = await alice.store("private", "a note")
    with pytest.raises(ItemNotFoundError):
        await bob.retrieve(key)


async def test_the_policy_holds_for_every_context(store: MemoryStore) -> None:
    builder = UIAgentBuilder(policy=ContextPolicy(token_budget=2000))
    context = builder.build_model_context("alice", store)
    await context.add_message(UserMessage(content="a word " * 5000, source="user"))
    await context.get_messages()
    assert context.stats.view_tokens <= 2000


async def test_builds_an_agent_that_holds_the_context(store: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("answer = 42\n")
    usage = RequestUsage(prompt_tokens=0, completion_tokens=0)
    info = ModelInfo(
        vision=False, function_calling=True, json_output=False, family=ModelFamily.UNKNOWN, structured_output=False
    )
    call = FunctionCall(id="1", name="grep", arguments=json.dumps({"pattern": "answer"}))
    asked = CreateResult(finish_reason="function_calls", content=[call], usage=usage, cached=False)
    client = ReplayChatCompletionClient([asked, "In one.py."], info)
    agent = UIAgentBuilder("helper").build_agent("alice", store, client, session_id="thread-1", code_root=tmp_path)
    assert isinstance(agent.model_context, MemoryContext)
    assert agent.model_context.session_id == "thread-1"
    await agent.run(task="Where is the answer?")
    assert "one.py:1:answer = 42" in str(await agent.model_context.get_messages())
    await agent.close()
    await agent.model_context.close()


def test_the_builder_needs_no_user_interface() -> None:
    """It is plain Python: nothing in it imports Chainlit."""
    for path in Path(ui_hook.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "chainlit" for name in names), path
