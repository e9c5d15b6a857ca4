"""Storing items: all or none in one transaction, each with the job to index it; and what is changed of them later."""

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg.rows import DictRow

from memory_context.errors import ConflictError, StoreError
from memory_context.escaping import escape, unescape
from memory_context.runtime import in_thread_if_large

from .database import Database
from .pool import Statement
from .provenance import refuse_secret
from .rows import NewMemory, row_for
from .sqlfiles import load_queries

__all__ = ["Stored", "insert_memories", "share_memory", "update_model_summary"]

_QUERIES = load_queries("agent_memories")


@dataclass(frozen=True)
class Stored:
    """What became of items.

    Attributes:
        keys: The keys they are found by, in the order given.
        is_new: Whether one of them was not there before, and is to be indexed.
    """

    keys: list[str]
    is_new: bool


async def insert_memories(database: Database, user_id: str, memories: Sequence[NewMemory]) -> Stored:
    """Store items, all or none.

    Raises:
        SecretError: One is of the type of secrets; nothing was stored.
        ConflictError: A key belongs to another content of this user; nothing was stored.
        StoreError: The database refused or cannot be reached; nothing was stored.
    """
    for memory in memories:
        refuse_secret(memory.memory_type)
    size = sum(len(memory.content) for memory in memories) / 50  # a millisecond of SHA-256
    rows = await in_thread_if_large(size, lambda: [row_for(user_id, memory) for memory in memories])
    # always in the same order, so that two transactions with the same items wait for, never block, each other
    order = sorted(range(len(rows)), key=lambda index: (rows[index]["memory_key"], rows[index]["content_sha256"]))
    contents = {row["content_sha256"]: row for row in rows}
    statements = [Statement(_QUERIES["upsert_content"], contents[digest]) for digest in sorted(contents)]
    # without the content: the time that a transaction gets is counted from what its statements carry
    items = [{**row, "content": None, "content_raw": None} for row in rows]
    statements += [Statement(_QUERIES["upsert_memory"], items[index]) for index in order]
    statements.append(Statement(_QUERIES["upsert_pending_user"], {"user_id": escape(user_id)}))
    *stored, _ = (await _write_twice(database, user_id, statements))[len(contents) :]
    keys = [""] * len(rows)
    is_new = False
    for index, (row,) in zip(order, stored, strict=True):
        keys[index] = unescape(row["memory_key"])
        is_new |= row["is_new"]
    return Stored(keys, is_new)


async def update_model_summary(
    database: Database, user_id: str, memory_key: str, summary: str, description: str
) -> bool:
    """Keep what a model said of an item, and what it is called; whether the item is there."""
    params = {"user_id": escape(user_id), "memory_key": escape(memory_key), "model_summary": escape(summary)}
    params["summary"] = escape(description)
    (rows,) = await database.write(user_id, Statement(_QUERIES["update_model_summary"], params))
    return bool(rows)


async def share_memory(
    database: Database, user_id: str, memory_key: str, agent_id: str, session_id: str, with_agent: str
) -> bool:
    """Let an agent read one item of exactly this agent and session; whether it is there."""
    params = {
        "user_id": escape(user_id),
        "memory_key": escape(memory_key),
        "agent_id": escape(agent_id),
        "session_id": escape(session_id),
        "with_agent": escape(with_agent),
    }
    (rows,) = await database.write(user_id, Statement(_QUERIES["update_shared_with"], params))
    return bool(rows)


async def _write_twice(database: Database, user_id: str, statements: Sequence[Statement]) -> list[list[DictRow]]:
    for is_last_attempt in (False, True):
        try:
            return await database.write(user_id, *statements)
        except StoreError as error:
            if not isinstance(error.__cause__, psycopg.errors.UniqueViolation):
                raise
            # What stood in the way may have been erased just now; if not, the key belongs to another content.
            if is_last_attempt:
                raise ConflictError("a memory key is taken by another content: choose another key") from error.__cause__
    raise AssertionError("unreachable")
