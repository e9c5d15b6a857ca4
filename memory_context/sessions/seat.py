"""One session's seat in the cache: how its live object comes to be there, is kept durable, and leaves.

Promise: an object leaves its seat only after what it knows is durable elsewhere, or the session was deleted; and its
claim is let go only after it has left. Everything here is done by whoever has the seat's turn.
"""

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any, Generic, Protocol, TypeVar

from memory_context.errors import MemoryContextError, SessionGoneError, StoreUnavailableError
from memory_context.identifiers import SessionKey
from memory_context.outages import OutageLog
from memory_context.runtime import Breaker

from .claims import Claims, SessionStates
from .turns import Turns

__all__ = ["LiveSession", "Seat", "SessionT"]

_RETRY_SECONDS = (5, 300)  # between attempts to make durable what the store did not take: at first, and at most
_YIELD_SECONDS = 0.05  # after a handover, for the other process to hear of it before somebody here takes it back
_logger = logging.getLogger("memory_context")


class LiveSession(Protocol):
    """What the cache keeps: a `MemoryContext`, or whatever is built around one."""

    async def resume(self) -> Any:
        """Take over what the archive has of the session."""
        ...

    async def save_state(self) -> Mapping[str, Any]:
        """Return everything, what is not archived yet included."""
        ...

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state, or from the archive if that is newer."""
        ...

    async def archive(self) -> None:
        """Make durable what is not; raises StoreUnavailableError."""
        ...

    async def close(self) -> None:
        """Let go of what is open."""
        ...

    @property
    def is_dirty(self) -> bool:
        """Whether something is not archived yet."""
        ...


SessionT = TypeVar("SessionT", bound=LiveSession)


class Seat(Generic[SessionT]):
    """Where one session lives while it is live.

    Attributes:
        key: Whose seat it is.
        turns: Who is at work on it.
        session: The live object; None while there is none.
        used_at: When somebody last had it, by the monotonic clock.
        has_claim: Whether the session belongs to this process.
        is_wanted: Another process asked for it.
        is_lost: The claim was lost since the object was made; another process may have gone on with the session.
        is_deleted: The session was deleted: nothing of it is to be kept.
        is_leaving: It is being made durable to make room.
        breaker: Open for a while after the store did not take what there was.
    """

    def __init__(
        self,
        key: SessionKey,
        make: Callable[[SessionKey], SessionT | Awaitable[SessionT]],
        claims: Claims,
        states: SessionStates | None,
    ) -> None:
        self.key = key
        self.turns = Turns()
        self.session: SessionT | None = None
        self.used_at = time.monotonic()
        self.has_claim = self.is_wanted = self.is_lost = self.is_deleted = self.is_leaving = False
        self.breaker = Breaker(_RETRY_SECONDS[0], longest_seconds=_RETRY_SECONDS[1])
        self._yields_until = 0.0
        self._make = make
        self._claims = claims
        self._states = states
        self._is_state_saved = True
        self._outages = OutageLog()

    @property
    def leaves_at(self) -> float:
        """When it has to leave, by the monotonic clock, for another reason than room or time; infinity for never."""
        if self.is_deleted:
            return 0
        return self.breaker.retry_at if self.is_wanted or self.is_lost else math.inf

    def note_use(self) -> None:
        """Somebody is about to work on the session."""
        self.used_at = time.monotonic()
        self._is_state_saved = False

    async def claim(self, wait_seconds: float) -> None:
        """Have the session belong to this process; raises as `Claims.claim` does."""
        if not self.has_claim:
            pause = min(self._yields_until - time.monotonic(), wait_seconds)
            if pause > 0:
                await asyncio.sleep(pause)
            await self._claims.claim(self.key, max(0, wait_seconds - max(0, pause)))
            self.has_claim = True
            self.is_wanted = False

    async def fill(self) -> SessionT:
        """Return the live object, newly made, going on where the session was left; the claim is there.

        If anything fails, there is no object and no claim afterwards: the caller calls `vacate`.
        """
        self.is_lost = self.is_deleted = False
        made = self._make(self.key)
        session = await made if isawaitable(made) else made
        try:
            state = None if self._states is None else await self._states.load(self.key)
            await (session.resume() if state is None else session.load_state(state))
        except BaseException:
            await _close(session)
            raise
        self._is_state_saved = True
        self.session = session
        return session

    async def save_state(self) -> None:
        """Keep the state, if states are kept and it is not; a failure is logged and made up for later."""
        if self.session is None or self._states is None or self._is_state_saved or self.is_lost or self.is_deleted:
            return
        saving = f"saving the state of session {self.key.session_id!r}"
        try:
            await self._states.save(self.key, await self.session.save_state())
            self._is_state_saved = True
            self._outages.worked(saving)
        except Exception as error:
            text = "the state of session %r is not saved for now: %s"
            self._outages.failed(saving, text, self.key.session_id, error)

    async def leave(self, *, is_handover: bool = False, is_last_chance: bool = False) -> bool:
        """Make durable what the object knows, close it and let go of the claim; False if it stays, as it must.

        What has no claim any more writes no state, which could replace a newer one; the archive takes it, as it notices
        conflicts. It also takes what the states do not take.

        Args:
            is_handover: Another process goes on at once; a saved state is enough for it.
            is_last_chance: Go even if it could not be made durable.
        """
        session = self.session
        if session is not None and not self.is_deleted:
            await self.save_state()
            archiving = f"archiving session {self.key.session_id!r}"
            try:
                if session.is_dirty and not (self._has_state and (is_handover or self.is_lost)):
                    await session.archive()
                self._outages.worked(archiving)
            except SessionGoneError as error:
                _logger.info("nothing is kept of session %r: %s", self.key.session_id, error)
            except Exception as error:
                if not is_last_chance:
                    self._stay(error, archiving)
                    return False
                _logger.error("session %r ends without being archived: %s", self.key.session_id, error)
        await self.vacate()
        return True

    async def vacate(self) -> None:
        """Have no object and no claim, whatever the object knew."""
        session, self.session = self.session, None
        if session is not None:
            await _close(session)
        if self.is_deleted and self._states is not None:
            try:
                await self._states.delete(self.key)
            except MemoryContextError as error:
                _logger.warning("the saved state of deleted session %r stays: %s", self.key.session_id, error)
        if self.has_claim:
            self.has_claim = False
            await self._claims.release(self.key)
            if self.is_wanted:
                self._yields_until = time.monotonic() + _YIELD_SECONDS
        self.is_wanted = self.is_lost = self.is_deleted = False
        self.breaker.worked()

    @property
    def _has_state(self) -> bool:
        return self._states is not None and self._is_state_saved

    def _stay(self, error: Exception, archiving: str) -> None:
        """Wait for the next attempt; an outage is a warning once, any other error each time and with its trace."""
        text = "session %r stays here and is archived later, the next attempt in %d s: %s"
        details = self.key.session_id, self.breaker.failed(), error
        if isinstance(error, StoreUnavailableError):
            self._outages.failed(archiving, text, *details)
        else:
            _logger.warning(text, *details, exc_info=error)


async def _close(session: LiveSession) -> None:
    try:
        await session.close()
    except Exception as error:
        _logger.warning("a session could not be closed: %s", error, exc_info=error)
