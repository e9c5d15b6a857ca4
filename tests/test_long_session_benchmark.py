"""The benchmark of long sessions measures what it says, on small sessions made here."""

import json
from pathlib import Path

import pytest

from benchmarks import log_evidence, long_runs, long_session
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
        for arm in ("folding", "digest", "observer")
    ]
    folding, digest, observer = figures
    assert {one.whole_price for one in figures} == {long_session.everything(session, count).price}
    assert all(0 < one.cost < 1 for one in figures)
    assert (folding.activations, folding.light_tokens, digest.light_tokens) == (0, 0, 0)
    assert folding.folds > 0
    assert digest.activations > 0
    assert observer.light_tokens > 0
    assert [(one.broken, one.later_lost) for one in figures] == [(0, 0)] * 3
    assert [one.later for one in figures] == [folding.later] * 3
    measured = {one.name: one for one in long_session.targets(figures)}
    assert measured["digest, window 8,000: later strings lost"].is_met
    assert measured["digest, window 8,000: cost beside folding"].value == digest.cost / folding.cost


def test_evidence_is_counted_in_the_lines_that_rest_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """All of it stands in a log with room for everything; some line leads to it in any."""
    turns = [f"{'Ann' if number % 2 else 'Bob'}: I saw {number} herons near mill {number}." for number in range(80)]
    rows = [{"type": "doc", "id": f"d{number}", "scope": "a", "text": text} for number, text in enumerate(turns)]
    rows += [{"type": "query", "id": "q", "scope": "a", "text": "How many herons?"}]
    rows += [{"type": "gold", "query_id": "q", "doc_id": f"d{number}", "rel": 1} for number in (3, 70)]
    path = tmp_path / f"{log_evidence.SET}.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    monkeypatch.setattr(log_evidence, "LIMITS", (150, 10_000))
    little, _, lost, much, whole, none_lost = log_evidence.measure_evidence(tmp_path)
    assert 0 <= little.value < much.value == whole.value == 1
    assert (lost.value, none_lost.value) == (0, 0)
