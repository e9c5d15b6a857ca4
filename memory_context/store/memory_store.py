"""The facade of the store, and its items: storing, reading, sharing and forgetting them."""

import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakSet

import psycopg
from psycopg.rows import DictRow

from memory_context.foundation.embeddings.embedder import Embedder, check_embedder
from memory_context.foundation.embeddings.wordllama import default_embedder
from memory_context.foundation.errors import ConflictError, ItemDamagedError, MemoryContextError, StoreError
from memory_context.foundation.references import ToolAnswerRegistry
from memory_context.foundation.runtime.background import Background, Timer, in_thread_if_large, outages_of
from memory_context.foundation.runtime.buffers import WRITE_SECONDS, Unwritten

from .admin.user_stats import UserStats
from .codec import canonical_json
from .database import Database, every_user
from .events import EventLog
from .forget import ProgressCallback, erase_user, forget_memories
from .items import (
    ANYBODY,
    SECRET_TYPE,
    TRUSTED_ORIGINS,
    USER_TYPES,
    MemoryCriteria,
    MemoryItem,
    NewItem,
    ReadScope,
    Whereabouts,
    checked_content,
    criteria_params,
    item_from_row,
    refuse_secret,
    row_params,
    scope_params,
)
from .jobs import JobReport, Jobs
from .limits import StoreLimits
from .location import Location
from .search.conversation import CONVERSATION_JOB, KEY_STEM, register_conversation_jobs
from .search.indexer import Indexer, reindex
from .sql import load_queries

if TYPE_CHECKING:  # a command that only reads imports few of them
    from memory_context.foundation.light_model.model import ChatCompletionClient as _ModelClient

    from .admin.consolidate import ConsolidationReport
    from .admin.prune import PruneReport
    from .admin.status import StoreAdmin
    from .conversations import ClaimRows, ConversationArchive
    from .notes import NotesStore
    from .search.passages import PassageSearch
    from .secret_rows import KeyProvider, SecretRows
    from .statements import StatementStore
    from .threads import ThreadStore

__all__ = ["ItemStore", "MemoryStore"]

_logger = logging.getLogger("memory_context")

_QUERIES = load_queries("agent_memories")
_KEYS_COMPARED = 1000  # about 10 ms


class ItemStore:
    """Items of all users; reads without a scope return nothing private."""

    def __init__(self, database: Database, jobs: Jobs) -> None:
        self._database, self._jobs = database, jobs
        self.write_transactions = 0

    async def insert_memories(self, user_id: str, items: Sequence[NewItem]) -> list[str]:
        """Store items, all or none, and return their keys in order.

        The same content in the same place (agent, session, type, source) keeps its first key, so retries are harmless.

        Raises:
            SecretError: An item is a user_secret.
            ConflictError: A key belongs to another content.
            StoreError: The database failed.
        """
        if not items:
            return []
        for item in items:
            refuse_secret(item.type)
        size = sum(len(item.content) for item in items) / 50  # 1 ms of SHA-256
        rows = await in_thread_if_large(size, lambda: [row_params(item) for item in items])
        contents = {content["content_sha256"]: content for content, _ in rows}
        # in the order given: ids tell what was said before and after in a session; so several wait for each other first
        given = [{**row, "content_sha256": row["content_sha256"].hex()} for _, row in rows]
        steps = [_QUERIES("lock_order")] if len(rows) > 1 else []
        steps += [_QUERIES("upsert_content", contents[one])._replace(keeps_plan=True) for one in sorted(contents)]
        steps += [_QUERIES("upsert_memories", items=canonical_json(given))._replace(keeps_plan=True)]
        is_statement = any(item.type in USER_TYPES and item.origin in TRUSTED_ORIGINS for item in items)
        cause: BaseException | None = None
        for _ in range(2):  # the conflicting row may be erased the second time
            try:
                *_, stored = await self._database.write(user_id, *steps, changes_user_memory=is_statement)
                break
            except StoreError as error:
                if not isinstance(cause := error.__cause__, psycopg.errors.UniqueViolation):
                    raise
        else:
            raise ConflictError("a memory key is taken by another content: choose another key") from cause
        self.write_transactions += 1
        if any(row["is_new"] for row in stored):
            self._jobs.wake(user_id)
        return [row["memory_key"] for row in stored]

    async def fetch_memory(self, user_id: str, memory_key: str, *, scope: ReadScope = ANYBODY) -> MemoryItem | None:
        """Return the whole item, also if forgotten; None if out of scope. `ItemDamagedError` if its hash differs."""
        params = {"memory_key": memory_key, **scope_params(scope)}
        rows = await self._read(user_id, "fetch_memory", params, has_content=True)
        if not rows:
            return None
        (row,) = rows
        content = await _checked(row) if row["is_active"] else ""
        item = item_from_row(row, content, "all of", is_whole=True)
        return replace(item, data=bytes(row["content_raw"])) if item.content_type else item

    async def fetch_whereabouts(self, user_id: str, memory_key: str) -> Whereabouts | None:
        """Return an item's owner in any scope, to explain refusals."""
        rows = await self._read(user_id, "fetch_whereabouts", {"memory_key": memory_key})
        return Whereabouts(**rows[0]) if rows else None

    async def fetch_contents(
        self, user_id: str, memory_keys: Sequence[str], *, scope: ReadScope = ANYBODY
    ) -> dict[str, str]:
        """Return contents in scope; damaged ones are logged and omitted."""
        return {row["memory_key"]: text async for row, text in self._contents(user_id, memory_keys, scope)}

    async def fetch_images(
        self, user_id: str, memory_keys: Sequence[str], *, scope: ReadScope = ANYBODY
    ) -> dict[str, bytes]:
        """Return the bytes of images in scope; damaged ones are logged and omitted."""
        found = [row async for row, _ in self._contents(user_id, memory_keys, scope) if row["content_type"]]
        return {row["memory_key"]: bytes(row["content_raw"]) for row in found}

    async def _contents(
        self, user_id: str, memory_keys: Sequence[str], scope: ReadScope
    ) -> AsyncIterator[tuple[DictRow, str]]:
        params = {"memory_keys": list(memory_keys), **scope_params(scope)}
        for row in await self._read(user_id, "select_contents", params, has_content=True) if memory_keys else ():
            try:
                yield row, await _checked(row)
            except ItemDamagedError as error:
                _logger.error("%s", error)

    async def select_keys(
        self, user_id: str, *, like: str | None = None, scope: ReadScope = ANYBODY, limit: int | None = 50
    ) -> list[str]:
        """Return keys of unforgotten items, newest first; a mistyped `like` selects similar recent ones, best first."""
        params = {
            "limit": limit if like is None else _KEYS_COMPARED,
            "with_conversation": like is None or like.startswith(KEY_STEM),
            **scope_params(scope),
        }
        keys = [row["memory_key"] for row in await self._read(user_id, "select_keys", params)]
        return keys if like is None else get_close_matches(like, keys, n=limit or len(keys) or 1)

    async def select_memories(
        self, user_id: str, criteria: MemoryCriteria, *, scope: ReadScope = ANYBODY
    ) -> list[MemoryItem]:
        """Return matching items without content; secrets only if their type is requested, without description.

        Archived messages are listed only if requested, by type or `conversation`.
        """
        criteria = criteria.for_listing
        related: list[str] = []
        if criteria.related_to is not None:
            from .search.passages import related_keys  # here: search takes as long to import as the listing

            related = await related_keys(self._database, user_id, criteria, scope)
        params = {
            **criteria_params(criteria, related),
            **scope_params(scope),
            "order_by": criteria.order_by,
            "oldest_first": criteria.oldest_first,
            "limit": criteria.limit,
            "offset": criteria.offset,
        }
        return [_listed(item_from_row(row)) for row in await self._read(user_id, "select_memories", params)]

    async def fetch_model_summary(self, user_id: str, memory_key: str, *, scope: ReadScope = ANYBODY) -> str | None:
        """Return a model's summary of an item; None without one."""
        rows = await self._read(user_id, "fetch_model_summary", {"memory_key": memory_key, **scope_params(scope)})
        return rows[0]["model_summary"] if rows else None

    async def update_model_summary(self, user_id: str, memory_key: str, summary: str, description: str = "") -> bool:
        """Keep a model's summary and any description; False if missing."""
        params = {"memory_key": memory_key, "model_summary": summary, "summary": description}
        return bool(await self._write(user_id, "update_model_summary", params))

    async def share_memory(
        self, user_id: str, memory_key: str, *, agent_id: str, session_id: str, with_agent: str
    ) -> bool:
        """Let an agent read one item of exactly this agent and session."""
        own = {"memory_key": memory_key, "agent_id": agent_id, "session_id": session_id}
        return bool(await self._write(user_id, "update_shared_with", {**own, "with_agent": with_agent}))

    async def forget_memories(
        self,
        user_id: str,
        *,
        agent_id: str,
        session_id: str,
        memory_key: str | None = None,
        with_statements: bool = False,
        progress: ProgressCallback | None = None,
    ) -> list[str]:
        """Erase one or all items of exactly this agent and session ("" for none); return their keys.

        Tombstones keep the time of forgetting. `with_statements` adds user memory, which belongs to no agent.
        """
        place = {"agent_id": agent_id, "session_id": session_id, "with_statements": with_statements}
        return await forget_memories(self._database, user_id, place, memory_key, progress)

    async def _read(
        self, user_id: str, name: str, params: Mapping[str, Any], *, has_content: bool = False
    ) -> list[DictRow]:
        statement = _QUERIES(name, params)
        (rows,) = await self._database.read(user_id, statement, kind="content" if has_content else "call")
        return rows

    async def _write(self, user_id: str, name: str, params: Mapping[str, Any]) -> list[DictRow]:
        (rows,) = await self._database.write(user_id, _QUERIES(name, params))
        return rows


async def _checked(row: Mapping[str, Any]) -> str:
    size = len(row["content"] or row["content_raw"] or "") / 5  # hashing is cheap
    return await in_thread_if_large(size, checked_content, row["memory_key"], row, row["content_sha256"])


def _listed(item: MemoryItem) -> MemoryItem:
    """Hide everything written about a secret."""
    if item.type != SECRET_TYPE:
        return item
    return replace(item, ref=replace(item.ref, description="a secret: not shown"), tags=(), metadata={})


_MODEL_SECONDS = 60.0  # a question in the background
_FIRST_CONSOLIDATION_SECONDS, _CONSOLIDATION_SECONDS = 300.0, 3600.0  # a start has other work
_CONSOLIDATING = "consolidation"


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
        # by user, in this process: contexts notice a change without I/O
        self.user_memory_changes: Mapping[str, int] = self._database.user_memory_changes
        self.forgettings = self._database.forgettings
        self.unwritten = Unwritten(self._stop, self._database.started)
        self.jobs = Jobs(self._database)
        register_conversation_jobs(self._database, self.jobs, masks_credentials=mask_credentials)
        self._indexer = Indexer(self._database, self.jobs, embedder, masks_credentials=mask_credentials)
        self.items = ItemStore(self._database, self.jobs)
        self.events = EventLog(self._database, self.unwritten)
        self.user_stats = UserStats(self._database)
        self.secret_keys = secret_keys
        self._next_consolidation = Timer(lambda: self._consolidating.start(self._consolidate_safely))
        self._consolidating = Background[None]("memory_context consolidation")
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

    @property
    def embedder(self) -> Embedder | None:
        """None for search by words alone."""
        return self._indexer.embedder

    def describe(self) -> str:
        """Return the place without secrets."""
        return self._database.location.where

    def __repr__(self) -> str:
        return f"<MemoryStore {self.describe()}>"

    # --- imported at first use

    @cached_property
    def admin(self) -> "StoreAdmin":
        from .admin.status import StoreAdmin

        return StoreAdmin(self._database)

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

        return ThreadStore(self._database)

    @cached_property
    def notes(self) -> "NotesStore":
        from .notes import NotesStore

        return NotesStore(self._database)

    @cached_property
    def claim_rows(self) -> "ClaimRows":
        from .conversations import ClaimRows

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
        await self._consolidating.stop()
        self._next_consolidation.cancel()  # behind it: what is stopped plans the next one
        await self.events.stop()
        await self.jobs.stop()
        self._database.close()

    def watch_outages(self, watcher: Callable[[str], object]) -> None:
        """Call a method, weakly held, with the text of each outage of this store."""
        for owner in (self, self._database):
            outages_of(owner).watch(watcher)

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
    ) -> "ConsolidationReport | None":
        """Merge statements that say the same; with a model, write articles and summarise old sessions, too.

        Idempotent, resumable after a crash, and safe beside running agents. Statements are merged only if no number,
        name, date, path or negation differs, and articles quote their sources.

        Args:
            model_client: Writes articles and summarises; None merges by rules only.
            budget_tokens: The most that it may read and write.

        Returns:
            A report; None if another process consolidates.
        """
        from memory_context.foundation.light_model.model import LightModel

        from .admin.consolidate import Consolidation

        await self.jobs.flush([CONVERSATION_JOB])
        model = None if model_client is None else LightModel(model_client, timeout_seconds=_MODEL_SECONDS)
        store = partial(self.items.insert_memories, user_id)
        return await Consolidation(self._database, user_id, store, model, budget_tokens).run()

    def consolidate_daily(self) -> None:
        """Consolidate due users in the background of this event loop, by rules, until the store is closed."""
        self._next_consolidation.plan(_FIRST_CONSOLIDATION_SECONDS)

    async def _consolidate_safely(self) -> None:
        try:
            await self.consolidate_due()
            outages_of(self).worked(_CONSOLIDATING)
        except MemoryContextError as error:
            outages_of(self).failed(_CONSOLIDATING, "memories are consolidated later: %s", error)
        finally:
            self._next_consolidation.plan(_CONSOLIDATION_SECONDS)

    async def consolidate_due(self, *, every: timedelta = timedelta(days=1)) -> int:
        """Consolidate all users, by rules, whose last run is older and who said or stored something since."""
        from .admin.consolidate import is_consolidation_due

        done = 0
        async for user_id in self.every_user():
            if await is_consolidation_due(self._database, user_id, every):
                done += await self.consolidate(user_id) is not None
        return done

    # --- index

    async def flush_index(self, *, progress: Callable[[int], None] | None = None) -> JobReport:
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
