"""State per event loop; timers, not tasks, since programs may drop loops."""

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["PerLoop", "Timer"]

T = TypeVar("T")


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


class Timer:
    """Calls a function once, at the earliest requested time, in the last requesting event loop."""

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
