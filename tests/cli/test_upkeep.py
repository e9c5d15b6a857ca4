"""`status`, `migrate`, `prune`, `reindex`: looking after a store."""

import asyncio
import json
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, get_args

import pytest

from memory_context import MemoryStore
from memory_context.foundation.identifiers import SessionKey
from memory_context.store.conversations import ChatMessage
from memory_context.store.items import NewItem
from memory_context.store.sql import load_migrations
from memory_context.surfaces.cli import maintenance
from tests.support.rows import make_newer

from ..conftest import Server, SqlCopy, database_of
from ..embeddings.fakes import FakeEmbedder
from .conftest import Run, contents
from .lived import Lived

pytestmark = pytest.mark.thorough

NAMES = [migration.name for migration in load_migrations()]


def store_items(url: str, user: str, *texts: str, embedder: Any = None) -> None:
    """Store items, and leave the index to others."""

    async def store() -> None:
        store = MemoryStore(url, embedder)
        store.jobs.wake = lambda user_id: None  # type: ignore[method-assign]
        await store.items.insert_memories(user, [NewItem(text, "", 1, key=f"k{n}") for n, text in enumerate(texts)])
        await store.close()

    asyncio.run(store())


# --- status


def test_status_counts_what_there_is_and_changes_nothing(run: Run, full: Lived, server: Server):
    """Of all users together; in words and in numbers."""
    before = contents(full.url)
    ended, out, err = run("status", "--url", full.url, "--json")
    assert (ended, err) == (0, "")
    found = json.loads(out)
    assert (found["is_embedded"], found["is_set_up"]) == (False, True)
    tables = {
        name: server.execute("SELECT count(*) FROM memory_context.{t}", database_of(full.url), t=table)[0][0]
        for name, table in (("items", "agent_memories"), ("passages", "agent_memory_chunks"), ("users", "memory_users"))
    }
    assert {name: found[name] for name in tables} == tables
    assert found["users"] >= 2
    forgotten = "SELECT count(*) FROM memory_context.agent_memories WHERE NOT is_active"  # other tests forget, too
    assert found["forgotten"] == server.execute(forgotten, database_of(full.url))[0][0] >= 1
    assert found["sessions"] >= 1
    assert found["schema_version"] == found["known_schema_version"]
    assert found["table_bytes"]["agent_memories"] > 0
    ended, out, _ = run("status", "--url", full.url)
    items = f"{tables['items']}, {found['forgotten']} of them forgotten"
    assert f"users       {found['users']}\nitems       {items}\n" in out
    assert contents(full.url) == before


def test_status_looks_at_an_older_schema_as_it_is(run: Run, empty_database_url: str, sql_copy: SqlCopy):
    """It says what is to come, and does not do it."""
    for done in (0, len(NAMES)):
        for _ in range(2):
            ended, out, _ = run("status", "--url", empty_database_url, "--json")
            found = json.loads(out)
            names = [*NAMES, "9002_pre_notes"][done:] if done else NAMES
            version = load_migrations()[done - 1].version if done else 0
            assert (ended, found["schema_version"], found["pending_migrations"]) == (0, version, names)
            assert (found["users"] is None) == (version == 0)
        assert f"{names[-1]} to come: memory-context migrate" in run("status", "--url", empty_database_url)[1]
        assert run("migrate", "--url", empty_database_url)[0] == 0
        sql_copy.add_migration("9002_pre_notes", "CREATE TABLE memory_context.notes (user_id text);")


def test_status_looks_at_a_newer_schema_as_far_as_it_goes(run: Run, database_url: str, server: Server):
    store_items(database_url, "alice", "text")
    make_newer(server, database_url)
    ended, out, _ = run("status", "--url", database_url)
    assert ended == 0
    assert f"schema      99, this memory-context knows {len(NAMES)}: upgrade it" in out
    server.execute("ALTER TABLE memory_context.jobs DROP COLUMN is_failed", database_of(database_url))
    assert "rows     not counted, with this schema" in run("status", "--url", database_url)[1]


def test_status_sets_no_server_up(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("MEMORY_CONTEXT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MEMORY_CONTEXT_URL", raising=False)
    ended, out, _ = run("status")
    assert (ended, "not set up yet" in out) == (0, True)
    assert run("migrate", "--check")[0] == 1
    assert not list(tmp_path.iterdir())


# --- migrate


def test_stop_ends_a_server_that_was_left_behind(run: Run, home: Path):
    """Commands, which share one process here, hold it; in a process of its own it ends with the command."""
    assert run("list", "--user", "alice")[0] == 0
    assert "keeper" not in json.loads(run("status", "--json")[1])
    assert run("stop")[2].endswith("has stopped\n")
    assert run("stop")[2].endswith("no server runs\n")
    code, _, said = run("stop", "--url", "postgresql://db.example.org/memory")
    assert (code, "is no embedded server: stop it where it runs" in said) == (2, True)


def test_migrate_says_what_it_did(run: Run, empty_database_url: str):
    """--check tells a script whether there is something to do, before and after."""
    url = ("--url", empty_database_url)
    ended, out, err = run("migrate", "--check", *url)
    assert (ended, out.count("pending")) == (1, len(NAMES))
    assert err == f"{len(NAMES)} migrations to come: memory-context migrate\n"
    assert run("migrate", *url) == (0, "".join(f"applied {name}\n" for name in NAMES), "")
    assert run("migrate", *url) == (0, "up to date\n", "")
    assert run("migrate", "--check", *url)[2] == "the schema is up to date\n"
    assert run("migrate", "--json", *url)[1] == '{\n  "applied": []\n}\n'
    ended, out, _ = run("migrate", "--check", "--json", *url)
    assert (ended, [one["state"] for one in json.loads(out)]) == (0, ["applied"] * len(NAMES))


def test_migrate_lists_what_is_newer_or_changed(run: Run, database_url: str, server: Server):
    make_newer(server, database_url)
    server.execute(
        "UPDATE memory_context.schema_migrations SET checksum = '' WHERE version = 1", database_of(database_url)
    )
    ended, out, _ = run("migrate", "--check", "--url", database_url)
    lines = out.splitlines()
    assert ended == 1
    assert "applied, with another file" in lines[2]
    assert lines[-1].startswith("0099_later")
    assert "applied by a newer version" in lines[-1]


def test_migrate_uses_the_owners_address(
    run: Run, empty_database_url: str, server: Server, template: str, monkeypatch: pytest.MonkeyPatch
):
    """The pool's login may not; without the owner the text says what to set."""
    server.execute("CREATE ROLE ordinary_cli LOGIN IN ROLE memory_context_app")
    url = server.url(database_of(empty_database_url), user="ordinary_cli")
    ended, out, err = run("migrate", "--url", url)
    assert (ended, out) == (1, "")
    assert "MEMORY_CONTEXT_OWNER_URL" in err
    monkeypatch.setenv("MEMORY_CONTEXT_OWNER_URL", empty_database_url)
    assert run("migrate", "--url", url)[1].splitlines()[-1] == f"applied {NAMES[-1]}"
    assert run("status", "--url", url)[0] == 0


@pytest.mark.parametrize(("version", "is_sound"), [("0.8.3", False), ("0.8.4", True), ("0.10.0", True)])
def test_status_and_migrate_warn_of_a_pgvector_that_damages_indexes(
    run: Run, database_url: str, server: Server, version: str, is_sound: bool
):
    """With the commands that mend it, for each index."""
    database = database_of(database_url)
    server.execute("SELECT memory_context.ensure_embedding_index('m/3', 3)", database)
    server.execute(f"UPDATE pg_extension SET extversion = '{version}' WHERE extname = 'vector'", database)
    ((index,),) = server.execute("SELECT indexname FROM pg_indexes WHERE indexdef LIKE '%hnsw%'", database)
    said = f"ALTER EXTENSION vector UPDATE; REINDEX INDEX CONCURRENTLY memory_context.{index};"
    _, out, _ = run("status", "--url", database_url)
    assert (f"pgvector {version} could damage" in out, said in out) == (not is_sound, not is_sound)
    ended, out, err = run("migrate", "--url", database_url)
    assert (ended, out, said in err) == (0, "up to date\n", not is_sound)


# --- prune


def test_prune_asks_and_says_what_it_did(run: Run, database_url: str, server: Server):
    store_items(database_url, "alice", "old", "new")
    server.execute(
        "UPDATE memory_context.agent_memories SET created_at = now() - interval '100 days', "
        "updated_at = now() - interval '100 days', last_used_at = now() - interval '100 days' WHERE memory_key = 'k0'",
        database_of(database_url),
    )
    prune = ("prune", "--older-than", "90d", "--url", database_url)
    ended, out, err = run(*prune)
    assert (ended, out) == (2, "")
    assert "give --yes" in err
    ended, out, _ = run(*prune, "--yes", "--type", "article")
    assert out.startswith("items forgotten   0 ")
    ended, out, _ = run(*prune, "--dry-run", "--json")
    assert (ended, json.loads(out)) == (0, {"items": 1, "events": 0, "sessions": 0, "content_bytes": 3})
    ended, out, _ = run(*prune, "--yes", "--json")
    assert (ended, json.loads(out)) == (0, {"items": 1, "events": 0, "sessions": 0, "content_bytes": 3})


def test_prune_takes_conversations_on_request_only(run: Run, database_url: str, server: Server):
    """A dry run shows both, asks nothing and changes nothing."""

    async def talk() -> None:
        async with MemoryStore(database_url) as store:
            long_ago = datetime.now(timezone.utc) - timedelta(days=100)
            await store.conversations.append(
                SessionKey("alice", "", "s"), chat=[ChatMessage("m", "hello", "user", long_ago)]
            )

    asyncio.run(talk())
    server.execute(
        "UPDATE memory_context.agent_sessions SET last_activity_at = now() - interval '100 days'",
        database_of(database_url),
    )
    prune = ("prune", "--older-than", "90d", "--url", database_url)
    assert run(*prune, "--dry-run") == (
        0,
        "items to forget     0 (0 bytes)\nevents to delete    0\nsessions to delete  1, kept without --conversations\n",
        "",
    )
    assert json.loads(run(*prune, "--yes", "--json")[1])["sessions"] == 0
    assert json.loads(run(*prune, "--yes", "--json", "--conversations")[1])["sessions"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--older-than", "soon"], "'soon' is not a length of time"),
        (["--older-than", "90d", "--type", "user_fact"], "user_fact"),
        ([], "--older-than"),
    ],
)
def test_prune_refuses_wrong_ages_and_types(run: Run, full: Lived, arguments: list[str], said: str):
    ended, out, err = run("prune", *arguments, "--yes", "--url", full.url)
    assert (ended, out, err.count("\n")) == (2, "", 1)
    assert said in err


# --- reindex


def test_reindex_does_what_waits_and_tries_again_what_failed(run: Run, database_url: str, server: Server):
    """Of all users; a second time there is nothing to do."""
    for user in ("alice", "bob"):
        store_items(database_url, user, "the harbour at dawn", "the harbour at dusk")
    database = database_of(database_url)
    server.execute("UPDATE memory_context.jobs SET is_failed = true, attempts = 9, last_error = 'x'", database)
    ended, out, err = run("reindex", "--url", database_url, "--json")
    assert (ended, err) == (0, "")
    assert json.loads(out) | {"embedded": 0} == {
        "retried": 4,
        "indexed": 4,
        "embedded": 0,
        "pending": 0,
        "failed": 0,
        "failures": [],
    }
    assert server.execute("SELECT count(*) FROM memory_context.agent_memory_embeddings", database) == [(4,)]
    ended, out, _ = run("reindex", "--url", database_url)
    assert (ended, out) == (0, "indexed   0 items\nembedded  0 passages more\nindex     up to date\n")


def test_reindex_goes_over_to_another_model(run: Run, database_url: str, monkeypatch: pytest.MonkeyPatch):
    """Which has to be named once the passages have embeddings of another than the default."""
    asked: list[tuple[Any, ...]] = []

    def fake(*arguments: Any, **options: Any) -> FakeEmbedder:
        asked.append((*arguments, *options.values()))
        return FakeEmbedder("theirs")

    monkeypatch.setattr("memory_context.foundation.embeddings.openai.OpenAIEmbedder", fake)
    store_items(database_url, "alice", "the harbour at dawn")
    ended, out, _ = run("reindex", "--embedder", "openai", "--model", "m", "--url", database_url)
    assert (ended, asked) == (0, [("m", None)])
    assert json.loads(run("status", "--json", "--url", database_url)[1])["embeddings"] == {"theirs/16": 1}
    ended, out, err = run("reindex", "--url", database_url)
    assert (ended, out) == (2, "")
    assert "the passages are embedded with theirs/16: say with --embedder what to use" in err
    ended, out, _ = run("reindex", "--embedder", "wordllama", "--url", database_url)
    assert (ended, out.splitlines()[1]) == (0, "embedded  1 passages more")


def test_reindex_says_what_could_not_be_indexed(run: Run, database_url: str, monkeypatch: pytest.MonkeyPatch):
    """With exit code 1: something is left."""

    def fails(*_: Any) -> Any:
        raise ValueError("cannot be read")

    monkeypatch.setattr("memory_context.store.search.postings.index_claimed", fails)
    monkeypatch.setattr("memory_context.store.jobs.ATTEMPTS_LIMIT", 1)
    store_items(database_url, "alice", "odd")
    ended, out, err = run("reindex", "--url", database_url)
    assert (ended, out.splitlines()[-1]) == (1, "index     1 item cannot be indexed")
    assert "'k0' of 'alice': 'ValueError: cannot be read'" in err
    status = run("status", "--url", database_url)[1]
    assert "dead letters  1 job failed too often (index 1): memory-context reindex tries again" in status


def test_a_model_needs_its_embedder(run: Run):
    ended, _, err = run("reindex", "--model", "m")
    assert (ended, err) == (2, "memory-context: --model goes with --embedder openai or fastembed\n")
    assert get_args(maintenance.EmbedderName) == ("wordllama", "openai", "fastembed")
