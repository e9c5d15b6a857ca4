"""A table is added by a migration, its queries and one entry in the registry; all that is done to tables follows."""

import json
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timedelta, timezone

import pytest

from memory_context.store import tables
from memory_context.store.memory_store import MemoryStore
from memory_context.store.sql import Statement, load_queries
from memory_context.store.transfer.importer import TransferError
from tests.conftest import Server, SqlCopy, database_of

MIGRATION = """
CREATE TABLE memory_context.notes (
    user_id text COLLATE "C" NOT NULL,
    note_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    text text NOT NULL,
    mark bytea NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT notes_pkey PRIMARY KEY (user_id, note_id),
    CONSTRAINT notes_note_id_named CHECK (note_id <> ''),
    CONSTRAINT notes_lengths CHECK (octet_length(note_id) <= 64)
);
CREATE INDEX notes_age ON memory_context.notes (user_id, created_at);
CALL memory_context.fence_table('notes');
"""
QUERIES = """
-- name: insert_note :exec
-- Keep a note.
INSERT INTO memory_context.notes (user_id, note_id, session_id, text, mark, created_at)
VALUES (%(user_id)s, %(note_id)s, %(session_id)s, %(text)s, %(mark)s, %(created_at)s);
"""
NOW = datetime.now(timezone.utc)


DERIVED = {
    "agent_memory_contents",  # with their items
    *("agent_memory_chunks", "agent_memory_terms", "agent_memory_names", "agent_memory_embeddings"),
    *("agent_memory_statistics", "jobs", "session_claims"),
}


def test_every_table_of_users_is_in_the_registry_or_derived(server: Server, database_url: str) -> None:
    statement = "SELECT attrelid::regclass::text FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid"
    of_users = "WHERE attname = 'user_id' AND relkind = 'r' AND relnamespace = 'memory_context'::regnamespace"
    found = {
        str(name).removeprefix("memory_context.")
        for (name,) in server.execute(f"{statement} {of_users}", database_of(database_url))
    }
    assert found == {table.name for table in tables.TABLES} | DERIVED | {"memory_users"}


NOTES = tables.Table(
    name="notes",
    record="note",
    order={"note_id": ""},
    session="session_id",
    large=("text",),
    batch_rows=2,
    age="created_at",
)


@pytest.fixture
def notes(sql_copy: SqlCopy) -> Iterator[tables.Table]:
    """The table, in a version of the package that has it."""
    sql_copy.add_migration("9002_pre_notes", MIGRATION)
    (sql_copy.folder / "queries" / "added.sql").write_text(QUERIES)
    tables.TABLES.append(NOTES)
    yield NOTES
    tables.TABLES.remove(NOTES)


@pytest.fixture
async def store(database_url: str, notes: tables.Table) -> AsyncIterator[MemoryStore]:
    """An open store with notes of alice: one in each of a session, its sub-agent's and another, of which one is old."""
    async with MemoryStore(database_url) as store:
        insert = load_queries("added")["insert_note"]
        listed = Statement(load_queries("threads")["insert_known_user"], {"user_id": "alice"})
        for number, session in enumerate(("s", "s/scout", "t")):
            age = timedelta(days=100 if session == "t" else 1)
            note = {"note_id": f"n{number}", "session_id": session, "text": "tea", "mark": b"\x00\xff"}
            params = {"user_id": "alice", "created_at": NOW - age, **note}
            await store._database.write("alice", Statement(insert, params), listed)
        yield store
    load_queries.cache_clear()


async def test_status_counts_the_rows_of_an_added_table(store: MemoryStore) -> None:
    status = await store.admin.status()
    assert status.rows is not None
    assert (status.rows["note"], status.rows["item"], status.users) == (3, 0, 1)
    assert status.table_bytes["notes"] > 0


DAMAGED = [  # what the table does not take, by its columns and conditions
    ({"note_id": ""}, "notes_note_id_named"),
    ({"note_id": "n" * 65}, "notes_lengths"),
    ({"text": None}, 'null value in column "text"'),
    ({"mark": "0g"}, "invalid hexadecimal digit"),
    ({"created_at": "yesterday 1"}, "invalid input syntax for type timestamp"),
]


async def exported(store: MemoryStore, user: str, session: str | None = None) -> list[bytes]:
    return b"".join([piece async for piece in store.admin.export_lines(user, session)]).splitlines(keepends=True)


async def test_an_added_table_is_exported_and_imported(store: MemoryStore) -> None:
    """Of all or of a session with its sub-agents; what is there is known, what is damaged refused."""
    whole = await exported(store, "alice")
    assert json.loads(whole[1])["mark"] == "00ff"
    assert json.loads(whole[-1])["records"]["note"] == 3
    assert [json.loads(line)["note_id"] for line in (await exported(store, "alice", "s"))[1:-1]] == ["n0", "n1"]
    for change, says in DAMAGED:
        damaged = [*whole[:2], json.dumps(json.loads(whole[2]) | change).encode() + b"\n", *whole[3:]]
        with pytest.raises(TransferError, match=f"lines 2 to 4: the database refuses one: .*{says}"):
            await store.admin.import_lines(damaged, "bob")
    for stored, known in ((3, 0), (0, 3)):
        report = await store.admin.import_lines(whole, "bob")
        assert (report.stored["note"], report.known["note"]) == (stored, known)
    assert (await exported(store, "bob"))[1:-1] == whole[1:-1]


async def test_an_added_table_is_pruned_by_its_age(store: MemoryStore) -> None:
    for dry_run in (True, False):
        report = await store.prune(timedelta(days=30), dry_run=dry_run)
        assert report.others == {"note": 1}
    for dry_run in (True, False):
        assert (await store.prune(timedelta(days=30), dry_run=dry_run)).others == {}
    assert len(await exported(store, "alice")) == 4


async def test_the_rows_of_an_added_table_go_with_their_session_and_user(
    store: MemoryStore, server: Server, database_url: str
) -> None:
    """In batches, with progress; nothing of an erased user is left."""
    assert await store.conversations.delete_session("alice", "s")
    assert [json.loads(line).get("note_id") for line in (await exported(store, "alice"))[1:-1]] == ["n2"]
    told: list[tuple[int, int]] = []
    await store.erase_user("alice", progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (1, 1)
    name = database_of(database_url)
    for table in ("notes", "memory_users"):
        assert server.execute(f"SELECT count(*) FROM memory_context.{table}", name) == [(0,)]
