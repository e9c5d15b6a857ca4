"""Waits in tests, which also end well on a machine ten times slower."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, overload

__all__ = ["PATIENT_SECONDS", "seconds_waited", "soon", "until"]

PATIENT_SECONDS = 300
"""Whatever takes longer hangs; on a busy machine what takes a second may take a minute."""

_T = TypeVar("_T")


@overload
async def soon(work: asyncio.Event, seconds: float = math.inf) -> bool: ...
@overload
async def soon(work: Awaitable[_T], seconds: float = math.inf) -> _T: ...
async def soon(work: Any, seconds: float = math.inf) -> Any:
    """Return what comes, be it an event, after at most so many seconds of waiting; see `seconds_waited`."""
    with seconds_waited() as waited:
        result = await asyncio.wait_for(work.wait() if isinstance(work, asyncio.Event) else work, PATIENT_SECONDS)
    assert waited() <= seconds, f"waited {waited():.3g} s"
    return result


async def until(condition: Callable[[], Any], what: str = "it") -> Any:
    """Wait until a condition, which may be asynchronous, answers with something true, and return that.

    By looking again and again: what another process or a background task did wakes nobody here.
    """
    end = time.monotonic() + PATIENT_SECONDS
    while True:
        answer = condition()
        if found := await answer if isinstance(answer, Awaitable) else answer:
            return found
        assert time.monotonic() < end, f"still not: {what}"
        await asyncio.sleep(0.02)


@contextmanager
def seconds_waited() -> Iterator[Callable[[], float]]:
    """Count for how long the running event loop has nothing to do, at most as long as its timers ask for.

    The time that a busy machine gives to others, and that work takes, does not count.
    """
    selector = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
    total, select = 0.0, selector.select

    def measured(timeout: float | None = None) -> list[object]:
        nonlocal total
        began = time.monotonic()
        events = select(timeout)
        total += min(time.monotonic() - began, math.inf if timeout is None else timeout)
        return events

    selector.select = measured
    try:
        yield lambda: total
    finally:
        selector.select = select
