"""Chooses the facts of a result that stay beside its placeholder, once the agent has answered it."""

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
from .compactor_input import CompactorInput
from .packing import compacted_text
from .summaries import Summariser

__all__ = ["FactSelector"]

_logger = logging.getLogger("memory_context")


@dataclass(frozen=True)
class _Choice:
    """The inputs of a choice: a thread must not read the transcript."""

    part: PartId
    ref: MemoryRef
    result: Result
    hint: Hint


class FactSelector:
    """Decides the compacted text of each answered result once; budget and prices decide when it is shown."""

    def __init__(
        self,
        transcript: Transcript,
        policy: ContextPolicy,
        counter: TokenCounter,
        compactors: Compactors,
        inputs: CompactorInput,
        summariser: Summariser,
    ) -> None:
        self._transcript = transcript
        self._policy = policy
        self._counter = counter
        self._compactors = compactors
        self._inputs = inputs
        self._summariser = summariser
        self._failed: set[PartId] = set()

    async def choose(self) -> None:
        """Choose for all newly answered results; then record summaries."""
        if choices := self._choices():
            size = math.inf if self._compactors.may_wait else sum(len(choice.result.content) for choice in choices)
            for chosen in await in_thread_if_large(size, self._chosen, choices):
                # another task may have changed it meanwhile
                if self._is_open((chosen.position, chosen.address)):
                    self._transcript.decide(chosen)
        self._summariser.record()

    def is_held(self, part: PartId) -> bool:
        """Return whether a part still waits for facts or summary."""
        return self._is_open(part) or self._summariser.is_held(part)

    def _is_open(self, part_id: PartId) -> bool:
        state, (position, address) = self._transcript.state, part_id
        if not self._policy.compaction.enabled or part_id not in state.answered_whole:
            return False
        if part_id in state.retained or part_id in self._failed:
            return False
        entry = self._transcript[position]
        if self._policy.first_view_of(entry.tool_of(address)) == "placeholder":
            return False
        stored = entry.part(address).stored
        # excludes answers of memory tools and texts that the store did not return
        return stored is not None and bool(stored.refs) and address not in entry.dropped

    def _choices(self) -> list[_Choice]:
        choices: list[_Choice] = []
        for position, address in sorted(filter(self._is_open, self._transcript.state.answered_whole)):
            entry = self._transcript[position]
            part, text = entry.part(address), entry.text(address)
            if part.stored is not None and text is not None:
                given = self._inputs.read(entry, part, text, is_answered=True)
                choices.append(_Choice((position, address), part.stored.refs[0], *given))
        return choices

    def _chosen(self, choices: Sequence[_Choice]) -> list[CompactedTextChosen]:
        chosen: list[CompactedTextChosen] = []
        for choice in choices:
            position, address = choice.part
            try:
                text = compacted_text(self._compactors.compact(choice.result, choice.hint), choice.ref)
                chosen.append(CompactedTextChosen(position, address, text, self._counter.count(text)))
            except Exception as error:  # the placeholder stays
                self._failed.add(choice.part)
                _logger.warning("nothing is retained of message %d: %s", position + 1, str(error) or repr(error))
        return chosen
