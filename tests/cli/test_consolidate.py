"""`consolidate`: what it prints, and its errors."""

import asyncio
import json
from datetime import datetime, timezone

import pytest

from memory_context import MemoryStore
from memory_context.store.items import NewItem

from .conftest import Run

pytestmark = pytest.mark.thorough


def remember(url: str, *statements: str) -> None:
    """Store statements of alice."""

    async def store() -> None:
        async with MemoryStore(url) as store:
            for number, text in enumerate(statements):
                item = NewItem(text, text, 5, "user_fact", key=f"fact_{number}a")
                await store.statements.insert_statement(
                    "alice", item, datetime(2026, 1, 1 + number, tzinfo=timezone.utc)
                )

    asyncio.run(store())


def test_run_prints_its_changes(run: Run, database_url: str) -> None:
    remember(database_url, "I prefer tabs", "prefer tabs.")
    ended, out, err = run("consolidate", "--url", database_url)
    assert (ended, err) == (0, "")
    first, *changes = out.splitlines()
    did = first.partition(": ")[2]
    assert did == "1 statements merged, 0 articles, 0 summaries of sessions"
    assert changes == ["- fact_0a says the same as fact_1a"]
    assert run("consolidate", "--url", database_url)[1] == "nothing to consolidate\n"


def test_all_users_as_json(run: Run, database_url: str) -> None:
    remember(database_url, "I prefer tabs", "prefer tabs.")
    ended, out, _ = run("consolidate", "--all", "--json", "--url", database_url)
    assert ended == 0
    assert json.loads(out)["alice"]["merged"] == 1


def test_contradicting_options_are_usage_errors(run: Run, database_url: str) -> None:
    ended, _, err = run("consolidate", "--all", "--user", "alice", "--url", database_url)
    assert ended == 2
    assert "--all goes without --user" in err


def test_model_without_a_key_is_a_usage_error(run: Run, database_url: str) -> None:
    ended, _, err = run("consolidate", "--model", "small", "--url", database_url)
    assert ended == 2
    assert "OPENAI_API_KEY" in err
