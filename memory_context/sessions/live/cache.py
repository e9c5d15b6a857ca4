"""An LRU cache of live sessions, with one FIFO holder each.

A hit costs one round trip when processes share sessions, and so does its end: nothing is answered from a lost session.
"""

import asyncio
import logging
import math
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic

from memory_context.foundation.errors import SessionBusyError, StoreUnavailableError
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.runtime.background import Background, Timer
from memory_context.store.memory_store import MemoryStore

from .claims import Claims
from .entry import CacheEntry, SessionStates, SessionT

__all__ = ["CacheStats", "SessionCache"]

_CLOSE_SECONDS = 10  # for holders, then for archiving
_LEAVING = 4  # at a time, to leave connections to holders
_CLOSING = "this process is shutting down; try again"
_logger = logging.getLogger("memory_context")


@dataclass(frozen=True)
class CacheStats:
    """Counts since the cache was made.

    Attributes:
        evictions: Sessions closed for room or idleness.
        handovers: Sessions closed for another process.
    """

    live: int = 0
    hits: int = 0
    misses: int = 0
    evictions: int = 0
    handovers: int = 0
    waits: int = 0
    refusals: int = 0


class SessionCache(Generic[SessionT]):
    """Live sessions in the event loop of the first use; construction does no I/O. The states close with it.

    Args:
        make: Makes the live object of a session; the cache resumes it.
        memory_store: Where processes that share sessions claim them; None for a single process.
        states: Keep the whole state after each hold. None: a killed process loses at most
            `policy.archive.batch_seconds` of messages.
        size: Unused sessions that stay live; at most twice as many exist.
        idle_seconds: Unused sessions are then archived and closed.
        wait_seconds: Of one hold, for its session.
        queue: Holds that may wait for one session.

    Raises:
        ValueError: A bound is not above zero.
    """

    def __init__(
        self,
        make: Callable[[SessionKey], SessionT | Awaitable[SessionT]],
        *,
        memory_store: MemoryStore | None = None,
        states: SessionStates | None = None,
        size: int = 500,
        idle_seconds: float = 900,
        wait_seconds: float = 10,
        queue: int = 16,
    ) -> None:
        if size < 1 or queue < 0 or idle_seconds <= 0 or wait_seconds <= 0:
            raise ValueError(f"not above zero: {size=!r}, {idle_seconds=!r}, {wait_seconds=!r} or {queue=!r}")
        self._make = make
        claim_rows = None if memory_store is None else memory_store.claim_rows
        self._claims = None if claim_rows is None else Claims(claim_rows, self._wanted, self._lost)
        self._states = states
        self._size = size
        self._idle_seconds = idle_seconds
        self._wait_seconds = wait_seconds
        self._queue = queue
        self._entries: OrderedDict[SessionKey, CacheEntry[SessionT]] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer = Timer(self._sweep)
        self._work = Background[None]("memory_context sessions")
        self._done_event: asyncio.Event | None = None  # while closing: a holder is done
        self._counts = dict.fromkeys(("hits", "misses", "evictions", "handovers", "waits", "refusals"), 0)

    @asynccontextmanager
    async def hold(self, key: SessionKey) -> AsyncGenerator[SessionT, None]:
        """Hold a session exclusively; it is resumed at first use and kept durable afterwards.

        What the block made may be answered with once this has ended without an error.

        Raises:
            SessionBusyError: Too long a wait, or too many waiters or sessions. At the end: another process took the
                session meanwhile.
            StoreUnavailableError: States or the store do not answer.
            RuntimeError: Wrong event loop.
        """
        entry, session = await self._enter(key)
        try:
            yield session
            await entry.check_claim()
        finally:
            entry.used_at = time.monotonic()
            if self._entries.get(key) is entry:
                self._entries.move_to_end(key)
            if self._states is not None:
                await asyncio.wait([self._start(self._settle(entry))])  # a task survives cancellation
            elif entry.leaves_at <= entry.used_at:
                self._start(self._settle(entry))
            else:
                self._free(entry)

    def peek(self, key: SessionKey) -> SessionT | None:
        """Return a live session, even while held."""
        entry = self._entries.get(key)
        return None if entry is None or entry.is_lost or entry.is_deleted else entry.session

    async def discard(self, key: SessionKey) -> None:
        """Drop a deleted session without archiving, at once or after its holder; raises StoreUnavailableError."""
        self._bind()
        entry = self._entries.get(key)
        if entry is not None:
            entry.is_deleted = True
            if entry.lock.try_acquire():
                await asyncio.wait([self._start(self._settle(entry))])
        if self._states is not None:
            await self._states.delete(key)

    async def close(self) -> None:
        """Archive and close all sessions, waiting up to 10 s for holders; refuse waiters and new holds."""
        self._bind()
        if self._done_event is not None:
            return
        self._done_event = asyncio.Event()
        self._timer.cancel()
        for entry in self._entries.values():
            entry.lock.refuse_waiters()
        deadline = time.monotonic() + _CLOSE_SECONDS
        while any(entry.lock.is_taken for entry in self._entries.values()) and time.monotonic() < deadline:
            self._done_event.clear()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._done_event.wait(), deadline - time.monotonic())
        entries = iter([*self._entries.values()])
        workers = [self._start(_leave_each(entries)) for _ in range(_LEAVING)]
        _, late = await asyncio.wait(workers, timeout=_CLOSE_SECONDS)
        if late:
            _logger.error("not all sessions were archived in %d s; what they know may be lost", _CLOSE_SECONDS)
        self._work.cancel()
        self._entries.clear()
        if self._claims is not None:
            await self._claims.close()
        if self._states is not None:
            await self._states.close()

    @property
    def stats(self) -> CacheStats:
        live = sum(entry.session is not None for entry in self._entries.values())
        return CacheStats(live=live, **self._counts)

    async def _enter(self, key: SessionKey) -> tuple[CacheEntry[SessionT], SessionT]:
        self._bind()
        deadline = time.monotonic() + self._wait_seconds
        try:
            entry = await self._acquire(key)
            try:
                session = await self._live(entry, deadline)
            except BaseException:
                await asyncio.wait([self._start(self._settle(entry))])
                raise
        except SessionBusyError:
            self._counts["refusals"] += 1
            raise
        entry.note_use()
        if len(self._entries) > self._size:
            self._plan(0)
        return entry, session

    async def _acquire(self, key: SessionKey) -> CacheEntry[SessionT]:
        if self._done_event is not None:
            raise SessionBusyError(_CLOSING)
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= 2 * self._size:
                raise SessionBusyError(f"too many sessions at work: {len(self._entries)}; try again")
            entry = self._entries[key] = CacheEntry(key, self._make, self._claims, self._states)
        if entry.lock.is_taken:
            if entry.lock.waiting >= self._queue:
                raise SessionBusyError(f"{self._queue} requests wait for session {key.session_id!r} already; try again")
            self._counts["waits"] += 1
        try:
            if await entry.lock.acquire(self._wait_seconds):
                return entry
        except asyncio.CancelledError:
            self._tidy(entry)
            raise
        raise SessionBusyError(
            _CLOSING
            if self._done_event is not None
            else f"another request is at work on session {key.session_id!r} and was not done within "
            f"{self._wait_seconds:.3g} s; try again"
        )

    async def _live(self, entry: CacheEntry[SessionT], deadline: float) -> SessionT:
        if entry.session is not None:
            with suppress(SessionBusyError):
                await entry.check_claim()
                self._counts["hits"] += 1
                return entry.session
        self._counts["misses"] += 1
        await entry.claim(deadline - time.monotonic())
        if entry.session is not None:  # still unarchived since its claim was lost
            if not await entry.leave():
                raise StoreUnavailableError(f"session {entry.key.session_id!r} is still to be archived; try again")
            await entry.claim(deadline - time.monotonic())
        return await entry.fill()

    async def _settle(self, entry: CacheEntry[SessionT]) -> None:
        is_leaving = entry.is_leaving
        try:
            if entry.session is None:
                await entry.vacate()
            else:
                await entry.save_state()
                if entry.leaves_at <= time.monotonic():
                    is_handover = entry.is_wanted and not entry.is_lost and not entry.is_deleted
                    if await entry.leave(is_handover=is_handover) and is_handover:
                        self._counts["handovers"] += 1
                elif is_leaving and await entry.leave():
                    self._counts["evictions"] += 1
        finally:
            entry.is_leaving = False
            self._free(entry)
            if is_leaving:
                self._plan(0)

    def _free(self, entry: CacheEntry[SessionT]) -> None:
        entry.lock.release()
        self._tidy(entry)
        if self._done_event is not None:
            self._done_event.set()

    def _tidy(self, entry: CacheEntry[SessionT]) -> None:
        """Drop or reschedule an unused entry."""
        if entry.lock.is_taken:
            return
        if entry.session is None:
            if self._entries.get(entry.key) is entry:
                del self._entries[entry.key]
        elif len(self._entries) > self._size:
            self._plan(0)
        else:
            self._plan(min(entry.leaves_at, entry.used_at + self._idle_seconds))

    def _plan(self, at: float) -> None:
        if self._done_event is None:
            self._timer.plan(at - time.monotonic())

    def _sweep(self) -> None:
        now = time.monotonic()
        leaving = sum(entry.is_leaving for entry in self._entries.values())
        too_many = len(self._entries) - leaving - self._size
        next_at = math.inf
        for entry in [*self._entries.values()]:
            if entry.lock.is_taken or entry.session is None:
                continue
            spared_until = 0 if too_many > 0 else entry.used_at + self._idle_seconds
            leaves_at = min(entry.leaves_at, max(entry.breaker.retry_at, spared_until))
            if leaves_at > now:
                next_at = min(next_at, leaves_at)
            elif leaving < _LEAVING:  # else the end of a leave sweeps again
                leaving, too_many = leaving + 1, too_many - 1
                entry.is_leaving = entry.lock.try_acquire()
                self._start(self._settle(entry))
        if next_at < math.inf:
            self._plan(next_at)

    def _wanted(self, key: SessionKey) -> None:
        entry = self._entries.get(key)
        if entry is not None and entry.claim_id is not None:
            entry.is_wanted = True
            self._tidy(entry)

    def _lost(self, key: SessionKey) -> None:
        entry = self._entries.get(key)
        if entry is not None and entry.claim_id is not None:
            entry.claim_id, entry.is_lost = None, True
            self._tidy(entry)

    def _bind(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if self._loop is not loop:
            raise RuntimeError("this SessionCache belongs to the event loop it was first used in; make one for each")

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        return self._work.start(lambda: work, key=object())


async def _leave_each(entries: Iterator[CacheEntry[Any]]) -> None:
    for entry in entries:
        await entry.leave(is_last_chance=True)
