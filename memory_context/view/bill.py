"""The bill of a session: a sum over its model calls, with the figures that were recorded when each was made.

get_messages ─▶ UsageMeter.add_view: view, prompt cache, keeping everything ─▶ `ViewShown` in the log ─▶ Bill: prices
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, NamedTuple

from memory_context.foundation.policy import CachePolicy, ContextPolicy
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.view_decisions import (
    Forked,
    Offered,
    PricesSet,
    Rewound,
    ViewCleared,
    ViewShown,
)

from . import economics
from .economics import is_cache_cold
from .explain import stable_tokens
from .view import View

__all__ = ["Bill", "CallTokens", "ModelCall", "UsageMeter", "raw_tokens"]

_KEPT_MESSAGES, _KEPT_AT_HEAD = 20, 5
_NO_PRICES = PricesSet(1.0, 1.0, 0)


@dataclass(frozen=True)
class ModelCall:
    """One model call. Costs are in prices of an ordinary input token; "raw" is the same with everything kept.

    Attributes:
        number: From 1.
        at: Time of its newest message, in UTC; None if that is not held.
        messages: Messages of the session by then.
        view_tokens: Of the messages sent. `stable_tokens` of them were in the call before, `cached_tokens` were enough
            to be cached.
        head_tokens: The prompt in front of them, as far as known; `raw_head_tokens` without memory tools and their
            instructions.
        read_tokens: Of that prompt and the messages together, read from the prompt cache.
        view_cost: Of the messages alone.
        buffered_cost: With AutoGen's `BufferedChatCompletionContext(20)`; `head_and_tail_cost` with its
            `HeadAndTailChatCompletionContext(5, 15)`.
        mark: Change to older messages before it, if any.
        decision: Number of its record in the transcript's log.
    """

    number: int
    at: datetime | None
    messages: int
    raw_tokens: int
    view_tokens: int
    stable_tokens: int
    cached_tokens: int
    head_tokens: int
    raw_head_tokens: int
    read_tokens: int
    cost: float
    raw_cost: float
    view_cost: float
    raw_view_cost: float
    buffered_cost: float
    head_and_tail_cost: float
    mark: Literal["", "compaction", "fold"]
    decision: int


class CallTokens(NamedTuple):
    """The tokens of a call with the prompt in front: of keeping everything, as it was made, and as a cache has it."""

    upto: int = -1
    kept: int = 0
    shown: int = 0
    cached: int = 0


@dataclass(frozen=True)
class _Record:
    """What the log says of one call."""

    number: int
    shown: ViewShown
    prices: PricesSet
    offered: Offered
    mark: Literal["", "compaction", "fold"]


class Bill:
    """The model calls of one transcript, read from its log; records of earlier versions have no figures.

    Args:
        prices: In place of the recorded prices; pauses that outlived a cache stay as recorded.
    """

    def __init__(self, transcript: Transcript, prices: CachePolicy | None = None) -> None:
        self._transcript = transcript
        self._read = 0
        self._records: list[_Record] = []
        self._calls: list[ModelCall] = []
        self._sums: list[tuple[float, float]] = []  # cost and raw cost up to each call: a step adds what is new
        self._list, self._offered = prices, Offered()
        self._prices = self._listed(_NO_PRICES)
        self._mark: Literal["", "compaction", "fold"] = ""
        self._is_cleared = False

    @property
    def calls(self) -> list[ModelCall]:
        """The calls so far, the oldest first."""
        for number, (_, decision) in enumerate(self._transcript.log[self._read :], self._read):
            match decision:
                case ViewShown():
                    if decision.digest:
                        self._add(number, decision)
                case PricesSet():
                    self._prices = self._listed(decision)
                case Offered():
                    self._offered = decision
                case ViewCleared():
                    self._is_cleared = True
                case Forked():
                    self._calls.clear()
                    self._sums.clear()
                    self._is_cleared = True
                case Rewound(calls=calls):
                    for shown in calls:
                        self._add(number, shown)
                    self._is_cleared = True
                case _:
                    changes = decision.tally()
                    if changes.get("folds"):
                        self._mark = "fold"
                    elif changes.get("compactions"):
                        self._mark = self._mark or "compaction"
        self._read = len(self._transcript.log)
        return self._calls

    def share_with(self, tokens: int, is_cold: bool) -> float:
        """Return the cost so far and of a call with so many tokens, all read anew, as a share of keeping everything."""
        last = len(self.calls) - 1 - self._is_replaced_at(self._transcript.end)
        cost, whole = self._sums[last] if last >= 0 else (0.0, 0.0)
        prices, own, raw = self._prices, self._offered.own_tokens, raw_tokens(self._transcript)
        kept = _cached(prices, own + min(self._calls[last].raw_tokens, raw), own) if last >= 0 and not is_cold else 0
        whole += _price(prices, kept, own + raw)
        return (cost + _price(prices, 0, self._offered.tokens + tokens)) / whole if whole else 1.0

    def _is_replaced_at(self, upto: int) -> bool:
        """Return whether a view up to a message takes the place of the last one, which was not sent."""
        return bool(self._records) and self._records[-1].shown.upto == upto and not self._is_cleared

    def _listed(self, recorded: PricesSet) -> PricesSet:
        if self._list is None:
            return recorded
        read, write = self._list.cached_price_ratio, self._list.write_price_ratio
        return replace(recorded, cached_price_ratio=read, write_price_ratio=write)

    def _add(self, number: int, shown: ViewShown) -> None:
        if self._is_replaced_at(shown.upto):
            self._mark = self._records.pop().mark or self._mark
            self._calls.pop()
            self._sums.pop()
        record = _Record(number, shown, self._prices, self._offered, self._mark)
        call = self._priced(record, self._records[-1] if self._records else None)
        cost, whole = self._sums[-1] if self._sums else (0.0, 0.0)
        self._calls.append(call)
        self._sums.append((cost + call.cost, whole + call.raw_cost))
        self._records.append(record)
        self._mark, self._is_cleared = "", False

    def _priced(self, record: _Record, before: _Record | None) -> ModelCall:
        shown, prices, offered = record.shown, record.prices, record.offered
        raw, own, head = shown.raw_tokens, offered.own_tokens, offered.tokens
        is_uncached = before is None or shown.is_cold
        # new memory tools stand first, so nothing is cached once
        is_switched = offered.memory_tools != (before.offered.memory_tools if before else ())
        raw_same = min(before.shown.raw_tokens, raw) if before else 0
        cached, raw_cached = _cached(prices, shown.stable_tokens), 0 if shown.is_cold else _cached(prices, raw_same)
        kept = 0 if is_uncached or is_switched else _cached(prices, head + shown.stable_tokens, head)
        raw_kept = 0 if is_uncached else _cached(prices, own + raw_same, own)
        raw_cost = _price(prices, raw_kept, own + raw)
        buffered, head_and_tail = raw_cost, raw_cost
        if shown.kept_tokens:  # each call, the oldest message leaves, so nothing behind is cached
            last, first, tail = shown.kept_tokens
            buffered = _price(prices, 0 if shown.is_cold else _cached(prices, own), own + last)
            kept_head = 0 if shown.is_cold else _cached(prices, own + first, own)
            head_and_tail = _price(prices, kept_head, own + first + tail)
        return ModelCall(
            number=len(self._calls) + 1,
            at=self._added_at(shown.upto - 1),
            messages=shown.upto,
            raw_tokens=raw,
            view_tokens=shown.tokens,
            stable_tokens=shown.stable_tokens,
            cached_tokens=cached,
            head_tokens=head,
            raw_head_tokens=own,
            read_tokens=kept,
            cost=_price(prices, kept, head + shown.tokens),
            raw_cost=raw_cost,
            view_cost=_price(prices, cached, shown.tokens),
            raw_view_cost=_price(prices, raw_cached, raw),
            buffered_cost=buffered,
            head_and_tail_cost=head_and_tail,
            mark=record.mark,
            decision=record.number,
        )

    def _added_at(self, position: int) -> datetime | None:
        is_held = self._transcript.first <= position < self._transcript.end
        return self._transcript[position].added_at if is_held else None


class UsageMeter:
    """Records what each view of a transcript takes; `views` are the last two distinct ones.

    Several views without a message between are one call: AutoGen asks before its Memory is read and after it, and a
    retry sends the same view again. A view that equals the one recorded last is no record.
    """

    def __init__(self, transcript: Transcript, policy: ContextPolicy) -> None:
        self.views = (View(), View())
        self.bill = Bill(transcript)
        self._policy = policy
        self._place = (-1, -1)  # of the last view
        self._records = [one for _, one in transcript.decisions(ViewShown)][-2:]  # the last ones

    def add_view(self, transcript: Transcript, view: View, *, is_joined: bool = False) -> None:
        """Record a view that is about to be handed out, unless it is the one recorded last."""
        self._set_prices(transcript)
        self.record(transcript, view, is_joined=is_joined)

    def record(self, transcript: Transcript, view: View, *, is_joined: bool = False) -> None:
        """Do as `add_view`, with the prices that the transcript has."""
        state, end, digest = transcript.state, transcript.end, view.digest
        before, last = self.views
        if not view.is_same(last):
            before = before if self._place == (state.start, end) else last
            self.views, self._place = (before, view), (state.start, end)
        newest = self._records[-1] if self._records else None
        if newest and (newest.upto, newest.digest, newest.is_joined) == (end, digest, is_joined) and not state.unseen:
            return
        if not digest:  # an empty view is no call
            if end > state.shown or state.unseen:
                transcript.decide(ViewShown(end))
            return
        is_cold = is_cache_cold(transcript, self._policy.cache)
        stable = 0 if is_cold else stable_tokens(before, view) or self._stable_since_load(view, end)
        raw = raw_tokens(transcript)
        shown = ViewShown(end, view.tokens, stable, raw, _kept_by_others(transcript), is_cold, is_joined, digest)
        self._records = [*self._records[-1:], shown]  # first: who hears of the decision asks for it
        transcript.decide(shown)

    def newest(self, transcript: Transcript) -> CallTokens:
        """Return the tokens of the call recorded last."""
        if not self._records:
            return CallTokens()
        shown, offered, prices = self._records[-1], transcript.state.offered, transcript.state.newest(PricesSet)
        cached = _cached(prices or _NO_PRICES, shown.stable_tokens)
        return CallTokens(shown.upto, shown.raw_tokens + offered.own_tokens, shown.tokens + offered.tokens, cached)

    def _set_prices(self, transcript: Transcript) -> None:
        cache = self._policy.cache
        prices = PricesSet(
            cache.cached_price_ratio,
            cache.write_price_ratio,
            economics.LEAST_PREFIX_TOKENS,
            self._policy.reserved_tokens,
        )
        if transcript.state.newest(PricesSet) != prices:
            transcript.decide(prices)

    def _stable_since_load(self, view: View, end: int) -> int:
        """Return the tokens of the view before, which another process handed out, if this one begins with it."""
        if self.views[0].messages:
            return 0
        earlier = (one.digest for one in reversed(self._records) if one.upto < end and one.digest)
        return view.tokens_of_head(next(earlier, ""))


def raw_tokens(transcript: Transcript) -> int:
    """Return the tokens of keeping everything since the last clear."""
    return transcript.full_tokens(transcript.state.start, transcript.end)


def _kept_by_others(transcript: Transcript) -> tuple[int, ...]:
    """Return the tokens of the last twenty messages, and of the first five and last fifteen; () for fewer messages."""
    start, end = transcript.state.start, transcript.end
    if end - start <= _KEPT_MESSAGES:
        return ()
    ranges = (
        (end - _KEPT_MESSAGES, end),
        (start, start + _KEPT_AT_HEAD),
        (end - _KEPT_MESSAGES + _KEPT_AT_HEAD, end),
    )
    return tuple(transcript.full_tokens(*one) for one in ranges)


def _cached(prices: PricesSet, prefix: int, head: int = 0) -> int:
    is_long_enough = prefix + max(prices.reserved_tokens - head, 0) >= prices.least_prefix_tokens
    return prefix if is_long_enough else 0


def _price(prices: PricesSet, cached: int, tokens: int) -> float:
    return cached * prices.cached_price_ratio + (tokens - cached) * prices.write_price_ratio
