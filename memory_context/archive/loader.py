"""Reading a known session when it is first used: once, within a limit, and again later if the store is away.

pending ─▶ settled: the archive was read, a state was loaded, or there is nothing to read
   └── the store is away: what comes is taken in without the history, and added to it when it is there
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from weakref import WeakMethod

from autogen_core.models import LLMMessage

from ..errors import StoreError
from ..identifiers import SessionKey
from ..messages import with_texts
from ..outages import OutageLog
from ..runtime import Background, Breaker
from ..store import ConversationArchive, within
from ..transcript import Entry, Transcript
from .report import ResumeReport
from .resume import ResumedSession, load_session

__all__ = ["SessionLoader", "messages_meanwhile"]

_AGAIN_SECONDS = 5.0  # between attempts that nobody waits for


class SessionLoader:
    """Whether a context has the history of its session.

    Args:
        conversations: The archive of all sessions.
        go_on: A method that lets the context go on with what was read.
        report: What is known without reading; `pending` if the archive is to be read.
        timeout_seconds: The longest a use of the context waits for it.
        retry_seconds: How long the store is left alone after it failed.

    Attributes:
        report: What became of the session.
    """

    def __init__(
        self,
        conversations: ConversationArchive,
        go_on: Callable[[ResumedSession], Awaitable[None]],
        report: ResumeReport,
        timeout_seconds: float,
        retry_seconds: float,
    ) -> None:
        self.report = report
        self._conversations = conversations
        self._go_on = WeakMethod(go_on)
        self._timeout_seconds = timeout_seconds
        self._reading = Background[None]("memory_context resume")
        self._breaker = Breaker(retry_seconds)
        self._again = Breaker(_AGAIN_SECONDS)
        self._outages = OutageLog()

    @property
    def is_pending(self) -> bool:
        """Whether the history is still to be read."""
        return self.report.outcome == "pending"

    def begin(self, report: ResumeReport) -> None:
        """Take note of what became of the session; what is still to be read is read at the next use."""
        self.report = report
        self._breaker.worked()

    def retry_now(self) -> None:
        """Have the next use read the history, however recently the store failed."""
        self._breaker.worked()

    async def stop(self) -> None:
        """Let nothing run on; what was not read is read at the next use."""
        await self._reading.stop()

    async def settle(self, key: SessionKey) -> bool:
        """Return whether the history is there; read it first, if that is due. Never raises because of the store."""
        if not self.is_pending:
            return True
        if self._breaker.is_open:
            if not self._again.is_open:
                self._begin_reading(key)  # beside the agent: the history joins as soon as it can
            return False
        try:
            await asyncio.wait_for(self.now(key), self._timeout_seconds)
        except (StoreError, asyncio.TimeoutError) as error:
            self._breaker.failed()
            self._outages.failed(
                "reading the history of the session",
                "going on without the history of the session, which is added when the store is there: %s",
                str(error) or f"it did not answer in {self._timeout_seconds:g} s",
            )
        return not self.is_pending

    async def now(self, key: SessionKey) -> ResumeReport:
        """Read the history if it was not read yet, and say what became of it.

        Raises:
            StoreError: The store refused or cannot be reached; nothing changed.
        """
        while self.is_pending:
            self._begin_reading(key)
            await self._reading.result(lambda: self._take_up(key))
        return self.report

    def _begin_reading(self, key: SessionKey) -> None:
        self._reading.start(lambda: self._take_up(key))
        self._again.failed()

    async def _take_up(self, key: SessionKey) -> None:
        await within(self._conversations.limits.call_seconds, self._read(key))

    async def _read(self, key: SessionKey) -> None:
        found = await load_session(self._conversations, key)
        go_on = self._go_on()
        if go_on is not None:
            await go_on(found)


def messages_meanwhile(
    transcript: Transcript, first: int, history: Transcript
) -> list[tuple[LLMMessage, datetime] | None]:
    """Return the messages that came before the history did, each with its time; None stands where they were cleared.

    Args:
        transcript: What was taken in without the history.
        first: Position of the first message in it that the session did not begin with.
        history: What the archive has; what is in it already is left out.
    """
    known = {entry.added_at for entry in history.entries()}
    cleared = transcript.state.start

    def told(entries: list[Entry]) -> list[tuple[LLMMessage, datetime]]:
        return [(_as_kept(entry), entry.added_at) for entry in entries if entry.added_at not in known]

    before = [*told(transcript.entries(first, cleared)), None] if cleared > 0 else []
    return [*before, *told(transcript.entries(max(first, cleared)))]


def _as_kept(entry: Entry) -> LLMMessage:
    """Return a message with the references to what only the store has of it."""
    stored = {part.address: part.stored.compacted for part in entry.measured if part.stored}
    return with_texts(entry.message, {at: text for at, text in stored.items() if at in entry.dropped})
