"""Background tasks: single flight, waits that shield the task, errors that nobody awaits.

At most one task runs for each key and event loop. A cancelled or late waiter leaves the task alone; a cancelled task
raises no CancelledError in its waiters. Tasks left behind by a dead event loop block nobody in the next one.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from ..errors import StoreUnavailableError
from .loops import PerLoop

__all__ = ["LARGE_CHARACTERS", "Background", "attempt", "begin", "in_thread_if_large"]

P = ParamSpec("P")
T = TypeVar("T")

LARGE_CHARACTERS = 20_000
"""Reading through so many takes up to ten milliseconds; handing work to a thread takes a tenth of one."""

_CANCEL_SECONDS = 0.2  # between two cancellations: before Python 3.12 wait_for may swallow one


class Background(Generic[T]):
    """The tasks of one owner, which may be used in several event loops.

    Args:
        name: Names the tasks.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: PerLoop[dict[Hashable, asyncio.Task[T]]] = PerLoop(dict)

    def running(self, key: Hashable = None) -> asyncio.Task[T] | None:
        """Return the running task of this event loop; None if there is none."""
        task = self._tasks.here().get(key)
        return None if task is None or task.done() else task

    def start(self, work: Callable[[], Coroutine[Any, Any, T]], key: Hashable = None) -> asyncio.Task[T]:
        """Return the running task, started now if there is none; tasks of different keys run concurrently."""
        task = self.running(key)
        if task is None:
            tasks = self._tasks.here()
            task = tasks[key] = asyncio.get_running_loop().create_task(work(), name=self._name)
            task.add_done_callback(partial(_ended, tasks, key))
        return task

    async def result(
        self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float | None = None, *, if_stopped: str = ""
    ) -> T:
        """Return the result of the running task, started now if there is none; raises its error.

        Args:
            work: Returns the coroutine to run.
            seconds: The longest wait; None to wait until it ends.
            if_stopped: Text of the error if somebody else stops the task.

        Raises:
            asyncio.TimeoutError: The task did not end in time and continues.
            StoreUnavailableError: The task was stopped.
        """
        task = self.start(work)
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise asyncio.TimeoutError
        if task.cancelled():
            raise StoreUnavailableError(if_stopped or f"{self._name} was stopped before it was done")
        return task.result()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until no task runs in this event loop, however they end, but at most so many seconds."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while tasks := self._here():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            await asyncio.wait(tasks, timeout=left)

    async def stop(self, seconds: float = 1.0) -> None:
        """Cancel the tasks of this event loop; one that resists is waited for at most so many seconds."""
        deadline = time.monotonic() + seconds
        while (tasks := self._here()) and time.monotonic() < deadline:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=min(_CANCEL_SECONDS, seconds))

    def cancel(self, *keys: Hashable) -> None:
        """Cancel the tasks of these keys, or all, in every event loop; returns at once."""
        for loop, tasks in self._tasks.all():
            given_up = [task for key in keys or list(tasks) if (task := tasks.pop(key, None)) is not None]
            for task in given_up:
                with suppress(RuntimeError):  # the event loop was closed
                    if _is_elsewhere(loop):
                        loop.call_soon_threadsafe(task.cancel)
                    else:
                        task.cancel()

    def _here(self) -> list[asyncio.Task[T]]:
        return [task for task in self._tasks.here().values() if not task.done()]


def begin(work: Awaitable[T]) -> "asyncio.Future[T]":
    """Start a call in a task with the current context variables; see `attempt`."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(_retrieve)
    return task


async def attempt(
    work: Awaitable[T], seconds: "float | Callable[[], float] | None", *, cancel_seconds: float = 0.0
) -> "asyncio.Future[T] | None":
    """Return a call's task once it has ended; None if it took too long.

    A late call, or one whose caller is cancelled, is cancelled and not awaited: unlike under `asyncio.wait_for`, a call
    that ignores its cancellation delays nobody.

    Args:
        work: The call, or the result of `begin`.
        seconds: The limit; a function returns the seconds left. None for no limit.
        cancel_seconds: How long a cancelled call is awaited.
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
            if isinstance(task, asyncio.Task):
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # it may hang, and nobody waits for it
            if cancel_seconds:
                await asyncio.wait([task], timeout=cancel_seconds)


async def in_thread_if_large(size: float, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return a function's result; run it in a thread if its input is large, so that the event loop continues.

    Args:
        size: Length of the text that the function reads once, scaled where it takes more or less time; with `math.inf`
            it always runs in a thread.
        function: Reads nothing that the event loop changes.
        *args: Its arguments.
        **kwargs: Its arguments.
    """
    if size > LARGE_CHARACTERS:
        return await asyncio.to_thread(function, *args, **kwargs)
    return function(*args, **kwargs)


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
        task.exception()  # else asyncio reports the error of a task that nobody waits for as never retrieved
