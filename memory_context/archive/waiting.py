"""How long the archive waits for the store: a connection that hangs must not keep a session from going on for ever."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from ..errors import StoreUnavailableError

__all__ = ["answered"]

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
