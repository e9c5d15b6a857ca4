"""Claims: which process holds a live session.

free ──claim──▶ held ──another waits, nobody at work──▶ released: passed to the one that waits
                 └──not renewed for the lease──▶ free: its holder learns that before it writes or answers

A claim is a row with a lease in the database, whose clock alone says when it ends. While the database is away a holder
goes on for as long as its last answer allows. A claim is no write lock: the archive detects two writers.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID, uuid4

from memory_context.foundation.errors import SessionBusyError, StoreError, StoreUnavailableError
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.runtime.background import Background, OutageLog, Timer, begin
from memory_context.store.conversations import LEAST_SECONDS, ClaimRows

__all__ = ["Claims"]

_RETRY_SECONDS = 0.02  # between attempts at first; doubles
_POLL_SECONDS = 0.25  # between attempts at most, and between renewals, which tell what other processes want
_RENEWING = "renewing the claims of sessions"


@dataclass
class _Held:
    key: SessionKey
    asked_at: float  # monotonic: when the question was sent that was last answered with yes


class Claims:
    """The claims of one cache and event loop.

    Args:
        rows: The database that they are in.
        on_wanted: Called for a session that another process waits for, again while it waits.
        on_lost: Called for a session that another process may have taken.
    """

    def __init__(
        self, rows: ClaimRows, on_wanted: Callable[[SessionKey], None], on_lost: Callable[[SessionKey], None]
    ) -> None:
        self._rows = rows
        self._on_wanted = on_wanted
        self._on_lost = on_lost
        self._held: dict[UUID, _Held] = {}
        self._timer = Timer(self._start_renewing)
        self._work = Background[None]("memory_context claims")
        self._asked = set[UUID]()
        self._confirming = Background[None]("memory_context confirmation")
        self._outages = OutageLog()

    async def claim(self, key: SessionKey, wait_seconds: float) -> UUID:
        """Return the claim once this process has the session; leave nothing behind if cancelled or failed.

        Raises:
            SessionBusyError: Another process did not release it in time.
            StoreUnavailableError: The database does not answer.
        """
        loop = asyncio.get_running_loop()
        deadline, pause, claim = loop.time() + wait_seconds, _RETRY_SECONDS, uuid4()
        asking: asyncio.Future[bool] | None = None
        try:
            while True:
                asked_at = time.monotonic()
                asking = begin(self._rows.claim(key, claim))
                await asyncio.wait([asking])  # not awaited itself: a cancelled one could still be committed
                if asking.result():
                    break
                left = deadline - loop.time()
                if left <= 0:
                    raise SessionBusyError(
                        f"another process is at work on session {key.session_id!r} and did not let go of it within "
                        f"{wait_seconds:.3g} s; try again"
                    )
                await asyncio.sleep(min(pause, left))
                pause = min(2 * pause, _POLL_SECONDS)
        except BaseException:
            self._work.start(lambda: self._give_up(key, claim, asking), claim)
            raise
        self._held[claim] = _Held(key, asked_at)
        self._timer.plan(_POLL_SECONDS)
        return claim

    async def confirm(self, claim: UUID) -> bool:
        """Renew a claim; return whether it stood all the time.

        Raises:
            StoreUnavailableError: The database does not answer, and did not within the lease.
        """
        try:
            await self._renew_with_others(claim)
        except StoreUnavailableError:
            held = self._held.get(claim)
            # no other process can have it before the lease ends, which began after the question
            if held is None or time.monotonic() - held.asked_at > LEAST_SECONDS:
                raise
        return claim in self._held

    async def release(self, claim: UUID) -> None:
        """Release a session at once or, if the database is away, by the end of its lease; never raises."""
        held = self._held.pop(claim, None)
        if held is not None:
            with suppress(StoreError):
                await self._rows.release(held.key, claim)

    async def close(self) -> None:
        self._timer.cancel()
        for claim in [*self._held]:
            await self.release(claim)
        await self._confirming.wait()
        await self._work.wait()

    async def _give_up(self, key: SessionKey, claim: UUID, asking: "asyncio.Future[bool] | None") -> None:
        if asking is not None:
            await asyncio.wait([asking])
        with suppress(StoreError):
            await self._rows.release(key, claim)

    async def _renew_with_others(self, claim: UUID) -> None:
        """Renew a claim in the next statement, which all share that ask until it is sent."""
        self._asked.add(claim)
        while claim in self._asked:  # a statement that is under way began before the question
            await self._confirming.result(self._renew_asked)

    async def _renew_asked(self) -> None:
        claims, self._asked = self._asked, set[UUID]()
        await self._renew_now([*claims])

    def _start_renewing(self) -> None:
        if self._held:
            self._work.start(self._renew)

    async def _renew(self) -> None:
        """Renew all claims in one statement, and hear which are wanted or lost."""
        claims = [*self._held]
        try:
            await self._renew_now(claims)
        except StoreError as error:  # nobody can say whose the sessions are: each use asks again
            self._outages.failed(_RENEWING, "claims of %d sessions are not renewed for now: %s", len(claims), error)
        else:
            self._outages.worked(_RENEWING)
        if self._held:
            self._timer.plan(_POLL_SECONDS)

    async def _renew_now(self, claims: list[UUID]) -> None:
        asked_at = time.monotonic()
        lost, wanted = await self._rows.renew(claims)
        for claim in claims:
            held = self._held.get(claim)
            if held is None:  # released meanwhile
                continue
            if claim in lost:
                del self._held[claim]
                self._on_lost(held.key)
                continue
            held.asked_at = max(held.asked_at, asked_at)
            if claim in wanted:
                self._on_wanted(held.key)
