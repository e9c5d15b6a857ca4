"""ItemStore: storing, reading, sharing and forgetting items."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import psycopg
from psycopg.rows import DictRow

from memory_context.foundation.errors import ConflictError, ItemDamagedError, StoreError
from memory_context.foundation.runtime.background import in_thread_if_large

from .codec import canonical_json
from .criteria import MemoryCriteria, criteria_params
from .database import Database
from .forget import ProgressCallback, forget_memories
from .items import (
    ANYBODY,
    SECRET_TYPE,
    TRUSTED_ORIGINS,
    USER_TYPES,
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
from .search.conversation import KEY_STEM
from .sql import Statement, load_queries

__all__ = ["ItemStore"]

_QUERIES = load_queries("agent_memories")
_KEYS_COMPARED = 1000  # about 10 ms
_logger = logging.getLogger("memory_context")


class ItemStore:
    """Items of all users; reads without a scope return nothing private."""

    def __init__(self, database: Database, jobs: Jobs) -> None:
        self._database = database
        self._jobs = jobs
        self.write_transactions = 0

    async def insert_memories(self, user_id: str, items: Sequence[NewItem]) -> list[str]:
        """Store items, all or none, and return their keys in order.

        The same content in the same place (agent, session, type, source) keeps its first key, so retries are harmless.

        Raises:
            SecretError: An item is a user_secret.
            ConflictError: A key belongs to another content.
            StoreError: The database failed.
        """
        if not items:
            return []
        for item in items:
            refuse_secret(item.type)
        size = sum(len(item.content) for item in items) / 50  # 1 ms of SHA-256
        rows = await in_thread_if_large(size, lambda: [row_params(item) for item in items])
        contents = {content["content_sha256"]: content for content, _ in rows}
        # a fixed order prevents deadlocks between transactions
        order = sorted(range(len(rows)), key=lambda at: (rows[at][1]["memory_key"], rows[at][1]["content_sha256"]))
        given = [{**rows[at][1], "content_sha256": rows[at][1]["content_sha256"].hex()} for at in order]
        *_, stored = await self._write_twice(
            user_id,
            *(_QUERIES("upsert_content", contents[digest])._replace(keeps_plan=True) for digest in sorted(contents)),
            _QUERIES("upsert_memories", items=canonical_json(given))._replace(keeps_plan=True),
            changes_user_memory=any(item.type in USER_TYPES and item.origin in TRUSTED_ORIGINS for item in items),
        )
        self.write_transactions += 1
        if any(row["is_new"] for row in stored):
            self._jobs.wake(user_id)
        keys = {at: row["memory_key"] for at, row in zip(order, stored, strict=True)}
        return [keys[at] for at in range(len(rows))]

    async def fetch_memory(self, user_id: str, memory_key: str, *, scope: ReadScope = ANYBODY) -> MemoryItem | None:
        """Return the whole item, also if forgotten; None if out of scope. `ItemDamagedError` if its hash differs."""
        params = {"memory_key": memory_key, **scope_params(scope)}
        rows = await self._read(user_id, "fetch_memory", params, has_content=True)
        if not rows:
            return None
        (row,) = rows
        content = await _checked(row) if row["is_active"] else ""
        item = item_from_row(row, content, "all of", is_whole=True)
        return replace(item, data=bytes(row["content_raw"])) if item.content_type else item

    async def fetch_whereabouts(self, user_id: str, memory_key: str) -> Whereabouts | None:
        """Return an item's owner in any scope, to explain refusals."""
        rows = await self._read(user_id, "fetch_whereabouts", {"memory_key": memory_key})
        return Whereabouts(**rows[0]) if rows else None

    async def fetch_contents(
        self, user_id: str, memory_keys: Sequence[str], *, scope: ReadScope = ANYBODY
    ) -> dict[str, str]:
        """Return contents in scope; damaged ones are logged and omitted."""
        if not memory_keys:
            return {}
        params = {"memory_keys": list(memory_keys), **scope_params(scope)}
        contents: dict[str, str] = {}
        for row in await self._read(user_id, "select_contents", params, has_content=True):
            try:
                contents[row["memory_key"]] = await _checked(row)
            except ItemDamagedError as error:
                _logger.error("%s", error)
        return contents

    async def fetch_images(
        self, user_id: str, memory_keys: Sequence[str], *, scope: ReadScope = ANYBODY
    ) -> dict[str, bytes]:
        """Return the bytes of images in scope; damaged ones are logged and omitted."""
        if not memory_keys:
            return {}
        params = {"memory_keys": list(memory_keys), **scope_params(scope)}
        images: dict[str, bytes] = {}
        for row in await self._read(user_id, "select_contents", params, has_content=True):
            if row["content_type"]:
                try:
                    await _checked(row)
                    images[row["memory_key"]] = bytes(row["content_raw"])
                except ItemDamagedError as error:
                    _logger.error("%s", error)
        return images

    async def select_keys(
        self, user_id: str, *, like: str | None = None, scope: ReadScope = ANYBODY, limit: int | None = 50
    ) -> list[str]:
        """Return keys of unforgotten items, newest first; a mistyped `like` selects similar recent ones, best first."""
        params = {
            "limit": limit if like is None else _KEYS_COMPARED,
            "with_conversation": like is None or like.startswith(KEY_STEM),
            **scope_params(scope),
        }
        keys = [row["memory_key"] for row in await self._read(user_id, "select_keys", params)]
        return keys if like is None else get_close_matches(like, keys, n=limit or len(keys) or 1)

    async def select_memories(
        self, user_id: str, criteria: MemoryCriteria, *, scope: ReadScope = ANYBODY
    ) -> list[MemoryItem]:
        """Return matching items without content; secrets only if their type is requested, without description.

        Archived messages are listed only if requested, by type or `conversation`.
        """
        criteria = criteria.for_listing
        related: list[str] = []
        if criteria.related_to is not None:
            from .search.passages import related_keys  # here: search takes as long to import as the listing

            related = await related_keys(self._database, user_id, criteria, scope)
        params = {
            **criteria_params(criteria, related),
            **scope_params(scope),
            "order_by": criteria.order_by,
            "oldest_first": criteria.oldest_first,
            "limit": criteria.limit,
            "offset": criteria.offset,
        }
        return [_listed(item_from_row(row)) for row in await self._read(user_id, "select_memories", params)]

    async def fetch_model_summary(self, user_id: str, memory_key: str, *, scope: ReadScope = ANYBODY) -> str | None:
        """Return a model's summary of an item; None without one."""
        rows = await self._read(user_id, "fetch_model_summary", {"memory_key": memory_key, **scope_params(scope)})
        return rows[0]["model_summary"] if rows else None

    async def update_model_summary(self, user_id: str, memory_key: str, summary: str, description: str = "") -> bool:
        """Keep a model's summary and any description; False if missing."""
        params = {"memory_key": memory_key, "model_summary": summary, "summary": description}
        return bool(await self._write(user_id, "update_model_summary", params))

    async def share_memory(
        self, user_id: str, memory_key: str, *, agent_id: str, session_id: str, with_agent: str
    ) -> bool:
        """Let an agent read one item of exactly this agent and session."""
        own = {"memory_key": memory_key, "agent_id": agent_id, "session_id": session_id}
        return bool(await self._write(user_id, "update_shared_with", {**own, "with_agent": with_agent}))

    async def forget_memories(
        self,
        user_id: str,
        *,
        agent_id: str,
        session_id: str,
        memory_key: str | None = None,
        with_statements: bool = False,
        progress: ProgressCallback | None = None,
    ) -> list[str]:
        """Erase one or all items of exactly this agent and session ("" for none); return their keys.

        Tombstones keep the time of forgetting. `with_statements` adds user memory, which belongs to no agent.
        """
        place = {"agent_id": agent_id, "session_id": session_id, "with_statements": with_statements}
        return await forget_memories(self._database, user_id, place, memory_key, progress)

    async def _read(
        self, user_id: str, name: str, params: Mapping[str, Any], *, has_content: bool = False
    ) -> list[DictRow]:
        statement = _QUERIES(name, params)
        (rows,) = await self._database.read(user_id, statement, kind="content" if has_content else "call")
        return rows

    async def _write(self, user_id: str, name: str, params: Mapping[str, Any]) -> list[DictRow]:
        (rows,) = await self._database.write(user_id, _QUERIES(name, params))
        return rows

    async def _write_twice(
        self, user_id: str, *statements: Statement, changes_user_memory: bool
    ) -> list[list[DictRow]]:
        """Retry once: the conflicting row may be erased now."""
        try:
            return await self._database.write(user_id, *statements, changes_user_memory=changes_user_memory)
        except StoreError as error:
            if not isinstance(error.__cause__, psycopg.errors.UniqueViolation):
                raise
        try:
            return await self._database.write(user_id, *statements, changes_user_memory=changes_user_memory)
        except StoreError as error:
            if isinstance(error.__cause__, psycopg.errors.UniqueViolation):
                raise ConflictError("a memory key is taken by another content: choose another key") from error.__cause__
            raise


async def _checked(row: Mapping[str, Any]) -> str:
    size = len(row["content"] or row["content_raw"] or "") / 5  # hashing is cheap
    return await in_thread_if_large(size, checked_content, row["memory_key"], row, row["content_sha256"])


def _listed(item: MemoryItem) -> MemoryItem:
    """Hide everything written about a secret."""
    if item.type != SECRET_TYPE:
        return item
    return replace(item, ref=replace(item.ref, description="a secret: not shown"), tags=(), metadata={})
