"""How the archive waits for work of its own: without cancelling it along with the caller."""

import asyncio
from typing import TypeVar

from ..errors import StoreUnavailableError

__all__ = ["undisturbed"]

_T = TypeVar("_T")


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
