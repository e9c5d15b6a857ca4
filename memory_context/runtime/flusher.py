"""When a buffer is written: as soon as it is full, after a while, on request; later again when that failed.

    note ──full──▶ write ◀──after a while── timer        close, SIGTERM ─▶ Unwritten ─▶ flush
                     └──failed──▶ the breaker is open: nothing is tried until it closes, but for a flush

Promises: noting does no I/O and never raises; one write at a time in an event loop; what is not written stays with the
owner of the buffer and is tried again, by whichever event loop comes next.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from .background import Background
from .breaker import Breaker
from .loops import PerLoop, Timer

__all__ = ["Flusher"]

_CANCEL_SECONDS = 1.0

Write = Callable[[], Coroutine[Any, Any, None]]


class Flusher:
    """Writes what an owner buffers.

    Args:
        name: Names the tasks that write.
        write: Writes what is buffered; raises if it stays buffered.
        waiting: Returns how much is buffered; 0 for nothing.
        batch: It is written as soon as there is so much.
        batch_seconds: It is written after so long at the latest.
        retry_seconds: How long nothing is tried after a write failed, but for a flush.
        on_failure: Called with the error of each write that failed.

    Attributes:
        breaker: Open for a while after a failed write.
        batch_seconds: As given.
        writing: The writes under way.
    """

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

    def note(self) -> None:
        """Have what is buffered written in time; without an event loop, by the next one that notes something."""
        try:
            timer = self._timers.here()
        except RuntimeError:
            return
        if not (waiting := self._waiting()):
            timer.cancel()
        elif waiting < self._batch or self.breaker.is_open:
            timer.plan(max(0 if waiting >= self._batch else self.batch_seconds, self.breaker.seconds_left))
        else:
            self._begin()

    async def flush(self, write: Write | None = None, *, is_shielded: bool = True, if_stopped: str = "") -> None:
        """Write what is buffered, after what is being written.

        Args:
            write: Writes a part of it instead.
            is_shielded: Whether the write goes on when this caller is cancelled.
            if_stopped: What the error says if somebody else stops it.

        Raises:
            StoreUnavailableError: It was stopped meanwhile.
            Exception: What the write raised; it stays buffered.
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
        """Let nothing run on in this event loop; what is not written stays buffered."""
        await self.writing.stop()
        self._timers.here().cancel()

    def forget(self) -> None:
        """Plan nothing any more: nothing is buffered, or it is given up."""
        for _, timer in self._timers.all():
            timer.cancel()

    def _begin(self, write: Write | None = None) -> "asyncio.Task[None]":
        if (task := self.writing.running()) is None:  # else what is left is noted when it is done
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
        if task.cancelled():  # the event loop may be ending: what began now would be cut off
            if self._waiting():
                self._timers.here().plan(max(self.batch_seconds, self.breaker.seconds_left))
            return
        if (error := task.exception()) is not None:
            self._on_failure(error)
        self.note()
