"""The user's memory behind AutoGen's Memory protocol."""

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from autogen_core import CancellationToken, Component
from autogen_core.memory import Memory, MemoryContent, MemoryMimeType, MemoryQueryResult, UpdateContextResult
from autogen_core.model_context import ChatCompletionContext
from autogen_core.models import LLMMessage, UserMessage
from pydantic import BaseModel
from typing_extensions import Self

from memory_context.foundation.errors import MemoryContextError
from memory_context.foundation.messages import MEMORY_SOURCE, source_of, texts_of
from memory_context.foundation.patterns import regex
from memory_context.foundation.references import one_line
from memory_context.foundation.runtime.background import Breaker, outages_of
from memory_context.foundation.tokens import default_token_counter
from memory_context.foundation.utf8 import json_object, sayable
from memory_context.memory.agent_memory import AgentMemory, MemoryCriteria, SearchHit
from memory_context.memory.items import MemoryType
from memory_context.recall.expansion.render import RetrievedText, render_retrieved
from memory_context.store.items import USER_TYPES, CallerOrigin, refuse_secret
from memory_context.store.limits import at_most
from memory_context.store.memory_store import MemoryStore

from .context import MemoryContext

__all__ = ["PostgresMemory", "PostgresMemoryConfig"]

_logger = logging.getLogger("memory_context")

_QUERY_CHARACTERS = 2000
_SEARCH_SECONDS = 5.0
_STEP_SECONDS = 1.0  # per transaction
_RETRY_SECONDS = 30.0
_SEARCHING = "searching for memories"


class PostgresMemoryConfig(BaseModel):
    """Component data without secrets: `memory_store` may name an environment variable."""

    user_id: str
    agent_id: str | None = None
    name: str | None = None
    limit: int = 5
    limit_tokens: int = 800
    type: MemoryType = "custom"
    memory_store: dict[str, str | None] = {}


class PostgresMemory(Memory, Component[PostgresMemoryConfig]):
    """The memory of one user, in Postgres: `AssistantAgent(…, memory=[PostgresMemory("alice")])`.

    Args:
        user_id: The owner; other users' items are never seen.
        agent_id: The agent that stores; queries search all items of the user.
        memory_store: None for the default store.
        name: Unique among an agent's memories, else only the last one's findings are shown.
        limit_tokens: The most tokens that `update_context` adds.

    Raises:
        SecretError: The type is `user_secret`.
        ValueError: A limit is too small.
    """

    component_type = "memory"
    component_config_schema = PostgresMemoryConfig
    component_provider_override = "memory_context.PostgresMemory"

    def __init__(
        self,
        user_id: str,
        agent_id: str | None = None,
        memory_store: MemoryStore | None = None,
        *,
        name: str | None = None,
        limit: int = 5,
        limit_tokens: int = 800,
        type: MemoryType = "custom",
    ) -> None:
        if limit < 1 or limit_tokens < 100:
            raise ValueError(f"limit={limit!r} must be at least 1, limit_tokens={limit_tokens!r} at least 100")
        refuse_secret(type)
        self.name = name or "postgres_memory"
        self._lead = f"Found in {one_line(self.name, 60)} for this conversation."
        self._breaker = Breaker(_RETRY_SECONDS)
        self._has_warned = False
        self._uses_default_store = memory_store is None
        self._store = memory_store or MemoryStore.default()
        if self._uses_default_store:
            self._store.join(self)
        self._memory = AgentMemory(self._store, user_id, agent_id)
        self._limit = limit
        self._limit_tokens = limit_tokens
        self._type: MemoryType = type

    @property
    def agent_memory(self) -> AgentMemory:
        return self._memory

    async def add(
        self,
        content: MemoryContent,
        cancellation_token: CancellationToken | None = None,
        *,
        origin: CallerOrigin | None = None,
    ) -> None:
        """Store text, Markdown or JSON.

        Args:
            content: Its metadata stays with the item and may name `description`, `source`, `type` and `tags`.
            origin: None for the application. A preference or fact of the user that only the metadata names is then
                unconfirmed (`import`), since metadata may come from anywhere: give `application` to vouch for it.

        Raises:
            SecretError: The type is `user_secret`.
            ValueError: The content is binary or JSON that is no object, or its metadata unsuitable.
            StoreError: The store failed.
        """
        metadata = dict(content.metadata or {})
        body = content.content
        if not isinstance(body, (str, dict)):
            raise ValueError(f"a memory of {_mime_type(content)} cannot be searched: add text, Markdown or JSON")
        if isinstance(body, str) and _mime_type(content) == MemoryMimeType.JSON.value and json_object(body) is None:
            raise ValueError("a memory of application/json has to be a JSON object: add other values as text")
        description = metadata.get("description")
        if description is not None and not isinstance(description, str):
            raise ValueError(f"description={description!r}: use a str")
        memory_type = metadata.get("type", self._type)
        is_claim = memory_type in USER_TYPES and memory_type != self._type
        await self._memory.store(
            body,
            description=description,
            type=memory_type,
            source=metadata.get("source", self.name),
            tags=metadata.get("tags", ()),
            metadata={**metadata, "mime_type": _mime_type(content)},
            origin=origin or ("import" if is_claim else "application"),
        )

    async def query(
        self,
        query: str | MemoryContent,
        cancellation_token: CancellationToken | None = None,
        *,
        limit: int | None = None,
        criteria: MemoryCriteria | None = None,
        **kwargs: Any,
    ) -> MemoryQueryResult:
        """Return the best passages first; their metadata names item, lines and score.

        Raises:
            ValueError: The limit is less than 1.
            StoreError: The store failed.
        """
        text = query if isinstance(query, str) else str(query.content)
        limit = self._limit if limit is None else limit
        hits = await self._memory.search(text, limit, criteria, reader=self.name)
        return MemoryQueryResult(results=[_content_of(hit) for hit in hits])

    async def update_context(self, model_context: ChatCompletionContext) -> UpdateContextResult:
        """Show memories for the newest message only; if the store fails, go on without them."""
        messages = await model_context.get_messages()
        own = [message for message in messages if self._is_own(source_of(message), message.content)]
        query = _newest_words(messages)
        others = (text for message in messages if message not in own for _, text in texts_of(message))
        said = "\n".join(text.partition(self._lead)[0] for text in others)  # user messages may be joined
        found = await self._found(query)
        hits = [hit for hit in found if hit.is_relevant and not hit.item.is_claim and hit.passage not in said]
        pieces = [_piece(hit) for hit in hits]
        room = (self._limit_tokens, default_token_counter(), self._lead)
        text, indexes = await asyncio.to_thread(lambda: render_retrieved(pieces, query, *room, by_rank=True))
        hits = [hits[index] for index in indexes]
        keys = [hit.item.key for hit in hits]
        if isinstance(model_context, MemoryContext):
            await model_context.show_memories(text, keys, self.name)
        elif [message.content for message in own] != [text]:
            await self._replace(model_context, text, has_own=bool(own))
            if keys:
                self._memory.trail.note_read("searched", keys, self.name, repr(query))
        return UpdateContextResult(memories=MemoryQueryResult(results=[_content_of(hit) for hit in hits]))

    async def _found(self, query: str) -> list[SearchHit]:
        if not query or self._breaker.is_open:
            return []
        try:
            with at_most(_STEP_SECONDS):
                found = await asyncio.wait_for(self._memory.search(query, self._limit, reader=None), _SEARCH_SECONDS)
        except (MemoryContextError, asyncio.TimeoutError) as error:
            self._breaker.failed()
            why = str(error) or "the store did not answer in time"
            outages_of(self._memory.memory_store).failed(_SEARCHING, "going on without memories for now: %s", why)
            return []
        outages_of(self._memory.memory_store).worked(_SEARCHING)
        return found

    def _is_own(self, source: Any, content: Any) -> bool:
        return source == MEMORY_SOURCE and isinstance(content, str) and content.startswith(self._lead)

    async def _replace(self, model_context: ChatCompletionContext, text: str, *, has_own: bool) -> None:
        """Replace the previous message if the saved state has `messages`."""
        if has_own:
            state = dict(await model_context.save_state())
            saved = cast(Sequence[Mapping[str, Any]], state.get("messages", ()))
            kept = [one for one in saved if not self._is_own(one.get("source"), one.get("content"))]
            if len(kept) == len(saved):
                if not self._has_warned:
                    self._has_warned = True
                    text = "memories of %s in a %s cannot be replaced: its saved state has none of them in 'messages'"
                    _logger.warning(text, self.name, type(model_context).__name__)
                return
            await model_context.load_state({**state, "messages": kept})
        if text:
            await model_context.add_message(UserMessage(content=sayable(text), source=MEMORY_SOURCE))

    async def clear(self) -> None:
        """Erase contents added for this user and agent."""
        await self._memory.clear()

    async def close(self) -> None:
        """Leave the default store; others stay open."""
        if self._uses_default_store:
            await self._store.leave(self)

    def _to_config(self) -> PostgresMemoryConfig:
        return PostgresMemoryConfig(
            user_id=self._memory.user_id,
            agent_id=self._memory.agent_id or None,
            name=self.name,
            limit=self._limit,
            limit_tokens=self._limit_tokens,
            type=self._type,
            memory_store={} if self._uses_default_store else self._store.url_for_config,
        )

    @classmethod
    def _from_config(cls, config: PostgresMemoryConfig) -> Self:
        store = MemoryStore.from_config(**config.memory_store) if config.memory_store else None
        return cls(memory_store=store, **config.model_dump(exclude={"memory_store"}))


_FENCED = regex(r"[^\n]*\n<(memory-[0-9a-f]{8})>\n.*?\n</\1>", re.DOTALL)
"""A memory text with its lead."""


def _newest_words(messages: Sequence[LLMMessage]) -> str:
    for message in reversed(messages):
        if isinstance(message, UserMessage) and message.source != MEMORY_SOURCE:
            said = "\n".join(text for _, text in texts_of(message))
            return _FENCED.sub("", said).strip()[:_QUERY_CHARACTERS]  # user messages may be joined with memory texts
    return ""


def _mime_type(content: MemoryContent) -> str:
    kind = content.mime_type
    return kind.value if isinstance(kind, MemoryMimeType) else str(kind)


def _piece(hit: SearchHit) -> RetrievedText:
    origin = f"{hit.item.source}; {hit.item.caveat}" if hit.item.caveat else hit.item.source
    place = f", {hit.item.place}" if hit.item.place else ""
    label = (
        f"{hit.ref.render()} (from {origin}, {hit.item.valid_from or hit.item.created_at:%Y-%m-%d %H:%M} UTC{place})"
    )
    return RetrievedText(label, hit.passage, hit.start_line)


def _content_of(hit: SearchHit) -> MemoryContent:
    item = hit.item
    kind = item.metadata.get("mime_type")
    found = json_object(hit.passage) if kind == MemoryMimeType.JSON.value else None
    text_type = MemoryMimeType.MARKDOWN if kind == MemoryMimeType.MARKDOWN.value else MemoryMimeType.TEXT
    return MemoryContent(
        content=hit.passage if found is None else found,
        mime_type=text_type if found is None else MemoryMimeType.JSON,
        metadata={
            "memory_key": item.key,
            "description": item.ref.description,
            "source": item.source,
            "type": item.type,
            "origin": item.origin,
            "tags": list(item.tags),
            "created_at": item.created_at.isoformat(),
            "start_line": hit.start_line,
            "end_line": hit.end_line,
            "score": hit.score.total,
            **item.metadata,  # the application's metadata wins
        },
    )
