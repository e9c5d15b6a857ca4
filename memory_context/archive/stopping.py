"""SIGTERM: what is buffered is archived before the process goes, where nobody else sees to that.

A program that handles the signal itself (a server, which closes what it holds) is left alone; so are threads that may
not handle signals and systems without them. Otherwise a process that is asked to stop would go at once, as Python's
default is, with up to a minute of every session in it.
"""

import asyncio
import logging
import os
import signal
import threading
from typing import Protocol
from weakref import WeakKeyDictionary, WeakSet

__all__ = ["archived_on_termination"]

_logger = logging.getLogger("memory_context")

_SECONDS = 5.0


class Flushed(Protocol):
    """What is to be written."""

    async def flush(self) -> None:
        """Write what is buffered."""
        ...


_watched: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakSet[Flushed]] = WeakKeyDictionary()
_stopping: set[asyncio.Task[None]] = set()


def archived_on_termination(loop: asyncio.AbstractEventLoop, buffer: Flushed) -> None:
    """Have a buffer written before SIGTERM ends the process, as long as both the loop and the buffer live."""
    if loop in _watched:
        _watched[loop].add(buffer)
        return
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        return
    try:
        loop.add_signal_handler(signal.SIGTERM, _begin, loop)
    except (NotImplementedError, RuntimeError, ValueError):
        return
    _watched[loop] = WeakSet([buffer])


def _begin(loop: asyncio.AbstractEventLoop) -> None:
    if not _stopping:
        task = loop.create_task(_stop(loop), name="memory_context termination")
        _stopping.add(task)
        task.add_done_callback(_stopping.discard)


async def _stop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        buffers = [*_watched.pop(loop, ())]
        done = await asyncio.wait_for(
            asyncio.gather(*(buffer.flush() for buffer in buffers), return_exceptions=True), _SECONDS
        )
        for error in done:
            if error is not None:
                _logger.warning("a session could not be archived before the process was stopped: %s", error)
    except asyncio.TimeoutError:
        _logger.warning("sessions could not be archived in %g s before the process was stopped", _SECONDS)
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
