"""The statement of a search: candidates with their scores, texts and items."""

import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from pgvector import HalfVector

from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.embeddings.embedder import embed_checked
from memory_context.foundation.embeddings.wordllama import WordLlamaEmbedder
from memory_context.foundation.errors import EmbeddingError
from memory_context.foundation.runtime.background import outages_of
from memory_context.foundation.text.tokenize import pointing_terms

from ..database import Database
from ..items import ANYBODY, MemoryCriteria, ReadScope, criteria_params, scope_params
from ..sql import Statement, expanded, load_queries
from .indexer import Indexer, model_of
from .postings import strings_literal
from .rank import EMPHASIS, Candidate, QueryProfile

__all__ = ["CANDIDATES", "PassageSearch", "QueryVector", "ranking_statement", "related_keys"]

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
CANDIDATES = 24
"""Items that are ranked, with their neighbours: more than twice as many found no more."""
NEAREST, NEAREST_OF_ALL = 60, 200
"""Passages nearest in meaning that the index finds, and a scan, which has compared all anyway."""
LEAST_BY_INDEX = 2_000
"""Passages from which an index of embeddings is asked, if they are ten times the root of all that it holds.

It visits some NEAREST times all / own of them, and a scan each own one, at about the same cost.
"""
NEAREST_DIMENSIONS_LIMIT = 4000  # pgvector's limit for halfvec indexes
EF_SEARCH = 100  # twice as many found no more of 9,000 functions
POSTINGS_LIMIT = 800  # 1,000 found no more of 9,000 functions, 600 found .013 less
SAMPLE = 100  # of the oldest embeddings and of the newest, which tell the spread of similarities
_EMBED_QUERY_SECONDS = 5.0
_INDEX_SECONDS = 0.5  # for what was stored just now
_LEFT_ALONE_SECONDS = 600.0
_SEARCHING = "searching by meaning"
_USERS_REMEMBERED = 1000


@dataclass(frozen=True)
class QueryVector:
    """A query's embedding, of unit length, and the stored name of its model."""

    model: str
    values: Sequence[float]


class _Size(NamedTuple):
    """Passages of a user, and embeddings in the index of the model; read again after `until` (monotonic)."""

    own: int
    indexed: float
    until: float = math.inf

    @property
    def is_for_index(self) -> bool:
        return self.own >= LEAST_BY_INDEX and self.own >= 10 * max(self.indexed, 0) ** 0.5


class PassageSearch:
    """Searches the passages of one database's users; a scope of `ANYBODY` reads all but private items."""

    def __init__(self, database: Database, indexer: Indexer) -> None:
        self._database = database
        self._indexer = indexer
        self._sizes = OrderedDict[tuple[str, str], _Size]()

    async def embed_query(self, query: str) -> QueryVector | None:
        """Return a query's embedding; None if the embedder fails, logged once per outage."""
        embedder, outages = self._indexer.embedder, outages_of(self._database)
        if embedder is None:
            return None
        # the default one keeps the query in this process, and the patterns of credentials take 50 ms to compile
        if self._indexer.masks_credentials and not isinstance(embedder, WordLlamaEmbedder):
            query = masked(query)
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
        limit: int = CANDIDATES,
    ) -> tuple[list[Candidate], QueryProfile]:
        """Return passages of so many items that could answer, neighbours of the first, and the query in this memory.

        Terms are distinct; they find alone if the embedder fails. Items stored just now are waited for, shortly.
        """
        vector, emphasised = await self.embed_query(query), pointing_terms(query)
        params: dict[str, Any] = {
            **criteria_params(criteria, await related_keys(self._database, user_id, criteria, scope)),
            **scope_params(scope),
            "terms": strings_literal(terms),  # the driver's lists take four times as long
            "emphases": strings_literal(str(EMPHASIS if term in emphasised else 1.0) for term in terms),
            "postings_limit": POSTINGS_LIMIT,
            "limit": limit,
            "with_neighbours": CANDIDATES,
            "nearest": NEAREST_OF_ALL,
            "embedding": None if vector is None else HalfVector(list(vector.values)),
            "embedding_model": "" if vector is None else vector.model,
        }
        reach = "narrow" if scope.is_narrow else "filtered" if criteria.is_filter else "user"
        rows = await self._by_index(user_id, params, vector) if vector is not None and reach == "user" else None
        if rows is None:
            text = ranking_statement("select_candidates", reach)
            rows = await self._read(user_id, Statement(text, params, reach == "user"))
            known = None if vector is None else self._sizes.get((user_id, vector.model))
            if vector is not None and known is not None and known.until == math.inf and reach == "user":
                self._sizes[user_id, vector.model] = known._replace(own=rows[0]["known_count"])
        first = rows[0]
        profile = QueryProfile(
            passages=first["known_count"],
            frequencies=dict(zip(terms, first["frequencies"] or (), strict=True)),
            emphasised=emphasised,
            mean=first["mean"] or 0.0,
            deviation=first["deviation"] or 0.0,
        )
        return [_candidate(row, terms) for row in rows if row["content_id"] is not None], profile

    async def _read(self, user_id: str, *statements: Statement) -> list[dict[str, Any]]:
        """Return the rows of the last statement, after indexing what waits for it, as far as it goes quickly."""
        rows = (await self._database.read(user_id, *statements))[-1]
        if rows[0]["is_pending"]:
            await self._indexer.catch_up(user_id, _INDEX_SECONDS)
            rows = (await self._database.read(user_id, *statements))[-1]
        return rows

    async def _by_index(self, user_id: str, params: dict[str, Any], vector: QueryVector) -> list[dict[str, Any]] | None:
        """Return the candidates of a large memory; None if it is small, or the index finds too few of the user's."""
        dimensions = len(vector.values)
        if dimensions > NEAREST_DIMENSIONS_LIMIT or not (size := await self._size(user_id, vector.model)).is_for_index:
            return None
        scope = _QUERIES("set_nearest_scope", ef_search=EF_SEARCH)._replace(keeps_plan=True)
        text = ranking_statement("select_candidates", "user", vector.model, dimensions)
        params = {**params, "nearest": NEAREST, "sample": SAMPLE}
        rows = await self._read(user_id, scope, Statement(text, params, True))
        known = rows[0]["known_count"]
        is_enough = rows[0]["nearest_count"] >= min(NEAREST, known)
        # where the index finds too few it is left alone for a while: embeddings may still be made
        left_alone = _Size(0, 0, time.monotonic() + _LEFT_ALONE_SECONDS)
        self._remember_size(user_id, vector.model, _Size(known, size.indexed) if is_enough else left_alone)
        return rows if is_enough else None

    async def _size(self, user_id: str, model: str) -> _Size:
        known = self._sizes.get((user_id, model))
        if known is None or known.until < time.monotonic():
            ((row,),) = await self._database.read(user_id, _QUERIES("fetch_size", embedding_model=model))
            self._remember_size(user_id, model, _Size(row["own"], row["indexed"]))
        return self._sizes[user_id, model]

    def _remember_size(self, user_id: str, model: str, size: _Size) -> None:
        self._sizes.pop((user_id, model), None)
        self._sizes[user_id, model] = size
        while len(self._sizes) > _USERS_REMEMBERED:
            self._sizes.popitem(last=False)


async def related_keys(database: Database, user_id: str, criteria: MemoryCriteria, scope: ReadScope) -> list[str]:
    """Return the keys linked to the item of `criteria.related_to`."""
    if criteria.related_to is None:
        return []
    (rows,) = await database.read(
        user_id, _QUERIES("select_related_keys", scope_params(scope), memory_key=criteria.related_to)
    )
    return [row["memory_key"] for row in rows]


@cache
def ranking_statement(name: str, reach: str, model: str = "", dimensions: int = 0) -> bytes:
    """Return a ranking statement for one of `_REACHES`; with a model by its index.

    The planner must see model and dimensions as literals to use the index.
    """
    nearest = expanded("{nearest_by_index()}" if model else "{nearest_of_all()}")
    text = _QUERIES[name].decode().replace("{nearest}", nearest)
    literal = "'" + model.replace("'", "''").replace("%", "%%") + "'"
    words = dict(zip(_REACH_WORDS, map(expanded, _REACHES[reach]), strict=True))
    for word, fragment in (words | {"dimensions": str(dimensions), "model": literal}).items():
        text = text.replace(f"{{{word}}}", fragment)
    return text.encode()


def _candidate(row: dict[str, Any], terms: Sequence[str]) -> Candidate:
    called: Sequence[int] = row["names"] or ()
    held: Sequence[int] = row["occurrences"] or ()
    occurrences = {terms[number - 1]: 1 for number in called}
    occurrences.update([(terms[(one >> 8) - 1], one & 255) for one in held])
    before, after = row["before_number"], row["after_id"]
    return Candidate(
        row["content_id"],
        row["chunk_number"],
        occurrences,
        row["score"],
        row["end_char"] - row["start_char"],
        None if before is None else (row["before_id"], before),
        None if after is None else (after, 0),
        row["session_id"],
        row["content_bytes"],
        row["standing"],
        row["others"] or (),
        row,
    )
