"""Writes buffers before an event loop or the process ends.

loop.shutdown_asyncgens (asyncio.run, asyncio.Runner)    in that loop: it closes a generator held open there
SIGTERM without another handler                          in the running loops
interpreter exit                                         in a new loop, without threads
"""

import asyncio
import atexit
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from .background import Background

__all__ = ["Owner", "hold", "let_go", "watch"]

_logger = logging.getLogger("memory_context")

_SECONDS = 30.0
_END_SECONDS = 45.0  # an embedded server may have to be set up first
_PACKAGE = str(Path(__file__).parents[2])

_T = TypeVar("_T")


class Owner(Protocol):
    """An object that buffers."""

    async def write_out(self) -> None:
        """Write this loop's buffers; the loop continues."""
        ...

    async def close_for_good(self) -> None:
        """Write buffers of this and stopped loops; stop all work."""
        ...


class _Watch:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.owners: WeakSet[Owner] = WeakSet()
        self.end = _close_at_the_end(loop)
        # runs to its yield without waiting; an ended loop refuses with a ResourceWarning
        with suppress(StopIteration, ResourceWarning):
            self.end.__anext__().send(None)


_lock = threading.RLock()  # reentrant: the garbage collector may interrupt
_watched: dict[asyncio.AbstractEventLoop, _Watch] = {}
_held: set[Owner] = set()
_stopping: set[asyncio.AbstractEventLoop] = set()
_terminations = Background[None]("memory_context termination")
_process_id = 0  # forked processes inherit handlers


def hold(owner: Owner) -> None:
    """Keep alive until `let_go`."""
    if owner not in _held:
        with _lock:
            _held.add(owner)
            _handle_exit()


def let_go(owner: Owner) -> None:
    """Undo `hold`."""
    _held.discard(owner)


def watch(loop: asyncio.AbstractEventLoop, owner: Owner) -> None:
    """Make an owner, held weakly, write before this event loop ends."""
    watch = _watched.get(loop)
    if watch is None:
        with _lock:
            for ended in [one for one in _watched if one.is_closed()]:
                _silence(ended)
                del _watched[ended]
            watch = _watched[loop] = _Watch(loop)
            if threading.current_thread() is threading.main_thread():
                _handle_sigterm()
    watch.owners.add(owner)


async def _close_at_the_end(loop: asyncio.AbstractEventLoop) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        watch = _watched.get(loop)  # kept until the loop is closed, against a second watch
        if watch is not None and loop.is_running():
            hooks = sys.get_asyncgen_hooks()
            sys.set_asyncgen_hooks(None, None)  # else the loop warns of generators that the driver starts
            try:
                await _all(*(owner.close_for_good() for owner in [*watch.owners]), seconds=_END_SECONDS)
            finally:
                sys.set_asyncgen_hooks(*hooks)


async def _all(*work: Any, seconds: float = _SECONDS) -> None:
    done = await asyncio.wait_for(asyncio.gather(*work, return_exceptions=True), seconds)
    for error in done:
        if isinstance(error, BaseException):
            _logger.warning("not everything was written at the end: %s", error)


def _handle_sigterm() -> None:
    """Install the handler unless the application has one.

    Not `add_signal_handler`: between two loops SIGTERM would be ignored, and a forked child's would reach us.
    """
    global _process_id
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _on_sigterm)
        _process_id = os.getpid()


def _on_sigterm(*_: object) -> None:
    if os.getpid() == _process_id:
        if _stopping:
            return
        _stopping.update(loop for loop in [*_watched] if loop.is_running())
        for loop in [*_stopping]:
            loop.call_soon_threadsafe(_begin_to_stop, loop)
        if _stopping:
            return
        _at_exit()
    _end()


def _begin_to_stop(loop: asyncio.AbstractEventLoop) -> None:
    _terminations.start(lambda: _stop(loop))


async def _stop(loop: asyncio.AbstractEventLoop) -> None:
    try:
        await _all(*(owner.write_out() for owner in [*_watched[loop].owners]))
    except asyncio.TimeoutError:
        _logger.warning("not everything was written in %g s before the process was stopped", _SECONDS)
    finally:
        _stopping.discard(loop)
        if not _stopping:
            _end()


def _end() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


class _Inline(ThreadPoolExecutor):
    """Runs work at once: at exit threads cannot be started."""

    def submit(self, fn: Callable[..., _T], /, *args: Any, **kwargs: Any) -> "Future[_T]":
        future: Future[_T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:
            future.set_exception(error)
        return future


_handles_exit = False


def _handle_exit() -> None:
    """Not `atexit` if possible: it would first stop a later-started embedded server."""
    global _handles_exit
    if not _handles_exit:
        _handles_exit = True
        register: Callable[[Callable[[], None]], object] = getattr(threading, "_register_atexit", atexit.register)
        with suppress(RuntimeError):
            register(_at_exit)


def _at_exit() -> None:
    for loop in [loop for loop in _watched if not loop.is_running()]:
        _silence(loop)
    # other threads write in their own loops
    running = [(loop, watch) for loop, watch in [*_watched.items()] if loop.is_running()]
    writing = [
        asyncio.run_coroutine_threadsafe(_all(*(owner.write_out() for owner in [*watch.owners])), loop)
        for loop, watch in running
    ]
    for one in writing:
        with suppress(Exception):
            one.result(_SECONDS)
    try:
        if _held:
            _write_in_a_loop_of_its_own()
    except Exception as error:
        _logger.warning("not everything was written when the program ended: %s", str(error) or type(error).__name__)
    for watch in [watch for loop, watch in _watched.items() if not loop.is_running()]:
        with suppress(StopIteration, RuntimeError):
            watch.end.aclose().send(None)


def _silence(loop: asyncio.AbstractEventLoop) -> None:
    """Silence asyncio's warnings of our tasks in a loop closed by hand."""
    for task in asyncio.all_tasks(loop):
        code = getattr(task.get_coro(), "cr_code", None)
        if code is not None and (code is asyncio.to_thread.__code__ or code.co_filename.startswith(_PACKAGE)):
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio.gather does


def _write_in_a_loop_of_its_own() -> None:
    loop = asyncio.new_event_loop()
    try:
        loop.set_default_executor(_Inline())
        loop.run_until_complete(_all(*(owner.close_for_good() for owner in [*_held]), seconds=_END_SECONDS))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        _silence(loop)
        loop.close()


def _after_fork() -> None:
    """Leave the buffers to the parent process."""
    _watched.clear()
    _held.clear()
    _stopping.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
