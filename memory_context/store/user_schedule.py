"""Users as their jobs come due, in one event loop; loops may run in different threads and share nothing here."""

import asyncio
import heapq
import math
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from memory_context.runtime import Background, Timer

__all__ = ["UserSchedule"]


class UserSchedule:
    """Users by the time they are due, and a task that exists as long as there are any.

    Args:
        look_after: Does what is due for a user; returns after how many seconds to look again, None for never.

    Attributes:
        claims: Of batches in work in this event loop: claim and user.
        broken_off: Claims of batches that ended otherwise: user, and whether they failed.
    """

    def __init__(self, look_after: Callable[[str], Coroutine[Any, Any, float | None]]) -> None:
        self.claims: dict[str, str] = {}
        self.broken_off: dict[str, tuple[str, bool]] = {}
        self._look_after = look_after
        self._due: dict[str, float] = {}  # when to look, by the monotonic clock
        self._queue: list[tuple[float, str]] = []  # a heap of the same; what was put forward is in it twice
        self._wake = asyncio.Event()
        self._task = Background[None]("memory_context jobs")
        self._timer = Timer(self.start)
        self._is_stopped = False

    def put(self, user_id: str, seconds: float) -> None:
        """Look after this user in so many seconds, or sooner if that was said before."""
        due = time.monotonic() + seconds
        if due < self._due.get(user_id, float("inf")):
            self._due[user_id] = due
            heapq.heappush(self._queue, (due, user_id))
            self._wake.set()

    def start(self) -> None:
        """Look after the users from now on."""
        self._is_stopped = False
        self._task.start(self._work)

    def put_back(self, user_id: str, seconds: float) -> None:
        """Put a user whose batch was broken off, and plan a look.

        By a timer, not a task: a cancelled caller may be the last of an event loop that is being closed.
        """
        self.put(user_id, seconds)
        if not self._is_stopped and self._task.running() is None:
            self._timer.plan(seconds)

    def adopt(self, ended: "UserSchedule") -> None:
        """Take over from an event loop that was closed."""
        self.broken_off |= ended.broken_off | {claim: (user_id, False) for claim, user_id in ended.claims.items()}
        for user_id in ended._due:
            self.put(user_id, 0)

    async def stop(self) -> None:
        """End the task, whatever it is at; its batch counts as broken off."""
        self._is_stopped = True
        self._timer.cancel()
        await self._task.stop(math.inf)
        while self.claims:
            claim, user_id = self.claims.popitem()
            self.broken_off[claim] = (user_id, False)

    async def _work(self) -> None:
        while self._queue:
            due, user_id = self._queue[0]
            wait = due - time.monotonic()
            if self._due.get(user_id) == due and wait > 0:
                self._wake.clear()
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), wait)
                continue
            heapq.heappop(self._queue)
            if self._due.get(user_id) != due:  # was put forward
                continue
            del self._due[user_id]
            seconds = await self._look_after(user_id)
            if seconds is not None:
                self.put(user_id, seconds)
