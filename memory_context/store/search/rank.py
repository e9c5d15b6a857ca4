"""Ranking by terms, meaning and neighbours. No fixed mixture is best, so the candidates weigh the signals."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from .passages import Candidate, PassagePlace, QueryProfile

__all__ = [
    "BM25_K1",
    "Candidate",
    "QueryProfile",
    "Ranked",
    "inverse_frequency",
    "rank",
]

BM25_K1 = 1.2
"""Saturation of repeated terms."""

SEMANTIC_WEIGHT = 0.5
"""Weight of meaning; terms have 1."""
TELLING_CHARACTERS = 200
"""Length at which an embedding counts half; that of a few words is mostly chance."""
MOST_SUPPORT = 0.5
"""Highest weight of a neighbour, so that two never outweigh the passage."""

FRESH_DAYS, OLD_DAYS = 30.0, 365.0
MOST_DECAY = 0.1
"""Share of its score that an unused passage has lost when it is old; enough among equals, little among unequals."""


@dataclass(frozen=True)
class Ranked:
    """A candidate and its score, comparable within one query only.

    Attributes:
        total: The sum of the others, less by the decay of what was never used.
        lexical: Share of the query's information, 0 to 1.
        semantic: Similarity relative to the candidates' median.
    """

    candidate: Candidate
    total: float
    lexical: float
    semantic: float
    neighbours: float


def inverse_frequency(document_frequency: int, passages: int) -> float:
    """Return BM25's idf as in Lucene (Robertson and Zaragoza, 2009), always positive."""
    passages = max(passages, document_frequency)
    return math.log1p((passages - document_frequency + 0.5) / (document_frequency + 0.5))


def rank(candidates: Sequence[Candidate], query: QueryProfile) -> list[Ranked]:
    """Return distinct candidates, the best first; of equal ones the newer first.

    - Terms: BM25 as a share of the query's maximum.
    - Meaning: similarity above the median, as a share of its maximum, less for short passages.
    - Neighbours: their scores, times the regression slope between neighbours, up to `MOST_SUPPORT`.
    - Decay: up to `MOST_DECAY` of what tools and agents stored and nobody used, linear in its age.
    """
    lexical = _by_terms(candidates, query)
    semantic = _by_meaning(candidates)
    own = {_place(one): sum(scores) for one, *scores in zip(candidates, lexical, semantic, strict=True)}
    neighbours = _by_neighbours(candidates, own)
    ranked = [
        Ranked(one, _decayed(by_terms + by_meaning + beside, one.unused_days), by_terms, by_meaning, beside)
        for one, by_terms, by_meaning in zip(candidates, lexical, semantic, strict=True)
        for beside in (neighbours[_place(one)],)
    ]
    return sorted(ranked, key=lambda one: (-one.total, -one.candidate.content_id, one.candidate.chunk_number))


def _decayed(total: float, unused_days: float) -> float:
    age = (unused_days - FRESH_DAYS) / (OLD_DAYS - FRESH_DAYS)
    return total - abs(total) * MOST_DECAY * min(max(age, 0.0), 1.0)


def _place(candidate: Candidate) -> PassagePlace:
    return candidate.content_id, candidate.chunk_number


def _by_terms(candidates: Sequence[Candidate], query: QueryProfile) -> list[float]:
    most = (BM25_K1 + 1) * sum(inverse_frequency(count, query.passages) for count in query.frequencies.values())
    return [min(one.lexical / most, 1.0) if most else 0.0 for one in candidates]


def _by_meaning(candidates: Sequence[Candidate]) -> list[float]:
    """Zero vectors yield NaN."""
    known = [one.semantic for one in candidates if one.semantic is not None and not math.isnan(one.semantic)]
    middle = median(known) if known else 1.0
    if middle >= 1.0:
        return [0.0] * len(candidates)
    scale = SEMANTIC_WEIGHT / (1.0 - middle)
    return [
        0.0
        if one.semantic is None or math.isnan(one.semantic)
        else scale * (one.semantic - middle) * one.length / (one.length + TELLING_CHARACTERS)
        for one in candidates
    ]


def _by_neighbours(candidates: Sequence[Candidate], own: Mapping[PassagePlace, float]) -> dict[PassagePlace, float]:
    beside: dict[PassagePlace, set[PassagePlace]] = {place: set() for place in own}
    pairs: list[tuple[float, float]] = []
    for one in candidates:
        place = _place(one)
        for neighbour in (one.before, one.after):
            if neighbour is not None and neighbour in own and neighbour != place:
                beside[place].add(neighbour)
                beside[neighbour].add(place)
                pairs.append((own[place], own[neighbour]))
    slope = min(max(_slope(pairs), 0.0), MOST_SUPPORT)
    return {place: slope * math.fsum(own[neighbour] for neighbour in beside[place]) for place in own}


def _slope(pairs: Sequence[tuple[float, float]]) -> float:
    """Return the least-squares slope, unbiased by selection on the first."""
    if not pairs:
        return 0.0
    mean_own = fmean(own for own, _ in pairs)
    mean_other = fmean(other for _, other in pairs)
    spread = math.fsum((own - mean_own) ** 2 for own, _ in pairs)
    return math.fsum((own - mean_own) * (other - mean_other) for own, other in pairs) / spread if spread else 0.0
