"""Fixtures for pytest: put `pytest_plugins = ["memory_context.testing.fixtures"]` into your top `conftest.py`.

They are plain functions, so they serve tests under any asyncio plugin, and under none.
"""

import asyncio
from collections.abc import Iterator

try:
    import pytest
except ModuleNotFoundError as error:
    raise ImportError("memory_context.testing.fixtures needs pytest: pip install pytest", name="pytest") from error

from ..store import MemoryStore
from .stores import temporary_database

__all__ = ["memory_store", "memory_url"]


@pytest.fixture
def memory_url() -> str:
    """The URL of a new, empty database on an embedded server."""
    return temporary_database()


@pytest.fixture
def memory_store(memory_url: str) -> Iterator[MemoryStore]:
    """A store of a new, empty database; its first operation opens it, the end of the test closes it."""
    store = MemoryStore(memory_url)
    yield store
    asyncio.run(store.close())
