"""A cache entry: one live session, its claim and saved state. The holder of its lock calls the methods.

The object is dropped only once it is durable or deleted; the claim is released after that.
"""

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from inspect import isawaitable
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from memory_context.foundation.errors import (
    MemoryContextError,
    SessionBusyError,
    SessionGoneError,
    StoreUnavailableError,
)
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.runtime.background import Breaker, OutageLog, Timer
from memory_context.store.redact import Traces

from .claims import Claims

__all__ = ["CacheEntry", "FairLock", "LiveSession", "SessionStates", "SessionT"]

_RETRY_SECONDS = (5, 300)  # between writes: first, longest
_logger = logging.getLogger("memory_context")


class LiveSession(Protocol):
    """An object that the cache keeps, such as a `MemoryContext`."""

    async def resume(self) -> Any: ...

    async def save_state(self) -> Mapping[str, Any]:
        """Return the whole state, unarchived messages included."""
        ...

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state, or from a newer archive."""
        ...

    async def archive(self) -> None:
        """Write unarchived content; raises StoreUnavailableError."""
        ...

    async def close(self) -> None: ...

    @property
    def is_dirty(self) -> bool: ...


class SessionStates(Protocol):
    """Saved states shared by processes: newer but less durable than the archive. All raise StoreUnavailableError."""

    async def save(self, key: SessionKey, state: Mapping[str, Any]) -> None: ...

    async def load(self, key: SessionKey) -> Mapping[str, Any] | None: ...

    async def delete(self, key: SessionKey) -> None: ...

    async def erase_traces(self, traces: Traces, sessions: Collection[SessionKey]) -> None:
        """Rewrite the states of these sessions without forgotten contents."""
        ...

    async def close(self) -> None: ...


SessionT = TypeVar("SessionT", bound=LiveSession)


class CacheEntry(Generic[SessionT]):
    """One live session.

    Attributes:
        claim_id: The claim under which this process has the session, if processes share sessions.
        is_wanted: Another process asked for it.
        is_lost: Claim lost: another process may have continued the session.
    """

    def __init__(
        self,
        key: SessionKey,
        make: Callable[[SessionKey], SessionT | Awaitable[SessionT]],
        claims: Claims | None,
        states: SessionStates | None,
    ) -> None:
        self.key = key
        self.lock = FairLock()
        self.session: SessionT | None = None
        self.used_at = time.monotonic()
        self.claim_id: UUID | None = None
        self.is_wanted = self.is_lost = self.is_deleted = self.is_leaving = False
        self.breaker = Breaker(_RETRY_SECONDS[0], longest_seconds=_RETRY_SECONDS[1])
        self._make = make
        self._claims = claims
        self._states = states
        self._is_state_saved = True
        self._outages = OutageLog()

    @property
    def leaves_at(self) -> float:
        """Monotonic time of a forced leave, or infinity."""
        if self.is_deleted:
            return 0
        return self.breaker.retry_at if self.is_wanted or self.is_lost else math.inf

    def note_use(self) -> None:
        self.used_at = time.monotonic()
        self._is_state_saved = False

    async def claim(self, wait_seconds: float) -> None:
        if self._claims is not None and self.claim_id is None:
            self.claim_id = await self._claims.claim(self.key, max(0, wait_seconds))
            self.is_wanted = False

    async def check_claim(self) -> None:
        """Ask the database whether this process has the session still.

        Raises:
            SessionBusyError: Another process may have continued it.
            StoreUnavailableError: Nobody can tell.
        """
        if self._claims is not None and self.claim_id is not None:
            await self._claims.confirm(self.claim_id)
        if self.is_lost:
            raise SessionBusyError(f"this process lost session {self.key.session_id!r} to another; try again")

    async def fill(self) -> SessionT:
        """Make and resume the live object under the claim; on failure call `vacate`."""
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
        """Save a changed state; failures are logged and retried."""
        if self.session is None or self._states is None or self._is_state_saved or self.is_lost or self.is_deleted:
            return
        saving = f"saving the state of session {self.key.session_id!r}"
        try:
            await self.check_claim()  # after a pause it could replace what the next holder saved
            await self._states.save(self.key, await self.session.save_state())
            self._is_state_saved = True
            self._outages.worked(saving)
        except SessionBusyError as error:
            _logger.info("the state of session %r is not saved: %s", self.key.session_id, error)
        except Exception as error:
            text = "the state of session %r is not saved for now: %s"
            self._outages.failed(saving, text, self.key.session_id, error)

    async def leave(self, *, is_handover: bool = False, is_last_chance: bool = False) -> bool:
        """Write and close the session, release the claim; return False if writing failed and it stays.

        Without a claim no state is saved, since it could replace a newer one. A handover needs only a saved state.
        """
        session = self.session
        if session is not None and not self.is_deleted:
            await self.save_state()
            archiving = f"archiving session {self.key.session_id!r}"
            try:
                has_state = self._states is not None and self._is_state_saved
                if session.is_dirty and not (has_state and (is_handover or self.is_lost)):
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
        session, self.session = self.session, None
        if session is not None:
            await _close(session)
        if self.is_deleted and self._states is not None:
            try:
                await self._states.delete(self.key)
            except MemoryContextError as error:
                _logger.warning("the saved state of deleted session %r stays: %s", self.key.session_id, error)
        if self._claims is not None and self.claim_id is not None:
            claim_id, self.claim_id = self.claim_id, None
            await self._claims.release(claim_id)
        self.is_wanted = self.is_lost = self.is_deleted = False
        self.breaker.worked()

    def _stay(self, error: Exception, archiving: str) -> None:
        """Log (outages once) and wait for the next attempt."""
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


class FairLock:
    """A FIFO lock with a bounded wait; release passes it directly to the next waiter.

    Not `asyncio.Lock` under `wait_for`: before Python 3.12 a waiter cancelled while it gets the lock keeps it for ever.
    """

    def __init__(self) -> None:
        self.is_taken = False
        self._waiting: deque[asyncio.Future[bool]] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def try_acquire(self) -> bool:
        """Return whether the lock was free."""
        was_free = not self.is_taken
        self.is_taken = True
        return was_free

    async def acquire(self, seconds: float) -> bool:
        """Wait for the lock; return False on time-out or `refuse_waiters`."""
        if self.try_acquire():
            return True
        waiter: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        timer = Timer(lambda: self._answer(waiter, False))
        timer.plan(seconds)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.result():
                self.release()
            elif waiter in self._waiting:
                self._waiting.remove(waiter)
            raise
        finally:
            timer.cancel()

    def release(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():  # else cancelled, but not yet resumed
                waiter.set_result(True)
                return
        self.is_taken = False

    def refuse_waiters(self) -> None:
        while self._waiting:
            self._answer(self._waiting[0], False)

    def _answer(self, waiter: "asyncio.Future[bool]", has_lock: bool) -> None:
        if waiter in self._waiting:
            self._waiting.remove(waiter)
        if not waiter.done():
            waiter.set_result(has_lock)
