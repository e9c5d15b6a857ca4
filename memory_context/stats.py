"""What a context did, in numbers."""

from dataclasses import dataclass

from .light_model import LightModelUsage
from .transcript import Expanded, Folded, Offloaded, PlannedCompaction, Shortened, Transcript, Withdrawn
from .view import View

__all__ = ["ContextStats", "Meter"]


@dataclass(frozen=True)
class ContextStats:
    """What a context did so far. Tokens are o200k_base unless another counter was given; "view" is what the model saw.

    Attributes:
        views: Views handed out that differ from the one before: in effect, model calls.
        raw_tokens: What the last view would have been with everything kept.
        view_tokens: What it was.
        raw_tokens_total: Sum over all views of what keeping everything would have sent.
        view_tokens_total: Sum over all views of what was sent.
        peak_view_tokens: The largest view.
        stable_tokens_total: Sum over all views of the tokens at the head that were the same as in the view before,
            which a prompt cache serves at a fraction of the price.
        offloads: Parts stored.
        compactions: Planned compactions, withdrawals of what was opened included.
        folds: Folds.
        shortenings: Parts shortened because not even the newest step fitted whole.
        expansions: Items opened: named, matched, chosen by the light model or brought by AutoGen's Memory protocol.
        recalls: Requests that brought passages of the user's memory.
        light_model_calls: Calls of the light model since the context was made.
        light_model_failures: Questions that got no usable answer from it.
        light_model_tokens: What it was sent and answered, as it reports.
        write_transactions: Transactions that stored something.
    """

    views: int = 0
    raw_tokens: int = 0
    view_tokens: int = 0
    raw_tokens_total: int = 0
    view_tokens_total: int = 0
    peak_view_tokens: int = 0
    stable_tokens_total: int = 0
    offloads: int = 0
    compactions: int = 0
    folds: int = 0
    shortenings: int = 0
    expansions: int = 0
    recalls: int = 0
    light_model_calls: int = 0
    light_model_failures: int = 0
    light_model_tokens: int = 0
    write_transactions: int = 0

    @property
    def saved_tokens(self) -> int:
        """Tokens that did not have to be sent, over all views."""
        return self.raw_tokens_total - self.view_tokens_total

    @property
    def stable_share(self) -> float:
        """Share of all tokens sent that stood unchanged at the head since the view before, 0 to 1."""
        return self.stable_tokens_total / self.view_tokens_total if self.view_tokens_total else 0.0


class Meter:
    """Adds up views as they are handed out.

    Args:
        transcript: What it begins with does not count.
    """

    def __init__(self, transcript: Transcript) -> None:
        self._log_start = len(transcript.log)
        self._views = 0
        self._raw_total = 0
        self._view_total = 0
        self._stable_total = 0
        self._peak = 0
        self._last = (-1, 0, 0, 0)

    def is_new_call(self, transcript: Transcript) -> bool:
        """Whether a message has come since the last view, so that the next one is for another model call."""
        return transcript.end != self._last[0]

    def add_view(self, transcript: Transcript, view: View, stable: int) -> None:
        """Count a view, instead of the one before if no message has come since.

        Args:
            transcript: What it was rendered from.
            view: The view.
            stable: What of it stood unchanged at the head.
        """
        if self.is_new_call(transcript):
            self._views += 1
        else:
            _, raw, shown, stood = self._last
            self._raw_total, self._view_total = self._raw_total - raw, self._view_total - shown
            self._stable_total -= stood
        self._last = (transcript.end, raw_tokens(transcript), view.tokens, stable)
        self._raw_total += self._last[1]
        self._view_total += view.tokens
        self._stable_total += stable
        self._peak = max(self._peak, view.tokens)

    def stats(
        self, transcript: Transcript, last: View, write_transactions: int, light_model: LightModelUsage | None = None
    ) -> ContextStats:
        """Return the sums, with what the transcript's decisions and the light model's usage tell."""
        decisions = [decision for _, decision in transcript.log[self._log_start :]]
        opened = [[one.reason for one in decision.opened] for decision in decisions if isinstance(decision, Expanded)]
        usage = light_model or LightModelUsage()
        return ContextStats(
            views=self._views,
            raw_tokens=raw_tokens(transcript),
            view_tokens=last.tokens,
            raw_tokens_total=self._raw_total,
            view_tokens_total=self._view_total,
            peak_view_tokens=self._peak,
            stable_tokens_total=self._stable_total,
            offloads=sum(isinstance(decision, Offloaded) and bool(decision.stored.refs) for decision in decisions),
            compactions=sum(isinstance(decision, (PlannedCompaction, Withdrawn)) for decision in decisions),
            folds=sum(isinstance(decision, Folded) for decision in decisions),
            shortenings=sum(isinstance(decision, Shortened) for decision in decisions),
            expansions=sum(reason != "recalled" for reasons in opened for reason in reasons),
            recalls=sum("recalled" in reasons for reasons in opened),
            light_model_calls=usage.calls,
            light_model_failures=usage.failures,
            light_model_tokens=usage.prompt_tokens + usage.completion_tokens,
            write_transactions=write_transactions,
        )


def raw_tokens(transcript: Transcript) -> int:
    """Return what the view would be if every message were kept as it came."""
    return sum(entry.full_tokens for entry in transcript.entries())
