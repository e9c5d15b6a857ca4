"""The inspector's routes of sessions and model calls."""

from typing import Any

from fastapi import APIRouter

from memory_context.foundation.policy import ContextPolicy
from memory_context.store.memory_store import MemoryStore

__all__ = ["add_calls"]


def add_calls(router: APIRouter, store: MemoryStore, user: Any, policy: ContextPolicy) -> None:
    """Add the routes; `user` is the dependency that returns the authenticated user's id."""

    @router.get("/api/sessions", summary="The user's sessions, last used first")
    async def sessions(user_id: str = user) -> dict[str, Any]:
        found = await store.conversations.sessions(user_id, limit=50)
        return {"sessions": found}

    _ = sessions, policy
