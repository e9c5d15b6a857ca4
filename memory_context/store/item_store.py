"""ItemStore: storing, reading, sharing and forgetting the items of one database.

Storing is all or none in one transaction; every read takes the scope of its reader.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import psycopg
from psycopg.rows import DictRow

from memory_context.errors import ConflictError, ItemDamagedError, StoreError
from memory_context.runtime import in_thread_if_large

from .criteria import MemoryCriteria, criteria_params
from .database import Database
from .forget import ProgressCallback, forget_memories
from .items import (
    SECRET_TYPE,
    MemoryItem,
    NewItem,
    ReadScope,
    Whereabouts,
    checked_content,
    item_from_row,
    refuse_secret,
    row_params,
    scope_params,
)
from .jobs import Jobs
from .pool import Statement
from .search.passages import related_keys
from .sql import load_queries

__all__ = ["ANYBODY", "ItemStore"]

ANYBODY = ReadScope()

_QUERIES = load_queries("agent_memories")
_KEYS_COMPARED = 1000  # some 10 ms of comparing
_logger = logging.getLogger("memory_context")


class ItemStore:
    """The items of one database: the part of `MemoryStore` that stores, reads and forgets them.

    Attributes:
        write_transactions: How many transactions of this object stored items.
    """

    _database: Database
    _jobs: Jobs
    write_transactions = 0

    async def insert_memories(self, user_id: str, items: Sequence[NewItem]) -> list[str]:
        """Store items, all or none, and return the keys they are found by, in the order given.

        The same content again in the same place (agent, session, type, source) has the key it got first. After a
        cancellation or a lost connection they may or may not be stored; storing them again is harmless.

        Raises:
            SecretError: One is of type user_secret; nothing was stored.
            ConflictError: A key belongs to another content of this user; nothing was stored.
            StoreError: The database refused or cannot be reached; nothing was stored.
        """
        if not items:
            return []
        for item in items:
            refuse_secret(item.type)
        size = sum(len(item.content) for item in items) / 50  # a millisecond of SHA-256
        rows = await in_thread_if_large(size, lambda: [row_params(user_id, item) for item in items])
        contents = {content["content_sha256"]: content for content, _ in rows}
        # always in the same order, so that two transactions with the same items wait for, never block, each other
        order = sorted(range(len(rows)), key=lambda at: (rows[at][1]["memory_key"], rows[at][1]["content_sha256"]))
        stored = await self._write_twice(
            user_id,
            *(Statement(_QUERIES["upsert_content"], contents[digest]) for digest in sorted(contents)),
            *(Statement(_QUERIES["upsert_memory"], rows[at][1]) for at in order),
            Statement(_QUERIES["upsert_pending_user"], {"user_id": user_id}),
        )
        self.write_transactions += 1
        answers = {at: row for at, (row,) in zip(order, stored[len(contents) : -1], strict=True)}
        if any(row["is_new"] for row in answers.values()):
            self._jobs.wake(user_id)
        return [answers[at]["memory_key"] for at in range(len(rows))]

    async def fetch_memory(self, user_id: str, memory_key: str, *, scope: ReadScope = ANYBODY) -> MemoryItem | None:
        """Return the item behind a key, whole, forgotten ones included; None if there is none in this scope.

        Raises:
            ItemDamagedError: Its content is not what was stored.
        """
        params = {"memory_key": memory_key, **scope_params(scope)}
        rows = await self._read(user_id, "fetch_memory", params, has_content=True)
        if not rows:
            return None
        (row,) = rows
        content = await _checked(row) if row["is_active"] else ""
        return item_from_row(row, content, "all of", is_whole=True)

    async def fetch_whereabouts(self, user_id: str, memory_key: str) -> Whereabouts | None:
        """Return whose the item behind a key is, in whatever scope: to say why it cannot be read, and whom to ask."""
        rows = await self._read(user_id, "fetch_whereabouts", {"memory_key": memory_key})
        return Whereabouts(**rows[0]) if rows else None

    async def fetch_contents(
        self, user_id: str, memory_keys: Sequence[str], *, scope: ReadScope = ANYBODY
    ) -> dict[str, str]:
        """Return the contents of those of these keys that exist in this scope; damaged ones are left out and logged."""
        if not memory_keys:
            return {}
        params = {"memory_keys": list(memory_keys), **scope_params(scope)}
        contents: dict[str, str] = {}
        for row in await self._read(user_id, "select_contents", params, has_content=True):
            try:
                contents[row["memory_key"]] = await _checked(row)
            except ItemDamagedError as error:  # the others are not to be missed for it
                _logger.error("%s", error)
        return contents

    async def select_keys(
        self, user_id: str, *, like: str | None = None, scope: ReadScope = ANYBODY, limit: int | None = 50
    ) -> list[str]:
        """Return keys of items that were not forgotten, the newest first.

        Args:
            user_id: Whose items.
            like: A key, perhaps mistyped: only those that resemble it, the nearest first, among the 1,000 newest.
            scope: Who reads, and how far.
            limit: How many at most; None for all.
        """
        params = {"limit": limit if like is None else _KEYS_COMPARED, **scope_params(scope)}
        keys = [row["memory_key"] for row in await self._read(user_id, "select_keys", params)]
        return keys if like is None else get_close_matches(like, keys, n=limit or len(keys) or 1)

    async def select_memories(
        self, user_id: str, criteria: MemoryCriteria, *, scope: ReadScope = ANYBODY
    ) -> list[MemoryItem]:
        """Return the items that meet criteria, without their content, in the order and number asked for.

        Secrets of development versions are listed only when their type is asked for, and then only that they exist.
        """
        params = {
            **criteria_params(criteria, await related_keys(self._database, user_id, criteria, scope)),
            **scope_params(scope),
            "order_by": criteria.order_by,
            "oldest_first": criteria.oldest_first,
            "limit": criteria.limit,
            "offset": criteria.offset,
        }
        return [_listed(item_from_row(row)) for row in await self._read(user_id, "select_memories", params)]

    async def fetch_model_summary(self, user_id: str, memory_key: str, *, scope: ReadScope = ANYBODY) -> str | None:
        """Return a model's summary of the item behind a key; None if it has none, or is not in this scope."""
        rows = await self._read(user_id, "fetch_model_summary", {"memory_key": memory_key, **scope_params(scope)})
        return rows[0]["model_summary"] if rows else None

    async def update_model_summary(self, user_id: str, memory_key: str, summary: str, description: str = "") -> bool:
        """Keep a model's summary of an item, and a description of it if one is given; whether the item is there."""
        params = {"memory_key": memory_key, "model_summary": summary, "summary": description}
        return bool(await self._write(user_id, "update_model_summary", params))

    async def share_memory(
        self, user_id: str, memory_key: str, *, agent_id: str, session_id: str, with_agent: str
    ) -> bool:
        """Let an agent read one item of exactly this agent and session; whether it is there."""
        own = {"memory_key": memory_key, "agent_id": agent_id, "session_id": session_id}
        return bool(await self._write(user_id, "update_shared_with", {**own, "with_agent": with_agent}))

    async def forget_memories(
        self,
        user_id: str,
        *,
        agent_id: str,
        session_id: str,
        memory_key: str | None = None,
        progress: ProgressCallback | None = None,
    ) -> list[str]:
        """Erase the items of exactly this agent and session, or the one with a key; return their keys.

        `agent_id` and `session_id` are "" for items of none. Everything they are found by goes too; a tombstone stays,
        so that their keys tell when they were forgotten. `progress` is called after each batch.
        """
        return await forget_memories(self._database, user_id, agent_id, session_id, memory_key, progress)

    async def _read(
        self, user_id: str, name: str, params: Mapping[str, Any], *, has_content: bool = False
    ) -> list[DictRow]:
        statement = Statement(_QUERIES[name], {"user_id": user_id, **params})
        (rows,) = await self._database.read(user_id, statement, kind="content" if has_content else "call")
        return rows

    async def _write(self, user_id: str, name: str, params: Mapping[str, Any]) -> list[DictRow]:
        (rows,) = await self._database.write(user_id, Statement(_QUERIES[name], {"user_id": user_id, **params}))
        return rows

    async def _write_twice(self, user_id: str, *statements: Statement) -> list[list[DictRow]]:
        """Write items; again if a row was in the way, which may have been erased just now."""
        try:
            return await self._database.write(user_id, *statements)
        except StoreError as error:
            if not isinstance(error.__cause__, psycopg.errors.UniqueViolation):
                raise
        try:
            return await self._database.write(user_id, *statements)
        except StoreError as error:
            if isinstance(error.__cause__, psycopg.errors.UniqueViolation):
                raise ConflictError("a memory key is taken by another content: choose another key") from error.__cause__
            raise


async def _checked(row: Mapping[str, Any]) -> str:
    """Return the content of a row, if it is what was stored; a large one is hashed in a thread."""
    size = len(row["content"] or row["content_raw"] or "") / 5  # hashing takes less than reading
    return await in_thread_if_large(size, checked_content, row["memory_key"], row, row["content_sha256"])


def _listed(item: MemoryItem) -> MemoryItem:
    """Return an item as a list shows it: of a secret nothing that somebody wrote."""
    if item.type != SECRET_TYPE:
        return item
    return replace(item, ref=replace(item.ref, description="a secret: not shown"), tags=(), metadata={})
