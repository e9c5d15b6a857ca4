"""Consolidation of all users once a day, in a process that serves them."""

from collections.abc import Awaitable, Callable

from memory_context.foundation.errors import MemoryContextError
from memory_context.foundation.runtime.background import Background, OutageLog, Timer

__all__ = ["DailyConsolidation"]

_FIRST_SECONDS = 300.0  # after a start, which has other work
_CHECK_SECONDS = 3600.0
_TOPIC = "consolidation"


class DailyConsolidation:
    """Runs a check every hour, in the event loop that starts it; one task at a time, never raising."""

    def __init__(self, consolidate_due: Callable[[], Awaitable[int]]) -> None:
        self._consolidate_due = consolidate_due
        self._timer = Timer(self._start)
        self._running = Background[None]("memory_context consolidation")
        self._outages = OutageLog()

    def begin(self, first_seconds: float = _FIRST_SECONDS) -> None:
        self._timer.plan(first_seconds)

    async def stop(self) -> None:
        self._timer.cancel()
        await self._running.stop()

    def _start(self) -> None:
        self._running.start(self._check)

    async def _check(self) -> None:
        try:
            await self._consolidate_due()
            self._outages.worked(_TOPIC)
        except MemoryContextError as error:
            self._outages.failed(_TOPIC, "memories are consolidated later: %s", error)
        finally:
            self._timer.plan(_CHECK_SECONDS)
