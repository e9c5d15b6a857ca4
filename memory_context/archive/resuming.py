"""Reading a known session when it is first used: once, within a limit, and again later if the store is away.

pending ─▶ settled: the archive was read, a state was loaded, or there is nothing to read
   └── the store is away: what comes is taken in without the history, and added to it when it is there
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from weakref import WeakMethod

from ..errors import StoreError
from .report import ResumeReport
from .taking_up import TakenUp

__all__ = ["Resumption"]

_logger = logging.getLogger("memory_context")


class Resumption:
    """Whether a context has the history of its session.

    Args:
        read: Reads the archive of a session, which user, agent and session name.
        go_on: A method that lets the context go on with what was read.
        report: What is known without reading; `pending` if the archive is to be read.
        timeout_seconds: The longest a use of the context waits for it.
        retry_seconds: How long the store is left alone after it failed.

    Attributes:
        report: What became of the session.
    """

    def __init__(
        self,
        read: Callable[[tuple[str, str, str]], Awaitable[TakenUp]],
        go_on: Callable[[TakenUp], Awaitable[None]],
        report: ResumeReport,
        timeout_seconds: float,
        retry_seconds: float,
    ) -> None:
        self.report = report
        self._read = read
        self._go_on = WeakMethod(go_on)
        self._timeout_seconds = timeout_seconds
        self._retry_seconds = retry_seconds
        self._retry_at = 0.0
        self._task: asyncio.Task[None] | None = None

    @property
    def is_pending(self) -> bool:
        """Whether the history is still to be read."""
        return self.report.outcome == "pending"

    async def settle(self, identity: tuple[str, str, str]) -> bool:
        """Return whether the history is there; read it first, if that is due. Never raises because of the store."""
        if not self.is_pending:
            return True
        if time.monotonic() < self._retry_at:
            return False
        try:
            await asyncio.wait_for(self.now(identity), self._timeout_seconds)
        except (StoreError, asyncio.TimeoutError) as error:
            self._retry_at = time.monotonic() + self._retry_seconds
            _logger.warning(
                "going on without the history of the session, which is added when the store is there: %s",
                error or f"it did not answer in {self._timeout_seconds:g} s",
            )
        return not self.is_pending

    async def now(self, identity: tuple[str, str, str]) -> ResumeReport:
        """Read the history if it was not read yet, and say what became of it.

        Raises:
            StoreError: The store refused or cannot be reached; nothing changed.
        """
        while self.is_pending:
            task = self._task
            if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop():
                task = self._task = asyncio.get_running_loop().create_task(
                    self._take_up(identity), name="memory_context resume"
                )
                task.add_done_callback(_retrieve)
            await asyncio.shield(task)
        return self.report

    async def newest(self, identity: tuple[str, str, str], saved: TakenUp, *, may_be_archived: bool) -> TakenUp:
        """Return what a session goes on with when a saved state is loaded.

        Args:
            identity: User, agent, session.
            saved: What the state has.
            may_be_archived: Whether the archive counts if it is newer; else the state does in any case.
        """
        if self.report.outcome == "off":
            return saved
        try:
            found = await asyncio.wait_for(self._read(identity), self._timeout_seconds)
        except (StoreError, asyncio.TimeoutError) as error:
            _logger.warning("going on with the saved state, whatever was archived since: %s", error or "no answer")
            return saved
        if may_be_archived and found.is_newer_than(saved):
            return replace(found, progress=replace(found.progress, chat=saved.progress.chat))
        return replace(saved, progress=found.continued_by(saved.progress))

    async def _take_up(self, identity: tuple[str, str, str]) -> None:
        found = await self._read(identity)
        go_on = self._go_on()
        if go_on is not None:
            await go_on(found)


def _retrieve(task: "asyncio.Task[None]") -> None:
    if not task.cancelled():
        task.exception()  # everyone who waited may have gone; asyncio would report it as never retrieved
