"""Users that wait for the background: looked after when they are due, and by somebody else when a loop ends."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from memory_context.store.jobs import UserSchedule
from tests.context.steps import a_turn_of_the_loop
from tests.support.waiting import PATIENT_SECONDS, soon

pytestmark = pytest.mark.thorough


class Looks:
    """Remembers who was looked after, and says when to look again."""

    def __init__(self, *again: float | None) -> None:
        self.users: list[str] = []
        self.again = list(again)
        self._looked = asyncio.Event()
        self.background = UserSchedule(self)

    async def __call__(self, user_id: str) -> float | None:
        self.users.append(user_id)
        self._looked.set()
        return self.again.pop(0) if self.again else None

    async def until(self, count: int) -> None:
        while len(self.users) < count:
            await soon(self._looked.wait())
            self._looked.clear()


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await a_turn_of_the_loop()


async def test_users_are_looked_after_as_they_come_due_and_once():
    """Not in the order they were put in; the later of two times of one user counts for nothing."""
    looks = Looks()
    for user_id, seconds in (("late", 0.02), ("never", 3600), ("soon", 0.01), ("now", 0), ("late", 0.03)):
        looks.background.put(user_id, seconds)
    looks.background.start()
    await looks.until(3)
    assert looks.users == ["now", "soon", "late"]
    await looks.background.stop()


async def test_user_that_is_put_forward_is_looked_after_sooner_and_once():
    """Also when somebody waits for the time said before."""
    looks = Looks()
    looks.background.put("a", 3600)
    looks.background.start()
    await turns()
    looks.background.put("a", 0)
    await looks.until(1)
    looks.background.put("b", 0)
    looks.background.start()
    await looks.until(2)
    await turns()
    assert looks.users == ["a", "b"]
    await looks.background.stop()


async def test_user_with_more_to_do_is_looked_after_again():
    looks = Looks(0.001, 0, None)
    looks.background.put("a", 0)
    looks.background.start()
    await looks.until(3)
    await turns()
    assert looks.users == ["a", "a", "a"]


async def test_waiting_costs_nothing_meanwhile(monkeypatch: pytest.MonkeyPatch):
    """One wait for each time that something was put; a wake-up that is not taken back would go round and round."""
    looks, waits = Looks(), list[float]()
    wait_for = asyncio.wait_for

    async def counting(waited: Awaitable[object], seconds: float) -> object:
        waits.append(seconds)
        assert len(waits) < 20, "it goes round and round"
        return await wait_for(waited, seconds)

    monkeypatch.setattr("memory_context.store.jobs.asyncio.wait_for", counting)
    looks.background.put("late", 3600)
    looks.background.start()
    await turns()
    looks.background.put("later", 7200)
    await turns()
    looks.background.put("late", 1800)
    await turns()
    assert len(waits) <= 6
    assert [round(seconds) for seconds in (waits[0], waits[-1])] == [3600, 1800]
    await looks.background.stop()


async def test_stop_ends_what_is_at_work_and_gives_back_its_claims():
    """Nothing is looked after any more, also not what was broken off; start begins anew."""
    is_at_work = asyncio.Event()

    async def hang(user_id: str) -> float | None:
        background.claims["claim"] = user_id
        is_at_work.set()
        await asyncio.Event().wait()
        return None

    background = UserSchedule(hang)
    background.put("a", 0)
    background.start()
    await is_at_work.wait()
    before = asyncio.all_tasks()
    await background.stop()
    assert len(before - asyncio.all_tasks()) == 1
    assert (background.claims, background.broken_off) == ({}, {"claim": ("a", False)})
    background.put_back("a", 0)
    await turns()
    assert asyncio.all_tasks() < before
    is_at_work.clear()
    background.start()
    await is_at_work.wait()
    await background.stop()


async def test_user_whose_batch_was_broken_off_is_looked_after_by_a_timer():
    """There may be no task any more that would look."""
    looks = Looks()
    looks.background.put_back("a", 3600)
    looks.background.put_back("a", 0.001)
    await looks.until(1)
    await turns()
    assert looks.users == ["a"]
    await looks.background.stop()


def test_ended_loop_leaves_its_users_and_claims_to_another():
    """Claims of batches that were in work count as broken off, not as failed."""
    ended = Looks()
    ended.background.put("a", 3600)
    ended.background.claims["one"] = "a"
    ended.background.broken_off["two"] = ("b", True)
    looks = Looks()

    async def go_on() -> None:
        looks.background.adopt(ended.background)
        looks.background.start()
        await looks.until(1)
        await looks.background.stop()

    started = time.monotonic()
    asyncio.run(go_on())
    assert time.monotonic() - started < PATIENT_SECONDS
    assert looks.users == ["a"]
    assert looks.background.broken_off == {"one": ("a", False), "two": ("b", True)}


@pytest.mark.parametrize("begin", [UserSchedule.start, lambda background: background.put_back("b", 3600)])
async def test_background_has_one_task(begin: Callable[[UserSchedule], None]):
    looks = Looks()
    looks.background.put("a", 3600)
    looks.background.start()
    await turns()
    before = {task for task in asyncio.all_tasks() if task.get_name() == "memory_context jobs"}
    assert len(before) == 1
    begin(looks.background)
    await turns()
    assert {task for task in asyncio.all_tasks() if task.get_name() == "memory_context jobs"} == before
    await looks.background.stop()
