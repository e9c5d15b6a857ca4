"""Fixtures for pytest: put `pytest_plugins = ["memory_context.testing.fixtures"]` into your top `conftest.py`.

Plain functions, so they work with any asyncio plugin or none.
"""

import asyncio
from collections.abc import Iterator

try:
    import pytest
except ModuleNotFoundError as error:
    raise ImportError("memory_context.testing.fixtures needs pytest: pip install pytest", name="pytest") from error

from memory_context.store.memory_store import MemoryStore

from .stores import temporary_database

__all__ = ["memory_store", "memory_url"]


@pytest.fixture
def memory_url() -> str:
    """URL of a new, empty database on an embedded server."""
    return temporary_database()


@pytest.fixture
def memory_store(memory_url: str) -> Iterator[MemoryStore]:
    """A store of a new, empty database, closed after the test."""
    store = MemoryStore(memory_url)
    yield store
    asyncio.run(store.close())
