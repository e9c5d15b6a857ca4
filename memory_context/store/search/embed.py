"""Writes embeddings of passages. Models live side by side; filling in another one is idempotent."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pgvector import HalfVector

from memory_context.credentials import masked
from memory_context.embeddings import Embedder, embed_checked

from ..database import Database, every_user
from ..forget import ProgressCallback
from ..pool import Statement
from ..sql import load_queries

if TYPE_CHECKING:
    from .indexer import Indexer

__all__ = ["EMBED_SECONDS", "EMBED_TEXTS", "reindex", "write_embeddings"]

_QUERIES = load_queries("index")

EMBED_TEXTS = 256
EMBED_SECONDS = 120.0  # for one batch; then the embedder is considered hung


async def write_embeddings(
    database: Database,
    user_id: str,
    embedder: Embedder,
    model: str,
    chunks: Sequence[Mapping[str, Any]],
    *,
    masks_credentials: bool = True,
) -> int:
    """Embed and write passages; return their number, without texts that have no words."""
    mask = masked if masks_credentials else str  # it may have been indexed unmasked
    texts = await asyncio.to_thread(lambda: [mask(chunk["text"]) for chunk in chunks])
    vectors = await embed_checked(embedder, texts, "document", timeout_seconds=EMBED_SECONDS)
    made = [(chunk, vector) for chunk, vector in zip(chunks, vectors, strict=True) if vector is not None]
    params = {
        "user_id": user_id,
        "embedding_model": model,
        "chunk_content_ids": [chunk["content_id"] for chunk, _ in made],
        "chunk_numbers": [chunk["chunk_number"] for chunk, _ in made],
        "embeddings": await asyncio.to_thread(lambda: [HalfVector(one) for _, one in made]),
    }
    await database.write(user_id, Statement(_QUERIES["insert_embeddings"], params), kind="batch")
    return len(made)


async def reindex(database: Database, indexer: "Indexer", embedder: Embedder, progress: ProgressCallback | None) -> int:
    """Embed the passages of all users that this model lacks; return how many. `progress` never goes back."""
    done = total = embedded = 0
    users: list[str] = []
    async for user_id in every_user(database):
        model = await indexer.ensure_model(user_id, embedder)
        params = {"user_id": user_id, "embedding_model": model}
        ((counts,),) = await database.read(user_id, Statement(_QUERIES["fetch_embedding_counts"], params), kind="batch")
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
            params = {
                "user_id": user_id,
                "embedding_model": model,
                "after_content_id": after[0],
                "after_chunk_number": after[1],
                "limit": EMBED_TEXTS,
            }
            (chunks,) = await database.read(
                user_id, Statement(_QUERIES["select_chunks_without_embedding"], params), kind="batch"
            )
            if not chunks:
                break
            embedded += await write_embeddings(
                database, user_id, embedder, model, chunks, masks_credentials=indexer.masks_credentials
            )
            after = (chunks[-1]["content_id"], chunks[-1]["chunk_number"])
            done += len(chunks)
            if progress is not None:
                progress(min(done, total), total)
    if progress is not None and done < total:  # forgotten meanwhile
        progress(total, total)
    return embedded
