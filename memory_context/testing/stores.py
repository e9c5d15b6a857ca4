"""Stores of empty databases on one embedded server, which is removed at process exit."""

import asyncio
import atexit
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from memory_context.store import embedded
from memory_context.store.memory_store import MemoryStore

__all__ = ["temporary_database", "temporary_store"]

_numbers = count(1)


def temporary_database() -> str:
    """Return the URL of a new, empty database; the first call starts the server, which takes seconds.

    Raises:
        StoreUnavailableError: The server could not start; `pip install 'memory-context[local]'`.
    """
    return embedded.url_of(embedded.start(_folder(), f"test_{next(_numbers)}"))


@asynccontextmanager
async def temporary_store(**settings: Any) -> AsyncGenerator[MemoryStore, None]:
    """Open a store of a new, empty database; `settings` are arguments of `MemoryStore`."""
    url = await asyncio.to_thread(temporary_database)
    async with MemoryStore(url, **settings) as store:
        yield store


@cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="mc-"))
    atexit.register(embedded.remove, folder)
    return folder
