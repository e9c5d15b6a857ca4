"""Messages that come again: AutoGen repeats them after a failed run, and SelectorGroupChat on loading a state."""

from autogen_core.models import LLMMessage

from .entries import Entry
from .transcript import Transcript
from .view_decisions import MessageRedelivered, ViewCleared

__all__ = ["note_repeats"]


def note_repeats(transcript: Transcript) -> None:
    """Record the newest messages that repeat earlier ones; called after each message."""
    if copies := _redelivered(transcript):
        for earlier, again in copies:
            transcript.decide(MessageRedelivered(earlier.position, again.position))
    elif copy := _whole_copy(transcript):
        transcript.decide(ViewCleared(copy))


def _redelivered(transcript: Transcript) -> list[tuple[Entry, Entry]]:
    """Return unanswered messages with their copies, once AutoGen repeats all after a failed run.

    An incomplete repeat is new; so is one that no view showed.
    """
    state = transcript.state
    if not state.shown < transcript.end:
        return []
    unanswered = max(state.answered, state.start)
    came = [entry for entry in transcript.entries(start=max(unanswered, state.shown)) if entry.is_told]
    tail = [
        entry
        for entry in transcript.entries(start=unanswered, end=state.shown)
        if entry.is_told and entry.position not in state.redelivered
    ]
    if not came or len(came) != len(tail) or not all(map(_equal, tail, (entry.message for entry in came))):
        return []
    if not transcript.has_answer():  # no answers here: messages after an earlier view answered it
        before = transcript.entries(end=state.answered_from)
        if any(entry.is_told and entry.position not in state.redelivered for entry in before):
            return []
    return list(zip(tail, came, strict=True))


def _whole_copy(transcript: Transcript) -> int | None:
    """Return where SelectorGroupChat repeats the thread on loading a state."""
    state, count = transcript.state, transcript.end - transcript.state.start
    middle = state.start + count // 2
    if count < 4 or count % 2 or transcript.has_answer() or not state.start < state.shown <= middle:
        return None
    if any(position >= state.start for position in state.redelivered):
        return None
    halves = zip(reversed(transcript.entries(end=middle)), reversed(transcript.entries(start=middle)), strict=True)
    return middle if all(_equal(old, new.message) for old, new in halves) else None


def _equal(entry: Entry, message: LLMMessage) -> bool:
    return not entry.dropped and entry.message == message
