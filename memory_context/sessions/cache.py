"""The live sessions of a process: made at first use, kept while they are used, made durable when they leave.

Promises: one holder of a session at a time, first come first served; one live object of a session among all processes
that share the claims; bounded in number, in who waits and in how long; nothing that a session knows is dropped before
it is durable, except when the session was deleted. In the steady state a request costs no round trip.
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

from memory_context.errors import SessionBusyError, StoreUnavailableError
from memory_context.identifiers import SessionKey
from memory_context.runtime import Background, Timer

from .claims import Claims, LocalClaims, SessionStates
from .seat import Seat, SessionT

__all__ = ["CacheStats", "SessionCache"]

_CLOSE_SECONDS = 10  # for those at work, and then for archiving
_LEAVING = 4  # at a time, so that archiving leaves connections to those at work
_CLOSING = "this process is shutting down; try again"
_logger = logging.getLogger("memory_context")


@dataclass(frozen=True)
class CacheStats:
    """What a cache did since it was made.

    Attributes:
        live: Sessions that are live now.
        hits: Holds that found the session live.
        misses: Holds that had to make it.
        evictions: Sessions that left to make room, or because nobody used them.
        handovers: Sessions that left because another process asked for them.
        waits: Holds that had to wait for another one.
        refusals: Holds that were refused: too many waiting, too long a wait, too many sessions.
    """

    live: int = 0
    hits: int = 0
    misses: int = 0
    evictions: int = 0
    handovers: int = 0
    waits: int = 0
    refusals: int = 0


class SessionCache(Generic[SessionT]):
    """Live sessions, by user, agent and session.

    Making one does no I/O. It belongs to the event loop of its first use.

    Args:
        make: Makes the live object of a session, such as a `MemoryContext`; the cache then has it resume.
        claims: Say which process a session belongs to, and belong to this cache, which closes them; None where only
            this process works on its sessions.
        states: Where the whole state is kept after each hold, and read from at first use; the cache closes them.
            None: what is not archived yet is lost with the process, at most `policy.archive.batch_seconds` of it.
        size: Sessions that stay live when nobody uses them; at most twice as many are live or waited for.
        idle_seconds: After so long without use a session is archived and leaves.
        wait_seconds: How long a hold waits for its session: for the holders before it and for other processes.
        queue: How many may wait for one session.

    Raises:
        ValueError: A bound is not above zero.
    """

    def __init__(
        self,
        make: Callable[[SessionKey], SessionT | Awaitable[SessionT]],
        *,
        claims: Claims | None = None,
        states: SessionStates | None = None,
        size: int = 500,
        idle_seconds: float = 900,
        wait_seconds: float = 10,
        queue: int = 16,
    ) -> None:
        if size < 1 or queue < 0 or idle_seconds <= 0 or wait_seconds <= 0:
            raise ValueError(f"not above zero: {size=!r}, {idle_seconds=!r}, {wait_seconds=!r} or {queue=!r}")
        self._make = make
        self._claims = claims or LocalClaims()
        self._states = states
        self._size = size
        self._idle_seconds = idle_seconds
        self._wait_seconds = wait_seconds
        self._queue = queue
        self._seats: OrderedDict[SessionKey, Seat[SessionT]] = OrderedDict()  # least recently used first
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer = Timer(self._look_around)
        self._work = Background[None]("memory_context sessions")
        self._settled: asyncio.Event | None = None  # once it is being closed: somebody is done
        self._counts = dict.fromkeys(("hits", "misses", "evictions", "handovers", "waits", "refusals"), 0)
        self._claims.watch(self._wanted, self._lost)

    @asynccontextmanager
    async def hold(self, key: SessionKey) -> AsyncGenerator[SessionT, None]:
        """Have a session to oneself: live, resumed if it was not; kept durable afterwards.

        Raises:
            SessionBusyError: It did not become free in time, too many wait for it, or too many sessions are at work.
            StoreUnavailableError: Claims, states or the store do not answer.
            RuntimeError: The cache belongs to another event loop, or a session is claimed in two places.
        """
        seat, session = await self._enter(key)
        try:
            yield session
        finally:
            seat.used_at = time.monotonic()
            if self._seats.get(key) is seat:
                self._seats.move_to_end(key)
            if self._states is not None:
                await asyncio.wait([self._start(self._settle(seat))])  # neither is cancelled with the other
            elif seat.leaves_at <= seat.used_at:
                self._start(self._settle(seat))
            else:
                self._free(seat)

    def peek(self, key: SessionKey) -> SessionT | None:
        """Return a session that is live here, None if it is not; without waiting, whoever is at work on it."""
        seat = self._seats.get(key)
        return None if seat is None or seat.is_lost or seat.is_deleted else seat.session

    async def discard(self, key: SessionKey) -> None:
        """Drop a session that was deleted, with its saved state, without archiving; at once, or after who holds it.

        Raises:
            StoreUnavailableError: The saved state could not be deleted; the session itself is dropped.
        """
        self._bind()
        seat = self._seats.get(key)
        if seat is not None:
            seat.is_deleted = True
            if seat.turns.try_take():
                await asyncio.wait([self._start(self._settle(seat))])
        if self._states is not None:
            await self._states.delete(key)

    async def close(self) -> None:
        """Archive and close every session and let go of it; those at work are waited for up to 10 s.

        Who still waits for a session is refused, as is every hold from now on.
        """
        self._bind()
        if self._settled is not None:
            return
        self._settled = asyncio.Event()
        self._timer.cancel()
        for seat in self._seats.values():
            seat.turns.send_away()
        deadline = time.monotonic() + _CLOSE_SECONDS
        while any(seat.turns.is_taken for seat in self._seats.values()) and time.monotonic() < deadline:
            self._settled.clear()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._settled.wait(), deadline - time.monotonic())
        seats = iter([*self._seats.values()])
        workers = [self._start(_leave_each(seats)) for _ in range(_LEAVING)]
        _, late = await asyncio.wait(workers, timeout=_CLOSE_SECONDS)
        if late:
            _logger.error("not all sessions were archived in %d s; what they know may be lost", _CLOSE_SECONDS)
        self._work.cancel()
        self._seats.clear()
        await self._claims.close()
        if self._states is not None:
            await self._states.close()

    @property
    def stats(self) -> CacheStats:
        """What the cache did since it was made."""
        live = sum(seat.session is not None for seat in self._seats.values())
        return CacheStats(live=live, **self._counts)

    # --- coming in

    async def _enter(self, key: SessionKey) -> tuple[Seat[SessionT], SessionT]:
        self._bind()
        deadline = time.monotonic() + self._wait_seconds
        try:
            seat = await self._take_turn(key)
            try:
                session = await self._live(seat, deadline)
            except BaseException:
                await asyncio.wait([self._start(self._settle(seat))])
                raise
        except SessionBusyError:
            self._counts["refusals"] += 1
            raise
        seat.note_use()
        if len(self._seats) > self._size:
            self._plan(0)
        return seat, session

    async def _take_turn(self, key: SessionKey) -> Seat[SessionT]:
        if self._settled is not None:
            raise SessionBusyError(_CLOSING)
        seat = self._seats.get(key)
        if seat is None:
            if len(self._seats) >= 2 * self._size:
                raise SessionBusyError(f"too many sessions at work: {len(self._seats)}; try again")
            seat = self._seats[key] = Seat(key, self._make, self._claims, self._states)
        if seat.turns.is_taken:
            if seat.turns.waiting >= self._queue:
                raise SessionBusyError(f"{self._queue} requests wait for session {key.session_id!r} already; try again")
            self._counts["waits"] += 1
        try:
            if await seat.turns.take(self._wait_seconds):
                return seat
        except asyncio.CancelledError:
            self._tidy(seat)
            raise
        raise SessionBusyError(
            _CLOSING
            if self._settled is not None
            else f"another request is at work on session {key.session_id!r} and was not done within "
            f"{self._wait_seconds:.3g} s; try again"
        )

    async def _live(self, seat: Seat[SessionT], deadline: float) -> SessionT:
        """Return the session of a seat whose turn this has, made if it is not there."""
        if seat.session is not None and not seat.is_lost:
            self._counts["hits"] += 1
            return seat.session
        self._counts["misses"] += 1
        await seat.claim(deadline - time.monotonic())
        if seat.session is not None:  # from before its claim was lost, and could not be archived since
            if not await seat.leave():
                raise StoreUnavailableError(f"session {seat.key.session_id!r} is still to be archived; try again")
            await seat.claim(deadline - time.monotonic())
        return await seat.fill()

    # --- leaving

    async def _settle(self, seat: Seat[SessionT]) -> None:
        """Do what is due at a seat whose turn this has, then pass the turn on."""
        is_leaving = seat.is_leaving
        try:
            if seat.session is None:
                await seat.vacate()
            else:
                await seat.save_state()
                if seat.leaves_at <= time.monotonic():
                    is_handover = seat.is_wanted and not seat.is_lost and not seat.is_deleted
                    if await seat.leave(is_handover=is_handover) and is_handover:
                        self._counts["handovers"] += 1
                elif is_leaving and await seat.leave():
                    self._counts["evictions"] += 1
        finally:
            seat.is_leaving = False
            self._free(seat)
            if is_leaving:
                self._plan(0)  # there may be others to go

    def _free(self, seat: Seat[SessionT]) -> None:
        seat.turns.pass_on()
        self._tidy(seat)
        if self._settled is not None:
            self._settled.set()

    def _tidy(self, seat: Seat[SessionT]) -> None:
        """See to a seat that nobody may be at."""
        if seat.turns.is_taken:
            return
        if seat.session is None:
            if self._seats.get(seat.key) is seat:
                del self._seats[seat.key]
        elif len(self._seats) > self._size:
            self._plan(0)
        else:
            self._plan(min(seat.leaves_at, seat.used_at + self._idle_seconds))

    def _plan(self, at: float) -> None:
        """Look around at a time of the monotonic clock, or sooner if that was planned."""
        if self._settled is None:
            self._timer.plan(at - time.monotonic())

    def _look_around(self) -> None:
        """Have those leave whose time it is: the asked for, the lost, the idle, and the least recently used."""
        now = time.monotonic()
        leaving = sum(seat.is_leaving for seat in self._seats.values())
        too_many = len(self._seats) - leaving - self._size
        next_at = math.inf
        for seat in [*self._seats.values()]:
            if seat.turns.is_taken or seat.session is None:
                continue
            spared_until = 0 if too_many > 0 else seat.used_at + self._idle_seconds
            leaves_at = min(seat.leaves_at, max(seat.breaker.retry_at, spared_until))
            if leaves_at > now:
                next_at = min(next_at, leaves_at)
            elif leaving < _LEAVING:  # else who has left looks around again
                leaving, too_many = leaving + 1, too_many - 1
                seat.is_leaving = seat.turns.try_take()
                self._start(self._settle(seat))
        if next_at < math.inf:
            self._plan(next_at)

    def _wanted(self, key: SessionKey) -> None:
        seat = self._seats.get(key)
        if seat is not None and seat.has_claim:
            seat.is_wanted = True
            self._tidy(seat)

    def _lost(self, key: SessionKey) -> None:
        seat = self._seats.get(key)
        if seat is not None and seat.has_claim:
            seat.has_claim, seat.is_lost = False, True
            self._tidy(seat)

    # --- the event loop

    def _bind(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        if self._loop is not loop:
            raise RuntimeError("this SessionCache belongs to the event loop it was first used in; make one for each")

    def _start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        return self._work.start(lambda: work, key=object())


async def _leave_each(seats: Iterator[Seat[Any]]) -> None:
    for seat in seats:
        await seat.leave(is_last_chance=True)
