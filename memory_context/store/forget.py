"""Forgetting items and deleting sessions, which leave tombstones, and erasing users, which leaves none.

    forget:  items made from it ─▶ contexts drop it ─▶ archived sessions ─▶ titles, chats, events ─▶ item and content

The content goes last, so that an interrupted forgetting can be repeated. All writers lock sessions, jobs, contents,
items, threads, the rest, then the list of users.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from psycopg.rows import DictRow

from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.utf8 import escape

from . import tables
from .codec import canonical_json, read_canonical
from .database import EVERY_AGENT, Database
from .items import CONVERSATION_TYPE, content_of
from .limits import TransactionKind
from .redact import FORGOTTEN, Holding, Traces
from .sql import Statement, load_queries

__all__ = [
    "BATCH_ITEMS",
    "ProgressCallback",
    "counted_rows",
    "deletable_rows",
    "erase_user",
    "forget_items",
    "forget_memories",
    "forgetting",
    "redact",
    "tally_of",
]

ProgressCallback = Callable[[int, int], None]
"""Called with the rows done and the initial number of rows."""

_ITEMS = load_queries("agent_memories")
_JOBS = load_queries("jobs")
_CLAIMS = load_queries("session_claims")
_REDACT = load_queries("redact")
_SESSIONS = load_queries("conversations")

_LOCK = ("lock_jobs", "lock_contents", "lock_memories", "delete_names", "delete_index_jobs")  # all lock in this order
_DELETE = (*_LOCK, "delete_memories", "delete_orphaned_contents")
_PASSES = 10
BATCH_ITEMS = 1000


class Tally:
    """Progress that never goes back and ends at all rows."""

    def __init__(self, progress: ProgressCallback | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0
        self.add(0)

    def add(self, rows: int) -> None:
        self._done = min(self._done + rows, self._total)
        if self._progress is not None:
            self._progress(self._done, self._total)

    def finish(self) -> None:
        if self._done < self._total:
            self.add(self._total)


async def forget_memories(
    database: Database,
    user_id: str,
    place: Mapping[str, object],
    memory_key: str | None,
    progress: ProgressCallback | None = None,
) -> list[str]:
    """Erase one or all items of exactly this agent and session, or user memory, too; return their keys."""
    kind: TransactionKind = "batch" if memory_key is None else "call"
    (rows,) = await database.read(user_id, _ITEMS("select_own_ids", place, memory_key=memory_key))
    keys: list[str] = []
    tally = Tally(progress, len(rows))
    for start in range(0, len(rows), BATCH_ITEMS):
        items = rows[start : start + BATCH_ITEMS]
        keys += await forget_items(database, user_id, items, kind=kind)
        tally.add(len(items))
    return keys


async def forget_items(
    database: Database, user_id: str, items: Sequence[DictRow], *, kind: TransactionKind = "call"
) -> list[str]:
    """Forget items and, by their recorded sources, what was made from them; return the keys."""
    if not items:
        return []
    named = {"memory_ids": [row["id"] for row in items]}
    (derived,) = await database.read(user_id, _REDACT("select_derived_ids", named))
    items = [*items, *derived]
    named["memory_ids"] = [row["id"] for row in items]
    (rows,) = await database.read(user_id, _REDACT("select_traces", named), kind="content")
    # what is known of the user names no key of a statement that ended
    said = ((row["session_id"] if row["memory_type"] == CONVERSATION_TYPE else "", content_of(row)) for row in rows)
    traces = Traces.of((row["memory_key"] for row in rows), said)
    places = [SessionKey(user_id, row["agent_id"], row["session_id"]) for row in rows]
    await redact(database, user_id, traces, places=places)
    *_, gone, _ = await database.write(user_id, *forgetting(items), kind=kind, changes_user_memory=True)
    return [row["memory_key"] for row in gone]


async def redact(
    database: Database,
    user_id: str,
    traces: Traces,
    *,
    within_session: str | None = None,
    places: Iterable[SessionKey] = (),
) -> None:
    """Remove traces from contexts, archived sessions (None: all), the audit trail, and copies elsewhere.

    Args:
        places: Sessions whose copies may hold them though the archive does not.
    """
    database.forgettings.tell(user_id, traces)
    named = {"memory_keys": sorted(traces.keys), "probes": traces.probes, "session_ids": sorted(traces.said)}
    holding = _REDACT("select_sessions_holding", named, session_id=within_session)
    (rows,) = await database.read(user_id, holding, kind="batch")
    sessions = {SessionKey(user_id, row["agent_id"], row["session_id"]) for row in rows}
    for session_id in sorted({key.session_id for key in sessions}):
        await _redact_session(database, user_id, {**named, "session_id": session_id}, traces)
    shown = [_shown_elsewhere(session_id, texts, traces) for session_id, texts in traces.said.items()]
    forgotten = _REDACT.each(("update_events_forgotten", "update_reports_forgotten"), named)
    statements = [one for some in shown for one in some]
    await database.write(user_id, *statements, *forgotten, kind="batch", agent_id=EVERY_AGENT)
    for copies in list(database.forgettings.copies):
        await copies.erase_traces(traces, sessions.union(places))


async def _redact_session(database: Database, user_id: str, named: Mapping[str, Any], traces: Traces) -> None:
    """Rewrite the batches of a session, in one transaction for each attempt; chat messages may change meanwhile."""
    held: dict[str, Holding] = {}
    session_id: str = named["session_id"]
    for _ in range(_PASSES):
        (rows,) = await database.read(user_id, _REDACT("select_session_batches", named), kind="batch")
        bodies = [read_canonical(row["message_batch"]) for row in rows]
        for row, body in zip(rows, bodies, strict=True):
            if row["kind"] == "transcript":
                held[row["agent_id"]] = traces.holding(body, session_id, held.get(row["agent_id"]))
        updates = [
            _update(named, row, canonical_json(redacted))
            for row, body in zip(rows, bodies, strict=True)
            if (redacted := traces.redacted(body, session_id, held.get(row["agent_id"]))) != body
        ]
        if not updates:
            break
        await database.write(user_id, _SESSIONS("lock_session", named), *updates, kind="batch")


def _update(named: Mapping[str, Any], row: DictRow, text: str) -> Statement:
    digest = hashlib.sha256(text.encode()).digest() if row["kind"] == "transcript" else None
    return _REDACT("update_batch_redacted", {**named, **row}, redacted=text, redacted_sha256=digest)


def _shown_elsewhere(session_id: str, texts: Collection[str], traces: Traces) -> list[Statement]:
    """Return the statements that take messages of a session from its title, summary, and thread of an interface."""
    given: dict[str, Any] = {"session_id": session_id, "forgotten": FORGOTTEN}
    given |= {"said": [escape(text) for text in texts], "beginnings": traces.beginnings(session_id)}
    return _REDACT.each(("update_titles_forgotten", "update_names_forgotten", "update_steps_forgotten"), given)


def forgetting(items: Sequence[DictRow]) -> list[Statement]:
    """Return the statements that forget items; the last but one returns the keys."""
    return _ITEMS.each((*_LOCK, "update_memories_forgotten", "delete_orphaned_contents"), _ids(items))


def deletable_rows(session_id: str | None) -> tuple[list[Statement], list[Statement]]:
    """Return statements that delete and count rows of tables without tombstones; a session includes its sub-agents'.

    Deletions handle a batch per table; the counts include items.
    """
    params = {"session_id": session_id}
    deleted = [table for table in tables.TABLES if table.name != tables.ITEMS.name and not table.has_tombstones]
    return (
        [Statement(table.statement("delete_rows"), params) for table in deleted],
        [Statement(table.statement("count_rows"), params) for table in (tables.ITEMS, *deleted)],
    )


def counted_rows(results: Sequence[Sequence[DictRow]]) -> int:
    """Return the number of rows counted or deleted."""
    return sum(row["rows"] for (row,) in results)


async def tally_of(
    database: Database, user_id: str, counts: Sequence[Statement], progress: ProgressCallback | None
) -> Tally:
    """Return a tally; without a callback nothing is counted."""
    if progress is None:
        return Tally(None, 0)
    return Tally(progress, counted_rows(await database.read(user_id, *counts, agent_id=EVERY_AGENT, kind="batch")))


async def erase_user(database: Database, user_id: str, progress: ProgressCallback | None = None) -> int:
    """Erase every row of a user; return how many unforgotten items there were.

    Repeats up to 10 times for rows stored meanwhile.
    """
    params: dict[str, object] = {"limit": BATCH_ITEMS}
    deletions, counts = deletable_rows(None)
    scope = {**params, "session_id": None}
    left = [
        Statement(table.statement("count_rows"), scope) for table in tables.TABLES if table.name != tables.ITEMS.name
    ]
    tally = await tally_of(database, user_id, counts, progress)
    erased = 0
    for _ in range(_PASSES):
        erased += await _erase_items(database, user_id, params, tally)
        while rows := counted_rows(await database.write(user_id, *deletions, agent_id=EVERY_AGENT, kind="batch")):
            tally.add(rows)
        results = await database.write(
            user_id,
            _JOBS("delete_user_jobs", params),
            _SESSIONS("lock_sessions", params),
            *(Statement(table.statement("delete_all_rows"), params) for table in tables.TABLES if table.has_tombstones),
            *deletions,  # lock order: rows before the list of users
            _JOBS("lock_user", params),
            _JOBS("delete_user_jobs", params),
            _CLAIMS("delete_user_claims"),
            *deletions,
            *_ITEMS.each(("delete_statistics", "delete_user", "select_ids"), params),
            *left,
            agent_id=EVERY_AGENT,
            kind="batch",
        )
        if not results[-len(left) - 1] and not counted_rows(results[-len(left) :]):
            break
    tally.finish()
    return erased


async def _erase_items(database: Database, user_id: str, params: dict[str, object], tally: Tally) -> int:
    erased = 0
    while True:
        (some,) = await database.read(user_id, _ITEMS("select_ids", params))
        if some:
            *_, gone, _ = await database.write(user_id, *_ITEMS.each(_DELETE, _ids(some)), kind="batch")
            erased += sum(row["is_active"] for row in gone)
            tally.add(len(gone))
        if len(some) < BATCH_ITEMS:  # ends despite concurrent writers
            return erased


def _ids(items: Sequence[DictRow]) -> dict[str, object]:
    contents = {row["content_id"] for row in items} - {None}
    return {"memory_ids": [row["id"] for row in items], "content_ids": sorted(contents)}
