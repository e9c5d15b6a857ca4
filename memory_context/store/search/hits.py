"""Searches items: the best passages of each item, without near-duplicates."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from memory_context.foundation.notebooks import html_table
from memory_context.foundation.references import MemoryRef
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.text.tokenize import query_terms, telling_terms
from memory_context.foundation.utf8 import to_utf8

from ..items import CONVERSATION_TYPE, MemoryCriteria, MemoryItem, ReadScope
from .passages import CANDIDATES, MOST_CANDIDATES, PASSAGES_AN_ITEM, PassageSearch, StoredPassage
from .rank import Candidate, PassagePlace, QueryProfile, Ranked, inverse_frequency, rank

__all__ = ["FoundPassage", "SearchHit", "SearchScore", "search_items"]

_RELEVANT_SHARE = 0.25
"""Share of the query, by words or meaning, that a relevant passage must have."""
_TELLING_PASSAGES = 1000
_TELLING_CANDIDATES = 10
_ALIKE = 0.9
"""Jaccard index of words from which passages are near-duplicates."""
_SPARE = 5
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
class FoundPassage:
    """A passage of an item; lines and characters count from 1, ends inclusive."""

    text: str
    start_line: int
    end_line: int
    start_char: int
    end_char: int


@dataclass(frozen=True)
class SearchHit:
    """A found item with its best passages; lines and characters are those of the first.

    Attributes:
        item: Its content is the best passage, its label names the lines.
        passages: At most three, the best first.
        relevance: Share of what the query asks that it tells, by words or by meaning, from 0 to 1.
        is_relevant: True if it relates to the query at all; the best hit of an unrelated memory does not.
    """

    item: MemoryItem
    passages: tuple[FoundPassage, ...]
    score: SearchScore
    is_relevant: bool
    relevance: float = 0.0

    @property
    def ref(self) -> MemoryRef:
        return self.item.ref

    @property
    def is_conversation(self) -> bool:
        """True for an archived message; `item.source` said it at `item.created_at`."""
        return self.item.type == CONVERSATION_TYPE

    @property
    def session_title(self) -> str:
        """Title of the item's session; "" if it has none."""
        return self.item.session_title

    @property
    def passage(self) -> str:
        """The text of the best passage."""
        return self.passages[0].text

    @property
    def start_line(self) -> int:
        """From 1."""
        return self.passages[0].start_line

    @property
    def end_line(self) -> int:
        """Inclusive."""
        return self.passages[0].end_line

    @property
    def start_char(self) -> int:
        """From 1."""
        return self.passages[0].start_char

    @property
    def end_char(self) -> int:
        """Inclusive."""
        return self.passages[0].end_char

    def __repr__(self) -> str:
        where = f"{self.item.key!r} lines {self.start_line}-{self.end_line}"
        return f"<SearchHit {where}, score {self.score.total:.2f}{'' if self.is_relevant else ', not relevant'}>"

    def _repr_html_(self) -> str:
        rows = [(f"{one.start_line}-{one.end_line}", one.text) for one in self.passages]
        return html_table(f"{self.item.key}: {self.ref.description}", ("lines", "passage"), rows)


@dataclass(frozen=True)
class _Choice:
    ranked: tuple[Ranked, ...]

    @property
    def best(self) -> Ranked:
        return self.ranked[0]

    @property
    def places(self) -> list[PassagePlace]:
        return [one.candidate.place for one in self.ranked]


async def search_items(
    search: PassageSearch, user_id: str, query: str, limit: int, criteria: MemoryCriteria, scope: ReadScope
) -> list[SearchHit]:
    """Return the items that answer a query best, in order: fewer are always the first of more.

    Left out are near-duplicates, superseded statements, and messages that add nothing.
    """
    terms = await in_thread_if_large(len(query), query_terms, query)
    if not query.strip():
        return []
    hits: dict[int, SearchHit] = {}
    seen: list[frozenset[str]] = []
    passed = set[int]()
    for most in (CANDIDATES, MOST_CANDIDATES):
        candidates, profile = await search.candidates(user_id, query, terms, criteria, scope=scope, limit=most)
        found_items = _choices(candidates, profile)
        choices = [one for one in found_items if one.best.candidate.content_id not in passed]
        middle = _middle(candidates)
        for start in range(0, len(choices), page := limit + _SPARE):
            chosen = choices[start : start + page]
            places = [place for choice in chosen for place in choice.places]
            passages = await search.passages(user_id, places, criteria, scope=scope)
            for choice in chosen:
                content_id = choice.best.candidate.content_id
                passed.add(content_id)
                found = [passages[place] for place in choice.places if place in passages]
                if not found or choice.places[0] not in passages or found[0].item.superseded_by is not None:
                    continue
                words = frozenset(found[0].text.casefold().split())
                if not any(_are_alike(words, others) for others in seen) and _adds(found[0], query, hits.values()):
                    seen.append(words)
                    hits[content_id] = _hit(choice.best, found, profile, middle)
                if len(hits) == limit:
                    return list(hits.values())
        if len(found_items) < most:  # there is no more
            break
    return list(hits.values())


def _choices(candidates: Sequence[Candidate], profile: QueryProfile) -> list[_Choice]:
    """Return the best passages of each item, in order."""
    of_item: dict[int, list[Ranked]] = {}
    for one in rank(candidates, profile):
        best = of_item.setdefault(one.candidate.content_id, [])
        if len(best) < PASSAGES_AN_ITEM:
            best.append(one)
    return [_Choice(tuple(ranked)) for ranked in of_item.values()]


def _are_alike(words: frozenset[str], others: frozenset[str]) -> bool:
    """Empty passages are never alike. Most pairs differ in size alone."""
    least, most = sorted((len(words), len(others)))
    return bool(words) and least >= _ALIKE * most and len(words & others) >= _ALIKE * len(words | others)


def _adds(passage: StoredPassage, query: str, hits: Iterable[SearchHit]) -> bool:
    """Return whether a message tells more than the query and the items found before it; items always do."""
    item, text = passage.item, passage.text
    if item.type != CONVERSATION_TYPE:
        return True
    # here: their patterns take as long to compile as the rest of a search
    from memory_context.foundation.text.statements import adds_nothing, is_question, says_nothing

    is_asked_again = item.origin == "user_words" and is_question(text) and adds_nothing(text, [query])
    told = [hit.passage for hit in hits if not hit.is_conversation]
    return not (says_nothing(text) or is_asked_again or adds_nothing(text, told))


def _middle(candidates: Sequence[Candidate]) -> float:
    known = sorted(one.semantic for one in candidates if one.semantic is not None and not math.isnan(one.semantic))
    middle = len(known) // 2
    return (known[middle] + known[-middle - 1]) / 2 if len(known) >= _TELLING_CANDIDATES else 0.0  # the median


def _relevance(candidate: Candidate, profile: QueryProfile, middle: float) -> tuple[bool, float]:
    """Return whether a passage shares enough of the query, by words or meaning, and the share.

    Terms weigh as in a memory of at least a thousand passages: in a small one its topic is in every passage. Of a long
    question, which a passage answers with a small share of its words, evidence beyond chance of 2 ln N is enough: less
    than one of N passages has it by chance, and the odds are still N to one.
    """
    telling = telling_terms(profile.frequencies)
    if not telling:
        return False, 0.0
    semantic = candidate.semantic
    meant = 0.0 if semantic is None or math.isnan(semantic) or middle >= 1 else (semantic - middle) / (1 - middle)
    passages = max(profile.passages, _TELLING_PASSAGES)
    weights = {term: inverse_frequency(profile.frequencies[term], passages) for term in telling}
    covered = sum(weight for term, weight in weights.items() if term in candidate.occurrences)
    by_chance = sum(weight * profile.frequencies[term] / passages for term, weight in weights.items())
    enough = min(_RELEVANT_SHARE * sum(weights.values()), by_chance + 2 * math.log(passages))
    share = covered / sum(weights.values()) if covered else 0.0
    return meant >= _RELEVANT_SHARE or covered >= enough > 0, min(max(meant, share, 0.0), 1.0)


def _hit(ranked: Ranked, found: Sequence[StoredPassage], profile: QueryProfile, middle: float) -> SearchHit:
    is_relevant, relevance = _relevance(ranked.candidate, profile, middle)
    best = found[0]
    is_whole = best.start_char == 0 and len(to_utf8(best.text)) == best.item.content_bytes
    first, last = best.start_line, best.end_line
    lines = f"line {first}" if first == last else f"lines {first}-{last}"
    return SearchHit(
        item=replace(best.item, content=best.text, is_whole=is_whole, label="all of" if is_whole else f"{lines} of"),
        passages=tuple(
            FoundPassage(one.text, one.start_line, one.end_line, one.start_char + 1, one.end_char) for one in found
        ),
        score=SearchScore(ranked.total, ranked.lexical, ranked.semantic, ranked.neighbours),
        is_relevant=is_relevant,
        relevance=relevance,
    )
