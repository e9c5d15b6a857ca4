"""Long-term notes in the database: an agent has its own only, writes are conditional, the last versions are kept."""

import asyncio
import json

import psycopg
import pytest

from memory_context.foundation import errors
from memory_context.store.memory_store import MemoryStore
from memory_context.store.notes import KEPT_VERSIONS, AgentNotes, fetch_notes
from memory_context.store.sql import Statement
from memory_context.store.transfer.importer import TransferError
from tests.conftest import Server, database_of
from tests.support.statements import login_of

TABLES = ("agent_long_term_memory", "agent_long_term_memory_versions")


async def write(store: MemoryStore, text: str, based_on: int, agent: str = "coder", user: str = "alice") -> bool:
    return (await store.notes.write(user, agent, text, "overwrite", based_on))[0]


async def test_a_write_is_refused_unless_its_version_is_in_force(store: MemoryStore) -> None:
    """The answer has the notes in force, so that a retry needs no read."""
    assert await store.notes.fetch("alice", "coder") == AgentNotes()
    assert await write(store, "a", 0)
    for based_on in (0, 2, 7):
        is_written, notes = await store.notes.write("alice", "coder", "lost", "append", based_on)
        assert (is_written, notes.text, notes.version, notes.operation) == (False, "a", 1, "overwrite")
    assert await write(store, "b", 1)
    assert [(one.version, one.text) for one in await store.notes.versions("alice", "coder")] == [
        (2, "b"),
        (1, "a"),
        (0, ""),
    ]


async def test_one_of_two_simultaneous_writes_wins(store: MemoryStore) -> None:
    """Both of the first version and of a later one."""
    for based_on in (0, 1):
        written = await asyncio.gather(*(write(store, f"{based_on} {one}", based_on) for one in "ab"))
        assert sorted(written) == [False, True]


async def test_the_last_twenty_versions_are_kept(store: MemoryStore) -> None:
    """And while an undo repeats an earlier one, the twenty before that."""
    for version in range(25):
        await write(store, f"text {version + 1}", version)
    kept = [one.version for one in await store.notes.versions("alice", "coder")]
    assert kept == list(range(25, 25 - KEPT_VERSIONS - 1, -1))
    await store.notes.write("alice", "coder", "text 10", "undo", 25, repeats=10)
    assert [one.version for one in await store.notes.versions("alice", "coder")] == list(range(26, 4, -1))
    await store.notes.write("alice", "coder", "", "erase", 26, is_erased=True)
    assert [(one.version, one.text) for one in await store.notes.versions("alice", "coder")] == [(27, "")]


async def test_any_str_comes_back_identical(store: MemoryStore) -> None:
    text = "NUL \x00, half \ud83d, \x1a001a, é"
    await write(store, text, 0)
    await write(store, "", 1)
    assert [one.text for one in await store.notes.versions("alice", "coder")] == ["", text, ""]


async def test_an_agent_reads_and_writes_its_own_notes_only(
    store: MemoryStore, server: Server, database_url: str
) -> None:
    """The database enforces it, also against a statement that names another agent or user, or no agent at all."""
    for user in ("alice", "bob"):
        for agent in ("coder", "critic"):
            await write(store, f"of {user}'s {agent}", 0, agent, user)
            await write(store, "newer", 1, agent, user)
    name = database_of(database_url)
    with psycopg.connect(server.url(name, user=login_of(name)), autocommit=True) as pooled:
        for acting, seen in {
            "'alice', 'coder'": [("alice", "coder")],
            "'alice', NULL": [("alice", "coder"), ("alice", "critic")],
            "'alice', ''": [],
            "'alice', 'none'": [],
            "'alice'": [],
        }.items():
            for table in TABLES:
                rows = f"SELECT DISTINCT user_id, agent_id FROM memory_context.{table} ORDER BY agent_id"
                assert pooled.execute(rows.encode()).fetchall() == []
                with pooled.transaction(force_rollback=True):
                    pooled.execute(f"SELECT memory_context.act_as({acting})".encode())
                    assert pooled.execute(rows.encode()).fetchall() == seen
                    changed = pooled.execute(f"UPDATE memory_context.{table} SET notes = 'x'".encode())
                    assert (changed.rowcount > 0) == bool(seen)
                    for moved in ("agent_id = 'critic', notes = 'forged'", "user_id = 'bob'"):
                        if acting == "'alice', 'coder'":
                            with pytest.raises(psycopg.errors.InsufficientPrivilege), pooled.transaction():
                                pooled.execute(f"UPDATE memory_context.{table} SET {moved}".encode())
    (rows,) = await store._database.read("alice", fetch_notes("critic"), agent_id="coder")
    assert AgentNotes.of(rows) == AgentNotes()
    with pytest.raises(errors.StoreError, match="row-level security"):
        await store._database.write("alice", *_forged(), agent_id="coder")
    assert [one.agent_id for one in await store.notes.agents("alice")] == ["critic", "coder"]


def _forged() -> list[Statement]:
    values = b"('alice', 'intruder', 'x', 1, 1, 'append')"
    columns = b"(user_id, agent_id, notes, version, repeats, operation)"
    return [Statement(b"INSERT INTO memory_context.agent_long_term_memory " + columns + b" VALUES " + values)]


async def exported(store: MemoryStore, user: str, session: str | None = None) -> list[bytes]:
    return b"".join([piece async for piece in store.admin.export_lines(user, session)]).splitlines(keepends=True)


async def test_notes_travel_with_their_versions(store: MemoryStore) -> None:
    """With a user's export, not with one session's; status counts them; an import never changes existing notes."""
    for version in range(3):
        await write(store, f"text {version + 1}", version)
    whole = await exported(store, "alice")
    assert [json.loads(line)["record"] for line in whole[1:-1]] == ["notes", *["notes_version"] * 3]
    assert await exported(store, "alice", "s") == []
    rows = (await store.admin.status()).rows
    assert rows is not None
    assert (rows["notes"], rows["notes_version"]) == (1, 3)
    await store.admin.import_lines(whole, "bob")
    assert await store.notes.versions("bob", "coder") == await store.notes.versions("alice", "coder")
    assert await write(store, "newer", 3, user="bob")
    await write(store, "carol's own", 0, user="carol")
    for user, text, kept in (("bob", "newer", 5), ("carol", "carol's own", 2)):
        report = await store.admin.import_lines(whole, user)
        assert (sum(report.stored.values()), report.different) == (0, ["notes of coder"])
        assert (await store.notes.fetch(user, "coder")).text == text
        assert len(await store.notes.versions(user, "coder")) == kept
    damaged = [*whole[:1], json.dumps(json.loads(whole[1]) | {"notes": "x" * 160_001}).encode() + b"\n", *whole[2:]]
    with pytest.raises(
        TransferError, match=r"lines 2 to 2: the database refuses one: .*agent_long_term_memory_lengths"
    ):
        await store.admin.import_lines(damaged, "dora")


async def test_notes_of_every_agent_go_with_their_user(store: MemoryStore, server: Server, database_url: str) -> None:
    for agent in ("coder", "critic"):
        await write(store, "secret", 0, agent)
        await write(store, "secret too", 1, agent)
    await write(store, "stays", 0, user="bob")
    await store.erase_user("alice")
    for table in TABLES:
        left = server.execute(f"SELECT DISTINCT user_id FROM memory_context.{table}", database_of(database_url))
        assert left == [("bob",)]


async def test_each_operation_costs_one_round_trip(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A conflict included: one pipeline a transaction."""
    await write(store, "a", 0)
    pool, _ = await store._database.ready()
    runs = 0
    run = pool.run

    async def counted(*args: object, **kwargs: object) -> object:
        nonlocal runs
        runs += 1
        return await run(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(pool, "run", counted)
    await store.notes.fetch("alice", "coder")
    await write(store, "b", 1)
    await write(store, "c", 1)
    assert runs == 3
