"""How the archive waits: for the store not for ever, and for work of its own without being cancelled along with it."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from ..errors import StoreUnavailableError

__all__ = ["answered", "undisturbed"]

_SECONDS = 30.0  # more than a long session takes on a slow line

_T = TypeVar("_T")


async def answered(work: Awaitable[_T]) -> _T:
    """Return what the store answers.

    Raises:
        StoreUnavailableError: It did not answer within 30 s; it may have done what it was told.
    """
    try:
        return await asyncio.wait_for(work, _SECONDS)
    except asyncio.TimeoutError:
        raise StoreUnavailableError(f"the store did not answer within {_SECONDS:g} s") from None


async def undisturbed(work: "asyncio.Task[_T]", if_cancelled: str) -> _T:
    """Return what a task gives; the task goes on when only this caller is cancelled.

    Args:
        work: The task.
        if_cancelled: What the error says.

    Raises:
        StoreUnavailableError: Somebody else cancelled the task. A `CancelledError` would end the caller for it.
    """
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        is_callers = getattr(asyncio.current_task(), "cancelling", int)() > 0  # from Python 3.11 on
        if not work.cancelled() or is_callers:
            raise
        raise StoreUnavailableError(if_cancelled) from None
