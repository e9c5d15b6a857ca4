"""The audit trail of a session: what happened to its items, in order, with who and why.

That an item was stored it tells itself; look-ups and decisions are noted in the process and written in batches (see
`store.events`), so that following an agent costs it nothing. Nothing here raises into the agent.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from ..credentials import masked
from ..references import shorten
from ..store import MemoryStore, ReadScope
from ..store.events import EventKind, NewEvent, StoredEvent

if TYPE_CHECKING:
    from ..transcript import Decision, Transcript

__all__ = ["AuditEvent", "AuditTrail", "EventKind"]

_logger = logging.getLogger("memory_context")

_DETAIL_CHARACTERS = 200
_READ_CHARACTERS = 4_000  # of a detail, before it is cut


@dataclass(frozen=True)
class AuditEvent:
    """Something that happened to items.

    Attributes:
        at: When, in UTC, by the clock of the server.
        session_id: In which session; empty for none.
        agent_id: Whose doing it was; empty for nobody's.
        kind: stored, forgotten; retrieved, searched, listed (query), paged (read_history); expanded,
            recalled, withdrawn (brought into the view and out of it again); compacted, folded, shortened, cleared
            (shown as less); lost (events that could not be written).
        keys: The items.
        detail: Where it came from, what was looked up, or the reason, in a few words.
        id: What tells it from events of the same time.
    """

    at: datetime
    session_id: str
    agent_id: str
    kind: EventKind
    keys: tuple[str, ...]
    detail: str
    id: str


class AuditTrail:
    """Notes what happens to the items of one scope, and lists it.

    Args:
        memory_store: Where the items are.
        user_id: Whose they are.
        agent_id: Whose doing it is; "" for nobody's.
        session_id: In which session; "" for none.
        is_private: Whether nobody else may read of it.
        masks_credentials: Whether credentials are masked in what is noted, such as the words of a search.
    """

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
        self._log = memory_store.events
        self._user_id = user_id
        self._agent_id = agent_id
        self._session_id = session_id
        self._is_private = is_private

    def note(self, kind: EventKind, keys: Iterable[str], detail: str = "") -> None:
        """Note that something happened to items, at no cost of I/O; never raises."""
        if self._masks_credentials:
            detail = masked(detail[:_READ_CHARACTERS])
        detail = shorten(detail, _DETAIL_CHARACTERS)
        unique = tuple(dict.fromkeys(keys))
        self._log.add(self._user_id, NewEvent(kind, unique, detail, self._agent_id, self._session_id, self._is_private))

    def note_read(self, kind: EventKind, keys: Iterable[str], reader: str | None, asked: object) -> None:
        """Note what a reader asked for and was given.

        A read by None is skipped, and one that returned nothing, unless it is a search.
        """
        keys = list(keys)
        if reader and (keys or kind == "searched"):
            self.note(kind, keys, f"{reader}: {asked}")

    def note_decision(self, transcript: "Transcript", decision: "Decision") -> None:
        """Note the audit events of a decision.

        Call it once the decision has taken effect. It is what `Transcript.on_decision` is for; never raises.
        """
        try:
            for event in decision.audit(transcript):
                self.note(*event)
        except Exception:  # the agent's work does not hang on its audit trail
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
        """Return a page of what happened to the items of a session, after writing what is noted: nothing is missing.

        Args:
            session_id: The session; None for the own one.
            scope: Who reads, and how far; None for the own agent and session, within the user.
            limit: How many at most.
            after: The last event of the page before; None for the first page.
            newest_first: Whether the newest come first; the oldest do otherwise.

        Raises:
            ValueError: The limit is less than 1.
            StoreUnavailableError: The store cannot be reached now.
        """
        if limit < 1:
            raise ValueError(f"limit={limit!r} must be at least 1")
        await self._log.flush(self._user_id)
        stored = await self._log.select(
            self._user_id,
            self._session_id if session_id is None else session_id,
            scope=scope or ReadScope(self._agent_id, self._session_id),
            limit=limit,
            after=None if after is None else (after.at, after.id),
            newest_first=newest_first,
        )
        return [
            AuditEvent(
                event.at,
                event.session_id,
                event.agent_id,
                event.kind,
                event.keys,
                event.detail or _origin(event),
                event.id,
            )
            for event in stored
        ]


def _origin(event: StoredEvent) -> str:
    """Return where a stored item came from, as its metadata says."""
    if event.kind != "stored":
        return ""
    metadata = event.metadata
    if event.is_forgotten:  # with its content went how much that was
        return "forgotten since"
    origin: list[str] = [f"{event.token_count:,} tokens from {event.source}"]
    if "message" in metadata:
        origin.append(f"{metadata.get('part', 'text')} of message {metadata['message']}")
    if metadata.get("call_id"):
        origin.append(f"call {metadata['call_id']}")
    if metadata.get("is_error"):
        origin.append("an error")
    return ", ".join(origin)
