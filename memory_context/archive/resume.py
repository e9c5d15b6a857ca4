"""Sessions to go on with: new ones, from the archive, from a saved state. Missing batches become a note."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timezone
from typing import Any, Literal

from autogen_core.models import LLMMessage, UserMessage
from pydantic import TypeAdapter

from ..errors import StoreError
from ..identifiers import SessionKey, checked_identifier
from ..messages import with_texts
from ..notebooks import html_table
from ..runtime import in_thread_if_large
from ..store import Archived, ConversationArchive, StoredBatch
from ..transcript import Entry, Transcript, append_saved, joined_events, last_clear, load_transcript, save_transcript
from .cursor import ArchiveCursor, BatchCursor

__all__ = [
    "ResumeOutcome",
    "ResumeReport",
    "ResumedSession",
    "load_session",
    "messages_meanwhile",
    "new_session",
    "rebuild_transcript",
    "saved_session",
]

ResumeOutcome = Literal["new", "resumed", "state", "pending", "unreadable", "off"]

_MISSING = "[{} messages of this session are missing here: the archive does not have them.]"
_NEVER = datetime.min.replace(tzinfo=timezone.utc)
_MESSAGE_CHARACTERS = 40  # reading a message takes as long as reading so many characters
_MESSAGES: TypeAdapter[list[LLMMessage]] = TypeAdapter(list[LLMMessage])


@dataclass(frozen=True)
class ResumeReport:
    """How a context began.

    Attributes:
        outcome: `new`: the archive knows nothing of the session. `resumed`: it goes on from the archive. `state`: a
            saved state was newer. `pending`: the archive was not read yet, since nobody used the context or the store
            is away; messages of the meantime are added to the session later. `unreadable`: a newer version archived it;
            this one goes on beside it. `off`: there is no archive.
        messages: Messages it goes on with.
        batches: Batches they are from.
        archived_at: When the last of them was written, in UTC; None for none.
        missing_batches: Numbers of batches that are not there.
        missing_messages: Messages known to be missing with them.
        damaged_batches: Numbers of batches that are not what was written.
        later_keys: Items that the session stored after its last batch: the items are there, their messages are not.
        branches: Branches archived by other processes that went on with the session at the same time.
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
        """True if nothing is known to be missing."""
        return not (self.missing_batches or self.damaged_batches or self.later_keys or self.branches)

    def _repr_html_(self) -> str:
        return html_table(str(self), (), [(one.name, getattr(self, one.name)) for one in fields(self)])

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
        if self.damaged_batches:
            said.append(f"batches {', '.join(map(str, self.damaged_batches))} are not what was written")
        if self.later_keys:
            said.append(f"items stored after it, whose messages are missing: {', '.join(self.later_keys)}")
        if self.branches:
            said.append(f"{len(self.branches)} other lines were archived by processes that went on with it too")
        return "; ".join(said)


@dataclass(frozen=True)
class ResumedSession:
    """A session to go on with: each way to begin, load or resume one makes this.

    Attributes:
        key: The session.
        transcript: Its messages and decisions so far.
        cursor: How far they are archived.
        report: How it was resumed.
        position_offset: Add this to positions of the previous transcript to get positions here; None if unrelated.
    """

    key: SessionKey
    transcript: Transcript
    cursor: ArchiveCursor
    report: ResumeReport
    position_offset: int | None = None

    def is_newer_than(self, saved: "ResumedSession") -> bool:
        """Return True if the archive, which this is from, has messages that a saved state lacks."""
        known, at = saved.cursor.batch, self.cursor.batch
        if self.report.outcome != "resumed" or at is None or (known is not None and known.branch):
            return False
        if known is not None and at.sequence <= known.sequence:
            return False
        if self.transcript.state.start < saved.transcript.state.start:  # it does not know of the clear
            return False
        return _last_at(self.transcript) >= _last_at(saved.transcript)

    def cursor_for(self, saved: ArchiveCursor) -> ArchiveCursor:
        """Return the cursor for a saved transcript that goes on beside this archive."""
        known, at = saved.batch, self.cursor.batch
        if at is None or (known is not None and known.branch):
            return saved
        if known is not None and known.sequence == at.sequence and not at.begins_anew:
            return saved
        return replace(saved, batch=replace(at, position=0, decision=0, begins_anew=True))


def new_session(
    key: SessionKey, transcript: Transcript, *, is_archived: bool, is_new: bool, resumes: bool
) -> ResumedSession:
    """Return the session of a context that was just made; pending if the archive may have it.

    Without `resumes` a known session begins anew, beside its archive.
    """
    report = ResumeReport("off" if not is_archived else "new" if is_new or not resumes else "pending")
    return ResumedSession(key, transcript, ArchiveCursor() if is_new or resumes else ArchiveCursor(None), report)


async def load_session(conversations: ConversationArchive, key: SessionKey) -> ResumedSession:
    """Return a session from the archive, in one round trip, or raise a StoreError."""
    try:
        archived = await conversations.read(key)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(f"the archive of session {key.session_id!r} could not be understood: {error!r}") from error
    if not archived.batches:
        report = ResumeReport("new", later_keys=_later_keys(archived, 0))
        return ResumedSession(key, Transcript(), ArchiveCursor(), report)
    try:
        size = _MESSAGE_CHARACTERS * sum(batch.message_count for batch in archived.batches)
        transcript, report, is_mended = await in_thread_if_large(size, rebuild_transcript, archived)
    except ValueError:
        beside = BatchCursor(branch=uuid.uuid4().hex[:12], begins_anew=True)
        report = ResumeReport("unreadable", branches=archived.branches)
        return ResumedSession(key, Transcript(), ArchiveCursor(beside), report)
    end, is_measured = transcript.end, all(entry.parts is not None for entry in transcript.entries())
    begins_anew = is_mended or not is_measured  # decisions about parts need their measures
    at = BatchCursor(archived.head, "", end, len(transcript.log), begins_anew=begins_anew)
    delivered = {id_: end - 1 for batch in archived.batches for id_ in batch.chat_ids}
    return ResumedSession(key, transcript, ArchiveCursor(at, delivered), report)


def saved_session(state: Mapping[str, Any], key: SessionKey) -> ResumedSession:
    """Return the session of a saved state, also of one that AutoGen's own contexts saved.

    Raises:
        ValueError: The state belongs to another user, comes from a newer version, or is none.
    """
    cursor = ArchiveCursor(None)
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


def messages_meanwhile(
    transcript: Transcript, first: int, history: Transcript
) -> list[tuple[LLMMessage, datetime] | None]:
    """Return the messages from position `first` on that a history lacks, with their times; None marks a clear."""
    known = {entry.added_at for entry in history.entries()}
    cleared = transcript.state.start

    def new(entries: list[Entry]) -> list[tuple[LLMMessage, datetime]]:
        return [(_with_references(entry), entry.added_at) for entry in entries if entry.added_at not in known]

    is_cleared = cleared > 0 or last_clear(transcript) >= 0
    before = [*new(transcript.entries(first, cleared)), None] if is_cleared else []
    return [*before, *new(transcript.entries(max(first, cleared)))]


def rebuild_transcript(archived: Archived) -> tuple[Transcript, ResumeReport, bool]:
    """Return the transcript of one batch or more, a report, and True if it is mended: the next batch begins anew.

    Raises:
        ValueError: A newer version wrote them.
    """
    batches = archived.batches
    first = batches[0].sequence if batches[0].begins_anew else 0
    missing = tuple(sorted({*range(first, archived.head + 1)} - {batch.sequence for batch in batches}))
    whole = None if missing else _joined(batches)
    transcript, lost = (whole, 0) if whole is not None else _mended(batches)
    if transcript.state.start > transcript.first:  # cleared entries are in the archive, not in the process
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


def _joined(batches: Sequence[StoredBatch]) -> Transcript | None:
    """Return the transcript of batches without a gap; None if a damaged one cannot be read."""
    try:
        return load_transcript(joined_events([batch.body for batch in batches]))
    except ValueError:
        if all(batch.is_intact for batch in batches):  # a newer version's
            raise
    except (LookupError, TypeError, AttributeError):
        pass
    return None


def _mended(batches: Sequence[StoredBatch]) -> tuple[Transcript, int]:
    """Return a transcript of the readable batches, and how many messages are known to be missing."""
    transcript = Transcript()
    lost = expected = 0  # expected: the position, where it was archived, of the next message
    for batch in batches:
        try:
            first, count = int(batch.body["first_position"]), len(batch.body["entries"])
            if first > expected and not batch.begins_anew:
                lost += first - expected
                transcript.append(UserMessage(content=_MISSING.format(first - expected), source="memory"))
            append_saved(transcript, batch.body)
            expected = first + count
        except (ValueError, LookupError, TypeError, AttributeError):
            continue  # unreadable; the next batch tells how much it held
    return transcript, lost


def _later_keys(archived: Archived, end: int) -> tuple[str, ...]:
    return tuple(key for key, message in archived.later_items if message > end)


def _last_at(transcript: Transcript) -> datetime:
    entries = transcript.entries(start=max(transcript.end - 1, transcript.first))
    return entries[-1].added_at if entries else _NEVER


def _with_references(entry: Entry) -> LLMMessage:
    stored = {part.address: part.stored.compacted for part in entry.measured if part.stored}
    return with_texts(entry.message, {at: text for at, text in stored.items() if at in entry.dropped})
