"""The SQL files: every block is said to be for something, is used, and is served by an index as the pool's login."""

import re
from pathlib import Path

import psycopg
import pytest

from memory_context.store.memory_store import MemoryStore
from memory_context.store.sql import load_queries
from tests.conftest import REPOSITORY, Server, database_of
from tests.support.statements import (
    ACROSS_USERS,
    BLOCKS,
    FILES,
    OF_USERS,
    TABLES,
    all_columns,
    login_of,
    params_of,
    statement_of,
)

FUNCTIONS = re.compile(
    rb"(store_content|store_memories|note_pending_user|touch_session|append_batch|append_chat|sign_export"
    rb"|hashtextextended)\(\s*%\(user_id\)s"
)


@pytest.mark.parametrize(("file", "name"), BLOCKS)
def test_every_block_is_explained_and_used(file: str, name: str) -> None:
    """A comment follows its name, and the store's code names it."""
    text = (REPOSITORY / "sql" / "queries" / f"{file}.sql").read_text()
    assert re.search(rf"^-- name: {name} :(one|many|exec)\n-- \w.*[.:]", text, re.MULTILINE)
    code = "".join(path.read_text() for path in Path(REPOSITORY, "memory_context", "store").rglob("*.py"))
    assert f'"{name}"' in code


def test_every_fragment_is_explained_and_shared() -> None:
    """A comment follows its name, and two statements or more have it, or all tables or rankings."""
    text = (REPOSITORY / "sql" / "fragments.sql").read_text()
    everything = "".join(path.read_text() for path in FILES) + text
    store = REPOSITORY / "memory_context" / "store"
    of_tables = (store / "tables.py").read_text() + (store / "search" / "passages.py").read_text()
    names = re.findall(r"^-- fragment: (\w+)\(\w*\)\n-- \w", text, re.MULTILINE)
    assert len(names) == text.count("-- fragment:")
    assert {name for name in names if everything.count(f"{{{name}(") < 2 and name not in of_tables} == set()


@pytest.mark.parametrize(("file", "name"), OF_USERS)
def test_every_statement_names_the_user(file: str, name: str) -> None:
    """That keeps it on one shard and one index; two lists and what is of no table belong to nobody."""
    statement = statement_of(file, name)
    if name not in (
        *ACROSS_USERS,
        "ensure_embedding_index",
        "lock_statements",
        "set_nearest_scope",
        "set_transfer_scope",
    ):
        assert b"user_id = %(user_id)s" in statement or b"INSERT" in statement or FUNCTIONS.search(statement)
        assert b"%(user_id)s" in statement


def test_every_statement_can_be_explained_as_the_pool(store: MemoryStore, server: Server, database_url: str) -> None:
    """All that concern users, and none scans a table of all users."""
    database = database_of(database_url)
    with psycopg.connect(server.url(database, user=login_of(database)), autocommit=True) as connection:
        columns = all_columns(connection)
        for file, name in OF_USERS:
            with connection.transaction(force_rollback=True):
                connection.execute(load_queries("transactions")["act_as"], {"user_id": "alice", "agent_id": None})
                query = b"EXPLAIN " + statement_of(file, name, columns)
                plan = "\n".join(row[0] for row in connection.execute(query, params_of(name)).fetchall())
            assert "Seq Scan" not in plan, (name, plan)


def test_every_other_statement_is_understood_by_the_server(server: Server, database_url: str) -> None:
    """Those of roles, databases and migrations: parsed, not run."""
    with psycopg.connect(database_url) as connection:
        for file, name in BLOCKS:
            if file in (*TABLES, "transactions", "tables", "doctor"):  # run by every test, or by its own
                continue
            statement = (
                load_queries(file)[name]
                .decode()
                .format(login="somebody", password="'secret'", database="somewhere", schema="extensions")
            )
            statement = re.sub(r"%\(\w+\)s", "NULL", statement)
            if statement.startswith("SELECT"):
                connection.execute(f"EXPLAIN {statement}".encode())
            else:
                connection.execute(f"DO $block$ BEGIN RETURN; {statement}; END $block$".encode())


def test_no_sql_in_python() -> None:
    """It lives in files, all of it."""
    for path in Path(REPOSITORY, "memory_context").rglob("*.py"):
        assert not re.search(r"\b(SELECT .* FROM|INSERT INTO|DELETE FROM)\b", path.read_text()), path
