"""Of one user's texts nothing comes back to another who knows all ids, whatever way they read."""

import asyncio

from benchmarks.leaks import LeakReport, run
from memory_context import MemoryStore
from tests.embeddings.fakes import FakeEmbedder

CALLS = 500
WITHOUT_TEXTS = {
    "AgentMemory.audit",
    "AgentMemory.not_found",
    "user_stats.kinds",
    "user_stats.transcripts",
    "web chat",
    "CLI sessions --explain",
    "CLI stats",
}
SOMETIMES_WITHOUT = {"AgentMemory.audit", "web chat"}
"""They tell why an item opened, by a word of it."""


def test_forged_calls_of_another_user_bring_nothing_back(database_url: str) -> None:
    """On every path that reads; the first user's own calls show that the texts would have been found."""

    async def attack() -> tuple[LeakReport, LeakReport]:
        async with MemoryStore(database_url, FakeEmbedder()) as store:
            return await run(store, database_url, CALLS, seed=20)

    attacked, own = asyncio.run(attack())
    assert attacked.leaks == {}, attacked.example
    assert attacked.calls.total() == CALLS
    assert attacked.calls.keys() == own.calls.keys()
    assert {name for name in own.calls if not own.leaks[name]} | SOMETIMES_WITHOUT == WITHOUT_TEXTS
