"""Going over to another embedding model while the store is in use.

Models live side by side: each has rows and an index of its own. A new one is filled user by user, batch by batch; what
is there already is left out, so it can be interrupted anywhere and begun again.
"""

from memory_context.embeddings import Embedder
from memory_context.escaping import escape

from .database import Database, every_user
from .embedding_rows import EMBED_TEXTS, write_embeddings
from .forget import ProgressCallback
from .indexer import Indexer
from .pool import Statement
from .sql import load_queries

__all__ = ["reindex"]

_QUERIES = load_queries("index")


async def reindex(database: Database, indexer: Indexer, embedder: Embedder, progress: ProgressCallback | None) -> int:
    """Embed what this model has not embedded yet, of all users; return how many passages that were.

    `progress` never goes back, and ends with all that was there at the beginning.

    Raises:
        EmbeddingError: The embedder failed; what was embedded stays.
        StoreError: The database failed.
    """
    done = total = embedded = 0
    users: list[str] = []
    async for user_id in every_user(database):
        model = await indexer.ensure_model(user_id, embedder)
        params = {"user_id": escape(user_id), "embedding_model": model}
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
                "user_id": escape(user_id),
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
    if progress is not None and done < total:  # the rest was forgotten meanwhile
        progress(total, total)
    return embedded
