"""One agent's memory of a user: who reads and writes, what of other agents' items it sees, and why it refuses.

`isolated` reads only items of the own agent and session; the others read all but private ones. Items stored as `shared`
never become private; all others are. Each scope forgets its own items; with the user's agreement (`forget_memory`) a
`shared` agent forgets any that are not private.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, cast

from pydantic import AwareDatetime, BaseModel, ConfigDict, StringConstraints
from typing_extensions import Self

from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.handlers import ContextEvent
from memory_context.foundation.identifiers import Sharing
from memory_context.foundation.references import KEY_PATTERN, shorten
from memory_context.foundation.telemetry import LOOKUPS, count
from memory_context.store.events import AuditEvent, EventKind, NewEvent
from memory_context.store.items import ReadScope, Whereabouts
from memory_context.store.memory_store import MemoryStore

from .vault.secrets import secrets_of

if TYPE_CHECKING:
    from memory_context.sessions.transcript.transcript import Decision, Transcript

__all__ = ["AuditEvent", "AuditTrail", "EventKind", "MemorySnapshot", "refusal"]

_logger = logging.getLogger("memory_context")

_DETAIL_CHARACTERS = 200  # of an audit event
_LOGGED_KEYS = 5
_READ_CHARACTERS = 4_000  # limit of masking, before a detail is cut


class MemorySnapshot(BaseModel):
    """Readable keys of a scope, newest first, without content; ids are empty for none."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    user_id: str
    agent_id: str
    session_id: str
    taken_at: AwareDatetime | datetime
    keys: tuple[Annotated[str, StringConstraints(pattern=f"^{KEY_PATTERN.pattern}$")], ...]

    def to_json(self) -> str:
        return self.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read the JSON of `to_json`; `ValueError` for other text."""
        return cls.model_validate_json(text)


def refusal(key: str, item: Whereabouts, scope: ReadScope, sharing: Sharing) -> str:
    """Return why an item is unreadable and what to do instead."""
    owner = f"agent {item.agent_id!r}" if item.agent_id else "no agent"
    where = f" (session {item.session_id!r})" if item.session_id else ""
    is_own_agent = bool(item.agent_id) and item.agent_id == scope.agent_id
    if scope.keys is not None:
        why = "is not in the snapshot that this memory was restored to"
    elif item.is_private and sharing != "isolated":
        whose = "another session of this agent" if is_own_agent else owner
        return f"item {key!r} is private to {whose}{where}: ask it to include the content"
    elif sharing == "isolated":
        whose = "another session of this agent" if is_own_agent else f"another agent, {owner}{where},"
        why = f"belongs to {whose} and this agent is isolated"
    else:
        why = f"belongs to {owner}{where}, beyond the reach of this memory"
    return f"item {key!r} {why}: ask for its content in the message"


class AuditTrail:
    """Records the events of a scope; `is_private` hides them from other scopes.

    Attributes:
        on_event: Called with each event of a decision, without secrets in its detail.
    """

    def __init__(
        self,
        memory_store: MemoryStore,
        user_id: str,
        agent_id: str,
        session_id: str,
        *,
        is_private: bool,
        masks_credentials: bool,
    ) -> None:
        self._masks_credentials = masks_credentials
        self._secrets = secrets_of(memory_store, user_id)
        self._log = memory_store.events
        self._user_id = user_id
        self._agent_id = agent_id
        self._session_id = session_id
        self._is_private = is_private
        self.on_event: Callable[[ContextEvent], object] | None = None

    def note(self, kind: EventKind, keys: Iterable[str], detail: str = "") -> None:
        """Buffer an event without I/O; never raises."""
        self._add(kind, keys, self._told(detail))

    def _told(self, detail: str) -> str:
        detail = self._secrets.filter.hide(detail[:_READ_CHARACTERS])
        return shorten(masked(detail) if self._masks_credentials else detail, _DETAIL_CHARACTERS)

    def _add(self, kind: EventKind, keys: Iterable[str], detail: str) -> None:
        unique = tuple(dict.fromkeys(keys))
        self._log.add(self._user_id, NewEvent(kind, unique, detail, self._agent_id, self._session_id, self._is_private))

    def note_read(self, kind: EventKind, keys: Iterable[str], reader: str | None, asked: object) -> None:
        """Record a read that has a reader and, unless it is a search or a page of the history, results."""
        keys = list(keys)
        if reader and (keys or kind in ("searched", "paged")):
            count(LOOKUPS, {"memory_context.lookup.kind": kind})
            self.note(kind, keys, f"{reader}: {asked}")

    def note_decision(self, transcript: "Transcript", decision: "Decision") -> None:
        """Record the events of a decision; never raises."""
        try:
            events = decision.audit(transcript)
            if not events:
                _logger.debug("session %s: %s, at message %d", self._session_id, decision.kind, transcript.end)
            for event in events:
                self.tell(event)
        except Exception:  # auditing must not fail the agent
            _logger.exception("a decision is missing in the audit trail: %s", type(decision).__name__)

    def tell(self, event: ContextEvent) -> None:
        """Log an event, never what its items hold; record it, and hand it on."""
        event = replace(event, why=self._told(event.why), session_id=self._session_id)
        level = logging.INFO if event.what == "folded" else logging.DEBUG
        if _logger.isEnabledFor(level):
            keys, reason = ", ".join(event.keys[:_LOGGED_KEYS]), event.reason or "asked"
            text = "session %s: %s %d items, %d tokens (%s): %s"
            _logger.log(level, text, self._session_id, event.what, len(event.keys), event.tokens, reason, keys)
        if event.keys and event.what != "stored":  # which the item's row says
            self._add(cast(EventKind, event.what), event.keys, event.why)
        if self.on_event is not None:
            self.on_event(event)
