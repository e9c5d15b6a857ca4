"""What goes into a batch: the next stretch of a transcript, or all of it."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timezone

from ..store import NewBatch
from ..transcript import Decision, Entry, Transcript, save_events
from .cursor import BatchCursor

__all__ = ["holds", "next_batch"]


def next_batch(line: BatchCursor, transcript: Transcript, *, new_messages: int, chat_ids: Collection[str]) -> NewBatch:
    """Return the batch that follows a place in the archive.

    Args:
        line: How far the transcript is archived.
        transcript: The transcript; every entry is measured.
        new_messages: How many of its messages no batch has had.
        chat_ids: The chat messages whose words are in it.
    """
    position, decision = (transcript.first, 0) if line.begins_anew else (line.position, line.decision)
    entries = transcript.entries(start=position)
    now = datetime.now(timezone.utc)
    return NewBatch(
        sequence=line.sequence + 1,
        body=save_events(transcript, position, decision),
        message_count=new_messages,
        begins_anew=line.begins_anew,
        memory_keys=_keys_in(one for _, one in transcript.log[decision:]),
        chat_ids=tuple(sorted(chat_ids)),
        started_at=entries[0].added_at if entries else now,
        ended_at=entries[-1].added_at if entries else now,
    )


def holds(transcript: Transcript, entries: Sequence[Entry]) -> bool:
    """Whether a transcript has these entries of another one: at the same places, taken in at the same time."""
    return all(
        transcript.first <= entry.position < transcript.end and transcript[entry.position].added_at == entry.added_at
        for entry in entries
    )


def _keys_in(decisions: Iterable[Decision]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for decision in decisions for key in decision.memory_keys()))
