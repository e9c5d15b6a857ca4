"""What a view says while the history of its session could not be read, and when it stops saying it.

An answer without its history is wrong, so the model is told. The note is a decision like any other: it stands in the
transcript until the history joins, which begins another transcript, or turns out to be empty.
"""

from ..tokens import TokenCounter
from ..transcript import Decision, ExpansionShown, ExpansionWithdrawn, Transcript

__all__ = ["MISSING_HISTORY", "note_on_history"]

MISSING_HISTORY = (
    "[Earlier messages of this conversation could not be read yet. They may exist: do not answer as if nothing had "
    "been said before.]"
)


def note_on_history(transcript: Transcript, counter: TokenCounter, *, is_missing: bool) -> list[Decision]:
    """Return the decisions that make the view say whether earlier messages are missing; none if it says so already."""
    noted = [one for one in transcript.state.expanded.values() if one.origin == "history"]
    if is_missing and not noted and transcript.end > transcript.state.start:
        return [ExpansionShown(transcript.end - 1, MISSING_HISTORY, counter.count(MISSING_HISTORY), (), "history")]
    if noted and not is_missing:
        return [ExpansionWithdrawn(tuple(one.place for one in noted), "replaced")]
    return []
