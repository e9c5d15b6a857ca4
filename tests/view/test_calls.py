"""Recorded model calls: each view is made again from the archive, byte for byte, and a bill is a sum of records."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage

from benchmarks import observation_lives
from benchmarks.observation_lives import policy_of
from memory_context import CachePolicy, ContextPolicy, MemoryContext, MemoryStore, ObservationPolicy
from memory_context.foundation.light_model.answers import Completion
from memory_context.foundation.messages import message_to_json
from memory_context.recall.expansion.expander import memory_decisions
from memory_context.sessions.archive.resume import whole_history
from memory_context.sessions.transcript.codec import load_transcript
from memory_context.sessions.transcript.view_decisions import ViewShown
from memory_context.testing import observe_by_script
from memory_context.view.bill import Bill
from memory_context.view.calls import CallView, bill_with, recorded_calls, view_of_call

from ..agents.scripted import report
from ..context.histories import Life, any_compactors, any_policy, long_history, moody
from ..context.steps import add_step


class HandedOut:
    """All views that contexts hand out, by the record that tells of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.views: dict[tuple[int, str], str] = {}
        get_messages = MemoryContext.get_messages

        async def recording(context: MemoryContext) -> list[LLMMessage]:
            view = await get_messages(context)
            if view:  # an empty one is no call
                shown = context.transcript.decisions(ViewShown)[-1][1]
                self.views[shown.upto, shown.digest] = as_text(view)
            return view

        monkeypatch.setattr(MemoryContext, "get_messages", recording)


def as_text(messages: list[LLMMessage]) -> str:
    return json.dumps([message_to_json(message) for message in messages])


async def calls_again(context: MemoryContext) -> list[tuple[ViewShown, CallView]]:
    """Return each recorded call of an archived session with its view, made again."""
    await context.archive()
    archived = await context.memory_store.conversations.read(context.key)
    saved, unread = whole_history(archived)
    assert unread == ()
    made: list[tuple[ViewShown, CallView]] = []
    while True:
        try:
            again = await view_of_call(saved, len(made) + 1, context.agent_memory, context.policy)
        except IndexError:
            return made
        made.append((again.transcript.decisions(ViewShown)[-1][1], again))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.thorough
async def test_each_view_of_a_life_is_made_again_from_its_archive(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, seed: int
):
    """Through compactions, folds, opened items, clears, saves and loads."""
    handed_out = HandedOut(monkeypatch)
    policy, compactors = any_policy(seed), any_compactors(seed)
    light = moody(seed) if seed % 2 else None
    context = MemoryContext("alice", "coder", None, store, model_client=light, policy=policy, compactors=compactors)
    life = Life(context, light=light, compactors=compactors)
    life.check_transcript = lambda: None  # type: ignore[method-assign]
    await life.live(long_history(seed, 40))
    made = await calls_again(life.context)
    assert len(made) > 10
    assert {number: again.problem for number, (_, again) in enumerate(made, 1) if again.problem} == {}
    for shown, again in made:
        assert as_text(again.messages) == handed_out.views[shown.upto, shown.digest]


async def test_forgotten_content_makes_a_view_differ_and_is_told(store: MemoryStore):
    """The rest of the view is there; other calls are exact."""
    async with MemoryContext("alice", "coder", "s", store) as context:
        await add_step(context, report("owls"))
        await context.get_messages()
        await add_step(context, report("bats"))
        await context.get_messages()
        (_, before), (_, last) = await calls_again(context)
        assert (before.problem, last.problem) == ("", "")
        key = next(one.keys[0] for one in before.view.messages[1].segments if one.keys)
        await context.agent_memory.forget(key)
        (_, again), *_ = await calls_again(context)
    assert again.problem.startswith("not what was handed out: the store no longer has")
    assert key in again.problem
    assert [type(one) for one in again.messages] == [type(one) for one in before.messages]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.thorough
async def test_each_view_of_an_observed_life_is_made_again(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, seed: int
):
    """Messages leave for observations of a scripted model, which are condensed, restored, cleared."""
    handed_out, rng = HandedOut(monkeypatch), random.Random(seed)
    policy = policy_of(random.Random(seed), "lossless", is_archived=True)
    context = MemoryContext("alice", "coder", "s", store, policy=policy)
    life = observation_lives.Life(context, observation_lives.Script("lossless", rng), rng, observation_lives.Watch())
    life.take(context)
    await life.live(40)
    made = await calls_again(life.context)
    assert life.context.stats.activations > 0
    assert len(made) > 10
    assert {number: again.problem for number, (_, again) in enumerate(made, 1) if again.problem} == {}
    for shown, again in made:
        assert as_text(again.messages) == handed_out.views[shown.upto, shown.digest]


async def test_joined_user_messages_are_joined_again(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    handed_out = HandedOut(monkeypatch)
    policy = ContextPolicy(joins_user_messages=True)
    async with MemoryContext("alice", "coder", "s", store, policy=policy) as context:
        for text in ("Survey the owls.", "And the bats."):
            await context.add_message(UserMessage(content=text, source="user"))
        assert len(await context.get_messages()) == 1
        ((_, again),) = await calls_again(context)
    assert as_text(again.messages) in handed_out.views.values()


async def test_number_of_no_call_is_refused(store: MemoryStore):
    async with MemoryContext("alice", "coder", "s", store) as context:
        await context.add_message(UserMessage(content="Hello", source="user"))
        await context.get_messages()
        await context.clear()
        await context.add_message(UserMessage(content="Hello again", source="user"))
        await context.get_messages()
        state = (await context.save_state())["transcript"]
        with pytest.raises(IndexError, match="no call 3: this session has 2 recorded calls"):
            await view_of_call(state, 3, context.agent_memory)
        assert (await view_of_call(state, 2, context.agent_memory)).problem == ""
        with pytest.raises(IndexError, match="messages of call 1 were cleared"):
            await view_of_call(state, 1, context.agent_memory)


# --- the bill


async def test_bill_goes_on_after_a_resume_and_a_clear(store: MemoryStore):
    """A view that is asked for again is no other call; one before which a Memory spoke replaces the earlier one."""
    async with MemoryContext("alice", "coder", "s", store) as context:
        await add_step(context, report("owls"))
        await context.get_messages()
        await context.get_messages()
        await context.show_memories("Owls are birds.", [])
        await context.get_messages()
        assert context.stats.views == 1
        await context.clear()
        await context.add_message(UserMessage(content="And the bats?", source="user"))
        await context.get_messages()
        stats = context.stats
        assert stats.views == 2
        state = await context.save_state()
    loaded = MemoryContext("alice", "coder", None, store)
    await loaded.load_state(state)
    resumed = MemoryContext("alice", "coder", "s", store)
    await resumed.resume()
    for one in (loaded, resumed):
        again = one.stats
        assert (again.views, again.cost, again.raw_cost) == (2, stats.cost, stats.raw_cost)
        await one.get_messages()
        assert one.stats.views == 2, "the same view"
    await resumed.add_message(AssistantMessage(content="Asleep.", source="coder"))
    await resumed.get_messages()
    assert resumed.stats.views == 3
    calls = resumed._session.meter.bill.calls  # pyright: ignore[reportPrivateUsage]
    assert calls[2].stable_tokens == calls[1].view_tokens, "the cache knows no process"


@pytest.mark.thorough
async def test_record_of_a_call_takes_less_than_200_bytes(store: MemoryStore):
    """A long session has one for each of its calls."""
    policy = ContextPolicy(token_budget=None)
    async with MemoryContext("alice", "coder", "s", store, policy=policy) as context:
        for number in range(60):
            await add_step(context, report(f"owls {number}", 90))
            await context.get_messages()
        saved = (await context.save_state())["transcript"]["decisions"]
    records = [one for _, one in saved if one["kind"] == "shown"]
    assert len(records) == 60
    assert max(len(json.dumps(one)) for one in records) < 200, records[-1]


async def test_another_policy_is_billed_call_by_call_beside_the_recorded_one(store: MemoryStore):
    """With the same policy it is the recorded bill; a smaller budget folds, and prices stay those of the session."""
    policy = ContextPolicy(token_budget=None, view_target_tokens=None, cache=CachePolicy(prices="openai-gpt-5"))
    async with MemoryContext("alice", "coder", "s", store, policy=policy) as context:
        for number in range(20):
            await add_step(context, report(f"owls {number}", 90))
            await context.get_messages()
        await context.archive()
        saved, _ = whole_history(await store.conversations.read(context.key))
    same = bill_with(policy, saved)
    assert len(same) == 20
    for recorded, again in same:
        assert replace(again, decision=recorded.decision) == recorded
    other = bill_with(ContextPolicy(token_budget=1500), saved)
    assert [recorded for recorded, _ in other] == [recorded for recorded, _ in same]
    assert max(again.view_tokens for _, again in other) <= 1500 < max(recorded.view_tokens for recorded, _ in other)
    assert "fold" in {again.mark for _, again in other}
    assert all(again.raw_tokens == recorded.raw_tokens for recorded, again in other)
    assert other[0][0].cost == other[0][1].cost, "the same view at the same prices"


async def archived(context: MemoryContext) -> dict[str, Any]:
    await context.archive()
    saved, _ = whole_history(await context.memory_store.conversations.read(context.key))
    return saved


async def test_recorded_calls_are_the_bill_without_a_replay(store: MemoryStore):
    """With what was decided before each, and by another price list."""
    policy = ContextPolicy(token_budget=1500, view_target_tokens=None)
    async with MemoryContext("alice", "coder", "s", store, policy=policy) as context:
        for number in range(12):
            await add_step(context, report(f"owls {number}", 20))
        await context.get_messages()
        saved = await archived(context)
    found = recorded_calls(saved)
    assert [call for call, _ in found] == Bill(load_transcript(saved)).calls
    assert [call.number for call, changes in found if changes["folds"]] == [
        call.number for call, _ in found if call.mark == "fold"
    ]
    assert sum(changes["folds"] for _, changes in found) == context.stats.folds > 0
    uncached = recorded_calls(saved, CachePolicy(prices="uncached"))
    assert all(call.cost == call.head_tokens + call.view_tokens for call, _ in uncached)
    assert [call.view_tokens for call, _ in uncached] == [call.view_tokens for call, _ in found]
    with pytest.raises(ValueError, match="version 99"):
        recorded_calls({**saved, "version": 99})


async def test_another_policy_from_a_call_on_leaves_earlier_calls_as_recorded(store: MemoryStore):
    """With the same policy nothing differs, also at the call where it begins."""
    policy = ContextPolicy(token_budget=None, view_target_tokens=None)
    async with MemoryContext("alice", "coder", "s", store, policy=policy) as context:
        for number in range(20):
            await add_step(context, report(f"owls {number}", 90))
            await context.get_messages()
        saved = await archived(context)
    for first_call in (2, 9, 20, 21):
        for recorded, again in bill_with(policy, saved, recorded=policy, first_call=first_call):
            assert replace(again, decision=recorded.decision) == recorded
    pairs = bill_with(ContextPolicy(token_budget=1500), saved, first_call=9)
    assert all(recorded == again for recorded, again in pairs[:8])
    assert max(again.view_tokens for _, again in pairs[8:]) <= 1500 < pairs[7][1].view_tokens
    assert pairs[8][1].mark == "fold"


async def test_results_that_another_policy_stores_no_more_cost_their_full_length(store: MemoryStore):
    policy = ContextPolicy(token_budget=None, view_target_tokens=None)
    async with MemoryContext("alice", "coder", "s", store, policy=policy) as context:
        for number in range(6):
            await add_step(context, report(f"owls {number}", 400))
            await context.get_messages()
        saved = await archived(context)
    stored = bill_with(policy, saved, recorded=policy)
    whole = bill_with(policy.model_copy(update={"first_view_limit_tokens": 20_000}), saved, recorded=policy)
    kept = bill_with(policy.model_copy(update={"offload_threshold_tokens": 20_000}), saved, recorded=policy)
    assert whole[1][1].view_tokens > stored[1][1].view_tokens
    assert all(again.view_tokens == again.raw_tokens for _, again in kept)


async def test_text_of_a_memory_that_was_replaced_stays_away_with_another_policy(store: MemoryStore):
    """The memory found nothing more: that is no decision of a policy."""
    policy = ContextPolicy(token_budget=None, view_target_tokens=None)
    async with MemoryContext("alice", "coder", "s", store, policy=policy) as context:
        for found in ("owls nest in barns " * 20, ""):
            await context.add_message(UserMessage(content=f"Of {len(found)}.", source="user"))
            for decision in memory_decisions(context.transcript, found, 80, (), "notes"):
                context.transcript.decide(decision)
            await context.get_messages()
        saved = await archived(context)
    tokens = [(again.view_tokens, recorded.view_tokens) for recorded, again in bill_with(policy, saved)]
    assert len(tokens) == 2
    assert all(again == recorded for again, recorded in tokens)


async def test_observations_that_another_policy_has_off_give_way_to_folds(store: MemoryStore):
    policy = ContextPolicy(token_budget=4000, store_timeout_seconds=10)
    async with MemoryContext("alice", "coder", "s", store, policy=policy) as context:
        context.observation.completion_function = observe_by_words
        for number in range(40):
            await add_step(context, report(f"owls {number}", 30))
        await context.get_messages()
        assert context.stats.activations > 0
        saved = await archived(context)
    off = policy.model_copy(update={"observation": ObservationPolicy(mode="off")})
    again = [one for _, one in bill_with(off, saved, recorded=policy)]
    assert "fold" in {one.mark for one in again}
    assert max(one.view_tokens for one in again) <= 4000


async def observe_by_words(messages: Sequence[LLMMessage], limit_tokens: int) -> Completion:
    return Completion(observe_by_script(messages))
