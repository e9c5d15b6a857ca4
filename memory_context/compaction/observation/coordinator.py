"""Decides when messages are observed, when their observations replace them, and when the log is condensed.

    end of a step ──unobserved tokens reach the interval──▶ observer, in the background ──▶ ObservationBuffered
                  ──view at activation_ratio──▶ finished chunks ──▶ ObservationsActivated
                                                  └──still over──▶ observer, waited for ──▶ both
                  ──log over its threshold──▶ reflector ──▶ Reflected

No await stands between a check and its decision; what does not fit any more has no effect. Models and the store may
fail: then nothing changes, and the fold holds the budget.
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage, UserMessage

from memory_context.foundation.light_model import guards
from memory_context.foundation.messages import calls_of
from memory_context.foundation.runtime.background import Breaker
from memory_context.foundation.tokens import TokenCounter
from memory_context.sessions.transcript.entries import Entry
from memory_context.sessions.transcript.observation_decisions import ObservationBuffered, ObservationsRestored
from memory_context.sessions.transcript.observations import ObservationChunk, ObservationLog
from memory_context.sessions.transcript.transcript import Decision, Transcript

from . import activation, observer
from .activation import Activation, Views, chunk_texts
from .condensing import Condenser, Flight
from .observers import TranscriptObservers
from .reading import UnobservedTokens
from .state import BufferState

__all__ = ["BufferingCoordinator"]


class BufferingCoordinator:
    """Observes one transcript.

    Args:
        on_change: Called after each decision.
    """

    def __init__(
        self,
        transcript: Transcript,
        views: Views,
        observers: TranscriptObservers,
        counter: TokenCounter,
        on_change: Callable[[], object] = lambda: None,
    ) -> None:
        self.transcript = transcript
        self._views = views
        self._observers = observers
        self._models = observers.models
        self._policy = policy = observers.models.policy
        self._counter = counter
        self._on_change = on_change
        self._unobserved = UnobservedTokens(transcript, policy)
        self._activation = Activation(transcript, views, observers.models, counter, self._decide)
        self._observing = Flight[ObservationChunk]("memory_context observer")
        self._condenser = Condenser(transcript, observers, counter, self._decide)
        self._breaker = Breaker(guards.RETRY_SECONDS)

    # --- for applications

    @property
    def log(self) -> ObservationLog:
        return self.transcript.state.observation

    @property
    def observations(self) -> str:
        """The log as the view shows it."""
        return chunk_texts(self.log.chunks)

    @property
    def observation_token_count(self) -> int:
        return self.log.tokens

    @property
    def is_observer_in_flight(self) -> bool:
        return self._observing.is_running

    @property
    def is_reflector_in_flight(self) -> bool:
        return self._condenser.is_running

    @property
    def is_processing(self) -> bool:
        return self.is_observer_in_flight or self.is_reflector_in_flight

    def abort(self) -> None:
        """Cancel what is in flight; its result is void. Finished chunks stay."""
        self._observing.void()
        self._condenser.void()

    def get_state(self) -> BufferState:
        return BufferState.of(self.log)

    def restore_state(self, state: BufferState | Mapping[str, Any]) -> None:
        """Replace the log by a saved one, as far as this session's messages reach; what left the view stays out.

        Starts nothing; what is in flight is void.

        Raises:
            ValueError: It is not a state.
        """
        state = state if isinstance(state, BufferState) else BufferState.from_json(state)
        self.abort()
        self._decide(ObservationsRestored(state.to_log()))

    def model_changed(self) -> None:
        """Activate finished chunks: the model that is asked next has nothing of the view in its cache."""
        self._activation.activate("model_changed")

    async def observe_now(self, *, replaces: bool = False) -> ObservationChunk | None:
        """Observe up to the newest complete step and show it at once; the messages stay until the next activation.

        With `replaces` up to the newest step, and all observations replace their messages now. Returns the new chunk;
        None, and nothing is observed, if there was nothing to observe or the model failed.
        """
        chunk = await self._observed_now(self._activation.newest_step if replaces else self.transcript.end)
        if replaces:
            self._activation.activate("observe_now")
        return chunk

    async def _observed_now(self, end: int) -> ObservationChunk | None:
        first, last = self.log.observed, self._complete_end(end)
        if not self.is_on or last <= first:
            return None
        work = partial(self._observers.observe, first, last, self._previous(), is_sync=True)
        self._condenser.cancel()
        joined: list[ObservationChunk] = []
        run = self._observing.start(work, lambda chunk: joined.extend(self._activation.join_now(chunk)), is_sync=True)
        try:
            error = await self._observing.wait(guards.OBSERVING_NOW_SECONDS)
        finally:
            if not joined:
                self._observing.void(run)
        if not joined:
            self._models.events.logger.warning("nothing is observed now: %s", str(error) or repr(error))
            return None
        await self._condenser.condense(self._deadline())
        await self._models.events.fire()
        return joined[-1]

    # --- for the context

    @property
    def is_on(self) -> bool:
        return self._models.is_on and self._models.window_tokens > 0

    async def end_step(self, position: int) -> None:
        """Activate what is due, and start to observe what is new, after the message at a position was added.

        Below the threshold it reads nothing and waits for nothing; else for at most `OBSERVING_NOW_SECONDS`.
        """
        entry = self.transcript[position]
        if calls_of(entry.message) or not (self.is_on or self.log.has_finished):
            return
        deadline, chunks = self._deadline(), len(self.log.chunks)
        if self._is_cold(entry):
            self._activation.activate("cold")
        if self._activation.until <= 0:
            self._views.plan()
        if self._activation.until <= 0:
            self._activation.activate("ratio")
            if self._activation.until <= 0 and self.is_on:
                await self._observe_in_time(deadline)
        if len(self.log.chunks) > chunks and self.is_on:
            await self._condenser.condense(deadline)
        if self.is_on and self._ends_step(entry):
            await self._buffer()
        await self._models.events.fire()

    def activate_for_budget(self) -> None:
        """Activate what is finished, up to the newest step, before a view over its budget folds."""
        self._activation.activate("budget")

    def _decide(self, decision: Decision) -> None:
        self._views.record(decision)
        self._on_change()

    def _deadline(self) -> float:
        return time.monotonic() + guards.OBSERVING_NOW_SECONDS

    def _is_cold(self, entry: Entry) -> bool:
        """Return whether no call can have read the prompt cache lately."""
        return self.transcript.pause_seconds(entry.position) >= self._policy.cache.ttl_seconds

    def _ends_step(self, entry: Entry) -> bool:
        if isinstance(entry.message, UserMessage):  # without any answers, each message ends a step
            return entry.carries_result or not self.transcript.has_answer()
        return isinstance(entry.message, (AssistantMessage, FunctionExecutionResultMessage))

    # --- observing

    def _complete_end(self, end: int) -> int:
        """Return the end of the newest complete step up to here; at least what is observed."""
        pairing, observed = self.transcript.pairing, self.log.observed
        ends = pairing.step_ends(observed, min(end, pairing.first_open(end)))
        return ends[-1] if ends else observed

    async def _buffer(self) -> None:
        """Start an observer in the background if enough is unobserved."""
        if self._observing.is_running or self._breaker.is_open or not self._models.is_ready:
            return
        unobserved = self._unobserved.between(self.log.observed, self.transcript.end)
        if unobserved < activation.least_buffered(self._models.window_tokens):
            return
        light = await self._models.light_window_tokens()
        until = self._activation.until
        if self._observing.is_running or until <= 0:
            return
        if unobserved >= activation.buffer_interval(until, self._models.window_tokens, light):
            self._observe(self._complete_end(self.transcript.end), is_sync=False)

    async def _observe_in_time(self, deadline: float) -> None:
        """Observe what stands before the retention tail and activate it, or give up in time."""
        if not (self._observing.is_running and self._observing.is_sync):  # else another task's run serves both
            last = self._complete_end(self._activation.retention_start)
            if last <= self.log.observed or self._breaker.is_open:
                return
            self._observe(last, is_sync=True)
        if isinstance(await self._observing.wait(deadline - time.monotonic()), TimeoutError):
            self._breaker.failed()
        self._activation.activate("ratio")

    def _observe(self, last: int, *, is_sync: bool) -> None:
        first = self.log.observed
        if last > first:
            work = partial(self._observed, first, last, self._previous(), is_sync)
            self._observing.start(work, lambda chunk: self._decide(ObservationBuffered(chunk)), is_sync=is_sync)

    async def _observed(self, first: int, last: int, previous: str, is_sync: bool) -> ObservationChunk:
        try:
            chunk = await self._observers.observe(first, last, previous, is_sync=is_sync)
        except Exception as error:
            self._breaker.failed()
            logger = self._models.events.logger
            logger.warning("messages %d-%d are not observed for now: %s", first + 1, last, str(error) or repr(error))
            raise
        self._breaker.worked()
        return chunk

    def _previous(self) -> str:
        """Return the newest observations within their limit."""
        limit, lines = observer.PREVIOUS_TOKENS, list[str]()
        for chunk in reversed([*self.log.chunks, *self.log.buffered]):
            for line in reversed(chunk.text.split("\n")):
                limit -= self._counter.count(line) + 1
                if limit < 0:
                    return "\n".join(reversed(lines))
                lines.append(line)
        return "\n".join(reversed(lines))
