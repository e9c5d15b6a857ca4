"""A step costs what is new in it: work is counted, never timed, and what is kept equals what is made from scratch."""

import threading
from typing import Any

import pytest
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    UserMessage,
)

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.compaction.compactor_input import KnownNames
from memory_context.foundation.messages import Address, texts_of
from memory_context.foundation.policy import ArchivePolicy
from memory_context.foundation.tokens import default_token_counter
from memory_context.sessions.transcript.codec import load_transcript, save_transcript
from memory_context.sessions.transcript.entries import Part
from memory_context.sessions.transcript.state import RunningSums
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.view.budget import Budget, session_tag
from memory_context.view.history import FoldedLines
from memory_context.view.render import Renderer, render
from memory_context.view.shorten import OFF_LOOP_CHARACTERS, Shortener
from memory_context.view.view import View
from tests.support.contexts import instructions

from .histories import Life, any_compactors, any_policy, long_history, moody

UNREACHABLE = "postgresql://nobody@127.0.0.1:1/nowhere"
FEW, MANY = 100, 3000


def calls_and_results(count: int, first: int = 0) -> list[LLMMessage]:
    """Return so many messages of small steps."""
    messages: list[LLMMessage] = []
    for number in range(first, first + count // 2):
        call = FunctionCall(id=f"c{number}", name="look", arguments=f'{{"place": {number}}}')
        result = FunctionExecutionResult(content=f"room {number} is dark", name="look", call_id=call.id, is_error=False)
        messages.append(AssistantMessage(content=[call], source="agent"))
        messages.append(FunctionExecutionResultMessage(content=[result]))
    return messages


async def session_of(count: int, **policy: Any) -> MemoryContext:
    """Return a context whose last view had so many messages, or folded them; nothing of it needs a store."""
    task = UserMessage(content="Look into every room.", source="user")
    settings = ContextPolicy(archive=ArchivePolicy(enabled=False), **policy)
    history = [task, *calls_and_results(count - 2)]
    context = MemoryContext("alice", "agent", None, MemoryStore(UNREACHABLE), policy=settings, initial_messages=history)
    await context.get_messages()
    return context


async def steps(context: MemoryContext, count: int) -> None:
    for number in range(count):
        for message in calls_and_results(2, 10_000 + context.transcript.end + number):
            await context.add_message(message)
        await context.get_messages()


async def _to_next_fold(context: MemoryContext) -> None:
    folds = context.stats.folds
    while context.stats.folds == folds:
        await steps(context, 1)


async def test_step_takes_as_many_instructions_at_3000_messages_as_at_100(monkeypatch: pytest.MonkeyPatch):
    """Beside the copies that are handed out."""
    monkeypatch.setattr(View, "copies", lambda view, joins_user_messages: [])
    took: list[int] = []
    for count in (FEW, MANY):
        context = await session_of(count, token_budget=None)
        await steps(context, 1)  # which answers all that was handed out
        assert len((await context.explain()).segments) > count * 0.9
        took.append(await instructions(steps(context, 5)))
    assert took[1] < 1.1 * took[0], took


@pytest.mark.thorough
async def test_steps_and_folds_take_as_many_instructions_behind_10000_messages_as_behind_1000(
    monkeypatch: pytest.MonkeyPatch,
):
    """At an equal view; the steps are so many that some of them fold."""
    monkeypatch.setattr(View, "copies", lambda view, joins_user_messages: [])
    took: list[int] = []
    for count in (1000, 10_000):
        context = await session_of(count, token_budget=2000)
        await _to_next_fold(context)  # what was folded at once is looked through once more
        took.append(await instructions(_to_next_fold(context)))
    assert took[1] < 1.3 * took[0], took


@pytest.mark.parametrize("seed", [7, 14])
@pytest.mark.thorough
async def test_incremental_state_equals_one_made_from_scratch_after_every_event(store: MemoryStore, seed: int):
    """The view with its segments and sums, the views before it, the text of folds, what results need not say."""
    policy, compactors = any_policy(seed), any_compactors(seed)
    light = moody(seed) if seed % 2 else None
    context = MemoryContext("alice", "coder", None, store, model_client=light, policy=policy, compactors=compactors)
    life = Life(context, light=light, compactors=compactors)
    counter = default_token_counter()
    earlier: list[tuple[View, list[Any]]] = []
    followed: list[Any] = [None, None, None]

    def check() -> None:
        transcript = life.context.transcript
        if any(entry.parts is None for entry in transcript.entries()):
            return
        if followed[0] is not transcript:
            followed[:] = [transcript, KnownNames(transcript, policy), FoldedLines(transcript, policy)]
            earlier.clear()
        renderer = life.context._session.budget._renderer  # pyright: ignore[reportPrivateUsage]
        view, fresh = renderer.render(transcript), render(transcript, policy, counter)
        assert list(view.messages) == list(fresh.messages)
        assert view.tokens == fresh.tokens == sum(message.tokens for message in fresh.messages)
        assert view.tokens_before(len(fresh.messages) // 2) == fresh.tokens_before(len(fresh.messages) // 2)
        for old, messages in earlier[-3:]:
            assert list(old.messages) == messages, "an earlier view has changed"
            same = view.same_head(old)
            assert messages[:same] == list(fresh.messages)[:same]
        earlier.append((view, list(fresh.messages)))
        assert followed[1].all() == KnownNames(transcript, policy).all()
        if fold := transcript.state.fold:
            again = FoldedLines(transcript, policy)
            shown = [one.text(fold.ref, fold.upto, fold.kept, 300, counter) for one in (followed[2], again)]
            assert shown[0] == shown[1]
        whole = sum(entry.full_tokens for entry in transcript.entries())
        assert transcript.full_tokens(transcript.state.start, transcript.end) == whole

    life.check_transcript = check  # type: ignore[method-assign]
    await life.live(long_history(seed, 30))
    assert earlier


def test_running_sums_follow_every_change():
    sums = RunningSums()
    for index, value in enumerate([3, 0, 2, 0, 5]):
        sums.put(index, value)
    assert [sums.before(index) for index in range(6)] == [0, 3, 3, 5, 5, 10]
    sums.put(1, 4)
    assert [sums.before(index) for index in range(6)] == [0, 3, 7, 9, 9, 14]
    assert [sums.last_before(index) for index in range(6)] == [-1, 0, 1, 2, 2, 4]
    assert [sums.count_within(total, 5) for total in (0, 2, 3, 9, 99)] == [0, 0, 1, 4, 5]


async def test_known_names_are_those_of_the_newest_text_of_the_view(monkeypatch: pytest.MonkeyPatch):
    """Of whole messages within a number of characters."""
    context = await session_of(3, token_budget=None)
    transcript = context.transcript
    for name in ("src/oldest.py", "report_older", "src/newest.py"):
        transcript.append(UserMessage(content=f"See {name}.", source="user"))
        transcript.entries()[-1].measure([Part(Address("text", 0), 5)])
    names = {"src/oldest.py", "oldest.py", "report_older", "src/newest.py"}
    assert names <= KnownNames(transcript, context.policy).all()
    older = {"src/newest.py", "report_older"}
    for limit, known in ((1, {"src/newest.py"}), (17, {"src/newest.py"}), (18, older), (34, older), (35, names)):
        monkeypatch.setattr("memory_context.compaction.compactor_input._KNOWN_CHARACTERS", limit)
        assert KnownNames(transcript, context.policy).all() & names == known


def test_a_view_without_changes_is_the_same_view():
    transcript = Transcript.of(calls_and_results(4))
    for entry in transcript.entries():
        entry.measure([Part(address, 1) for address, _ in texts_of(entry.message)])
    renderer = Renderer(ContextPolicy(), default_token_counter())
    first = renderer.render(transcript)
    assert renderer.render(transcript) is first
    transcript.append(UserMessage(content="And now?", source="user")).measure([Part(Address("text"), 3)])
    second = renderer.render(transcript)
    assert [len(view.messages) for view in (first, second)] == [4, 5]
    assert second.same_head(first) == 4
    assert not second.is_same(first)


async def test_long_excerpt_of_a_view_is_never_made_on_the_event_loop(monkeypatch: pytest.MonkeyPatch):
    """A content that is not stored and has to be cut is cut in a thread; the view is the one a fit at once gives."""
    made: list[tuple[int, bool]] = []
    make = Shortener._excerpt  # pyright: ignore[reportPrivateUsage]

    def watched(shortener: Shortener, content: str, *others: Any) -> tuple[str, int]:
        made.append((len(content), threading.current_thread() is threading.main_thread()))
        return make(shortener, content, *others)

    monkeypatch.setattr(Shortener, "_excerpt", watched)
    context = await session_of(20, token_budget=8000)
    calls, results = calls_and_results(2, 999)
    result = FunctionExecutionResult(content="a lone \ud83d in the dark\n" * 20_000, name="look", call_id="c999")
    assert isinstance(results, FunctionExecutionResultMessage)
    for message in (calls, FunctionExecutionResultMessage(content=[result])):
        await context.add_message(message)
    again = load_transcript(save_transcript(context.transcript))
    view = await context.get_messages()
    assert [on_loop for length, on_loop in made if length > OFF_LOOP_CHARACTERS] == [False]
    tag = session_tag(context.session_id)  # its tokens count, too
    budget = Budget(context.policy, context.token_counter, Renderer(context.policy, context.token_counter), tag)
    assert [message.message for message in budget.fit(again).messages][-1] == view[-1]


async def test_stats_price_autogens_own_contexts_in_the_same_session():
    """A buffer sends twenty messages at the full price each call: dear in a short session, cheap in a very long one."""
    context = await session_of(80, token_budget=None)
    await steps(context, 20)
    stats = context.stats
    assert stats.cheapest_autogen_context == ("unbounded", stats.raw_cost)
    assert stats.raw_cost < stats.head_and_tail_cost < stats.buffered_cost
    lasting = await session_of(2000, token_budget=None)
    await steps(lasting, 10)
    assert lasting.stats.cheapest_autogen_context[0] != "unbounded"
