"""Sessions from scratch, from the archive or from a saved state."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any, Literal

from autogen_core import Image
from autogen_core.models import LLMMessage, UserMessage
from pydantic import TypeAdapter

from memory_context.foundation.errors import StoreError
from memory_context.foundation.identifiers import SessionKey, checked_identifier
from memory_context.foundation.messages import with_texts
from memory_context.foundation.runtime.background import in_thread_if_large
from memory_context.store.conversations import Archived, ConversationArchive, StoredBatch
from memory_context.store.redact import Traces

from ..transcript.codec import append_saved, joined_events, last_clear, load_transcript, save_transcript
from ..transcript.entries import Entry, PartId
from ..transcript.part_decisions import PartOffloaded, PartsCompacted
from ..transcript.transcript import Transcript
from ..transcript.view_decisions import MessageRedelivered, Rewound, ViewShown
from .cursor import ArchiveCursor, BatchCursor, contains

__all__ = [
    "ResumeOutcome",
    "ResumeReport",
    "ResumedSession",
    "load_session",
    "messages_meanwhile",
    "new_branch",
    "new_session",
    "rebuild_transcript",
    "redacted_session",
    "rewound_session",
    "saved_session",
    "whole_history",
]

ResumeOutcome = Literal["new", "resumed", "state", "pending", "unreadable", "off"]

_MISSING = "[{} messages of this session are missing here: the archive does not have them.]"
_MOST_MISSING = 100_000
_NEVER = datetime.min.replace(tzinfo=timezone.utc)
_MESSAGE_CHARACTERS = 40  # cost of parsing a message, in characters
_MESSAGES: TypeAdapter[list[LLMMessage]] = TypeAdapter(list[LLMMessage])


@dataclass(frozen=True)
class ResumeReport:
    """The origin of a context's session.

    Attributes:
        outcome: `new`: the archive has no such session. `resumed`: from the archive. `state`: from a newer saved state.
            `pending`: the history is unread (unused context, or no store) and joins later. `unreadable`: archived by a
            newer version; this one writes a branch. `off`: no archive.
        archived_at: Time of the last batch, in UTC.
        missing_batches: Sequence numbers.
        damaged_batches: Sequence numbers.
        later_keys: Items stored after the last batch, whose messages are missing.
        branches: Other lines of the session, which processes wrote that continued it otherwise; "" is the first one.
    """

    outcome: ResumeOutcome = "pending"
    messages: int = 0
    batches: int = 0
    archived_at: datetime | None = None
    missing_batches: tuple[int, ...] = ()
    missing_messages: int = 0
    damaged_batches: tuple[int, ...] = ()
    later_keys: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        return not (
            self.missing_batches or self.missing_messages or self.damaged_batches or self.later_keys or self.branches
        )

    def __str__(self) -> str:
        if self.outcome == "new" and self.later_keys:
            return (
                f"{len(self.later_keys)} items of a session of which no message was archived: "
                f"{', '.join(self.later_keys)}"
            )
        if self.outcome != "resumed":
            return {
                "new": "a new session",
                "state": f"{self.messages} messages from a saved state",
                "pending": "not read from the archive yet",
                "unreadable": "archived by a newer version of memory_context: going on beside it",
                "off": "a session without an archive",
            }[self.outcome]
        said = [f"{self.messages} messages from {self.batches} batches"]
        if self.archived_at is not None:
            said.append(f"the last of {self.archived_at:%Y-%m-%d %H:%M:%S} UTC")
        if self.missing_batches:
            numbers = ", ".join(map(str, self.missing_batches))
            said.append(f"batches {numbers} are missing, with {self.missing_messages} messages")
        elif self.missing_messages:
            said.append(f"{self.missing_messages} messages are missing between its batches")
        if self.damaged_batches:
            said.append(f"batches {', '.join(map(str, self.damaged_batches))} are not what was written")
        if self.later_keys:
            said.append(f"items stored after it, whose messages are missing: {', '.join(self.later_keys)}")
        if self.branches:
            names = ", ".join(f"branch {branch}" if branch else "the first line" for branch in self.branches)
            said.append(f"it was continued otherwise too, and that is archived beside it: {names}")
        return "; ".join(said)


@dataclass(frozen=True)
class ResumedSession:
    """A session to continue: new, loaded or resumed.

    Attributes:
        position_offset: Converts positions of the previous transcript; None if unrelated.
    """

    key: SessionKey
    transcript: Transcript
    cursor: ArchiveCursor
    report: ResumeReport
    position_offset: int | None = None

    def is_newer_than(self, saved: "ResumedSession") -> bool:
        """Return True if the archive goes on where a saved state ends."""
        known, at = saved.cursor.batch, self.cursor.batch
        if self.report.outcome != "resumed" or at is None:
            return False
        is_same_line = known is None or known.branch == at.branch
        if known is not None and is_same_line and at.sequence <= known.sequence:
            return False
        if self.transcript.state.start < saved.transcript.state.start:  # the archive lacks the clear
            return False
        if self.transcript.end == saved.transcript.end and len(self.transcript.log) <= len(saved.transcript.log):
            return False
        if self.transcript.first >= saved.transcript.end:  # cleared since, or nothing is saved
            return is_same_line and _last_at(self.transcript) >= _last_at(saved.transcript)
        return any(entry.added_at == _last_at(saved.transcript) for entry in _all_entries(self.transcript))

    def cursor_for(self, saved: "ResumedSession") -> ArchiveCursor:
        """Return the cursor of a saved transcript beside this archive; a transcript that differs gets a branch."""
        known, at = saved.cursor.batch, self.cursor.batch
        if at is None:
            return saved.cursor
        if (
            known is not None
            and (known.branch, known.sequence) == (at.branch, at.sequence)
            and (known.position == at.position or known.begins_anew)
            and not at.begins_anew
        ):
            return saved.cursor
        return replace(saved.cursor, batch=self.place_beside(saved.transcript))

    def place_beside(self, transcript: Transcript) -> BatchCursor:
        """Return where a transcript is archived as a whole: behind this line, or on a branch if it differs.

        A transcript goes on with this line, or went back in it: then it takes its place.
        """
        at, own, new = self.cursor.batch, _all_entries(self.transcript), _all_entries(transcript)
        if at is not None and (contains(transcript, own) or contains(self.transcript, new)):
            return replace(at, position=0, decision=0, begins_anew=True)
        return BatchCursor(branch=new_branch(), begins_anew=True)


def new_session(
    key: SessionKey, transcript: Transcript, *, is_archived: bool, is_new: bool, resumes: bool
) -> ResumedSession:
    """Return a new session, pending if the archive may have it."""
    report = ResumeReport("off" if not is_archived else "new" if is_new or not resumes else "pending")
    return ResumedSession(key, transcript, ArchiveCursor() if is_new or resumes else ArchiveCursor(None), report)


async def load_session(
    conversations: ConversationArchive, key: SessionKey, *, with_cleared: bool = False
) -> ResumedSession:
    """Return an archived session, in one round trip; of several lines the one whose last message is the newest.

    `with_cleared` keeps cleared messages, for comparisons.
    """
    try:
        archived = await conversations.read(key)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(f"the archive of session {key.session_id!r} could not be understood: {error!r}") from error
    if not archived.batches:
        report = ResumeReport("new", later_keys=_later_keys(archived, 0))
        return ResumedSession(key, Transcript(), ArchiveCursor(), report)
    try:
        size = _MESSAGE_CHARACTERS * sum(batch.message_count for batch in archived.batches)
        transcript, report, is_mended = await in_thread_if_large(size, rebuild_transcript, archived, with_cleared)
    except ValueError:
        beside = BatchCursor(branch=new_branch(), begins_anew=True)
        report = ResumeReport("unreadable", branches=archived.branches)
        return ResumedSession(key, Transcript(), ArchiveCursor(beside), report)
    end, is_measured = transcript.end, all(entry.parts is not None for entry in transcript.entries())
    begins_anew = is_mended or not is_measured
    at = BatchCursor(archived.head, archived.branch, end, len(transcript.log), begins_anew=begins_anew)
    delivered = {id_: end - 1 for batch in archived.batches for id_ in batch.chat_ids}
    return ResumedSession(key, transcript, ArchiveCursor(at, delivered), report)


def saved_session(state: Mapping[str, Any], key: SessionKey) -> ResumedSession:
    """Return the session of a saved state, also of AutoGen's own contexts, or raise ValueError."""
    cursor = ArchiveCursor(None)
    if not state:
        raise ValueError(f"this is no state of a chat context but {state!r}: give what `save_state` returned")
    if "transcript" in state:
        if state.get("user_id") != key.user_id:
            raise ValueError(f"this state belongs to user {state.get('user_id')!r}, not to {key.user_id!r}")
        transcript, cursor = load_transcript(state["transcript"]), ArchiveCursor.from_state(state.get("archive"))
        key = key._replace(session_id=checked_identifier("session_id", state.get("session_id")))
    elif "messages" in state:
        transcript = Transcript.of(_MESSAGES.validate_python(state["messages"]))
    else:
        raise ValueError(
            f"this is no state of a chat context: it has neither transcript nor messages, but {[*state]!r}"
        )
    outcome = "pending" if state.get("is_without_history") else "state"
    return ResumedSession(key, transcript, cursor, ResumeReport(outcome, transcript.end - transcript.state.start))


def redacted_session(session: ResumedSession, traces: Traces) -> ResumedSession | None:
    """Return a session without forgotten contents and the texts made from them; None if it has none."""
    before, cursor = session.transcript, session.cursor
    saved = save_transcript(before, with_cleared=True)
    held = _held_texts(before, traces.keys)
    redacted = traces.redacted(saved, session.key.session_id)
    if redacted == saved:
        return None
    transcript = load_transcript(redacted)
    for (position, address), text in held.items():
        transcript[position].restore_texts({address: text})
    if gone := _whole_parts(transcript, traces.keys):
        transcript.decide(PartsCompacted(gone, "forgotten"))
    return replace(
        session,
        transcript=transcript,
        cursor=ArchiveCursor.from_state(cursor.to_state(before, with_cleared=True)),
        position_offset=0,
    )


def rewound_session(session: ResumedSession, saved: Mapping[str, Any], position: int) -> ResumedSession:
    """Return a session as it was before a message, with what stays of the time since: bills, and what was stored.

    Args:
        saved: All events of the session, from its archive or its transcript.
    """
    before = session.transcript
    then = {
        **saved,
        "entries": saved["entries"][: position - saved["first_position"]],
        "decisions": [one for one in saved["decisions"] if one[0] <= position],
    }
    transcript, calls = load_transcript(then), list[ViewShown]()
    for one in (one for at, one in before.log if at > position):
        match one:
            case ViewShown():
                calls.append(one)
            case Rewound():
                calls += one.calls
            case PartOffloaded() if one.position < position:
                transcript.replay(position, one)
            case _ if not one.stands_in_views:
                transcript.replay(position, one)
            case _:
                pass
    transcript.decide(Rewound(position, before.end - position, tuple(calls)))
    at, delivered = session.cursor.batch, session.cursor.delivered
    return replace(
        session,
        transcript=transcript,
        cursor=replace(
            session.cursor,
            batch=None if at is None else replace(at, position=0, decision=0, begins_anew=True),
            delivered={id_: place for id_, place in delivered.items() if place < position},
        ),
        position_offset=None,
    )


def _held_texts(transcript: Transcript, forgotten: Collection[str]) -> dict[PartId, str | Image]:
    """Return stored texts and images that are still in memory, without forgotten ones."""
    return {
        (entry.position, part.address): held
        for entry in transcript.entries(start=transcript.first)
        for part in entry.measured
        if part.stored and part.address.kind != "arguments"
        if (held := entry.image(part.address) or entry.text(part.address)) is not None
        if not any(ref.key in forgotten for ref in part.stored.refs)
    }


def _whole_parts(transcript: Transcript, keys: Collection[str]) -> tuple[PartId, ...]:
    """Return parts that were shown whole and whose content was forgotten."""
    return tuple(
        (entry.position, part.address)
        for entry in transcript.entries()
        for part in entry.measured
        if part.address in entry.dropped and part.stored and any(ref.key in keys for ref in part.stored.refs)
        if part.stored.excerpt is None and (entry.position, part.address) not in transcript.state.compacted
    )


def messages_meanwhile(
    transcript: Transcript, first: int, history: Transcript
) -> list[tuple[LLMMessage, datetime, bool] | None]:
    """Return messages from `first` on that a history lacks, their times, and True for results; None marks a clear."""
    known = {entry.added_at for entry in history.entries()}
    cleared = transcript.state.start

    def new(entries: list[Entry]) -> list[tuple[LLMMessage, datetime, bool]]:
        added = (entry for entry in entries if entry.added_at not in known)
        return [(_with_references(entry), entry.added_at, entry.carries_result) for entry in added]

    is_cleared = cleared > 0 or last_clear(transcript) >= 0
    before = [*new(transcript.entries(first, cleared)), None] if is_cleared else []
    return [*before, *new(transcript.entries(max(first, cleared)))]


def rebuild_transcript(archived: Archived, with_cleared: bool = False) -> tuple[Transcript, ResumeReport, bool]:
    """Return transcript, report and True if gaps were mended; ValueError if a newer version wrote them."""
    batches = archived.batches
    first = batches[0].sequence if batches[0].begins_anew else 0
    missing = tuple(sorted({*range(first, archived.head + 1)} - {batch.sequence for batch in batches}))
    whole = None if missing else _joined(batches)
    transcript, lost = (whole, 0) if whole is not None else _mended(batches)
    if transcript.state.start > transcript.first and not with_cleared:  # drop cleared entries from memory
        transcript = load_transcript(save_transcript(transcript))
    report = ResumeReport(
        outcome="resumed",
        messages=transcript.end - transcript.state.start,
        batches=len(batches),
        archived_at=batches[-1].archived_at,
        missing_batches=missing,
        missing_messages=lost,
        damaged_batches=tuple(batch.sequence for batch in batches if not batch.is_intact),
        later_keys=_later_keys(archived, transcript.end),
        branches=archived.branches,
    )
    return transcript, report, whole is None


def whole_history(archived: Archived) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Return saved events up to the first damaged or missing batch, and the numbers of the batches from there on.

    Raises:
        ValueError: It was archived by a newer version.
    """
    kept: list[StoredBatch] = []
    for batch in archived.batches:
        is_next = batch.sequence == kept[-1].sequence + 1 if kept else batch.sequence == 0 or batch.begins_anew
        if not is_next or not batch.is_intact:
            break
        kept.append(batch)
    unread = tuple(batch.sequence for batch in archived.batches[len(kept) :])
    try:
        return joined_events([batch.body for batch in kept] or [save_transcript(Transcript())]), unread
    except (LookupError, TypeError) as error:
        raise ValueError(f"the archive of this session cannot be read: {error!r}") from error


def _joined(batches: Sequence[StoredBatch]) -> Transcript | None:
    try:
        return load_transcript(joined_events([batch.body for batch in batches]))
    except ValueError:
        if all(batch.is_intact for batch in batches):  # a newer version wrote them
            raise
    except (LookupError, TypeError, AttributeError):
        pass
    return None


def _mended(batches: Sequence[StoredBatch]) -> tuple[Transcript, int]:
    """Return the transcript and the number of missing messages.

    A note stands for each of these, so that the others keep their numbers; views show one for all of a gap.
    """
    transcript, lost = Transcript(), 0
    for batch in batches:
        try:
            first = int(batch.body["first_position"])
            if batch.begins_anew:  # the first: what was cleared before it is not missing
                transcript = Transcript(first_position=first)
            end = transcript.end
            if not 0 <= first - end <= _MOST_MISSING:
                continue  # its numbers are damaged
            for _ in range(end, first):
                transcript.append(UserMessage(content=_MISSING.format(first - end), source="memory"))
            for position in range(end + 1, first):
                transcript.decide(MessageRedelivered(position, end))
            lost += first - end
            append_saved(transcript, batch.body)
        except (ValueError, LookupError, TypeError, AttributeError):
            continue  # the next batch tells its size
    return transcript, lost


def _later_keys(archived: Archived, end: int) -> tuple[str, ...]:
    return tuple(key for key, message in archived.later_items if message > end)


def new_branch() -> str:
    """Return the name of a new line of a session."""
    return uuid.uuid4().hex[:12]


def _all_entries(transcript: Transcript) -> list[Entry]:
    return transcript.entries(start=transcript.first)


def _last_at(transcript: Transcript) -> datetime:
    entries = transcript.entries(start=max(transcript.end - 1, transcript.first))
    return entries[-1].added_at if entries else _NEVER


def _with_references(entry: Entry) -> LLMMessage:
    stored = {part.address: part.stored.compacted for part in entry.measured if part.stored}
    return with_texts(entry.message, {at: text for at, text in stored.items() if at in entry.dropped})
