"""The reads of a search: candidates, neighbours, scores and texts."""

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import Any

from pgvector import HalfVector

from memory_context.credentials import masked
from memory_context.embeddings import EmbeddingError, embed_checked
from memory_context.outages import outages_of
from memory_context.text import pointing_terms, query_words

from ..codec import stored_form
from ..criteria import MemoryCriteria, criteria_params
from ..database import Database
from ..items import ANYBODY, MemoryItem, ReadScope, content_of, is_as_stored, item_from_row, scope_params
from ..sql import Statement, expanded, load_queries
from .indexer import AnnQualityCheck, Indexer, model_of
from .rank import Candidate, PassagePlace, QueryProfile

__all__ = ["PassageSearch", "QueryVector", "StoredPassage"]

_QUERIES = load_queries("search")

_REACHES = {  # prefix of a ranking; its contents and items
    "user": ("", "{not_hidden_contents()}", "{not_hidden_items()}"),
    "narrow": ("{within_reach()}, ", "{readable_contents()}", "{readable_items()}"),
    "filtered": ("{readable()}, ", "{readable_contents()}", "{readable_items()}"),
}
CANDIDATES = 60
PASSAGES_AN_ITEM = 8  # so that a long log does not crowd out other items
NEAREST = 200
EXACT_UP_TO_PASSAGES = 20_000  # compared in some 10 ms
NEAREST_DIMENSIONS_LIMIT = 4000  # pgvector's limit for halfvec indexes
EF_SEARCH = 400
POSTINGS_LIMIT = 5_000
_EMBED_QUERY_SECONDS = 5.0
_SEARCHING = "searching by meaning"
_USERS_REMEMBERED = 1000
_UNINDEXED_CHARACTERS = 2000
_UNINDEXED_BYTES = 8_000_000  # searched for words
_BEFORE_A_WORD = 500
_SHORTEST_WORD = 2

_Row = dict[str, Any]
_SPAN = "text", "start_char", "end_char", "start_line", "end_line"
_LIKE_SIGNS = re.compile(r"[\\%_]")


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
        """Return passages that could answer, with their neighbours, and what the query is in this memory.

        Terms are distinct; they find alone if the embedder fails.
        """
        _, candidates, profile = await self.found(user_id, query, terms, criteria, 0, scope=scope)
        return candidates, profile

    async def found(
        self,
        user_id: str,
        query: str,
        terms: Sequence[str],
        criteria: MemoryCriteria,
        unindexed_limit: int,
        *,
        scope: ReadScope = ANYBODY,
    ) -> tuple[list[StoredPassage], list[Candidate], QueryProfile]:
        """Return the passages of `unindexed`, and what `candidates` returns."""
        vector = await self.embed_query(query)
        params: dict[str, Any] = {
            **await self._filter_params(user_id, criteria, scope),
            "terms": list(terms),
            "limit": NEAREST,
            "per_item": PASSAGES_AN_ITEM,
            "embedding": None if vector is None else HalfVector(list(vector.values)),
            "embedding_model": "" if vector is None else vector.model,
        }
        reach = "filtered" if criteria.is_filter or scope.is_narrow else "user"
        # read first, what is indexed in between is found twice, not never
        fresh = _select_unindexed(params, terms, query_words(query), unindexed_limit)
        unindexed, counts, frequencies, nearest = await self._surveyed(user_id, params, vector, scope, reach, fresh)
        known = {row["term"]: row["document_frequency"] for row in frequencies}
        spread = nearest[0] if nearest else {}
        profile = QueryProfile(
            passages=counts["known_count"] if counts else 0,
            frequencies={term: known.get(term, 0) for term in terms},
            emphasised=pointing_terms(query),
            mean=spread.get("mean") or 0.0,
            deviation=spread.get("deviation") or 0.0,
        )
        if not counts:
            return _checked(unindexed), [], profile
        rarest = sorted(known, key=lambda term: (known[term], term))
        found = {
            **_of_places([(row["content_id"], row["chunk_number"]) for row in nearest]),
            "evidence": _numbers(profile.evidence(row["score"]) for row in nearest),
            "terms": rarest,
            "weights": _numbers(profile.weights[term] for term in rarest),
            "finding": _finding([known[term] for term in rarest]),
            "limit": CANDIDATES,
        }
        (rows,) = await self._database.read(
            user_id, Statement(ranking_statement("select_candidates", reach), {**params, **found})
        )
        return _checked(unindexed), [_candidate(row, rarest) for row in rows], profile

    async def _surveyed(
        self,
        user_id: str,
        params: dict[str, Any],
        vector: QueryVector | None,
        scope: ReadScope,
        reach: str,
        first: Statement,
    ) -> tuple[list[_Row], _Row | None, list[_Row], list[_Row]]:
        """Return rows of `first`, the number of passages, frequencies of terms, nearest passages with the spread."""
        counting = _QUERIES("fetch_statistics_within" if scope.is_narrow else "fetch_statistics", params)
        frequencies_of = ranking_statement("select_frequencies", "narrow" if scope.is_narrow else "user")
        by_meaning = Statement(ranking_statement("rank_by_embedding", reach), params)
        is_approximate = vector is not None and reach == "user" and await self._is_approximate(user_id, vector)
        statements = [first, counting, Statement(frequencies_of, params)]
        if vector is not None:
            statements += _nearest(vector, params) if is_approximate else [by_meaning]
        unindexed, statistics, frequencies, *rest = await self._database.read(user_id, *statements)
        nearest = rest[-1] if rest else []
        if is_approximate:
            self._ann_quality.note(user_id, params, nearest)
            if len(nearest) < NEAREST:  # most near passages are other users'
                (nearest,) = await self._database.read(user_id, by_meaning)
            else:
                nearest = [{**row, **rest[0][0]} for row in nearest]
        self._remember(user_id, statistics[0]["chunk_count"] if statistics else 0)
        return unindexed, statistics[0] if statistics else None, frequencies, nearest

    async def stop(self) -> None:
        await self._ann_quality.stop()

    async def passages(
        self, user_id: str, places: Sequence[PassagePlace], criteria: MemoryCriteria, *, scope: ReadScope = ANYBODY
    ) -> dict[PassagePlace, StoredPassage]:
        """Return passages by place, each with its newest matching item."""
        if not places:
            return {}
        params = {**await self._filter_params(user_id, criteria, scope), **_of_places(places)}
        statements = _QUERIES.each(("select_passages", "select_items_of_contents"), params)
        rows, items = await self._database.read(user_id, *statements)
        of_content = {row["content_id"]: item_from_row(row) for row in items}
        found = {
            (row["content_id"], row["chunk_number"]): StoredPassage(item, *(row[one] for one in _SPAN))
            for row in rows
            if (item := of_content.get(row["content_id"])) is not None
            and is_as_stored(stored_form(row["text"]), {**row, "memory_key": item.key})
        }
        return {place: found[place] for place in places if place in found}

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
        params = await self._filter_params(user_id, criteria, scope)
        (rows,) = await self._database.read(user_id, _select_unindexed(params, words, written, limit))
        return _checked(rows)

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
    spread = _QUERIES("fetch_spread", params)
    scope = _QUERIES("set_nearest_scope", ef_search=EF_SEARCH)
    return [spread, scope, Statement(nearest_statement(vector.model, len(vector.values)), params)]


def _finding(frequencies: Sequence[int]) -> int:
    """Return how many terms, the rarest first, find passages: together so many postings, but at least one term."""
    return max(sum(total <= POSTINGS_LIMIT for total in accumulate(frequencies)), 1)


def _select_unindexed(params: Mapping[str, Any], words: Sequence[str], written: Sequence[str], limit: int) -> Statement:
    sought = [word for word in dict.fromkeys((*written, *words)) if len(word) >= _SHORTEST_WORD]
    return _QUERIES(
        "select_unindexed",
        {
            **params,
            "characters_limit": _UNINDEXED_CHARACTERS,
            "bytes_limit": _UNINDEXED_BYTES,
            "characters_before": _BEFORE_A_WORD,
            "written": sought,
            "folded": [word.casefold() for word in sought],
            "patterns": ["%" + _LIKE_SIGNS.sub(r"\\\g<0>", word) + "%" for word in words if word],
            "limit": limit,
        },
    )


def _checked(rows: Sequence[_Row]) -> list[StoredPassage]:
    return [_unindexed(row) for row in rows if is_as_stored(_shown(row), row)]


def _of_places(places: Sequence[PassagePlace]) -> dict[str, Any]:
    content_ids, numbers = (_numbers(place[at] for place in places) for at in (0, 1))
    return {"content_ids": content_ids, "chunk_numbers": numbers}


def _numbers(values: Iterable[float]) -> str:
    """Return an array literal: the driver's lists take four times as long."""
    return "{" + ",".join(map(repr, values)) + "}"


def _place(row: dict[str, Any], name: str) -> PassagePlace | None:
    content_id, number = row[f"{name}_id"], row[f"{name}_number"]
    return None if content_id is None or number is None else (content_id, number)  # no number: unindexed


def _candidate(row: dict[str, Any], terms: Sequence[str]) -> Candidate:
    return Candidate(
        content_id=row["content_id"],
        chunk_number=row["chunk_number"],
        occurrences=_counted(terms, row["occurrences"] or ()),
        semantic=row["score"],
        length=row["length"],
        before=_place(row, "before"),
        after=_place(row, "after"),
        session=row["session_id"],
        content_bytes=row["content_bytes"] or 0,
        unused_days=row["unused_days"] or 0.0,
    )


def _counted(terms: Sequence[str], occurrences: Sequence[int]) -> dict[str, int]:
    return {terms[(one >> 8) - 1]: one & 255 for one in occurrences}


def _shown(row: dict[str, Any]) -> bytes:
    return (row["content"] or "").encode() if row["content_raw"] is None else bytes(row["content_raw"])


def _unindexed(row: dict[str, Any]) -> StoredPassage:
    text, start, line = content_of(row), row["start_char"], row["lines_before"] + 1
    if start:  # begin with a near line or word
        cut = text.find("\n", 0, _BEFORE_A_WORD) + 1 or text.find(" ", 0, _BEFORE_A_WORD) + 1
        start, line, text = start + cut, line + text.count("\n", 0, cut), text[cut:]
    return StoredPassage(item_from_row(row), text, start, start + len(text), line, line + text.count("\n", 0, -1))
