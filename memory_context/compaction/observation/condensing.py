"""A log that has grown is condensed: prepared in the background from a share of its threshold, above it at once."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Generic, TypeVar

from memory_context.foundation.runtime.background import Background
from memory_context.foundation.tokens import TokenCounter, count_off_loop
from memory_context.sessions.transcript.observation_decisions import Reflected
from memory_context.sessions.transcript.observations import Edit, ObservationChunk, ObservationLog, reflected_chunks
from memory_context.sessions.transcript.transcript import Decision, Transcript

from .activation import chunk_texts
from .events import ReflectionEvent
from .facts import LINE_TOKENS
from .observers import TranscriptObservers
from .reflector import ReflectorOutput

__all__ = ["Condenser", "Flight"]

T = TypeVar("T")
_PREPARED_SHARE = 0.5
"""Share of the threshold from which a reflection is prepared in the background, and its target."""
_FALLBACK_SHARE = 2.0  # of the threshold: a log that stays so long loses lines without the model


class Flight(Generic[T]):
    """A run in the background, at most one; that of another event loop, which may have ended, no longer counts."""

    def __init__(self, name: str) -> None:
        self._background = Background[None](name)
        self._task: asyncio.Task[None] | None = None
        self._run: object = None
        self.is_sync = False

    @property
    def is_running(self) -> bool:
        task = self._task
        return task is not None and not task.done() and _is_here(task)

    def start(
        self, work: Callable[[], Coroutine[Any, Any, T]], take: Callable[[T], None], *, is_sync: bool = False
    ) -> object:
        """Start a run and return it; one in flight becomes void. `take` gets its result without an await between."""
        self.void()
        run = self._run = object()
        self.is_sync = is_sync

        async def fly() -> None:
            result = await work()
            if self._run is run:
                take(result)

        self._task = self._background.start(fly)
        return run

    async def wait(self, seconds: float) -> BaseException | None:
        """Wait for the run; return why it has no result. A cancelled waiter leaves it alone."""
        task = self._task
        if task is None or not _is_here(task):
            return asyncio.CancelledError()
        await asyncio.wait([task], timeout=max(seconds, 0.0))
        if not task.done():
            return TimeoutError(f"not done within {seconds:g} s")
        return asyncio.CancelledError() if task.cancelled() else task.exception()

    def void(self, run: object = None) -> None:
        """Cancel what is in flight, or only this run; its result is dropped, also if it ignores that."""
        if run is not None and run is not self._run:
            return
        self._run = self._task = None
        self._background.cancel()


def _is_here(task: "asyncio.Task[None]") -> bool:
    """Return whether a task can still go on for the caller."""
    try:
        return task.get_loop() is asyncio.get_running_loop()
    except RuntimeError:  # a caller without an event loop
        return not task.get_loop().is_closed()


class Condenser:
    """Condenses one observation log. After a reflection without gain it waits for new lines."""

    def __init__(
        self,
        transcript: Transcript,
        observers: TranscriptObservers,
        counter: TokenCounter,
        decide: Callable[[Decision], None],
    ) -> None:
        self._transcript = transcript
        self._observers = observers
        self._models = observers.models
        self._counter = counter
        self._decide = decide
        self._reflecting = Flight[ReflectorOutput]("memory_context reflector")
        self._finished: tuple[int, ReflectorOutput] | None = None  # with the generation that it was made for
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
        if log.tokens < _PREPARED_SHARE * limit:
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
            self._models.events.logger.warning("the observations are not condensed: %s", str(error) or repr(error))
        await self._apply()
        if self._log.tokens >= _FALLBACK_SHARE * limit:
            edits = _without_oldest(self._log, self._target(limit), self._counter)
            self._finished = self._log.generation, ReflectorOutput(edits)
            await self._apply()

    @property
    def _log(self) -> ObservationLog:
        return self._transcript.state.observation

    def _start(self, limit_tokens: int, *, is_sync: bool) -> None:
        generation, chunks = self._log.generation, [*self._log.chunks]

        def take(reflection: ReflectorOutput) -> None:
            self._finished = generation, reflection

        work = partial(self._observers.reflect, chunks, self._target(limit_tokens), is_sync=is_sync)
        self._reflecting.start(work, take, is_sync=is_sync)

    def _target(self, limit_tokens: int) -> int:
        """Return less than the threshold, so that not each new chunk condenses the log again."""
        return int(_PREPARED_SHARE * limit_tokens)

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
        self._models.events.note(ReflectionEvent, make)
        return True

    async def _tokens(self, chunks: Sequence[ObservationChunk]) -> tuple[int, ...]:
        counts = iter(await count_off_loop(self._counter, [one.text for one in chunks if not one.tokens]))
        return tuple(one.tokens or next(counts) for one in chunks)


def _without_oldest(log: ObservationLog, limit_tokens: int, counter: TokenCounter) -> tuple[Edit, ...]:
    """Return edits that drop a log's oldest lines down to a limit, the user's last; their messages stay readable."""
    room, dropped = log.tokens - limit_tokens, list[Edit]()
    for line in sorted(log.lines, key=lambda line: (line.priority == "user", line.id))[:-1]:
        if room <= 0:
            break
        room -= counter.count(line.text) + LINE_TOKENS
        dropped.append(Edit("drop", (line.id,)))
    return tuple(dropped)
