"""Where a context goes on: from the archive, or from a saved state, whichever is newer."""

import uuid
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from ..errors import StoreError
from ..identifiers import SessionKey
from ..runtime import in_thread_if_large
from ..store import ConversationArchive
from ..transcript import Transcript
from .cursor import ArchiveCursor, BatchCursor
from .reading import later_keys, restored
from .report import ResumeReport

__all__ = ["ResumedSession", "load_session"]

_NEVER = datetime.min.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class ResumedSession:
    """What a session goes on with.

    Attributes:
        transcript: What was said so far.
        progress: How far that is archived.
        report: What is to be said of it.
    """

    transcript: Transcript
    progress: ArchiveCursor
    report: ResumeReport

    def is_newer_than(self, saved: "ResumedSession") -> bool:
        """Whether the archive has what a saved state does not know of."""
        known, line = saved.progress.line, self.progress.line
        if self.report.outcome != "resumed" or line is None or (known is not None and known.branch):
            return False
        if known is not None and line.sequence <= known.sequence:
            return False
        if self.transcript.state.start < saved.transcript.state.start:  # it does not know of the clear
            return False
        return _last_at(self.transcript) >= _last_at(saved.transcript)

    def continued_by(self, progress: ArchiveCursor) -> ArchiveCursor:
        """Return the progress of a saved transcript that goes on although the archive has something else."""
        known, line = progress.line, self.progress.line
        if line is None or (known is not None and known.branch):
            return progress
        if known is not None and known.sequence == line.sequence and not line.begins_anew:
            return progress
        return replace(progress, line=replace(line, position=0, decision=0, begins_anew=True))


async def load_session(conversations: ConversationArchive, key: SessionKey) -> ResumedSession:
    """Return what the archive has of a session of an agent, in one round trip.

    Args:
        conversations: The archive.
        key: The session.

    Raises:
        StoreError: The store refused or cannot be reached.
    """
    try:
        archived = await conversations.read(key)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise StoreError(f"the archive of session {key.session_id!r} could not be understood: {error!r}") from error
    if not archived.batches:
        return ResumedSession(Transcript(), ArchiveCursor(), ResumeReport("new", later_keys=later_keys(archived, 0)))
    try:
        size = 40 * sum(batch.message_count for batch in archived.batches)  # what a message takes, in characters
        found = await in_thread_if_large(size, restored, archived)
    except ValueError:
        beside = BatchCursor(branch=uuid.uuid4().hex[:12], begins_anew=True)
        return ResumedSession(
            Transcript(), ArchiveCursor(beside), ResumeReport("unreadable", branches=archived.branches)
        )
    end = found.transcript.end
    is_measured = all(entry.parts is not None for entry in found.transcript.entries())
    begins_anew = found.is_mended or not is_measured  # what is told of parts later needs them
    line = BatchCursor(archived.head, "", end, len(found.transcript.log), begins_anew=begins_anew)
    delivered = {id_: end - 1 for batch in archived.batches for id_ in batch.chat_ids}
    return ResumedSession(found.transcript, ArchiveCursor(line, delivered), found.report)


def _last_at(transcript: Transcript) -> datetime:
    entries = transcript.entries(start=max(transcript.end - 1, transcript.first))
    return entries[-1].added_at if entries else _NEVER
