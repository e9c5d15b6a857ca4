"""Ranking by terms, meaning and context. All scores are evidence in nats, so none needs a weight of its own.

Terms weigh their log odds (BM25). A similarity of z standard deviations above the user's mean weighs z² / 2, as chance
would have it: where all texts resemble the query alike, meaning tells nothing.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

__all__ = ["EMPHASIS", "Candidate", "PassagePlace", "QueryProfile", "Ranked", "inverse_frequency", "rank"]

BM25_K1 = 1.2
"""Saturation of repeated terms."""
BM25_B = 0.75
"""Share of a term's weight that falls with the length."""
TYPICAL_CHARACTERS = 720
"""Some 120 terms; a constant, so that scores do not depend on other texts."""

EMPHASIS = 1.4
"""Factor of the query's names and numbers."""
SESSION_SHARE = 0.5
"""Weight of an occurrence, and of a character, in the session's adjacent passage."""
SESSION_GAIN = 0.3
"""Share of the mean of a session's three best passages that each of them gains."""
SIZE_PENALTY = 0.7
"""Times the logarithm of an item's thousands of bytes: the best of many passages is often best by chance."""

SESSION_OCCURRENCES = 2
"""Most occurrences that count of an adjacent item's passage: a turn tells what the next is about, a long result not."""
SPREAD_PASSAGES = 10
"""Passages at which the spread of similarities is believed by half."""

PassagePlace = tuple[int, int]
"""Content id, and number of the passage there."""


class Candidate(NamedTuple):
    """A passage that could answer a query, or is adjacent to one.

    Attributes:
        occurrences: How often it and its names hold each term.
        semantic: Cosine similarity; None without an embedding.
        length: In characters.
        before, after: The adjacent passages of the session's items before and after it.
        session: "" if its item belongs to none.
        content_bytes: Size of its whole content.
        standing: Position by its own terms and meaning, from 1; None if it is only adjacent to one.
        others: Scores of the next two passages of its item, by their own terms and meaning.
        row: Its text and item.
    """

    content_id: int
    chunk_number: int
    occurrences: Mapping[str, int]
    semantic: float | None
    length: int
    before: PassagePlace | None = None
    after: PassagePlace | None = None
    session: str = ""
    content_bytes: int = 0
    standing: int | None = 1
    others: Sequence[float] = ()
    row: Mapping[str, Any] = {}

    @property
    def place(self) -> PassagePlace:
        return self.content_id, self.chunk_number


@dataclass(frozen=True)
class QueryProfile:
    """A query in the memory that the reader may know.

    Attributes:
        passages: How many there are.
        frequencies: In how many of them each term occurs.
        emphasised: Terms of names and numbers.
        mean: Of the similarities of all passages.
        deviation: Their standard deviation; 0 if they tell nothing.
    """

    passages: int
    frequencies: Mapping[str, int]
    emphasised: frozenset[str] = field(default=frozenset(), repr=False)
    mean: float = 0.0
    deviation: float = 0.0

    @cached_property
    def weights(self) -> dict[str, float]:
        """The weight of each term."""
        return {
            term: inverse_frequency(count, self.passages) * (EMPHASIS if term in self.emphasised else 1.0)
            for term, count in self.frequencies.items()
        }

    @cached_property
    def _gains(self) -> dict[str, float]:
        return {term: weight * (BM25_K1 + 1) for term, weight in self.weights.items()}

    def evidence(self, similarity: float | None) -> float:
        """Return what a similarity tells; nothing if it is below the mean or no number."""
        if similarity is None or not self.deviation or not similarity > self.mean:
            return 0.0
        trust = self.passages / (self.passages + SPREAD_PASSAGES)
        return trust * ((similarity - self.mean) / self.deviation) ** 2 / 2

    def bm25(self, occurrences: Mapping[str, float], length: float) -> float:
        """Return what occurrences in a text of so many characters tell (Robertson and Zaragoza, 2009)."""
        if not occurrences:
            return 0.0
        norm, gains = BM25_K1 * (1 - BM25_B + BM25_B * length / TYPICAL_CHARACTERS), self._gains
        return math.fsum([gains[term] * count / (count + norm) for term, count in occurrences.items()])


class Ranked(NamedTuple):
    """A candidate and its score, comparable within one query only, as a share of the most that terms could reach.

    Attributes:
        total: The sum of the others.
        lexical: By its own terms, 0 to 1.
        semantic: By similarity.
        neighbours: What terms of adjacent passages, its session and the size of its item add or take.
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

    - Terms: BM25 of the passage together with a share of the adjacent ones.
    - Meaning: `QueryProfile.evidence`.
    - Item and session: `SIZE_PENALTY`, `SESSION_GAIN`.
    """
    links = _links(candidates)
    beside = [links.get(one.place) for one in candidates]
    own = [query.bm25(one.occurrences, one.length) for one in candidates]
    semantic = [query.evidence(one.semantic) for one in candidates]
    penalties = [SIZE_PENALTY * math.log(max(one.content_bytes / 1000, 1.0)) for one in candidates]
    around = [
        (query.bm25(*_joined(one, others)) if others else alone) - penalty
        for one, others, alone, penalty in zip(candidates, beside, own, penalties, strict=True)
    ]
    groups = [one.session or one.content_id for one in candidates]
    of_group: defaultdict[str | int, list[float]] = defaultdict(list)
    for one, group, context, by_meaning, penalty in zip(candidates, groups, around, semantic, penalties, strict=True):
        of_group[group] += (context + by_meaning, *(other - penalty for other in one.others))
    bests = ((group, sorted(scores)[-3:]) for group, scores in of_group.items())
    gains = {group: SESSION_GAIN * (math.fsum(best) / len(best)) for group, best in bests}
    most = (BM25_K1 + 1) * math.fsum(query.weights.values()) or 1.0
    ranked = [
        Ranked(
            one,
            (by_meaning + context + gains[group]) / most,
            by_terms / most,
            by_meaning / most,
            (context + gains[group] - by_terms) / most,
        )
        for one, group, by_terms, by_meaning, context in zip(candidates, groups, own, semantic, around, strict=True)
    ]
    return sorted(ranked, key=lambda one: (-one.total, -one.candidate.content_id, one.candidate.chunk_number))


def _links(candidates: Sequence[Candidate]) -> dict[PassagePlace, list[Candidate]]:
    """Return adjacent candidates by place, in order: at most one before and one after. Empty if nothing is adjacent.

    A link in one direction counts in both. Of the many neighbours of a content that was said often ("thanks") the
    newest counts.
    """
    if all(one.before is None and one.after is None for one in candidates):
        return {}
    known = {one.place: one for one in candidates}
    before: dict[PassagePlace, PassagePlace] = {}
    after: dict[PassagePlace, PassagePlace] = {}
    own_links = [(place, known[place].before, known[place].after) for place in sorted(known)]
    for place, previous, following in own_links:
        if previous is not None:
            after[previous] = place
        if following is not None:
            before[following] = place
    for place, previous, following in own_links:  # tell more than the links of others
        if previous is not None and previous in known:
            before[place] = previous
        if following is not None and following in known:
            after[place] = following
    beside = {place: {before.get(place, place), after.get(place, place)} - {place} for place in known}
    return {place: [known[other] for other in sorted(others)] for place, others in beside.items()}


def _joined(one: Candidate, beside: Sequence[Candidate]) -> tuple[Mapping[str, float], float]:
    occurrences, length = dict[str, float](one.occurrences), float(one.length)
    for neighbour in beside:
        length += SESSION_SHARE * neighbour.length
        for term, count in neighbour.occurrences.items():
            occurrences[term] = occurrences.get(term, 0.0) + SESSION_SHARE * min(count, SESSION_OCCURRENCES)
    return occurrences, length
