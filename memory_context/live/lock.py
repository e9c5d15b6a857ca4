"""A FIFO lock with a bounded wait.

Not `asyncio.Lock` under `wait_for`: before Python 3.12 a waiter cancelled while it gets the lock keeps it for ever.
"""

import asyncio
from collections import deque

from memory_context.runtime import Timer

__all__ = ["FairLock"]


class FairLock:
    """Release passes the lock directly to the next waiter."""

    def __init__(self) -> None:
        self.is_taken = False
        self._waiting: deque[asyncio.Future[bool]] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def try_acquire(self) -> bool:
        """Return whether the lock was free."""
        was_free = not self.is_taken
        self.is_taken = True
        return was_free

    async def acquire(self, seconds: float) -> bool:
        """Wait for the lock; return False on time-out or `refuse_waiters`."""
        if self.try_acquire():
            return True
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        timer = Timer(lambda: self._answer(waiter, False))
        timer.plan(seconds)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.result():
                self.release()
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
            raise
        finally:
            timer.cancel()

    def release(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():  # else cancelled, but not yet resumed
                waiter.set_result(True)
                return
        self.is_taken = False

    def refuse_waiters(self) -> None:
        while self._waiting:
            self._answer(self._waiting[0], False)

    def _answer(self, waiter: "asyncio.Future[bool]", has_lock: bool) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        if not waiter.done():
            waiter.set_result(has_lock)
