"""Work beside the caller: single flight, waits that do not pass a cancellation on, errors that nobody waits for.

Promises: at most one task for each key and event loop that was not given up; a caller who is cancelled, or whose time
is over, leaves it alone; a task that was cancelled raises no CancelledError in those who wait for it; errors are
retrieved; what an event loop left behind holds up nobody in the next one.
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
        """Return the task under way in this event loop; None if there is none."""
        task = self._tasks.here().get(key)
        return None if task is None or task.done() else task

    def start(self, work: Callable[[], Coroutine[Any, Any, T]], key: Hashable = None) -> asyncio.Task[T]:
        """Return the task under way, begun now if there is none; tasks of different keys run beside each other."""
        task = self.running(key)
        if task is None:
            tasks = self._tasks.here()
            task = tasks[key] = asyncio.get_running_loop().create_task(work(), name=self._name)
            task.add_done_callback(partial(_ended, tasks, key))
        return task

    async def result(
        self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float | None = None, *, if_stopped: str = ""
    ) -> T:
        """Return what the task under way returns, begun now if there is none; raises what it raises.

        Args:
            work: Returns the coroutine to run.
            seconds: How long to wait for it; None: as long as it takes.
            if_stopped: What the error says if somebody else stops it.

        Raises:
            asyncio.TimeoutError: It did not end in so many seconds, and goes on.
            StoreUnavailableError: It was stopped.
        """
        task = self.start(work)
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise asyncio.TimeoutError
        if task.cancelled():
            raise StoreUnavailableError(if_stopped or f"{self._name} was stopped before it was done")
        return task.result()

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until nothing is under way in this event loop, however it ends, but not longer than told."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while tasks := self._here():
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return
            await asyncio.wait(tasks, timeout=left)

    async def stop(self, seconds: float = 1.0) -> None:
        """Let nothing run on in this event loop; a task that resists its cancellation is waited for so long."""
        deadline = time.monotonic() + seconds
        while (tasks := self._here()) and time.monotonic() < deadline:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=min(_CANCEL_SECONDS, seconds))

    def cancel(self) -> None:
        """Give up what is under way, in every event loop; returns at once."""
        for loop, tasks in self._tasks.all():
            given_up = [task for key in list(tasks) if (task := tasks.pop(key, None)) is not None]
            for task in given_up:
                with suppress(RuntimeError):  # the event loop was closed
                    if _is_elsewhere(loop):
                        loop.call_soon_threadsafe(task.cancel)
                    else:
                        task.cancel()

    def _here(self) -> list[asyncio.Task[T]]:
        return [task for task in self._tasks.here().values() if not task.done()]


def begin(work: Awaitable[T]) -> "asyncio.Future[T]":
    """Begin a call in a task of its own, with the context variables of now; see `attempt`."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(_retrieve)
    return task


async def attempt(
    work: Awaitable[T], seconds: "float | Callable[[], float] | None", *, cancel_seconds: float = 0.0
) -> "asyncio.Future[T] | None":
    """Return a call's task once it has ended; None if it took too long.

    A call that took too long, or whose caller is cancelled, is cancelled and not waited for: unlike under
    `asyncio.wait_for`, one that does not heed its cancellation holds up nobody.

    Args:
        work: The call, or what `begin` returned for it.
        seconds: How long it may take; a function says how much is left. None: as long as it takes.
        cancel_seconds: How long a cancelled call is waited for.
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
    """Return what a function returns; called in a thread if its input is large, so that the event loop goes on.

    Args:
        size: The length of the text that is read through once; a caller whose function takes more or less than that
            for a character says so by a factor. `math.inf`: always in a thread.
        function: Looks at nothing that the event loop changes.
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
