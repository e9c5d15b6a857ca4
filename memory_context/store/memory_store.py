"""MemoryStore: what the layers above see of the database.

Items here; making them findable is the indexer's work, finding them the search's, filling in another model's embeddings
that of `reindexing`. Every operation is one transaction in one pipeline that acts as one user.
"""

import asyncio
import logging
import threading
from collections.abc import Sequence
from difflib import get_close_matches
from types import TracebackType
from typing import ClassVar
from weakref import WeakSet

import psycopg
from psycopg.rows import DictRow

from memory_context.embeddings import Embedder, EmbeddingError, WordLlamaEmbedder, check_embedder, embed_checked
from memory_context.errors import ConflictError, StoreError
from memory_context.escaping import escape, unescape
from memory_context.indexing import Candidate, QueryProfile
from memory_context.references import LookupRegister

from .criteria import MemoryCriteria, criteria_params
from .database import Database
from .indexer import Indexer, IndexReport, model_of
from .location import Location
from .pool import Statement
from .reindexing import Progress, reindex
from .rows import NewMemory, StoredMemory, content_of, memory_from_row, row_for
from .search import PassageSearch, Place, QueryVector, StoredPassage, related_keys
from .sqlfiles import load_queries

__all__ = ["MemoryStore"]

_QUERIES = load_queries("agent_memories")
_HASH_IN_THREAD_CHARACTERS = 1_000_000  # a millisecond of SHA-256; more of it would hold up the event loop
_KEYS_COMPARED = 1000  # some 10 ms of comparing
_EMBED_QUERY_SECONDS = 5.0
_logger = logging.getLogger("memory_context")


class MemoryStore:
    """The durable home of items, in Postgres.

    Making one does no I/O: the server is started, the schema brought up to date and the connections opened by the
    first operation in each event loop, or by `open`. After an outage the next call tries again.

    Args:
        url: Where the database is; None for MEMORY_CONTEXT_URL, and without that the embedded server. A login that
            may migrate is used for that only; the pool then gets an ordinary login beside it.
        embedder: Makes the embeddings that search compares; None for `WordLlamaEmbedder`, which needs no network.
        owner_url: A login that may migrate, when `url` is an ordinary one; None for MEMORY_CONTEXT_OWNER_URL.
        pool_size: Connections at most, per event loop.

    Attributes:
        lookups: What memory tools answered from this store.

    Raises:
        ValueError: An address cannot be read (the text does not show it), or the embedder cannot be used.
    """

    _shared: ClassVar[dict[Location, "MemoryStore"]] = {}
    _shared_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self,
        url: str | None = None,
        embedder: Embedder | None = None,
        *,
        owner_url: str | None = None,
        pool_size: int = 8,
    ) -> None:
        if pool_size < 1:
            raise ValueError(f"pool_size must be at least 1, got {pool_size!r}")
        embedder = embedder or WordLlamaEmbedder()
        check_embedder(embedder)
        self.lookups = LookupRegister()
        self._database = Database(Location.in_force(url, owner_url), pool_size)
        self._indexer = Indexer(self._database, embedder)
        self._search = PassageSearch(self._database)
        self._stored_transactions = 0
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
        return self._database.location.for_config()

    @property
    def embedder(self) -> Embedder:
        """Makes the embeddings that search compares."""
        return self._indexer.embedder

    @property
    def write_transactions(self) -> int:
        """How many transactions of this object stored items."""
        return self._stored_transactions

    def describe(self) -> str:
        """Return where the data is, without secrets."""
        return self._database.location.describe()

    def __repr__(self) -> str:
        return f"<MemoryStore {self.describe()}>"

    # --- life cycle

    async def open(self) -> None:
        """Make the database ready now rather than at the first operation, and index what others left behind.

        Raises:
            StoreUnavailableError: The server does not answer or could not be started.
            SchemaError: A person has to do something first; says what.
        """
        await self._database.ready()
        await self._indexer.look_around()

    async def close(self) -> None:
        """Close this event loop's connections, and those of loops that have ended; the next call opens new ones.

        What is not indexed yet is indexed when a process opens the store again.
        """
        await self._search.stop()
        await self._indexer.stop()
        self._database.close()

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

    # --- items

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
        statements.append(Statement(_QUERIES["upsert_pending_user"], {"user_id": escape(user_id)}))
        *stored, _ = await self._insert(user_id, statements)
        keys = [""] * len(rows)
        is_new = False
        for index, (row,) in zip(order, stored, strict=True):
            keys[index] = unescape(row["memory_key"])
            is_new |= row["is_new"]
        if is_new:
            self._indexer.nudge(user_id)
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
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["fetch_memory"], params))
        return memory_from_row(rows[0]) if rows else None

    async def fetch_contents(
        self, user_id: str, memory_keys: Sequence[str], *, agent_id: str | None = None, session_id: str | None = None
    ) -> dict[str, str]:
        """Return the contents of those of these keys that exist, in this agent and session if given."""
        if not memory_keys:
            return {}
        params = {
            "user_id": escape(user_id),
            "memory_keys": [escape(key) for key in memory_keys],
            "agent_id": None if agent_id is None else escape(agent_id),
            "session_id": None if session_id is None else escape(session_id),
        }
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["select_contents"], params))
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
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["select_keys"], params))
        keys = [unescape(row["memory_key"]) for row in rows]
        return keys if like is None else get_close_matches(like, keys, n=limit)

    async def forget_memories(
        self, user_id: str, *, agent_id: str, session_id: str, memory_key: str | None = None
    ) -> list[str]:
        """Erase items of exactly this agent and session, with everything they are found by; return their keys.

        A tombstone stays, so that their keys tell when they were forgotten.

        Args:
            user_id: Whose items.
            agent_id: Of this agent; "" for those of none.
            session_id: Of this session; "" for those of none.
            memory_key: Only this one; None for all of them.
        """
        params: dict[str, object] = {
            "user_id": escape(user_id),
            "agent_id": escape(agent_id),
            "session_id": escape(session_id),
            "memory_key": None if memory_key is None else escape(memory_key),
        }
        (rows,) = await self._database.write(user_id, Statement(_QUERIES["select_own_ids"], params))
        if not rows:
            return []
        params["memory_ids"] = [row["id"] for row in rows]
        steps = (
            "lock_jobs",
            "select_own_ids",
            "subtract_statistics",
            "delete_chunks",
            "delete_terms",
            "delete_index_jobs",
            "update_memories_forgotten",
        )
        *_, forgotten = await self._database.write(user_id, *(Statement(_QUERIES[name], params) for name in steps))
        return [unescape(row["memory_key"]) for row in forgotten]

    async def select_memories(self, user_id: str, criteria: MemoryCriteria) -> list[StoredMemory]:
        """Return the items that meet criteria, without their content, in the order and number asked for."""
        params = {
            **criteria_params(criteria, await related_keys(self._database, user_id, criteria)),
            "user_id": escape(user_id),
            "oldest_first": criteria.oldest_first,
            "limit": criteria.limit,
            "offset": criteria.offset,
        }
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["select_memories"], params))
        return [memory_from_row(row) for row in rows]

    # --- index and search

    async def search_candidates(
        self, user_id: str, query: str, terms: Sequence[str], criteria: MemoryCriteria
    ) -> tuple[list[Candidate], QueryProfile]:
        """Return the passages that could answer a query, scored, and what is known of its terms.

        An embedder that fails takes its ranking with it, not the search.

        Args:
            user_id: Whose passages.
            query: The query's text, for the ranking by meaning.
            terms: Its distinct terms, for the ranking by terms.
            criteria: Which items count, in both rankings.
        """
        return await self._search.candidates(user_id, terms, await self._query_vector(query), criteria)

    async def fetch_passages(self, user_id: str, places: Sequence[Place]) -> dict[Place, StoredPassage]:
        """Return passages by item id and passage number; those of forgotten items are left out."""
        return await self._search.passages(user_id, places)

    async def select_unindexed(
        self, user_id: str, criteria: MemoryCriteria, limit: int, *, words: Sequence[str] = ()
    ) -> list[StoredPassage]:
        """Return the beginnings of the newest items not indexed yet; first those with a word in key, label or tags."""
        return await self._search.unindexed(user_id, criteria, limit, words)

    async def flush_index(self) -> IndexReport:
        """Index everything that is due now, of all users, and return what is still missing.

        Raises:
            StoreError: The database failed; what is not indexed stays due.
        """
        return await self._indexer.flush()

    async def index_failures(self, user_id: str, limit: int = 50) -> list[tuple[str, str]]:
        """Return the keys of items that could not be indexed after several attempts, and what went wrong."""
        return await self._indexer.failures(user_id, limit)

    async def reindex(self, embedder: Embedder, *, progress: Progress | None = None) -> int:
        """Embed all passages of all users with another model, then search with it; return how many were embedded.

        Meanwhile the store is written and searched as before. What was embedded stays, so after an interruption call it
        again. Other processes go over to the model when they are started with it.

        Args:
            embedder: The model to go over to.
            progress: Called with the passages done and the passages there are, after each batch.

        Raises:
            EmbeddingError: The embedder failed; the store goes on with the model it had.
            StoreError: The database failed.
        """
        check_embedder(embedder)
        embedded = await reindex(self._database, self._indexer, embedder, progress)
        self._indexer.embedder = embedder
        # what was stored while the last users were embedded has the former model's embeddings only
        return embedded + await reindex(self._database, self._indexer, embedder, None)

    async def _query_vector(self, query: str) -> QueryVector | None:
        embedder = self.embedder
        try:
            (vector,) = await embed_checked(embedder, [query], "query", timeout_seconds=_EMBED_QUERY_SECONDS)
        except EmbeddingError as error:
            _logger.warning("searching by terms alone: %s", error)
            return None
        return None if vector is None else QueryVector(model_of(embedder), vector)

    async def _insert(self, user_id: str, statements: Sequence[Statement]) -> list[list[DictRow]]:
        for is_last_attempt in (False, True):
            try:
                rows = await self._database.write(user_id, *statements)
                self._stored_transactions += 1
                return rows
            except StoreError as error:
                if not isinstance(error.__cause__, psycopg.errors.UniqueViolation):
                    raise
                # Another transaction may have stored the same content under the same key just now: Postgres resolves
                # that race for the constraint named in ON CONFLICT only. The next attempt then finds the row.
                if is_last_attempt:
                    raise ConflictError(
                        "a memory key is taken by another content: choose another key"
                    ) from error.__cause__
        raise AssertionError("unreachable")

    @classmethod
    def _share(cls, location: Location) -> "MemoryStore":
        with cls._shared_lock:
            if location not in cls._shared:
                store = cls._shared[location] = cls(location.url, owner_url=location.owner_url)
                store._database.location = location
            return cls._shared[location]
