"""LangGraph's AsyncPostgresStore as a peer: the same texts, the same embedder, the same server. Only if installed."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from itertools import count
from typing import Any

from memory_context.foundation.embeddings.wordllama import WordLlamaEmbedder

__all__ = ["Peer", "is_installed", "open_peer"]

_NAMESPACE = ("benchmark", "user")


class Peer:
    """Stores and searches texts in LangGraph's store.

    Args:
        store: An open `AsyncPostgresStore`.
    """

    def __init__(self, store: Any) -> None:
        self._store = store
        self._numbers = count()

    async def put(self, text: str) -> None:
        """Store a text; its embedding is made before this returns."""
        await self._store.aput(_NAMESPACE, f"item_{next(self._numbers)}", {"text": text})

    async def search(self, query: str, limit: int) -> None:
        """Search for a query."""
        found = await self._store.asearch(_NAMESPACE, query=query, limit=limit)
        assert len(found) == limit


def is_installed() -> bool:
    """Whether there is anything to compare with."""
    return find_spec("langgraph") is not None and find_spec("langgraph.store.postgres") is not None


@asynccontextmanager
async def open_peer(url: str) -> AsyncIterator[Peer]:
    """Make its tables in this database and yield the peer.

    Raises:
        ImportError: langgraph-checkpoint-postgres is not installed.
    """
    from langgraph.store.postgres.aio import AsyncPostgresStore

    embedder = WordLlamaEmbedder()

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        return await embedder.embed(texts, "document")

    index: Any = {"dims": embedder.dimensions, "embed": embed, "fields": ["text"]}
    async with AsyncPostgresStore.from_conn_string(url, index=index) as store:
        await store.setup()
        yield Peer(store)
