"""What stays of a result, chosen when the agent has answered it: its answer shows what it cared about.

The choice is recorded, and shows when the part is compacted, which the budget and the prices decide. A summary by a
model takes the place of what the compactor chose; `recording` says when.
"""

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..compaction import Compactors, Hint, Result
from ..policy import ContextPolicy
from ..references import MemoryRef
from ..runtime import in_thread_if_large
from ..tokens import TokenCounter
from ..transcript import CompactedTextChosen, PartId, Transcript
from .hints import told_of
from .known import KnownText
from .parts import compacted_text
from .recording import SummaryRecorder
from .summaries import Summariser

__all__ = ["Retainer"]

_logger = logging.getLogger("memory_context")


@dataclass(frozen=True)
class _Choice:
    """What is to be chosen from: all that it takes, so that a thread need not look at the transcript."""

    part: PartId
    ref: MemoryRef
    result: Result
    hint: Hint


class Retainer:
    """Chooses what stays of the results of one transcript, each once.

    Args:
        transcript: The transcript; choices are recorded in it.
        policy: Limits.
        counter: Counts tokens.
        compactors: Say what survives of a result.
        summariser: Makes summaries of large results, which are recorded here.
    """

    def __init__(
        self,
        transcript: Transcript,
        policy: ContextPolicy,
        counter: TokenCounter,
        compactors: Compactors,
        summariser: Summariser,
    ) -> None:
        self._transcript = transcript
        self._policy = policy
        self._counter = counter
        self._compactors = compactors
        self._summaries = SummaryRecorder(transcript, summariser, policy, counter)
        self._known = KnownText(transcript, policy)
        self._failed: set[PartId] = set()

    async def settle(self) -> None:
        """Choose for every result that was answered since, long ones off the event loop; then record summaries."""
        choices = self._choices()
        may_wait = choices and self._compactors.may_wait
        size = math.inf if may_wait else sum(len(choice.result.content) for choice in choices)
        for one in await in_thread_if_large(size, self._chosen, choices):
            # another task may have cleared, compacted or chosen meanwhile
            if self._is_open((one.position, one.address)):
                self._transcript.decide(one)
        self.record()

    def record(self) -> bool:
        """Record the summaries whose time has come; whether the view changes by one that is shown already."""
        return self._summaries.record()

    def is_held(self, part: PartId) -> bool:
        """Whether a part is not to be compacted yet, as what stays of it is still to be chosen or summarised."""
        return self._is_open(part) or self._summaries.is_held(part)

    def _is_open(self, part_id: PartId) -> bool:
        state = self._transcript.state
        if not self._policy.compaction.enabled or part_id not in state.answered_whole:
            return False
        if part_id in state.retained or part_id in self._failed:
            return False
        entry = self._transcript[part_id[0]]
        if self._policy.first_view_of(entry.tool_of(part_id[1])) == "placeholder":
            return False
        stored = entry.part(part_id[1]).stored
        # an answer of a memory tool collapses to what it was a look at; a text the store did not give back is gone
        return stored is not None and bool(stored.refs) and part_id[1] not in entry.dropped

    def _choices(self) -> list[_Choice]:
        parts = sorted(part for part in self._transcript.state.answered_whole if self._is_open(part))
        choices: list[_Choice] = []
        for position, address in parts:
            entry = self._transcript[position]
            part, text = entry.part(address), entry.text(address)
            if part.stored is None or text is None:
                continue
            result, hint = told_of(
                self._transcript, entry, part, text, self._policy, self._counter, is_answered=True, known=self._known
            )
            choices.append(_Choice((position, address), part.stored.refs[0], result, hint))
        return choices

    def _chosen(self, choices: Sequence[_Choice]) -> list[CompactedTextChosen]:
        retained: list[CompactedTextChosen] = []
        for choice in choices:
            position, address = choice.part
            try:
                text = compacted_text(self._compactors.compact(choice.result, choice.hint), choice.ref)
                retained.append(CompactedTextChosen(position, address, text, self._counter.count(text)))
            except Exception as error:  # what stays then is the placeholder
                self._failed.add(choice.part)
                _logger.warning("nothing is retained of message %d: %s", position + 1, str(error) or repr(error))
        return retained
