"""The check of approximate rankings, which runs beside the searches."""

import asyncio
from typing import Any, cast

import pytest

from memory_context.store.database import Database
from memory_context.store.search.indexer import AnnQualityCheck

pytestmark = pytest.mark.thorough


class _Silent:
    """A database that never answers."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.ended = asyncio.Event()

    async def read(self, *_: Any, **__: Any) -> Any:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def test_stop_ends_a_check_that_waits_for_the_database():
    database = _Silent()
    check = AnnQualityCheck(cast(Database, database), b"SELECT 1")
    check.note("alice", {}, [])
    await database.asked.wait()
    await check.stop()
    assert database.ended.is_set()
