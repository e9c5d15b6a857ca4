"""Claims of sessions: advisory locks of one lasting connection, and notifications between processes.

The server frees advisory locks when a process dies. Poolers in transaction mode lose them, and are refused.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import DictRow

from memory_context.errors import SessionBusyError, StoreError, StoreUnavailableError
from memory_context.identifiers import SessionKey
from memory_context.live.claims import busy_text
from memory_context.runtime import Background, Timer
from memory_context.utf8 import to_utf8

from .connection import Connection, connect, driver_errors
from .database import Database
from .sql import load_queries

__all__ = ["AdvisoryClaims"]

_QUERIES = load_queries("session_locks")
_RETRY_SECONDS = (0.02, 0.25)  # between attempts: first and at most
_PROBES = 3
_POOLED = (
    "the database is reached through a pooler that lends a server connection for one transaction only (such as "
    "PgBouncer with pool_mode=transaction), which claims of sessions do not survive: give this store a direct address, "
    "or use RedisClaims"
)
_logger = logging.getLogger("memory_context")


class _Ask(NamedTuple):
    key: SessionKey
    answer: "asyncio.Future[bool]"


_Frees = dict[int, "asyncio.Future[None]"]


class AdvisoryClaims:
    """Claims of one cache, on a connection of its own, under one event loop. All are lost with the connection."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._backend = 0
        self._watched: int | None = None  # watched socket
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
                raise StoreError(f"{_POOLED} {self._where}")

    async def _claim(self, asks: Mapping[int, _Ask]) -> None:
        if not asks:
            return
        connection = self._connection or await self._connect()
        rows = await self._run(connection, "claim_sessions", {"claims": [*asks]})
        if any(row["backend"] != self._backend for row in rows):
            raise StoreError(f"{_POOLED} {self._where}")
        for row in rows:
            key, answer = asks[row["claim"]]
            if row["is_mine"] and not answer.done():
                self._held[row["claim"]] = key
            elif row["is_mine"]:  # the caller was cancelled
                self._free(row["claim"])
            if not answer.done():
                answer.set_result(row["is_mine"])

    # --- the connection

    @property
    def _where(self) -> str:
        return f"({self._database.location.describe()})"

    async def _connect(self) -> Connection:
        _, login = await self._database.ready()
        try:
            return await self._open(login)
        except StoreUnavailableError:
            self._drop()
            await self._database.read(None)  # finds a restarted server
            _, login = await self._database.ready()
            return await self._open(login)

    async def _open(self, login: Mapping[str, str]) -> Connection:
        with driver_errors(self._database.location.describe()):
            self._connection = connection = await connect(login, self._database.limits.opening_seconds)
        connection.add_notify_handler(lambda heard: self._hear(heard.payload))
        self._backend = await self._fetch_backend(connection)
        if self._backend != connection.pgconn.backend_pid:  # behind some pooler
            await self._refuse_lending(connection, login)
        await self._run(connection, "limit_silence")
        await self._run(connection, "listen_claims")
        return connection

    async def _refuse_lending(self, connection: Connection, login: Mapping[str, str]) -> None:
        """Raise StoreError if other connections get the same server process."""
        for _ in range(_PROBES):
            with driver_errors(self._database.location.describe()):
                other = await connect(login, self._database.limits.opening_seconds)
            try:
                cursor = await other.execute(_QUERIES["fetch_backend"])
                backends = {row["backend"] for row in await cursor.fetchall()}
            except psycopg.Error:
                return  # all are taken, none is lent
            finally:
                other.pgconn.finish()
            if backends == {self._backend} or await self._fetch_backend(connection) != self._backend:
                raise StoreError(f"{_POOLED} {self._where}")

    async def _fetch_backend(self, connection: Connection) -> int:
        return (await self._run(connection, "fetch_backend"))[0]["backend"]

    async def _run(self, connection: Connection, name: str, params: Mapping[str, Any] | None = None) -> list[DictRow]:
        self._unwatch()
        connection.allow(self._database.limits.transaction_seconds)
        with driver_errors(self._database.location.describe()):
            cursor = await connection.execute(_QUERIES[name], params, binary=True)
            rows = await cursor.fetchall() if cursor.description else []
        self._watched = connection.fileno()
        asyncio.get_running_loop().add_reader(self._watched, self._read, connection)
        self._read(connection)  # notifications that came with the answer
        self._is_probe_due = False
        self._plan_probe()
        if self._connection is not connection:
            raise StoreUnavailableError(f"the connection to the database was lost {self._where}")
        return rows

    def _plan_probe(self) -> None:
        self._probe_timer.cancel()
        self._probe_timer.plan(self._database.limits.probe_seconds)

    def _probe(self) -> None:
        if self._held:
            self._is_probe_due = True
            self._start()

    def _read(self, connection: Connection) -> None:
        try:
            connection.pgconn.consume_input()
            while (heard := connection.pgconn.notifies()) is not None:
                self._hear(heard.extra.decode())
        except psycopg.Error as error:
            _logger.warning("the connection that keeps the claims of sessions was lost: %s %s", error, self._where)
            self._lose()

    def _hear(self, text: str) -> None:
        word, _, number = text.partition(" ")
        with suppress(ValueError):  # anybody may notify
            claim = int(number)
            if word == "released" and claim in self._claiming and not self._claiming[claim].done():
                self._claiming[claim].set_result(None)
            elif word == "wanted" and claim in self._held:
                self._wanted.add(claim)
                self._on_wanted(self._held[claim])

    def _unwatch(self) -> None:
        if self._watched is not None:
            asyncio.get_running_loop().remove_reader(self._watched)
            self._watched = None

    def _lose(self) -> None:
        self._drop()
        lost, self._held = self._held, {}
        for key in lost.values():
            self._on_lost(key)

    def _drop(self) -> None:
        self._unwatch()
        self._probe_timer.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.pgconn.finish()
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
