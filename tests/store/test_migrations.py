"""The schema comes up to date by itself, once, and a schema that cannot be used is refused with the remedy."""

import asyncio
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from memory_context import MemoryStore, StoreLimits
from memory_context.foundation import errors
from memory_context.store.items import NewItem
from memory_context.store.sql import load_migrations, sql_folder
from tests.conftest import REPOSITORY, Server, SqlCopy, StartPython, database_of
from tests.schema_file import dump_schema, schema_file

pytestmark = pytest.mark.thorough

OPEN_WHEN_TOLD = """
import asyncio, os, sys
from memory_context import MemoryStore
from memory_context.store.items import NewItem

async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    async with MemoryStore(os.environ["TEST_URL"]) as store:
        await store.items.insert_memories("alice", [NewItem(str(os.getpid()), "", 1, key=f"k{os.getpid()}")])

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


async def test_the_written_schema_is_that_of_the_migrations(
    server: Server, database_url: str, empty_database_url: str
) -> None:
    """`make schema` writes `sql/postgresdb.sql`; run by hand, it makes the same catalog, which is up to date."""
    script = (REPOSITORY / "sql" / "postgresdb.sql").read_text()
    schema = dump_schema(server.url(database_of(database_url)))
    assert script == schema_file(schema)
    create_role = "CREATE ROLE memory_context_app NOLOGIN;"
    assert create_role in script  # the cluster of this test has it already
    with psycopg.connect(empty_database_url) as connection:
        connection.execute(script.replace(create_role, "").encode())
    assert dump_schema(empty_database_url) == schema
    async with MemoryStore(empty_database_url) as store:
        assert {one.state for one in await store.admin.migrations()} == {"applied"}


async def test_a_database_from_the_future_is_refused(server: Server, database_url: str) -> None:
    """It is left as it is; the text says what to upgrade."""
    name = database_of(database_url)
    server.execute("INSERT INTO memory_context.schema_migrations VALUES (9999, 'later', '')", name)
    with pytest.raises(errors.SchemaError, match=r"version 9999.*pip install -U memory-context"):
        await MemoryStore(database_url).open()


async def test_a_migration_that_changed_afterwards_is_noticed(server: Server, database_url: str) -> None:
    """Two databases with the same version number must have the same schema."""
    server.execute(
        "UPDATE memory_context.schema_migrations SET checksum = 'other' WHERE version = 1", database_of(database_url)
    )
    with pytest.raises(errors.SchemaError, match="0001_initial is not the one this database ran"):
        await MemoryStore(database_url).open()


async def test_only_statements_of_a_migration_count(database_url: str, sql_copy: SqlCopy) -> None:
    """Comments and white space may be corrected after it ran; a comment sign in quotes is a statement's."""
    path = sql_copy.folder / "migrations" / "0001_initial.sql"
    script = path.read_text()
    words = re.sub(r"-- .*", "-- it's another word", script).replace("\n", " /* so */\r\n\t")
    assert words != script
    sql_copy.add_migration("0001_initial", words)
    async with MemoryStore(database_url):
        pass
    for changed in (script.replace("512", "513", 1), script + "SELECT '-- a';", script + "SELECT '-- b';"):
        sql_copy.add_migration("0001_initial", changed)
        with pytest.raises(errors.SchemaError, match="is not the one this database ran"):
            await MemoryStore(database_url).open()


# --- deploying


PRE = "9002_pre_notes", "CREATE TABLE memory_context.notes (user_id text); CALL memory_context.fence_table('notes');"
NEXT = "9003_pre_more", "ALTER TABLE memory_context.notes ADD COLUMN text text;"


async def states(url: str) -> dict[str, str]:
    return {one.name: one.state for one in await MemoryStore(url).admin.migrations()}


async def store_item(url: str, key: str) -> None:
    async with MemoryStore(url) as store:
        await store.items.insert_memories("alice", [NewItem(key, "", 1, key=key)])


async def test_the_version_before_works_on(database_url: str, sql_copy: SqlCopy) -> None:
    sql_copy.add_migration(*PRE)
    await store_item(database_url, "new")
    with before_them(sql_copy):
        assert (await states(database_url))["9002_pre_notes"] == "ahead"
        await store_item(database_url, "old")
    assert await MemoryStore(database_url).admin.migrate() == []


async def test_a_migration_that_says_nothing_of_the_version_before_is_refused_there(
    server: Server, database_url: str
) -> None:
    await store_item(database_url, "new")
    server.execute(
        "INSERT INTO memory_context.schema_migrations (version, name, checksum) VALUES (9003, '9003_notes', '')",
        database_of(database_url),
    )
    with pytest.raises(errors.SchemaError, match=r"at version 9003, .* knows \d+: upgrade it"):
        await store_item(database_url, "older")


@contextmanager
def before_them(sql_copy: SqlCopy) -> Iterator[None]:
    """Be the version before all that a test added."""
    added = sorted((sql_copy.folder / "migrations").glob("900*"))
    texts = [path.read_text() for path in added]
    for path in added:
        path.unlink()
    load_migrations.cache_clear()
    yield
    for path, text in zip(added, texts, strict=True):
        sql_copy.add_migration(path.stem, text)


async def test_a_new_database_gets_all_migrations_at_once(empty_database_url: str, sql_copy: SqlCopy) -> None:
    """Also with several that begin it together."""
    for migration in (PRE, NEXT):
        sql_copy.add_migration(*migration)
    await asyncio.gather(*(store_item(empty_database_url, f"k{number}") for number in range(3)))
    assert set((await states(empty_database_url)).values()) == {"applied"}


def test_a_migration_that_promises_nothing_is_refused(sql_copy: SqlCopy) -> None:
    sql_copy.add_migration("0002_notes", "")
    with pytest.raises(ValueError, match="name it 0002_pre_…"):
        load_migrations()


CONCURRENTLY = """-- transaction: none
DROP INDEX CONCURRENTLY IF EXISTS memory_context.agent_memories_by_source;
-- Readers and writers go on meanwhile.
CREATE INDEX CONCURRENTLY agent_memories_by_source
    ON memory_context.agent_memories (user_id, source);
"""


async def test_an_index_is_made_without_a_transaction(server: Server, database_url: str, sql_copy: SqlCopy) -> None:
    """While others wait for their turn, and although it was broken off before."""
    await store_item(database_url, "k")
    sql_copy.add_migration("9002_pre_index", f"{CONCURRENTLY}SELECT 1 / 0;\n")
    with pytest.raises(errors.StoreError, match="division by zero"):
        await MemoryStore(database_url).open()
    assert (await states(database_url))["9002_pre_index"] == "pending"
    sql_copy.add_migration("9002_pre_index", CONCURRENTLY)
    await asyncio.gather(*(store_item(database_url, f"k{number}") for number in range(3)))
    index = "SELECT indisvalid FROM pg_index WHERE indexrelid = 'memory_context.agent_memories_by_source'::regclass"
    assert server.execute(index, database_of(database_url)) == [(True,)]
    assert (await states(database_url))["9002_pre_index"] == "applied"


async def test_a_migration_does_not_queue_for_a_table_in_use(database_url: str, sql_copy: SqlCopy) -> None:
    """Everybody else would wait behind it: it says so, changes nothing, and can be repeated."""
    tables = ("agent_sessions", "agent_memories")
    script = " ".join(f"ALTER TABLE memory_context.{name} ADD COLUMN added int;" for name in tables)
    sql_copy.add_migration("9002_pre_columns", script)
    store = MemoryStore(database_url, limits=StoreLimits(lock_seconds=0.05))
    with psycopg.connect(database_url) as reader:
        reader.execute("SELECT FROM memory_context.agent_memories")
        with pytest.raises(errors.StoreUnavailableError, match=r"within 0.05 s.*run memory-context migrate again"):
            await store.open()
        assert (await states(database_url))["9002_pre_columns"] == "pending"
    await store.open()
    await store.close()
    assert (await states(database_url))["9002_pre_columns"] == "applied"


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
    assert versions == list(range(1, len(versions) + 1))
    assert os.path.exists(sql_folder() / "postgresdb.sql")
