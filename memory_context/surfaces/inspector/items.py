"""The inspector's routes of stored items: what is known of one, its content in pieces, and a search in it.

GET /api/items/{key}            description, place, history, and what refers to it
GET /api/items/{key}/content    all of it, or a cut as the agent's `retrieve_memory` makes it
"""

import base64
from typing import Annotated, Any, get_args

from fastapi import APIRouter, Depends, Path, Query
from pydantic import Field

from memory_context.foundation.errors import TransformError
from memory_context.foundation.references import KEY_PATTERN
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.items import MemoryItem
from memory_context.memory.transforms.transform import MemoryTransform, TransformName
from memory_context.recall.tools.items import RetrieveMemoryArgs
from memory_context.store.items import MemoryCriteria
from memory_context.store.memory_store import MemoryStore

from ..access.errors import invalid

__all__ = ["add_items", "listed"]

_LISTED = ("key", "type", "source", "origin", "agent_id", "session_id", "is_private", "created_at", "content_bytes",
           "caveat", "tags")  # fmt: skip

Key = Annotated[str, Path(pattern=f"^{KEY_PATTERN.pattern}$")]


class Cut(RetrieveMemoryArgs):
    """Parameters of a transform, as those of `retrieve_memory`, and which characters of its text to send."""

    memory_key: str = Field(default="", exclude=True)  # stands in the path
    offset: int = Field(default=0, ge=0, exclude=True)
    limit: int = Field(default=40_000, ge=1, le=1_000_000, exclude=True)


def add_items(router: APIRouter, store: MemoryStore, user: Any) -> None:
    """Add the routes; `user` is the dependency that returns the authenticated user's id."""

    async def memory_of(key: Key, user_id: str = user) -> AgentMemory:
        """Return the memory of the session that stored an item, which may be private to it."""
        found = await store.items.fetch_whereabouts(user_id, key)
        if found is None or not found.is_active:
            raise await AgentMemory(store, user_id).not_found(key)
        return AgentMemory(store, user_id, found.agent_id, found.session_id)

    own = Depends(memory_of)

    @router.get("/api/items/{key}")
    async def item(key: Key, memory: AgentMemory = own) -> dict[str, Any]:
        found = await _retrieved(memory, key, MemoryTransform.excerpt(start_char=1, end_char=1))
        await store.events.flush(memory.user_id)
        related = await memory.query(MemoryCriteria(related_to=key), reader=None)
        return {
            **listed(found),
            "content_type": found.content_type,
            "other_keys": found.other_keys,
            "metadata": dict(found.metadata),
            "related": [listed(one) for one in related],
            "sessions": await store.user_stats.item_sessions(memory.user_id, [key]),
            "events": await store.user_stats.item_events(memory.user_id, key),
            "transforms": get_args(TransformName),
        }

    @router.get("/api/items/{key}/content")
    async def content(key: Key, cut: Annotated[Cut, Query()], memory: AgentMemory = own) -> dict[str, Any]:
        try:
            given = cut.model_dump(exclude={"transform"}, exclude_none=True)
            transform = MemoryTransform.of(cut.transform, **given)
            found = await _retrieved(memory, key, transform)
        except TransformError as error:
            raise invalid(str(error), cut.transform) from None
        end = cut.offset + cut.limit
        return {
            "text": found.content[cut.offset : end],
            "next": end if end < len(found.content) else None,
            "label": found.label,
            "data": None if found.data is None else base64.b64encode(found.data).decode(),
        }

    _ = item, content


async def _retrieved(memory: AgentMemory, key: str, transform: MemoryTransform) -> MemoryItem:
    # values of the vault are masked wherever they are shown; to look here is no use of the item
    found = await memory.retrieve(key, transform, for_model=True, shows_credentials=True, reader=None)
    if found is None:  # forgotten meanwhile
        raise await memory.not_found(key)
    return found


def listed(one: MemoryItem) -> dict[str, Any]:
    """Return an item of a list, without its content."""
    fields = {name: getattr(one, name) for name in _LISTED}
    return {**fields, "description": one.ref.description, "tokens": one.ref.token_count}
