"""Searches items: the best passage of each item, without near-duplicates."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from memory_context.foundation.references import MemoryRef
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.text.tokenize import query_terms, telling_terms
from memory_context.foundation.utf8 import to_utf8

from ..codec import stored_form
from ..items import CONVERSATION_TYPE, MemoryCriteria, MemoryItem, ReadScope, is_as_stored, item_from_row
from .passages import CANDIDATES, PassageSearch
from .rank import Candidate, QueryProfile, Ranked, inverse_frequency, rank

__all__ = ["SearchHit", "SearchScore", "search_items"]

MOST_CANDIDATES = 200
_RELEVANT_SHARE = 0.25
"""Share of the query, by words or meaning, that a relevant passage must have."""
_AS_GOOD = 2 / 3
"""Share of a relevant first hit's score from which half of the evidence by words is enough."""
_TELLING_PASSAGES = 1000
_TELLING_CANDIDATES = 10
_ALIKE = 0.9
"""Jaccard index of words from which passages are near-duplicates."""
_SPARE = 10
"""Items to read beyond those asked for, so that enough remain without near-duplicates."""


@dataclass(frozen=True)
class SearchScore:
    """A passage's score and its summands, comparable within one search only; neighbours are adjacent passages.

    Attributes:
        total: Their sum.
    """

    total: float
    lexical: float
    semantic: float
    neighbours: float


@dataclass(frozen=True)
class SearchHit:
    """A found item with its best passage; lines and characters count from 1, ends inclusive.

    Attributes:
        item: Its content is the passage, its label names the lines.
        relevance: Share of what the query asks that it tells, by words or by meaning, from 0 to 1.
        is_relevant: True if it relates to the query at all; the best hit of an unrelated memory does not.
    """

    item: MemoryItem
    start_line: int
    end_line: int
    start_char: int
    end_char: int
    score: SearchScore
    is_relevant: bool
    relevance: float = 0.0

    @property
    def ref(self) -> MemoryRef:
        return self.item.ref

    @property
    def passage(self) -> str:
        """The text of the best passage."""
        return self.item.content

    @property
    def is_conversation(self) -> bool:
        """True for an archived message; `item.source` said it at `item.created_at`."""
        return self.item.type == CONVERSATION_TYPE

    @property
    def session_title(self) -> str:
        """Title of the item's session; "" if it has none."""
        return self.item.session_title

    def __repr__(self) -> str:
        where = f"{self.item.key!r} lines {self.start_line}-{self.end_line}"
        return f"<SearchHit {where}, score {self.score.total:.2f}{'' if self.is_relevant else ', not relevant'}>"

    def __str__(self) -> str:
        """Reference and passage, as for printing."""
        return f"{self.ref}\n{self.passage}"


async def search_items(
    search: PassageSearch, user_id: str, query: str, limit: int, criteria: MemoryCriteria, scope: ReadScope
) -> list[SearchHit]:
    """Return the items that answer a query best, in order: fewer are always the first of more.

    Left out are near-duplicates, superseded statements, and messages that add nothing.
    """
    terms = await in_thread_if_large(len(query), query_terms, query)
    if not query.strip():
        return []
    hits: list[SearchHit] = []
    for most in sorted({min(max(limit + _SPARE, CANDIDATES), MOST_CANDIDATES), MOST_CANDIDATES}):
        candidates, profile = await search.candidates(user_id, query, terms, criteria, scope=scope, limit=most)
        hits = _distinct_hits(candidates, profile, query, limit)
        if len(hits) == limit or all(one.standing != most for one in candidates):  # enough, or all that there is
            break
    return hits


def _distinct_hits(candidates: Sequence[Candidate], profile: QueryProfile, query: str, limit: int) -> list[SearchHit]:
    """Return the best passage of each item; those that are not ranked with neighbours come last, as they stood."""
    first = [one for one in candidates if one.standing is None or one.standing <= CANDIDATES]
    beside = {place for one in first for place in (one.before, one.after)}
    later = [one for one in candidates if one.standing is not None and one.standing > CANDIDATES]
    # a lower limit gives these as neighbours only: they rank alike, so that pages fit together
    first += [one._replace(standing=None, others=()) for one in later if one.place in beside]
    others = sorted((one.standing, one) for one in later if one.place not in beside)
    test = _RelevanceTest(profile, first)
    seen: list[frozenset[str]] = []
    passed = set[int]()
    hits: list[SearchHit] = []
    for ranked in [*rank(first, profile), *(rank([one], profile)[0] for _, one in others)]:
        candidate, row = ranked.candidate, ranked.candidate.row
        if candidate.content_id in passed:
            continue
        passed.add(candidate.content_id)
        text: str = row["text"]
        if row["superseded_by"] is not None or not is_as_stored(stored_form(text), row):
            continue
        words = frozenset(text.casefold().split())
        if _is_alike(words, seen) or not _adds(row, query, hits):
            continue
        seen.append(words)
        hits.append(_hit(ranked, *test(ranked, hits[0] if hits else None)))
        if len(hits) == limit:
            break
    return hits


def _is_alike(words: frozenset[str], seen: Iterable[frozenset[str]]) -> bool:
    """Return whether a passage is a near-duplicate of another; an empty one never is."""
    size = len(words)  # in which alone most pairs differ
    for others in seen:
        is_near = size >= _ALIKE * len(others) and len(others) >= _ALIKE * size > 0
        if is_near and len(words & others) >= _ALIKE * len(words | others):
            return True
    return False


def _adds(row: Mapping[str, Any], query: str, hits: Iterable[SearchHit]) -> bool:
    """Return whether a message tells more than the query and the items found before it; items always do."""
    text: str = row["text"]
    if row["memory_type"] != CONVERSATION_TYPE:
        return True
    from memory_context.foundation.text.statements import adds_nothing, is_question, says_nothing

    is_asked_again = row["origin"] == "user_words" and is_question(text) and adds_nothing(text, [query])
    told = [hit.passage for hit in hits if not hit.is_conversation]
    return not (says_nothing(text) or is_asked_again or adds_nothing(text, told))


class _RelevanceTest:
    """Tells whether a passage shares enough of the query, by words or meaning, and the share.

    Terms weigh as in a memory of at least a thousand passages: in a small one its topic is in every passage. Of a long
    question, which a passage answers with a small share of its words, evidence beyond chance of 2 ln N is enough: less
    than one of N passages has it by chance, and the odds are still N to one. Half of that is enough beside a first hit
    that is relevant and scores little more: a page of a long report often lacks most words of the question it answers.
    """

    def __init__(self, profile: QueryProfile, candidates: Sequence[Candidate]) -> None:
        known = [one.semantic for one in candidates if one.semantic is not None and not math.isnan(one.semantic)]
        self._middle = median(known) if len(known) >= _TELLING_CANDIDATES else 0.0
        passages = max(profile.passages, _TELLING_PASSAGES)
        telling = telling_terms(profile.frequencies)
        self._weights = {term: inverse_frequency(profile.frequencies[term], passages) for term in telling}
        self._most = sum(self._weights.values())
        by_chance = sum(weight * profile.frequencies[term] / passages for term, weight in self._weights.items())
        self._enough = min(_RELEVANT_SHARE * self._most, by_chance + 2 * math.log(passages))

    def __call__(self, ranked: Ranked, first: SearchHit | None) -> tuple[bool, float]:
        if not self._weights:
            return False, 0.0
        candidate, middle = ranked.candidate, self._middle
        semantic, enough = candidate.semantic, self._enough
        meant = 0.0 if semantic is None or math.isnan(semantic) or middle >= 1 else (semantic - middle) / (1 - middle)
        told = sum(weight for term, weight in self._weights.items() if term in candidate.occurrences)
        if first is not None and first.is_relevant and ranked.total >= _AS_GOOD * first.score.total:
            enough /= 2
        is_relevant = meant >= _RELEVANT_SHARE or told >= enough > 0
        return is_relevant, min(max(meant, told / self._most if told else 0.0, 0.0), 1.0)


def _hit(ranked: Ranked, is_relevant: bool, relevance: float) -> SearchHit:
    row = ranked.candidate.row
    text: str = row["text"]
    first, last = row["start_line"], row["end_line"]
    is_whole = row["start_char"] == 0 and len(to_utf8(text)) == row["content_bytes"]
    lines = f"line {first}" if first == last else f"lines {first}-{last}"
    return SearchHit(
        item_from_row(row, text, "all of" if is_whole else f"{lines} of", is_whole=is_whole),
        first,
        last,
        row["start_char"] + 1,
        row["end_char"],
        SearchScore(ranked.total, ranked.lexical, ranked.semantic, ranked.neighbours),
        is_relevant,
        relevance,
    )
