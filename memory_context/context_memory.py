"""What an application asks of a context's memory: store, retrieve, search."""

from collections.abc import Mapping, Sequence
from typing import Any

from .memory import AgentMemory, MemoryCriteria, MemoryTransform, MemoryType, SearchHit
from .policy import ContextPolicy
from .store import CallerOrigin
from .tokens import TokenCounter
from .tools import INSTRUCTIONS, retrieve_item
from .transcript import Transcript

__all__ = ["ContextMemory"]


class ContextMemory:
    """The part of a context that reads and writes items for whoever holds it; a model has the tools for that."""

    user_id: str
    agent_id: str
    session_id: str
    policy: ContextPolicy
    token_counter: TokenCounter

    _agent_memory: AgentMemory
    _transcript: Transcript

    @property
    def agent_memory(self) -> AgentMemory:
        """The items this context stores and reads."""
        return self._agent_memory

    @property
    def transcript(self) -> Transcript:
        """The messages and decisions; read it, do not write to it."""
        return self._transcript

    async def store(
        self,
        content: Any,
        description: str,
        type: MemoryType = "custom",
        *,
        source: str | None = None,
        tags: Sequence[str] = (),
        metadata: Mapping[str, Any] | None = None,
        origin: CallerOrigin = "application",
    ) -> str:
        """Store a content and return its memory_key, once it is durable.

        What holds the words of a model, a tool or a file is stored with that `origin`: preferences and facts are taken
        for the user's only if the application stored them as its own.

        Raises:
            SecretError: The type is `user_secret`, which is refused until there is a vault.
            ValueError: The content is neither a str nor JSON-able, or too large.
            StoreUnavailableError: The store cannot be reached now.
        """
        ref = await self.agent_memory.store(
            content, description=description, type=type, source=source, tags=tags, metadata=metadata, origin=origin
        )
        return ref.key

    async def retrieve(self, memory_key: str, transform: str = "full", **params: Any) -> str:
        """Return the content behind a key, whole and byte for byte, or cut by a transform.

        Args:
            memory_key: The key of a placeholder; also that of folded steps.
            transform: full, excerpt, summary, first_n, last_n or filtered.
            **params: What the transform takes, such as `pattern="error"`.

        Raises:
            ItemNotFoundError: This user has no such item; offers the nearest keys.
            TransformError: The transform cannot be applied; says what to send instead.
            StoreUnavailableError: The store cannot be reached now.
        """
        return (await retrieve_item(self, memory_key, MemoryTransform.of(transform, **params), for_application=True))[0]

    async def search(self, query: str, limit: int = 5, criteria: MemoryCriteria | None = None) -> list[SearchHit]:
        """Return the items of this user that answer a query best, each with its best passage; the best first.

        Raises:
            ValueError: The limit is less than 1.
            StoreUnavailableError: The store cannot be reached now.
        """
        hits = await self.agent_memory.search(query, limit=limit, criteria=criteria or MemoryCriteria())
        self.agent_memory.trail.note("searched", [hit.item.key for hit in hits], f"search: {query!r}")
        return hits

    def instructions(self) -> str:
        """Return what teaches a model the placeholder, to be appended to the system message."""
        return INSTRUCTIONS
