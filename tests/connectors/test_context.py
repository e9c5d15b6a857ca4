"""Connectors of a context: what they observe stands in the history, what there is now at the end of the view."""

import base64
import json

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import FunctionExecutionResultMessage, UserMessage

from memory_context import HistoryThought, HistoryTurn, MemoryStore
from memory_context.connectors.protocols import Element
from memory_context.memory.vault.secrets import SECRET_KEY_ENV
from memory_context.testing import ScriptedModel, call

from ..context.steps import add_step
from .counting import Counter, context_of, texts


async def test_observations_follow_results_and_state_stands_last(store: MemoryStore) -> None:
    counter = Counter()
    async with context_of(store, counter) as context:
        await context.add_message(UserMessage(content="Go.", source="user"))
        await add_step(context, "look", "seen")
        view = await context.get_messages()
    assert texts(view)[:2] == ["Go.", "count is 1"]
    assert texts(view)[-2:] == ["count is 2", '<connector_state id="counter">\nnow 2\n</connector_state>']
    assert isinstance(view[-3], FunctionExecutionResultMessage)
    assert not counter.is_open


async def test_large_observation_is_stored_and_compacted_once_answered(store: MemoryStore) -> None:
    async with context_of(store, Counter(text=" apples" * 3000)) as context:
        await context.add_message(UserMessage(content="Go.", source="user"))
        for _ in range(3):
            await add_step(context, "look", "seen")
            await context.get_messages()
        assert "[MemoryRef: counter_" in "\n".join(texts(await context.get_messages()))
        items = await context.agent_memory.query()
        assert {item.source for item in items} == {"counter"}


async def test_observation_of_an_action_comes_first_and_the_run_fills_the_history(store: MemoryStore) -> None:
    async with context_of(store, Counter()) as context:
        model = ScriptedModel(call("jump"), "Done.")
        agent = AssistantAgent(
            "coder", model_client=model, model_context=context, workbench=context.workbench(), max_tool_iterations=3
        )
        await agent.run(task="Jump.")
        said = texts([entry.message for entry in context.transcript.entries()])
        built = await context.build_context()
    assert said[:2] == ["Jump.", "count is 1"]
    assert said[-4:] == ["Done; what was observed follows.", "it jumped", "count is 2", "Done."]
    first, turn, last = built.history
    assert first == HistoryTurn(first.timestamp, "null", ("count is 1",))
    jump = '{"name": "jump", "arguments": {}}'
    assert turn == HistoryTurn(turn.timestamp, jump, ("it jumped", "count is 2"))
    assert last == HistoryThought(last.timestamp, "Done.")
    assert [(one.connector_id, one.elements) for one in built.current_connector_states] == [("counter", ("now 2",))]


async def test_session_goes_on_with_what_was_observed(store: MemoryStore) -> None:
    async with context_of(store, Counter(), session="s") as context:
        await context.add_message(UserMessage(content="Go.", source="user"))
        await add_step(context, "look", "seen")
        state = await context.save_state()
        shown = texts(await context.get_messages())
    later = context_of(store, Counter(), session="s")
    await later.load_state(state)
    assert texts(await later.get_messages()) == shown
    assert [entry.carries_result for entry in later.transcript.entries()] == [False, True, False, False, True]
    await later.close()


async def test_state_of_a_connector_that_is_no_longer_given_leaves_the_view(store: MemoryStore) -> None:
    async with context_of(store, Counter(), session="s") as context:
        await context.add_message(UserMessage(content="Go.", source="user"))
        state = await context.save_state()
    later = context_of(store, session="s")
    await later.load_state(state)
    assert texts(await later.get_messages())[-1] == '<connector_state id="counter">\nnow 1\n</connector_state>'
    await later.add_message(UserMessage(content="And now?", source="user"))
    assert texts(await later.get_messages()) == ["Go.", "count is 1", "And now?"]
    await later.close()


async def test_secrets_are_names_in_observations_and_states(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET_KEY_ENV, base64.b64encode(bytes(32)).decode())

    class Leaking(Counter):
        async def render_current_state(self) -> list[Element]:
            return ["token=s3cret-value-of-alice"]

    async with context_of(store, Leaking(text=" s3cret-value-of-alice")) as context:
        await context.agent_memory.secrets.set("TOKEN", "s3cret-value-of-alice")
        await context.add_message(UserMessage(content="Go.", source="user"))
        await add_step(context, "look", "seen")
        said = "\n".join(texts(await context.get_messages())) + json.dumps(await context.save_state())
    assert "s3cret-value" not in said
    assert "token={{secret:TOKEN}}" in said


async def test_subagent_has_the_connectors_that_it_is_given_and_leaves_them_open(store: MemoryStore) -> None:
    counter = Counter()
    async with context_of(store, counter) as context:
        await context.add_message(UserMessage(content="Go.", source="user"))
        assert "jump" not in [tool.name for tool in context.for_subagent("other").tools()]
        helper = context.for_subagent("helper", connectors=[counter])
        assert helper.tools()[-1].name == "jump"
        await helper.add_message(UserMessage(content="Look.", source="user"))
        assert texts(await helper.get_messages())[:2] == ["Look.", "count is 2"]
        await helper.close()
        assert counter.is_open
    assert not counter.is_open
