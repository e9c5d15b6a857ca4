"""Ranking of passages by terms, by meaning, and by their neighbours. Pure: the scores come from the store.

No fixed mixture is best everywhere: static embeddings say little about a line of chat and much about a page, and a
neighbour supports a passage in a conversation but not in a list. So the candidates of each query weigh the signals.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from .passages import Candidate, PassagePlace, QueryProfile

__all__ = [
    "BM25_B",
    "BM25_K1",
    "BM25_TYPICAL_TERMS",
    "Candidate",
    "QueryProfile",
    "Ranked",
    "inverse_frequency",
    "rank",
]

BM25_K1 = 1.2
"""How soon more occurrences of a term in a passage stop to tell more."""
BM25_B = 0.75
"""How much the length of a passage is held against it, compared with the typical length."""
BM25_TYPICAL_TERMS = 150
"""The typical length: of a passage of 1,000 characters, in prose and in code. The average of the memory at hand is no
better a measure: where all passages are short, as in a chat, it makes the shortest win for being short."""

SEMANTIC_WEIGHT = 0.5
"""What nearness in meaning counts, beside 1 for the terms."""
TELLING_CHARACTERS = 200
"""The length at which a passage's embedding is believed half: of a few words it is mostly chance."""
MOST_SUPPORT = 0.5
"""What each neighbour counts at most, so that both together never count more than the passage itself."""


@dataclass(frozen=True)
class Ranked:
    """A candidate and its score, comparable within one query only.

    Attributes:
        candidate: The passage.
        total: The sum of the others, by which is ordered.
        lexical: The share of the query's information that its terms carry, 0 to 1.
        semantic: Similarity above the median of the candidates; negative below it.
        neighbours: Support by the passages beside it.
    """

    candidate: Candidate
    total: float
    lexical: float
    semantic: float
    neighbours: float


def inverse_frequency(document_frequency: int, passages: int) -> float:
    """Return how much a term tells that occurs in so many passages: BM25's idf, always positive.

    `ln(1 + (N - df + 0.5) / (df + 0.5))`, as Lucene has it, after Robertson and Zaragoza, "The Probabilistic Relevance
    Framework" (2009). More occurrences in a passage raise it to less than `BM25_K1 + 1` times as much.
    """
    passages = max(passages, document_frequency)
    return math.log1p((passages - document_frequency + 0.5) / (document_frequency + 0.5))


def rank(candidates: Sequence[Candidate], query: QueryProfile) -> list[Ranked]:
    """Return the candidates, the best first; of equal ones the newer first.

    - By terms: BM25 as a share of the most it could be for this query, unknown terms included.
    - By meaning: how far the cosine similarity lies above the median of the candidates, as a share of how far it could,
      less for short passages.
    - By neighbours: their own scores, times the slope of the regression between neighbours among these candidates,
      from 0 to `MOST_SUPPORT`.

    Args:
        candidates: Distinct passages: those that ranked high, and their neighbours. A link in one direction is enough.
        query: How rare its terms are.
    """
    lexical = _by_terms(candidates, query)
    semantic = _by_meaning(candidates)
    own = {_place(one): sum(scores) for one, *scores in zip(candidates, lexical, semantic, strict=True)}
    neighbours = _by_neighbours(candidates, own)
    ranked = [
        Ranked(one, by_terms + by_meaning + neighbours[_place(one)], by_terms, by_meaning, neighbours[_place(one)])
        for one, by_terms, by_meaning in zip(candidates, lexical, semantic, strict=True)
    ]
    return sorted(ranked, key=lambda one: (-one.total, -one.candidate.content_id, one.candidate.chunk_number))


def _place(candidate: Candidate) -> PassagePlace:
    return candidate.content_id, candidate.chunk_number


def _by_terms(candidates: Sequence[Candidate], query: QueryProfile) -> list[float]:
    most = (BM25_K1 + 1) * sum(inverse_frequency(count, query.passages) for count in query.frequencies.values())
    return [min(one.lexical / most, 1.0) if most else 0.0 for one in candidates]


def _by_meaning(candidates: Sequence[Candidate]) -> list[float]:
    """Return 0 where there is no embedding: neither near nor far. NaN is what a vector of zeros gives."""
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
    """Return the slope of the second on the first, by least squares; selection by the first does not bend it."""
    if not pairs:
        return 0.0
    mean_own = fmean(own for own, _ in pairs)
    mean_other = fmean(other for _, other in pairs)
    spread = math.fsum((own - mean_own) ** 2 for own, _ in pairs)
    return math.fsum((own - mean_own) * (other - mean_other) for own, other in pairs) / spread if spread else 0.0
