"""One call at the soonest of the times that were asked for.

By a timer, not by a task that sleeps: a program may drop its event loop without closing anything.
"""

import asyncio
import time
from collections.abc import Callable

__all__ = ["Timer"]


class Timer:
    """Calls a function once, in the event loop that was told last.

    Args:
        on_time: What is called.
    """

    def __init__(self, on_time: Callable[[], None]) -> None:
        self._on_time = on_time
        self._planned: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle, float] | None = None

    def plan(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        """Have it called at a time of the monotonic clock, or sooner if that was said before in this loop."""
        if self._planned is not None:
            its_loop, _, its_due = self._planned
            if its_loop is loop and its_due <= due:
                return
            self.cancel()
        self._planned = (loop, loop.call_later(due - time.monotonic(), self._call), due)

    def cancel(self) -> None:
        """Have it not called after all."""
        if self._planned is not None:
            self._planned[1].cancel()
            self._planned = None

    def _call(self) -> None:
        self._planned = None
        self._on_time()
