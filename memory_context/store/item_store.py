"""Storing and reading items. Storing is all or none in one transaction; every read takes the scope of its reader."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import psycopg
from psycopg.rows import DictRow

from memory_context.errors import ConflictError, ItemDamagedError, StoreError
from memory_context.runtime import in_thread_if_large

from .criteria import MemoryCriteria, criteria_params
from .database import Database
from .items import (
    SECRET_TYPE,
    NewMemory,
    ReadScope,
    StoredMemory,
    Whereabouts,
    checked_content,
    memory_from_row,
    refuse_secret,
    row_for,
    scope_params,
    whereabouts_from_row,
)
from .pool import Statement
from .search.passages import related_keys
from .sql import load_queries

__all__ = [
    "Stored",
    "fetch_contents",
    "fetch_memory",
    "fetch_model_summary",
    "fetch_whereabouts",
    "insert_memories",
    "select_keys",
    "select_memories",
    "share_memory",
    "update_model_summary",
]

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
    statements.append(Statement(_QUERIES["upsert_pending_user"], {"user_id": user_id}))
    *stored, _ = (await _write_twice(database, user_id, statements))[len(contents) :]
    keys = [""] * len(rows)
    is_new = False
    for index, (row,) in zip(order, stored, strict=True):
        keys[index] = row["memory_key"]
        is_new |= row["is_new"]
    return Stored(keys, is_new)


async def update_model_summary(
    database: Database, user_id: str, memory_key: str, summary: str, description: str
) -> bool:
    """Keep what a model said of an item, and what it is called; whether the item is there."""
    params = {"user_id": user_id, "memory_key": memory_key, "model_summary": summary}
    params["summary"] = description
    (rows,) = await database.write(user_id, Statement(_QUERIES["update_model_summary"], params))
    return bool(rows)


async def share_memory(
    database: Database, user_id: str, memory_key: str, agent_id: str, session_id: str, with_agent: str
) -> bool:
    """Let an agent read one item of exactly this agent and session; whether it is there."""
    params = {
        "user_id": user_id,
        "memory_key": memory_key,
        "agent_id": agent_id,
        "session_id": session_id,
        "with_agent": with_agent,
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


_logger = logging.getLogger("memory_context")

_KEYS_COMPARED = 1000  # some 10 ms of comparing


async def fetch_memory(database: Database, user_id: str, memory_key: str, scope: ReadScope) -> StoredMemory | None:
    """Return the item behind a key, forgotten ones included; None if there is none in this scope."""
    params = {"user_id": user_id, "memory_key": memory_key, **scope_params(scope)}
    (rows,) = await database.read(user_id, Statement(_QUERIES["fetch_memory"], params), kind="content")
    if not rows:
        return None
    (row,) = rows
    if row["is_active"]:
        row = {**row, "content": await _checked(row), "content_raw": None}
    return memory_from_row(row)


async def fetch_whereabouts(database: Database, user_id: str, memory_key: str) -> Whereabouts | None:
    """Return whose the item behind a key is, in whatever scope."""
    params = {"user_id": user_id, "memory_key": memory_key}
    (rows,) = await database.read(user_id, Statement(_QUERIES["fetch_whereabouts"], params))
    return whereabouts_from_row(rows[0]) if rows else None


async def fetch_model_summary(database: Database, user_id: str, memory_key: str, scope: ReadScope) -> str | None:
    """Return what a model said of the item behind a key; None if nothing, or if it is not in this scope."""
    params = {"user_id": user_id, "memory_key": memory_key, **scope_params(scope)}
    (rows,) = await database.read(user_id, Statement(_QUERIES["fetch_model_summary"], params))
    return rows[0]["model_summary"] if rows else None


async def fetch_contents(
    database: Database, user_id: str, memory_keys: Sequence[str], scope: ReadScope
) -> dict[str, str]:
    """Return the contents of those of these keys that exist in this scope; what is damaged is left out and logged."""
    if not memory_keys:
        return {}
    params = {"user_id": user_id, "memory_keys": list(memory_keys), **scope_params(scope)}
    (rows,) = await database.read(user_id, Statement(_QUERIES["select_contents"], params), kind="content")
    contents: dict[str, str] = {}
    for row in rows:
        try:
            contents[row["memory_key"]] = await _checked(row)
        except ItemDamagedError as error:  # the others are not to be missed for it
            _logger.error("%s", error)
    return contents


async def _checked(row: Mapping[str, Any]) -> str:
    """Return the content of a row, if it is what was stored; a large one is hashed in a thread."""
    key, content_sha256 = row["memory_key"], row["content_sha256"]
    size = len(row["content"] or row["content_raw"] or "") / 5  # hashing takes less than reading
    return await in_thread_if_large(size, checked_content, key, row, content_sha256)


async def select_keys(
    database: Database, user_id: str, like: str | None, scope: ReadScope, limit: int | None
) -> list[str]:
    """Return keys of items that were not forgotten, the newest first; or those that resemble one, the nearest first."""
    params = {"user_id": user_id, "limit": limit if like is None else _KEYS_COMPARED, **scope_params(scope)}
    (rows,) = await database.read(user_id, Statement(_QUERIES["select_keys"], params))
    keys = [row["memory_key"] for row in rows]
    return keys if like is None else get_close_matches(like, keys, n=limit or len(keys) or 1)


async def select_memories(
    database: Database, user_id: str, criteria: MemoryCriteria, scope: ReadScope
) -> list[StoredMemory]:
    """Return the items that meet criteria, without their content, in the order and number asked for.

    Secrets of earlier versions are listed only when their type is asked for, and then as that they are there.
    """
    params = {
        **criteria_params(criteria, await related_keys(database, user_id, criteria, scope)),
        **scope_params(scope),
        "user_id": user_id,
        "order_by": criteria.order_by,
        "oldest_first": criteria.oldest_first,
        "limit": criteria.limit,
        "offset": criteria.offset,
    }
    (rows,) = await database.read(user_id, Statement(_QUERIES["select_memories"], params))
    return [_listed(memory_from_row(row)) for row in rows]


def _listed(memory: StoredMemory) -> StoredMemory:
    """Return an item as a list shows it: of a secret nothing that somebody wrote."""
    if memory.memory_type != SECRET_TYPE:
        return memory
    return replace(memory, summary="a secret: not shown", tags=(), metadata={})
