"""Embeddings of passages, as rows: made by an embedder within a time limit and written in batches."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from pgvector import HalfVector

from memory_context.credentials import masked
from memory_context.embeddings import Embedder, embed_checked
from memory_context.escaping import escape, unescape

from .database import Database
from .pool import Statement
from .sql import load_queries

__all__ = ["write_embeddings"]

_QUERIES = load_queries("index")

EMBED_TEXTS = 256
EMBED_SECONDS = 120.0  # for so many texts, after which an embedder is taken to hang


async def write_embeddings(
    database: Database,
    user_id: str,
    embedder: Embedder,
    model: str,
    chunks: Sequence[Mapping[str, Any]],
    *,
    masks_credentials: bool = True,
) -> int:
    """Embed passages, write what comes and return how many those are; a text without any words has no embedding.

    Raises:
        EmbeddingError: The embedder failed, or what it returned cannot be used.
        StoreError: The database failed.
    """
    mask = masked if masks_credentials else str  # once more: it may have been indexed without masks
    texts = await asyncio.to_thread(lambda: [mask(unescape(chunk["text"])) for chunk in chunks])
    vectors = await embed_checked(embedder, texts, "document", timeout_seconds=EMBED_SECONDS)
    made = [(chunk, vector) for chunk, vector in zip(chunks, vectors, strict=True) if vector is not None]
    params = {
        "user_id": escape(user_id),
        "embedding_model": model,
        "chunk_content_ids": [chunk["content_id"] for chunk, _ in made],
        "chunk_numbers": [chunk["chunk_number"] for chunk, _ in made],
        "embeddings": await asyncio.to_thread(lambda: [HalfVector(one) for _, one in made]),
    }
    await database.write(user_id, Statement(_QUERIES["insert_embeddings"], params), kind="batch")
    return len(made)
