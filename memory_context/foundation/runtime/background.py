"""Tasks, timers, circuit breakers, and warnings about outages, logged once per outage.

A cancelled waiter leaves a task alone; a cancelled task spares its waiters.
"""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary, WeakMethod

from ..errors import StoreUnavailableError

__all__ = [
    "LARGE_CHARACTERS",
    "STORE_RETRY_SECONDS",
    "Background",
    "Breaker",
    "OutageLog",
    "PerLoop",
    "Timer",
    "attempt",
    "begin",
    "in_own_thread",
    "in_thread_if_large",
    "outages_of",
]

_logger = logging.getLogger("memory_context")

P = ParamSpec("P")
T = TypeVar("T")

LARGE_CHARACTERS = 20_000
"""Reading so many takes up to 10 ms; handing work to a thread takes 0.1 ms."""

_CANCEL_SECONDS = 0.2  # between cancellations: before 3.12 wait_for may swallow one


class PerLoop(Generic[T]):
    """One value per event loop; `adopt` gets a new value and that of each closed loop."""

    def __init__(self, make: Callable[[], T], adopt: Callable[[T, T], None] | None = None) -> None:
        self._make = make
        self._adopt = adopt
        self._lock = threading.Lock()
        self._values: dict[asyncio.AbstractEventLoop, T] = {}

    def here(self) -> T:
        """Return the running loop's value."""
        loop = asyncio.get_running_loop()
        value = self._values.get(loop)
        if value is not None:
            return value
        with self._lock:
            ended = [self._values.pop(other) for other in list(self._values) if other.is_closed()]
            value = self._values[loop] = self._make()
        if self._adopt is not None:
            for one in ended:
                self._adopt(value, one)
        return value

    def all(self) -> list[tuple[asyncio.AbstractEventLoop, T]]:
        return list(self._values.items())


class Background(Generic[T]):
    """Tasks of one owner, one per key and event loop."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: PerLoop[dict[Hashable, asyncio.Task[T]]] = PerLoop(dict)

    def running(self, key: Hashable = None) -> asyncio.Task[T] | None:
        task = self._tasks.here().get(key)
        return None if task is None or task.done() else task

    def start(self, work: Callable[[], Coroutine[Any, Any, T]], key: Hashable = None) -> asyncio.Task[T]:
        """Return the running task; start it if there is none."""
        task = self.running(key)
        if task is None:
            tasks = self._tasks.here()
            task = tasks[key] = asyncio.get_running_loop().create_task(work(), name=self._name)
            task.add_done_callback(partial(_ended, tasks, key))
        return task

    async def result(
        self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float | None = None, *, if_stopped: str = ""
    ) -> T:
        """Return the result of the task, started if needed; a TimeoutError leaves it running."""
        task = self.start(work)
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise asyncio.TimeoutError
        if task.cancelled():
            raise StoreUnavailableError(if_stopped or f"{self._name} was stopped before it was done")
        return task.result()

    async def wait(self, seconds: float | None = None) -> None:
        deadline = None if seconds is None else time.monotonic() + seconds
        while tasks := self._here():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            await asyncio.wait(tasks, timeout=left)

    async def stop(self, seconds: float = 1.0) -> None:
        """Cancel the tasks of this event loop; wait limited seconds."""
        deadline = time.monotonic() + seconds
        while (tasks := self._here()) and time.monotonic() < deadline:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=min(_CANCEL_SECONDS, seconds))

    def cancel(self, *keys: Hashable) -> None:
        """Cancel tasks in every event loop, without waiting."""
        for loop, tasks in self._tasks.all():
            given_up = [task for key in keys or list(tasks) if (task := tasks.pop(key, None)) is not None]
            for task in given_up:
                with suppress(RuntimeError):  # closed event loop
                    if _is_elsewhere(loop):
                        loop.call_soon_threadsafe(task.cancel)
                    else:
                        task.cancel()

    def _here(self) -> list[asyncio.Task[T]]:
        return [task for task in self._tasks.here().values() if not task.done()]


class Timer:
    """Calls a function once, at the earliest requested time, in the last requesting event loop.

    Not a task, since programs may drop loops.
    """

    def __init__(self, on_time: Callable[[], object]) -> None:
        self._on_time = on_time
        self._planned: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle, float] | None = None

    def plan(self, seconds: float) -> None:
        loop, due = asyncio.get_running_loop(), time.monotonic() + seconds
        if self._planned is not None:
            its_loop, _, its_due = self._planned
            if its_loop is loop and its_due <= due:
                return
            self.cancel()
        self._planned = (loop, loop.call_later(max(seconds, 0.0), self._call), due)

    def cancel(self) -> None:
        if self._planned is not None:
            self._planned[1].cancel()
            self._planned = None

    def _call(self) -> None:
        self._planned = None
        self._on_time()


def begin(work: Awaitable[T]) -> "asyncio.Future[T]":
    """Start a task."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(_retrieve)
    if isinstance(task, asyncio.Task):  # pyright: ignore[reportUnnecessaryIsInstance] # a future stays a future
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # a program may drop its loop in mid-flight
    return task


async def attempt(
    work: Awaitable[T], seconds: "float | Callable[[], float] | None", *, cancel_seconds: float = 0.0
) -> "asyncio.Future[T] | None":
    """Return a call's ended task; None if it took too long.

    A late or abandoned call is cancelled and awaited only for `cancel_seconds`: unlike under `asyncio.wait_for`, a call
    that ignores cancellation delays nobody.
    """
    task = begin(work)
    try:
        if callable(seconds):
            while not task.done() and (left := seconds()) > 0:
                await asyncio.wait([task], timeout=left)
        else:
            await asyncio.wait([task], timeout=seconds)
        return task if task.done() else None
    finally:
        if not task.done() and not task.get_loop().is_closed():
            task.cancel()
            if cancel_seconds:
                await asyncio.wait([task], timeout=cancel_seconds)


async def in_thread_if_large(size: float, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return a function's result, from a thread for large input; it must read nothing that the event loop changes."""
    if size > LARGE_CHARACTERS:
        return await asyncio.to_thread(function, *args, **kwargs)
    return function(*args, **kwargs)


def in_own_thread(function: Callable[[], T], name: str) -> "Future[T]":
    """Call a function in a daemon thread: if it never returns, neither a pool nor the process waits for it."""
    answer: Future[T] = Future()
    answer.set_running_or_notify_cancel()  # else a waiter could cancel what goes on

    def run() -> None:
        try:
            answer.set_result(function())
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return answer


def _is_elsewhere(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is not loop
    except RuntimeError:
        return True


def _ended(tasks: dict[Hashable, asyncio.Task[T]], key: Hashable, task: asyncio.Task[T]) -> None:
    if tasks.get(key) is task:
        del tasks[key]
    _retrieve(task)


def _retrieve(task: "asyncio.Future[Any]") -> None:
    if not task.cancelled():
        task.exception()  # else asyncio logs it as never retrieved


class Breaker:
    """closed ──failures in a row──▶ open ──retry_seconds──▶ trial ──worked──▶ closed, or ──failed──▶ open

    The back-off doubles up to `longest_seconds` (None: constant).

    Attributes:
        retry_at: Monotonic time of the next trial; 0 while closed.
    """

    def __init__(
        self, retry_seconds: float, *, failures_allowed: int = 1, longest_seconds: float | None = None
    ) -> None:
        self.retry_at = 0.0
        self._first_seconds = self._next_seconds = retry_seconds
        self._longest_seconds = retry_seconds if longest_seconds is None else longest_seconds
        self._failures_allowed = failures_allowed
        self._failures_in_a_row = 0

    @property
    def is_open(self) -> bool:
        return time.monotonic() < self.retry_at

    @property
    def is_on_trial(self) -> bool:
        """True if one failure opens it again."""
        return 0 < self.retry_at <= time.monotonic()

    @property
    def seconds_left(self) -> float:
        return max(self.retry_at - time.monotonic(), 0.0)

    def failed(self, *, at_once: bool = False) -> float:
        """Count a failure; return the seconds until a trial."""
        self._failures_in_a_row += 1
        if not (at_once or self.retry_at or self._failures_in_a_row >= self._failures_allowed):
            return 0.0
        seconds = self._next_seconds
        self._next_seconds = min(2 * seconds, self._longest_seconds)
        self.retry_at = time.monotonic() + seconds
        return seconds

    def worked(self) -> None:
        self.retry_at, self._failures_in_a_row = 0.0, 0
        self._next_seconds = self._first_seconds


STORE_RETRY_SECONDS = 30.0
"""A store that failed is left alone so long; each step would wait for it otherwise."""


class OutageLog:
    """Failing operations by topic; who watches hears of each outage once."""

    def __init__(self) -> None:
        self._failed_at: dict[str, float] = {}  # monotonic
        self._watchers: list[WeakMethod[Callable[[str], object]]] = []

    def watch(self, watcher: Callable[[str], object]) -> None:
        """Call a method, weakly held, with the text of each new outage; it must not raise."""
        with _lock:
            self._watchers = [*(one for one in self._watchers if one() is not None), WeakMethod(watcher)]

    def failed(
        self, topic: str, message: str, *args: object, level: int = logging.WARNING, quiet_seconds: float = math.inf
    ) -> None:
        """Log the first failure at `level`, others for debugging; `quiet_seconds` without one end the outage."""
        now = time.monotonic()
        is_new = now - self._failed_at.get(topic, -math.inf) > quiet_seconds or topic not in self._failed_at
        self._failed_at[topic] = now
        _logger.log(level if is_new else logging.DEBUG, message, *args, stacklevel=2)
        for watcher in self._watchers if is_new else ():
            if (tell := watcher()) is not None:
                tell(message % args if args else message)

    def worked(self, topic: str) -> None:
        if topic in self._failed_at and self._failed_at.pop(topic, None) is not None:
            _logger.info("%s again", topic)


_logs: "WeakKeyDictionary[object, OutageLog]" = WeakKeyDictionary()
_lock = threading.Lock()


def outages_of(owner: object) -> OutageLog:
    """Return the outage log of a store."""
    with _lock:
        log = _logs.get(owner)
        if log is None:
            log = _logs[owner] = OutageLog()
        return log
