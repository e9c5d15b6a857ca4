"""Writes a buffer when full, after a while, on request, and again after a failure.

note ──full──▶ write ◀──after a while── timer        close, SIGTERM ─▶ Unwritten ─▶ flush
                 └──failed──▶ breaker open: only a flush tries
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from .background import Background, PerLoop, Timer
from .breaker import Breaker

__all__ = ["Flusher"]

_CANCEL_SECONDS = 1.0

Write = Callable[[], Coroutine[Any, Any, None]]


class Flusher:
    """Writes the buffer of one owner, one write at a time per event loop; `write` raises if content stays buffered."""

    def __init__(
        self,
        name: str,
        write: Write,
        waiting: Callable[[], int],
        *,
        batch: int,
        batch_seconds: float,
        retry_seconds: float,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self.breaker = Breaker(retry_seconds)
        self.batch_seconds = batch_seconds
        self.writing = Background[None](name)
        self._write = write
        self._waiting = waiting
        self._batch = batch
        self._on_failure = on_failure
        self._timers = PerLoop(lambda: Timer(self._begin))

    def note(self, *, now: bool = False) -> None:
        """Schedule a write, as soon as possible if `now`, without I/O or errors."""
        try:
            timer = self._timers.here()
        except RuntimeError:
            return
        if not (waiting := self._waiting()):
            timer.cancel()
        elif (waiting < self._batch and not now) or self.breaker.is_open:
            timer.plan(max(0 if now or waiting >= self._batch else self.batch_seconds, self.breaker.seconds_left))
        else:
            self._begin()

    async def flush(self, write: Write | None = None, *, is_shielded: bool = True, if_stopped: str = "") -> None:
        """Write the buffer (or by `write` a part) after the running write; StoreUnavailableError if stopped.

        Unless `is_shielded`, cancelling this caller cancels the write.
        """
        await self.writing.wait()
        if write is None and not self._waiting():
            return
        task = self._begin(write)
        try:
            await self.writing.result(self._write, if_stopped=if_stopped)
        except asyncio.CancelledError:
            if not is_shielded:
                task.cancel()
                await asyncio.wait([task], timeout=_CANCEL_SECONDS)
            raise

    async def stop(self) -> None:
        await self.writing.stop()
        self._timers.here().cancel()

    def forget(self) -> None:
        for _, timer in self._timers.all():
            timer.cancel()

    def _begin(self, write: Write | None = None) -> "asyncio.Task[None]":
        if (task := self.writing.running()) is None:  # else its end notes the rest
            task = self.writing.start(lambda: self._tried(write or self._write))
            task.add_done_callback(self._written)
        return task

    async def _tried(self, write: Write) -> None:
        self._timers.here().cancel()
        try:
            await write()
        except Exception:
            self.breaker.failed()
            raise
        self.breaker.worked()

    def _written(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled():  # the event loop may be ending: start nothing
            if self._waiting():
                self._timers.here().plan(max(self.batch_seconds, self.breaker.seconds_left))
            return
        if (error := task.exception()) is not None:
            self._on_failure(error)
        self.note()
