"""Retention: prunes items, audit events and, on request, conversations. It may be interrupted and run concurrently.

user:  old items ─▶ old rows of tables with an age ─▶ old sessions ─▶ old threads
"""

from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from psycopg.rows import DictRow

from memory_context.foundation.references import IMAGE_TYPE

from .. import tables
from ..database import Database, every_user
from ..forget import ProgressCallback
from ..items import CONVERSATION_TYPE, SECRET_TYPE, TRUSTED_ORIGINS, USER_TYPES
from ..sql import Statement, load_queries

__all__ = ["KEPT_TYPES", "PRUNED_TYPES", "PruneReport", "prune"]

_QUERIES = load_queries("prune")
_ITEMS = load_queries("agent_memories")

_LOCK = ("lock_jobs", "lock_contents", "lock_memories")

PRUNED_TYPES = (
    "action_result",
    IMAGE_TYPE,
    "web_content",
    "database_result",
    "command_output",
    "session_summary",
    "article",
    "custom",
)
KEPT_TYPES = (*USER_TYPES, SECRET_TYPE, CONVERSATION_TYPE)

BATCH_ITEMS = 500
BATCH_SESSIONS = 50  # each deletes its archive, too


@dataclass(frozen=True)
class PruneReport:
    """Pruned rows.

    Attributes:
        items: Items that became tombstones.
        content_bytes: Freed bytes of contents.
        others: Rows of other tables, by record.
    """

    items: int = 0
    events: int = 0
    sessions: int = 0
    content_bytes: int = 0
    others: Mapping[str, int] = field(default_factory=dict[str, int])


async def prune(
    database: Database,
    older_than: timedelta | datetime,
    types: Sequence[str] | None,
    conversations: bool,
    progress: ProgressCallback | None,
    *,
    dry_run: bool = False,
) -> PruneReport:
    """Prune old data of all users; see `MemoryStore.prune`."""
    pruning = _Pruning(database, older_than, types, progress)
    users = [user_id async for user_id in every_user(database)]
    pruning.users = len(users)
    for user_id in users:
        if dry_run:
            await pruning.count(user_id)
        else:
            await pruning.items_of(user_id)
            await pruning.rows_of(user_id, conversations)
        pruning.users_done += 1
        pruning.tell()
    events = pruning.rows.pop("event", 0)
    return PruneReport(pruning.items, events, pruning.sessions, pruning.content_bytes, +pruning.rows)


class _Pruning:
    def __init__(
        self,
        database: Database,
        older_than: timedelta | datetime,
        types: Sequence[str] | None,
        progress: ProgressCallback | None,
    ) -> None:
        self._database = database
        self._same: dict[str, Any] = {
            "cutoff": _cutoff(older_than),
            "types": list(_checked_types(types)),
            "claimed_types": list(USER_TYPES if types is None else ()),
            "trusted_origins": list(TRUSTED_ORIGINS),
        }
        self._aged = [table for table in tables.TABLES if table.age is not None]
        self._progress = progress
        self.users = self.users_done = 0
        self.items = self.sessions = self.content_bytes = 0
        self.rows: Counter[str] = Counter()

    async def count(self, user_id: str) -> None:
        counts = [Statement(table.statement("count_old_rows"), self._same) for table in self._aged]
        (found,), *rows = await self._database.read(user_id, _QUERIES("count_prunable", self._same), *counts)
        self.rows.update({table.record: row["rows"] for table, (row,) in zip(self._aged, rows, strict=True)})
        self.items += found["items"]
        self.sessions += found["sessions"]
        self.content_bytes += found["content_bytes"]

    async def items_of(self, user_id: str) -> None:
        params = {**self._same, "after_at": None, "after_memory_id": 0, "limit": BATCH_ITEMS}
        page = _QUERIES("select_old_items", params)
        while old := (await self._database.read(user_id, page, kind="batch"))[0]:
            ids = {
                "memory_ids": [row["id"] for row in old],
                "content_ids": sorted({row["content_id"] for row in old}),
            }
            *_, pruned, freed = await self._delete(user_id, {**params, **ids}, "update_memories_pruned")
            self.items += len(pruned)
            self._note_freed(freed)
            page = _QUERIES("select_old_items", params, after_at=old[-1]["created_at"], after_memory_id=old[-1]["id"])

    async def rows_of(self, user_id: str, conversations: bool) -> None:
        for table in self._aged:
            async for gone in self._deleted(user_id, table.statement("delete_old_rows")):
                self.rows[table.record] += len(gone)
        if conversations:
            await self.sessions_of(user_id)
            async for _ in self._deleted(user_id, _QUERIES["delete_old_threads"]):
                pass

    async def sessions_of(self, user_id: str) -> None:
        """Delete old sessions, each with its messages in one transaction."""
        params: dict[str, Any] = {**self._same, "after_session_id": "", "limit": BATCH_SESSIONS}
        page = _QUERIES("select_old_sessions", params)
        while old := (await self._database.read(user_id, page, kind="batch"))[0]:
            ids: dict[str, Any] = {"session_ids": [row["session_id"] for row in old]}
            for name in ("memory_ids", "content_ids"):
                ids[name] = sorted({id_ for row in old for id_ in row[name]})
            deletion = _QUERIES("delete_old_sessions", {**params, **ids})
            gone, *_, freed = await self._delete(user_id, {**params, **ids}, "update_messages_pruned", deletion)
            self.sessions += sum(row["deleted_at"] is None for row in gone)
            self._note_freed(freed)
            page = _QUERIES("select_old_sessions", params, after_session_id=old[-1]["session_id"])

    async def _delete(
        self, user_id: str, params: Mapping[str, Any], pruning: str, *before: Statement
    ) -> list[list[DictRow]]:
        steps = (*before, *_ITEMS.each(_LOCK, params), _QUERIES(pruning, params))
        return await self._database.write(user_id, *steps, _ITEMS("delete_orphaned_contents", params), kind="batch")

    async def _deleted(self, user_id: str, query: bytes) -> AsyncGenerator[list[DictRow], None]:
        """Repeat a deletion until it finds nothing; yield each batch."""
        deletion = Statement(query, {**self._same, "limit": BATCH_SESSIONS})
        while gone := (await self._database.write(user_id, deletion, kind="batch"))[0]:
            yield gone
            self.tell()

    def _note_freed(self, freed: Sequence[DictRow]) -> None:
        self.content_bytes += sum(row["content_bytes"] for row in freed)
        self.tell()

    def tell(self) -> None:
        if self._progress is not None:
            self._progress(self.users_done, self.users)


def _cutoff(older_than: timedelta | datetime) -> datetime:
    now = datetime.now(timezone.utc)
    if isinstance(older_than, timedelta):
        if older_than <= timedelta(0):
            raise ValueError(f"older_than={older_than!r}: give an age above zero, such as timedelta(days=90)")
        try:
            return now - older_than
        except OverflowError:
            raise ValueError(f"older_than={older_than!r} reaches back before the year 1") from None
    if older_than.utcoffset() is None:
        raise ValueError(f"older_than={older_than!r} has no timezone: use datetime.now(timezone.utc) less an age")
    if older_than >= now:
        raise ValueError(f"older_than={older_than!r}: give a time in the past")
    return older_than


def _checked_types(types: Sequence[str] | None) -> Sequence[str]:
    if types is None:
        return PRUNED_TYPES
    if isinstance(types, str):
        raise ValueError(f"types={types!r}: give a list of types")
    if kept := [one for one in types if one in KEPT_TYPES]:
        raise ValueError(
            f"types={kept!r} are never pruned, only forgotten one by one, with their session or with their user"
        )
    return types
