"""The benchmark of long sessions measures what it says, on small sessions made here."""

from benchmarks import long_runs, long_session
from memory_context import MemoryStore
from memory_context.foundation.tokens import default_token_counter

count = default_token_counter().count


async def test_long_session_is_compared_with_folding_and_with_keeping_everything(store: MemoryStore):
    """Made runs, always the same: nothing is lost, no view breaks its promises, and observations cost no waiting."""
    session = long_runs.chained(long_runs.made_runs(), 30_000, count)
    again = long_runs.chained(long_runs.made_runs(), 30_000, count)
    assert [str(one.message) for one in session.run.messages] == [str(one.message) for one in again.run.messages]
    for needle in session.needles:
        holding = [one for one in session.run.messages[: needle.needed_index] if needle.text in str(one.message)]
        assert holding == [session.run.messages[needle.output_index]], "it stands in one result only"
    figures = [
        await long_session.measure_long_session(session, arm, 8000, store, light_price=0.1, pause_seconds=0.001)
        for arm in ("folding", "observer")
    ]
    folding, observer = figures
    assert {one.whole_price for one in figures} == {long_session.everything(session, count).price}
    assert all(0 < one.cost < 1 for one in figures)
    assert (folding.activations, folding.light_tokens) == (0, 0)
    assert folding.folds > 0
    assert observer.activations > 0
    assert observer.light_tokens > 0
    assert [(one.broken, one.later_lost) for one in figures] == [(0, 0)] * 2
    assert [one.later for one in figures] == [folding.later] * 2
    measured = {one.name: one for one in long_session.targets(figures)}
    assert measured["observer, window 8,000: later strings lost"].is_met
    assert measured["observer, window 8,000: cost beside folding"].value == observer.cost / folding.cost
