"""The background indexer: makes what items are found by, from the outbox that storing them filled.

    job:  due ──claim──▶ claimed ──text written──▶ text done ──embeddings written──▶ gone
           ▲                │ failed: later, each time twice as late            │
           └────────────────┴───────────────────────────────────────────────────┘   too often: set aside, with its error

Promises: never on the path of an agent; any number of processes may work at once (SKIP LOCKED; a claim is a lease, and
only its holder may finish the job, so nothing is made twice); what a killed worker had claimed is done by another when
the lease ends; an embedder that fails or hangs delays embeddings only, and a text that it cannot take delays no other.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from memory_context.embeddings import Embedder, EmbeddingError, embed_checked
from memory_context.errors import MemoryContextError, StoreError, StoreUnavailableError
from memory_context.outages import outages_of
from memory_context.runtime import PerLoop

from ..database import Database
from ..jobs import UserSchedule
from ..pool import Statement
from ..sql import load_queries
from . import embed
from .chunks import INDEXED_CHARACTERS
from .postings import index_claimed

__all__ = ["IndexReport", "Indexer", "model_of"]

_QUERIES = load_queries("index")
_logger = logging.getLogger("memory_context")

BATCH_ITEMS = 64
BATCH_BYTES = 8_000_000  # of contents, from which no further item is taken: some 8,000 passages, indexed within 20 s
LEASE_SECONDS = 180.0  # longer than an embedder that hangs is waited for, so that nobody else asks it meanwhile
ATTEMPTS_LIMIT = 8
LONGEST_WAIT_SECONDS = 3600.0
_GATHER_SECONDS = 0.05  # what is stored within it is indexed in one batch
_RETRY_SECONDS = 30.0
_POLL_SECONDS = 0.05
_RELEASE_SECONDS = 1.0
_PROBE_SECONDS = 10.0
_USERS_PER_PAGE = 1000
_INDEXING, _EMBEDDING = "indexing", "embedding"  # topics of outages

_WRITE_TEXT = (
    *("lock_claimed", "lock_indexed_contents", "insert_terms", "insert_names", "add_statistics", "insert_chunks"),
    "update_jobs_text_done",
)

_Row = dict[str, Any]


@dataclass(frozen=True)
class IndexReport:
    """What the index still lacks, in items.

    Attributes:
        pending: Will be tried again.
        set_aside: Failed too often; `index_failures` says why.
    """

    pending: int = 0
    set_aside: int = 0


def model_of(embedder: Embedder) -> str:
    """Return the name under which an embedder's vectors are stored: with its dimensions, so that both may change."""
    return f"{embedder.name}/{embedder.dimensions}"


class Indexer:
    """Indexes the items of one database.

    Args:
        database: Where the items are.
        embedder: Makes their embeddings; None for none.

    Attributes:
        embedder: May be exchanged between two batches.
        masks_credentials: Whether credentials are left out of terms and embeddings.
        outages: Logs what fails, once an outage.
    """

    def __init__(self, database: Database, embedder: Embedder | None, *, masks_credentials: bool = True) -> None:
        self.embedder = embedder
        self.masks_credentials = masks_credentials
        self.outages = outages_of(database)
        self._database = database
        self._users = PerLoop(lambda: UserSchedule(self._look_after), UserSchedule.adopt)
        self._models_ready: set[str] = set()

    def nudge(self, user_id: str) -> None:
        """Let the background look after this user soon; costs the caller nothing."""
        here = self._users.here()
        here.put(user_id, _GATHER_SECONDS)
        here.start()

    async def look_around(self) -> None:
        """Take on what other processes left behind."""
        async for user_id in self._pending_users(with_set_aside=False):
            self.nudge(user_id)

    async def flush(self, progress: Callable[[int], None] | None = None) -> IndexReport:
        """Index everything that is due, of all users, and wait for what other workers have in hand.

        Args:
            progress: Called with the items of each batch that was done.

        Raises:
            StoreError: The database failed; what is not done stays due.
        """
        pending = set_aside = 0
        async for user_id in self._pending_users(with_set_aside=True):
            while True:
                await self._drain(user_id, progress)
                counts = await self._counts(user_id)
                if not counts["due"] and not counts["claimed"]:
                    break
                await asyncio.sleep(_POLL_SECONDS)
            pending += counts["waiting"]
            set_aside += counts["set_aside"]
        return IndexReport(pending, set_aside)

    async def stop(self) -> None:
        """Stop the background of this event loop, and give back what it had claimed."""
        await self._users.here().stop()
        try:
            await asyncio.wait_for(self._release(), _RELEASE_SECONDS)
        except (StoreError, asyncio.TimeoutError) as error:
            _logger.debug("what was claimed is free when its lease ends: %s", error)

    async def failures(self, user_id: str, limit: int = 50) -> list[tuple[str, str]]:
        """Return the keys of items that were set aside, and what went wrong."""
        params = {"user_id": user_id, "limit": limit}
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["select_set_aside"], params))
        return [(row["memory_key"], row["last_error"] or "") for row in rows]

    async def ensure_model(self, user_id: str, embedder: Embedder) -> str:
        """Return the name of an embedder's model, once there is an index for it."""
        model = model_of(embedder)
        if model not in self._models_ready:
            params = {"embedding_model": model, "dimensions": embedder.dimensions}
            await self._database.write(user_id, Statement(_QUERIES["ensure_embedding_index"], params), kind="batch")
            self._models_ready.add(model)
        return model

    # --- the background

    async def _look_after(self, user_id: str) -> float | None:
        """Do what is due for a user; return the seconds until more is, None if nothing is left."""
        try:
            await self._drain(user_id)
            due_in_seconds = (await self._counts(user_id))["due_in_seconds"]
            self.outages.worked(_INDEXING)
            return None if due_in_seconds is None else max(due_in_seconds, _GATHER_SECONDS)
        except MemoryContextError as error:  # whoever stores or searches is told; nothing is lost here
            self.outages.failed(_INDEXING, "indexing goes on later: %s", error, level=logging.INFO)
        except Exception:  # whatever it is, the next user's items are indexed
            _logger.exception("indexing goes on later")
        return _RETRY_SECONDS

    async def _drain(self, user_id: str, progress: Callable[[int], None] | None = None) -> None:
        """Do all jobs of a user that are due."""
        await self._release()
        work = _Work(self, self._database, user_id)
        while done := await self._do_batch(user_id, work):
            if progress is not None:
                progress(done)
        params = {"user_id": user_id}
        await self._database.write(
            user_id,
            Statement(_QUERIES["lock_user"], params),
            Statement(_QUERIES["update_user_not_pending"], params),
            kind="batch",
        )

    async def _do_batch(self, user_id: str, work: "_Work") -> int:
        """Claim some jobs and do them; return how many, 0 if none was due."""
        claim = str(uuid.uuid4())
        here = self._users.here()
        here.claims[claim] = user_id
        try:
            jobs = await self._claim(user_id, claim)
            if jobs:
                await work.do(claim, jobs)
            return len(jobs)
        except BaseException as error:
            here.broken_off[claim] = (user_id, isinstance(error, Exception))
            here.put_back(user_id, _RETRY_SECONDS)
            raise
        finally:
            here.claims.pop(claim, None)

    async def _claim(self, user_id: str, claim: str) -> list[_Row]:
        params = {
            "user_id": user_id,
            "claim": claim,
            "limit": BATCH_ITEMS,
            "bytes_limit": BATCH_BYTES,
            "lease_seconds": LEASE_SECONDS,
            "attempts_limit": ATTEMPTS_LIMIT,
            "characters_limit": INDEXED_CHARACTERS,
        }
        (jobs,) = await self._database.write(user_id, Statement(_QUERIES["claim_jobs"], params), kind="batch")
        return jobs

    async def _release(self) -> None:
        """Give back the claims of batches that were broken off."""
        broken_off = self._users.here().broken_off
        for claim, (user_id, was_failing) in list(broken_off.items()):
            params = {"user_id": user_id, "claim": claim, "attempts_not_counted": int(not was_failing)}
            await self._database.write(user_id, Statement(_QUERIES["update_jobs_released"], params), kind="batch")
            broken_off.pop(claim, None)

    async def _pending_users(self, *, with_set_aside: bool) -> AsyncIterator[str]:
        after = ""
        while True:
            params = {"after": after, "limit": _USERS_PER_PAGE, "with_set_aside": with_set_aside}
            (rows,) = await self._database.read(None, Statement(_QUERIES["select_pending_users"], params), kind="batch")
            for row in rows:
                yield row["user_id"]
            if len(rows) < _USERS_PER_PAGE:
                return
            after = rows[-1]["user_id"]

    async def _counts(self, user_id: str) -> _Row:
        (rows,) = await self._database.read(
            user_id, Statement(_QUERIES["fetch_job_counts"], {"user_id": user_id}), kind="batch"
        )
        return rows[0]


class _Work:
    """A user's jobs, batch by batch: of each the text first, so that it is found soon, then the embeddings."""

    def __init__(self, indexer: Indexer, database: Database, user_id: str) -> None:
        self._indexer = indexer
        self._database = database
        self._user_id = user_id
        self._same: dict[str, Any] = {"user_id": user_id}
        self._content_ids: dict[int, int] = {}
        self._lease_ends = 0.0
        self._embedder_error: EmbeddingError | None = None  # why it is not asked again for the rest of these jobs

    async def do(self, claim: str, jobs: Sequence[_Row]) -> None:
        """Do the jobs of one claim."""
        self._same["claim"] = claim
        self._content_ids = {job["memory_id"]: job["content_id"] for job in jobs}
        self._lease_ends = time.monotonic() + LEASE_SECONDS
        forgotten = [job["memory_id"] for job in jobs if not job["is_active"]]
        if forgotten:
            await self._finish(forgotten)
        ready: list[int] = [job["memory_id"] for job in jobs if job["is_active"] and job["is_text_done"]]
        fresh = [job for job in jobs if job["is_active"] and not job["is_text_done"]]
        try:
            await self._index_text(fresh)
            ready += [job["memory_id"] for job in fresh]
        except StoreUnavailableError:
            raise
        except Exception as error:  # one odd item must not keep the others from being found
            _logger.debug("indexing %d items at once failed, trying one by one", len(fresh), exc_info=error)
            for job in fresh:
                try:
                    await self._index_text([job])
                    ready.append(job["memory_id"])
                except StoreUnavailableError:
                    raise
                except Exception as its_error:
                    await self._fail([job["memory_id"]], its_error)
        await self._embed_all(ready)

    async def _index_text(self, jobs: Sequence[_Row]) -> None:
        if not jobs:
            return
        await self._keep_lease()
        params = self._same | await asyncio.to_thread(index_claimed, jobs, self._indexer.masks_credentials)
        statements = [Statement(_QUERIES[name], params) for name in _WRITE_TEXT]
        await self._database.write(self._user_id, *statements, kind="batch")

    async def _embed_all(self, memory_ids: Sequence[int]) -> None:
        embedder = self._indexer.embedder
        if embedder is None:
            await self._finish(memory_ids)
            return
        waiting = list(memory_ids)
        is_together = True
        while waiting and self._embedder_error is None:
            these = waiting if is_together else waiting[:1]
            try:
                await self._embed(embedder, these)
                waiting = waiting[len(these) :]
            except EmbeddingError as error:  # is it one text, or the embedder?
                is_together = False
                await self._check_embedder(embedder, error)
                if len(these) == 1 and self._embedder_error is None:
                    await self._fail(these, error)
                    waiting = waiting[1:]
        if waiting and self._embedder_error is not None:
            await self._fail(waiting, self._embedder_error)

    async def _check_embedder(self, embedder: Embedder, error: EmbeddingError) -> None:
        """Ask the embedder for something easy; if that fails too, the error is its own and not that of a text."""
        try:
            await embed_checked(embedder, ["test"], "document", timeout_seconds=_PROBE_SECONDS)
        except EmbeddingError:
            self._embedder_error = error

    async def _embed(self, embedder: Embedder, memory_ids: Sequence[int]) -> None:
        try:
            model = await self._indexer.ensure_model(self._user_id, embedder)
        except StoreUnavailableError:
            raise
        except StoreError as error:  # the database has no room for a further model: no other text fares better
            self._embedder_error = EmbeddingError(str(error))
            raise self._embedder_error from error
        content_ids = sorted({self._content_ids[memory_id] for memory_id in memory_ids})
        params = {**self._same, "content_ids": content_ids, "embedding_model": model}
        (rows,) = await self._database.read(
            self._user_id, Statement(_QUERIES["select_chunks_to_embed"], params), kind="batch"
        )
        for start in range(0, len(rows), embed.EMBED_TEXTS):
            await self._keep_lease()
            texts = rows[start : start + embed.EMBED_TEXTS]
            await embed.write_embeddings(
                self._database, self._user_id, embedder, model, texts, masks_credentials=self._indexer.masks_credentials
            )
        self._indexer.outages.worked(_EMBEDDING)
        await self._finish(memory_ids)

    async def _keep_lease(self) -> None:
        """Renew the lease if it could end before the embedder has answered, or has been found to hang."""
        now = time.monotonic()
        if self._lease_ends - now < embed.EMBED_SECONDS + 2 * _PROBE_SECONDS:
            params = {**self._same, "lease_seconds": LEASE_SECONDS}
            await self._database.write(self._user_id, Statement(_QUERIES["update_jobs_renewed"], params), kind="batch")
            self._lease_ends = now + LEASE_SECONDS

    async def _finish(self, memory_ids: Sequence[int]) -> None:
        params = {**self._same, "memory_ids": list(memory_ids)}
        await self._database.write(self._user_id, Statement(_QUERIES["delete_jobs"], params), kind="batch")

    async def _fail(self, memory_ids: Sequence[int], error: Exception) -> None:
        text = "%d items are indexed later: %s"
        if error is self._embedder_error:
            self._indexer.outages.failed(_EMBEDDING, text, len(memory_ids), error)
        else:
            _logger.warning(text, len(memory_ids), error)
        params = {
            **self._same,
            "memory_ids": list(memory_ids),
            "error": f"{type(error).__name__}: {error}"[:1000],
            "longest_wait_seconds": LONGEST_WAIT_SECONDS,
            "attempts_limit": ATTEMPTS_LIMIT,
        }
        await self._database.write(self._user_id, Statement(_QUERIES["update_jobs_failed"], params), kind="batch")
