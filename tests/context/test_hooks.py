"""`context.on`: what happens in a context, told to the application as plain values."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, get_args

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import AssistantMessage, UserMessage

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.handlers import ContextEvent, EventName
from tests.observation import observed

from ..agents.scripted import calls, model, report
from .steps import ALWAYS_PAYS, NEVER_PAYS, add_step


def survey(topic: str) -> str:
    """Survey a topic at length."""
    return report(topic)


def told_by(context: MemoryContext) -> list[ContextEvent]:
    """Return the list that each later event of the context joins."""
    events: list[ContextEvent] = []
    for name in get_args(EventName):
        context.on(name, events.append)
    return events


async def test_events_of_an_agents_run_arrive_in_order_with_their_values(store: MemoryStore):
    context = MemoryContext("alice", "coder", "s", store, policy=ContextPolicy(cache=ALWAYS_PAYS))
    events = told_by(context)
    client = model(calls(("survey", {"topic": "owls"})), calls(("survey", {"topic": "bats"})), "Done.")
    agent = AssistantAgent("coder", client, tools=[survey], model_context=context, max_tool_iterations=5)
    await agent.run(task="Survey owls and bats.")
    bats, owls = await context.agent_memory.query()
    expected = [("stored", owls, "offload"), ("compacted", owls, "consumed"), ("stored", bats, "offload")]
    assert [(one.what, one.keys, one.tokens, one.reason) for one in events[:3]] == [
        (what, (item.key,), item.ref.token_count, reason) for what, item, reason in expected
    ]
    assert {one.session_id for one in events} == {"s"}
    await context.add_message(UserMessage(content=f"Look at {owls.key} again.", source="user"))
    await context.get_messages()
    (expanded,) = [one for one in events if one.what == "expanded"]
    assert (expanded.keys, expanded.reason) == ((owls.key,), "named")
    assert expanded.why == "named by the user"
    assert expanded.tokens > 0
    await context.close()


async def test_fold_is_told_with_the_tokens_of_its_messages(store: MemoryStore):
    """Also one of messages that no item holds."""
    context = MemoryContext("alice", "coder", "s", store, policy=ContextPolicy(token_budget=4000, cache=NEVER_PAYS))
    folds: list[ContextEvent] = []
    context.on("folded", folds.append)
    for _ in range(20):
        await add_step(context, "a small result that stays inline\n" * 30)
    await context.get_messages()
    assert folds
    assert len(folds) == context.stats.folds
    assert all(one.tokens > 1000 and one.reason == "budget" and one.keys == () for one in folds)
    await context.close()


async def test_observed_messages_are_told_with_the_tokens_of_the_observations():
    context = observed.context_of(observed.Observer())
    events: list[ContextEvent] = []
    context.on("observed", events.append)
    await observed.fill(context)
    assert len(events) == context.stats.observations
    assert events[0].why.startswith("messages 1-")
    assert all(one.tokens > 0 and one.reason == "model" for one in events)


async def test_explicit_store_recall_and_forgetting_are_told(store: MemoryStore):
    earlier = MemoryContext("alice", "coder", None, store)
    stored = told_by(earlier)
    key = await earlier.store("The team lunch is every Thursday at Luigi's.", "where the lunch is", type="user_fact")
    await earlier.get_messages()
    assert [(one.what, one.keys, one.reason) for one in stored] == [("stored", (key,), "asked")]
    context = MemoryContext("alice", "coder", None, store)
    events = told_by(context)
    await context.add_message(UserMessage(content="Where did we say the team lunch is?", source="user"))
    await context.get_messages()
    assert [(one.what, one.keys) for one in events] == [("recalled", (key,))]
    assert await context.agent_memory.forget(key)
    await context.get_messages()
    assert events[-1].what == "forgotten"
    assert key in events[-1].keys
    await context.close()


async def test_outage_is_told_once_as_failed(caplog: pytest.LogCaptureFixture):
    context = MemoryContext("alice", "coder", None, MemoryStore("postgresql://alice@127.0.0.1:1/nowhere"))
    failures: list[ContextEvent] = []
    context.on("failed", failures.append)
    for _ in range(3):
        await add_step(context, report("owls"))
    (inline,) = [one for one in failures if "stays inline" in one.why]
    assert inline.why in caplog.messages
    assert len({one.why for one in failures}) == len(failures)
    await context.close()


async def test_handler_that_raises_or_hangs_is_logged_and_does_not_disturb_the_agent(
    store: MemoryStore, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """Handlers after it are called, also async ones."""
    monkeypatch.setattr("memory_context.foundation.handlers._HANDLER_SECONDS", 0.01)
    context, told = MemoryContext("alice", "coder", "s", store), list[str]()

    def broken(_: ContextEvent) -> None:
        raise RuntimeError("my handler is broken")

    async def hanging(_: ContextEvent) -> None:
        await asyncio.Event().wait()

    async def sound(event: ContextEvent) -> None:
        await asyncio.sleep(0)
        told.append(event.what)

    handlers: list[Callable[[ContextEvent], Any]] = [broken, hanging, sound]
    for handler in handlers:
        context.on("stored", handler)
    client = model(calls(("survey", {"topic": "owls"})), "Done.")
    result = await AssistantAgent("coder", client, tools=[survey], model_context=context, reflect_on_tool_use=True).run(
        task="Survey owls."
    )
    assert result.messages[-1].to_text() == "Done."
    await context.close()
    assert told == ["stored"]
    assert [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR] == [
        "a handler of ContextEvent failed"
    ] * 2
    assert "my handler is broken" in caplog.text


async def test_handler_may_use_its_context(store: MemoryStore):
    context, told = MemoryContext("alice", "coder", "s", store), list[str]()

    async def note(event: ContextEvent) -> None:
        told.append(event.what)
        if len(told) < 3:
            await context.record_thought(f"I stored {event.keys}.\n" * 400)

    context.on("stored", note)
    await add_step(context, report("owls"))
    await context.close()
    assert len(told) == 3


async def test_removed_handler_is_called_no_more(store: MemoryStore):
    context, told = MemoryContext("alice", "coder", None, store), list[ContextEvent]()
    stop = context.on("stored", told.append)
    await add_step(context, report("owls"))
    stop()
    stop()
    await add_step(context, report("bats"))
    assert len(told) == 1
    await context.close()


async def test_unknown_event_is_refused_with_the_names(store: MemoryStore):
    with pytest.raises(ValueError, match="'saved' is unknown: use one of stored, compacted"):
        MemoryContext("alice", "coder", None, store).on("saved", print)  # type: ignore[arg-type]


async def test_resumed_session_tells_nothing_again(store: MemoryStore):
    """Neither from the archive nor from a state."""
    first = MemoryContext("alice", "coder", "s", store, policy=ContextPolicy(cache=ALWAYS_PAYS))
    before = told_by(first)
    await add_step(first, report("owls"))
    await first.get_messages()
    await first.add_message(AssistantMessage(content="I read it.", source="coder"))
    await first.get_messages()
    state = await first.save_state()
    await first.close()
    assert {one.what for one in before} >= {"stored", "compacted"}
    again, loaded = MemoryContext("alice", "coder", "s", store), MemoryContext("alice", "coder", "s", store)
    events = told_by(again) + told_by(loaded)
    assert (await again.resume()).outcome == "resumed"
    await loaded.load_state(state)
    assert (await again.get_messages(), events) == (await loaded.get_messages(), [])
    await again.close()
    await loaded.close()
