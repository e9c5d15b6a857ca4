"""What was decided about results holds whatever happens meanwhile: other tasks, outages, loads, age."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from autogen_core import CancellationToken, FunctionCall
from autogen_core.model_context import UnboundedChatCompletionContext
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)

from memory_context import CompactionPolicy, ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.compactors.compactor import Compacted, Hint, Result
from memory_context.foundation.compactors.registry import Compactors
from memory_context.foundation.errors import StoreUnavailableError
from memory_context.foundation.messages import Address
from memory_context.foundation.policy import ExpansionPolicy, FirstView
from memory_context.foundation.tokens import O200kTokenCounter, default_token_counter
from memory_context.sessions.transcript.entries import Part
from memory_context.sessions.transcript.part_decisions import CompactedTextChosen, PartsCompacted
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.view.bill import UsageMeter
from memory_context.view.render import render
from tests.support.waiting import soon

from ..agents.scripted import report
from .lights import Light
from .steps import ALWAYS_PAYS, NEVER_PAYS, add_step

LONG = "\n".join(f"owl_finding_{number} = measure_owl_{number}()" for number in range(900))
"""So long that it is read in a thread, and shown first as an excerpt."""
counter = default_token_counter()
ALONE = {"expansion": ExpansionPolicy(enabled=False)}


class Gated(Compactors):
    """Chooses facts only when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.gate = threading.Event(), threading.Event()
        self.answered: list[Hint] = []

    def compact(self, result: Result, hint: Hint) -> Compacted:
        """Wait for the gate once the result is answered."""
        if hint.answer:
            self.answered.append(hint)
            self.begun.set()
            assert self.gate.wait(20)
        return super().compact(result, hint)


def survey(topic: str, findings: int) -> str:
    """Return a result with names that an agent may come back by."""
    return "\n".join(f"{topic}_finding_{number} = measure_{topic}_{number}()" for number in range(findings))


def user(text: str) -> UserMessage:
    return UserMessage(content=text, source="user")


def assistant(text: str) -> AssistantMessage:
    return AssistantMessage(content=text, source="coder")


def context_of(store: MemoryStore, compactors: Compactors | None = None, **policy) -> MemoryContext:
    # a busy machine is no outage
    settings = ContextPolicy(**({"cache": ALWAYS_PAYS, "store_timeout_seconds": 60} | ALONE | policy))
    return MemoryContext("alice", "coder", "s", store, policy=settings, compactors=compactors)


def retained(context: MemoryContext) -> list[CompactedTextChosen]:
    return [decision for _, decision in context.transcript.log if isinstance(decision, CompactedTextChosen)]


def results(view: list[LLMMessage]) -> list[str]:
    return [r.content for m in view if isinstance(m, FunctionExecutionResultMessage) for r in m.content]


async def loaded(store: MemoryStore, context: MemoryContext, **policy) -> MemoryContext:
    """Return a context that goes on with what this one saved."""
    later = context_of(store, **policy)
    await later.load_state(json.loads(json.dumps(await context.save_state())))
    return later


@asynccontextmanager
async def answering(store: MemoryStore, *contents: str, **policy) -> AsyncIterator[tuple[MemoryContext, Gated]]:
    """Give a context whose long results are being answered in another task, up to the choice of their facts."""
    gated = Gated()
    context = context_of(store, gated, **policy)
    await context.add_message(user("Survey."))
    await add_step(context, *contents)
    await context.get_messages()
    answer = asyncio.create_task(context.add_message(assistant("Surveyed.")))
    try:
        assert await asyncio.to_thread(gated.begun.wait, 20)
        yield context, gated
    finally:
        gated.gate.set()
        await answer


# --- tasks that share a context


async def test_what_is_cleared_while_its_facts_are_chosen_leaves_a_state_that_loads(store: MemoryStore):
    """The choice comes too late for anybody to see, and is not recorded."""
    async with answering(store, LONG, report("bats", 900)) as (context, _):
        await context.clear()
    assert retained(context) == []
    await context.add_message(user("Again."))
    later = await loaded(store, context)
    assert await later.get_messages() == await context.get_messages()


async def test_what_is_compacted_while_its_facts_are_chosen_stays_as_it_is_shown(store: MemoryStore):
    """A budget that another task has to keep does not wait; what the model has read is not rewritten afterwards."""
    async with answering(store, LONG) as (context, gated):
        (part,) = context.transcript.state.answered_whole
        context.transcript.decide(PartsCompacted((part,), "budget"))
        before = await context.get_messages()
    assert len(gated.answered) == 1
    assert retained(context) == []
    assert await context.get_messages() == before


async def test_nothing_is_compacted_before_its_facts_are_chosen(store: MemoryStore):
    """A view that is being made when the answer comes leaves the result as it was."""
    gated = Gated()
    context = context_of(store, gated)
    await context.add_message(user("Survey."))
    await add_step(context, LONG)
    shown = results(await context.get_messages())
    context.transcript.append(assistant("Surveyed."))  # between two waits of a view that is being made
    await context._session.offloader.measure()
    held = context._session.budget.fit(context.transcript, context._session.chooser.is_held)
    assert results([message.message for message in held.messages]) == shown
    gated.gate.set()
    assert "Names in it" in results(await context.get_messages())[0]


class Slow(O200kTokenCounter):
    """Counts long texts only when it is let."""

    def __init__(self) -> None:
        self.begun, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def count(self, text: str) -> int:
        """Wait for the gate."""
        if len(text) > 20_000 and not self.gate.is_set():
            self.begun.set()
            assert self.gate.wait(20)
        return super().count(text)


async def test_a_message_that_is_still_measured_keeps_no_other_task_from_its_work(store: MemoryStore):
    """What cannot be rendered yet is waited for."""
    slow, gated = Slow(), Gated()
    policy = ContextPolicy(cache=ALWAYS_PAYS, **ALONE)
    context = MemoryContext("alice", "coder", "s", store, policy=policy, token_counter=slow, compactors=gated)
    await context.add_message(user("Survey."))
    await add_step(context, LONG)
    await context.get_messages()
    slow.gate.clear()
    call = FunctionCall(id="1", name="survey", arguments="{}")
    answering = asyncio.create_task(context.add_message(AssistantMessage(content=[call], source="coder")))
    assert await asyncio.to_thread(gated.begun.wait, 20)
    result = FunctionExecutionResult(content=LONG + "2", name="survey", call_id="1", is_error=False)
    adding = asyncio.create_task(context.add_message(FunctionExecutionResultMessage(content=[result])))
    assert await asyncio.to_thread(slow.begun.wait, 20)
    gated.gate.set()
    done, _ = await asyncio.wait([answering], timeout=0.2)
    assert all(task.exception() is None for task in done)
    slow.gate.set()
    await asyncio.gather(answering, adding)
    assert len(results(await context.get_messages())) == 2


# --- compactors


async def test_a_choice_that_failed_is_not_tried_at_every_step(store: MemoryStore, caplog: pytest.LogCaptureFixture):
    """It is logged once, and the result stays whole until the prices or the budget say otherwise."""

    class Broken(Compactors):
        def compact(self, result: Result, hint: Hint) -> Compacted:
            if hint.answer:
                raise StopIteration
            return super().compact(result, hint)

    context = context_of(store, Broken(), cache=NEVER_PAYS)
    await context.add_message(user("Survey."))
    await add_step(context, report("owls", 100))
    for _ in range(5):
        await context.get_messages()
        await context.add_message(assistant("Hm."))
    assert caplog.text.count("nothing is retained of message 3") == 1


@pytest.mark.parametrize("content", [report("owls", 100), LONG])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interruption_in_a_compactor_goes_through(database_url: str, content: str, error: type[BaseException]):
    """Whether it reads in a thread or not: nothing takes it for a fault of the compactor."""

    class Interrupted(Compactors):
        def compact(self, result: Result, hint: Hint) -> Compacted:
            if hint.answer:
                raise error("stop")
            return super().compact(result, hint)

    async def main() -> None:
        async with MemoryStore(database_url) as store:
            context = context_of(store, Interrupted())
            await context.add_message(user("Survey."))
            await add_step(context, content)
            await context.get_messages()
            await context.add_message(assistant("Surveyed."))

    with pytest.raises(error, match="stop"):
        asyncio.run(main())


# --- age


async def test_facts_of_one_message_age_in_the_order_of_its_results(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """And not in that of a set, which differs from process to process."""
    monkeypatch.setattr("memory_context.view.economics._FACTS_IN_VIEW_TOKENS", 250)
    context = context_of(store)
    await context.add_message(user("Survey."))
    await add_step(context, *(survey(topic, 60) for topic in ("owls", "bats", "eels", "newts", "frogs", "toads")))
    await context.get_messages()
    await context.add_message(assistant("Surveyed."))
    await context.get_messages()
    aged = [decision.address.index for decision in retained(context) if decision.by == "age"]
    assert len(aged) > 3
    assert aged == list(range(len(aged)))


async def test_a_summary_that_comes_after_its_result_has_aged_stays_away(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """Its room was given to newer ones; the item has it."""
    monkeypatch.setattr("memory_context.view.economics._FACTS_IN_VIEW_TOKENS", 60)
    light = Light()
    light.summary = json.dumps({"summary": "The survey of owls lists their findings, each with a value."})
    light.summary_release.clear()
    policy = ContextPolicy(token_budget=None, cache=ALWAYS_PAYS, **ALONE)
    context = MemoryContext("alice", "coder", "s", store, policy=policy, model_client=light)
    await context.add_message(user("Survey."))
    await add_step(context, survey("owls", 350))
    await soon(light.summary_asked.wait())
    await context.get_messages()
    await context.add_message(assistant("Surveyed."))
    (bare,) = results(await context.get_messages())
    assert "\n" not in bare, "its facts alone are too many"
    light.summary_release.set()
    tasks = [task for task in asyncio.all_tasks() if task.get_name() == "memory_context summary"]
    await asyncio.gather(*tasks)
    for topic in ("bats", "eels"):
        await add_step(context, survey(topic, 100))
        await context.get_messages()
        await context.add_message(assistant("Surveyed."))
    assert results(await context.get_messages())[0] == bare


async def test_ageing_goes_on_the_same_after_a_load_and_starts_anew_after_a_clear(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """Nothing of what decides it is lost with the process."""
    monkeypatch.setattr("memory_context.view.economics._FACTS_IN_VIEW_TOKENS", 500)
    context = context_of(store)
    await context.add_message(user("Survey."))
    for number in range(6):
        await add_step(context, survey(f"owls_{number}", 80))
        later = await loaded(store, context)
        assert await later.get_messages() == await context.get_messages()
        for one in (context, later):
            await one.add_message(assistant(f"Surveyed {number}."))
        assert await later.get_messages() == await context.get_messages()
        assert later.transcript.state == context.transcript.state
    assert any(decision.by == "age" for decision in retained(context))
    await context.clear()
    await context.add_message(user("Again."))
    later = await loaded(store, context)
    assert await later.get_messages() == await context.get_messages()


# --- without compaction, and other first views


@pytest.mark.parametrize("first_view", ["full", "excerpt", "placeholder"])
async def test_without_compaction_a_first_view_cuts_nothing(store: MemoryStore, first_view: FirstView):
    """Results stay whole, as AutoGen's own context keeps them."""
    context = context_of(store, first_view_by_tool={"*": first_view}, compaction=CompactionPolicy(enabled=False))
    real = UnboundedChatCompletionContext()
    await context.add_message(user("Survey."))
    await add_step(context, report("owls", 100), report("bats", 900))
    await context.get_messages()
    await context.add_message(assistant("Surveyed."))
    for entry in context.transcript.entries():
        await real.add_message(entry.message)
    assert await context.get_messages() == await real.get_messages()


async def test_what_the_agent_looks_up_is_shown_to_it_even_if_results_are_placeholders_at_once(store: MemoryStore):
    """Else it could never read what it asks for."""
    context = context_of(store, first_view_by_tool={"*": "placeholder"})
    (retrieve,) = [tool for tool in context.tools() if tool.name == "retrieve_memory"]
    await context.add_message(user("Survey."))
    await add_step(context, report("owls", 80))
    (shown,) = results(await context.get_messages())
    key = shown.partition("[MemoryRef: ")[2].partition(" ")[0]
    looked_up = str(await retrieve.run_json({"memory_key": key}, CancellationToken()))
    assert report("owls", 80)[:3000] in looked_up
    await add_step(context, looked_up, name="retrieve_memory")
    assert results(await context.get_messages())[1] == looked_up
    await context.add_message(assistant("Read."))
    assert len(results(await context.get_messages())[1]) < 300, "and collapses once it was read"


# --- results stored late


@pytest.mark.usefixtures("store_asked_again_at_once")
async def test_what_is_stored_after_it_was_answered_does_not_change_by_itself(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """It was shown whole; it becomes shorter when that pays, or the budget asks for it, and that is recorded."""
    context = context_of(store, cache=NEVER_PAYS)
    memory = context.agent_memory

    async def down(*_: object) -> list[object]:
        raise StoreUnavailableError("down")

    with monkeypatch.context() as patch:
        patch.setattr(memory, "store_all", down)
        await context.add_message(user("Survey."))
        await add_step(context, LONG)
        assert results(await context.get_messages()) == [LONG]
        await context.add_message(assistant("Surveyed."))
        assert results(await context.get_messages()) == [LONG]
    await context.add_message(user("Thanks."))
    assert context.stats.offloads == 1
    assert results(await context.get_messages()) == [LONG]
    later = await loaded(store, context, cache=NEVER_PAYS)
    assert results(await later.get_messages()) == [LONG]


# --- saved states


async def test_a_saved_state_has_what_stays_of_a_result_once(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """Not what it was compacted to before; and the state loads to the same."""
    monkeypatch.setattr("memory_context.view.economics._FACTS_IN_VIEW_TOKENS", 250)
    context = context_of(store)
    await context.add_message(user("Survey."))
    for topic in ("owls", "bats", "eels", "newts"):
        await add_step(context, survey(topic, 80))
    await context.get_messages()
    await context.add_message(assistant("Surveyed."))
    await context.get_messages()
    state = json.loads(json.dumps(await context.save_state()))
    saved = json.dumps(state["transcript"]["decisions"])
    for entry in context.transcript.entries():
        for part in entry.measured:
            if part.stored:
                assert saved.count(json.dumps(part.stored.compacted)) == 1
                assert saved.count(part.stored.refs[0].render()) == 1
    later = context_of(store)
    await later.load_state(state)
    assert await later.get_messages() == await context.get_messages()
    assert (await later.save_state())["transcript"] == state["transcript"]


async def test_a_thread_that_was_delivered_twice_is_saved_whole(store: MemoryStore):
    """Its large messages were stored before it was known that all of them had come before."""
    context = context_of(store)
    thread = [user(survey(topic, 100)) for topic in ("owls", "bats", "eels", "newts")]
    for message in thread[:2]:
        await context.add_message(message)
    await context.get_messages()
    for message in [*thread[2:], *thread]:
        await context.add_message(message)
    assert context.transcript.state.start == 4, "the second copy alone is shown"
    later = await loaded(store, context)
    assert await later.get_messages() == await context.get_messages() == thread


async def test_a_load_fetches_no_content_that_is_shown_as_an_excerpt_for_good(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """Once its facts are chosen nobody reads it again."""
    context = context_of(store, cache=NEVER_PAYS)
    await context.add_message(user("Survey."))
    await add_step(context, LONG)
    await context.get_messages()
    await context.add_message(assistant("Surveyed."))
    view = await context.get_messages()
    later = await loaded(store, context, cache=NEVER_PAYS)
    assert await later.get_messages() == view
    assert LONG not in [text for e in later.transcript.entries() for p in e.measured if (text := e.text(p.address))]
    assert retained(later) == retained(context)


async def test_an_excerpt_is_shown_after_a_load_although_the_store_is_down(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """The state has it; only what is shown whole has to be compacted."""
    context = context_of(store)
    await context.add_message(user("Survey."))
    await add_step(context, LONG, report("bats", 100))
    view = await context.get_messages()
    state = await context.save_state()
    later = context_of(store)

    async def down(*_: object, **__: object) -> dict[str, str]:
        raise StoreUnavailableError("down")

    monkeypatch.setattr(type(later.agent_memory), "retrieve_contents", down)
    await later.load_state(state)
    excerpt, gone = results(await later.get_messages())
    assert excerpt == results(view)[0]
    assert gone.startswith("survey succeeded. [MemoryRef: ")
    await later.add_message(assistant("Surveyed."))
    assert results(await later.get_messages())[0].startswith("survey succeeded. [MemoryRef: ")


def test_events_before_what_a_state_holds_are_passed_over():
    """As saved by an earlier version, when a choice came after a clear."""
    transcript = Transcript(first_position=3)
    transcript.append(user("Again."))
    transcript.replay(4, CompactedTextChosen(2, Address("result", 0), "late", 1))
    assert transcript.log == [(4, CompactedTextChosen(2, Address("result", 0), "late", 1))]
    with pytest.raises(IndexError):
        transcript[2]


# --- sums


def test_a_prefix_counts_as_cached_with_what_is_reserved_before_it():
    """The system prompt and the tools stand before the view: 600 of it and 500 of them are more than 1,024."""
    cached: list[int] = []
    for reserved in (0, 500):
        transcript = Transcript()
        meter = UsageMeter(transcript, ContextPolicy(reserved_tokens=reserved))
        for words in ("go on " * 300, "yes"):
            entry = transcript.append(user(words))
            entry.measure([Part(Address("text", 0), counter.count(words), 1)])
            meter.add_view(transcript, render(transcript, ContextPolicy(), counter))
        cached.append(sum(call.cached_tokens for call in meter.bill.calls))
    assert cached == [0, 606]
