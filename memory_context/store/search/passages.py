"""The reads of a search: candidates, neighbours, scores and texts."""

import re
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pgvector import HalfVector

from memory_context.credentials import masked
from memory_context.embeddings import EmbeddingError, embed_checked
from memory_context.outages import outages_of

from ..codec import stored_form
from ..criteria import MemoryCriteria, criteria_params
from ..database import Database
from ..items import ANYBODY, MemoryItem, ReadScope, content_of, is_as_stored, item_from_row, scope_params
from ..sql import Statement, expanded, load_queries
from .indexer import AnnQualityCheck, Indexer, model_of

__all__ = ["Candidate", "PassagePlace", "PassageSearch", "QueryProfile", "QueryVector", "StoredPassage"]

_QUERIES = load_queries("search")

_REACHES = {  # prefix of a ranking; its contents and items
    "user": ("", "{not_hidden_contents()}", "{not_hidden_items()}"),
    "narrow": ("{within_reach()}, ", "{readable_contents()}", "{readable_items()}"),
    "filtered": ("{readable()}, ", "{readable_contents()}", "{readable_items()}"),
}
CANDIDATES = 200
PASSAGES_AN_ITEM = 20  # so that a long log does not crowd out other items
NEAREST = 2 * CANDIDATES  # the index cannot tell items apart
EXACT_UP_TO_PASSAGES = 20_000  # compared in some 10 ms
NEAREST_DIMENSIONS_LIMIT = 4000  # pgvector's limit for halfvec indexes
EF_SEARCH = 400
POSTINGS_LIMIT = 10_000
_EMBED_QUERY_SECONDS = 5.0
_SEARCHING = "searching by meaning"
_USERS_REMEMBERED = 1000
_UNINDEXED_CHARACTERS = 2000
_UNINDEXED_BYTES = 8_000_000  # searched for words
_BEFORE_A_WORD = 500
_SHORTEST_WORD = 2

_SPAN = "text", "start_char", "end_char", "start_line", "end_line"
_LIKE_SIGNS = re.compile(r"[\\%_]")


PassagePlace = tuple[int, int]
"""Content id, and number of the passage there."""


@dataclass(frozen=True)
class Candidate:
    """A passage that could answer a query, or is adjacent to one.

    Attributes:
        lexical: BM25.
        semantic: Cosine similarity; None without an embedding.
        length: In characters.
        before: The previous passage, also of the session's previous item.
        unused_days: Age of what tools or agents stored and nobody used; 0 for everything else.
    """

    content_id: int
    chunk_number: int
    lexical: float
    semantic: float | None
    length: int
    before: PassagePlace | None
    after: PassagePlace | None
    unused_days: float = 0.0


@dataclass(frozen=True)
class QueryProfile:
    """The number of passages that the reader may know, and in how many of them each term occurs."""

    passages: int
    frequencies: Mapping[str, int]


@dataclass(frozen=True)
class QueryVector:
    """A query's embedding, of unit length, and the stored name of its model."""

    model: str
    values: Sequence[float]


@dataclass(frozen=True)
class StoredPassage:
    """A passage and its item, without content; characters count from 0, lines from 1."""

    item: MemoryItem
    text: str
    start_char: int
    end_char: int
    start_line: int
    end_line: int


class PassageSearch:
    """Searches the passages of one database's users; a scope of `ANYBODY` reads all but private items."""

    def __init__(self, database: Database, indexer: Indexer) -> None:
        self._database = database
        self._indexer = indexer
        self._passage_counts: OrderedDict[str, int] = OrderedDict()
        self._ann_quality = AnnQualityCheck(database, ranking_statement("rank_by_embedding", "user"))

    async def embed_query(self, query: str) -> QueryVector | None:
        """Return a query's embedding; None if the embedder fails, logged once per outage."""
        embedder, outages = self._indexer.embedder, outages_of(self._database)
        if embedder is None:
            return None
        query = masked(query) if self._indexer.masks_credentials else query
        try:
            (vector,) = await embed_checked(embedder, [query], "query", timeout_seconds=_EMBED_QUERY_SECONDS)
        except EmbeddingError as error:
            outages.failed(_SEARCHING, "searching by terms alone: %s", error)
            return None
        outages.worked(_SEARCHING)
        return None if vector is None else QueryVector(model_of(embedder), vector)

    async def candidates(
        self,
        user_id: str,
        query: str,
        terms: Sequence[str],
        criteria: MemoryCriteria,
        *,
        scope: ReadScope = ANYBODY,
    ) -> tuple[list[Candidate], QueryProfile]:
        """Return scored passages and term statistics; terms are distinct, and rank alone if the embedder fails."""
        vector = await self.embed_query(query)
        filters = await self._filter_params(user_id, criteria, scope)
        is_filtered = criteria.is_filter or scope.is_narrow
        params: dict[str, Any] = {
            **filters,
            "terms": list(terms),
            "limit": CANDIDATES,
            "per_item": PASSAGES_AN_ITEM,
            "embedding": None if vector is None else HalfVector(list(vector.values)),
            "embedding_model": "" if vector is None else vector.model,
        }
        reach = "filtered" if is_filtered else "user"
        counted = _QUERIES["fetch_statistics_within" if scope.is_narrow else "fetch_statistics"]
        frequencies_of = ranking_statement("select_frequencies", "narrow" if scope.is_narrow else "user")
        statements = [Statement(counted, params), Statement(frequencies_of, params)]
        is_approximate = vector is not None and not is_filtered and await self._is_approximate(user_id, vector)
        by_meaning_exact = Statement(ranking_statement("rank_by_embedding", reach), params)
        if vector is not None:
            statements += _nearest(vector, params) if is_approximate else [by_meaning_exact]
        statistics, frequencies, *rest = await self._database.read(user_id, *statements)
        by_meaning = rest[-1] if rest else []
        if is_approximate:
            self._ann_quality.note(user_id, params, by_meaning)
            is_complete = len(by_meaning) >= CANDIDATES
            by_meaning = _few_of_each(by_meaning)
            if not is_complete:  # most near passages are other users'
                (by_meaning,) = await self._database.read(user_id, by_meaning_exact)
        known = {row["term"]: row["document_frequency"] for row in frequencies}
        self._remember(user_id, statistics[0]["chunk_count"] if statistics else 0)
        passages: int = statistics[0]["known_count"] if statistics else 0
        profile = QueryProfile(passages=passages, frequencies={term: known.get(term, 0) for term in terms})
        if not statistics:
            return [], profile
        params["chunk_count"] = passages
        ranking = Statement(ranking_statement("rank_by_terms", reach), {**params, **_of_terms(_rarest(known))})
        (by_terms,) = await self._database.read(user_id, ranking)
        found = sorted({(row["content_id"], row["chunk_number"]) for row in (*by_terms, *by_meaning)})
        return await self._scored(user_id, found, known, params, criteria), profile

    async def _scored(
        self,
        user_id: str,
        found: Sequence[PassagePlace],
        known: dict[str, int],
        params: dict[str, Any],
        criteria: MemoryCriteria,
    ) -> list[Candidate]:
        """Return passages and neighbours with both scores; neighbours must meet the criteria."""
        (rows,) = await self._database.read(user_id, _of_places("select_neighbours", found, params))
        beside = {
            (row["content_id"], row["chunk_number"]): (_place(row, "before"), _place(row, "after")) for row in rows
        }
        neighbours = {place for pair in beside.values() for place in pair if place is not None}
        if criteria.is_filter:
            meeting = {content_id for content_id, _ in beside}
            neighbours = {place for place in neighbours if place[0] in meeting}
        pool = sorted(neighbours | beside.keys())
        items = {"given_contents": sorted({content_id for content_id, _ in pool})}
        lexical, semantic = await self._database.read(
            user_id,
            _QUERIES("select_scores_by_terms", {**params, **_of_terms(known), **items}),
            _of_places("select_scores_by_embedding", pool, params),
        )
        by_place = {(row["content_id"], row["chunk_number"]): row["score"] for row in lexical}
        return [_candidate(row, by_place, beside) for row in semantic]

    async def stop(self) -> None:
        await self._ann_quality.stop()

    async def passages(
        self, user_id: str, places: Sequence[PassagePlace], criteria: MemoryCriteria, *, scope: ReadScope = ANYBODY
    ) -> dict[PassagePlace, StoredPassage]:
        """Return passages by place, each with its newest matching item."""
        if not places:
            return {}
        params = {**await self._filter_params(user_id, criteria, scope)}
        (rows,) = await self._database.read(user_id, _of_places("select_passages", places, params))
        return {
            (row["content_id"], row["chunk_number"]): StoredPassage(item_from_row(row), *(row[one] for one in _SPAN))
            for row in rows
            if is_as_stored(stored_form(row["text"]), row)
        }

    async def unindexed(
        self,
        user_id: str,
        criteria: MemoryCriteria,
        limit: int,
        *,
        words: Sequence[str] = (),
        written: Sequence[str] = (),
        scope: ReadScope = ANYBODY,
    ) -> list[StoredPassage]:
        """Return beginnings of the newest unindexed items, or surroundings of matches; items named by `words` first."""
        sought = [word for word in dict.fromkeys((*written, *words)) if len(word) >= _SHORTEST_WORD]
        (rows,) = await self._database.read(
            user_id,
            _QUERIES(
                "select_unindexed",
                await self._filter_params(user_id, criteria, scope),
                characters_limit=_UNINDEXED_CHARACTERS,
                bytes_limit=_UNINDEXED_BYTES,
                characters_before=_BEFORE_A_WORD,
                written=sought,
                folded=[word.casefold() for word in sought],
                patterns=["%" + _LIKE_SIGNS.sub(r"\\\g<0>", word) + "%" for word in words if word],
                limit=limit,
            ),
        )
        return [_unindexed(row) for row in rows if is_as_stored(_shown(row), row)]

    async def _filter_params(self, user_id: str, criteria: MemoryCriteria, scope: ReadScope) -> dict[str, Any]:
        related = await related_keys(self._database, user_id, criteria, scope)
        return {**criteria_params(criteria, related), **scope_params(scope)}

    async def _is_approximate(self, user_id: str, vector: QueryVector) -> bool:
        if len(vector.values) > NEAREST_DIMENSIONS_LIMIT:
            return False
        if user_id not in self._passage_counts:  # the first search
            params = scope_params(ReadScope())
            statement = _QUERIES("fetch_statistics", params)
            (rows,) = await self._database.read(user_id, statement)
            self._remember(user_id, rows[0]["chunk_count"] if rows else 0)
        return self._passage_counts.get(user_id, 0) > EXACT_UP_TO_PASSAGES

    def _remember(self, user_id: str, passages: int) -> None:
        self._passage_counts.pop(user_id, None)
        self._passage_counts[user_id] = passages
        while len(self._passage_counts) > _USERS_REMEMBERED:
            self._passage_counts.popitem(last=False)


async def related_keys(database: Database, user_id: str, criteria: MemoryCriteria, scope: ReadScope) -> list[str]:
    """Return the keys linked to the item of `criteria.related_to`."""
    if criteria.related_to is None:
        return []
    (rows,) = await database.read(
        user_id, _QUERIES("select_related_keys", scope_params(scope), memory_key=criteria.related_to)
    )
    return [row["memory_key"] for row in rows]


@cache
def ranking_statement(name: str, reach: str) -> bytes:
    """Return a ranking statement for one of `_REACHES`."""
    text = _QUERIES[name].decode()
    for word, fragment in zip(("readable", "contents", "items"), _REACHES[reach], strict=True):
        text = text.replace(f"{{{word}}}", expanded(fragment))
    return text.encode()


def nearest_statement(model: str, dimensions: int) -> bytes:
    """Return the statement for a model's index: the planner must see model and dimensions as literals."""
    literal = "'" + model.replace("'", "''").replace("%", "%%") + "'"
    return (
        _QUERIES["rank_by_embedding_nearest"]
        .replace(b"{dimensions}", str(dimensions).encode())
        .replace(b"{embedding_model}", literal.encode())
    )


def _nearest(vector: QueryVector, params: dict[str, Any]) -> list[Statement]:
    scope = _QUERIES("set_nearest_scope", ef_search=EF_SEARCH)
    nearest = nearest_statement(vector.model, len(vector.values))
    return [scope, Statement(nearest, {**params, "limit": NEAREST})]


def _rarest(known: dict[str, int]) -> dict[str, int]:
    rarest: dict[str, int] = {}
    postings = 0
    for term, frequency in sorted(known.items(), key=lambda item: item[1]):
        postings += frequency
        if rarest and postings > POSTINGS_LIMIT:
            break
        rarest[term] = frequency
    return rarest


def _few_of_each(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    counts: Counter[int] = Counter()
    few: list[dict[str, Any]] = []
    for row in rows:
        counts[row["content_id"]] += 1
        if counts[row["content_id"]] <= PASSAGES_AN_ITEM:
            few.append(row)
    return few[:CANDIDATES]


def _of_terms(known: dict[str, int]) -> dict[str, Any]:
    return {"terms": list(known), "document_frequencies": list(known.values())}


def _of_places(name: str, places: Sequence[PassagePlace], params: dict[str, Any]) -> Statement:
    ids = {"content_ids": [content_id for content_id, _ in places], "chunk_numbers": [number for _, number in places]}
    return _QUERIES(name, {**params, **ids})


def _place(row: dict[str, Any], name: str) -> PassagePlace | None:
    content_id, number = row[f"{name}_id"], row[f"{name}_number"]
    return None if content_id is None or number is None else (content_id, number)  # no number: unindexed


def _candidate(
    row: dict[str, Any],
    lexical: dict[PassagePlace, float],
    beside: dict[PassagePlace, tuple[PassagePlace | None, PassagePlace | None]],
) -> Candidate:
    place = (row["content_id"], row["chunk_number"])
    before, after = beside.get(place, (None, None))
    return Candidate(
        content_id=place[0],
        chunk_number=place[1],
        lexical=lexical.get(place, 0.0),
        semantic=row["score"],
        length=row["length"],
        before=before,
        after=after,
        unused_days=row["unused_days"] or 0.0,
    )


def _shown(row: dict[str, Any]) -> bytes:
    return (row["content"] or "").encode() if row["content_raw"] is None else bytes(row["content_raw"])


def _unindexed(row: dict[str, Any]) -> StoredPassage:
    text, start, line = content_of(row), row["start_char"], row["lines_before"] + 1
    if start:  # begin with a near line or word
        cut = text.find("\n", 0, _BEFORE_A_WORD) + 1 or text.find(" ", 0, _BEFORE_A_WORD) + 1
        start, line, text = start + cut, line + text.count("\n", 0, cut), text[cut:]
    return StoredPassage(item_from_row(row), text, start, start + len(text), line, line + text.count("\n", 0, -1))
