"""One run at a time, whose result counts only while nothing has made it void."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from ..runtime import Background

__all__ = ["Flight"]

T = TypeVar("T")


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
