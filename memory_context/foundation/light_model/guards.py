"""The guards of one light model: one for each kind of question, with a breaker and a bill of its own."""

import asyncio
from collections.abc import Callable
from weakref import WeakMethod

from autogen_core.models import ChatCompletionClient

from ..runtime.background import attempt
from .model import LightModel
from .usage import NO_USAGE, LightModelBill, LightModelUsage

__all__ = [
    "DECISION_SECONDS",
    "DEFAULT_WINDOW_TOKENS",
    "OBSERVING_NOW_SECONDS",
    "OBSERVING_SECONDS",
    "RETRY_SECONDS",
    "SUMMARY_SECONDS",
    "SUMMARY_TOKENS",
    "LightModelGuards",
]

RETRY_SECONDS = 30.0
"""A light model that failed is not asked for so long."""

DECISION_SECONDS = 5.0
"""The longest that a step waits for a decision about expansions; then the rules decide."""
SUMMARY_SECONDS = 30.0
"""The longest for a summary, a title, or what is learned; with `compaction.mode="model"` a result waits so long."""
SUMMARY_TOKENS = 200
"""The most of a summary: nearly what the facts take that it replaces."""
_DECISION_TOKENS, _LEARNING_TOKENS = 300, 600
OBSERVING_SECONDS = 60.0
"""The longest of one observer or reflector call in the background."""
OBSERVING_NOW_SECONDS = 10.0
"""The longest that a step waits for observations; then the oldest steps fold."""

DEFAULT_WINDOW_TOKENS = 32_000
"""Context window of a light model whose client does not tell it."""

_JSON_OVERHEAD_TOKENS = 100
_WINDOW_SECONDS = 2.0


class LightModelGuards:
    """Guards of one client for decisions, summaries, titles, learning and observations; None without a client.

    Separate breakers: slow summaries must not stop decisions.

    Attributes:
        observing: Of observers and reflectors in the background; `observing_now` of those that a step waits for.
        other_observations: Calls of an application's own function in their place.
    """

    def __init__(self, client: ChatCompletionClient | None) -> None:
        def guard(seconds: float, tokens: int = _DECISION_TOKENS, *, is_background: bool = True) -> LightModel | None:
            if client is None:
                return None
            return LightModel(
                client,
                timeout_seconds=seconds,
                retry_seconds=RETRY_SECONDS,
                answer_limit_tokens=tokens,
                is_background=is_background,
            )

        self.client = client
        self.other_observations = NO_USAGE
        self._recorded = LightModelBill()
        self._on_use: WeakMethod[Callable[[], None]] | None = None
        self._window_tokens: int | None = None
        summary_tokens = 2 * SUMMARY_TOKENS + _JSON_OVERHEAD_TOKENS
        self.decisions = guard(DECISION_SECONDS, is_background=False)
        self.summaries, self.titles = (guard(SUMMARY_SECONDS, summary_tokens) for _ in range(2))
        self.learning = guard(SUMMARY_SECONDS, _LEARNING_TOKENS)
        self.observing = guard(OBSERVING_SECONDS)
        self.observing_now = guard(OBSERVING_NOW_SECONDS, is_background=False)

    async def window_tokens(self) -> int:
        """Return the context window that the client tells, else 32,000."""
        if self._window_tokens is None:
            found = DEFAULT_WINDOW_TOKENS
            if self.client is not None:
                # in a thread: counting may need the network, and a client may raise for a model that it does not know
                asked = await attempt(asyncio.to_thread(self.client.remaining_tokens, []), _WINDOW_SECONDS)
                if asked is not None and not asked.cancelled() and asked.exception() is None and asked.result() > 0:
                    found = asked.result()
            self._window_tokens = found
        return self._window_tokens

    def notify(self, note: Callable[[], None] | None) -> None:
        """Call a weakly held method after each question."""
        self._on_use = None if note is None else WeakMethod(note)
        for guard in self._guards:
            if guard is not None:
                guard.on_use = self._on_use

    def watch(self, watcher: Callable[[str], object]) -> None:
        """Call a weakly held method with the text of each outage of the model."""
        for guard in self._guards:
            if guard is not None:
                guard.outages.watch(watcher)

    def bill_other(self, used: LightModelUsage) -> None:
        """Count a call of an application's own function."""
        self.other_observations += used
        if (note := self._on_use and self._on_use()) is not None:
            note()

    @property
    def used(self) -> LightModelBill:
        decisions, summaries, titles, learning, behind, now = (
            NO_USAGE if guard is None else guard.usage for guard in self._guards
        )
        observations = behind + now + self.other_observations
        return LightModelBill(decisions, summaries, titles, learning, observations)

    @property
    def _guards(self) -> tuple[LightModel | None, ...]:
        own = (self.decisions, self.summaries, self.titles, self.learning)
        return (*own, self.observing, self.observing_now)

    def bill(self, recorded: LightModelBill) -> LightModelBill:
        return recorded + (self.used - self._recorded)

    @property
    def has_news(self) -> bool:
        """True after calls since `take_recorded`."""
        is_used = self.client is not None or self.other_observations is not NO_USAGE
        return is_used and self.used != self._recorded

    def take_recorded(self) -> None:
        """Let later bills start here."""
        self._recorded = self.used
