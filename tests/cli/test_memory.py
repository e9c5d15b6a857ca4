"""`memory-context memory`: what is known of a user, on the command line."""

import asyncio
import json
from datetime import datetime, timezone

from memory_context import AgentMemory, MemoryStore
from memory_context.store.items import NewItem

from .conftest import Run


def claim(url: str, text: str) -> str:
    """Have a model store a fact; return its key."""

    async def work() -> str:
        async with MemoryStore(url) as store:
            stored = await AgentMemory(store, "alice", "coder").store(
                text, description="harmless", type="user_fact", origin="agent"
            )
            return stored.key

    return asyncio.run(work())


def test_statements_are_added_listed_edited_confirmed_and_forgotten(run: Run, database_url: str):
    where = ("--url", database_url, "--user", "alice")
    key = claim(database_url, "My editor is Emacs.")
    ended, out, _ = run("memory", "add", "my database is Orders", *where)
    assert ended == 0
    first = out.strip()
    listed = run("memory", "list", *where)[1]
    assert "my database is Orders" in listed
    assert "My editor is Emacs." in listed, "the text, not the description that the model gave"
    assert "kept by a model, not confirmed by the user" in listed
    assert run("memory", "confirm", key, *where)[0] == 0
    today = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    assert "my database is Orders" in run("memory", "list", "--as-of", today, *where)[1]
    assert "my database" not in run("memory", "list", "--as-of", "2020-01-01T12:00", *where)[1]
    assert run("memory", "list", "--as-of", "next week", *where)[0] == 2
    second = run("memory", "add", "my database is Sales", "--replaces", first, *where)[1].strip()
    found = json.loads(run("memory", "list", "--json", *where)[1])
    assert {one["statement"] for one in found["statements"]} == {"my database is Sales", "My editor is Emacs."}
    assert found["unconfirmed"] == []
    kept = json.loads(run("memory", "list", "--all", "--json", *where)[1])["statements"]
    assert [one["superseded_by"] for one in kept if one["key"] == first] == [second]
    assert run("memory", "forget", "nothing_1", "--yes", *where)[0] == 1
    assert run("memory", "forget", "--yes", *where)[0] == 2
    assert "3 statements forgotten" in run("memory", "forget", "--all", "--yes", *where)[2]
    assert "nothing is known of this user" in run("memory", "list", *where)[2]


def test_as_of_a_day_is_the_end_of_that_day(run: Run, database_url: str):
    """In UTC; a time is that time, and a later day has it, too."""

    async def store() -> None:
        async with MemoryStore(database_url) as store:
            late = datetime(2026, 11, 25, 23, 59, tzinfo=timezone.utc)
            item = NewItem("I prefer tabs", "I prefer tabs", 5, "user_fact", key="fact_1a")
            await store.statements.insert_statement("alice", item, late)

    asyncio.run(store())
    times = "2026-11-24", "2026-11-25T12:00", "2026-11-25", "2026-11-26"
    where = ("--json", "--url", database_url, "--user", "alice")
    found = [json.loads(run("memory", "list", "--as-of", time, *where)[1])["statements"] for time in times]
    assert [len(statements) for statements in found] == [0, 0, 1, 1]
