"""Backup and restore as docs/own-postgres.md has it: `pg_dump`, a new server, `pg_restore`."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from memory_context import AgentMemory
from memory_context.store import embedded
from memory_context.store.memory_store import MemoryStore
from tests.conftest import Server, database_of
from tests.schema_file import program_of_postgres
from tests.support.scratch import SCRATCH

pytestmark = pytest.mark.thorough
TEXT = "The keeper of the lighthouse keeps owls."


def run(program: str, *arguments: str, **environment: str) -> str:
    """Run a program of Postgres; return what it says on stderr."""
    command = [program_of_postgres(program), *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}).stderr


@pytest.fixture
def new_server() -> Iterator[dict[str, str]]:
    """The parameters of a server on which nothing was ever done."""
    folder = Path(tempfile.mkdtemp(prefix="mc-new-", dir=SCRATCH))
    yield embedded.start(folder, "memory")
    embedded.remove(folder)


async def store_some(url: str) -> str:
    async with MemoryStore(url) as store:
        ref = await AgentMemory(store, "alice").store(TEXT)
        await store.flush_index()
    return ref.key


async def check_restored(url: str, key: str) -> None:
    async with MemoryStore(url) as store:
        memory = AgentMemory(store, "alice")
        item = await memory.retrieve(key)
        assert item is not None
        assert item.content == TEXT
        assert [hit.item.key for hit in await memory.search("who keeps owls?")] == [key]
        assert await AgentMemory(store, "bob").retrieve(key) is None


async def test_dump_is_restored_on_a_new_server(database_url: str, new_server: dict[str, str], tmp_path: Path) -> None:
    """With the group of the logins first; without it the restore says which role is missing."""
    dump, url = str(tmp_path / "memory.dump"), make_conninfo(**new_server)
    key = await store_some(database_url)
    assert run("pg_dump", "--format=custom", f"--file={dump}", database_url) == ""
    assert 'role "memory_context_app" does not exist' in run("pg_restore", "--no-owner", f"--dbname={url}", dump)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE memory_context_app NOLOGIN")
    assert run("pg_restore", "--clean", "--if-exists", "--no-owner", f"--dbname={url}", dump) == ""
    await check_restored(url, key)


async def test_bound_owner_dumps_the_rows_of_all_users(
    server: Server, new_server: dict[str, str], tmp_path: Path
) -> None:
    """Row-level security holds for its dumps too, so it says that it means all users."""
    server.execute("CREATE ROLE alone LOGIN")
    server.execute("CREATE DATABASE alone OWNER alone")
    server.execute("CREATE EXTENSION vector", "alone")
    own = server.url("alone", user="alone")
    dump, url = str(tmp_path / "memory.dump"), make_conninfo(**new_server)
    try:
        key = await store_some(own)
        every_user = "-c memory_context.every_user=on -c memory_context.every_agent=on"
        arguments = ("--format=custom", "--enable-row-security", f"--file={dump}", own)
        assert run("pg_dump", *arguments, PGOPTIONS=every_user) == ""
    finally:
        server.execute("DROP DATABASE alone WITH (FORCE)")
        server.execute("DROP ROLE alone")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE ROLE memory_context_app NOLOGIN")
    run("pg_restore", "--no-owner", f"--dbname={url}", dump)
    await check_restored(url, key)
    assert database_of(url) == "memory"
