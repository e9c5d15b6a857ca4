"""The audit trail of a scope, kept by `store.events`."""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..credentials import masked
from ..references import shorten
from ..store import AuditEvent, EventKind, MemoryStore, ReadScope
from ..store.events import NewEvent
from ..vault import secrets_of

if TYPE_CHECKING:
    from ..transcript import Decision, Transcript

__all__ = ["AuditEvent", "AuditTrail", "EventKind"]

_logger = logging.getLogger("memory_context")

_DETAIL_CHARACTERS = 200
_READ_CHARACTERS = 4_000  # limit of masking, before a detail is cut


class AuditTrail:
    """Records and lists events; `is_private` hides them from other scopes."""

    def __init__(
        self,
        memory_store: MemoryStore,
        user_id: str,
        agent_id: str = "",
        session_id: str = "",
        *,
        is_private: bool = False,
        masks_credentials: bool = True,
    ) -> None:
        self._masks_credentials = masks_credentials
        self._secrets = secrets_of(memory_store, user_id)
        self._log = memory_store.events
        self._user_id = user_id
        self._agent_id = agent_id
        self._session_id = session_id
        self._is_private = is_private

    def note(self, kind: EventKind, keys: Iterable[str], detail: str = "") -> None:
        """Buffer an event without I/O; never raises."""
        detail = self._secrets.filter.hide(detail[:_READ_CHARACTERS])
        if self._masks_credentials:
            detail = masked(detail)
        detail = shorten(detail, _DETAIL_CHARACTERS)
        unique = tuple(dict.fromkeys(keys))
        self._log.add(self._user_id, NewEvent(kind, unique, detail, self._agent_id, self._session_id, self._is_private))

    def note_read(self, kind: EventKind, keys: Iterable[str], reader: str | None, asked: object) -> None:
        """Record a read that has a reader and, unless it is a search, results."""
        keys = list(keys)
        if reader and (keys or kind == "searched"):
            self.note(kind, keys, f"{reader}: {asked}")

    def note_decision(self, transcript: "Transcript", decision: "Decision") -> None:
        """Record the events of a decision; never raises."""
        try:
            for event in decision.audit(transcript):
                self.note(*event)
        except Exception:  # auditing must not fail the agent
            _logger.exception("a decision is missing in the audit trail: %s", type(decision).__name__)

    async def events(
        self,
        session_id: str | None = None,
        *,
        scope: ReadScope | None = None,
        limit: int = 100,
        after: AuditEvent | None = None,
        newest_first: bool = False,
    ) -> list[AuditEvent]:
        """Flush, then return a page of events that follow `after`; a session or scope of None is the own one."""
        if limit < 1:
            raise ValueError(f"limit={limit!r} must be at least 1")
        await self._log.flush(self._user_id)
        return await self._log.select(
            self._user_id,
            self._session_id if session_id is None else session_id,
            scope=scope or ReadScope(self._agent_id, self._session_id),
            limit=limit,
            after=None if after is None else (after.at, after.id),
            newest_first=newest_first,
        )
