"""What the user's memory costs at the start of a session, and what it costs a later step.

    python -m benchmarks.starting [--rounds N] [--json FILE]

Against two bare SELECTs of the same rows, by psycopg alone on a connection that is open: the user's statements with
their contents, and the last sessions.
"""

import argparse
import asyncio
import json
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autogen_core.models import UserMessage
from psycopg import AsyncConnection

from benchmarks.comparing import Measured, Timed, compare, print_measured, timed
from benchmarks.scratch import scratch_store
from memory_context import ContextPolicy, MemoryContext, MemoryStore, UserMemoryPolicy
from memory_context.foundation.tokens import default_token_counter
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.user_memory import UserMemoryText
from memory_context.store.items import ReadScope
from memory_context.store.statements import statements_of_user_memory

__all__ = ["main", "measure_starting"]

STATEMENTS, OTHER_ITEMS, SESSIONS = 30, 200, 8
READER = ReadScope("coder", "new")
_SELECTS = (
    """
    SELECT item.*, content.content FROM memory_context.agent_memories AS item
    JOIN memory_context.agent_memory_contents AS content ON content.user_id = 'alice' AND content.id = item.content_id
    WHERE item.user_id = 'alice' AND item.is_active AND item.memory_type IN ('user_preference', 'user_fact')
        AND item.origin IN ('user_words', 'user_edit', 'application') AND item.valid_until IS NULL
    ORDER BY coalesce(item.valid_from, item.created_at) DESC LIMIT 200
    """,
    """
    SELECT title, summary, last_activity_at FROM memory_context.agent_sessions
    WHERE user_id = 'alice' AND deleted_at IS NULL ORDER BY last_activity_at DESC LIMIT 5
    """,
)


async def measure_starting(rounds: int) -> list[Measured]:
    """Run all measurements in a scratch database, as a user with some history."""
    async with scratch_store() as (store, url), await AsyncConnection[Any].connect(url, autocommit=True) as bare:
        await _live(store)

        async def selects() -> None:
            for select in _SELECTS:
                await (await bare.execute(select)).fetchall()

        by_hand: Timed = lambda: timed(selects())  # noqa: E731
        pair = "two bare SELECTs of the same rows"
        return [
            await compare(f"reading user memory, at the database / {pair}", _at_database(store), by_hand, rounds, 1.5),
            await compare(f"reading and rendering user memory / {pair}", _loaded(store), by_hand, rounds, 5.0),
            await compare("a later step with user memory / without", *_later_steps(store), rounds, 1.2),
            Measured("round trips of a session start", reads := await _reads(store), "<= 2", reads <= 2),
        ]


async def _live(store: MemoryStore) -> None:
    memory = AgentMemory(store, "alice", "coder", "earlier")
    for number in range(STATEMENTS):
        await memory.remember(f"Farm {number} keeps {number * 3} owls in the barn.")
    for number in range(OTHER_ITEMS):
        await memory.store(f"Survey {number}: nothing new.", source="survey")
    for number in range(SESSIONS):
        async with MemoryContext("alice", "coder", f"s{number}", store, policy=_policy(enabled=False)) as context:
            await context.add_message(UserMessage(content=f"Survey farm {number}.", source="user"))


def _policy(*, enabled: bool) -> ContextPolicy:
    return ContextPolicy(user_memory=UserMemoryPolicy(enabled=enabled), store_timeout_seconds=30)


def _at_database(store: MemoryStore) -> Timed:
    async def read() -> None:
        await store._database.read("alice", *statements_of_user_memory(READER))

    return lambda: timed(read())


def _loaded(store: MemoryStore) -> Timed:
    text = UserMemoryText(800, default_token_counter())

    async def load() -> None:
        assert "owls" in text.head(await store.statements.fetch_user_memory("alice", scope=READER), "new").text

    return lambda: timed(load())


def _later_steps(store: MemoryStore) -> tuple[Timed, Timed]:
    def step(enabled: bool) -> Timed:
        context = MemoryContext("alice", "coder", memory_store=store, policy=_policy(enabled=enabled))

        async def once() -> None:
            await context.add_message(UserMessage(content="How many owls?", source="user"))
            await context.get_messages()

        return lambda: timed(once())

    return step(True), step(False)


async def _reads(store: MemoryStore) -> int:
    """Return the transactions of a session's first step; those of background jobs do not count."""
    count, read = 0, store._database.read
    is_session = ContextVar("is_session", default=False)

    async def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal count
        count += is_session.get()
        return await read(*arguments, **named)

    store._database.read = counted  # type: ignore[method-assign]
    is_session.set(True)
    try:
        context = MemoryContext("alice", "coder", memory_store=store, policy=_policy(enabled=True))
        await context.add_message(UserMessage(content="How many owls?", source="user"))
        await context.get_messages()
    finally:
        store._database.read = read  # type: ignore[method-assign]
    return count


def main(arguments: Sequence[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.starting", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=40, help="times each pair is measured (default 40)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    given = parser.parse_args(arguments)
    measured = asyncio.run(measure_starting(given.rounds))
    print_measured(measured, "the start of a session")
    if given.json:
        given.json.write_text(json.dumps([asdict(one) for one in measured], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
