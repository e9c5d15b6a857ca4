"""Observation in a context: in the background, at the threshold, on request, and when models fail."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage

from memory_context import (
    MemoryContext,
    MemoryStore,
)
from memory_context.compaction.observation.events import ObservationEvent, ReflectionEvent
from memory_context.compaction.observation.prompts import REFLECTOR_INSTRUCTIONS
from memory_context.foundation.light_model.answers import Completion
from memory_context.sessions.transcript.observation_decisions import ObservationsActivated
from memory_context.sessions.transcript.view_decisions import HistoryFolded
from tests.context.lights import Light
from tests.context.steps import a_turn_of_the_loop, add_step
from tests.observation.observed import NOWHERE, SENTENCE, Observer, context_of, fill, log_of, say, settled


async def test_observer_runs_in_the_background_before_the_room_is_needed():
    """Nothing in the view changes, and no step waits for it."""
    observer = Observer(is_held=True)
    context = context_of(observer)
    await say(context, 0)
    assert not context.observation.is_observer_in_flight
    for number in range(1, 4):
        await say(context, number)
    assert context.observation.is_observer_in_flight
    view = await context.get_messages()
    observer.release.set()
    await settled(context)
    assert observer.calls == 1
    assert log_of(context).observed > 0
    assert await context.get_messages() == view


async def test_finished_chunks_replace_messages_at_the_activation_ratio():
    observer = Observer()
    context = context_of(observer)
    events: list[ObservationEvent] = []
    context.observation.on_observation(events.append)
    await fill(context)
    log, text = log_of(context), context.observation.slot_content
    assert log.left > 0
    assert not any(isinstance(one, HistoryFolded) for _, one in context.transcript.log)
    assert all(f"item-{number} " in text for number in range(3))
    assert events
    assert all(not event.sync and event.context_utilization >= 0.9 for event in events)
    assert sum(len(event.compacted_messages) for event in events) == log.left
    assert context.stats.activations == len(events)
    assert context.stats.observation_tokens > 0


async def test_activation_goes_down_to_the_target_and_leaves_the_retention_tail():
    context = context_of(Observer())
    await fill(context, 14)
    activated = [one for _, one in context.transcript.log if isinstance(one, ObservationsActivated)]
    assert activated
    assert all(one.reason == "ratio" for one in activated)
    window = context.observation.window_tokens
    assert (await context.explain()).tokens >= 0.2 * window
    assert max(one.left for one in activated) <= context.transcript.end - 2


async def test_step_over_the_threshold_waits_for_the_observer(monkeypatch: pytest.MonkeyPatch):
    """Without anything prepared: the range before the retention tail is observed at once."""
    monkeypatch.setattr(
        "memory_context.compaction.observation.activation.least_buffered", lambda window_tokens: 100_000
    )
    observer = Observer()
    context = context_of(observer)
    events: list[ObservationEvent] = []
    context.observation.on_observation(events.append)
    await fill(context, 12)
    assert log_of(context).left > 0
    assert events[0].sync
    assert not any(isinstance(one, HistoryFolded) for _, one in context.transcript.log)


async def test_observe_now_replaces_all_but_the_newest_step_if_asked(monkeypatch: pytest.MonkeyPatch):
    """However little of the window the view takes; what stays was not observed."""
    monkeypatch.setattr(
        "memory_context.compaction.observation.activation.least_buffered", lambda window_tokens: 100_000
    )
    context = context_of(Observer())
    for number in range(4):
        await say(context, number)
        await context.get_messages()
    before = await context.get_messages()
    chunk = await context.observe_now(replaces=True)
    assert chunk is not None
    assert log_of(context).left == chunk.last == log_of(context).observed < context.transcript.end
    after = await context.get_messages()
    assert after[-1] == before[-1]
    assert len(after) < len(before) - 2


@pytest.mark.parametrize("observer", [Observer(error=RuntimeError("no credit")), Observer(is_held=True)])
async def test_fold_holds_the_budget_while_the_model_fails_or_hangs(
    observer: Observer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("memory_context.foundation.light_model.guards.OBSERVING_NOW_SECONDS", 0.01)
    context = context_of(observer)
    for number in range(20):
        await say(context, number)
        await context.get_messages()
    assert observer.calls > 0
    assert (log_of(context).left, log_of(context).observed) == (0, 0)
    assert any(isinstance(one, HistoryFolded) for _, one in context.transcript.log)
    assert (await context.explain()).tokens <= 4000
    context.observation.abort()
    assert observer.error is None or context.stats.light_model.observations.failures > 0


async def test_log_loses_its_oldest_lines_while_the_reflector_fails(monkeypatch: pytest.MonkeyPatch):
    """At twice the threshold. The user's lines go last; each message is still under a chunk, so that it can be read."""
    monkeypatch.setattr("memory_context.compaction.observation.reflector._REFLECTION_SHARE", 0.1)
    observer = Observer()

    async def complete(messages: Sequence[LLMMessage], limit_tokens: int) -> Completion:
        if str(messages[0].content).startswith(REFLECTOR_INSTRUCTIONS):
            raise RuntimeError("no credit")
        answer = await observer(messages, limit_tokens)
        return replace(answer, text=answer.text.replace(" came up", ""))  # the words are the user's, then

    context = context_of(observer)
    context.observation.completion_function = complete
    await fill(context, 30)
    log = log_of(context)
    assert log.generation > 0
    assert log.tokens < 2 * 0.1 * context.observation.window_tokens
    assert [0, *(chunk.last for chunk in log.chunks)] == [*(chunk.first for chunk in log.chunks), log.logged]
    begins = {line.priority: line.ranges[0][0] for line in reversed(log.lines)}
    assert 0 < begins["user"] < begins["project"]
    assert log.lines[-1].ranges[-1][1] == log.logged


async def test_subagent_observes_by_the_function_of_its_context():
    observer = Observer()
    context = context_of(observer)
    assert context.for_subagent("helper").observation.completion_function is observer


async def test_observe_now_joins_the_log_and_leaves_the_messages(monkeypatch: pytest.MonkeyPatch):
    """The newest message of the user is observed; the next activation removes them without observing again."""
    monkeypatch.setattr(
        "memory_context.compaction.observation.activation.least_buffered", lambda window_tokens: 100_000
    )
    observer = Observer()
    context = context_of(observer)
    events: list[ObservationEvent] = []
    context.observation.on_observation(events.append)
    await say(context, 0)
    await context.add_message(UserMessage(content="item-77 No: Porto, not Bergen.", source="user"))
    before = await context.get_messages()
    chunk = await context.observe_now()
    assert chunk is not None
    assert (chunk.first, chunk.last) == (0, 3)
    assert "item-77" in chunk.text
    assert (events[0].context_utilization, events[0].sync) == (0.0, True)
    after = await context.get_messages()
    assert [one for one in after if one in before] == before
    assert chunk.text in [one.content for one in after]
    assert len(context.transcript.state.observation.chunks) == 1
    assert await context.observe_now() is None  # nothing is new
    await fill(context, 12)
    assert log_of(context).left >= 3
    chunks = log_of(context).chunks
    assert [(one.first, one.last) for one in chunks[:1]] == [(0, 3)]


@pytest.mark.parametrize("observer", [Observer(error=RuntimeError("no credit")), Observer(is_held=True), None])
async def test_observe_now_without_an_answer_changes_nothing(
    observer: Observer | None, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("memory_context.foundation.light_model.guards.OBSERVING_NOW_SECONDS", 0.01)
    context = context_of(observer)
    await say(context, 0)
    before = context.observation.get_state()
    assert await context.observe_now() is None
    assert context.observation.get_state() == before
    assert not context.observation.is_processing


async def test_observe_now_makes_the_run_in_flight_void():
    observer = Observer(is_held=True)
    context = context_of(observer)
    for number in range(4):
        await say(context, number)
    assert context.observation.is_observer_in_flight
    now = asyncio.ensure_future(context.observe_now())
    while observer.calls < 2:
        await a_turn_of_the_loop()
    observer.release.set()
    chunk = await now
    await settled(context)
    assert chunk is not None
    assert [(one.first, one.last) for one in log_of(context).chunks] == [(0, 8)]


async def test_changed_model_activates_what_is_finished():
    context = context_of(Observer())
    for number in range(5):
        await say(context, number)
        await settled(context)
    assert log_of(context).buffered
    assert log_of(context).left == 0
    context.model_changed()
    assert log_of(context).left > 0
    (activated,) = [one for _, one in context.transcript.log if isinstance(one, ObservationsActivated)]
    assert activated.reason == "model_changed"


async def test_cold_prompt_cache_activates_what_is_finished():
    context = context_of(Observer())
    for number in range(5):
        await say(context, number)
        await settled(context)
    newest = context.transcript[context.transcript.end - 1]
    newest.added_at -= timedelta(seconds=context.policy.cache.ttl_seconds + 1)
    await context.add_message(UserMessage(content="item-99 Are you there?", source="user"))
    (activated,) = [one for _, one in context.transcript.log if isinstance(one, ObservationsActivated)]
    assert activated.reason == "cold"


async def test_log_over_its_threshold_is_condensed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("memory_context.compaction.observation.reflector._REFLECTION_SHARE", 0.05)
    context = context_of(Observer())
    events: list[ReflectionEvent] = []

    @context.observation.on_reflection
    async def note(event: ReflectionEvent) -> None:
        await a_turn_of_the_loop()
        events.append(event)

    await fill(context, 30)
    assert events
    assert [event.generation_count for event in events] == [*range(1, len(events) + 1)]
    assert all(len(event.new_observations) < len(event.previous_observations) for event in events)
    assert context.stats.reflections == len(events) == log_of(context).generation


async def test_handler_that_raises_harms_none(caplog: pytest.LogCaptureFixture):
    context = context_of(Observer())
    heard: list[ObservationEvent] = []

    @context.observation.on_observation
    def fail(event: ObservationEvent) -> None:
        raise KeyError("handler")

    context.observation.on_observation(heard.append)
    await fill(context, 12)
    assert heard
    assert "a handler of ObservationEvent failed" in caplog.text


async def test_context_without_model_decides_the_same_as_without_observation():
    decided: list[list[tuple[int, str]]] = []
    for mode in ("auto", "off"):
        context = context_of(None, mode=mode)
        for number in range(16):
            await say(context, number)
        await context.get_messages()
        decided.append([(at, one.kind) for at, one in context.transcript.log])
        assert not context.observation.is_processing
    assert decided[0] == decided[1]
    assert "folded" in {kind for _, kind in decided[0]}


async def test_state_survives_json_and_drops_chunks_without_watermark():
    context = context_of(Observer())
    await fill(context, 13)
    state = context.observation.get_state()
    assert state.observations
    assert state.buffered_chunks
    saved = json.loads(json.dumps(state.to_json()))
    context.observation.restore_state(saved)
    assert context.observation.get_state() == state
    context.observation.restore_state({**saved, "buffer_watermark": None})
    assert context.observation.get_state().buffered_chunks == ()
    assert not context.observation.is_processing
    with pytest.raises(ValueError, match="no state of observations"):
        context.observation.restore_state({"observations": "a text"})


async def test_observations_are_archived_and_resumed(store: MemoryStore):
    observer = Observer()
    context = context_of(observer, store)
    await fill(context, 13)
    view, log = await context.get_messages(), log_of(context)
    await context.close()
    again = MemoryContext("alice", "coder", context.session_id, store, policy=context.policy)
    assert await again.get_messages() == view
    assert log_of(again) == log
    assert log.left > 0
    await again.close()


async def test_observer_calls_of_the_light_model_are_in_the_bill():
    """The client is asked behind decisions; its calls are counted, also after a load."""
    light = Light()
    policy = context_of(None).policy
    context = MemoryContext("alice", "coder", None, MemoryStore(NOWHERE), model_client=light, policy=policy)
    await fill(context, 12)
    bill = context.stats.light_model
    assert bill.observations.calls == len(light.observer_prompts) > 0
    assert "observation" in str(bill)
    assert {chunk.made_by for chunk in log_of(context).chunks} == {"model"}
    loaded = MemoryContext("alice", "coder", None, MemoryStore(NOWHERE), policy=policy)
    await loaded.load_state(await context.save_state())
    assert loaded.stats.light_model.observations == bill.observations


async def test_calls_without_results_are_not_observed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        "memory_context.compaction.observation.activation.least_buffered", lambda window_tokens: 100_000
    )
    observer = Observer()
    context = context_of(observer)
    await say(context, 0)
    await add_step(context, f"item-5 {SENTENCE}")
    from autogen_core import FunctionCall

    call = FunctionCall("open", "{}", "survey")
    await context.add_message(AssistantMessage(content=[call], source="coder"))
    await context.add_message(UserMessage(content="item-6 Meanwhile: hurry.", source="reviewer"))
    chunk = await context.observe_now()
    assert chunk is not None
    assert chunk.last == 4


async def test_smaller_window_of_a_swapped_model_counts():
    context = context_of(Observer())
    await fill(context, 8)
    assert log_of(context).left == 0
    context.observation.window_tokens = 2500
    assert context.observation.window_tokens == 2500
    await say(context, 50)
    assert log_of(context).left > 0
