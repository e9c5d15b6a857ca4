"""From batches to a transcript: put together, checked, and mended where some are missing.

Whole, they give the transcript as it was. Where batches are missing or unreadable, what comes after them is added
behind a note that says so, since a message that is there shall not be lost with one that is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from autogen_core.models import UserMessage

from ..store import Archived, StoredBatch
from ..transcript import Transcript, append_saved, joined_events, load_transcript, save_transcript
from .report import ResumeReport

__all__ = ["Restored", "later_keys", "restored"]

_MISSING = "[{} messages of this session are missing here: the archive does not have them.]"


@dataclass(frozen=True)
class Restored:
    """A transcript from the archive, and what is to be said of it.

    Attributes:
        is_mended: Whether it is not, batch by batch, what was archived; what follows has to begin anew.
    """

    transcript: Transcript
    report: ResumeReport
    is_mended: bool


def restored(archived: Archived) -> Restored:
    """Return the transcript that batches, at least one, add up to.

    Raises:
        ValueError: A newer version wrote them.
    """
    batches = archived.batches
    first = batches[0].sequence if batches[0].begins_anew else 0
    missing = tuple(sorted({*range(first, archived.head + 1)} - {batch.sequence for batch in batches}))
    damaged = tuple(batch.sequence for batch in batches if not batch.is_intact)
    transcript = None if missing else _whole(batches)
    is_mended = transcript is None
    lost = 0
    if transcript is None:
        transcript, lost = _mended(batches)
    if transcript.state.start > transcript.first:  # what was cleared is in the archive, not in the process
        transcript = load_transcript(save_transcript(transcript))
    last = batches[-1]
    report = ResumeReport(
        outcome="resumed",
        messages=transcript.end - transcript.state.start,
        batches=len(batches),
        archived_at=last.archived_at,
        missing_batches=missing,
        missing_messages=lost,
        damaged_batches=damaged,
        later_keys=later_keys(archived, transcript.end),
        branches=archived.branches,
    )
    return Restored(transcript, report, is_mended)


def later_keys(archived: Archived, end: int) -> tuple[str, ...]:
    """Return the items of messages that were never archived: those from number `end` on."""
    return tuple(key for key, message in archived.later_items if message > end)


def _whole(batches: Sequence[StoredBatch]) -> Transcript | None:
    try:
        return load_transcript(joined_events([batch.body for batch in batches]))
    except ValueError:
        if all(batch.is_intact for batch in batches):  # whole, and yet not to be read: a newer version's
            raise
    except (LookupError, TypeError, AttributeError):
        pass
    return None


def _mended(batches: Sequence[StoredBatch]) -> tuple[Transcript, int]:
    """Return what can be put together, and how many messages are known to be missing."""
    transcript = Transcript()
    lost = expected = 0  # the position, where it was archived, of the next message
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
