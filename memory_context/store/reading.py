"""Reading items: one by its key, many at once, and what meets criteria, each within the scope of who reads."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from memory_context.errors import ItemDamagedError
from memory_context.escaping import escape, unescape
from memory_context.runtime import in_thread_if_large

from .criteria import MemoryCriteria, criteria_params
from .database import Database
from .pool import Statement
from .provenance import SECRET_TYPE
from .rows import StoredMemory, Whereabouts, checked_content, memory_from_row, whereabouts_from_row
from .scope import ReadScope, scope_params
from .search import related_keys
from .sqlfiles import load_queries

__all__ = [
    "fetch_contents",
    "fetch_memory",
    "fetch_model_summary",
    "fetch_whereabouts",
    "select_keys",
    "select_memories",
]

_QUERIES = load_queries("agent_memories")
_logger = logging.getLogger("memory_context")

_KEYS_COMPARED = 1000  # some 10 ms of comparing


async def fetch_memory(database: Database, user_id: str, memory_key: str, scope: ReadScope) -> StoredMemory | None:
    """Return the item behind a key, forgotten ones included; None if there is none in this scope."""
    params = {"user_id": escape(user_id), "memory_key": escape(memory_key), **scope_params(scope)}
    (rows,) = await database.read(user_id, Statement(_QUERIES["fetch_memory"], params), kind="content")
    if not rows:
        return None
    (row,) = rows
    if row["is_active"]:
        row = {**row, "content": await _checked(row), "content_raw": None}
    return memory_from_row(row)


async def fetch_whereabouts(database: Database, user_id: str, memory_key: str) -> Whereabouts | None:
    """Return whose the item behind a key is, in whatever scope."""
    params = {"user_id": escape(user_id), "memory_key": escape(memory_key)}
    (rows,) = await database.read(user_id, Statement(_QUERIES["fetch_whereabouts"], params))
    return whereabouts_from_row(rows[0]) if rows else None


async def fetch_model_summary(database: Database, user_id: str, memory_key: str, scope: ReadScope) -> str | None:
    """Return what a model said of the item behind a key; None if nothing, or if it is not in this scope."""
    params = {"user_id": escape(user_id), "memory_key": escape(memory_key), **scope_params(scope)}
    (rows,) = await database.read(user_id, Statement(_QUERIES["fetch_model_summary"], params))
    return unescape(rows[0]["model_summary"]) if rows else None


async def fetch_contents(
    database: Database, user_id: str, memory_keys: Sequence[str], scope: ReadScope
) -> dict[str, str]:
    """Return the contents of those of these keys that exist in this scope; what is damaged is left out and logged."""
    if not memory_keys:
        return {}
    params = {"user_id": escape(user_id), "memory_keys": [escape(key) for key in memory_keys], **scope_params(scope)}
    (rows,) = await database.read(user_id, Statement(_QUERIES["select_contents"], params), kind="content")
    contents: dict[str, str] = {}
    for row in rows:
        try:
            contents[unescape(row["memory_key"])] = await _checked(row)
        except ItemDamagedError as error:  # the others are not to be missed for it
            _logger.error("%s", error)
    return contents


async def _checked(row: Mapping[str, Any]) -> str:
    """Return the content of a row, if it is what was stored; a large one is hashed in a thread."""
    key, content_sha256 = unescape(row["memory_key"]), row["content_sha256"]
    size = len(row["content"] or row["content_raw"] or "") / 5  # hashing takes less than reading
    return await in_thread_if_large(size, checked_content, key, row, content_sha256)


async def select_keys(
    database: Database, user_id: str, like: str | None, scope: ReadScope, limit: int | None
) -> list[str]:
    """Return keys of items that were not forgotten, the newest first; or those that resemble one, the nearest first."""
    params = {"user_id": escape(user_id), "limit": limit if like is None else _KEYS_COMPARED, **scope_params(scope)}
    (rows,) = await database.read(user_id, Statement(_QUERIES["select_keys"], params))
    keys = [unescape(row["memory_key"]) for row in rows]
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
        "user_id": escape(user_id),
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
