"""Search over items: candidates from the store, ranked, one passage an item, near-duplicates once."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ..escaping import to_utf8
from ..indexing import Candidate, QueryProfile, query_terms, terms_of
from ..references import MemoryRef
from ..store import MemoryCriteria, MemoryStore, StoredPassage
from .items import MemoryItem, item_of
from .ranking import BM25_K1, Ranked, inverse_frequency, rank

__all__ = ["SearchHit", "SearchScore", "search_items"]

_RELEVANT_SCORE = 0.1
"""A tenth of what the query's terms and meaning could give at best."""
_RELEVANT_SHARE = 0.25
_TELLING_PASSAGES = 1000
_UNINDEXED_LIMIT = 200
_ALIKE = 0.9
"""Share of all terms of two passages that both have, from which they are taken for the same."""
_MORE = 3
"""How many times the asked number of passages is read, so that enough are left without the near-duplicates."""
_OFF_LOOP_CHARACTERS = 20_000

Place = tuple[int, int]


@dataclass(frozen=True)
class SearchScore:
    """Why a passage ranks where it does: parts that add up to the total. Comparable within one search only.

    Attributes:
        total: The sum.
        lexical: For the terms it shares with the query.
        semantic: For its nearness in meaning.
        neighbours: For what stands beside it.
    """

    total: float
    lexical: float
    semantic: float
    neighbours: float


@dataclass(frozen=True)
class SearchHit:
    """An item that was found, with the passage that answers best.

    Attributes:
        item: The item; its content is the passage, its label says which lines that are.
        start_line: First line of the passage, from 1.
        end_line: Its last line.
        start_char: First character of the passage, from 1.
        end_char: Its last character.
        score: Why it ranks where it does.
        is_relevant: Whether it has to do with the query at all: the best of a memory without an answer does not.
    """

    item: MemoryItem
    start_line: int
    end_line: int
    start_char: int
    end_char: int
    score: SearchScore
    is_relevant: bool

    @property
    def ref(self) -> MemoryRef:
        """The item's reference."""
        return self.item.ref

    @property
    def passage(self) -> str:
        """The passage, as it is in the content."""
        return self.item.content


async def search_items(
    store: MemoryStore, user_id: str, query: str, limit: int, criteria: MemoryCriteria
) -> list[SearchHit]:
    """Return the items that answer a query best, the best first."""
    if len(query) > _OFF_LOOP_CHARACTERS:
        terms = await asyncio.to_thread(query_terms, query)
    else:
        terms = query_terms(query)
    if not query.strip():
        return []
    # in this order: what is indexed between the two is found twice rather than not at all
    fresh = await store.select_unindexed(user_id, criteria, _UNINDEXED_LIMIT)
    candidates, profile = await store.search_candidates(user_id, query, terms, criteria)
    unindexed = {(-1 - number, 0): passage for number, passage in enumerate(fresh)}
    candidates = [*candidates, *_as_candidates(unindexed, profile)]
    ranked = await asyncio.to_thread(rank, candidates, profile)
    best = _one_an_item(ranked)
    hits: list[SearchHit] = []
    keys: set[str] = set()
    seen: list[set[str]] = []
    for start in range(0, len(best), limit * _MORE):
        chosen = best[start : start + limit * _MORE]
        places = [_place(one) for one in chosen]
        passages = unindexed | await store.fetch_passages(user_id, [place for place in places if place[0] >= 0])
        for one, place in zip(chosen, places, strict=True):
            if place not in passages or passages[place].memory.memory_key in keys:
                continue
            words = set(terms_of(passages[place].text))
            if any(_are_alike(words, others) for others in seen):
                continue
            seen.append(words)
            keys.add(passages[place].memory.memory_key)
            hits.append(_hit(one, passages[place], _is_relevant(one, words, profile)))
            if len(hits) == limit:
                return hits
    return hits


def _place(ranked: Ranked) -> Place:
    return ranked.candidate.memory_id, ranked.candidate.chunk_number


def _one_an_item(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Return the best passage of each item, in order."""
    best: dict[int, Ranked] = {}
    for one in ranked:
        best.setdefault(one.candidate.memory_id, one)
    return list(best.values())


def _as_candidates(unindexed: dict[Place, StoredPassage], profile: QueryProfile) -> list[Candidate]:
    """Return what is not indexed yet, as far as it shares terms with the query, scored like what is."""
    candidates: list[Candidate] = []
    for (memory_id, number), passage in unindexed.items():
        memory = passage.memory
        names = "\n".join((memory.memory_key, memory.summary, memory.source, *memory.tags))
        occurrences = Counter([*terms_of(passage.text), *terms_of(names)])
        score = sum(
            inverse_frequency(frequency, max(profile.passages, 1))
            * (BM25_K1 + 1)
            * occurrences[term]
            / (occurrences[term] + BM25_K1)
            for term, frequency in profile.frequencies.items()
        )
        if score > 0:
            candidates.append(Candidate(memory_id, number, score, None, len(passage.text), None, None))
    return candidates


def _are_alike(words: set[str], others: set[str]) -> bool:
    """Whether two passages say nearly the same (Jaccard index of their terms); what says nothing is like nothing."""
    return bool(words) and len(words & others) >= _ALIKE * len(words | others)


def _is_relevant(ranked: Ranked, words: set[str], profile: QueryProfile) -> bool:
    """Whether a passage scores something, or has a good part of what the query says.

    In a small memory about one thing its words are in every passage and score nothing. So their weight is taken from a
    memory of at least a thousand passages, in which only these have them.
    """
    passages = max(profile.passages, _TELLING_PASSAGES)
    weights = {term: inverse_frequency(count, passages) for term, count in profile.frequencies.items()}
    covered = sum(weight for term, weight in weights.items() if term in words)
    return ranked.lexical + ranked.semantic >= _RELEVANT_SCORE or covered >= _RELEVANT_SHARE * sum(weights.values()) > 0


def _hit(ranked: Ranked, passage: StoredPassage, is_relevant: bool) -> SearchHit:
    lines = (
        f"line {passage.start_line}"
        if passage.start_line == passage.end_line
        else (f"lines {passage.start_line}-{passage.end_line}")
    )
    is_whole = passage.start_char == 0 and len(to_utf8(passage.text)) == passage.memory.content_bytes
    return SearchHit(
        item=item_of(passage.memory, passage.text, is_whole, "all of" if is_whole else f"{lines} of"),
        start_line=passage.start_line,
        end_line=passage.end_line,
        start_char=passage.start_char + 1,
        end_char=passage.end_char,
        score=SearchScore(ranked.total, ranked.lexical, ranked.semantic, ranked.neighbours),
        is_relevant=is_relevant,
    )
