"""One request's work on a session, in a task of its own: the client may go away at any moment, the session stays whole.

Promises: what is stopped ends by itself, with the session let go of, whoever waits for it; why it was stopped is what
the client is told; an agent that does not heed its cancellation token is cancelled a moment later.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Generic, TypeVar

from autogen_core import CancellationToken

from ..runtime import Background, Timer
from .problems import ProblemError

__all__ = ["RequestRun"]

_HEED_SECONDS = 1.0  # between asking a run to end and ending it

EventT = TypeVar("EventT")


class RequestRun(Generic[EventT]):
    """Work that yields events and can be stopped.

    Args:
        work: What is to be done: emits events into the turn it is given.

    Attributes:
        cancellation: For the agent's run.
        is_running: Whether the agent is at work, so that a stop asks it before it ends it.
    """

    def __init__(self, work: "Callable[[RequestRun[EventT]], Awaitable[None]]") -> None:
        self.cancellation = CancellationToken()
        self.is_running = False
        self._reason: ProblemError | None = None
        self._events: asyncio.Queue[EventT | ProblemError | None] = asyncio.Queue()
        self._timer = Timer(self._cancel)
        self.task = Background[None]("memory_context turn").start(lambda: self._do(work))

    def emit(self, event: EventT) -> None:
        """Tell whoever listens."""
        self._events.put_nowait(event)

    async def events(self) -> AsyncIterator[EventT]:
        """Yield what happens, to the end.

        Raises:
            ProblemError: It failed or was stopped.
        """
        while (event := await self._events.get()) is not None:
            if isinstance(event, ProblemError):
                raise event
            yield event

    def stop(self, reason: ProblemError) -> None:
        """Have it end, and tell why; returns at once."""
        if self.task.done() or self._reason is not None:
            return
        self._reason = reason
        self.cancellation.cancel()
        if self.is_running:
            self._timer.plan(_HEED_SECONDS)
        else:
            self._cancel()

    def _cancel(self) -> None:
        self.task.cancel()

    async def _do(self, work: "Callable[[RequestRun[EventT]], Awaitable[None]]") -> None:
        try:
            await work(self)
            self._events.put_nowait(None)
        except asyncio.CancelledError:
            self._events.put_nowait(self._reason or ProblemError("agent-failed", "its run was cancelled"))
            if self._reason is None:
                raise
        except Exception as error:
            self._events.put_nowait(self._reason or ProblemError.of(error))
