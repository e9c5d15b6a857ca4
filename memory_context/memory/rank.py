"""How passages that were found are ordered: by terms, by meaning, and by what stands beside them.

No fixed mixture is best everywhere: static embeddings say little about a line of chat and much about a page; what
stands beside a passage supports it in a conversation and says nothing in a list of unrelated texts. So each signal is
weighed by what can be seen of it in the candidates of the query at hand. Pure: the scores come from the store.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from ..store import Candidate, PassagePlace, QueryProfile

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
    """A candidate and why it ranks where it does. Comparable within one query only.

    Attributes:
        candidate: The passage.
        total: The sum of the others; what the order follows.
        lexical: The share of the query's information that its terms carry, 0 to 1.
        semantic: How much nearer in meaning it is than the middle one of the candidates; negative if it is farther.
        neighbours: What it gains from the passages before and after it.
    """

    candidate: Candidate
    total: float
    lexical: float
    semantic: float
    neighbours: float


def inverse_frequency(document_frequency: int, passages: int) -> float:
    """Return what a term tells that occurs in so many of the passages: BM25's idf, always positive.

    `ln(1 + (N - df + 0.5) / (df + 0.5))`, as Lucene has it, after Robertson and Zaragoza, "The Probabilistic Relevance
    Framework" (2009). In a passage of average length that has the term once, its score is just this; more occurrences
    raise it to less than `BM25_K1 + 1` times as much.
    """
    passages = max(passages, document_frequency)
    return math.log1p((passages - document_frequency + 0.5) / (document_frequency + 0.5))


def rank(candidates: Sequence[Candidate], query: QueryProfile) -> list[Ranked]:
    """Return the candidates, the best first; of equal ones the newer first.

    - By terms: BM25 as a share of the most it could be for this query, terms that are unknown included. A query that
      the memory has no words for is thus left to meaning.
    - By meaning: how far the cosine similarity lies above the median of the candidates, as a share of how far it could
      (so that it does not matter on which part of the scale a model's similarities lie), less for short passages.
    - By neighbours: their own scores, times how well neighbours predict each other among these candidates (the slope of
      the regression, from 0 to `MOST_SUPPORT`). It is about 0 where neighbours have nothing to do with each other.

    Args:
        candidates: Distinct passages: those that ranked high, and their neighbours. The links of the former are what
            the slope is taken from; a link in one direction is as good as in both.
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
    """Return what each passage gains from those beside it."""
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
    """Return the slope of the second on the first, by least squares; 0 if there is none.

    That the passages of the first were chosen for their score does not bend it, as it would a correlation.
    """
    if not pairs:
        return 0.0
    mean_own = fmean(own for own, _ in pairs)
    mean_other = fmean(other for _, other in pairs)
    spread = math.fsum((own - mean_own) ** 2 for own, _ in pairs)
    return math.fsum((own - mean_own) * (other - mean_other) for own, other in pairs) / spread if spread else 0.0
