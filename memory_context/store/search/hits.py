"""Searches items: the best passages of each item, without near-duplicates."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from statistics import median

from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.notebooks import html_table
from memory_context.foundation.references import MemoryRef
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.foundation.text.statements import unchangeable_words
from memory_context.foundation.text.tokenize import query_terms, query_words, telling_terms, terms_of
from memory_context.foundation.utf8 import to_utf8

from ..items import CONVERSATION_TYPE, USER_TYPES, MemoryCriteria, MemoryItem, ReadScope
from .passages import PassageSearch, StoredPassage
from .postings import written_date
from .rank import Candidate, PassagePlace, QueryProfile, Ranked, inverse_frequency, rank

__all__ = ["FoundPassage", "SearchHit", "SearchScore", "search_items"]

_PASSAGES_AN_ITEM = 3
_RELEVANT_SHARE = 0.25
"""Share of the query, by words or meaning, that a relevant passage must have."""
_TELLING_PASSAGES = 1000
_TELLING_CANDIDATES = 10
_UNINDEXED_LIMIT = 200
_ALIKE = 0.9
"""Jaccard index of terms from which passages are near-duplicates."""
_SPARE = 5
"""Items to read beyond those asked for, so that enough remain without near-duplicates."""
_LEAST_ORDERED = 5
"""Passages among which the newest of equal statements comes first, if fewer are asked for."""
_STATEMENTS = (CONVERSATION_TYPE, *USER_TYPES)
_EQUAL_SHARE = 0.5
"""Share of their words, values left out, from which a speaker's statements that answer a query alike are equals."""
_OWN = frozenset(terms_of("my our mein meine meinen meinem meiner unser unsere unseren unserem unserer"))
"""Before a word of the query ("my database") they make such statements equals, whatever else these say."""


@dataclass(frozen=True)
class SearchScore:
    """A passage's score and its summands, comparable within one search only; neighbours are adjacent passages.

    Attributes:
        total: Their sum; up to a tenth less for what tools or agents stored and nobody ever used.
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
    """Return the items that answer a query best, in order."""
    terms = await in_thread_if_large(len(query), query_terms, query)
    if not query.strip():
        return []
    pending, candidates, profile = await search.survey(user_id, query, terms, criteria, scope=scope, hits=limit)
    written = query_words(query)
    fresh = await search.unindexed(
        user_id, criteria, _UNINDEXED_LIMIT, words=terms, written=written, scope=scope, pending=pending
    )
    unindexed = {(-1 - number, 0): passage for number, passage in enumerate(fresh)}
    size = sum(len(passage.text) for passage in fresh)
    choices = await in_thread_if_large(size, _choose, candidates, unindexed, profile)
    middle = _middle(candidates)
    hits: dict[str, SearchHit] = {}
    seen: list[set[str]] = []
    ordered = max(limit, _LEAST_ORDERED)
    page = ordered + _SPARE
    for start in range(0, len(choices), page):
        chosen = choices[start : start + page]
        places = [place for choice in chosen for place in choice.places if place[0] >= 0]
        passages = unindexed | await search.passages(user_id, places, criteria, scope=scope)
        if start == 0:  # the order of what is found, never what is found
            chosen = [*_newest_first(chosen[:ordered], passages, profile), *chosen[ordered:]]
        size = sum(len(passages[place].text) for choice in chosen if (place := choice.places[0]) in passages)
        left = limit - len(hits)
        for hit in await in_thread_if_large(size, _hits, chosen, passages, seen, profile, middle, left):
            hits.setdefault(hit.item.key, hit)
        if len(hits) >= limit:
            break
    return list(hits.values())


def _choose(
    candidates: Sequence[Candidate], unindexed: Mapping[PassagePlace, StoredPassage], profile: QueryProfile
) -> list[_Choice]:
    """Return the best passages of each item, in order."""
    of_item: dict[int, list[Ranked]] = {}
    for one in rank([*candidates, *_as_candidates(unindexed, profile)], profile):
        best = of_item.setdefault(one.candidate.content_id, [])
        if len(best) < _PASSAGES_AN_ITEM:
            best.append(one)
    return [_Choice(tuple(ranked)) for ranked in of_item.values()]


def _hits(
    choices: Sequence[_Choice],
    passages: Mapping[PassagePlace, StoredPassage],
    seen: list[set[str]],
    profile: QueryProfile,
    middle: float,
    limit: int,
) -> list[SearchHit]:
    """Skip choices whose best passage nearly repeats an earlier one."""
    hits: list[SearchHit] = []
    for choice in choices:
        if len(hits) == limit:
            break
        found = [passages[place] for place in choice.places if place in passages]
        if not found or choice.places[0] not in passages:
            continue
        words = set(terms_of(found[0].text))
        if not any(_are_alike(words, others) for others in seen):
            seen.append(words)
            day = _day_of(found[0].item, profile)
            told = words | day if len(day) > 1 else words
            hits.append(_hit(choice.best, found, *_relevance(choice.best, told, profile, middle)))
    return hits


@dataclass(frozen=True)
class _Statement:
    """What one says: the speaker, the query's terms, those behind "my", words but values, and since when it holds."""

    speaker: str
    asked: frozenset[str]
    own: frozenset[str]
    words: frozenset[str]
    since: tuple[bool, datetime]

    def replaces(self, other: "_Statement") -> bool:
        if not self.asked or (self.speaker, self.asked) != (other.speaker, other.asked) or self.since <= other.since:
            return False
        if self.own & other.own:
            return True
        return len(self.words & other.words) >= _EQUAL_SHARE * max(len(self.words), len(other.words))


def _newest_first(
    choices: Sequence[_Choice], passages: Mapping[PassagePlace, StoredPassage], profile: QueryProfile
) -> list[_Choice]:
    """Move a statement in front of an older or superseded one that answers the query alike; all else stays."""
    ordered: list[tuple[_Choice, _Statement | None]] = []
    for choice in choices:
        one = _statement(passages.get(choice.places[0]), profile)
        others = (at for at, (_, other) in enumerate(ordered) if one and other and one.replaces(other))
        ordered.insert(next(others, len(ordered)), (choice, one))
    return [choice for choice, _ in ordered]


def _statement(passage: StoredPassage | None, profile: QueryProfile) -> _Statement | None:
    if passage is None or passage.item.type not in _STATEMENTS:
        return None
    item, terms = passage.item, terms_of(passage.text)
    asked = (profile.frequencies.keys() & set(terms)) | _day_of(item, profile)
    values = set(terms_of("\n".join(unchangeable_words(passage.text)))) - asked
    return _Statement(
        speaker=item.source if item.type == CONVERSATION_TYPE else "user",
        asked=frozenset(asked),
        own=frozenset(term for before, term in pairwise(terms) if before in _OWN and term in asked),
        words=frozenset(query_terms(passage.text)) - values,
        since=(item.superseded_by is None, item.valid_from or item.created_at),
    )


def _day_of(item: MemoryItem, profile: QueryProfile) -> set[str]:
    """Return the query's terms that stand in the date of a message; a single one may be any number, or "may"."""
    if item.type != CONVERSATION_TYPE:
        return set()
    return profile.frequencies.keys() & set(terms_of(written_date(item.created_at)))


def _as_candidates(unindexed: Mapping[PassagePlace, StoredPassage], profile: QueryProfile) -> list[Candidate]:
    """Score unindexed passages like indexed ones."""
    candidates: list[Candidate] = []
    for (content_id, number), passage in unindexed.items():
        item = passage.item
        names = [item.key, item.ref.description, item.source, *item.tags]
        if item.type == CONVERSATION_TYPE:
            names.append(written_date(item.created_at))
        counts = Counter([*terms_of(masked(passage.text)), *terms_of("\n".join(names))])
        occurrences = {term: counts[term] for term in profile.frequencies if term in counts}
        if occurrences:
            candidates.append(
                Candidate(content_id, number, occurrences, None, len(passage.text), content_bytes=item.content_bytes)
            )
    return candidates


def _are_alike(words: set[str], others: set[str]) -> bool:
    """Empty passages are never alike. Most pairs differ in size alone."""
    least, most = sorted((len(words), len(others)))
    return bool(words) and least >= _ALIKE * most and len(words & others) >= _ALIKE * len(words | others)


def _middle(candidates: Sequence[Candidate]) -> float:
    known = [one.semantic for one in candidates if one.semantic is not None and not math.isnan(one.semantic)]
    return median(known) if len(known) >= _TELLING_CANDIDATES else 0.0


def _relevance(ranked: Ranked, words: set[str], profile: QueryProfile, middle: float) -> tuple[bool, float]:
    """Return whether a passage shares enough of the query, by words or meaning, and the share.

    Terms weigh as in a memory of at least a thousand passages: in a small one its topic is in every passage. Of a long
    question, which a passage answers with a small share of its words, evidence beyond chance of 2 ln N is enough: less
    than one of N passages has it by chance, and the odds are still N to one.
    """
    telling = telling_terms(profile.frequencies)
    if not telling:
        return False, 0.0
    semantic = ranked.candidate.semantic
    meant = 0.0 if semantic is None or math.isnan(semantic) or middle >= 1 else (semantic - middle) / (1 - middle)
    passages = max(profile.passages, _TELLING_PASSAGES)
    weights = {term: inverse_frequency(profile.frequencies[term], passages) for term in telling}
    covered = sum(weight for term, weight in weights.items() if term in words)
    by_chance = sum(weight * profile.frequencies[term] / passages for term, weight in weights.items())
    enough = min(_RELEVANT_SHARE * sum(weights.values()), by_chance + 2 * math.log(passages))
    share = covered / sum(weights.values()) if covered else 0.0
    return meant >= _RELEVANT_SHARE or covered >= enough > 0, min(max(meant, share, 0.0), 1.0)


def _hit(ranked: Ranked, found: Sequence[StoredPassage], is_relevant: bool, relevance: float) -> SearchHit:
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
