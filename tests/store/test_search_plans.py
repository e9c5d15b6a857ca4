"""Search in a large database: no statement reads other users' rows, and the approximate ranking is nearly exact."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg
import pytest

from memory_context.foundation.embeddings.embedder import Purpose
from memory_context.store.items import MemoryCriteria
from memory_context.store.memory_store import MemoryStore
from memory_context.store.sql import load_queries
from tests.conftest import Server
from tests.store import crowd
from tests.support.statements import ACROSS_USERS, BY_INDEX, OF_USERS, all_columns, login_of, params_of, statement_of

pytestmark = pytest.mark.thorough

OWN_ITEMS, SMALL_ITEMS, SMALL_USERS, CHUNKS = 3000, 70, 100, 5
ANY = MemoryCriteria()
BIG_TABLES = {
    "agent_memories", "agent_memory_contents", "agent_memory_chunks", "agent_memory_terms", "agent_memory_names",
     "agent_memory_embeddings", "jobs",
    "agent_memory_statistics", "memory_users", "agent_sessions", "recent_conversation_history",
}  # fmt: skip


class Pointing:
    """An embedder that answers with the vector a query spells out."""

    name = "crowd"
    dimensions = crowd.DIMENSIONS

    async def embed(self, texts: Sequence[str], purpose: Purpose) -> list[list[float]]:
        return [[float(number) for number in text.split()] for text in texts]


@pytest.fixture(scope="module")
def crowd_url(server: Server, template: str) -> Iterator[str]:
    """The superuser's address of a database of 50,000 passages, 15,000 of them one user's."""
    server.execute("CREATE DATABASE crowd TEMPLATE {template}", template=template)
    url = server.url("crowd")

    async def make_login() -> None:
        async with MemoryStore(url):
            pass

    asyncio.run(make_login())
    crowd.fill(url, {"big": (OWN_ITEMS, CHUNKS), **{f"user{n:03}": (SMALL_ITEMS, CHUNKS) for n in range(SMALL_USERS)}})
    yield url
    server.execute("DROP DATABASE crowd WITH (FORCE)")


def search_by(monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    module = "memory_context.store.search.passages"
    monkeypatch.setattr(f"{module}._Size.is_for_index", way == "the index")


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the nodes of a plan."""
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


def test_no_statement_reads_rows_of_other_users(server: Server, crowd_url: str) -> None:
    """Neither for a user with few rows nor for one with a third of all, for whom a scan of everything would be cheaper:
    each table is read by an index on the user; the model's index is used where it is meant."""
    with psycopg.connect(server.url("crowd", user=login_of("crowd")), autocommit=True) as connection:
        columns = all_columns(connection)
        for user in ("user050", "big"):
            ids = [
                row[0]
                for row in server.execute(
                    f"SELECT content_id FROM memory_context.agent_memories WHERE user_id = '{user}' LIMIT 60", "crowd"
                )
            ]
            named = ("name_memory_ids", "name_content_ids", "term_memory_ids", "term_content_ids")
            made = ("indexed_memory_ids", "indexed_content_ids", "chunk_memory_ids", "chunk_content_ids")
            given = ("memory_ids", "content_ids")
            own = {
                **dict.fromkeys((*given, *made, *named), ids), "user_id": user, "chunk_numbers": [2] * 60,
                "names": ["x"] * 60, "name_postings": [336] * 60, "chunk_counts": [1] * 60,
                "limit": 60, "texts": ["x"] * 60, "terms": ["w1", "w100"],
                "related_to": None, "types": ["custom"], "tags": None, "agent_id": None, "session_id": None,
            }  # fmt: skip
            for file, name in OF_USERS:
                if name in ("upsert_memories", "upsert_content") or name in ACROSS_USERS:
                    continue
                with connection.transaction(force_rollback=True):
                    connection.execute(load_queries("transactions")["act_as"], {"user_id": user, "agent_id": ""})
                    if name == BY_INDEX:
                        connection.execute(load_queries("search")["set_nearest_scope"], {"ef_search": 200})
                    is_search = file == "search"
                    explain = b"EXPLAIN (FORMAT JSON, ANALYZE, BUFFERS) " if is_search else b"EXPLAIN (FORMAT JSON) "
                    query = explain + statement_of(file, name, columns)
                    ((((answer,),),),) = [connection.execute(query, params_of(name, **own)).fetchall()]
                plan = answer["Plan"]
                for node in nodes(plan):
                    table = node.get("Relation Name")
                    if table in BIG_TABLES and node["Node Type"] != "ModifyTable":
                        # a Tid Scan reads the rows that another node of the plan, which is looked at too, has found
                        is_found = node["Node Type"] == "Tid Scan" and "TID Cond" in node
                        by_index = node["Node Type"] in ("Index Scan", "Index Only Scan", "Bitmap Heap Scan")
                        assert by_index or is_found, (name, plan)
                    is_of_model = "agent_memory_embeddings_" in node.get("Index Name", "") and name == BY_INDEX
                    if "Index Name" in node and not is_of_model and table != "pg_class":
                        # the one key that is unique without the user finds one row, not rows of others
                        key = "thread_id = " if node["Index Name"] == "ui_threads_owner" else "user_id = "
                        assert key in node.get("Index Cond", ""), (name, node)
                indexes = {node["Index Name"] for node in nodes(plan) if "Index Name" in node}
                if name == BY_INDEX:
                    assert any("embeddings_" in index and "pkey" not in index for index in indexes), plan
                elif is_search and user == "user050":
                    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 3500, (name, plan)


async def vectors_of(url: str, count: int) -> list[str]:
    """Return points of meaning, spelled out as `Pointing` reads them."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT embedding::text FROM memory_context.agent_memory_embeddings WHERE user_id = 'user000' LIMIT %s",
            [count],
        ).fetchall()
    return [row[0].strip("[]").replace(",", " ") for row in rows]


async def nearest(store: MemoryStore, user: str, query: str) -> list[tuple[int, int]]:
    """Return the 20 places nearest to a point, the nearest first."""
    candidates, _ = await store.search.candidates(user, query, [], ANY)
    best = sorted(candidates, key=lambda one: -(one.semantic or -1.0))[:20]
    return [(one.content_id, one.chunk_number) for one in best]


async def test_the_approximate_ranking_is_nearly_the_exact_one(crowd_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a third of all passages and for a handful."""
    queries = await vectors_of(crowd_url, 10)
    async with MemoryStore(crowd_url, Pointing()) as store:
        for user in ("big", "user050"):
            search_by(monkeypatch, "comparing all")
            exact = [await nearest(store, user, query) for query in queries]
            search_by(monkeypatch, "the index")
            found = [await nearest(store, user, query) for query in queries]
            hits = sum(len(set(one) & set(other)) for one, other in zip(exact, found, strict=True))
            assert hits >= 0.9 * 20 * len(queries), user


async def test_exact_ranking_stands_in_for_an_index_that_finds_too_little(
    server: Server, crowd_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where one user's passages are few among those of all."""
    search_by(monkeypatch, "the index")
    monkeypatch.setattr("memory_context.store.search.passages.EF_SEARCH", 1)
    server.execute("ALTER DATABASE crowd SET hnsw.max_scan_tuples = 1")
    try:
        (query,) = await vectors_of(crowd_url, 1)
        async with MemoryStore(crowd_url, Pointing()) as store:
            found = await nearest(store, "user050", query)
        search_by(monkeypatch, "comparing all")
        async with MemoryStore(crowd_url, Pointing()) as store:
            assert await nearest(store, "user050", query) == found
    finally:
        server.execute("ALTER DATABASE crowd RESET hnsw.max_scan_tuples")


async def test_two_users_searches_never_mix(server: Server, crowd_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By terms, by meaning, exactly, approximately and filtered: every passage found is the own one."""
    owner = dict(server.execute("SELECT id, user_id FROM memory_context.agent_memories", "crowd"))
    (query,) = await vectors_of(crowd_url, 1)
    async with MemoryStore(crowd_url, Pointing()) as store:
        for way in ("comparing all", "the index"):
            search_by(monkeypatch, way)
            for user in ("user001", "user050", "big"):
                for criteria in (ANY, MemoryCriteria(types=("custom",)), MemoryCriteria(tags=("t1",))):
                    candidates, profile = await store.search.candidates(user, query, ["w1", "w50"], criteria)
                    assert len(candidates) >= 25
                    assert {owner[one.content_id] for one in candidates} == {user}
                    assert profile.passages == CHUNKS * (OWN_ITEMS if user == "big" else SMALL_ITEMS)
