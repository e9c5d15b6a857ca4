"""Precision and recall of the rules on labelled requests.

`dev`, `written`, `sessions_dev` and `sessions_dev_2` were looked at while the rules were written, `held_out` and
`sessions_held_out` were not. The author of the rules labelled `written`, for ambiguity only, and `sessions_dev`;
somebody who had not seen the rules wrote `sessions_dev_2`, and somebody else, who saw neither them nor the other
sessions, `sessions_held_out`. One author, who had read `sessions_dev_2` but not the rules, wrote `sessions_dev_3` and
`sessions_held_out_2`; the errors on the first are known, on the second only the totals. The author of the concepts
wrote `sessions_dev_4` before them and before any error was looked at.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from memory_context.foundation.references import MemoryRef
from memory_context.recall.expansion.candidates import CandidateReference, ExpansionRequest
from memory_context.recall.expansion.decide import decide_by_rules

REQUESTS = Path(__file__).with_name("requests.jsonl")
SESSIONS = Path(__file__).with_name("sessions.jsonl")  # with references in each, in eight languages


@dataclass
class Score:
    """Hits, false alarms and misses."""

    hits: int = 0
    false_alarms: int = 0
    misses: int = 0

    @property
    def precision(self) -> float:
        return self.hits / max(self.hits + self.false_alarms, 1)

    @property
    def recall(self) -> float:
        return self.hits / max(self.hits + self.misses, 1)

    def __str__(self) -> str:
        told, there = self.hits + self.false_alarms, self.hits + self.misses
        return f"precision {self.precision:.2f} ({self.hits}/{told}), recall {self.recall:.2f} ({self.hits}/{there})"


def labelled(split: str) -> Iterator[tuple[ExpansionRequest, bool, set[str]]]:
    """Yield each request of a split, whether it is ambiguous, and the keys that it needs."""
    cases = [json.loads(line) for line in REQUESTS.read_text(encoding="utf-8").splitlines()]
    for line in SESSIONS.read_text(encoding="utf-8").splitlines():
        session = json.loads(line)
        cases += [{**one, **{key: session[key] for key in ("split", "references")}} for one in session["requests"]]
    for case in cases:
        if case["split"] == split:
            references = tuple(
                CandidateReference(
                    MemoryRef(one["key"], one["description"], 2000), one["source"], one.get("kept_text", ""), ago
                )
                for ago, one in enumerate(reversed(case["references"]), start=1)
            )
            asked = ExpansionRequest(case["request"], case["last_answer"], references)
            yield asked, case["label"] == "ambiguous", set(case.get("expand", ()))


@cache
def scores(split: str) -> tuple[Score, Score]:
    """Return the scores of "ambiguous" and of the expansions on one split."""
    ambiguous, expansions = Score(), Score()
    for asked, is_ambiguous, wanted in labelled(split):
        answer = decide_by_rules(asked)
        ambiguous.hits += is_ambiguous and answer.is_ambiguous
        ambiguous.false_alarms += answer.is_ambiguous and not is_ambiguous
        ambiguous.misses += is_ambiguous and not answer.is_ambiguous
        told = {one.key for one in answer.expansions}
        expansions.hits += len(told & wanted)
        expansions.false_alarms += len(told - wanted)
        expansions.misses += len(wanted - told)
    return ambiguous, expansions


@pytest.mark.parametrize(
    ("split", "what", "least_precision", "least_recall"),
    [
        ("dev", "ambiguous", 0.95, 0.9),
        ("dev", "expansions", 0.9, 0.7),
        ("written", "ambiguous", 0.9, 0.8),
        ("held_out", "ambiguous", 0.75, 0.65),
        ("held_out", "expansions", 0.65, 0.7),
        ("sessions_dev", "ambiguous", 0.98, 0.91),
        ("sessions_dev", "expansions", 0.93, 0.82),
        ("sessions_dev_2", "ambiguous", 0.93, 0.98),
        ("sessions_dev_2", "expansions", 0.91, 0.79),
        ("sessions_dev_3", "ambiguous", 0.98, 0.83),
        ("sessions_dev_3", "expansions", 0.85, 0.81),
        ("sessions_dev_4", "ambiguous", 0.82, 0.92),
        ("sessions_dev_4", "expansions", 0.8, 0.75),
        ("sessions_held_out_2", "ambiguous", 0.7, 0.53),
        ("sessions_held_out_2", "expansions", 0.84, 0.67),
        ("sessions_held_out", "ambiguous", 0.79, 0.62),
        ("sessions_held_out", "expansions", 0.8, 0.64),
    ],
)
def test_rules_reach_precision_and_recall_on_labelled_requests(
    split: str, what: str, least_precision: float, least_recall: float
):
    """Floors a little below what was measured; `pytest -s` shows the figures."""
    score = scores(split)[what == "expansions"]
    print(f"\n{split}, {what}: {score}")
    assert score.precision >= least_precision
    assert score.recall >= least_recall
