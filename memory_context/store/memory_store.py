"""The facade of the store."""

import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar
from weakref import WeakSet

from memory_context.foundation.embeddings.embedder import Embedder, check_embedder
from memory_context.foundation.embeddings.wordllama import default_embedder
from memory_context.foundation.references import ToolAnswerRegistry
from memory_context.foundation.runtime.buffers import WRITE_SECONDS, Unwritten

from .admin.daily import DailyConsolidation
from .admin.status import StoreAdmin
from .admin.user_stats import UserStats
from .database import Database, every_user
from .events import EventLog
from .forget import ProgressCallback, erase_user, redact
from .item_store import ItemStore
from .items import NewItem
from .jobs import Jobs
from .limits import StoreLimits
from .location import Location
from .redact import Traces
from .search.conversation import CONVERSATION_JOB, register_conversation_jobs
from .search.indexer import Indexer, IndexReport, reindex

if TYPE_CHECKING:  # a command that only reads imports few of them
    from memory_context.foundation.light_model.model import ChatCompletionClient as _ModelClient

    from .admin.consolidate import ConsolidationReport
    from .admin.prune import PruneReport
    from .conversations import ConversationArchive
    from .notes import NotesStore
    from .search.passages import PassageSearch
    from .secret_rows import KeyProvider, SecretRows
    from .session_claims import ClaimRows
    from .statements import StatementStore
    from .threads import ThreadStore

__all__ = ["MemoryStore"]

_MODEL_SECONDS = 60.0  # a question in the background


class MemoryStore:
    """The durable store of items, in Postgres. Reads without a scope return nothing private.

    Construction does no I/O: the first operation in each event loop, or `open`, connects and migrates.

    Args:
        url: None for MEMORY_CONTEXT_URL, else the embedded server. A login that may migrate makes an ordinary one for
            the pool.
        embedder: None for `WordLlamaEmbedder`, if installed.
        owner_url: A login that may migrate, beside an ordinary `url`; None for MEMORY_CONTEXT_OWNER_URL.
        pool_size: Connections at most, per event loop.
        mask_credentials: Leave credentials out of index and embeddings; contents keep them.
        secret_keys: Keys of the vault; None for MEMORY_CONTEXT_SECRET_KEY.

    Attributes:
        items, statements, notes, conversations, threads, events, jobs, secret_rows, user_stats: Rows of one sort.
        search: Finds passages.
        admin: Schema and state.

    Raises:
        ValueError: An address is malformed, or the embedder is unusable.
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
        secret_keys: "KeyProvider | None" = None,
    ) -> None:
        if pool_size < 1:
            raise ValueError(f"pool_size must be at least 1, got {pool_size!r}")
        if embedder := embedder or default_embedder():
            check_embedder(embedder)
        self.tool_answers = ToolAnswerRegistry()
        self.limits = limits or StoreLimits()
        self._database = Database(Location.in_force(url, owner_url), pool_size, self.limits)
        self.forgettings = self._database.forgettings
        self.unwritten = Unwritten(self._stop, self._database.started)
        self.jobs = Jobs(self._database)
        register_conversation_jobs(self._database, self.jobs, masks_credentials=mask_credentials)
        self._indexer = Indexer(self._database, self.jobs, embedder, masks_credentials=mask_credentials)
        self.items = ItemStore(self._database, self.jobs)
        self.events = EventLog(self._database, self.unwritten)
        self.user_stats = UserStats(self._database)
        self.admin = StoreAdmin(self._database)
        self.secret_keys = secret_keys
        self._daily = DailyConsolidation(self.consolidate_due)
        self._owners: WeakSet[object] = WeakSet()

    @classmethod
    def default(cls) -> "MemoryStore":
        """Return this process's store for the environment's address."""
        return cls._share(Location.in_force())

    @classmethod
    def from_config(cls, url: str | None = None, url_env: str | None = None) -> "MemoryStore":
        """Return this process's store for a `url_for_config`; `ValueError` if the variable is unset."""
        return cls._share(Location.from_config(url, url_env))

    @property
    def url_for_config(self) -> dict[str, str | None]:
        """`url` without secrets, or `url_env`; both None if embedded."""
        return self._database.location.for_config()

    def user_memory_changes(self, user_id: str) -> int:
        """Return the number of changes of a user's memory in this process, so that contexts notice one without I/O."""
        return self._database.user_memory_changes[user_id]

    @property
    def embedder(self) -> Embedder | None:
        """None for search by words alone."""
        return self._indexer.embedder

    def describe(self) -> str:
        """Return the place without secrets."""
        return self._database.location.describe()

    def __repr__(self) -> str:
        return f"<MemoryStore {self.describe()}>"

    # --- rows of one sort, imported at first use

    @cached_property
    def statements(self) -> "StatementStore":
        from .statements import StatementStore

        return StatementStore(self._database, self.jobs)

    @cached_property
    def conversations(self) -> "ConversationArchive":
        from .conversations import ConversationArchive

        return ConversationArchive(self._database, self.events, self.jobs)

    @cached_property
    def threads(self) -> "ThreadStore":
        from .threads import ThreadStore

        return ThreadStore(self._database, self.conversations)

    @cached_property
    def notes(self) -> "NotesStore":
        from .notes import NotesStore

        return NotesStore(self._database)

    @cached_property
    def claim_rows(self) -> "ClaimRows":
        from .session_claims import ClaimRows

        return ClaimRows(self._database)

    @cached_property
    def secret_rows(self) -> "SecretRows":
        from .secret_rows import SecretRows

        return SecretRows(self._database)

    @cached_property
    def search(self) -> "PassageSearch":
        from .search.passages import PassageSearch

        return PassageSearch(self._database, self._indexer)

    # --- life cycle

    async def open(self) -> None:
        """Make the database ready now, and resume jobs that others left.

        Raises:
            StoreUnavailableError: The server does not answer or did not start.
            SchemaError: A person has to act first.
        """
        await self._database.ready(is_patient=True)
        await self.jobs.wake_all()

    async def close(self, *, write_seconds: float = WRITE_SECONDS) -> None:
        """Write buffers within `write_seconds`, plus 1 s per 10 MB, and close this event loop's connections."""
        await self.unwritten.write_out(write_seconds)
        await self._stop()

    async def _stop(self) -> None:
        await self._daily.stop()
        await self.events.stop()
        if "search" in vars(self):
            await self.search.stop()
        await self.jobs.stop()
        self._database.close()

    def join(self, owner: object) -> None:
        """Register a user, held weakly."""
        self._owners.add(owner)

    async def leave(self, owner: object, *, write_seconds: float = WRITE_SECONDS) -> None:
        """Deregister; the last closes the store."""
        self._owners.discard(owner)
        if not self._owners:
            await self.close(write_seconds=write_seconds)

    async def __aenter__(self) -> "MemoryStore":
        await self.open()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def every_user(self) -> AsyncIterator[str]:
        """Yield all users in order; `StoreError` if the login may not list them."""
        return every_user(self._database)

    # --- retention

    async def erase_user(self, user_id: str, *, progress: ProgressCallback | None = None) -> int:
        """Erase a user with all data; return the number of live items. After a `StoreError`, call it again."""
        self.events.discard(user_id)
        return await erase_user(self._database, user_id, progress)

    async def redact(self, user_id: str, traces: Traces) -> None:
        """Remove texts from archives, chats, rows that quote, running contexts and saved states; see `Traces`."""
        await redact(self._database, user_id, traces)

    async def prune(
        self,
        older_than: timedelta | datetime,
        *,
        types: Sequence[str] | None = None,
        conversations: bool = False,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
    ) -> "PruneReport":
        """Forget items and delete audit events of all users that were not used for some time.

        Items leave tombstones. Items of active sessions or referenced by an archive stay. Repeat it if interrupted.

        Args:
            older_than: An age, or a point in time.
            types: None for all prunable ones. Secrets, and preferences and facts of the user or the application, are
                never pruned.
            conversations: True to delete sessions without recent archive writes, too.
            progress: Called with the users done and their number, after each transaction.

        Raises:
            ValueError: The age or time is unusable, or a type may not be pruned.
        """
        from .admin.prune import prune

        return await prune(self._database, older_than, types, conversations, progress, dry_run=dry_run)

    # --- consolidation

    async def consolidate(
        self,
        user_id: str,
        *,
        model_client: "_ModelClient | None" = None,
        budget_tokens: int = 20_000,
        retention: Mapping[str, timedelta] | None = None,
    ) -> "ConsolidationReport | None":
        """Merge statements that say the same; with a model, write articles and summarise old sessions, too.

        Idempotent, resumable after a crash, and safe beside running agents. Statements are merged only if no number,
        name, date, path or negation differs, and articles quote their sources.

        Args:
            model_client: Judges near-duplicates, writes articles and summarises; None merges by rules only.
            budget_tokens: The most that it may read and write.
            retention: How long unused items of a type stay, such as `{"web_content": timedelta(days=90)}`.

        Returns:
            A report; None if another process consolidates.
        """
        from memory_context.foundation.light_model.model import LightModel

        from .admin.consolidate import Consolidation

        await self.jobs.flush([CONVERSATION_JOB])
        model = None if model_client is None else LightModel(model_client, timeout_seconds=_MODEL_SECONDS)
        consolidation = Consolidation(
            self._database, user_id, self._store_of(user_id), model, budget_tokens, retention or {}
        )
        return await consolidation.run()

    def _store_of(self, user_id: str) -> Callable[[Sequence[NewItem]], Awaitable[list[str]]]:
        return lambda items: self.items.insert_memories(user_id, items)

    def consolidate_daily(self) -> None:
        """Consolidate due users in the background of this event loop, by rules, until the store is closed."""
        self._daily.begin()

    async def consolidate_due(self, *, every: timedelta = timedelta(days=1)) -> int:
        """Consolidate all users, by rules, whose last run is older and who said or stored something since."""
        from .admin.consolidate import is_consolidation_due

        done = 0
        async for user_id in self.every_user():
            if await is_consolidation_due(self._database, user_id, every):
                done += await self.consolidate(user_id) is not None
        return done

    # --- index

    async def flush_index(self, *, progress: Callable[[int], None] | None = None) -> IndexReport:
        """Index everything due; return the remainder. `progress` gets the items of each batch."""
        return await self._indexer.flush(progress)

    async def index_failures(self, user_id: str, limit: int = 50) -> list[tuple[str, str]]:
        """Return key and error of items that repeatedly failed."""
        return await self._indexer.failures(user_id, limit)

    async def reindex(self, embedder: Embedder, *, progress: ProgressCallback | None = None) -> int:
        """Embed all passages with another model, then search with it; return how many were embedded.

        Safe to interrupt and repeat. Other processes switch when started with the model. After an `EmbeddingError` the
        store keeps its model.
        """
        check_embedder(embedder)
        embedded = await reindex(self._database, self._indexer, embedder, progress)
        self._indexer.embedder = embedder
        # again for items stored meanwhile with the former model
        return embedded + await reindex(self._database, self._indexer, embedder, None)

    @classmethod
    def _share(cls, location: Location) -> "MemoryStore":
        with cls._shared_lock:
            if location not in cls._shared:
                store = cls._shared[location] = cls(location.url, owner_url=location.owner_url)
                store._database.location = location
            return cls._shared[location]
