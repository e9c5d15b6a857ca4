"""Runs a numbered sample with the default store open; one that cannot be opened is said in one line."""

import asyncio
import sys
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any

from memory_context import MemoryStore, StoreError

__all__ = ["needs", "run"]


@contextmanager
def needs(*extras: str) -> Generator[None, None, None]:
    """Exit with 1 and what to install if a library that the sample imports is missing."""
    try:
        yield
    except ImportError as error:
        missing = (error.name or "a library").partition(".")[0]
        sys.exit(f"This sample needs {missing}: pip install 'memory-context[{','.join([*extras, 'samples'])}]'")


def run(story: Coroutine[Any, Any, None]) -> None:
    """Run a sample to its end; exit with 1 and what to do if the store cannot be opened."""

    async def with_store() -> None:
        async with MemoryStore.default():
            await story

    try:
        asyncio.run(with_store())
    except StoreError as error:
        sys.exit(f"The store cannot be opened: {error}")
    finally:
        story.close()  # it may never have begun
