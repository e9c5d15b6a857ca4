"""When a model's summary is shown: never by itself, as moving something early in the view costs more than it saves.

A part that still stands whole takes its summary with its compaction. One that is compacted already keeps what it shows
until the next planned compaction or fold, or until something before it moves: what stands behind is read anew then,
whatever it says.
"""

from dataclasses import replace

from ..policy import ContextPolicy
from ..tokens import TokenCounter
from ..transcript import CompactedTextChosen, ExpansionWithdrawn, HistoryFolded, PartId, PartsCompacted, Transcript
from .summaries import Summariser, SummaryReady

__all__ = ["SummaryRecorder"]


class SummaryRecorder:
    """Records the summaries of one transcript as what their parts are compacted to.

    Args:
        transcript: The transcript; decisions are recorded in it.
        summariser: Makes the summaries.
        policy: Whether results wait for their summaries.
        counter: Counts tokens.
    """

    def __init__(
        self, transcript: Transcript, summariser: Summariser, policy: ContextPolicy, counter: TokenCounter
    ) -> None:
        self._transcript = transcript
        self._summariser = summariser
        self._waits = policy.compaction.mode == "model"
        self._counter = counter
        self._ready: list[SummaryReady] = []
        self._read = len(transcript.log)
        summariser.is_unnamed = self._is_unnamed

    def _is_unnamed(self, place: PartId) -> bool:
        """Whether no view has shown the placeholder of a part: it stands whole, or nobody has seen it yet."""
        position, address = place
        state = self._transcript.state
        if position < state.start or state.is_folded(position) or place in state.compacted:
            return False
        part = self._transcript[position].part(address)
        return part.stored is not None and not 0 < part.stored.excerpt_tokens < part.tokens

    def is_held(self, part: PartId) -> bool:
        """Whether a part is not to be compacted yet, as its summary is still to come."""
        return self._waits and self._summariser.is_pending(*part)

    def record(self) -> bool:
        """Record the summaries whose time has come; whether one is of a part that is compacted already.

        Called before the changes of a view are decided, for parts that are about to be compacted, and afterwards, for
        those behind what was changed.
        """
        changed_from = self._changed_from()
        state = self._transcript.state
        waiting: list[SummaryReady] = []
        is_shown = False
        for summary in [*self._ready, *self._summariser.take()]:
            place = (summary.position, summary.address)
            if summary.position < state.start or state.is_folded(summary.position):
                continue  # no view shows it any more
            if state.retained.get(place) == "age":
                continue  # its room was given to newer ones
            if place in state.compacted and summary.position >= changed_from:
                is_shown = True
                self._retain(summary)
            elif place in state.answered_whole:
                self._retain(summary)
            else:
                waiting.append(summary)
        self._ready = waiting
        return is_shown

    def _retain(self, summary: SummaryReady) -> None:
        part = self._transcript[summary.position].part(summary.address)
        if part.stored is None:
            return
        before, placeholder, _ = part.stored.compacted.partition(part.stored.refs[0].render())
        description = summary.description if self._is_unnamed((summary.position, summary.address)) else ""
        if description:
            placeholder = replace(part.stored.refs[0], description=description).render()
        rest = summary.text.removeprefix(description).lstrip()  # the placeholder says that sentence
        text = f"{before}{placeholder}\n{rest}".rstrip()  # before it stands whether the call succeeded
        tokens = self._counter.count(text)
        self._transcript.decide(
            CompactedTextChosen(summary.position, summary.address, text, tokens, "model", description)
        )

    def _changed_from(self) -> int:
        """Return the first place that changes since the last call moved; the end if none did.

        A planned compaction and a fold count as moving everything: they are rare, and what is summarised is to be seen.
        """
        decisions = [decision for _, decision in self._transcript.log[self._read :]]
        self._read = len(self._transcript.log)
        places = [self._transcript.end]
        for decision in decisions:
            if isinstance(decision, HistoryFolded) or (
                isinstance(decision, PartsCompacted) and decision.reason != "consumed"
            ):
                return self._transcript.state.start
            if isinstance(decision, PartsCompacted):  # of the newest results, at the end of what is cached
                places += [position for position, _ in decision.parts]
            elif isinstance(decision, ExpansionWithdrawn):
                places += [position for position, _ in decision.places]
        return min(places)
