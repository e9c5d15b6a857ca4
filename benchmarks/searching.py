"""What a search costs, and what its approximate ranking misses, as memories grow.

    python -m benchmarks.searching [--passages 1000,10000,100000 | --crowd 200000] [--rounds N] [--json FILE]

One database holds so many passages: 200 of a user with few, the rest of a user with many. Their searches (the query's
embedding, all reads, the ranking, ten hits) are timed by turns with raw pgvector: the ten nearest of the same table by
its HNSW index, nobody's in particular, the query's vector at hand. Recall is how many of the ten nearest passages of
the user, all of them compared, the ranking by meaning has. A crowd is one user with half of the passages, at most
100,000, users of 1,000, and one of 1,000 who came after the last ANALYZE, so that the planner has no statistics of
them.
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
from time import process_time
from typing import Any

from pgvector import HalfVector
from psycopg import AsyncConnection, sql

from benchmarks.comparing import compare, timed
from benchmarks.passages import ITEM_PASSAGES, Copy, Filler, new_content
from benchmarks.scratch import processor_seconds, scratch_store
from benchmarks.tables import print_table
from memory_context import AgentMemory, MemoryStore
from memory_context.foundation.embeddings.embedder import embed_checked
from memory_context.foundation.embeddings.wordllama import WordLlamaEmbedder
from memory_context.store.items import ReadScope, scope_params
from memory_context.store.search import passages as store_search
from memory_context.store.search.indexer import model_of
from memory_context.store.search.passages import QueryVector
from memory_context.store.sql import Statement, load_queries

__all__ = [
    "SIZES",
    "SearchCost",
    "main",
    "measure_crowd",
    "measure_searching",
    "print_costs",
    "query_from",
]

SIZES = (1_000, 10_000, 100_000)
FEW = 200
DEPTH = 10
RECALL_QUERIES = 40
_QUERY_WORDS = 8

CROWD_USER = 1_000
MOST_OWN = 100_000
_UNIQUE = 20_000
"""Passages of a crowd that are made; the others are copies with vectors of their own."""

_RAW_SEARCH = """SELECT content_id, chunk_number FROM memory_context.agent_memory_embeddings
WHERE embedding_model = {} ORDER BY embedding::halfvec(256) <=> {}::halfvec(256) LIMIT 10"""


@dataclass(frozen=True)
class SearchCost:
    """What searches of one user cost.

    Attributes:
        passages: Passages in the database.
        user: "few", "many", or "new" without statistics.
        own_passages: Passages of the user.
        ratio: Median time of a search by that of raw pgvector.
        detail: The medians.
        p95_ms: Of a search.
        client_ms: Processor time of this process for a search.
        server_ms: The same of the server.
        recall: Of the ranking by meaning as it is, against comparing all of the user's passages.
        index_recall: Of the ranking by the index of embeddings, whether the search would use it or not.
        raw_recall: Of raw pgvector with its default settings, against comparing the passages of all users.
        path: How the ranking by meaning is made.
    """

    passages: int
    user: str
    own_passages: int
    ratio: float
    detail: str
    p95_ms: float
    client_ms: float
    server_ms: float
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
        filler = Filler(connection)
        for size in sizes:
            await filler.drop_index()
            for user, own in _users(size):
                await filler.fill(user, own)
            await filler.make_index()
            for user, own in _users(size):
                costs.append(await _measure_user(store, url, connection, size, user, own, rounds))
            print(f"{size:,} passages: done", flush=True)
    return costs


async def measure_crowd(passages: int, rounds: int) -> list[SearchCost]:
    """Measure a user with half of so many passages, at most 100,000, one of many with 1,000, and a new one."""
    async with scratch_store() as (store, url), _superuser(url) as connection:
        own = await fill_crowd(connection, passages)
        print(f"{passages:,} passages: done", flush=True)
        users = (("few1", CROWD_USER), ("new", CROWD_USER), ("many", own))
        return [await _measure_user(store, url, connection, passages, user, own, rounds) for user, own in users]


async def fill_crowd(connection: AsyncConnection[Any], passages: int) -> int:
    """Fill an empty database; return how many passages the user with many has."""
    own = min(passages // 2, MOST_OWN)
    filler, source = Filler(connection), min(_UNIQUE, own)
    await filler.drop_index()
    await filler.fill("many", source)
    again = [Copy("many", 1, source // ITEM_PASSAGES)] * (own // source - 1)
    firsts = (1 + number * 37 % (source // 20) for number in range((passages - own) // CROWD_USER))
    others = [Copy(f"few{number}", first, CROWD_USER // ITEM_PASSAGES) for number, first in enumerate(firsts)]
    await filler.copy("many", [*again, *others])
    await filler.make_index()
    await filler.copy("many", [Copy("new", 1, CROWD_USER // ITEM_PASSAGES)])
    return own


def _users(size: int) -> list[tuple[str, int]]:
    return [("few", FEW), ("many", size - FEW)]


@asynccontextmanager
async def _superuser(url: str) -> AsyncIterator[AsyncConnection[Any]]:
    async with await AsyncConnection.connect(url, autocommit=True, prepare_threshold=None) as connection:
        yield connection


async def _measure_user(
    store: MemoryStore, url: str, connection: AsyncConnection[Any], size: int, user: str, own: int, rounds: int
) -> SearchCost:
    rng = random.Random(21)
    memory = AgentMemory(store, user)
    embedder = WordLlamaEmbedder()

    async def search() -> float:
        return await timed(memory.search(query_from(rng), limit=DEPTH))

    async def raw() -> float:
        vector = await _vector(embedder, query_from(rng))
        return await timed(_fetch(connection, vector))

    compared = await compare("search", search, raw, rounds)
    both, own_before = processor_seconds(url), process_time()
    walls = sorted([await search() for _ in range(rounds)])
    client = process_time() - own_before
    server = processor_seconds(url) - both - client
    is_approximate = (await store.search._size(user, model_of(embedder))).is_for_index
    index_recall, raw_recall = await _recalls(store, connection, user, embedder)
    return SearchCost(
        size,
        user,
        own,
        compared.value,
        compared.detail,
        1000 * walls[int(0.95 * rounds)],
        1000 * client / rounds,
        1000 * server / rounds,
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
        found = set(await _fetch(connection, vector))
        await connection.execute("SET enable_indexscan = off")
        raws.append(len(found & set(await _fetch(connection, vector))) / DEPTH)
        await connection.execute("RESET enable_indexscan")
    return fmean(ours), fmean(raws)


async def _by_meaning(
    store: MemoryStore, user: str, vector: QueryVector, is_approximate: bool
) -> list[tuple[int, int]]:
    """Return the ranking by meaning, made as the search makes it on either path."""
    params = {
        "user_id": user,
        "nearest": store_search.NEAREST,
        "embedding": HalfVector(list(vector.values)),
        "embedding_model": vector.model,
        **scope_params(ReadScope()),
    }
    model = f"'{vector.model}'"
    distance = f"embedding::halfvec({len(vector.values)}) <=> %(embedding)s::halfvec({len(vector.values)})"
    nearest = f"""SELECT content_id, chunk_number FROM memory_context.agent_memory_embeddings
        WHERE user_id = %(user_id)s AND embedding_model = {model}
        ORDER BY {distance if is_approximate else "embedding <=> %(embedding)s::halfvec"} LIMIT %(nearest)s"""
    scope = load_queries("search")("set_nearest_scope", ef_search=store_search.EF_SEARCH)
    statement = Statement(nearest.encode(), params)
    rows = (await store._database.read(user, *([scope, statement] if is_approximate else [statement])))[-1]
    return [(row["content_id"], row["chunk_number"]) for row in rows]


async def _vector(embedder: WordLlamaEmbedder, query: str) -> QueryVector:
    (vector,) = await embed_checked(embedder, [query], "query")
    assert vector is not None
    return QueryVector(model_of(embedder), vector)


async def _fetch(connection: AsyncConnection[Any], vector: QueryVector) -> list[Any]:
    literal = HalfVector(list(vector.values)).to_text()
    query = sql.SQL(_RAW_SEARCH).format(sql.Literal(vector.model), sql.Literal(literal))
    return await (await connection.execute(query)).fetchall()


# --- the terminal ------------------------------------------------------------------------------------------------


def print_costs(costs: Sequence[SearchCost]) -> None:
    """Print a line for each size and user."""
    print_table(
        "search / raw pgvector, and recall@10 of the ranking by meaning",
        [
            "passages",
            "user",
            "has",
            "by",
            "ratio",
            "search / raw",
            "p95",
            "client",
            "server",
            "recall",
            "recall of the index",
            "raw recall",
        ],
        [
            [
                f"{one.passages:,}",
                one.user,
                f"{one.own_passages:,}",
                one.path,
                f"{one.ratio:.2f}",
                one.detail,
                *(f"{value:.1f} ms" for value in (one.p95_ms, one.client_ms, one.server_ms)),
                *(f"{value:.3f}" for value in (one.recall, one.index_recall, one.raw_recall)),
            ]
            for one in costs
        ],
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.searching", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--passages", default=",".join(map(str, SIZES)), help="sizes, rising, with commas between")
    parser.add_argument("--crowd", type=int, help="passages of many users instead, at least 4,000")
    parser.add_argument("--rounds", type=int, default=40, help="times each pair is measured (default 40)")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    given = parser.parse_args(arguments)
    sizes = [int(size) for size in given.passages.split(",")]
    measured = measure_crowd(given.crowd, given.rounds) if given.crowd else measure_searching(sizes, given.rounds)
    costs = asyncio.run(measured)
    print_costs(costs)
    if given.json:
        given.json.write_text(json.dumps([asdict(cost) for cost in costs], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
