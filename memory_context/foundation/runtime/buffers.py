"""Buffers: `Flusher` writes one when it is full, after a while, on request, and again after a failure.

`Unwritten` writes the buffers of a store before it is closed, and before an event loop or the process ends:

a buffer has content ─▶ hold ──close of the store, loop or process, SIGTERM──▶ write_out
                          └────── written ─▶ release

loop.shutdown_asyncgens (asyncio.run, asyncio.Runner)    in that loop: it closes a generator held open there
SIGTERM without another handler                          in the running loops
interpreter exit                                         in a new loop, without threads
"""

import asyncio
import atexit
import inspect
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import CoroutineType
from typing import Any, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from ..errors import StoreError
from .background import Background, Breaker, PerLoop, Timer

__all__ = ["WRITE_SECONDS", "Buffer", "Flusher", "Unwritten", "watch"]

_logger = logging.getLogger("memory_context")

_SECONDS = 30.0
_END_SECONDS = 45.0  # an embedded server may have to be set up first
_PACKAGE = str(Path(__file__).parents[2])

_T = TypeVar("_T")


class _Watch:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.owners = WeakSet[Unwritten]()
        self.end = _close_at_the_end(loop)
        # runs to its yield without waiting; an ended loop refuses with a ResourceWarning
        with suppress(StopIteration, ResourceWarning):
            self.end.__anext__().send(None)


_lock = threading.RLock()  # reentrant: the garbage collector may interrupt
_watched: dict[asyncio.AbstractEventLoop, _Watch] = {}
_held: "set[Unwritten]" = set()
_stopping: set[asyncio.AbstractEventLoop] = set()
_terminations = Background[None]("memory_context termination")
_process_id = 0  # forked processes inherit handlers


def watch(loop: asyncio.AbstractEventLoop, owner: "Unwritten") -> None:
    """Have the buffers of a store, held weakly, written before this event loop ends, or by SIGTERM."""
    global _process_id
    watch = _watched.get(loop)
    if watch is None:
        with _lock:
            for ended in [one for one in _watched if one.is_closed()]:
                _silence(ended)
                del _watched[ended]
            watch = _watched[loop] = _Watch(loop)
            is_main = threading.current_thread() is threading.main_thread()
            # unless the application has a handler; not `add_signal_handler`: between two loops SIGTERM would be
            # ignored, and a forked child's would reach us
            if is_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
                signal.signal(signal.SIGTERM, _on_sigterm)
                _process_id = os.getpid()
    watch.owners.add(owner)


async def _close_at_the_end(loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        watch = _watched.get(loop)  # kept until the loop is closed, against a second watch
        if watch is not None and loop.is_running():
            hooks = sys.get_asyncgen_hooks()
            sys.set_asyncgen_hooks(None, None)  # else the loop warns of generators that the driver starts
            try:
                await _all(*(owner.close_for_good() for owner in [*watch.owners]), seconds=_END_SECONDS)
            finally:
                sys.set_asyncgen_hooks(*hooks)


async def _all(*work: Any, seconds: float = _SECONDS) -> None:
    done = await asyncio.wait_for(asyncio.gather(*work, return_exceptions=True), seconds)
    for error in done:
        if isinstance(error, BaseException):
            _logger.warning("not everything was written at the end: %s", error)


def _on_sigterm(*_: object) -> None:
    if os.getpid() == _process_id:
        if _stopping:
            return
        _stopping.update(loop for loop in [*_watched] if loop.is_running())
        for loop in [*_stopping]:
            loop.call_soon_threadsafe(_terminations.start, partial(_stop, loop))
        if _stopping:
            return
        _at_exit()
    _end()


async def _stop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        await _all(*(owner.write_out() for owner in [*_watched[loop].owners]))
    except asyncio.TimeoutError:
        _logger.warning("not everything was written in %g s before the process was stopped", _SECONDS)
    finally:
        _stopping.discard(loop)
        if not _stopping:
            _end()


def _end() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


class _Inline(ThreadPoolExecutor):
    """Runs work at once: at exit threads cannot be started."""

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> "Future[_T]":
        future: Future[_T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


_handles_exit = False


def _handle_exit() -> None:
    """Not `atexit` if possible: it would first stop a later-started embedded server."""
    global _handles_exit
    if not _handles_exit:
        _handles_exit = True
        register: Callable[[Callable[[], None]], object] = getattr(threading, "_register_atexit", atexit.register)
        with suppress(RuntimeError):
            register(_at_exit)


def _at_exit() -> None:
    for loop in [loop for loop in _watched if not loop.is_running()]:
        _silence(loop)
    # other threads write in their own loops
    running = [(loop, watch) for loop, watch in [*_watched.items()] if loop.is_running()]
    writing = [
        asyncio.run_coroutine_threadsafe(_all(*(owner.write_out() for owner in [*watch.owners])), loop)
        for loop, watch in running
    ]
    for one in writing:
        with suppress(Exception):
            one.result(_SECONDS)
    try:
        if _held:
            _write_in_a_loop_of_its_own()
    except Exception as error:
        _logger.warning("not everything was written when the program ended: %s", str(error) or type(error).__name__)
    for watch in [watch for loop, watch in _watched.items() if not loop.is_running()]:
        with suppress(StopIteration, RuntimeError):
            watch.end.aclose().send(None)


def _silence(loop: asyncio.AbstractEventLoop) -> None:
    """Silence Python's warnings of our tasks in a loop closed by hand."""
    for task in asyncio.all_tasks(loop):
        work = task.get_coro()
        code = getattr(work, "cr_code", None)
        if code is not None and (code is asyncio.to_thread.__code__ or code.co_filename.startswith(_PACKAGE)):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio.gather does
            if isinstance(work, CoroutineType) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
                work.close()  # begun in the loop's last moment; else "never awaited"


def _write_in_a_loop_of_its_own() -> None:
    loop = asyncio.new_event_loop()
    try:
        loop.set_default_executor(_Inline())
        loop.run_until_complete(_all(*(owner.close_for_good() for owner in [*_held]), seconds=_END_SECONDS))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        _silence(loop)
        loop.close()


def _after_fork() -> None:
    """Leave the buffers to the parent process."""
    _watched.clear()
    _held.clear()
    _stopping.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


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
            if self not in _held:
                with _lock:
                    _held.add(self)
                    _handle_exit()
            if loop is not None:
                watch(loop, self)

    def release(self, buffer: Buffer) -> None:
        if buffer in self._kept:
            with self._lock:
                self._kept.discard(buffer)
            if not self._kept:
                _held.discard(self)

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
