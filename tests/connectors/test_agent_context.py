"""`build_context`: what an agent thought, did and perceived, filled by an ordinary run or by hand."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, UserMessage

from memory_context import ContextPolicy, HistoryThought, HistoryTurn, MemoryContext, MemoryStore, TextObservation
from memory_context.testing import call, tool_calls

from .counting import Counter, context_of, picture

# at midnight it may be yesterday's: tests look at the time of the day
NOON = datetime.now(timezone.utc).replace(hour=12, minute=0, second=0, microsecond=0)


async def test_thought_comes_before_its_call_and_parallel_calls_are_turns_of_their_own(store: MemoryStore) -> None:
    async with context_of(store) as context:
        asked = tool_calls(call("look", at=1), call("look", at=2), thought="I look at both.")
        await context.add_message(UserMessage(content="Look.", source="user"))
        await context.add_message(AssistantMessage(content=asked.content, thought=asked.thought, source="coder"))
        thought, one, two = (await context.build_context()).history
    assert thought == HistoryThought(thought.timestamp, "I look at both.")
    actions = [json.loads(turn.action) for turn in (one, two) if isinstance(turn, HistoryTurn)]
    assert actions == [{"name": "look", "arguments": {"at": 1}}, {"name": "look", "arguments": {"at": 2}}]


@dataclass
class Click:
    ref: str


@pytest.mark.parametrize(
    ("action", "shown"),
    [
        (FunctionCall(id="1", name="click", arguments="{}"), {"name": "click", "arguments": {}}),
        (Click("e1"), {"name": "action", "arguments": {"ref": "e1"}}),
        (ContextPolicy().cache, {"name": "action", "arguments": ContextPolicy().cache.model_dump(mode="json")}),
        ("click e1", {"name": "action", "arguments": {"action": "click e1"}}),
        (
            [Click("e1"), NOON],
            {"name": "action", "arguments": {"action": [{"ref": "e1"}, NOON.isoformat().replace("+00:00", "Z")]}},
        ),
        ('{"name": "click", "arguments": {"ref": "e1"}}', {"name": "click", "arguments": {"ref": "e1"}}),
        (
            {"name": "not a name", "arguments": {}},
            {"name": "action", "arguments": {"name": "not a name", "arguments": {}}},
        ),
    ],
)
async def test_recorded_turn_holds_action_and_observations(store: MemoryStore, action: Any, shown: Any) -> None:
    image = picture(1)
    seen = ["The page changed.", TextObservation("web", "a dialog"), image]
    async with context_of(store) as context:
        await context.record_thought("I click.", NOON)
        await context.record_turn(action, seen, NOON)
        thought, turn = (await context.build_context()).history
        view = await context.get_messages()
    assert (thought.timestamp[-8:], thought) == ("12:00:00", HistoryThought(thought.timestamp, "I click."))
    assert isinstance(turn, HistoryTurn)
    assert json.loads(turn.action) == shown
    assert turn.timestamp == thought.timestamp
    assert turn.observations[:2] == ("The page changed.", "a dialog")
    assert len(view) == 5


async def test_observations_of_a_turn_keep_their_order(store: MemoryStore) -> None:
    """Texts in front are the result; a text behind an observation stays behind it."""
    seen = ["first", "second", TextObservation("web", "third"), "fourth", TextObservation("web", "fifth")]
    async with context_of(store) as context:
        await context.record_turn("look", seen)
        await context.record_turn("look", [TextObservation("web", "sixth"), "seventh"])
        one, other = (await context.build_context()).history
    assert one.observations == ("first\nsecond", "third", "fourth", "fifth")
    assert other.observations == ("sixth", "seventh")


async def test_times_have_dates_once_a_session_spans_days(store: MemoryStore) -> None:
    async with context_of(store) as context:
        await context.record_thought("Before.", NOON - timedelta(days=1))
        await context.record_thought("Now.", NOON)
        built = await context.build_context()
    days = [NOON - timedelta(days=1), NOON]
    assert [one.timestamp for one in built.history] == [f"{day:%Y-%m-%d} 12:00:00" for day in days]
    assert built.current_timestamp.startswith(f"{datetime.now(timezone.utc):%Y-%m-%d} ")


async def test_states_of_named_connectors_are_rendered(store: MemoryStore) -> None:
    other = Counter("other")
    async with context_of(store, Counter()) as context:
        await context.add_message(UserMessage(content="Go.", source="user"))
        built = await context.build_context([other])
    assert [one.connector_id for one in built.current_connector_states] == ["other"]
    assert other.count == 0


async def test_action_that_is_no_json_is_refused_and_nothing_is_added(store: MemoryStore) -> None:
    async with context_of(store) as context:
        with pytest.raises(ValueError, match="is not JSON"):
            await context.record_turn({"at": object()}, [])
        with pytest.raises(ValueError, match="is not JSON"):
            await context.record_turn({"at": float("nan")}, [])
        assert (await context.build_context()).history == ()


async def test_resumed_session_has_its_history(store: MemoryStore) -> None:
    async with context_of(store, session="s") as context:
        await context.record_thought("I think.", NOON)
        built = await context.build_context()
    later: MemoryContext = context_of(store, session="s")
    await later.resume()
    assert (await later.build_context()).history == built.history
    await later.close()
