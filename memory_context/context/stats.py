"""Counts and costs of a context."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from memory_context.foundation.light_model.usage import LightModelBill
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.values import ToolsReason
from memory_context.view.bill import ModelCall, raw_tokens
from memory_context.view.view import Segment

__all__ = ["ContextStats", "stats_of"]


@dataclass(frozen=True)
class ContextStats:
    """Counts of a session so far, in o200k_base tokens unless another counter was given.

    A call is a view with the prompt in front of it, as far as known (`MemoryContext.note_agent`); of several views
    without a message between, the last. Its figures are recorded when it is made, and archived: a resumed session goes
    on with them. Costs are in prices of an ordinary input token, by `policy.cache` at that time; "raw" is the same with
    everything kept.

    Attributes:
        views: Model calls.
        stable_tokens_total: Tokens at the heads of views unchanged since the view before.
        cached_tokens_total: Those of them that were enough to be cached.
        head_tokens: The prompt in front of the last view; `raw_head_tokens` without memory tools and instructions.
        cost: Of all calls; `view_cost` of their messages alone.
        buffered_cost: The same with AutoGen's `BufferedChatCompletionContext(20)`; `head_and_tail_cost` with its
            `HeadAndTailChatCompletionContext(5, 15)`.
        answered_compactions: Those of results just answered.
        compactions: Planned ones, and withdrawals of expansions.
        differences: Results first shown by their difference from an earlier one.
        expansions: Items opened, without recalls.
        light_model: The session's calls by kind; the fields below repeat parts of it.
        light_model_calls: Its calls for decisions.
        light_model_tokens: As far as the client reports them.
        user_memory_tokens: The user's memory in the last view; part of `view_tokens`, not of "raw".
        observations: Ranges of messages that were observed; `activations`: how often observations joined the view.
        observation_tokens: The log and its hints in the last view; part of `view_tokens`, not of "raw".
        summaries: Results with a light model's summary, done or planned.
        write_transactions: Of this process, as `archive_transactions`.
    """

    views: int = 0
    raw_tokens: int = 0
    view_tokens: int = 0
    raw_tokens_total: int = 0
    view_tokens_total: int = 0
    peak_view_tokens: int = 0
    stable_tokens_total: int = 0
    cached_tokens_total: int = 0
    head_tokens: int = 0
    raw_head_tokens: int = 0
    head_tokens_total: int = 0
    raw_head_tokens_total: int = 0
    cost: float = 0.0
    raw_cost: float = 0.0
    view_cost: float = 0.0
    raw_view_cost: float = 0.0
    buffered_cost: float = 0.0
    head_and_tail_cost: float = 0.0
    tools_offered: ToolsReason = ""
    offloads: int = 0
    answered_compactions: int = 0
    compactions: int = 0
    folds: int = 0
    shortenings: int = 0
    differences: int = 0
    expansions: int = 0
    recalls: int = 0
    user_memory_tokens: int = 0
    observations: int = 0
    activations: int = 0
    reflections: int = 0
    observation_tokens: int = 0
    light_model: LightModelBill = field(default_factory=LightModelBill)
    light_model_calls: int = 0
    light_model_failures: int = 0
    light_model_tokens: int = 0
    summaries: int = 0
    summary_calls: int = 0
    summary_failures: int = 0
    summary_tokens: int = 0
    write_transactions: int = 0
    archive_transactions: int = 0

    @property
    def saved_tokens(self) -> int:
        """Tokens not sent, over all calls."""
        sent = self.view_tokens_total + self.head_tokens_total
        return self.raw_tokens_total + self.raw_head_tokens_total - sent

    @property
    def relative_cost(self) -> float:
        return self.cost / self.raw_cost if self.raw_cost else 1.0

    @property
    def cheapest_autogen_context(self) -> tuple[str, float]:
        """AutoGen's own context that would have cost least in this session, and its cost."""
        costs = {
            "unbounded": self.raw_cost,
            "buffered(20)": self.buffered_cost,
            "head_and_tail(5, 15)": self.head_and_tail_cost,
        }
        return min(costs.items(), key=lambda pair: pair[1])

    @property
    def cost_in_words(self) -> str:
        """The cost relative to keeping everything; while memory alone makes it more, what memory brought."""
        brought = -self.saved_tokens
        if brought > 0 and self.cost > self.raw_cost:
            return f"brought {brought:,} tokens of memory and tools"
        return f"cost {self.relative_cost:.2f} of keeping everything"

    def __repr__(self) -> str:
        sent = f"{self.view_tokens_total:,} of {self.raw_tokens_total:,} tokens sent"
        return f"<ContextStats {self.views} views, {sent}, {self.cost_in_words}>"

    @property
    def relative_view_cost(self) -> float:
        return self.view_cost / self.raw_view_cost if self.raw_view_cost else 1.0

    @property
    def stable_share(self) -> float:
        """Unchanged share at the head, 0 to 1."""
        return self.stable_tokens_total / self.view_tokens_total if self.view_tokens_total else 0.0


_SUMS = {
    "raw_tokens_total": "raw_tokens",
    "view_tokens_total": "view_tokens",
    "stable_tokens_total": "stable_tokens",
    "cached_tokens_total": "cached_tokens",
    "head_tokens_total": "head_tokens",
    "raw_head_tokens_total": "raw_head_tokens",
    **{
        name: name for name in ("cost", "raw_cost", "view_cost", "raw_view_cost", "buffered_cost", "head_and_tail_cost")
    },
}
_USER_MEMORY = ("user_memory", "user_memory_news")
_OBSERVATIONS = ("observations", "observation_hints")


def stats_of(
    transcript: Transcript,
    calls: Sequence[ModelCall],
    light_model: LightModelBill | None = None,
    beside: Sequence[Segment] = (),
) -> ContextStats:
    """Return the sums over the calls and decisions of a transcript.

    Args:
        light_model: None for what the transcript has recorded.
        beside: The sections beside the history in the last view.
    """
    counts = Counter[str]()
    for _, decision in transcript.log:
        counts.update(decision.tally())
    bill = light_model or transcript.state.light_model
    last = calls[-1] if calls else None
    return ContextStats(
        **{name: round(sum(getattr(call, figure) for call in calls), 2) for name, figure in _SUMS.items()},
        **counts,
        views=len(calls),
        raw_tokens=raw_tokens(transcript),
        view_tokens=last.view_tokens if last else 0,
        peak_view_tokens=max((call.view_tokens for call in calls), default=0),
        head_tokens=last.head_tokens if last else 0,
        raw_head_tokens=last.raw_head_tokens if last else 0,
        user_memory_tokens=sum(one.tokens for one in beside if one.kind in _USER_MEMORY),
        observation_tokens=sum(one.tokens for one in beside if one.kind in _OBSERVATIONS),
        tools_offered=transcript.state.offered.reason,
        light_model=bill,
        light_model_calls=bill.decisions.calls,
        light_model_failures=bill.decisions.failures,
        light_model_tokens=bill.decisions.tokens,
        summary_calls=bill.summaries.calls,
        summary_failures=bill.summaries.failures,
        summary_tokens=bill.summaries.tokens,
    )
