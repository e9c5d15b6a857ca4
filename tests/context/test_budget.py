"""Which steps make a view fit: what is withdrawn, compacted and folded first, how far, and what never folds."""

import json

import pytest
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    SystemMessage,
    UserMessage,
)

from memory_context import ContextPolicy
from memory_context.foundation.messages import Address
from memory_context.sessions.transcript.entries import Part
from memory_context.sessions.transcript.part_decisions import PartsCompacted, PartShortened
from memory_context.sessions.transcript.transcript import Decision, Transcript
from memory_context.sessions.transcript.view_decisions import (
    ExpansionShown,
    ExpansionWithdrawn,
    HistoryFolded,
    ViewCleared,
    ViewShown,
)
from memory_context.view.budget import Budget, session_tag
from memory_context.view.render import Renderer, View, render
from tests.support.economics import History, counter

from .steps import NEVER_PAYS


def fitted(history: History, token_budget: int, **policy: object) -> tuple[View, list[Decision]]:
    """Return the view that fits, and the decisions that made it so."""
    settings = ContextPolicy(token_budget=token_budget, cache=NEVER_PAYS, **policy)  # type: ignore[arg-type]
    before = len(history.transcript.log)
    view = Budget(settings, counter, Renderer(settings, counter), "abcdef").fit(history.transcript)
    return view, [decision for _, decision in history.transcript.log[before:]]


def lived(steps: int, tokens: int = 500) -> History:
    """Return a history of a request (100 tokens) and steps with results that were all answered."""
    history = History()
    history.say("user", 100)
    for _ in range(steps):
        history.show()
        history.step(tokens, tokens)  # compacting saves nothing
    history.show()
    history.say("coder", 30)
    return history


def test_view_within_its_budget_stays_as_it_is():
    history = lived(4)
    size = render(history.transcript, ContextPolicy(), counter).tokens
    assert fitted(history, size)[1] == []
    assert {decision.kind for decision in fitted(history, size - 1)[1]} == {"compacted", "folded"}


def test_oldest_whole_steps_fold_down_to_the_share_of_the_budget():
    """0.6 of 4,000, reckoned with a fold of 500 tokens at most; not a step more than that takes."""
    history = lived(10)
    before = render(history.transcript, ContextPolicy(), counter).tokens
    view, decisions = fitted(history, 4000)
    (fold,) = [decision for decision in decisions if isinstance(decision, HistoryFolded)]
    assert fold.kept == (0,), "the task"
    steps = (fold.upto - 1) // 2
    assert fold.upto == 1 + 2 * steps, "no call is parted from its result"
    assert before - 510 * steps + 500 <= 2400 < before - 510 * (steps - 1) + 500
    assert view.tokens < 2400
    assert fold.arithmetic is not None
    assert fold.arithmetic.removed_tokens == 510 * steps - fold.tokens
    assert fold.arithmetic.rewritten_tokens == before - fold.arithmetic.removed_tokens
    assert fold.ref.description.startswith(f"messages 2-{fold.upto} of this session, {steps} tool steps, ")
    assert fold.ref.token_count == 510 * steps
    assert fold.ref.key == f"history_2-{fold.upto}_abcdef"


def test_later_fold_takes_in_the_one_before_it():
    """Its messages are counted from the first on; what folded before is not folded by itself again."""
    history = lived(10)
    _, first = fitted(history, 4000)
    history.show()
    for _ in range(8):
        history.step(500, 500)
        history.show()
    history.say("coder", 30)
    _, second = fitted(history, 4000)
    folds = [decision for decision in [*first, *second] if isinstance(decision, HistoryFolded)]
    assert len(folds) == 2
    assert folds[0].upto < folds[1].upto
    assert folds[1].ref.key == f"history_2-{folds[1].upto}_abcdef"
    assert fitted(history, 4000)[1] == [], "it fits"


def test_instructions_and_the_task_do_not_fold():
    """The first system messages only; the task is the newest request."""
    history = History()
    for _ in range(2):
        history.add(SystemMessage(content="Be brief."), Part(Address("text", 0), 10))
    history.say("user", 100)
    history.add(SystemMessage(content="A late one."), Part(Address("text", 0), 10))
    history.show()
    for _ in range(5):
        history.step(500, 500)
        history.show()
    task = history.say("user", 100)
    for _ in range(5):
        history.step(500, 500)
        history.show()
    history.say("coder", 30)
    _, decisions = fitted(history, 2000)
    (fold,) = [decision for decision in decisions if isinstance(decision, HistoryFolded)]
    assert fold.kept == (0, 1, task)


def test_task_directly_behind_a_fold_is_not_among_what_it_keeps():
    """Four steps of 510 and the first request fold; the report counts these nine messages, not those before a clear."""
    history = History()
    history.say("user", 100)
    history.transcript.decide(ViewCleared(1))
    history.say("user", 100)
    for _ in range(4):
        history.show()
        history.step(500, 500)
    task = history.say("user", 100)
    history.show()
    history.step(500, 500)
    history.show()
    history.say("coder", 30)
    _, decisions = fitted(history, 2500)
    (fold,) = [decision for decision in decisions if isinstance(decision, HistoryFolded)]
    assert (fold.upto, fold.kept) == (task, ())
    assert fold.decided(history.transcript, []).count == 9


def test_call_without_its_result_and_parallel_calls_are_not_parted_by_a_fold():
    transcript = Transcript()
    calls = [FunctionCall(id=name, name="look", arguments="{}") for name in "ab"]
    transcript.append(UserMessage(content="Go.", source="user"))
    transcript.append(AssistantMessage(content=calls, source="coder"))
    for name in "ab":
        one = FunctionExecutionResult(content="seen", name="look", call_id=name, is_error=False)
        transcript.append(FunctionExecutionResultMessage(content=[one]))
    transcript.append(AssistantMessage(content=[calls[0]], source="coder"))
    transcript.append(UserMessage(content="Stop.", source="user"))
    assert transcript.pairing.step_ends(0, 6) == [1, 4, 5, 6]
    assert transcript.pairing.step_ends(0, 3) == [1]
    assert transcript.pairing.step_ends(4, 5) == [5]


def test_fresh_arguments_stay_whole_if_a_shorter_text_makes_room():
    """What others say can be read again where it came from; the agent's own call is what it goes on with."""
    history = History()
    history.say("user", 100)
    history.show()
    arguments, text = json.dumps({"text": "owls nest " * 150}), "trains run late " * 600
    call = AssistantMessage(content=[FunctionCall(id="a", name="write", arguments=arguments)], source="coder")
    history.add(call, Part(Address("arguments", 0), counter.count(arguments)))
    result = FunctionExecutionResult(content="done", name="write", call_id="a", is_error=False)
    history.add(FunctionExecutionResultMessage(content=[result]), Part(Address("result", 0), 2, is_result=True))
    history.add(UserMessage(content=text, source="helper"), Part(Address("text", 0), counter.count(text)))
    _, decisions = fitted(history, 1500)
    (shortened,) = [decision for decision in decisions if isinstance(decision, PartShortened)]
    assert shortened.address.kind == "text"


def opened(history: History, at: int, tokens: int, text: str) -> tuple[int, str]:
    expanded = ExpansionShown(at, text, tokens, ())
    history.transcript.decide(expanded)
    return expanded.place


@pytest.mark.parametrize(("token_budget", "withdrawn"), [(5000, 1), (1300, 2)])
def test_expansions_of_ended_turns_are_withdrawn_before_those_of_this_turn(token_budget: int, withdrawn: int):
    """What no view has shown yet is not over, whichever turn it was opened for."""
    history = History()
    first = history.say("user", 100)
    ended = opened(history, first, 4900, "for the first")
    history.show()
    history.say("coder", 30)
    second = history.say("user", 100)
    needed = opened(history, second, 1200, "for the second")
    view, decisions = fitted(history, token_budget)
    places = [decision.places for decision in decisions if isinstance(decision, ExpansionWithdrawn)]
    assert places == [(ended,), (needed,)][:withdrawn]
    assert [decision.reason for decision in decisions if isinstance(decision, ExpansionWithdrawn)] == [
        "planned",
        "budget",
    ][:withdrawn]
    assert view.tokens <= token_budget


def test_consumed_results_are_compacted_before_anything_folds():
    """All of them, oldest and newest; what is fresh is shown whole."""
    history = History()
    history.say("user", 100)
    parts = []
    for _ in range(4):
        history.show()
        parts.append(history.step(1000, 20))
    fresh = parts.pop()
    _, decisions = fitted(history, 3000)
    compacted = [decision for decision in decisions if isinstance(decision, PartsCompacted)]
    assert [(decision.parts, decision.reason) for decision in compacted] == [(tuple(parts), "budget")]
    assert fresh not in history.transcript.state.compacted
    assert not [decision for decision in decisions if isinstance(decision, (HistoryFolded, PartShortened))]


def test_session_tag_has_six_hexadecimal_digits_and_differs_by_session():
    assert session_tag("one") == session_tag("one") != session_tag("two")
    assert len(session_tag("\ud800")) == 6
    assert int(session_tag("one"), 16) >= 0


def test_view_without_a_budget_is_never_cut():
    history = lived(50)
    settings = ContextPolicy(token_budget=None, cache=NEVER_PAYS)
    history.transcript.decide(ViewShown(history.transcript.end))
    before = len(history.transcript.log)
    view = Budget(settings, counter, Renderer(settings, counter), "abcdef").fit(history.transcript)
    assert view.tokens > 25_000
    assert len(history.transcript.log) == before
