"""The inspector in the process of the test, on a real store."""

import httpx

from memory_context import MemoryStore
from memory_context.surfaces.inspector import inspector_app

__all__ = ["inspector_of"]


def inspector_of(store: MemoryStore, user: str = "alice", **settings: object) -> httpx.AsyncClient:
    """Return a client of a user's inspector; its base is the API."""
    app = inspector_app(store, user, **settings)  # type: ignore[arg-type]
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost/inspector/api/")
