"""The next view of a session, for decisions that are taken before it is handed out."""

from collections.abc import Callable

from memory_context.foundation.policy import CachePolicy
from memory_context.sessions.transcript.entries import PartId
from memory_context.sessions.transcript.transcript import Decision, Transcript
from memory_context.sessions.transcript.values import Arithmetic

from .budget import Budget
from .economics import arithmetic_of, expected_calls
from .savings import record
from .view import View

__all__ = ["ViewPlanner"]


class ViewPlanner:
    """The views of one transcript, as its budget plans them."""

    def __init__(
        self, transcript: Transcript, budget: Budget, prices: CachePolicy, is_held: Callable[[PartId], bool]
    ) -> None:
        self._transcript = transcript
        self._budget = budget
        self._prices = prices
        self._is_held = is_held

    def next(self) -> View:
        return self._budget.next_view(self._transcript)

    def plan(self) -> None:
        self._budget.plan(self._transcript, self._is_held)

    def record(self, decision: Decision) -> None:
        record(self._transcript, [decision])

    def refold(self) -> None:
        self._budget.refold(self._transcript)

    def arithmetic(self, removed_tokens: int, rewritten_tokens: int) -> Arithmetic:
        """Return what a planned change costs and saves."""
        calls = expected_calls(self._transcript, self._prices)
        return arithmetic_of(removed_tokens, rewritten_tokens, calls, self._prices)
