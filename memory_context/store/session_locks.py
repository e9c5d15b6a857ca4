"""Claims of sessions: advisory locks of one lasting connection, and notifications between processes.

The server frees advisory locks when a process dies. Poolers in transaction mode lose them, and are refused.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import NamedTuple

from memory_context.foundation.errors import SessionBusyError, StoreError, StoreUnavailableError
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.runtime.background import Background, Timer
from memory_context.foundation.utf8 import to_utf8
from memory_context.sessions.live.claims import busy_text

from .database import Database
from .listening import ListeningConnection

__all__ = ["AdvisoryClaims"]

_RETRY_SECONDS = (0.02, 0.25)  # between attempts: first and at most
_logger = logging.getLogger("memory_context")


class _Ask(NamedTuple):
    key: SessionKey
    answer: "asyncio.Future[bool]"


_Frees = dict[int, "asyncio.Future[None]"]


class AdvisoryClaims(ListeningConnection):
    """Claims of one cache, on a connection of its own, under one event loop. All are lost with the connection."""

    listen = "listen_claims"
    purpose = "keeps the claims of sessions"
    needs = "which claims of sessions do not survive: give this store a direct address, or use RedisClaims"

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._held: dict[int, SessionKey] = {}
        self._wanted: set[int] = set()
        self._claiming: dict[int, asyncio.Future[None]] = {}  # done on release
        self._asks: dict[int, _Ask] = {}
        self._frees: _Frees = {}
        self._is_probe_due = False
        self._probe_timer = Timer(self._probe)
        self._work = Background[None]("memory_context claims")
        self._on_wanted: Callable[[SessionKey], None] = _ignore
        self._on_lost: Callable[[SessionKey], None] = _ignore

    def watch(self, wanted: Callable[[SessionKey], None], lost: Callable[[SessionKey], None]) -> None:
        """Set callbacks for a session that another process wants, and for each lost claim."""
        self._on_wanted, self._on_lost = wanted, lost

    async def claim(self, key: SessionKey, wait_seconds: float) -> None:
        """Return once the session belongs to this process.

        Raises:
            SessionBusyError: Another process did not release it in time.
            StoreUnavailableError: The database did not answer within `StoreLimits.call_seconds`.
            StoreError: The database is behind a transaction pooler.
            RuntimeError: It is claimed here already; Postgres would count a second lock.
        """
        claim = _number_of(key)
        if claim in self._held or claim in self._claiming:
            raise RuntimeError(f"session {key.session_id!r} is claimed here already")
        loop = asyncio.get_running_loop()
        limits = self._database.limits
        deadline = loop.time() + wait_seconds
        pause = _RETRY_SECONDS[0]
        try:
            while True:
                released = self._claiming[claim] = loop.create_future()
                patience = max(limits.transaction_seconds, deadline - loop.time())
                if await self._attempt(claim, key, min(patience, limits.call_seconds)):
                    return
                left = deadline - loop.time()
                if left <= 0:
                    raise SessionBusyError(busy_text(key, wait_seconds))
                await asyncio.wait([released], timeout=min(pause, left))
                pause = min(2 * pause, _RETRY_SECONDS[1])
        except BaseException:
            if self._held.pop(claim, None) is not None:  # cancelled as it came
                self._free(claim)
            raise
        finally:
            del self._claiming[claim]

    async def release(self, key: SessionKey) -> None:
        """Release a session; a silent connection is closed, which releases all."""
        claim = _number_of(key)
        if self._held.pop(claim, None) is not None:
            await asyncio.wait([self._free(claim)], timeout=self._database.limits.call_seconds)

    async def close(self) -> None:
        await self._work.wait(self._database.limits.call_seconds)
        self._held.clear()
        self._drop()

    # --- requests: one task serves them, so callers can be cancelled

    async def _attempt(self, claim: int, key: SessionKey, seconds: float) -> bool:
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._asks[claim] = _Ask(key, answer)
        self._start()
        try:
            await asyncio.wait([answer], timeout=seconds)
            if not answer.done():
                raise StoreUnavailableError(f"the database does not answer: no claim in {seconds:.3g} s {self._where}")
            return answer.result() and claim in self._held  # it may be lost since
        finally:
            answer.cancel()

    def _free(self, claim: int) -> "asyncio.Future[None]":
        """Release a lock; the connection's end also completes the future."""
        done = self._frees[claim] = asyncio.get_running_loop().create_future()
        self._start()
        return done

    def _start(self) -> None:
        self._work.start(self._serve)

    async def _serve(self) -> None:
        """Send what is asked in batches, releases first."""
        while self._asks or self._frees or self._is_probe_due:
            asks, self._asks = self._asks, {}
            frees, self._frees = self._frees, {}
            try:
                await self._release(frees)
                await self._claim(asks)
                if self._is_probe_due and self._connection is not None:  # no other answer came
                    await self._fetch_backend(self._connection)
            except Exception as error:
                self._lose()
                if not asks:
                    _logger.warning("claims of sessions are lost: %s", error)
                for ask in asks.values():
                    if not ask.answer.done():
                        ask.answer.set_exception(error)
            except BaseException:
                self._drop()
                raise
            finally:
                _finish(frees)
                self._is_probe_due = False

    async def _release(self, frees: _Frees) -> None:
        if frees and self._connection is not None:
            params = {"claims": [*frees], "wanted": [*self._wanted.intersection(frees)]}
            self._wanted.difference_update(frees)
            rows = await self._run(self._connection, "release_sessions", params)
            if not all(row["was_mine"] for row in rows):
                raise StoreError(self._pooled)

    async def _claim(self, asks: Mapping[int, _Ask]) -> None:
        if not asks:
            return
        connection = self._connection or await self._connect()
        rows = await self._run(connection, "claim_sessions", {"claims": [*asks]})
        if any(row["backend"] != self._backend for row in rows):
            raise StoreError(self._pooled)
        for row in rows:
            key, answer = asks[row["claim"]]
            if row["is_mine"] and not answer.done():
                self._held[row["claim"]] = key
            elif row["is_mine"]:  # the caller was cancelled
                self._free(row["claim"])
            if not answer.done():
                answer.set_result(row["is_mine"])

    # --- the connection

    def _note_answer(self) -> None:
        self._is_probe_due = False
        self._plan_probe()

    def _plan_probe(self) -> None:
        self._probe_timer.cancel()
        self._probe_timer.plan(self._database.limits.probe_seconds)

    def _probe(self) -> None:
        if self._held:
            self._is_probe_due = True
            self._start()

    def _hear(self, text: str) -> None:
        word, _, number = text.partition(" ")
        with suppress(ValueError):  # anybody may notify
            claim = int(number)
            if word == "released" and claim in self._claiming and not self._claiming[claim].done():
                self._claiming[claim].set_result(None)
            elif word == "wanted" and claim in self._held:
                self._wanted.add(claim)
                self._on_wanted(self._held[claim])

    def _lose(self) -> None:
        self._drop()
        lost, self._held = self._held, {}
        for key in lost.values():
            self._on_lost(key)

    def _drop(self) -> None:
        super()._drop()
        self._probe_timer.cancel()
        _finish(self._frees)
        self._frees = {}
        self._wanted.clear()


def _number_of(key: SessionKey) -> int:
    name = to_utf8("\0".join(("memory_context", *key)))
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big", signed=True)


def _finish(frees: _Frees) -> None:
    for done in frees.values():
        if not done.done():
            done.set_result(None)


def _ignore(key: SessionKey) -> None:
    pass
