"""Users by the time their jobs are due, in one event loop."""

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
    """Runs `look_after` for each due user; it returns seconds until the next look.

    Attributes:
        broken_off: By claim: user, and whether the batch failed.
    """

    def __init__(self, look_after: Callable[[str], Coroutine[Any, Any, float | None]]) -> None:
        self.claims: dict[str, str] = {}
        self.broken_off: dict[str, tuple[str, bool]] = {}
        self._look_after = look_after
        self._due: dict[str, float] = {}  # monotonic clock
        self._queue: list[tuple[float, str]] = []  # heap; rescheduled users are in it twice
        self._wake = asyncio.Event()
        self._task = Background[None]("memory_context jobs")
        self._timer = Timer(self.start)
        self._is_stopped = False

    def put(self, user_id: str, seconds: float) -> None:
        """Look after this user then, or sooner if planned."""
        due = time.monotonic() + seconds
        if due < self._due.get(user_id, float("inf")):
            self._due[user_id] = due
            heapq.heappush(self._queue, (due, user_id))
            self._wake.set()

    def start(self) -> None:
        self._is_stopped = False
        self._task.start(self._work)

    def put_back(self, user_id: str, seconds: float) -> None:
        """Plan a retry by timer: a cancelled caller may be the event loop's last task."""
        self.put(user_id, seconds)
        if not self._is_stopped and self._task.running() is None:
            self._timer.plan(seconds)

    def adopt(self, ended: "UserSchedule") -> None:
        """Take over from a closed event loop."""
        self.broken_off |= ended.broken_off | {claim: (user_id, False) for claim, user_id in ended.claims.items()}
        for user_id in ended._due:
            self.put(user_id, 0)

    async def stop(self) -> None:
        """End the task; its batch counts as broken off."""
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
            if self._due.get(user_id) != due:  # rescheduled
                continue
            del self._due[user_id]
            seconds = await self._look_after(user_id)
            if seconds is not None:
                self.put(user_id, seconds)
