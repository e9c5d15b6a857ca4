"""SIGTERM: what is buffered is archived before the process goes, where nobody else sees to that.

A program that handles the signal itself (a server, which closes what it holds) is left alone, whether it said so before
or says so later; so are threads that may not handle signals and processes forked from this one. Otherwise a process
that is asked to stop would go at once, as Python's default is, with up to a minute of every session in it.
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
_process_id = 0  # whose handler it is: forked processes inherit it


def archived_on_termination(loop: asyncio.AbstractEventLoop, buffer: Flushed) -> None:
    """Have a buffer written before SIGTERM ends the process, as long as both the loop and the buffer live."""
    if loop in _watched:
        _watched[loop].add(buffer)
    elif threading.current_thread() is threading.main_thread() and _handles_the_signal():
        _watched[loop] = WeakSet([buffer])


def _handles_the_signal() -> bool:
    """Whether the signal comes to us, now at the latest.

    Not by the loop's `add_signal_handler`: a program that is between two event loops would not end any more, and a
    signal to a forked child would be this process's.
    """
    global _process_id
    handler = signal.getsignal(signal.SIGTERM)
    if handler == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_signal)
        _process_id = os.getpid()
        return True
    return handler is _on_signal


def _on_signal(*_: object) -> None:
    loops = [loop for loop in _watched if loop.is_running()] if os.getpid() == _process_id else []
    if not loops:
        _end()
    for loop in loops:
        loop.call_soon_threadsafe(_begin, loop)


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
        _end()


def _end() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)
