"""Index jobs: text first, so that an item is found soon, then embeddings. Embedder failures delay only embeddings.

index ──passages, terms, names──▶ embed ──embeddings──▶ done
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pgvector import HalfVector

from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.embeddings.embedder import Embedder, embed_checked
from memory_context.foundation.errors import EmbeddingError, StoreError, StoreUnavailableError
from memory_context.foundation.runtime.background import outages_of

from ..database import Database, every_user
from ..forget import ProgressCallback
from ..jobs import Claim, JobKind, JobReport, Jobs
from ..sql import Statement, load_queries
from .conversation import CONVERSATION_JOB

__all__ = ["EMBED_SECONDS", "EMBED_TEXTS", "Indexer", "model_of", "reindex"]

_QUERIES = load_queries("index")
_logger = logging.getLogger("memory_context")

BATCH_ITEMS = 64
EMBED_TEXTS = 256
EMBED_SECONDS = 120.0  # for one batch; then the embedder is considered hung
_PROBE_SECONDS = 10.0
_CALL_SECONDS = EMBED_SECONDS + 2 * _PROBE_SECONDS  # the longest while between two looks at the lease
_EMBEDDING = "embedding"  # topic of outages
_EMBEDDER_ERROR = "embedder error"  # stops embedding in this pass
_KINDS = CONVERSATION_JOB, "index", "embed"

_WRITE_TEXT = (
    *("lock_claimed", "lock_indexed_contents", "insert_terms", "insert_names", "add_statistics", "insert_chunks"),
    "update_jobs_text_done",
)

_Row = dict[str, Any]
_Passages = dict[int, list[_Row]]  # by item


def model_of(embedder: Embedder) -> str:
    """Return the stored name of an embedder's model, which includes its dimensions."""
    return f"{embedder.name}/{embedder.dimensions}"


class Indexer:
    """Indexes the items of one database."""

    def __init__(
        self, database: Database, jobs: Jobs, embedder: Embedder | None, *, masks_credentials: bool = True
    ) -> None:
        self.embedder = embedder
        self.masks_credentials = masks_credentials
        self._outages = outages_of(database)
        self._database = database
        self._jobs = jobs
        self._models_ready: set[str] = set()
        jobs.register(JobKind("index", self._index, BATCH_ITEMS))
        jobs.register(JobKind("embed", self._embed, BATCH_ITEMS))

    async def flush(self, progress: Callable[[int], None] | None = None) -> JobReport:
        return await self._jobs.flush(_KINDS, progress)

    async def catch_up(self, user_id: str, seconds: float) -> bool:
        """Index the text of what this user stored, for at most so long; return whether that was enough."""
        return await self._jobs.catch_up(user_id, ["index"], seconds)

    async def failures(self, user_id: str, limit: int = 50) -> list[tuple[str, str]]:
        (rows,) = await self._database.read(user_id, _QUERIES("select_failed_items", limit=limit))
        return [(row["memory_key"], row["last_error"] or "") for row in rows]

    async def ensure_model(self, user_id: str, embedder: Embedder) -> str:
        """Return the name of an embedder's model, after creating its index."""
        model = model_of(embedder)
        if model not in self._models_ready:
            params = {"embedding_model": model, "dimensions": embedder.dimensions}
            await self._database.write(user_id, _QUERIES("ensure_embedding_index", params), kind="batch")
            self._models_ready.add(model)
        return model

    # --- text

    async def _index(self, claim: Claim) -> None:
        from .postings import INDEXED_CHARACTERS  # here: the tokenizer would slow a command that only reads

        params = {**claim.params, "memory_ids": [job.id for job in claim.jobs], "characters_limit": INDEXED_CHARACTERS}
        rows = await self._read(claim, "select_items_to_index", params)
        await claim.finish({job.id for job in claim.jobs} - {row["memory_id"] for row in rows})  # forgotten meanwhile
        made: _Passages = {}
        ready: list[int] = []
        try:
            made = await self._write_text(claim, rows)
            ready = [row["memory_id"] for row in rows]
        except StoreUnavailableError:
            raise
        except Exception as error:  # one odd item must not block the others
            _logger.debug("indexing %d items at once failed, trying one by one", len(rows), exc_info=error)
            for row in rows:
                try:
                    await self._write_text(claim, [row])
                    ready.append(row["memory_id"])
                except StoreUnavailableError:
                    raise
                except Exception as its_error:
                    _logger.warning("an item is indexed later: %s", its_error)
                    await claim.fail([row["memory_id"]], its_error)
        await self._embed_items(claim, ready, made)

    async def _write_text(self, claim: Claim, rows: Sequence[_Row]) -> _Passages:
        """Write passages and terms; return the passages that have no embedding."""
        if not rows:
            return {}
        await claim.keep(_CALL_SECONDS)
        from .postings import index_claimed

        params, made = await asyncio.to_thread(index_claimed, rows, self.masks_credentials)
        statements = _QUERIES.each(_WRITE_TEXT, claim.params | params)
        await self._database.write(claim.user_id, *statements, kind="batch")
        return made

    # --- embeddings

    async def _embed(self, claim: Claim) -> None:
        await self._embed_items(claim, [job.id for job in claim.jobs], {})

    async def _embed_items(self, claim: Claim, memory_ids: Sequence[int], made: _Passages) -> None:
        waiting = list(memory_ids)
        at_once = len(waiting)
        while waiting and self.embedder is not None and _EMBEDDER_ERROR not in claim.shared:
            these = waiting[:at_once]
            try:
                await self._finish_embedded(claim, self.embedder, these, made)
                waiting = waiting[at_once:]
            except EmbeddingError as error:  # one text, or the embedder?
                at_once, made = 1, {}  # some may be embedded: ask the database
                await self._probe(claim, self.embedder, error)
                if len(these) == 1 and _EMBEDDER_ERROR not in claim.shared:
                    _logger.warning("an item is embedded later: %s", error)
                    await claim.fail(these, error)
                    waiting = waiting[1:]
        if error := claim.shared.get(_EMBEDDER_ERROR):
            if waiting:
                self._outages.failed(_EMBEDDING, "%d items are embedded later: %s", len(waiting), error)
                await claim.fail(waiting, error)
        else:
            await claim.finish(waiting)

    async def _probe(self, claim: Claim, embedder: Embedder, error: EmbeddingError) -> None:
        """Embed an easy text; failure blames the embedder, not the text."""
        try:
            await embed_checked(embedder, ["test"], "document", timeout_seconds=_PROBE_SECONDS)
        except EmbeddingError:
            claim.shared.setdefault(_EMBEDDER_ERROR, error)

    async def _finish_embedded(
        self, claim: Claim, embedder: Embedder, memory_ids: Sequence[int], made: _Passages
    ) -> None:
        try:
            model = await self.ensure_model(claim.user_id, embedder)
        except StoreUnavailableError:
            raise
        except StoreError as error:  # no room for a further model: every text would fail
            claim.shared[_EMBEDDER_ERROR] = EmbeddingError(str(error))
            raise claim.shared[_EMBEDDER_ERROR] from error
        rows = [one for memory_id in memory_ids for one in made.get(memory_id, ())]
        if stored := [memory_id for memory_id in memory_ids if memory_id not in made]:
            params = {**claim.params, "memory_ids": stored, "embedding_model": model}
            rows += await self.masked(await self._read(claim, "select_chunks_to_embed", params))
        results: list[Statement] = []
        for start in range(0, len(rows), EMBED_TEXTS):
            for one in results:
                await self._database.write(claim.user_id, one, kind="batch")
            await claim.keep(_CALL_SECONDS)
            texts = rows[start : start + EMBED_TEXTS]
            results = [await _embedded(embedder, model, texts)]
        await claim.finish(memory_ids, *results)
        self._outages.worked(_EMBEDDING)

    async def masked(self, rows: Sequence[_Row]) -> list[_Row]:
        """Return stored passages as the embedder may see them: they may have been indexed unmasked."""
        if not self.masks_credentials:
            return list(rows)
        return await asyncio.to_thread(lambda: [{**row, "text": masked(row["text"])} for row in rows])

    async def _read(self, claim: Claim, name: str, params: _Row) -> list[_Row]:
        (rows,) = await self._database.read(claim.user_id, _QUERIES(name, params), kind="batch")
        return rows


async def _embedded(embedder: Embedder, model: str, chunks: Sequence[Mapping[str, Any]]) -> Statement:
    """Embed passages; return the statement that writes them, without texts that have no words."""
    texts = [chunk["text"] for chunk in chunks]
    vectors = await embed_checked(embedder, texts, "document", timeout_seconds=EMBED_SECONDS)
    made = [(chunk, vector) for chunk, vector in zip(chunks, vectors, strict=True) if vector is not None]
    return _QUERIES(
        "insert_embeddings",
        embedding_model=model,
        chunk_content_ids=[chunk["content_id"] for chunk, _ in made],
        chunk_numbers=[chunk["chunk_number"] for chunk, _ in made],
        embeddings=await asyncio.to_thread(lambda: [HalfVector(one) for _, one in made]),
    )


async def reindex(database: Database, indexer: Indexer, embedder: Embedder, progress: ProgressCallback | None) -> int:
    """Embed the passages of all users that this model lacks; return how many. `progress` never goes back."""
    done = total = embedded = 0
    users: list[str] = []
    async for user_id in every_user(database):
        model = await indexer.ensure_model(user_id, embedder)
        params = {"embedding_model": model}
        ((counts,),) = await database.read(user_id, _QUERIES("fetch_embedding_counts", params), kind="batch")
        total += counts["chunks"]
        done += counts["embedded"]
        if counts["embedded"] < counts["chunks"]:
            users.append(user_id)
    if progress is not None:
        progress(done, total)
    for user_id in users:
        after = (-1, -1)
        while True:
            model = await indexer.ensure_model(user_id, embedder)
            params = {"embedding_model": model, "after_content_id": after[0], "after_chunk_number": after[1]}
            next_chunks = _QUERIES("select_chunks_without_embedding", params, limit=EMBED_TEXTS)
            (chunks,) = await database.read(user_id, next_chunks, kind="batch")
            if not chunks:
                break
            statement = await _embedded(embedder, model, await indexer.masked(chunks))
            await database.write(user_id, statement, kind="batch")
            embedded += len(statement.params["chunk_numbers"])
            after = (chunks[-1]["content_id"], chunks[-1]["chunk_number"])
            done += len(chunks)
            if progress is not None:
                progress(min(done, total), total)
    if progress is not None and done < total:  # forgotten meanwhile
        progress(total, total)
    return embedded
