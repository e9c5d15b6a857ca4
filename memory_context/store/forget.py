"""Forgetting items and deleting sessions, which leave tombstones, and erasing users, which leaves none.

    forget:  items made from it ─▶ contexts drop it ─▶ archived sessions ─▶ rows that quote it ─▶ item and content

The content goes last, so that an interrupted forgetting can be repeated. All writers lock sessions, jobs, contents,
items, threads, the rest, then the list of users.
"""

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from psycopg.rows import DictRow

from memory_context.foundation.identifiers import SessionKey

from . import tables
from .codec import canonical_json, read_canonical
from .database import EVERY_AGENT, Database
from .items import CONVERSATION_JOB, content_of
from .limits import TransactionKind
from .redact import FORGOTTEN, Traces, beginning_of
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
    for items in _batches(rows):
        keys += await forget_items(database, user_id, items, kind=kind)
        tally.add(len(items))
    return keys


async def forget_items(
    database: Database, user_id: str, items: Sequence[DictRow], *, kind: TransactionKind = "call"
) -> list[str]:
    """Forget items, what was made from them, and their texts wherever they are kept; return the keys."""
    if not items:
        return []
    named = {"memory_ids": [row["id"] for row in items]}
    (derived,) = await database.read(user_id, _REDACT("select_derived_ids", named))
    items = [*items, *derived]
    named["memory_ids"] = [row["id"] for row in items]
    (rows,) = await database.read(user_id, _REDACT("select_traces", named), kind="content")
    quotes = [row["quote"] or "" for row in rows]
    traces = Traces.of((row["memory_key"] for row in rows), (*map(content_of, rows), *quotes))
    places = [SessionKey(user_id, row["agent_id"], row["session_id"]) for row in rows]
    await redact(database, user_id, traces, places=places, kept_ids=named["memory_ids"])
    *_, gone, _ = await database.write(user_id, *forgetting(items), kind=kind, changes_user_memory=True)
    return [row["memory_key"] for row in gone]


async def redact(
    database: Database,
    user_id: str,
    traces: Traces,
    *,
    within_session: str | None = None,
    places: Iterable[SessionKey] = (),
    kept_ids: Collection[int] = (),
) -> None:
    """Remove traces from contexts, archived sessions (None: all), rows that quote, and copies elsewhere.

    Args:
        places: Sessions whose copies may hold them though the archive does not.
        kept_ids: Items that the caller forgets itself.
    """
    database.forgettings.tell(user_id, traces)
    named = {"probes": list(traces.probes), "memory_keys": sorted(traces.keys)}
    holding = _REDACT("select_sessions_holding", named, session_id=within_session)
    (rows,) = await database.read(user_id, holding, kind="batch")
    sessions = {SessionKey(user_id, row["agent_id"], row["session_id"]) for row in rows}
    rewritten: list[DictRow] = []
    for session_id in sorted({key.session_id for key in sessions}):
        rewritten += await _redact_session(database, user_id, {**named, "session_id": session_id}, traces)
    await _derive_again(
        database, user_id, {**named, "texts": list(traces.forms), "memory_ids": list(kept_ids)}, rewritten
    )
    cuts = [_cut(table, form) for form in traces.forms for table in tables.TABLES if table.quoting]
    forgotten = _REDACT.each(("update_events_forgotten", "update_reports_forgotten"), named)
    await database.write(user_id, *cuts, *forgotten, kind="batch", agent_id=EVERY_AGENT)
    for copies in list(database.forgettings.copies):
        await copies.erase_traces(traces, sessions.union(places))


async def _redact_session(database: Database, user_id: str, named: Mapping[str, Any], traces: Traces) -> list[DictRow]:
    """Rewrite the batches of a session, in one transaction for each attempt; chat messages may change meanwhile."""
    rewritten: list[DictRow] = []
    held: dict[str, set[int]] = {}
    for _ in range(_PASSES):
        (rows,) = await database.read(user_id, _REDACT("select_batches_holding", named), kind="batch")
        for row in (one for one in rows if one["kind"] == "transcript"):
            held.setdefault(row["agent_id"], set()).update(traces.held_by(read_canonical(row["message_batch"])))
        texts = (_redacted(row["message_batch"], traces, held.get(row["agent_id"], ())) for row in rows)
        changed = [(row, text) for row, text in zip(rows, texts, strict=True) if text is not None]
        if not changed:
            break
        updates = [_update(named, row, text) for row, text in changed]
        await database.write(user_id, _SESSIONS("lock_session", named), *updates, kind="batch")
        rewritten += [{**row, "session_id": named["session_id"]} for row, _ in changed if row["kind"] == "transcript"]
    return rewritten


async def _derive_again(database: Database, user_id: str, named: Mapping[str, Any], batches: Sequence[DictRow]) -> None:
    """Make the items of messages that quoted a content anew, from the rewritten batches."""
    (items,) = await database.read(user_id, _REDACT("select_messages_quoting", named), kind="batch")
    if not items:
        return
    erasing = _ITEMS.each(_DELETE, _ids(items))
    jobs = [_JOBS("insert_job", _conversation_job(batch, items)) for batch in batches]
    await database.write(user_id, *erasing, *jobs, _ITEMS("upsert_pending_user"), kind="batch")


def _conversation_job(batch: DictRow, items: Sequence[DictRow]) -> dict[str, Any]:
    place = {name.removesuffix("_id"): batch[name] for name in ("session_id", "agent_id", "branch", "sequence")}
    of_session = [row for row in items if (row["session_id"], row["agent_id"]) == (place["session"], place["agent"])]
    sources = sorted({row["source"] for row in of_session if row["origin"] == "user_words"})
    more = {"is_private": any(row["is_private"] for row in of_session), "user_sources": sources}
    return {"kind": CONVERSATION_JOB, "payload": {**place, **more}, "delay_seconds": 0.0}


def _redacted(batch: str, traces: Traces, held: Collection[int]) -> str | None:
    """Return the canonical form of a changed batch."""
    body = read_canonical(batch)
    redacted = traces.redacted(body, held)
    return None if redacted == body else canonical_json(redacted)


def _update(named: Mapping[str, Any], row: DictRow, text: str) -> Statement:
    digest = hashlib.sha256(text.encode()).digest() if row["kind"] == "transcript" else None
    return _REDACT("update_batch_redacted", {**named, **row}, redacted=text, redacted_sha256=digest)


def _cut(table: tables.Table, text: str) -> Statement:
    json_text = canonical_json(text)[1:-1]
    params = {"text": text, "json_text": json_text, "forgotten": FORGOTTEN}
    params["beginning"] = beginning_of(text)
    return Statement(table.statement("update_quotations"), params)


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


def _batches(rows: Sequence[DictRow]) -> Iterator[Sequence[DictRow]]:
    for start in range(0, len(rows), BATCH_ITEMS):
        yield rows[start : start + BATCH_ITEMS]


def _ids(items: Sequence[DictRow]) -> dict[str, object]:
    contents = {row["content_id"] for row in items} - {None}
    return {"memory_ids": [row["id"] for row in items], "content_ids": sorted(contents)}
