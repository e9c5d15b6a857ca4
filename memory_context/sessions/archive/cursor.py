"""The archive cursor of a transcript and its next batch."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Protocol

from autogen_core.models import AssistantMessage, UserMessage

from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.utf8 import escape, unescape
from memory_context.store.conversations import ChatMessage, NewBatch
from memory_context.store.jobs import NewJob
from memory_context.store.redact import Traces
from memory_context.store.search.conversation import CONVERSATION_JOB, said_key

from ..transcript.codec import count_saved_decisions, last_clear, save_events
from ..transcript.entries import Entry
from ..transcript.transcript import Transcript

__all__ = [
    "ArchiveCursor",
    "BatchCursor",
    "BatchJob",
    "contains",
    "conversation_job",
    "is_said",
    "known_items",
    "next_batch",
    "traces_of",
]


class SessionPlace(Protocol):
    """A session of an agent: a `SessionKey`, or its memory."""

    @property
    def agent_id(self) -> str: ...

    @property
    def session_id(self) -> str: ...


@dataclass(frozen=True)
class BatchCursor:
    """A place in the archive: entries before `position` and decisions before `decision` are archived.

    Attributes:
        sequence: Number of the last batch; -1 for none.
        branch: "" for the main one.
        begins_anew: The next batch must hold everything.
    """

    sequence: int = -1
    branch: str = ""
    position: int = 0
    decision: int = 0
    begins_anew: bool = False


@dataclass(frozen=True)
class ArchiveCursor:
    """The archived part of a transcript.

    Attributes:
        batch: None if the archive must be asked, and everything written again.
        delivered: Transcript position by chat message id, perhaps of an entry to come.
        chat: Chat messages not durable yet.
    """

    batch: BatchCursor | None = BatchCursor()
    delivered: Mapping[str, int] = field(default_factory=dict[str, int])
    chat: tuple[ChatMessage, ...] = ()

    def has_cleared(self, transcript: Transcript) -> bool:
        at = self.batch
        is_reached = at is not None and not at.begins_anew and at.decision > last_clear(transcript)
        return is_reached or last_clear(transcript) < 0

    def to_state(self, transcript: Transcript, *, with_cleared: bool) -> dict[str, Any]:
        """Return the cursor, JSON-native, for a saved state."""
        at = self.batch
        if at is not None:  # saved states omit some decisions
            at = replace(at, decision=count_saved_decisions(transcript, at.decision, with_cleared=with_cleared))
        return {
            "line": None if at is None else asdict(at),
            "delivered": dict(self.delivered),
            "chat": [
                asdict(one) | {"text": escape(one.text), "timestamp": one.timestamp.isoformat()} for one in self.chat
            ],
        }

    @classmethod
    def from_state(cls, saved: Mapping[str, Any] | None) -> "ArchiveCursor":
        """Return a saved cursor, or raise a ValueError; None must ask the archive."""
        if saved is None:
            return cls(None)
        try:
            return cls(
                None if saved["line"] is None else BatchCursor(**saved["line"]),
                {str(id_): int(at) for id_, at in saved["delivered"].items()},
                tuple(_chat_message(one) for one in saved["chat"]),
            )
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"this is no saved state, or it was cut: {error!r}") from error


def next_batch(at: BatchCursor, transcript: Transcript, *, new_messages: int, chat_ids: Collection[str]) -> NewBatch:
    """Return the batch after a cursor, of measured entries; `new_messages` were in no earlier batch."""
    position, decision = (transcript.first, 0) if at.begins_anew else (at.position, at.decision)
    entries = transcript.entries(start=position)
    newest = transcript.entries(start=max(transcript.end - 1, transcript.first))
    last_at = newest[-1].added_at if newest else datetime.now(timezone.utc)  # tells which line has the newest message
    return NewBatch(
        sequence=at.sequence + 1,
        body=save_events(transcript, position, decision),
        message_count=new_messages,
        begins_anew=at.begins_anew,
        memory_keys=tuple(dict.fromkeys(key for _, one in transcript.log[decision:] for key in one.memory_keys())),
        chat_ids=tuple(sorted(chat_ids)),
        started_at=entries[0].added_at if entries else last_at,
        ended_at=last_at,
    )


def known_items(
    transcript: Transcript, place: SessionPlace, first_decision: int = 0, first_position: int | None = None
) -> dict[str, int]:
    """Return the keys of all items that a transcript refers to, shows something of, or has as messages.

    With a message's key stands its position, with others -1.
    """
    known = {key: -1 for _, one in transcript.log[first_decision:] for key in one.memory_keys()}
    start = transcript.first if first_position is None else first_position
    for entry in transcript.entries(start=start):
        if is_said(entry):
            at = entry.added_at.isoformat()
            for ordinal in range(sum(address.kind == "text" for address, _ in entry.texts)):
                known[said_key(place.agent_id, place.session_id, at, ordinal)] = entry.position
    return known


def traces_of(
    transcript: Transcript, place: SessionPlace, known: Mapping[str, int], forgotten: Collection[str]
) -> Traces:
    """Return what is to be removed of forgotten items: of messages also their words."""
    positions = {known.get(key, -1) for key in forgotten}
    said = [entry for entry in transcript.entries(start=transcript.first) if entry.position in positions]
    texts = (text for entry in said for address, text in entry.texts if address.kind == "text")
    return Traces.of(forgotten, ((place.session_id, text) for text in texts))


def contains(transcript: Transcript, entries: Sequence[Entry]) -> bool:
    """Return True if a transcript has these entries, as far as it was not cleared since and still holds them."""
    held = [entry for entry in entries if entry.position >= transcript.first]
    return bool(held) == bool(entries) and all(
        entry.position < transcript.end and transcript[entry.position].added_at == entry.added_at for entry in held
    )


def _chat_message(saved: Mapping[str, Any]) -> ChatMessage:
    text, timestamp = unescape(saved["text"]), datetime.fromisoformat(saved["timestamp"])
    return ChatMessage(saved["id"], text, saved["sender"], timestamp, bool(saved.get("is_verified", True)))


@dataclass(frozen=True)
class BatchJob:
    """A job of this kind is written with each batch that needs it.

    Attributes:
        kind: Registered with the store's `Jobs` by whoever handles it; its handler is idempotent.
        payload: Returns what the handler needs beside the place of the batch, from its entries; None for no job.
    """

    kind: str
    payload: Callable[[Sequence[Entry]], Mapping[str, Any] | None]

    def of(self, key: SessionKey, branch: str, sequence: int, entries: Sequence[Entry]) -> list[NewJob]:
        """Return the job of a batch, if it needs one; the payload names session, agent, branch and sequence."""
        more = self.payload(entries)
        place = {"session": key.session_id, "agent": key.agent_id, "branch": branch, "sequence": sequence}
        return [] if more is None else [NewJob(self.kind, {**place, **more})]


def conversation_job(policy: ContextPolicy, *, is_private: bool) -> BatchJob:
    """Return the job that makes the messages of a batch searchable."""
    more = {"is_private": is_private, "user_sources": list(policy.user_sources)}
    return BatchJob(CONVERSATION_JOB, lambda entries: more if any(map(is_said, entries)) else None)


def is_said(entry: Entry) -> bool:
    """Return True for a person's or another agent's message, and for the agent's answer; not for calls and results."""
    message = entry.message
    if isinstance(message, AssistantMessage):
        return isinstance(message.content, str)
    return isinstance(message, UserMessage) and entry.is_told
