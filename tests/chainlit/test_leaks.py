"""Chainlit's routes over the data layer show a user nothing of another's, whatever ids they know."""

import random
from typing import Any

import httpx
import pytest

from benchmarks.leaks import ATTACKER, VICTIM, Path, Victim, attack, live
from memory_context.store.memory_store import MemoryStore

from .conftest import log_in

pytestmark = pytest.mark.thorough

CALLS = 200
ROUTES = (
    "/project/thread/{thread}",
    "/project/thread/{thread}/element/{element}",
    "/memory-context/elements/{thread}/{element}",
    "/project/share/{thread}",
)


def paths_of(web: httpx.AsyncClient, victim: Victim) -> list[Path]:
    """Return the ways to read, as whoever is logged in."""

    def path(route: str) -> Path:
        async def call(user: str, rng: random.Random) -> Any:
            given = {kind: victim.forge(kind, rng) for kind in ("thread", "element")}
            place = httpx.URL("http://chat").copy_with(path=route.format(**given))
            return (await web.get(place)).text

        return Path(route, call)

    async def threads(user: str, rng: random.Random) -> Any:
        search = None if victim.is_exact else rng.choice([None, victim.forge("query", rng)])
        asked = {"pagination": {"first": 20}, "filter": {"userId": VICTIM, "search": search}}
        return (await web.post("/project/threads", json=asked)).text

    return [*map(path, ROUTES), Path("/project/threads", threads)]


async def test_forged_requests_return_nothing_of_another_user(web: httpx.AsyncClient, store: MemoryStore) -> None:
    """The owner's own requests show that the texts would have been found; the thread is not shared."""
    victim = await live(store)
    paths = paths_of(web, victim)
    await log_in(web, ATTACKER)
    attacked = await attack(paths, ATTACKER, CALLS, seed=20)
    assert attacked.leaks == {}, attacked.example
    assert attacked.calls.total() == CALLS
    await log_in(web, VICTIM)
    victim.is_exact = True
    own = await attack(paths, VICTIM, len(paths), seed=20)
    assert {name for name in own.calls if not own.leaks[name]} == {"/project/share/{thread}"}
