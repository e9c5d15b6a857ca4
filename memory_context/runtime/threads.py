"""Work whose time grows with its input: at once if it is short, else in a thread, so that the event loop goes on."""

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["LARGE_CHARACTERS", "in_thread_if_large"]

P = ParamSpec("P")
T = TypeVar("T")

LARGE_CHARACTERS = 20_000
"""Reading through so many takes up to ten milliseconds; handing work to a thread takes a tenth of one."""


async def in_thread_if_large(size: float, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what a function returns, called in a thread if its input is large.

    Args:
        size: How much there is to do, in characters of text that is read through once; where a function does more or
            less with one, its caller says so by a factor. `math.inf`: always in a thread.
        function: May run beside the event loop: it looks at nothing that the loop changes.
        *args: Its arguments.
        **kwargs: Its arguments.
    """
    if size > LARGE_CHARACTERS:
        return await asyncio.to_thread(function, *args, **kwargs)
    return function(*args, **kwargs)
