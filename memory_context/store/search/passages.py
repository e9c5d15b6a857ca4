"""The reads of a search: candidates, neighbours, scores and texts."""

import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pgvector import HalfVector

from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.embeddings.embedder import embed_checked
from memory_context.foundation.errors import EmbeddingError
from memory_context.foundation.runtime.background import outages_of
from memory_context.foundation.text.tokenize import pointing_terms

from ..codec import stored_form
from ..database import Database
from ..items import (
    ANYBODY,
    MemoryCriteria,
    MemoryItem,
    ReadScope,
    content_of,
    criteria_params,
    is_as_stored,
    item_from_row,
    scope_params,
)
from ..sql import Statement, expanded, load_queries
from .indexer import AnnQualityCheck, Indexer, model_of
from .rank import EMPHASIS, Candidate, PassagePlace, QueryProfile

__all__ = ["PassageSearch", "QueryVector", "StoredPassage"]

_QUERIES = load_queries("search")

_NOT_HIDDEN = ("{not_hidden_contents()}", "{not_hidden_items()}")
_READABLE = ("{readable_contents()}", "{readable_items()}")
_WITHIN_REACH = ("{known_within_reach()}", "{reachable_contents()}", "{reachable_items()}")
_REACHES = {  # what is found is readable, contents and items; what is counted
    "user": ("", *_NOT_HIDDEN, "{known_without_hidden()}", *_NOT_HIDDEN),
    "filtered": ("{readable()}, ", *_READABLE, "{known_without_hidden()}", *_NOT_HIDDEN),
    "narrow": ("{readable()}, {within_reach()}, ", *_READABLE, *_WITHIN_REACH),
}
_REACH_WORDS = ("readable", "contents", "items", "known_count", "known_contents", "known_items")
CANDIDATES = 30  # for ten hits; twice as many found no more
CANDIDATES_A_HIT = 3
PASSAGES_AN_ITEM = 8  # so that a long log does not crowd out other items
NEAREST = 200
LARGE_MEMORY_PASSAGES = 20_000  # its nearest passages are sought by a statement of their own
EXACT_UP_TO_NUMBERS = 100_000 * 256  # of the user's embeddings; above, by the index
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
        return (await self.survey(user_id, query, terms, criteria, scope=scope))[1:]

    async def survey(
        self,
        user_id: str,
        query: str,
        terms: Sequence[str],
        criteria: MemoryCriteria,
        *,
        scope: ReadScope = ANYBODY,
        hits: int = 1,
    ) -> tuple[list[int], list[Candidate], QueryProfile]:
        """Return the ids of unindexed items, and `candidates` for so many hits, in one round trip."""
        vector, emphasised = await self.embed_query(query), pointing_terms(query)
        params: dict[str, Any] = {
            **await self._filter_params(user_id, criteria, scope),
            "terms": list(terms),
            "emphases": _numbers(EMPHASIS if term in emphasised else 1.0 for term in terms),
            "postings_limit": POSTINGS_LIMIT,
            "limit": max(CANDIDATES, min(CANDIDATES_A_HIT * hits, NEAREST)),
            "nearest": NEAREST,
            "per_item": PASSAGES_AN_ITEM,
            "embedding": None if vector is None else HalfVector(list(vector.values)),
            "embedding_model": "" if vector is None else vector.model,
        }
        reach = "narrow" if scope.is_narrow else "filtered" if criteria.is_filter else "user"
        given = None
        if vector is not None and reach == "user" and await self._count_passages(user_id) > LARGE_MEMORY_PASSAGES:
            given = await self._nearest_of_many(user_id, params, vector)
        ranking = ranking_statement("select_candidates", reach, is_given=given is not None)
        pending, rows = await self._database.read(  # this order finds items indexed in between twice, not never
            user_id,
            _QUERIES("select_pending")._replace(keeps_plan=True),
            Statement(ranking, {**params, **(given or {})}, keeps_plan=reach == "user"),
        )
        nothing: dict[str, Any] = {"known_count": 0, "frequencies": None, "mean": None, "deviation": None}
        first = rows[0] if rows else nothing
        if reach == "user":
            self._remember(user_id, first["known_count"])
        profile = QueryProfile(
            passages=first["known_count"],
            frequencies=dict(zip(terms, first["frequencies"] or [0] * len(terms), strict=True)),
            emphasised=emphasised,
            mean=first["mean"] or 0.0,
            deviation=first["deviation"] or 0.0,
        )
        found = [_candidate(row, terms) for row in rows if row["content_id"] is not None]
        return [row["id"] for row in pending], found, profile

    async def _nearest_of_many(
        self, user_id: str, params: dict[str, Any], vector: QueryVector
    ) -> dict[str, Any] | None:
        """Return the nearest passages and the spread; None if the index finds other users' passages."""
        numbers = await self._count_passages(user_id) * len(vector.values)
        by_index = numbers > EXACT_UP_TO_NUMBERS and len(vector.values) <= NEAREST_DIMENSIONS_LIMIT
        _, (spread,), nearest = await self._database.read(
            user_id, *nearest_statements(vector, params, by_index=by_index)
        )
        if by_index:
            self._ann_quality.note(user_id, params, nearest)
            if len(nearest) < NEAREST:
                return None
        places = _of_places([(row["content_id"], row["chunk_number"]) for row in nearest])
        return {**spread, **places, "scores": _numbers(row["score"] for row in nearest)}

    async def stop(self) -> None:
        await self._ann_quality.stop()

    async def passages(
        self, user_id: str, places: Sequence[PassagePlace], criteria: MemoryCriteria, *, scope: ReadScope = ANYBODY
    ) -> dict[PassagePlace, StoredPassage]:
        """Return passages by place, each with its newest matching item."""
        if not places:
            return {}
        params = {**await self._filter_params(user_id, criteria, scope), **_of_places(places)}
        names = ("select_passages", "select_items_of_contents")
        statements = [_QUERIES(name, params)._replace(keeps_plan=True) for name in names]
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
        pending: Sequence[int] | None = None,
    ) -> list[StoredPassage]:
        """Return beginnings of the newest unindexed items, or surroundings of matches; items named by `words` first.

        `pending` has the ids of unindexed items if they are known.
        """
        if pending is None:
            pending = [row["id"] for row in (await self._database.read(user_id, _QUERIES("select_pending")))[0]]
        if not pending:
            return []
        sought = [word for word in dict.fromkeys((*written, *words)) if len(word) >= _SHORTEST_WORD]
        (rows,) = await self._database.read(
            user_id,
            _QUERIES(
                "select_unindexed",
                await self._filter_params(user_id, criteria, scope),
                memory_ids=_numbers(pending),
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

    async def _count_passages(self, user_id: str) -> int:
        if user_id not in self._passage_counts:  # the first search
            (rows,) = await self._database.read(user_id, _QUERIES("fetch_passage_count"))
            self._remember(user_id, rows[0]["chunk_count"] if rows else 0)
        return self._passage_counts.get(user_id, 0)

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
def ranking_statement(name: str, reach: str, *, is_given: bool = False) -> bytes:
    """Return a ranking statement for one of `_REACHES`; `is_given`: the nearest passages are parameters."""
    nearest = expanded("{nearest_given()}" if is_given else "{nearest_of_all()}")
    text = _QUERIES[name].decode().replace("{nearest}", nearest)
    for word, fragment in zip(_REACH_WORDS, _REACHES[reach], strict=True):
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


def nearest_statements(vector: QueryVector, params: dict[str, Any], *, by_index: bool) -> list[Statement]:
    """Return what reads the spread and the nearest passages of a large memory, by the model's index or exactly."""
    scope = _QUERIES("set_nearest_scope", ef_search=EF_SEARCH)
    spread = _QUERIES("fetch_spread", params)._replace(keeps_plan=True)
    if not by_index:
        return [scope, spread, _QUERIES("rank_by_embedding_exactly", params)._replace(keeps_plan=True)]
    nearest = Statement(nearest_statement(vector.model, len(vector.values)), params, keeps_plan=True)
    return [scope, spread, nearest]


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
        occurrences=_named(terms, row["names"] or ()) | _counted(terms, row["occurrences"] or ()),
        semantic=row["score"],
        length=row["length"],
        before=_place(row, "before"),
        after=_place(row, "after"),
        session=row["session_id"],
        content_bytes=row["content_bytes"] or 0,
        unused_days=row["unused_days"] or 0.0,
    )


def _named(terms: Sequence[str], numbers: Sequence[int]) -> dict[str, int]:
    return dict.fromkeys((terms[number - 1] for number in numbers), 1)


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
