"""What a search costs, and what its approximate ranking misses, as memories grow.

    python -m benchmarks.searching [--passages 1000,10000,100000] [--rounds N] [--json FILE]

One database holds so many passages: 200 of a user with few, the rest of a user with many. Their searches (the query's
embedding, all reads, the ranking, ten hits) are timed by turns with raw pgvector: the ten nearest of a plain table of
the same vectors by its HNSW index, nobody's in particular, the query's vector at hand. Recall is how many of the ten
nearest passages of the user, all of them compared, the ranking by meaning has.
"""

import argparse
import asyncio
import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from pgvector import HalfVector
from psycopg import AsyncConnection

from benchmarks.comparing import compare, timed
from benchmarks.passages import Filler, new_content
from benchmarks.scratch import scratch_store
from benchmarks.tables import print_table
from memory_context import AgentMemory, MemoryStore
from memory_context.embeddings import WordLlamaEmbedder, embed_checked
from memory_context.store import ReadScope
from memory_context.store.items import scope_params
from memory_context.store.search import passages as store_search
from memory_context.store.search.indexer import model_of
from memory_context.store.search.passages import QueryVector, Statement

__all__ = ["SIZES", "SearchCost", "main", "measure_searching", "print_costs", "query_from"]

SIZES = (1_000, 10_000, 100_000)
FEW = 200
DEPTH = 10
RECALL_QUERIES = 40
_QUERY_WORDS = 8

_RAW_TABLE = "CREATE TABLE public.raw_vectors (id bigint GENERATED ALWAYS AS IDENTITY, embedding halfvec(256) NOT NULL)"
_RAW_FILL = "INSERT INTO public.raw_vectors (embedding) SELECT embedding FROM memory_context.agent_memory_embeddings"
_RAW_INDEX = "CREATE INDEX raw_vectors_nearest ON public.raw_vectors USING hnsw (embedding halfvec_cosine_ops)"
_RAW_SEARCH = "SELECT id, embedding <=> %s::halfvec AS distance FROM public.raw_vectors ORDER BY distance LIMIT 10"


@dataclass(frozen=True)
class SearchCost:
    """What searches of one user cost.

    Attributes:
        passages: Passages in the database.
        user: "few" or "many".
        own_passages: Passages of the user.
        ratio: Median time of a search by that of raw pgvector.
        detail: The medians.
        recall: Of the ranking by meaning as it is, against comparing all of the user's passages.
        index_recall: Of the ranking by the index of embeddings, whether the search would use it or not.
        raw_recall: Of raw pgvector with its default settings, against comparing all passages.
        path: How the ranking by meaning is made.
    """

    passages: int
    user: str
    own_passages: int
    ratio: float
    detail: str
    recall: float
    index_recall: float
    raw_recall: float
    path: str


def query_from(rng: random.Random) -> str:
    """Return some words that stand together somewhere in the standard library's source."""
    words = new_content(rng, 1).split()
    start = rng.randrange(max(len(words) - _QUERY_WORDS, 1))
    return " ".join(words[start : start + _QUERY_WORDS])


async def measure_searching(sizes: Sequence[int], rounds: int) -> list[SearchCost]:
    """Measure one size after the other in a scratch database that grows."""
    costs: list[SearchCost] = []
    async with scratch_store() as (store, url), _superuser(url) as connection:
        await connection.execute(_RAW_TABLE)
        filler = Filler(connection)
        for size in sizes:
            await filler.drop_index()
            for user, own in _users(size):
                await filler.fill(user, own)
            await filler.make_index()
            await connection.execute("DROP INDEX IF EXISTS raw_vectors_nearest")
            await connection.execute("TRUNCATE raw_vectors")
            await connection.execute(_RAW_FILL)
            await connection.execute(_RAW_INDEX)
            await connection.execute("VACUUM ANALYZE public.raw_vectors")
            for user, own in _users(size):
                costs.append(await _measure_user(store, connection, size, user, own, rounds))
            print(f"{size:,} passages: done", flush=True)
    return costs


def _users(size: int) -> list[tuple[str, int]]:
    return [("few", FEW), ("many", size - FEW)]


@asynccontextmanager
async def _superuser(url: str) -> AsyncIterator[AsyncConnection[Any]]:
    async with await AsyncConnection.connect(url, autocommit=True, prepare_threshold=None) as connection:
        yield connection


async def _measure_user(
    store: MemoryStore, connection: AsyncConnection[Any], size: int, user: str, own: int, rounds: int
) -> SearchCost:
    rng = random.Random(21)
    memory = AgentMemory(store, user)
    embedder = WordLlamaEmbedder()

    async def search() -> float:
        return await timed(memory.search(query_from(rng), limit=DEPTH))

    async def raw() -> float:
        vector = await _vector(embedder, query_from(rng))
        return await timed(_fetch(connection, HalfVector(list(vector.values)).to_text()))

    compared = await compare("search", search, raw, rounds)
    is_approximate = own > store_search.EXACT_UP_TO_PASSAGES
    index_recall, raw_recall = await _recalls(store, connection, user, embedder)
    return SearchCost(
        size,
        user,
        own,
        compared.value,
        compared.detail,
        index_recall if is_approximate else 1.0,
        index_recall,
        raw_recall,
        "index" if is_approximate else "exact",
    )


async def _recalls(
    store: MemoryStore, connection: AsyncConnection[Any], user: str, embedder: WordLlamaEmbedder
) -> tuple[float, float]:
    """Return how many of the nearest the package's ranking by the index has, and how many raw pgvector."""
    rng = random.Random(22)
    ours: list[float] = []
    raws: list[float] = []
    for _ in range(RECALL_QUERIES):
        vector = await _vector(embedder, query_from(rng))
        nearest, exact = [await _by_meaning(store, user, vector, approximate) for approximate in (True, False)]
        ours.append(len(set(nearest[:DEPTH]) & set(exact[:DEPTH])) / min(DEPTH, len(exact)))
        literal = HalfVector(list(vector.values)).to_text()
        found = {row[0] for row in await _fetch(connection, literal)}
        await connection.execute("SET enable_indexscan = off")
        raws.append(len(found & {row[0] for row in await _fetch(connection, literal)}) / DEPTH)
        await connection.execute("RESET enable_indexscan")
    return fmean(ours), fmean(raws)


async def _by_meaning(
    store: MemoryStore, user: str, vector: QueryVector, is_approximate: bool
) -> list[tuple[int, int]]:
    """Return the ranking by meaning, made as the search makes it on either path."""
    params = {
        "user_id": user,
        "limit": store_search.NEAREST,
        "per_item": store_search.PASSAGES_AN_ITEM,
        "embedding": HalfVector(list(vector.values)),
        "embedding_model": vector.model,
        **scope_params(ReadScope()),
    }
    exact = Statement(store_search.ranking_statement("rank_by_embedding", "user"), params)
    statements = store_search._nearest(vector, params) if is_approximate else [exact]
    rows = (await store._database.read(user, *statements))[-1]
    return [(row["content_id"], row["chunk_number"]) for row in rows]


async def _vector(embedder: WordLlamaEmbedder, query: str) -> QueryVector:
    (vector,) = await embed_checked(embedder, [query], "query")
    assert vector is not None
    return QueryVector(model_of(embedder), vector)


async def _fetch(connection: AsyncConnection[Any], vector: str) -> list[Any]:
    return await (await connection.execute(_RAW_SEARCH, [vector])).fetchall()


# --- the terminal ------------------------------------------------------------------------------------------------


def print_costs(costs: Sequence[SearchCost]) -> None:
    """Print a line for each size and user."""
    print_table(
        "search / raw pgvector, and recall@10 of the ranking by meaning",
        ["passages", "user has", "by", "ratio", "search / raw", "recall", "recall of the index", "raw recall"],
        [
            [
                f"{one.passages:,}",
                f"{one.own_passages:,}",
                one.path,
                f"{one.ratio:.2f}",
                one.detail,
                *(f"{value:.3f}" for value in (one.recall, one.index_recall, one.raw_recall)),
            ]
            for one in costs
        ],
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.searching", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--passages", default=",".join(map(str, SIZES)), help="sizes, rising, with commas between")
    parser.add_argument("--rounds", type=int, default=40, help="times each pair is measured (default 40)")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args(arguments)
    costs = asyncio.run(measure_searching([int(size) for size in given.passages.split(",")], given.rounds))
    print_costs(costs)
    if given.json:
        given.json.write_text(json.dumps([asdict(cost) for cost in costs], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
