"""Counts and costs of a context."""

from collections import Counter
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from memory_context.foundation.light_model.usage import LightModelBill
from memory_context.foundation.notebooks import html_table
from memory_context.foundation.policy import ContextPolicy
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.view_decisions import Offered
from memory_context.view.explain import stable_tokens
from memory_context.view.view import View

__all__ = ["ContextStats", "UsageMeter"]


@dataclass(frozen=True)
class ContextStats:
    """Counts so far, in o200k_base tokens unless another counter was given.

    A call is a view with the prompt in front of it, as far as known (`MemoryContext.note_agent`). Costs are in prices
    of an ordinary input token, by `policy.cache`; "raw" is the same with everything kept.

    Attributes:
        views: Distinct views: in effect, model calls.
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
        light_model: The session's calls by kind, also before a resume; the fields below repeat parts of it.
        light_model_calls: Its calls for decisions.
        light_model_tokens: As far as the client reports them.
        user_memory_tokens: The user's memory in the last view; part of `view_tokens`, not of "raw".
        observations: Ranges of messages that were observed; `activations`: how often observations joined the view.
        observation_tokens: The log and its hints in the last view; part of `view_tokens`, not of "raw".
        summaries: Results with a light model's summary, done or planned.
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
    tools_offered: Literal["", "always", "offload", "fold", "memory"] = ""
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

    def _repr_html_(self) -> str:
        return html_table(repr(self).strip("<>"), (), [(one.name, getattr(self, one.name)) for one in fields(self)])

    @property
    def relative_view_cost(self) -> float:
        return self.view_cost / self.raw_view_cost if self.raw_view_cost else 1.0

    @property
    def stable_share(self) -> float:
        """Unchanged share at the head, 0 to 1."""
        return self.stable_tokens_total / self.view_tokens_total if self.view_tokens_total else 0.0


_KEPT_MESSAGES, _KEPT_AT_HEAD = 20, 5
_USER_MEMORY = ("user_memory", "user_memory_news")
_OBSERVATIONS = ("observations", "observation_hints")


class UsageMeter:
    """Adds up views; `views` are the last two distinct ones."""

    def __init__(self, transcript: Transcript, policy: ContextPolicy) -> None:
        self.views = (View(), View())
        self._log_start = len(transcript.log)
        self._prices = policy.cache
        self._reserved_tokens = policy.reserved_tokens
        self._views = 0
        self._sum: dict[str, Any] = {}  # tokens and costs by the name of their field in `ContextStats`
        self._last: dict[str, Any] = {}
        self._peak = 0
        self._end = -1
        self._raw_before = 0
        self._offered = self._offered_before = Offered()

    def add_view(self, transcript: Transcript, view: View) -> bool:
        """Return whether it is new."""
        before, last = self.views
        if view.is_same(last):
            return False
        if transcript.end != self._end:
            before = last
            self._views += 1
            self._end, self._raw_before = transcript.end, self._last.get("raw_tokens_total", 0)
            self._offered_before = self._offered
        else:  # an AutoGen Memory read first: one call
            self._sum = {name: self._sum[name] - value for name, value in self._last.items()}
        self.views = (before, view)
        self._offered = transcript.state.offered
        is_cold = transcript.pause_seconds(transcript.end - 1) >= self._prices.ttl_seconds
        stable = 0 if is_cold else stable_tokens(before, view)
        self._last = self._call(_raw_tokens(transcript), view.tokens, stable, is_cold)
        self._last |= self._autogen_costs(transcript, self._last["raw_cost"], is_cold)
        self._sum = {name: self._sum.get(name, 0) + value for name, value in self._last.items()}
        self._peak = max(self._peak, view.tokens)
        return True

    def _autogen_costs(self, transcript: Transcript, raw_cost: float, is_cold: bool) -> dict[str, float]:
        """Return the costs of the next call with contexts that keep twenty messages: the last, or head and tail."""
        start, end, own = transcript.state.start, transcript.end, self._offered.own_tokens
        if end - start <= _KEPT_MESSAGES:
            return dict.fromkeys(("buffered_cost", "head_and_tail_cost"), raw_cost)
        head = transcript.full_tokens(start, start + _KEPT_AT_HEAD)
        tail = transcript.full_tokens(end - _KEPT_MESSAGES + _KEPT_AT_HEAD, end)
        last = transcript.full_tokens(end - _KEPT_MESSAGES, end)
        kept = 0 if is_cold else self._cached(own)  # each call, the oldest message leaves, so nothing behind is cached
        kept_head = 0 if is_cold else self._cached(own + head, own)
        return {
            "buffered_cost": self._price(kept, own + last),
            "head_and_tail_cost": self._price(kept_head, own + head + tail),
        }

    def _call(self, raw: int, shown: int, stable: int, is_cold: bool) -> dict[str, Any]:
        now, before = self._offered, self._offered_before
        is_switched = now.memory_tools != before.memory_tools
        cached, raw_cached = self._cached(stable), 0 if is_cold else self._cached(min(self._raw_before, raw))
        cost = raw_cost = 0.0
        if self._views == 1 or is_cold:
            cost, raw_cost = self._price(0, now.tokens + shown), self._price(0, now.own_tokens + raw)
        else:
            # new memory tools stand first, so nothing is cached once
            kept = 0 if is_switched else self._cached(now.tokens + stable, now.tokens)
            raw_kept = self._cached(now.own_tokens + min(self._raw_before, raw), now.own_tokens)
            cost, raw_cost = self._price(kept, now.tokens + shown), self._price(raw_kept, now.own_tokens + raw)
        return {
            "raw_tokens_total": raw,
            "view_tokens_total": shown,
            "stable_tokens_total": stable,
            "cached_tokens_total": cached,
            "head_tokens_total": now.tokens,
            "raw_head_tokens_total": now.own_tokens,
            "cost": cost,
            "raw_cost": raw_cost,
            "view_cost": self._price(cached, shown),
            "raw_view_cost": self._price(raw_cached, raw),
        }

    def _cached(self, prefix: int, head: int = 0) -> int:
        is_long_enough = prefix + max(self._reserved_tokens - head, 0) >= self._prices.least_prefix_tokens
        return prefix if is_long_enough else 0

    def _price(self, cached: int, tokens: int) -> float:
        return cached * self._prices.cached_price_ratio + (tokens - cached) * self._prices.write_price_ratio

    def stats(
        self, transcript: Transcript, write_transactions: int, light_model: LightModelBill | None = None
    ) -> ContextStats:
        counts = Counter[str]()
        for _, decision in transcript.log[self._log_start :]:
            counts.update(decision.tally())
        bill = light_model or transcript.state.light_model
        return ContextStats(
            **{name: round(value, 2) for name, value in self._sum.items()},
            **counts,
            views=self._views,
            raw_tokens=_raw_tokens(transcript),
            view_tokens=self.views[1].tokens,
            peak_view_tokens=self._peak,
            head_tokens=self._last.get("head_tokens_total", 0),
            raw_head_tokens=self._last.get("raw_head_tokens_total", 0),
            user_memory_tokens=sum(one.tokens for one in self.views[1].beside if one.kind in _USER_MEMORY),
            observation_tokens=sum(one.tokens for one in self.views[1].beside if one.kind in _OBSERVATIONS),
            tools_offered=transcript.state.offered.reason,
            light_model=bill,
            light_model_calls=bill.decisions.calls,
            light_model_failures=bill.decisions.failures,
            light_model_tokens=bill.decisions.tokens,
            summary_calls=bill.summaries.calls,
            summary_failures=bill.summaries.failures,
            summary_tokens=bill.summaries.tokens,
            write_transactions=write_transactions,
        )


def _raw_tokens(transcript: Transcript) -> int:
    return transcript.full_tokens(transcript.state.start, transcript.end)
