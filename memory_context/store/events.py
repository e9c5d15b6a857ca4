"""The audit trail's events: buffered in memory, written in batches.

    add ─▶ waiting ──100 events, 30 s, close, audit──▶ one transaction a user ─▶ agent_memory_events, last_used_at

Beyond 10,000 the oldest are dropped. A killed process loses up to 30 s.
"""

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

from memory_context.foundation.errors import StoreError, StoreUnavailableError
from memory_context.foundation.runtime.background import outages_of
from memory_context.foundation.runtime.buffers import Flusher, Unwritten

from .database import Database
from .items import ANYBODY, ReadScope, scope_params
from .redact import Traces
from .sql import Statement, load_queries

__all__ = ["AuditEvent", "EventKind", "EventLog", "NewEvent"]

_QUERIES = load_queries("events")

EventKind = Literal[
    "stored",
    "forgotten",
    "retrieved",
    "searched",
    "listed",
    "paged",
    "expanded",
    "recalled",
    "withdrawn",
    "compacted",
    "folded",
    "observed",
    "shortened",
    "cleared",
    "lost",
]
"""Kinds of events; `stored` and `forgotten` come from item rows, `lost` from earlier versions; none are `observed`."""

USES = frozenset[EventKind](("retrieved", "searched", "expanded", "recalled"))
"""Kinds that showed an item; they update `last_used_at`."""

BATCH_EVENTS = 100
WAIT_SECONDS = 30.0
MOST_WAITING = 10_000
_WRITING = "writing the audit trail"
_TICK_SECONDS = 2e-6  # the server counts microseconds


@dataclass(frozen=True)
class NewEvent:
    """An event that just happened; `is_private` hides it from other agents and sessions."""

    kind: EventKind
    keys: tuple[str, ...] = ()
    detail: str = ""
    agent_id: str = ""
    session_id: str = ""
    is_private: bool = False


@dataclass(frozen=True)
class AuditEvent:
    """An event on items, in UTC by the database's clock; `stored` and `forgotten` derive from the item's row.

    Attributes:
        session_id: Empty for none, like `agent_id`.
        kind: `recalled`, `withdrawn`: moved into or out of the view.
        id: Distinguishes events of the same time.
    """

    at: datetime
    session_id: str
    agent_id: str
    kind: EventKind
    keys: tuple[str, ...]
    detail: str
    id: str


@dataclass(frozen=True)
class _Waiting:
    user_id: str
    event: NewEvent
    moment: float  # monotonic
    id: str


class EventLog:
    """The events of one database; `buffers` writes them before the store closes."""

    write_order = 2
    extra_seconds = 0.0

    def __init__(self, database: Database, buffers: Unwritten) -> None:
        self._database = database
        self._outages = outages_of(database)
        self._buffers = buffers
        database.forgettings.watch(self)
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque(maxlen=MOST_WAITING)
        self._last_moment = 0.0
        self._sent = 0  # in flight
        self._flusher = Flusher(
            "memory_context events",
            self._write_all,
            lambda: len(self._waiting),
            batch=BATCH_EVENTS,
            batch_seconds=WAIT_SECONDS,
            retry_seconds=WAIT_SECONDS,
            on_failure=self._note_failure,
        )

    @property
    def unwritten(self) -> str:
        """Events that could be lost; empty for none."""
        count = len(self._waiting) + self._sent
        return f"{count:,} events of the audit trail" if count else ""

    async def write_out(self, *, is_last: bool) -> None:
        """Write the waiting events; on `StoreUnavailableError` they wait on."""
        await self.flush()

    def drop_traces(self, user_id: str, traces: Traces) -> None:
        """Drop the reasons of events that concern forgotten items."""
        with self._lock:
            for place, one in enumerate(self._waiting):
                if one.user_id == user_id and traces.keys & set(one.event.keys):
                    self._waiting[place] = replace(one, event=replace(one.event, detail=""))

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def add(self, user_id: str, event: NewEvent) -> None:
        """Buffer an event for the next batch; does no I/O and never raises."""
        with self._lock:
            self._last_moment = max(time.monotonic(), self._last_moment + _TICK_SECONDS)
            self._waiting.append(_Waiting(user_id, event, self._last_moment, str(uuid.uuid4())))
        self._buffers.hold(self)
        self._flusher.note()

    async def flush(self, user_id: str | None = None) -> None:
        """Write the waiting events of one user or all; on `StoreUnavailableError` they wait on."""
        await self._flusher.flush(None if user_id is None else lambda: self._write(user_id), is_shielded=False)

    def discard(self, user_id: str) -> None:
        self._take(user_id)
        self._release_if_written()

    def _release_if_written(self) -> None:
        if not self.unwritten:
            self._buffers.release(self)

    async def stop(self) -> None:
        """Stop this event loop's background task; unwritten events wait on."""
        await self._flusher.stop()

    async def select(
        self,
        user_id: str,
        session_id: str,
        *,
        scope: ReadScope = ANYBODY,
        limit: int = 100,
        after: tuple[datetime, str] | None = None,
        newest_first: bool = False,
    ) -> list[AuditEvent]:
        """Return a page of events of a session's items ("" for none).

        `after` is time and id of the previous page's last event.
        """
        (rows,) = await self._database.read(
            user_id,
            _QUERIES(
                "select_events",
                scope_params(scope),
                session_id=session_id,
                limit=limit,
                after_at=None if after is None else after[0],
                after_id="" if after is None else after[1],
                newest_first=newest_first,
            ),
        )
        return [_audit_event(row) for row in rows]

    # --- writing

    async def _write_all(self) -> None:
        with self._lock:
            users = list(dict.fromkeys(one.user_id for one in self._waiting))
        for user_id in users:
            await self._write(user_id)

    def _note_failure(self, error: BaseException) -> None:
        text = "%d events of the audit trail wait: %s"
        self._outages.failed(_WRITING, text, len(self._waiting), error, level=logging.INFO)

    async def _write(self, user_id: str) -> None:
        batch = self._take(user_id)
        if not batch:
            return
        self._sent += len(batch)
        try:
            await self._database.write(user_id, *_statements(user_id, batch, time.monotonic()))
            self._outages.worked(_WRITING)
        except BaseException as error:
            if isinstance(error, StoreError) and not isinstance(error, StoreUnavailableError):  # not retryable
                self._outages.failed(_WRITING, "%d events of the audit trail are dropped: %s", len(batch), error)
                return
            with self._lock:
                newer = list(self._waiting)
                self._waiting.clear()
                self._waiting.extend((*batch, *newer))  # drops the oldest
            raise
        finally:
            self._sent -= len(batch)
            self._release_if_written()

    def _take(self, user_id: str) -> list[_Waiting]:
        with self._lock:
            batch = [one for one in self._waiting if one.user_id == user_id]
            others = [one for one in self._waiting if one.user_id != user_id]
            self._waiting.clear()
            self._waiting.extend(others)
        return batch


def _statements(user_id: str, batch: Sequence[_Waiting], now: float) -> list[Statement]:
    """Return the statements that write events and update `last_used_at`."""
    ages = [max(now - one.moment, 0.0) for one in batch]
    used: dict[str, float] = {}
    for one, age in zip(batch, ages, strict=True):
        if one.event.kind in USES:
            used.update(dict.fromkeys(one.event.keys, age))  # last is newest
    events = [one.event for one in batch]
    written = _QUERIES(
        "insert_events",
        event_ids=[one.id for one in batch],
        event_agent_ids=[event.agent_id for event in events],
        event_session_ids=[event.session_id for event in events],
        event_kinds=[event.kind for event in events],
        event_keys=[" ".join(event.keys) for event in events],
        event_details=[event.detail for event in events],
        event_are_private=[event.is_private for event in events],
        event_ages_seconds=ages,
    )
    if not used:
        return [written]
    return [written, _QUERIES("update_last_used", used_keys=list(used), used_ages_seconds=list(used.values()))]


def _audit_event(row: Mapping[str, Any]) -> AuditEvent:
    return AuditEvent(
        row["happened_at"],
        row["session_id"],
        row["agent_id"],
        row["kind"],
        tuple(row["memory_keys"]),
        row["detail"] or (_origin(row) if row["kind"] == "stored" else ""),
        row["event_id"],
    )


def _origin(row: Mapping[str, Any]) -> str:
    metadata: dict[str, Any] = row["content_metadata"] or {}
    if row["is_forgotten"]:  # its size was erased with it
        return "forgotten since"
    origin = [f"{row['token_count']:,} tokens from {row['source']}"]
    if "message" in metadata:
        origin.append(f"{metadata.get('part', 'text')} of message {metadata['message']}")
    if metadata.get("call_id"):
        origin.append(f"call {metadata['call_id']}")
    if metadata.get("is_error"):
        origin.append("an error")
    return ", ".join(origin)
