"""What stays of a result, chosen when the agent has answered it: its answer shows what it cared about.

The choice is recorded, and shows when the part is compacted, which the budget and the prices decide.
"""

import asyncio
import logging

from ..compaction import Compactor
from ..policy import ContextPolicy
from ..tokens import TokenCounter
from ..transcript import Entry, Part, PartId, Retained, Transcript
from .hints import hint_for, result_of
from .parts import headline

__all__ = ["Retainer"]

_logger = logging.getLogger("memory_context")

_OFF_LOOP_CHARACTERS = 20_000


class Retainer:
    """Chooses what stays of the results of one transcript, each once.

    Args:
        transcript: The transcript; choices are recorded in it.
        policy: Limits.
        counter: Counts tokens.
        compactor: Says what survives of a result.
    """

    def __init__(
        self, transcript: Transcript, policy: ContextPolicy, counter: TokenCounter, compactor: Compactor
    ) -> None:
        self._transcript = transcript
        self._policy = policy
        self._counter = counter
        self._compactor = compactor
        self._done: set[PartId] = {
            (decision.position, decision.address) for _, decision in transcript.log if isinstance(decision, Retained)
        }

    async def settle(self) -> None:
        """Choose for every result that was answered since; long ones off the event loop."""
        if not self._policy.compaction.enabled or self._policy.first_view == "placeholder":
            return
        for part_id in sorted(self._transcript.standing.answered_whole - self._done, key=_order):
            position, address = part_id
            entry = self._transcript[position]
            part, text = entry.part(address), entry.text(address)
            if part.stored is None or not part.stored.refs or text is None:
                continue  # an answer of a memory tool collapses to what it was a look at
            if len(text) > _OFF_LOOP_CHARACTERS:
                retained = await asyncio.to_thread(self._retained, entry, part, text)
            else:
                retained = self._retained(entry, part, text)
            if retained is not None and part_id not in self._done:  # another task may have come first
                self._done.add(part_id)
                self._transcript.decide(retained)

    def _retained(self, entry: Entry, part: Part, text: str) -> Retained | None:
        try:
            hint = hint_for(self._transcript, entry, part, self._policy, self._counter, is_answered=True)
            survives = self._compactor.compact(result_of(self._transcript, entry, part, text), hint)
        except Exception as error:  # what stays then is the placeholder
            _logger.warning("nothing is retained of message %d: %s", entry.position + 1, error)
            return None
        if part.stored is None:
            return None
        kept = f"{headline(survives, part.stored.refs[0])}\n{survives.facts}".strip()
        return Retained(entry.position, part.address, kept, self._counter.count(kept))


def _order(part: PartId) -> tuple[int, str, int]:
    return part[0], part[1].kind, part[1].index
