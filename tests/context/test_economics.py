"""When a change of the view pays, with the sums done by hand."""

from datetime import timedelta

import pytest
from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, FunctionExecutionResult, FunctionExecutionResultMessage, UserMessage

from benchmarks.constants import constants
from memory_context import CachePolicy, ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.messages import Address
from memory_context.foundation.references import MemoryRef
from memory_context.sessions.transcript.codec import load_transcript, save_transcript
from memory_context.sessions.transcript.entries import Part, PartId, StoredPart
from memory_context.sessions.transcript.part_decisions import CompactedTextChosen, PartOffloaded, PartsCompacted
from memory_context.sessions.transcript.values import Arithmetic, ToolsReason
from memory_context.sessions.transcript.view_decisions import (
    ExpansionShown,
    ExpansionWithdrawn,
    HistoryFolded,
    Offered,
    ViewCleared,
)
from memory_context.view import economics
from memory_context.view.bill import UsageMeter
from memory_context.view.budget import MOST_SHARE_AT_A_FOLD, Budget
from memory_context.view.economics import (
    Savings,
    aged_results,
    ageing_of,
    arithmetic_of,
    expected_calls,
    pays_for_tools,
)
from memory_context.view.render import Renderer, render
from memory_context.view.view import View
from tests.support.economics import PRICES, History, counter

from ..agents.scripted import report
from .steps import add_step


def answered(*sizes: int) -> tuple[History, list[PartId]]:
    """Return a history of a request (100 tokens) and steps with results of these sizes, all answered and whole."""
    history = History()
    history.say("user", 100)
    parts = list[PartId]()
    for size in sizes:
        history.show()
        parts.append(history.step(size, 20))
    history.show()
    history.say("coder", 30)
    return history, parts


def test_compacting_a_result_answered_just_now_rewrites_only_its_compacted_text():
    """500 -> 20 tokens: 480 x 6 x 0.1 = 288.0 saved, 20 x 1.15 = 23.0 paid for; the answer is new in any case."""
    history, parts = answered(500)
    assert history.changes() == [PartsCompacted((parts[0],), "consumed", Arithmetic(480, 20, 6, 265.0))]


def test_compacting_an_earlier_result_rewrites_all_that_follows():
    """A call, a result of 400 that stays, 30 of an answer: 20 + 10 + 400 + 30 = 460, x 1.15 = 529 > 288."""
    history, parts = answered(500)
    history.show()
    late = history.step(400, 400)  # nothing to save there
    history.show()
    history.say("coder", 30)
    assert history.changes() == []
    dear = replace_calls(PRICES, 12)
    assert history.changes(dear) == [PartsCompacted((parts[0],), "saves", Arithmetic(480, 460, 12, 47.0))]
    assert late not in history.changes(dear)[0].parts


@pytest.fixture(autouse=True)
def _every_prefix_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(economics, "LEAST_PREFIX_TOKENS", 0)


def replace_calls(prices: CachePolicy, calls: int | None) -> CachePolicy:
    return prices.model_copy(update={"expected_calls": calls})


def test_compaction_begins_where_it_saves_most_and_takes_all_behind_it():
    """Two results of 500: from the first on 960 x 6 x 0.1 - (20 + 10 + 20) x 1.15 = 518.5, from the second on 265.0."""
    history, parts = answered(500, 500)
    assert history.changes() == [PartsCompacted(tuple(parts), "saves", Arithmetic(960, 50, 6, 518.5))]


def test_small_early_result_waits_while_a_new_one_is_compacted():
    """60 in front of 3,000 that stay: the new one alone pays."""
    history = History()
    history.say("user", 100)
    history.show()
    first = history.step(60, 20)
    history.say("user", 3000)
    history.show()
    last = history.step(500, 20)
    history.show()
    history.say("coder", 30)
    assert history.changes() == [PartsCompacted((last,), "consumed", Arithmetic(480, 20, 6, 265.0))]
    history.transcript.decide(history.changes()[0])
    assert history.changes() == [], "nor does it pay afterwards"
    assert history.transcript.state.answered_whole == {first}


def test_prefix_too_short_to_be_cached_counts_as_rewritten(monkeypatch: pytest.MonkeyPatch):
    """Before the result stand 110 tokens, less than 500: 20 + 110 = 130, x 1.15 = 149.5. If nothing is cached: 20."""
    history, _ = answered(500)
    monkeypatch.setattr(economics, "LEAST_PREFIX_TOKENS", 500)
    (change,) = history.changes()
    assert change.arithmetic == Arithmetic(480, 130, 6, 138.5)
    monkeypatch.setattr(economics, "LEAST_PREFIX_TOKENS", 611)
    (change,) = history.changes()
    assert change.arithmetic == Arithmetic(480, 20, 6, 265.0), "110 + 500 tokens are no cached prefix: nothing is lost"
    monkeypatch.setattr(economics, "LEAST_PREFIX_TOKENS", 500)
    (change,) = history.changes(reserved_tokens=390)
    assert change.arithmetic == Arithmetic(480, 20, 6, 265.0), "the system prompt stands before it"


def test_one_expected_call_compacts_large_results_only():
    """480 x 0.1 = 48 > 23; of 200 tokens 18 < 23."""
    once = replace_calls(PRICES, 1)
    history, parts = answered(500)
    assert history.changes(once) == [PartsCompacted((parts[0],), "consumed", Arithmetic(480, 20, 1, 25.0))]
    assert answered(200)[0].changes(once) == []


def test_result_that_would_not_become_smaller_is_not_compacted():
    """However many calls follow."""
    history = History()
    history.say("user", 100)
    history.show()
    history.step(60, 60)
    history.show()
    history.say("coder", 30)
    assert history.changes(replace_calls(PRICES, 10**6)) == []


def test_result_beside_one_that_becomes_smaller_stays_if_it_would_not():
    """Of two calls at once."""
    history = History()
    history.show()
    calls = [FunctionCall(id=name, name="survey", arguments="{}") for name in "ab"]
    history.add(AssistantMessage(content=calls, source="coder"))
    results = [FunctionExecutionResult(content="x", name="survey", call_id=name, is_error=False) for name in "ab"]
    places = [Address("result", index) for index in range(2)]
    parts = [Part(place, 500, is_result=True) for place in places]
    position = history.add(FunctionExecutionResultMessage(content=results), *parts)
    for place, tokens in zip(places, (20, 500), strict=True):
        stored = StoredPart((MemoryRef(f"key_{tokens}", "a result", 500),), "x", tokens)
        history.transcript.decide(PartOffloaded(position, place, stored))
    history.show()
    history.say("coder", 30)
    (change,) = history.changes(replace_calls(PRICES, 100))
    assert isinstance(change, PartsCompacted)
    assert change.parts == ((position, places[0]),)


def test_fresh_and_held_results_are_not_compacted():
    """Not answered yet; or waiting for its summary."""
    history = History()
    history.say("user", 100)
    history.show()
    first = history.step(500, 20)
    assert history.changes() == []
    history.show()
    assert history.changes() == [], "shown, not answered"
    second = history.step(500, 20)
    assert history.changes(held=(first,)) == []
    history.show()
    history.say("coder", 30)
    (change,) = history.changes(held=(first,))
    assert change.parts == (second,)
    (change,) = history.changes(replace_calls(PRICES, 100), held=(second,))
    assert change == PartsCompacted((first,), "saves", Arithmetic(480, 530, 100, 4190.5))


def test_expansion_of_an_ended_turn_is_withdrawn_with_a_compaction():
    """It alone pays with nothing behind it; one sum for both; what an agent's Memory shows stays."""
    history = History()
    task = history.say("user", 100)
    history.transcript.decide(ExpansionShown(task, "opened", 395, (), "turn"))
    history.transcript.decide(ExpansionShown(task, "noted", 395, (), "memory"))
    history.show()
    part = history.step(500, 20)
    history.show()
    history.say("coder", 30)
    dear = replace_calls(PRICES, 100)
    assert [type(change) for change in history.changes(dear)] == [PartsCompacted], "its turn goes on"
    history.say("user", 50)
    compaction, withdrawal = history.changes(dear)
    # opened: 395 + 4 + 1 = 400; noted, as large, stays behind it: 400 + 10 + 20 are read anew
    assert compaction == PartsCompacted((part,), "saves", Arithmetic(880, 430, 100, 8305.5))
    assert withdrawal == ExpansionWithdrawn(((task, "turn"),), "planned", None)


def test_unanswered_expansion_stays():
    """Although a newer request came meanwhile."""
    history = History()
    history.say("user", 100)
    history.transcript.decide(ExpansionShown(0, "opened", 395, (), "turn"))
    history.say("user", 50)
    history.show()
    assert history.changes(replace_calls(PRICES, 10**6)) == []


def test_expansion_of_an_ended_turn_stays_until_that_pays_while_nothing_is_stored():
    """Without items no tools come that would have the view read anew."""
    history = History()
    history.say("user", 100)
    history.transcript.decide(ExpansionShown(0, "opened", 395, (), "turn"))
    history.show()
    history.say("coder", 3000)
    history.say("user", 50)
    history.show()
    history.say("coder", 30)
    settings = ContextPolicy(cache=PRICES)
    savings = Savings(settings, counter, Renderer(settings, counter))
    assert savings.open(history.transcript)
    savings.plan(history.transcript, lambda part: False)
    assert list(history.transcript.state.expanded) == [(0, "turn")]


def with_facts(*facts_tokens: int) -> tuple[History, list[PartId]]:
    """Return a history of compacted results whose facts take so many tokens; the line before them takes 10."""
    history = History()
    history.say("user", 100)
    parts = list[PartId]()
    for tokens in facts_tokens:
        history.show()
        position, address = history.step(500, 20)
        text = "x" * 10 + "\n" + "y" * (tokens - 1)  # a token for each character
        stored = StoredPart((MemoryRef(f"key_{position}", "a result", 500),), text, len(text))
        history.transcript.decide(PartOffloaded(position, address, stored))
        parts.append((position, address))
    history.show()
    history.say("coder", 30)
    history.transcript.decide(PartsCompacted(tuple(parts), "consumed"))
    return history, parts


def aged(history: History, facts_in_view_tokens: int) -> list[CompactedTextChosen]:
    """Return what stays of results whose facts go."""
    with constants({"memory_context.view.economics._FACTS_IN_VIEW_TOKENS": facts_in_view_tokens}):
        return aged_results(history.transcript, counter)


def test_facts_stay_until_all_together_exceed_their_limit():
    """Each result's facts count once, without the line of its placeholder: five times 90 are 450."""
    history, parts = with_facts(*[90] * 5)
    assert aged(history, 450) == []
    gone = aged(history, 449)
    assert [(one.position, one.address) for one in gone] == parts[:4], "450 - 4 x 90 = 90 is within 0.4 x 449 = 179.6"
    assert {(one.text, one.tokens, one.by) for one in gone} == {("x" * 10, counter.count("x" * 10), "age")}


def test_oldest_facts_go_first_and_only_as_many_as_the_limit_asks():
    """1,000 - 600 = 400 are exactly 0.4 of the limit: the second stays."""
    history, parts = with_facts(601, 300, 100)
    assert [(one.position, one.address) for one in aged(history, 1000)] == parts[:1]
    history, parts = with_facts(600, 301, 100)
    assert [(one.position, one.address) for one in aged(history, 1000)] == parts[:2]


def test_results_without_facts_or_out_of_the_view_do_not_count():
    """What is a bare line already, is not compacted, or is folded or cleared away."""
    history, parts = with_facts(400, 400)
    bare = StoredPart((MemoryRef("bare", "a result", 500),), "x" * 10, 10)
    history.show()
    bare_part = history.step(500, 20)
    history.transcript.decide(PartOffloaded(*bare_part, bare))
    history.step(500, 20)  # whole
    history.show()
    history.say("coder", 30)
    history.transcript.decide(PartsCompacted((bare_part,), "consumed"))
    assert len(aged(history, 799)) == 2
    assert aged(history, 800) == []
    ref = MemoryRef("fold", "a fold", 500)
    history.transcript.decide(HistoryFolded(parts[0][0] + 1, (), ref, "folded", 10))
    assert aged(history, 400) == []
    assert [(one.position, one.address) for one in aged(history, 399)] == parts[1:]
    history.transcript.decide(ViewCleared(history.transcript.end))
    assert aged(history, 1) == []


def test_ageing_pays_for_what_stands_behind_the_oldest_result():
    """Two results of 101 tokens lose 91 each; from the first on stand 105 + 10 + 105 + 30 tokens, 182 of which go."""
    history, parts = with_facts(91, 91)
    policy = ContextPolicy(cache=PRICES)
    bare = [CompactedTextChosen(position, address, "x" * 10, 10, "age") for position, address in parts]
    history.show()
    view = render(history.transcript, policy, counter)
    ageing = ageing_of(bare, history.transcript, view, policy)
    assert ageing == PartsCompacted(tuple(parts), "aged", arithmetic_of(182, 105 + 10 + 105 + 30 - 182, 6, PRICES))
    history.say("user", 1000)  # which no view has shown, so that nothing of it is cached
    view = render(history.transcript, policy, counter)
    assert ageing_of(bare, history.transcript, view, policy) == ageing


@pytest.mark.parametrize(("answers", "calls"), [(0, 6), (5, 6), (6, 6), (7, 7), (40, 40)])
def test_as_many_calls_are_expected_as_there_have_been(answers: int, calls: int):
    """A few at least; or what the policy says."""
    history = History()
    for _ in range(answers):
        history.say("coder", 10)
    assert expected_calls(history.transcript, CachePolicy()) == calls
    assert expected_calls(history.transcript, CachePolicy(expected_calls=3)) == 3


def test_arithmetic_follows_the_formula():
    """1,000 x 10 x 0.5 - 2,000 x (1.0 - 0.5) = 4,000; writing cheaper than reading costs nothing."""
    assert arithmetic_of(1000, 2000, 10, CachePolicy(prices=(0.5, 1.0, 300))).net == 4000
    assert arithmetic_of(1000, 2000, 10, CachePolicy(prices=(1.0, 0.5, 300))).net == 10_000


@pytest.mark.parametrize(("calls", "waits"), [(1000, False), (1, True)])
async def test_small_results_wait_until_together_they_pay(store: MemoryStore, calls: int, waits: bool):
    """With a real store: the first is compacted at once or not at all, by the calls that are expected to follow."""
    prices = PRICES.model_copy(update={"expected_calls": calls})
    context = MemoryContext(
        "alice", "coder", None, store, policy=ContextPolicy(offload_threshold_tokens=100, cache=prices)
    )
    await context.add_message(UserMessage(content="Survey.", source="user"))
    await add_step(context, report("owls", 12))
    await add_step(context, "ok")
    states = [s.state for s in (await context.explain()).segments if s.kind == "result"]
    await context.get_messages()
    states = [s.state for s in (await context.explain()).segments if s.kind == "result"]
    assert states == (["full", "full"] if waits else ["placeholder", "full"])
    assert (context.stats.answered_compactions, context.stats.compactions) == (0 if waits else 1, 0)


def test_cold_cache_compacts_what_was_answered_before_the_last_turn():
    """With one more call nothing pays; after a pause nothing is cached, and the last answer may be asked about."""
    settings = ContextPolicy(cache=replace_calls(PRICES, 1))
    history = History()
    parts = list[PartId]()
    for _ in range(2):
        history.say("user", 100)
        history.show()
        parts.append(history.step(500, 480))
        history.show()
        history.say("coder", 600)
    history.show()
    history.say("user", 20)
    budget = Budget(settings, counter, Renderer(settings, counter), "s")
    budget.plan(history.transcript)
    assert not history.transcript.state.compacted
    newest = history.transcript[history.transcript.end - 1]
    newest.added_at += timedelta(seconds=settings.cache.ttl_seconds)
    budget.plan(history.transcript)
    assert history.transcript.state.compacted == {parts[0]}


@pytest.mark.parametrize(("calls", "has_tools", "folds"), [(40, True, 1), (1, True, 0), (40, False, 0)])
def test_view_over_its_target_folds_once_that_pays_and_the_agent_can_read_it(calls: int, has_tools: bool, folds: int):
    settings = ContextPolicy(cache=replace_calls(PRICES, calls))
    history = History()
    history.say("user", 100)
    for _ in range(34):
        history.show()
        history.step(500, 480)
    history.show()
    history.say("coder", 30)
    budget = Budget(settings, counter, Renderer(settings, counter), "s")
    budget.agent_has_tools = has_tools
    view = budget.fit(history.transcript, lambda part: True)
    folded = history.transcript.decisions(HistoryFolded)
    assert len(folded) == folds
    assert (view.tokens < 0.5 * 13_000) is bool(folds)


def test_fold_waits_until_a_session_that_ends_right_then_has_not_become_much_dearer():
    """It pays over the forty calls that are expected; at first it would cost a third of all that has been paid."""
    settings = ContextPolicy(cache=replace_calls(PRICES, 40))
    history = History()
    transcript, meter = history.transcript, UsageMeter(history.transcript, settings)
    budget = Budget(settings, counter, Renderer(settings, counter), "s")
    budget.agent_has_tools, budget.bill = True, meter.bill
    history.say("user", 100)
    for _ in range(26):
        history.step(500, 480)
    shares: list[float] = []
    view = View()
    while not transcript.decisions(HistoryFolded):
        view = budget.fit(transcript, lambda part: True)
        meter.add_view(transcript, view)
        shares.append(sum(one.cost for one in meter.bill.calls) / sum(one.raw_cost for one in meter.bill.calls))
        history.say("coder", 30)
    assert 2 < len(shares) < 40
    assert shares[:-1] == [1] * (len(shares) - 1)
    assert 1 < shares[-1] <= MOST_SHARE_AT_A_FOLD
    assert view.tokens < 13_000


@pytest.mark.parametrize(("reason", "folds"), [("past", 1), ("offload", 0)])
def test_agent_that_is_known_to_read_much_has_smaller_views(reason: ToolsReason, folds: int):
    """It can open references from its first call on; also after a clear, and after later tools came."""
    history = History()
    history.transcript.decide(Offered(("retrieve_memory",), reason, 230))
    history.say("user", 100)
    history.transcript.decide(ViewCleared(history.transcript.end))
    history.transcript.decide(Offered(("retrieve_memory", "read_history"), "fold", 400))
    for _ in range(24):
        history.show()
        history.step(500, 480)
    history.show()
    history.say("coder", 30)
    settings = ContextPolicy(cache=replace_calls(PRICES, 40))
    budget = Budget(settings, counter, Renderer(settings, counter), "s")
    budget.agent_has_tools = True
    transcript = load_transcript(save_transcript(history.transcript))
    budget.fit(transcript, lambda part: True)
    assert len(transcript.decisions(HistoryFolded)) == folds


def test_tools_come_once_the_results_that_they_read_shrink_enough():
    """Two results of 5,000 shrink to 20 tokens and facts, and no long prompt has to be read anew."""
    settings = ContextPolicy(cache=PRICES)
    for compacted, prompt_tokens, pays in ((20, 0, True), (5000, 0, False), (20, 1000, False)):
        history = History()
        history.transcript.decide(Offered(system_tokens=prompt_tokens))
        for _ in range(2):
            history.say("user", 100)
            history.show()
            history.step(5000, compacted)
            history.show()
            history.say("coder", 30)
        view = render(history.transcript, settings, counter)
        assert pays_for_tools(history.transcript, view, settings, 300) == pays


def test_prices_of_a_provider_are_chosen_by_name():
    assert CachePolicy(prices="anthropic") == CachePolicy()
    assert CachePolicy(prices="openai-gpt-4o").cached_price_ratio == 0.5
    with pytest.raises(ValueError, match="'openai-gpt-5'"):
        CachePolicy(prices="free")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="greater than 0"):
        CachePolicy(prices=(0.1, 0, 300))
