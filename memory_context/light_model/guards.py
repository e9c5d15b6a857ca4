"""The guards of one context: one for each kind of question, and what they were used for."""

from collections.abc import Callable
from weakref import WeakMethod

from autogen_core.models import ChatCompletionClient

from ..policy import ContextPolicy
from .bill import LightModelBill
from .model import LightModel

__all__ = ["LightModelGuards"]

_ANSWER_OVERHEAD_TOKENS = 100  # of JSON, and of quotes that are escaped in it


class LightModelGuards:
    """Asks one client several kinds of questions, each with a breaker of its own.

    A client that is too slow for a summary of twelve thousand tokens may still decide in time.

    Args:
        client: The light model; None where rules decide.
        policy: How long each kind may take, and how much it may answer.

    Attributes:
        decisions: Asked which references a request needs; None without a client, as the others.
        summaries: Asked for summaries, in the background.
        titles: Asked for titles, in the background.
    """

    def __init__(self, client: ChatCompletionClient | None, policy: ContextPolicy) -> None:
        self.decisions = self.summaries = self.titles = None
        self._recorded = LightModelBill()
        if client is None:
            return
        self.decisions = LightModel(
            client,
            timeout_seconds=policy.expansion.timeout_seconds,
            retry_seconds=policy.expansion.retry_seconds,
            answer_limit_tokens=policy.expansion.answer_limit_tokens,
        )
        self.summaries, self.titles = (
            LightModel(
                client,
                timeout_seconds=policy.compaction.summary_timeout_seconds,
                retry_seconds=policy.expansion.retry_seconds,
                answer_limit_tokens=2 * policy.compaction.summary_limit_tokens + _ANSWER_OVERHEAD_TOKENS,
                is_background=True,
            )
            for _ in range(2)
        )

    def tell(self, note: Callable[[], None] | None) -> None:
        """Have a method called after each question, answered or not, as long as its object lives; None for none."""
        for guard in (self.decisions, self.summaries, self.titles):
            if guard is not None:
                guard.on_use = None if note is None else WeakMethod(note)

    @property
    def used(self) -> LightModelBill:
        """Everything since the context was made."""
        if self.decisions is None or self.summaries is None or self.titles is None:
            return LightModelBill()
        return LightModelBill(self.decisions.usage, self.summaries.usage, self.titles.usage)

    def bill(self, recorded: LightModelBill) -> LightModelBill:
        """Return a recorded bill with what was used since `take_recorded`."""
        return recorded + (self.used - self._recorded)

    def take_recorded(self) -> None:
        """Take note that everything so far is recorded."""
        self._recorded = self.used
