"""The SQL files: every block is said to be for something, is used, and is served by an index as the pool's login."""

import hashlib
import re
from pathlib import Path

import psycopg
import pytest
from psycopg.types.json import Jsonb

from memory_context.store import MemoryStore
from memory_context.store.sqlfiles import load_queries
from tests.conftest import REPOSITORY, Server, database_of

FILES = sorted((REPOSITORY / "sql" / "queries").glob("*.sql"))
BLOCKS = [(path.stem, name) for path in FILES for name in load_queries(path.stem)]
PARAMS = {
    "user_id": "alice",
    "memory_key": "k",
    "agent_id": "coder",
    "session_id": "s",
    "memory_type": "custom",
    "source": "",
    "summary": "",
    "content": "c",
    "content_raw": None,
    "content_bytes": 1,
    "token_count": 1,
    "content_sha256": hashlib.sha256(b"c").digest(),
    "tags": [],
    "metadata": Jsonb({}),
    "memory_keys": ["k"],
    "limit": 5,
}


@pytest.mark.parametrize(("file", "name"), BLOCKS)
def test_every_block_is_explained_and_used(file: str, name: str) -> None:
    """A comment follows its name, and the store's code names it."""
    text = (REPOSITORY / "sql" / "queries" / f"{file}.sql").read_text()
    assert re.search(rf"^-- name: {name} :(one|many|exec)\n-- \w.*[.:]", text, re.MULTILINE)
    code = "".join(path.read_text() for path in Path(REPOSITORY, "memory_context", "store").glob("*.py"))
    assert f'"{name}"' in code


@pytest.mark.parametrize("name", load_queries("agent_memories"))
def test_every_statement_names_the_user(name: str) -> None:
    """That keeps it on one shard and one index."""
    assert b"user_id" in load_queries("agent_memories")[name]
    assert b"%(user_id)s" in load_queries("agent_memories")[name]


@pytest.mark.parametrize("name", load_queries("agent_memories"))
async def test_every_statement_can_be_explained_as_the_pool(
    name: str, store: MemoryStore, server: Server, database_url: str
) -> None:
    """And none scans the table of all users."""
    database = database_of(database_url)
    login = "memory_context_login_" + hashlib.sha256(database.encode()).hexdigest()[:8]
    with psycopg.connect(server.url(database, user=login)) as connection:
        connection.execute("SELECT memory_context.act_as('alice')")
        connection.execute("SET LOCAL enable_seqscan = off")
        query = b"EXPLAIN " + load_queries("agent_memories")[name]
        plan = "\n".join(row[0] for row in connection.execute(query, PARAMS).fetchall())
    assert "Seq Scan" not in plan
    assert ("Index" in plan) or ("Insert on agent_memories" in plan)


def test_no_sql_in_python() -> None:
    """It lives in files, all of it."""
    for path in Path(REPOSITORY, "memory_context").rglob("*.py"):
        assert not re.search(r"\b(SELECT .* FROM|INSERT INTO|DELETE FROM)\b", path.read_text()), path
