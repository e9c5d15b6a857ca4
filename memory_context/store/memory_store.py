"""MemoryStore: what the layers above see of the database.

Every operation is one transaction in one pipeline that acts as one user. A store belongs to no event loop: it keeps
one pool for each loop that uses it, since a team of agents may run under several `asyncio.run` calls.
"""

import asyncio
import threading
from collections.abc import Sequence
from difflib import get_close_matches
from types import TracebackType
from typing import ClassVar
from weakref import WeakSet

import psycopg
from psycopg.rows import DictRow

from memory_context.errors import ConflictError, StoreError, StoreUnavailableError
from memory_context.escaping import escape, unescape
from memory_context.references import LookupRegister

from .failures import driver_errors
from .location import Location
from .pool import ConnectionPool, Statement
from .preparation import prepare
from .rows import NewMemory, StoredMemory, content_of, memory_from_row, row_for
from .sqlfiles import load_queries

__all__ = ["MemoryStore"]

_QUERIES = load_queries("agent_memories")
_TRANSACTIONS = load_queries("transactions")
_HASH_IN_THREAD_CHARACTERS = 1_000_000  # a millisecond of SHA-256; more of it would hold up the event loop
_KEYS_COMPARED = 1000  # some 10 ms of comparing


class MemoryStore:
    """The durable home of items, in Postgres.

    Making one does no I/O: the server is started, the schema brought up to date and the connections opened by the
    first operation in each event loop, or by `open`. After an outage the next call tries again.

    Args:
        url: Where the database is; None for MEMORY_CONTEXT_URL, and without that the embedded server. A login that
            may migrate is used for that only; the pool then gets an ordinary login beside it.
        owner_url: A login that may migrate, when `url` is an ordinary one; None for MEMORY_CONTEXT_OWNER_URL.
        pool_size: Connections at most, per event loop.

    Attributes:
        lookups: What memory tools answered from this store.
        write_transactions: How many writing transactions of this object were committed.

    Raises:
        ValueError: An address cannot be read; the text does not show it.
    """

    _shared: ClassVar[dict[Location, "MemoryStore"]] = {}
    _shared_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, url: str | None = None, *, owner_url: str | None = None, pool_size: int = 8) -> None:
        if pool_size < 1:
            raise ValueError(f"pool_size must be at least 1, got {pool_size!r}")
        self.lookups = LookupRegister()
        self.write_transactions = 0
        self._location = Location.in_force(url, owner_url)
        self._pool_size = pool_size
        self._login: dict[str, str] | None = None  # None: the database has to be prepared, for the first time or again
        # not weakly: a loop that is collected before the next sweep would leave its connections to the collector
        self._pools: dict[asyncio.AbstractEventLoop, ConnectionPool] = {}
        self._owners: WeakSet[object] = WeakSet()

    @classmethod
    def default(cls) -> "MemoryStore":
        """Return this process's store for the address that the environment names now."""
        return cls._share(Location.in_force())

    @classmethod
    def from_config(cls, url: str | None = None, url_env: str | None = None) -> "MemoryStore":
        """Return this process's store for what `url_for_config` gave.

        Raises:
            ValueError: The environment variable it names is not set.
        """
        return cls._share(Location.from_config(url, url_env))

    @property
    def url_for_config(self) -> dict[str, str | None]:
        """What may be written into a configuration: `url` without secrets, or the `url_env` it is read from.

        Both are None for the embedded server.
        """
        return self._location.for_config()

    def describe(self) -> str:
        """Return where the data is, without secrets."""
        return self._location.describe()

    def __repr__(self) -> str:
        return f"<MemoryStore {self.describe()}>"

    async def open(self) -> None:
        """Make the database ready now rather than at the first operation.

        Raises:
            StoreUnavailableError: The server does not answer or could not be started.
            SchemaError: A person has to do something first; says what.
        """
        await self._ready()

    async def close(self) -> None:
        """Close this event loop's connections, and those of loops that have ended; the next call opens new ones."""
        self._sweep()
        if pool := self._pools.pop(asyncio.get_running_loop(), None):
            pool.close()

    def join(self, owner: object) -> None:
        """Count an object among those that use this store together; it is held weakly."""
        self._owners.add(owner)

    async def leave(self, owner: object) -> None:
        """Let go of the store; the last of those that joined closes it."""
        self._owners.discard(owner)
        if not self._owners:
            await self.close()

    async def __aenter__(self) -> "MemoryStore":
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def insert_memories(self, user_id: str, memories: Sequence[NewMemory]) -> list[str]:
        """Store items, all or none, and return the keys they are found by, in the order given.

        The same content again in the same place (agent, session, type, source) has the key it got first. After a
        cancellation or a lost connection they may or may not be stored; storing them again is harmless.

        Raises:
            ConflictError: A key belongs to another content of this user; nothing was stored.
            StoreError: The database refused or cannot be reached; nothing was stored.
        """
        if not memories:
            return []
        if sum(len(memory.content) for memory in memories) > _HASH_IN_THREAD_CHARACTERS:
            rows = await asyncio.to_thread(lambda: [row_for(user_id, memory) for memory in memories])
        else:
            rows = [row_for(user_id, memory) for memory in memories]
        # always in the same order, so that two transactions with the same items wait for, never block, each other
        order = sorted(range(len(rows)), key=lambda index: (rows[index]["memory_key"], rows[index]["content_sha256"]))
        statements = [Statement(_QUERIES["upsert_memory"], rows[index]) for index in order]
        keys = [""] * len(rows)
        for index, (row,) in zip(order, await self._insert(user_id, statements), strict=True):
            keys[index] = unescape(row["memory_key"])
        return keys

    async def fetch_memory(
        self, user_id: str, memory_key: str, *, agent_id: str | None = None, session_id: str | None = None
    ) -> StoredMemory | None:
        """Return the item behind a key, forgotten ones included; None if there is none.

        Args:
            user_id: Whose item.
            memory_key: Its key.
            agent_id: Only if it belongs to this agent; None for any.
            session_id: Only if it belongs to this session; None for any.
        """
        params = {
            "user_id": escape(user_id),
            "memory_key": escape(memory_key),
            "agent_id": None if agent_id is None else escape(agent_id),
            "session_id": None if session_id is None else escape(session_id),
        }
        (rows,) = await self._read(user_id, Statement(_QUERIES["fetch_memory"], params))
        return memory_from_row(rows[0]) if rows else None

    async def fetch_contents(self, user_id: str, memory_keys: Sequence[str]) -> dict[str, str]:
        """Return the contents of those of these keys that exist and were not forgotten."""
        if not memory_keys:
            return {}
        params = {"user_id": escape(user_id), "memory_keys": [escape(key) for key in memory_keys]}
        (rows,) = await self._read(user_id, Statement(_QUERIES["select_contents"], params))
        return {unescape(row["memory_key"]): content_of(row) for row in rows}

    async def select_keys(
        self,
        user_id: str,
        *,
        like: str | None = None,
        agent_id: str | None = None,
        session_id: str | None = None,
        limit: int = 50,
    ) -> list[str]:
        """Return keys of items that were not forgotten, the newest first.

        Args:
            user_id: Whose items.
            like: A key, perhaps mistyped: only those that resemble it, the nearest first, among the 1,000 newest.
            agent_id: Only of this agent; None for any.
            session_id: Only of this session; None for any.
            limit: How many at most.
        """
        params = {
            "user_id": escape(user_id),
            "agent_id": None if agent_id is None else escape(agent_id),
            "session_id": None if session_id is None else escape(session_id),
            "limit": limit if like is None else _KEYS_COMPARED,
        }
        (rows,) = await self._read(user_id, Statement(_QUERIES["select_keys"], params))
        keys = [unescape(row["memory_key"]) for row in rows]
        return keys if like is None else get_close_matches(like, keys, n=limit)

    async def _insert(self, user_id: str, statements: Sequence[Statement]) -> list[list[DictRow]]:
        for is_last_attempt in (False, True):
            try:
                rows = await self._transaction("begin_write", user_id, statements)
            except StoreError as error:
                if not isinstance(error.__cause__, psycopg.errors.UniqueViolation):
                    raise
                # Another transaction may have stored the same content under the same key just now: Postgres resolves
                # that race for the constraint named in ON CONFLICT only. The next attempt then finds the row.
                if is_last_attempt:
                    raise ConflictError(
                        "a memory key is taken by another content: choose another key"
                    ) from error.__cause__
            else:
                self.write_transactions += 1
                return rows
        raise AssertionError("unreachable")

    async def _read(self, user_id: str, *statements: Statement) -> list[list[DictRow]]:
        return await self._transaction("begin_read", user_id, statements)

    async def _transaction(self, begin: str, user_id: str, statements: Sequence[Statement]) -> list[list[DictRow]]:
        pool, login = await self._ready()
        act_as = Statement(_TRANSACTIONS["act_as"], {"user_id": escape(user_id)})
        whole = [Statement(_TRANSACTIONS[begin]), act_as, *statements, Statement(_TRANSACTIONS["commit"])]
        try:
            with driver_errors(self.describe()):
                rows = await pool.run(login, whole)
        except StoreError as error:
            if not isinstance(error.__cause__, (psycopg.DataError, psycopg.IntegrityError)):
                self._login = None  # the server may come back elsewhere, or empty: look again before the next call
            raise
        return rows[2:-1]

    async def _ready(self) -> tuple[ConnectionPool, dict[str, str]]:
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            self._sweep()
            pool = self._pools[loop] = ConnectionPool(self._pool_size)
        if self._login is not None:
            return pool, self._login
        # One task for all who wait, and not theirs: a caller with little patience does not undo the start of the
        # server, which takes seconds in a new folder.
        if pool.preparation is None or pool.preparation.done():
            pool.preparation = loop.create_task(prepare(self._location))
            pool.preparation.add_done_callback(_retrieve)
        preparation = pool.preparation
        try:
            self._login = login = await asyncio.shield(preparation)
        except asyncio.CancelledError:
            if preparation.cancelled():  # not this task was cancelled: somebody closed the store meanwhile
                raise StoreUnavailableError(f"{self.describe()} was closed while it was being opened") from None
            raise
        return pool, login

    def _sweep(self) -> None:
        for loop, pool in list(self._pools.items()):
            if loop.is_closed():
                del self._pools[loop]
                pool.abandon()

    @classmethod
    def _share(cls, location: Location) -> "MemoryStore":
        with cls._shared_lock:
            if location not in cls._shared:
                store = cls._shared[location] = cls(location.url, owner_url=location.owner_url)
                store._location = location
            return cls._shared[location]


def _retrieve(task: "asyncio.Task[dict[str, str]]") -> None:
    if not task.cancelled():
        task.exception()  # everyone who waited may have gone; asyncio would report it as never retrieved
