"""Finished observations replace messages in the view.

leaving: chunks of the log whose messages still stand in the view, then the finished ones, the oldest first
as many as bring the view down to its target; never what must stay
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from memory_context.foundation.messages import MEMORY_SOURCE, copy_message
from memory_context.foundation.tokens import TokenCounter
from memory_context.sessions.transcript.entries import MESSAGE_OVERHEAD_TOKENS
from memory_context.sessions.transcript.observation_decisions import ObservationBuffered, ObservationsActivated
from memory_context.sessions.transcript.observations import ObservationChunk, ObservationLog
from memory_context.sessions.transcript.transcript import Decision, Transcript
from memory_context.sessions.transcript.values import Arithmetic

from .events import ObservationEvent
from .observers import ObservationModels

__all__ = [
    "Activation",
    "Leaving",
    "Views",
    "buffer_interval",
    "chunk_texts",
    "chunks_to_activate",
    "least_buffered",
    "retention_start",
    "tokens_until_activation",
]

TARGET_MARGIN = 0.3
"""Activation goes down to `activation_ratio` less this share of the window."""

LIGHT_WINDOW_SHARE = 0.6
"""The most of the light model's window that one observer reads."""
_BUFFER_CYCLES = 4
"""Observer calls that prepare one activation."""
_BUFFER_MOST_TOKENS = 30_000
"""The most unobserved tokens before an observer call."""
_BUFFER_LEAST_TOKENS = 5_000
"""The least, except in a small window, of which so much would be a third or more."""
_SMALL_WINDOW_TOKENS, _SMALL_WINDOW_SHARE = 16_000, 0.125
_RETENTION_SHARE = 0.2
"""Share of the window for the newest messages, which stay."""


@dataclass(frozen=True)
class Leaving:
    """One chunk whose messages may leave the view.

    Attributes:
        last: Position after its messages.
        removed_tokens: Tokens of its messages in the view.
        added_tokens: Tokens that its observations add to the view, with their message, lead and hints.
    """

    last: int
    removed_tokens: int
    added_tokens: int = 0

    @property
    def net_tokens(self) -> int:
        return self.removed_tokens - self.added_tokens


def tokens_until_activation(view_tokens: int, window_tokens: int, activation_ratio: float) -> float:
    """Return how many tokens the view may still grow; at 0 or below, finished chunks are activated."""
    return (activation_ratio - view_tokens / window_tokens) * window_tokens


def least_buffered(window_tokens: int) -> float:
    """Return the unobserved tokens under which no observer runs."""
    if window_tokens < _SMALL_WINDOW_TOKENS:
        return min(_SMALL_WINDOW_SHARE * window_tokens, _BUFFER_LEAST_TOKENS)
    return _BUFFER_LEAST_TOKENS


def buffer_interval(until_activation: float, window_tokens: int, light_window_tokens: int) -> float:
    """Return the number of unobserved tokens at which an observer runs."""
    most = min(_BUFFER_MOST_TOKENS, LIGHT_WINDOW_SHARE * light_window_tokens)
    return max(min(until_activation / _BUFFER_CYCLES, most), least_buffered(window_tokens))


def chunks_to_activate(
    leaving: Sequence[Leaving], view_tokens: int, window_tokens: int, activation_ratio: float, *, is_free: bool = False
) -> int:
    """Return how many chunks, from the oldest, bring the utilisation to the target: all if they do not suffice.

        utilisation' = utilisation - (tokens removed - tokens added) / window

    `is_free` (the prompt cache is cold) activates at least one.
    """
    target = (activation_ratio - TARGET_MARGIN) * window_tokens
    for count, chunk in enumerate(leaving):
        if view_tokens <= target and not (is_free and count == 0):
            return count
        view_tokens -= chunk.net_tokens
    return len(leaving)


def retention_start(step_ends: Sequence[int], tokens_from: Callable[[int], int], retention_tokens: int) -> int:
    """Return where the newest messages begin that stay: whole steps within the limit, but at least the newest.

    Args:
        step_ends: Where the first step begins, then the end of each.
        tokens_from: Tokens of the view from a position on.
    """
    start = step_ends[-2] if len(step_ends) > 1 else step_ends[-1]
    for position in reversed(step_ends[:-1]):
        if tokens_from(position) > retention_tokens:
            break
        start = position
    return start


Reason = Literal["ratio", "budget", "cold", "model_changed", "observe_now"]


class NextView(Protocol):
    """A view before it is handed out."""

    tokens: int

    def tokens_at(self, first: int, last: int) -> int: ...


class Views(Protocol):
    """The views of the session, as its budget plans them."""

    def next(self) -> NextView:
        """Render the view as it is now."""
        ...

    def plan(self) -> None:
        """Record the compactions that pay."""
        ...

    def record(self, decision: Decision) -> None: ...

    def refold(self) -> None:
        """Let a fold begin where the log ends."""
        ...

    def arithmetic(self, removed_tokens: int, rewritten_tokens: int) -> Arithmetic: ...


class Activation:
    """Moves the positions of one observation log.

    Args:
        decide: Records a decision.
    """

    def __init__(
        self,
        transcript: Transcript,
        views: Views,
        models: ObservationModels,
        counter: TokenCounter,
        decide: Callable[[Decision], None],
    ) -> None:
        self._transcript = transcript
        self._views = views
        self._models = models
        self._counter = counter
        self._decide = decide

    @property
    def log(self) -> ObservationLog:
        return self._transcript.state.observation

    @property
    def until(self) -> float:
        """Tokens that the next view may still grow before activation; infinite without a window."""
        window = self._models.window_tokens
        if window <= 0:
            return float("inf")
        ratio = self._models.policy.observation.activation_ratio
        return tokens_until_activation(self._views.next().tokens, window, ratio)

    @property
    def retention_start(self) -> int:
        """Position of the newest messages, which stay."""
        return self._retention_start(self._views.next(), self._retention_tokens)

    @property
    def newest_step(self) -> int:
        """Position of the newest step and what no answer has seen, which no observation replaces."""
        return self._retention_start(self._views.next(), 0)

    def activate(self, reason: Reason) -> None:
        """Let finished observations replace the oldest messages: as many as needed, or all, as for `observe_now`."""
        if not self.log.has_finished:
            return
        log, view, window = self.log, self._views.next(), self._models.window_tokens
        chunks = [*(one for one in log.chunks if one.last > log.left), *log.buffered]
        keeps_least = reason in ("budget", "observe_now")
        limit = self._retention_start(view, 0 if keeps_least else self._retention_tokens)
        leaving = [one for one in self._leaving(view, chunks) if one.last <= limit]
        if window > 0 and reason != "observe_now":
            is_free = reason in ("cold", "model_changed")
            ratio = self._models.policy.observation.activation_ratio
            leaving = leaving[: chunks_to_activate(leaving, view.tokens, window, ratio, is_free=is_free)]
        if not leaving:
            return
        first, left = log.left, leaving[-1].last
        removed = sum(one.net_tokens for one in leaving)
        kept = tuple(one for one in self._kept() if one < left)
        self._move(max(left, log.logged), left, kept, reason, self._views.arithmetic(removed, view.tokens - removed))
        if self.log.left > first:
            self._views.refold()
            self._note(chunks[: len(leaving)], first, left, view.tokens / window if window > 0 else 0.0)

    def join_now(self, chunk: ObservationChunk) -> list[ObservationChunk]:
        """Record a chunk, and let all finished ones join the log while their messages stay; return what joined."""
        self._decide(ObservationBuffered(chunk))
        log = self.log
        joining = [*log.buffered]
        if log.observed != chunk.last or not joining:
            return []  # it fits no more
        self._move(joining[-1].last, log.left, log.kept, "observe_now")
        self._note(joining, joining[0].first, chunk.last, 0.0, is_sync=True)
        return joining

    def _move(
        self, upto: int, left: int, kept: tuple[int, ...], reason: Reason, arithmetic: Arithmetic | None = None
    ) -> None:
        lead = self.log.lead or self._models.lead
        self._decide(ObservationsActivated(upto, left, kept, reason, lead, self._counter.count(lead), arithmetic))

    def _leaving(self, view: NextView, chunks: Sequence[ObservationChunk]) -> list[Leaving]:
        """Return what each chunk would remove from the view and add to it."""
        log, fold, kept = self.log, self._transcript.state.fold, self._kept()
        beside = MESSAGE_OVERHEAD_TOKENS + self._counter.count(MEMORY_SOURCE)
        hints = 0 if log.hints is None else log.hints.hints_tokens
        lead = 0 if log.chunks else self._counter.count(self._models.lead) + beside
        leaving: list[Leaving] = []
        gone = 0
        for chunk in chunks:
            stays = sum(view.tokens_at(one, one + 1) for one in kept if one < chunk.last)
            stays += fold.tokens + beside if fold is not None and fold.upto > chunk.last else 0
            removed, added = view.tokens_at(0, chunk.last) - stays, 0
            if chunk.first >= log.logged:
                added, lead = chunk.tokens + beside + lead, 0
                if chunk.hints_tokens:
                    added, hints = added + chunk.hints_tokens - hints, chunk.hints_tokens
            leaving.append(Leaving(chunk.last, removed - gone, added))
            gone = removed
        return leaving

    @property
    def _retention_tokens(self) -> int:
        return int(self._models.window_tokens * _RETENTION_SHARE)

    def _retention_start(self, view: NextView, tokens: int) -> int:
        """The newest step stays in any case, and so does what no answer has seen."""
        transcript, state = self._transcript, self._transcript.state
        start, end = state.history_start, transcript.end
        ends = [start, *transcript.pairing.step_ends(start, end)]
        begin = retention_start(ends, lambda position: view.tokens_at(position, end), tokens)
        if state.answered > start:
            begin = min(begin, state.answered - 1)
        return min(begin, state.consumed) if state.shown > state.start else begin

    def _kept(self) -> list[int]:
        return self._transcript.kept(self._models.policy.user_sources)

    def _note(
        self, chunks: Sequence[ObservationChunk], first: int, last: int, utilisation: float, *, is_sync: bool = False
    ) -> None:
        was_sync = is_sync or any(one.record is not None and one.record.is_sync for one in chunks)

        def make() -> ObservationEvent:
            messages = tuple(copy_message(entry.message) for entry in self._transcript.entries(first, last))
            return ObservationEvent(messages, chunk_texts(chunks), utilisation, was_sync)

        self._models.events.note(ObservationEvent, make)


def chunk_texts(chunks: Sequence[ObservationChunk]) -> str:
    """Return chunks as a view shows them."""
    return "\n".join(chunk.text for chunk in chunks)
