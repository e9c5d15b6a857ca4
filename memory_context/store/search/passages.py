"""Search over passages: what ranks high by terms and by meaning, its neighbours, and the texts of what is shown.

A few short reads: how rare the terms are, and the ranking by meaning; the ranking by the rarest terms; the neighbours
of what was found; the scores of all these; the passages that were chosen. How the scores come together is not decided
here (`memory.rank`).
"""

import re
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pgvector import HalfVector

from memory_context.credentials import masked
from memory_context.embeddings import EmbeddingError, embed_checked
from memory_context.outages import outages_of

from ..codec import stored_form
from ..criteria import MemoryCriteria, criteria_params
from ..database import Database
from ..items import MemoryItem, ReadScope, content_of, is_as_stored, item_from_row, scope_params
from ..pool import Statement
from ..sql import load_queries
from .ann_quality import AnnQualityCheck
from .candidates import Candidate, PassagePlace, QueryProfile
from .indexer import Indexer, model_of

__all__ = ["PassageSearch", "QueryVector", "StoredPassage"]

_QUERIES = load_queries("search")

_COUNTS = ("fetch_statistics", "select_frequencies")
_COUNTS_WITHIN = ("fetch_statistics_within", "select_frequencies_within")

CANDIDATES = 200
PASSAGES_AN_ITEM = 20  # of which one item may provide so many, that a long log does not crowd out the notes on it
NEAREST = 2 * CANDIDATES  # asked of the index, which cannot tell items apart
EXACT_UP_TO_PASSAGES = 20_000  # comparing them all takes some 10 ms
NEAREST_DIMENSIONS_LIMIT = 4000  # of pgvector's index on halfvec
EF_SEARCH = 400
POSTINGS_LIMIT = 10_000
_EMBED_QUERY_SECONDS = 5.0
_SEARCHING = "searching by meaning"
_USERS_REMEMBERED = 1000
_UNINDEXED_CHARACTERS = 2000
_UNINDEXED_BYTES = 8_000_000  # looked through for words, of the newest items
_BEFORE_A_WORD = 500
_SHORTEST_WORD = 2

_LIKE_SIGNS = re.compile(r"[\\%_]")


@dataclass(frozen=True)
class QueryVector:
    """A query's embedding.

    Attributes:
        model: The model's name in the store.
        values: The embedding, of unit length.
    """

    model: str
    values: Sequence[float]


@dataclass(frozen=True)
class StoredPassage:
    """A passage and the item it is of.

    Attributes:
        item: The item, without its content.
        text: The passage, as it is in the content.
        start_char: Where it begins in the content, from 0.
        end_char: Where it ends, exclusive.
        start_line: Its first line, from 1.
        end_line: Its last line.
    """

    item: MemoryItem
    text: str
    start_char: int
    end_char: int
    start_line: int
    end_line: int


class PassageSearch:
    """Searches the passages of one database's users.

    Args:
        database: Where they are.
        indexer: Has the embedder, and says whether credentials are masked.
    """

    def __init__(self, database: Database, indexer: Indexer) -> None:
        self._database = database
        self._indexer = indexer
        self._passage_counts: OrderedDict[str, int] = OrderedDict()
        self._ann_quality = AnnQualityCheck(database, _QUERIES["rank_by_embedding_exact"])

    async def embed_query(self, query: str) -> QueryVector | None:
        """Return a query's embedding; None if it has none, or the embedder fails, which is logged once an outage."""
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
        terms: Sequence[str],
        vector: QueryVector | None,
        criteria: MemoryCriteria,
        scope: ReadScope,
    ) -> tuple[list[Candidate], QueryProfile]:
        """Return the passages that could answer a query, scored, and what is known of its terms.

        Args:
            user_id: Whose passages.
            terms: The distinct terms of the query; may be empty.
            vector: The query's embedding; None to rank by terms alone.
            criteria: Which items count, in both rankings.
            scope: Who reads, and how far.
        """
        filters = await self._filter_params(user_id, criteria, scope)
        is_filtered = criteria.is_filter or scope.is_narrow
        params: dict[str, Any] = {
            **filters,
            "user_id": user_id,
            "terms": list(terms),
            "limit": CANDIDATES,
            "per_item": PASSAGES_AN_ITEM,
            "embedding": None if vector is None else HalfVector(list(vector.values)),
            "embedding_model": "" if vector is None else vector.model,
        }
        counts = _COUNTS_WITHIN if scope.is_narrow else _COUNTS
        statements = [Statement(_QUERIES[name], params) for name in counts]
        is_approximate = vector is not None and not is_filtered and await self._is_approximate(user_id, vector)
        if vector is not None:
            statements += self._by_meaning(vector, is_filtered, params, is_approximate)
        statistics, frequencies, *rest = await self._database.read(user_id, *statements)
        by_meaning = rest[-1] if rest else []
        if is_approximate:
            self._ann_quality.note(user_id, params, by_meaning)
            is_complete = len(by_meaning) >= CANDIDATES
            by_meaning = _few_of_each(by_meaning)
            if not is_complete:  # the index gave up: most of what is near is other users'
                statement = Statement(_QUERIES["rank_by_embedding_exact"], params)
                (by_meaning,) = await self._database.read(user_id, statement)
        known = {row["term"]: row["document_frequency"] for row in frequencies}
        self._remember(user_id, statistics[0]["chunk_count"] if statistics else 0)
        passages: int = statistics[0]["known_count"] if statistics else 0
        profile = QueryProfile(passages=passages, frequencies={term: known.get(term, 0) for term in terms})
        if not statistics:
            return [], profile
        params["chunk_count"] = passages
        name = "rank_by_terms_filtered" if is_filtered else "rank_by_terms"
        ranking = Statement(_QUERIES[name], {**params, **_of_terms(_rarest(known))})
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
        """Return passages and their neighbours with both scores, which count all terms.

        With criteria, of other items only those that meet them: whether a neighbour does was not asked.
        """
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
            Statement(_QUERIES["select_scores_by_terms"], {**params, **_of_terms(known), **items}),
            _of_places("select_scores_by_embedding", pool, params),
        )
        by_place = {(row["content_id"], row["chunk_number"]): row["score"] for row in lexical}
        return [_candidate(row, by_place, beside) for row in semantic]

    async def stop(self) -> None:
        """End what runs beside the searches of this event loop."""
        await self._ann_quality.stop()

    async def passages(
        self, user_id: str, places: Sequence[PassagePlace], criteria: MemoryCriteria, scope: ReadScope
    ) -> dict[PassagePlace, StoredPassage]:
        """Return passages by their places, each with an item that meets criteria; those of none are left out."""
        if not places:
            return {}
        params = {"user_id": user_id, **await self._filter_params(user_id, criteria, scope)}
        (rows,) = await self._database.read(user_id, _of_places("select_passages", places, params))
        return {
            (row["content_id"], row["chunk_number"]): StoredPassage(
                item_from_row(row),
                row["text"],
                row["start_char"],
                row["end_char"],
                row["start_line"],
                row["end_line"],
            )
            for row in rows
            if is_as_stored(stored_form(row["text"]), row)
        }

    async def unindexed(
        self,
        user_id: str,
        criteria: MemoryCriteria,
        limit: int,
        words: Sequence[str],
        written: Sequence[str],
        scope: ReadScope,
    ) -> list[StoredPassage]:
        """Return passages of the newest items that are not indexed yet, those named by one of the words first.

        Of each its beginning, and what stands around the first place of every word that is farther behind.

        Args:
            user_id: Whose items.
            criteria: Which items count.
            limit: How many items at most.
            words: Terms to look for, in names and contents.
            written: Words to look for in contents as they are written.
            scope: Who reads, and how far.
        """
        sought = [word for word in dict.fromkeys((*written, *words)) if len(word) >= _SHORTEST_WORD]
        params = {
            **await self._filter_params(user_id, criteria, scope),
            "user_id": user_id,
            "characters_limit": _UNINDEXED_CHARACTERS,
            "bytes_limit": _UNINDEXED_BYTES,
            "characters_before": _BEFORE_A_WORD,
            "written": sought,
            "folded": [word.casefold() for word in sought],
            "patterns": ["%" + _LIKE_SIGNS.sub(r"\\\g<0>", word) + "%" for word in words if word],
            "limit": limit,
        }
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["select_unindexed"], params))
        return [_unindexed(row) for row in rows if is_as_stored(_shown(row), row)]

    async def _filter_params(self, user_id: str, criteria: MemoryCriteria, scope: ReadScope) -> dict[str, Any]:
        related = await related_keys(self._database, user_id, criteria, scope)
        return {**criteria_params(criteria, related), **scope_params(scope)}

    async def _is_approximate(self, user_id: str, vector: QueryVector) -> bool:
        """Whether the user has so many passages that comparing the query with all of them takes too long."""
        if len(vector.values) > NEAREST_DIMENSIONS_LIMIT:
            return False
        if user_id not in self._passage_counts:  # the first search: later ones learn it on their way
            params = {"user_id": user_id, **scope_params(ReadScope())}
            statement = Statement(_QUERIES["fetch_statistics"], params)
            (rows,) = await self._database.read(user_id, statement)
            self._remember(user_id, rows[0]["chunk_count"] if rows else 0)
        return self._passage_counts.get(user_id, 0) > EXACT_UP_TO_PASSAGES

    @staticmethod
    def _by_meaning(
        vector: QueryVector, is_filtered: bool, params: dict[str, Any], is_approximate: bool
    ) -> list[Statement]:
        if is_approximate:
            scope = Statement(_QUERIES["set_nearest_scope"], {"ef_search": EF_SEARCH})
            nearest = nearest_statement(vector.model, len(vector.values))
            return [scope, Statement(nearest, {**params, "limit": NEAREST})]
        name = "rank_by_embedding_filtered" if is_filtered else "rank_by_embedding_exact"
        return [Statement(_QUERIES[name], params)]

    def _remember(self, user_id: str, passages: int) -> None:
        self._passage_counts.pop(user_id, None)
        self._passage_counts[user_id] = passages
        while len(self._passage_counts) > _USERS_REMEMBERED:
            self._passage_counts.popitem(last=False)


async def related_keys(database: Database, user_id: str, criteria: MemoryCriteria, scope: ReadScope) -> list[str]:
    """Return what the item of `criteria.related_to` was linked to, as the statements that filter take it."""
    if criteria.related_to is None:
        return []
    params = {"user_id": user_id, "memory_key": criteria.related_to, **scope_params(scope)}
    (rows,) = await database.read(user_id, Statement(_QUERIES["select_related_keys"], params))
    return [row["memory_key"] for row in rows]


def nearest_statement(model: str, dimensions: int) -> bytes:
    """Return the statement that a model's index serves: the planner must see the model and its dimensions."""
    literal = "'" + model.replace("'", "''").replace("%", "%%") + "'"
    return (
        _QUERIES["rank_by_embedding_nearest"]
        .replace(b"{dimensions}", str(dimensions).encode())
        .replace(b"{embedding_model}", literal.encode())
    )


def _rarest(known: dict[str, int]) -> dict[str, int]:
    """Return the terms that may find passages: the rarest, as many as can be read quickly. All of them score."""
    rarest: dict[str, int] = {}
    postings = 0
    for term, frequency in sorted(known.items(), key=lambda item: item[1]):
        postings += frequency
        if rarest and postings > POSTINGS_LIMIT:
            break
        rarest[term] = frequency
    return rarest


def _few_of_each(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the first passages of each item, in the order given."""
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
    return Statement(_QUERIES[name], {**params, **ids})


def _place(row: dict[str, Any], name: str) -> PassagePlace | None:
    content_id, number = row[f"{name}_id"], row[f"{name}_number"]
    return None if content_id is None or number is None else (content_id, number)  # no number: it is not indexed yet


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
    )


def _shown(row: dict[str, Any]) -> bytes:
    return (row["content"] or "").encode() if row["content_raw"] is None else bytes(row["content_raw"])


def _unindexed(row: dict[str, Any]) -> StoredPassage:
    text, start, line = content_of(row), row["start_char"], row["lines_before"] + 1
    if start:  # at the beginning of a line or word, if one is near
        cut = text.find("\n", 0, _BEFORE_A_WORD) + 1 or text.find(" ", 0, _BEFORE_A_WORD) + 1
        start, line, text = start + cut, line + text.count("\n", 0, cut), text[cut:]
    return StoredPassage(item_from_row(row), text, start, start + len(text), line, line + text.count("\n", 0, -1))
