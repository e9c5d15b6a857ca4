"""Buffers: `Flusher` writes one when it is full, after a while, on request, and again after a failure.

`Unwritten` writes those of a store before it is closed:

a buffer has content ─▶ hold ──close of the store, loop or process, SIGTERM──▶ write_out
                          └────── written ─▶ release
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakSet

from ..errors import StoreError
from .background import Background, Breaker, PerLoop, Timer
from .shutdown import hold, let_go, watch

__all__ = ["WRITE_SECONDS", "Buffer", "Flusher", "Unwritten"]

_logger = logging.getLogger("memory_context")

WRITE_SECONDS = 5.0
_AT_ONCE = 4  # leaves connections to others
_MOST_TOLD = 10
_CANCEL_SECONDS = 1.0
Write = Callable[[], Coroutine[Any, Any, None]]


class Buffer(Protocol):
    """An object that writes later; lower `write_order` first, since others refer to it."""

    write_order: int

    @property
    def extra_seconds(self) -> float: ...

    @property
    def unwritten(self) -> str:
        """Content that would be lost, such as `session 's1': 20 messages`."""
        ...

    async def write_out(self, *, is_last: bool) -> None:
        """Write everything, or raise a StoreError; after `is_last` nothing may continue, even if cancelled."""
        ...


class Unwritten:
    """The buffers of one store; `started` waits for a database being set up."""

    def __init__(self, close: Callable[[], Awaitable[None]], started: Callable[[], Awaitable[None]]) -> None:
        self._close = close
        self._started = started
        self._lock = threading.Lock()
        self._homes: WeakKeyDictionary[Buffer, asyncio.AbstractEventLoop | None] = WeakKeyDictionary()
        self._kept: set[Buffer] = set()
        self._ended: WeakSet[asyncio.AbstractEventLoop] = WeakSet()

    @property
    def is_empty(self) -> bool:
        return not self._kept

    def hold(self, buffer: Buffer) -> None:
        """Keep a buffer alive and write it before this event loop or the process ends."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            loop = None
        if buffer in self._kept and self._homes.get(buffer) is loop:
            return
        has_ended = loop is not None and loop in self._ended
        with self._lock:
            self._homes[buffer] = loop
            if not has_ended:
                self._kept.add(buffer)
        if not has_ended:
            hold(self)
            if loop is not None:
                watch(loop, self)

    def release(self, buffer: Buffer) -> None:
        if buffer in self._kept:
            with self._lock:
                self._kept.discard(buffer)
            if not self._kept:
                let_go(self)

    async def write_out(self, seconds: float = WRITE_SECONDS) -> None:
        """Write buffers of this and closed event loops; failures are only logged."""
        await self._write(self._here(is_last=False), seconds, is_last=False)

    async def close_for_good(self) -> None:
        """Write the buffers in about 5 s, drop the rest, close the store."""
        self._ended.add(asyncio.get_running_loop())
        buffers = self._here(is_last=True)
        await self._write(buffers, WRITE_SECONDS, is_last=True)
        for buffer in buffers:
            self.release(buffer)
        await self._close()

    def _here(self, *, is_last: bool) -> list[Buffer]:
        """Return the buffers that are safe to write here."""
        loop = asyncio.get_running_loop()
        with self._lock:
            homes = list(self._homes.items())
        buffers = [
            buffer
            for buffer, home in homes
            if home is None or home is loop or home.is_closed() or (is_last and not home.is_running())
        ]
        return sorted((one for one in buffers if one.unwritten), key=lambda one: one.write_order)

    async def _write(self, buffers: list[Buffer], seconds: float, *, is_last: bool) -> None:
        if buffers:
            with suppress(StoreError):  # each buffer reports it
                await self._started()
        seconds += sum(buffer.extra_seconds for buffer in buffers)
        deadline = time.monotonic() + seconds
        slots = asyncio.Semaphore(_AT_ONCE)
        failed: list[str] = []

        async def write(buffer: Buffer) -> None:
            async with slots:
                if not (unwritten := buffer.unwritten):
                    return
                try:
                    await asyncio.wait_for(buffer.write_out(is_last=is_last), max(deadline - time.monotonic(), 0.1))
                    return
                except asyncio.TimeoutError:
                    reason = f"not done in {seconds:.3g} s"
                except Exception as error:  # one buffer must not block others
                    reason = str(error) or type(error).__name__
                failed.append(f"{unwritten} ({reason})")

        for order in sorted({buffer.write_order for buffer in buffers}):
            now = [buffer for buffer in buffers if buffer.write_order == order]
            await asyncio.gather(*(write(buffer) for buffer in now))
        if failed:
            more = f"; and {len(failed) - _MOST_TOLD} more" if len(failed) > _MOST_TOLD else ""
            _logger.warning(
                "%s without everything being written: %s%s. Contexts that the program still has can write it when the "
                "store is there: await context.archive()",
                "the event loop ends" if is_last else "a store is closed",
                "; ".join(failed[:_MOST_TOLD]),
                more,
            )


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
