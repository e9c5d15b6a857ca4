"""MemoryStore: what the layers above see of the database.

The work is done elsewhere: items in `item_store` and `forget`, finding them in `search`, retention in `admin`. Every
operation acts as one user, and every read takes the scope it is done in: without one it shows what is private to
nobody.
"""

import threading
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta
from typing import ClassVar
from weakref import WeakSet

from memory_context.embeddings import Embedder, check_embedder, default_embedder
from memory_context.references import ToolAnswerRegistry
from memory_context.runtime import WRITE_SECONDS, Unwritten

from .admin import PruneProgress, PruneReport, StoreAdmin, UserStats
from .admin.prune import prune
from .conversations import ConversationArchive
from .criteria import MemoryCriteria
from .database import Database, every_user
from .events import EventLog
from .forget import ProgressCallback, erase_user
from .item_store import ANYBODY, ItemStore
from .items import ReadScope
from .jobs import Jobs
from .limits import StoreLimits
from .location import Location
from .search import Candidate, Indexer, IndexReport, PassagePlace, PassageSearch, QueryProfile, StoredPassage, reindex
from .session_locks import AdvisoryClaims
from .threads import ThreadStore

__all__ = ["MemoryStore"]


class MemoryStore(ItemStore):
    """The durable home of items, in Postgres.

    Making one does no I/O: the server is started, the schema brought up to date and the connections opened by the
    first operation in each event loop, or by `open`. After an outage the next call tries again.

    Args:
        url: Where the database is; None for MEMORY_CONTEXT_URL, and without that the embedded server. A login that
            may migrate is used for that only; the pool then gets an ordinary login beside it.
        embedder: Makes what search compares; None for `WordLlamaEmbedder`, and for none where that is not installed.
        owner_url: A login that may migrate, when `url` is an ordinary one; None for MEMORY_CONTEXT_OWNER_URL.
        pool_size: Connections at most, per event loop.
        limits: How long calls wait for the database.
        mask_credentials: Whether credentials are left out of terms and of texts that are embedded, not of contents.

    Attributes:
        limits: How long calls wait for the database.
        lookups: What memory tools answered from this store.
        unwritten: What contexts have buffered; `close` writes it.
        events: What happened to items, on its way into the audit trail.
        jobs: What is done later, and in the background.
        conversations: What was said in sessions.
        threads: What a user interface showed of them.
        user_stats: What each user has.
        admin: What is done to the store as a whole: status, migrating, export, import.

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
        limits: StoreLimits | None = None,
        mask_credentials: bool = True,
    ) -> None:
        if pool_size < 1:
            raise ValueError(f"pool_size must be at least 1, got {pool_size!r}")
        if embedder := embedder or default_embedder():
            check_embedder(embedder)
        self.tool_answers = ToolAnswerRegistry()
        self.limits = limits or StoreLimits()
        self._database = Database(Location.in_force(url, owner_url), pool_size, self.limits)
        self.unwritten = Unwritten(self._stop, self._database.started)
        self.jobs = self._jobs = Jobs(self._database)
        self._indexer = Indexer(self._database, self.jobs, embedder, masks_credentials=mask_credentials)
        self.events = EventLog(self._database, self.unwritten)
        self.conversations = ConversationArchive(self._database, self.events)
        self.threads = ThreadStore(self._database, self.conversations)
        self.user_stats = UserStats(self._database)
        self.admin = StoreAdmin(self._database)
        self._search = PassageSearch(self._database, self._indexer)
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
        """`url` without secrets, or the `url_env` it is read from, for a configuration; both None if embedded."""
        return self._database.location.for_config()

    @property
    def embedder(self) -> Embedder | None:
        """Makes the embeddings that search compares; None where search goes by words alone."""
        return self._indexer.embedder

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
        await self._database.ready(is_patient=True)
        await self.jobs.wake_all()

    async def close(self, *, write_seconds: float = WRITE_SECONDS) -> None:
        """Write what the contexts of this event loop buffered, 5 s at most, and close its connections.

        `write_seconds` is that limit; 10 MB get a further second, an embedded server is set up first. Warns if late.
        """
        await self.unwritten.write_out(write_seconds)
        await self._stop()

    async def _stop(self) -> None:
        await self.events.stop()
        await self._search.stop()
        await self.jobs.stop()
        self._database.close()

    def join(self, owner: object) -> None:
        """Count an object among those that use this store together; it is held weakly."""
        self._owners.add(owner)

    async def leave(self, owner: object, *, write_seconds: float = WRITE_SECONDS) -> None:
        """Let go of the store; the last of those that joined closes it."""
        self._owners.discard(owner)
        if not self._owners:
            await self.close(write_seconds=write_seconds)

    def advisory_claims(self) -> AdvisoryClaims:
        """Return claims of sessions for one cache, which the processes that use this database then share."""
        return AdvisoryClaims(self._database)

    async def __aenter__(self) -> "MemoryStore":
        await self.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def every_user(self) -> AsyncIterator[str]:
        """Yield all users in a fixed order, as the owner, or as a login that may list them; else `StoreError`."""
        return every_user(self._database)

    # --- all of a user, and retention

    async def erase_user(self, user_id: str, *, progress: ProgressCallback | None = None) -> int:
        """Erase everything of a user, tombstones included, and the user; return how many items there were.

        Forgotten items are not counted. What others store for the user meanwhile goes too, or stays whole. Contexts
        that are open keep what they have in sight. `progress` is called after each batch.

        Raises:
            StoreError: The database failed; call it again.
        """
        self.events.discard(user_id)
        return await erase_user(self._database, user_id, progress)

    async def prune(
        self,
        older_than: timedelta | datetime,
        *,
        types: Sequence[str] | None = None,
        conversations: bool = False,
        dry_run: bool = False,
        progress: Callable[[PruneProgress], None] | None = None,
    ) -> PruneReport:
        """Forget what was neither stored nor used for some time, of all users, and return how much that was.

        Items leave a tombstone. Those of an active session stay, and those that its archive refers to. Events of the
        audit trail go, too. It works in small transactions beside everything else; interrupted, call it again.

        Args:
            older_than: How long, or since when.
            types: Only items of these types; None for all but secrets, and the preferences and facts that the user or
                the application stored, which are never pruned. Those of a model, a tool or a file are.
            conversations: Whether what was said in sessions goes, too, where nothing was archived for so long.
            dry_run: Only count what would go, conversations included.
            progress: Called after each transaction.

        Raises:
            ValueError: The age is not positive, the time not past or without a timezone, or a type may not be pruned.
            StoreError: The database failed.
        """
        return await prune(self._database, older_than, types, conversations, progress, dry_run=dry_run)

    # --- index and search

    async def search_candidates(
        self,
        user_id: str,
        query: str,
        terms: Sequence[str],
        criteria: MemoryCriteria,
        *,
        scope: ReadScope = ANYBODY,
    ) -> tuple[list[Candidate], QueryProfile]:
        """Return the passages that could answer a query, scored, and what is known of its terms.

        An embedder that fails takes its ranking with it, not the search.

        Args:
            user_id: Whose passages.
            query: The query's text, for the ranking by meaning.
            terms: Its distinct terms, for the ranking by terms.
            criteria: Which items count, in both rankings.
            scope: Who reads, and how far.
        """
        return await self._search.candidates(user_id, terms, await self._search.embed_query(query), criteria, scope)

    async def fetch_passages(
        self, user_id: str, places: Sequence[PassagePlace], criteria: MemoryCriteria, *, scope: ReadScope = ANYBODY
    ) -> dict[PassagePlace, StoredPassage]:
        """Return passages by content id and passage number, each with the newest item that meets criteria, if any."""
        return await self._search.passages(user_id, places, criteria, scope)

    async def select_unindexed(
        self,
        user_id: str,
        criteria: MemoryCriteria,
        limit: int,
        *,
        words: Sequence[str] = (),
        written: Sequence[str] = (),
        scope: ReadScope = ANYBODY,
    ) -> list[StoredPassage]:
        """Return passages of the newest items not indexed yet; first those with a word in key, label or tags."""
        return await self._search.unindexed(user_id, criteria, limit, words, written, scope)

    async def flush_index(self, *, progress: Callable[[int], None] | None = None) -> IndexReport:
        """Index everything that is due now, of all users, and return what is still missing.

        Args:
            progress: Called with the number of items in each batch, once it is done.

        Raises:
            StoreError: The database failed; what is not indexed stays due.
        """
        return await self._indexer.flush(progress)

    async def index_failures(self, user_id: str, limit: int = 50) -> list[tuple[str, str]]:
        """Return the keys of items that could not be indexed after several attempts, and what went wrong."""
        return await self._indexer.failures(user_id, limit)

    async def reindex(self, embedder: Embedder, *, progress: ProgressCallback | None = None) -> int:
        """Embed all passages of all users with another model, then search with it; return how many were embedded.

        Meanwhile the store works as before. What was embedded stays: after an interruption call it again. Other
        processes go over to the model when they are started with it.

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

    @classmethod
    def _share(cls, location: Location) -> "MemoryStore":
        with cls._shared_lock:
            if location not in cls._shared:
                store = cls._shared[location] = cls(location.url, owner_url=location.owner_url)
                store._database.location = location
            return cls._shared[location]
