"""A log that has grown is condensed: prepared in the background from a share of its threshold, above it at once."""

import time
from collections.abc import Callable, Sequence
from functools import partial

from ..policy import ObservationPolicy
from ..tokens import TokenCounter, count_off_loop
from ..transcript import Decision, ObservationChunk, ObservationLog, Reflected, Transcript, reflected_chunks
from .activation import chunk_texts
from .events import ReflectionEvent
from .flight import Flight
from .ports import Observers, Reflection

__all__ = ["Condenser"]

_FALLBACK_SHARE = 2.0  # of the threshold: a log that stays so long is condensed without the model


class Condenser:
    """Condenses one observation log. After a reflection without gain it waits for new lines."""

    def __init__(
        self,
        transcript: Transcript,
        observers: Observers,
        policy: ObservationPolicy,
        counter: TokenCounter,
        decide: Callable[[Decision], None],
    ) -> None:
        self._transcript = transcript
        self._observers = observers
        self._policy = policy
        self._counter = counter
        self._decide = decide
        self._reflecting = Flight[Reflection]("memory_context reflector")
        self._finished: tuple[int, Reflection] | None = None  # with the generation that it was made for
        self._lines_without_gain = -1

    @property
    def is_running(self) -> bool:
        return self._reflecting.is_running

    def cancel(self) -> None:
        """Cancel what is in flight; a finished reflection stays."""
        self._reflecting.void()

    def void(self) -> None:
        """Drop what is in flight or finished."""
        self.cancel()
        self._finished = None

    async def condense(self, deadline: float) -> None:
        """Condense the log if it is due, until a monotonic time."""
        log, limit = self._log, await self._observers.reflection_threshold()
        if limit <= 0 or self._lines_without_gain == log.lines_made:
            return
        if log.tokens < self._policy.reflection_buffer_activation * limit:
            return
        if log.tokens < limit:
            if self._finished is None and not self.is_running:
                self._start(limit, is_sync=False)
            return
        if await self._apply() and self._log.tokens < limit:
            return
        if not self.is_running:
            self._start(limit, is_sync=True)
        error = await self._reflecting.wait(deadline - time.monotonic())
        if error is not None and not isinstance(error, TimeoutError):  # else it goes on in the background
            self._observers.events.logger.warning("the observations are not condensed: %s", str(error) or repr(error))
        await self._apply()
        if self._log.tokens >= _FALLBACK_SHARE * limit:
            await self._condense_without_model(limit)

    @property
    def _log(self) -> ObservationLog:
        return self._transcript.state.observation

    def _start(self, limit_tokens: int, *, is_sync: bool) -> None:
        generation, chunks = self._log.generation, [*self._log.chunks]

        def take(reflection: Reflection) -> None:
            self._finished = generation, reflection

        work = partial(self._observers.reflect, chunks, self._target(limit_tokens), is_sync=is_sync)
        self._reflecting.start(work, take, is_sync=is_sync)

    def _target(self, limit_tokens: int) -> int:
        """Return less than the threshold, so that not each new chunk condenses the log again."""
        return int(self._policy.reflection_buffer_activation * limit_tokens)

    async def _condense_without_model(self, limit_tokens: int) -> None:
        log = self._log
        target = self._target(limit_tokens)
        made = await self._observers.reflect([*log.chunks], target, is_sync=True, is_model_asked=False)
        self._finished = log.generation, made
        await self._apply()

    async def _apply(self) -> bool:
        """Record a finished reflection, with what was appended since; return whether the log shrank."""
        finished, self._finished = self._finished, None
        log = self._log
        if finished is None or finished[0] != log.generation:
            return False
        made, before = finished[1], [*log.chunks]
        chunks = reflected_chunks(before, made.edits, log.lines_made + 1)
        tokens = await self._tokens(chunks)
        if self._log is not log or log.chunks != before:
            return False  # it changed meanwhile
        if sum(tokens) >= log.tokens:
            self._lines_without_gain = log.lines_made
            return False
        self._decide(Reflected.of(log, made.edits, tokens, made.level, made.record))
        now = chunk_texts(log.chunks)
        make = partial(ReflectionEvent, chunk_texts(before), now, log.generation, made.level)
        self._observers.events.note(ReflectionEvent, make)
        return True

    async def _tokens(self, chunks: Sequence[ObservationChunk]) -> tuple[int, ...]:
        counts = iter(await count_off_loop(self._counter, [one.text for one in chunks if not one.tokens]))
        return tuple(one.tokens or next(counts) for one in chunks)
