"""The inspector's routes of what is kept of a user."""

from typing import Any

from fastapi import APIRouter

from memory_context.store.memory_store import MemoryStore

__all__ = ["add_memory"]


def add_memory(router: APIRouter, store: MemoryStore, user: Any) -> None:
    """Add the routes; `user` is the dependency that returns the authenticated user's id."""
    _ = router, store, user
