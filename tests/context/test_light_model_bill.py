"""The light model's calls are recorded in the session: by kind, with their tokens, across resumes, loads and clears."""

import json

import pytest
from autogen_core.models import AssistantMessage, UserMessage

from memory_context import ContextPolicy, LearningPolicy, MemoryContext, MemoryStore
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.light_model.usage import LightModelBill, LightModelUsage
from memory_context.sessions.archive.resume import load_session
from tests.support.outages import away
from tests.support.waiting import soon

from ..agents.scripted import report
from ..archive.talking import SESSION, say
from .lights import Light, choose
from .steps import a_turn_of_the_loop, add_step

SUMMARY = json.dumps({"summary": "The survey of owls lists their findings, each with a value; nothing else is in it."})


def used(calls: int) -> LightModelUsage:
    """Return so many calls of `Light`."""
    return LightModelUsage(calls, prompt_tokens=100 * calls, completion_tokens=10 * calls)


def context_of(store: MemoryStore, light: Light) -> MemoryContext:
    policy = ContextPolicy(learning=LearningPolicy(enabled=False))  # it asks when its job runs
    return MemoryContext("alice", "coder", SESSION, store, model_client=light, policy=policy)


async def asked_for_each_kind(store: MemoryStore, light: Light) -> MemoryContext:
    """Return a context whose light model has summarised a result, named the session and made a decision."""
    light.summary = SUMMARY
    context = context_of(store, light)
    await context.add_message(UserMessage(content="Survey the owls.", source="user"))
    await add_step(context, report("owls", 350))
    await context.get_messages()
    await soon(light.summary_asked.wait())
    await context.add_message(AssistantMessage(content="Surveyed.", source="coder"))
    await context.archive()
    while not light.title_prompts:
        await a_turn_of_the_loop()
    await say(context, "And which of them was the highest?")
    return context


async def test_light_model_calls_are_billed_by_kind_and_survive_a_resume(store: MemoryStore):
    """In the next process, in a saved state, after a clear, and where the archive alone is read."""
    light = Light(choose())
    context = await asked_for_each_kind(store, light)
    state = await context.save_state()
    await context.close()
    bill = context.stats.light_model
    assert len(light.prompts) == 2
    assert bill == LightModelBill(decisions=used(2), summaries=used(1), titles=used(1))
    assert str(bill) == "4 calls (2 decisions, 1 summary, 1 title), 400 tokens read and 40 written"

    resumed = context_of(store, light)
    await resumed.resume()
    assert resumed.stats.light_model == bill
    assert resumed.stats.light_model_calls == 2
    await say(resumed, "And the lowest?")
    await resumed.clear()
    await resumed.close()
    again = bill + LightModelBill(decisions=used(1))
    assert resumed.stats.light_model == again
    assert again.total.calls == 5
    archived = await load_session(store.conversations, SessionKey("alice", "coder", SESSION))
    assert archived.transcript.state.light_model == again

    loaded = MemoryContext("alice", "coder", None, store, resume=False)
    await loaded.load_state(state)
    assert loaded.stats.light_model == bill


@pytest.mark.parametrize("is_named", [True, False])
async def test_light_model_calls_after_the_last_batch_are_archived_by_close(store: MemoryStore, is_named: bool):
    """Also one that failed, and whose tokens nobody told."""
    light = Light()
    light.title = '{"title": "Owls"}' if is_named else RuntimeError("no model today")
    context = context_of(store, light)
    await say(context, "I like owls.")
    await context.archive()  # the title is asked for with this batch, and comes after it
    await context.close()
    archived = await load_session(store.conversations, SessionKey("alice", "coder", SESSION))
    bill = archived.transcript.state.light_model
    assert bill.titles == (used(1) if is_named else LightModelUsage(calls=1, failures=1, unreported_calls=1))
    assert not is_named or bill.total.unreported_calls == 0
    if not is_named:
        assert str(bill).endswith("0 tokens read and 0 written; tokens of 1 call unknown; 1 without a usable answer")


@pytest.mark.usefixtures("store_asked_again_at_once")
async def test_light_model_calls_made_before_the_history_came_are_added_to_it(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """The archive could not be read at first; what was asked meanwhile is not lost."""
    light = Light(choose())
    before = await asked_for_each_kind(store, light)
    await before.close()
    context = MemoryContext("alice", "coder", SESSION, store, model_client=light)
    with monkeypatch.context() as patch:
        patch.setattr(store.conversations, "read", away)
        await say(context, "Do it like last time.")
    await context.resume()
    assert context.stats.light_model == before.stats.light_model + LightModelBill(decisions=used(1))
    assert context.transcript.state.light_model == context.stats.light_model, "recorded as the history joins"
    await context.close()
