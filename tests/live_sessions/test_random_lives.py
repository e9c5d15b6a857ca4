"""Random lives of sessions in two caches of one database: never two at one session, nothing lost or doubled."""

import asyncio
import random
from collections import Counter

import pytest

from memory_context import MemoryStore
from memory_context.foundation.errors import SessionBusyError, StoreUnavailableError
from memory_context.foundation.identifiers import SessionKey
from memory_context.sessions.live.cache import SessionCache
from tests.support.waiting import soon

from .fakes import Archive, FakeSession, States, key_of, take_away

KEYS = [key_of(str(number)) for number in range(6)]


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_context.sessions.live.entry._RETRY_SECONDS", (0.001, 0.004))
    monkeypatch.setattr("memory_context.sessions.live.claims._POLL_SECONDS", 0.01)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("has_losses", "has_states"), [(False, False), (False, True), (True, False)])
async def test_a_session_has_one_holder_and_loses_nothing(
    store: MemoryStore, seed: int, has_losses: bool, has_states: bool
) -> None:
    """Holders come, wait, fail and are cancelled; sessions leave, are handed over and lost; the store goes away."""
    chance = random.Random(f"{seed} {has_losses} {has_states}")
    archive = Archive()
    states = States() if has_states else None
    caches = [
        SessionCache(
            archive.make, memory_store=store, states=states, size=3, idle_seconds=0.01, wait_seconds=10, queue=4
        )
        for _ in range(2)
    ]
    holders: Counter[tuple[int, SessionKey]] = Counter()
    said: dict[SessionKey, list[str]] = {key: [] for key in KEYS}
    outcomes: Counter[str] = Counter()

    async def pause() -> None:
        for _ in range(chance.randrange(6)):
            await asyncio.sleep(0)

    def check(key: SessionKey) -> None:
        at_work = [holders[place, key] for place in range(2)]
        assert max(at_work) <= 1
        if not has_losses:  # what was lost may be at work in two places: the archive keeps these apart
            assert sum(at_work) <= 1
            assert len(archive.live[key]) == 1

    async def work(number: int) -> None:
        await asyncio.sleep(chance.random() / 10)  # real time: leases and retries run by the clock beside it
        place, key = chance.randrange(2), chance.choice(KEYS)
        try:
            async with caches[place].hold(key) as session:
                holders[place, key] += 1
                try:
                    check(key)
                    await pause()
                    say(session, str(number))
                    await pause()
                    check(key)
                finally:
                    holders[place, key] -= 1
            outcomes["done"] += 1
        except (SessionBusyError, StoreUnavailableError) as error:
            outcomes[type(error).__name__] += 1

    def say(session: FakeSession, text: str) -> None:
        assert session.messages == [*said[session.key]] or has_losses
        session.add(text)
        said[session.key].append(text)

    async def disturb(tasks: list["asyncio.Task[None]"]) -> None:
        for _ in range(60):
            await asyncio.sleep(chance.random() / 300)  # real time, spread over the tasks that it disturbs
            archive.is_away = chance.random() < 0.15
            if states is not None:
                states.is_away = chance.random() < 0.1
            if chance.random() < 0.3:
                chance.choice(tasks).cancel()
            if has_losses and chance.random() < 0.5:
                await take_away(store, chance.choice(KEYS))
        archive.is_away = False
        if states is not None:
            states.is_away = False

    tasks = [asyncio.create_task(work(number)) for number in range(150)]
    await disturb(tasks)
    results = await soon(asyncio.gather(*tasks, return_exceptions=True))
    assert {type(result) for result in results} <= {type(None), asyncio.CancelledError}
    await asyncio.gather(*(cache.close() for cache in caches))

    assert outcomes["done"] > 10  # on a busy machine many come at once and are refused
    assert sum(cache.stats.evictions + cache.stats.handovers for cache in caches) > 10
    for key in KEYS:
        assert archive.live[key] == []
        durable = archive.everything(key)
        if states is not None and key in states.kept:  # handed over, and never taken over
            durable = max(durable, list(states.kept[key]["messages"]), key=len)
        assert sorted(durable) == sorted(said[key])
        if not has_losses:
            assert durable == said[key]
