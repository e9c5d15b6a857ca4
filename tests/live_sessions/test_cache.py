"""The session cache alone: who has a session when, what is kept of it, and what happens when things fail."""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any

import pytest

from memory_context import MemoryStore
from memory_context.foundation.errors import SessionBusyError, SessionGoneError, StoreUnavailableError
from memory_context.foundation.identifiers import SessionKey
from memory_context.sessions.live.cache import CacheStats, SessionCache
from memory_context.sessions.live.entry import CacheEntry
from tests.support.waiting import soon, until

from .fakes import Archive, FakeSession, States, key_of, settled, take_away

KEY = key_of("s")


@pytest.fixture
def archive() -> Archive:
    return Archive()


@pytest.fixture
def retries_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_context.sessions.live.entry._RETRY_SECONDS", (0.01, 0.02))


async def use(cache: SessionCache[FakeSession], key: SessionKey, text: str | None = None) -> FakeSession:
    async with cache.hold(key) as session:
        if text is not None:
            session.add(text)
    return session


async def test_a_session_is_made_once_and_stays(archive: Archive) -> None:
    """The second hold costs nothing: no claim, no reading, no writing."""
    cache = SessionCache(archive.make)
    first = await use(cache, KEY, "one")
    assert await use(cache, KEY, "two") is first
    assert first.calls == ["resume"]
    assert cache.peek(KEY) is first
    assert cache.stats == CacheStats(live=1, hits=1, misses=1)
    await cache.close()
    assert archive.lines[KEY] == ["one", "two"]
    assert first.calls == ["resume", "archive", "close"]


async def test_make_may_be_a_coroutine(archive: Archive) -> None:
    async def make(key: SessionKey) -> FakeSession:
        await asyncio.sleep(0)
        return archive.make(key)

    cache = SessionCache(make)
    assert (await use(cache, KEY)).calls == ["resume"]
    await cache.close()


async def test_holders_acquires_in_the_order_they_came(archive: Archive) -> None:
    cache = SessionCache(archive.make)
    order: list[int] = []

    async def work(number: int) -> None:
        async with cache.hold(KEY):
            order.append(number)
            await asyncio.sleep(0)
            order.append(number)

    await asyncio.gather(*(work(number) for number in range(10)))
    assert order == [number for number in range(10) for _ in range(2)]
    assert cache.stats == CacheStats(live=1, hits=9, misses=1, waits=9)
    await cache.close()


async def test_sessions_do_not_wait_for_each_other(archive: Archive) -> None:
    cache = SessionCache(archive.make)
    async with cache.hold(KEY), cache.hold(key_of("t")):
        assert cache.stats.waits == 0
    await cache.close()


async def test_a_wait_has_an_end(archive: Archive) -> None:
    """Who waited too long is told what the matter is, and leaves no trace."""
    cache = SessionCache(archive.make, wait_seconds=0.01)
    async with cache.hold(KEY):
        with pytest.raises(SessionBusyError, match=r"another request .* 's' .* within 0.01 s; try again"):
            await use(cache, KEY)
    await use(cache, KEY)
    assert cache.stats == CacheStats(live=1, hits=1, misses=1, waits=1, refusals=1)
    await cache.close()


async def test_too_long_a_queue_is_refused_at_once(archive: Archive) -> None:
    cache = SessionCache(archive.make, queue=1)
    async with cache.hold(KEY):
        waiting = asyncio.create_task(use(cache, KEY))
        await settled()
        with pytest.raises(SessionBusyError, match="1 requests wait"):
            await use(cache, KEY)
    await waiting
    await cache.close()


async def test_a_cancelled_waiter_leaves_no_trace(archive: Archive) -> None:
    """Also one that is cancelled just as its turn comes; the next has it then."""
    cache = SessionCache(archive.make)
    holding, release = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with cache.hold(KEY):
            holding.set()
            await release.wait()
            waiters[0].cancel()  # and does not know yet when the turn is passed
        waiters[1].cancel()  # has the turn, and does not know yet

    holder = asyncio.create_task(hold())
    await soon(holding)
    waiters = [asyncio.create_task(use(cache, KEY, str(number))) for number in range(3)]
    await settled()
    release.set()
    await asyncio.gather(holder, *waiters, return_exceptions=True)
    assert [waiter.cancelled() for waiter in waiters] == [True, True, False]
    assert archive.made[0].messages == ["2"]
    await cache.close()


async def test_nothing_is_left_of_a_session_that_nobody_has(archive: Archive) -> None:
    """Not even a place, when making it failed and who waited was cancelled as the turn came."""
    waiters: list[asyncio.Task[FakeSession]] = []

    class CancellingStates(States):
        async def load(self, key: SessionKey) -> Mapping[str, Any] | None:
            asyncio.get_running_loop().call_soon(waiters[-1].cancel)
            return None

    cache = SessionCache(archive.make, states=CancellingStates(), size=1)
    archive.is_away = True
    for name in "abc":  # three places would be too many
        first = asyncio.create_task(use(cache, key_of(name)))
        waiters.append(asyncio.create_task(use(cache, key_of(name))))
        outcomes = await asyncio.gather(first, waiters[-1], return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [StoreUnavailableError, asyncio.CancelledError]
    await cache.close()


async def test_a_state_is_saved_though_its_holder_is_cancelled(archive: Archive) -> None:
    """While it is being saved; whoever is next waits until it is."""
    saving, gate = asyncio.Event(), asyncio.Event()

    class SlowStates(States):
        async def save(self, key: SessionKey, state: Mapping[str, Any]) -> None:
            saving.set()
            await gate.wait()
            await super().save(key, state)

    states = SlowStates()
    cache = SessionCache(archive.make, states=states)
    holder = asyncio.create_task(use(cache, KEY, "one"))
    await soon(saving)
    holder.cancel()
    await asyncio.gather(holder, return_exceptions=True)
    following = asyncio.create_task(use(cache, KEY))
    await settled()
    assert (cache.stats.waits, cache.stats.hits) == (1, 0)
    gate.set()
    await following
    assert states.kept[KEY] == {"messages": ["one"]}
    await cache.close()


async def test_whoever_is_cancelled_at_work_loses_nothing(archive: Archive) -> None:
    """What was said stays, the state is saved, and the next has the turn."""
    states = States()
    cache = SessionCache(archive.make, states=states)
    holding = asyncio.Event()

    async def hold() -> None:
        async with cache.hold(KEY) as session:
            session.add("said")
            holding.set()
            await asyncio.Event().wait()

    holder = asyncio.create_task(hold())
    await soon(holding)
    holder.cancel()
    await asyncio.gather(holder, return_exceptions=True)
    assert (await use(cache, KEY)).messages == ["said"]
    assert states.kept[KEY] == {"messages": ["said"]}
    await cache.close()


@pytest.mark.parametrize("fails", ["make", "resume", "cancelled"])
async def test_a_session_that_cannot_be_made_is_forgotten(archive: Archive, store: MemoryStore, fails: str) -> None:
    """The claim is let go, the error reaches the caller, and the next one tries again."""
    other = SessionCache(archive.make, memory_store=store)
    reached = asyncio.Event()

    async def make(key: SessionKey) -> FakeSession:
        if fails == "make":
            raise ValueError("no such agent")
        if fails == "cancelled":
            reached.set()
            await asyncio.Event().wait()
        return archive.make(key)

    cache = SessionCache(make, memory_store=store)
    archive.is_away = fails == "resume"
    task = asyncio.create_task(use(cache, KEY))
    if fails == "cancelled":
        await soon(reached)
        task.cancel()
    with pytest.raises((ValueError, StoreUnavailableError, asyncio.CancelledError)):
        await task
    assert all(session.is_closed.is_set() for session in archive.made)
    assert cache.peek(KEY) is None
    assert cache.stats.live == 0
    archive.is_away = False
    await use(other, KEY)
    await cache.close()
    await other.close()


async def test_a_state_is_saved_after_each_hold(archive: Archive) -> None:
    """And another process goes on from it, with what was never archived."""
    states = States()
    cache = SessionCache(archive.make, states=states)
    await use(cache, KEY, "one")
    assert states.kept[KEY] == {"messages": ["one"]}
    elsewhere = SessionCache(archive.make, states=states)  # as after a kill: nobody let go of anything
    session = await use(elsewhere, KEY, "two")
    assert session.calls == ["load_state", "save_state"]
    assert session.messages == ["one", "two"]
    assert archive.lines[KEY] == []


async def test_a_state_that_is_not_saved_is_saved_later(archive: Archive, caplog: pytest.LogCaptureFixture) -> None:
    """The session goes on; it is tried again at the next hold, or when it leaves."""
    states = States()
    cache = SessionCache(archive.make, states=states)
    await use(cache, KEY)
    states.is_away = True
    await use(cache, KEY, "one")
    await use(cache, KEY)
    assert caplog.text.count("is not saved for now") == 1
    states.is_away = False
    await use(cache, KEY)
    assert states.kept[KEY] == {"messages": ["one"]}
    states.is_away = True
    await use(cache, KEY, "two")
    assert caplog.text.count("is not saved for now") == 2, "another outage"
    states.is_away = False
    await cache.close()
    assert states.is_closed


async def test_the_archive_takes_what_the_states_do_not(archive: Archive, store: MemoryStore) -> None:
    """A session that is asked for leaves although its state cannot be saved; nothing is missing afterwards."""
    states = States()
    here = SessionCache(archive.make, memory_store=store, states=states)
    there = SessionCache(archive.make, memory_store=store)
    await use(here, KEY, "one")
    states.is_away = True
    await use(here, KEY, "two")
    assert (await use(there, KEY)).messages == ["one", "two"]
    assert here.stats.handovers == 1
    await here.close()
    await there.close()


async def test_the_least_recently_used_leaves_for_another(archive: Archive) -> None:
    """It is archived and closed, and made again when it is asked for."""
    cache = SessionCache(archive.make, size=2)
    a = await use(cache, key_of("a"), "one")
    await use(cache, key_of("b"))
    await use(cache, key_of("a"))
    b = cache.peek(key_of("b"))
    assert b is not None
    await use(cache, key_of("c"))
    await soon(b.is_closed)
    assert cache.peek(key_of("a")) is a
    await use(cache, key_of("d"))
    await soon(a.is_closed)
    assert archive.lines[key_of("a")] == ["one"]
    assert (await use(cache, key_of("a"))).messages == ["one"]
    await settled()
    assert cache.stats == CacheStats(live=2, hits=1, misses=5, evictions=3)
    await cache.close()


async def test_who_comes_while_a_session_leaves_waits_and_has_it_anew(archive: Archive) -> None:
    """Nothing lives twice, nothing is lost, and nobody else is held up."""
    cache = SessionCache(archive.make, size=1)
    archive.gate = asyncio.Event()
    old = await use(cache, KEY, "one")
    await use(cache, key_of("t"))
    await settled()
    assert old.calls == ["resume", "archive"]
    late = asyncio.create_task(use(cache, KEY, "two"))
    await use(cache, key_of("t"))
    assert not late.done()
    archive.gate.set()
    new = await late
    assert new is not old
    assert new.messages == ["one", "two"]
    await cache.close()


async def test_who_waits_for_a_session_that_leaves_waits_with_a_bound(archive: Archive) -> None:
    """Though archiving it hangs."""
    cache = SessionCache(archive.make, size=1, wait_seconds=0.01)
    archive.gate = asyncio.Event()
    await use(cache, KEY, "one")
    await use(cache, key_of("t"))
    await settled()
    with pytest.raises(SessionBusyError):
        await use(cache, KEY)
    archive.gate.set()
    await cache.close()
    assert archive.lines[KEY] == ["one"]


async def test_an_idle_session_leaves(archive: Archive) -> None:
    cache = SessionCache(archive.make, idle_seconds=0.01)
    session = await use(cache, KEY, "one")
    await soon(session.is_closed)
    await settled()
    assert archive.lines[KEY] == ["one"]
    assert cache.stats == CacheStats(live=0, misses=1, evictions=1)
    async with cache.hold(KEY) as session:  # a session at work is not idle
        await use(cache, key_of("t"))
        await soon(archive.live[key_of("t")][0].is_closed)
        assert not session.is_closed.is_set()
    await cache.close()


async def test_many_sessions_leave_a_few_at_a_time(archive: Archive) -> None:
    """So that those at work find a connection to the store."""
    cache = SessionCache(archive.make, idle_seconds=0.01)
    archive.gate = asyncio.Event()
    sessions = [await use(cache, key_of(str(number)), "one") for number in range(20)]
    await until(lambda: any(session.calls[-1] == "archive" for session in sessions))
    await settled()
    assert sum("archive" in session.calls for session in sessions) == 4
    archive.gate.set()
    for session in sessions:
        await soon(session.is_closed)
    await cache.close()


@pytest.mark.usefixtures("retries_soon")
async def test_what_cannot_be_archived_stays_until_it_can(archive: Archive, caplog: pytest.LogCaptureFixture) -> None:
    """Live, claimed and in use, with a warning; and leaves when the store is back, though nobody asks again."""
    states = States({key_of("t"): {"messages": []}})  # made from that while the store is away
    cache = SessionCache(archive.make, states=states, size=1)
    session = await use(cache, KEY, "one")
    archive.is_away = True
    await use(cache, key_of("t"))
    await settled()
    assert "stays here and is archived later" in caplog.text
    assert await use(cache, KEY, "two") is session
    async with cache.hold(key_of("t")):  # which is in use, so that only the other one can leave
        await settled()
        archive.is_away = False
        await soon(session.is_closed)
    assert archive.lines[KEY] == ["one", "two"]
    await cache.close()


async def test_wait_between_attempts_to_archive_doubles_up_to_a_limit(
    archive: Archive, caplog: pytest.LogCaptureFixture
) -> None:
    """And begins anew once something was archived. An outage is one warning, and one line when it is over."""
    caplog.set_level(logging.DEBUG, "memory_context")
    entry = CacheEntry(KEY, archive.make, None, None)
    waits = lambda: [record.args[1] for record in caplog.records if record.args]  # noqa: E731
    for away_for, expected in ((9, [5, 10, 20, 40, 80, 160, 300, 300, 300]), (1, [5])):
        await entry.claim(0)
        (await entry.fill()).add("one")
        archive.is_away = True
        caplog.clear()
        for _ in range(away_for):
            before = time.monotonic()
            assert not await entry.leave()
            assert before + waits()[-1] <= entry.breaker.retry_at <= time.monotonic() + waits()[-1]
        assert waits() == expected
        assert [record.levelname for record in caplog.records] == ["WARNING", *["DEBUG"] * (away_for - 1)]
        archive.is_away = False
        assert await entry.leave()
        assert caplog.records[-1].getMessage() == f"archiving session {KEY.session_id!r} again"


async def test_too_many_sessions_are_refused(archive: Archive) -> None:
    """Twice the size, all at work: no more; then there is room again."""
    cache = SessionCache(archive.make, size=1)
    async with cache.hold(key_of("a")), cache.hold(key_of("b")):
        with pytest.raises(SessionBusyError, match="too many sessions at work: 2"):
            await use(cache, key_of("c"))
    await settled()
    await use(cache, key_of("c"))
    await settled()
    assert cache.stats == CacheStats(live=1, misses=3, evictions=2, refusals=1)
    await cache.close()


async def test_an_idle_session_is_handed_over_at_once(archive: Archive, store: MemoryStore) -> None:
    """Who asks has all that was said."""
    here, there = (SessionCache(archive.make, memory_store=store) for _ in range(2))
    old = await use(here, KEY, "one")
    new = await use(there, KEY, "two")
    assert (old.calls, new.messages) == (["resume", "archive", "close"], ["one", "two"])
    assert here.stats == CacheStats(misses=1, handovers=1)
    await here.close()
    await there.close()


async def test_a_session_at_work_is_handed_over_after_that(archive: Archive, store: MemoryStore) -> None:
    """Before who waits for it here: those who asked first are first."""
    here, there = (SessionCache(archive.make, memory_store=store) for _ in range(2))
    async with here.hold(KEY) as session:
        asking = asyncio.create_task(use(there, KEY, "two"))
        await until(lambda: here._entries[KEY].is_wanted)
        waiting = asyncio.create_task(use(here, KEY, "three"))
        await settled()
        session.add("one")
    await asking
    assert (await waiting).messages == ["one", "two", "three"]
    await here.close()
    await there.close()


async def test_who_does_not_get_a_session_from_elsewhere_is_told(archive: Archive, store: MemoryStore) -> None:
    here = SessionCache(archive.make, memory_store=store)
    there = SessionCache(archive.make, memory_store=store, wait_seconds=0.01)
    async with here.hold(KEY):
        with pytest.raises(SessionBusyError, match=r"another process is at work on session 's'"):
            await use(there, KEY)
    assert there.stats == CacheStats(misses=1, refusals=1)
    await here.close()
    await there.close()


async def test_with_states_a_handover_archives_nothing(archive: Archive, store: MemoryStore) -> None:
    """The saved state says everything."""
    states = States()
    here, there = (SessionCache(archive.make, memory_store=store, states=states) for _ in range(2))
    old = await use(here, KEY, "one")
    new = await use(there, KEY, "two")
    assert old.calls == ["resume", "save_state", "close"]
    assert new.messages == ["one", "two"]
    await here.close()
    await there.close()
    assert archive.lines[KEY] == ["one", "two"]


@pytest.mark.usefixtures("retries_soon")
async def test_what_cannot_be_handed_over_stays_and_goes_when_it_can(archive: Archive, store: MemoryStore) -> None:
    """The other process is told that it is busy, not given a session that misses something."""
    here = SessionCache(archive.make, memory_store=store)
    there = SessionCache(archive.make, memory_store=store, wait_seconds=0.5)
    old = await use(here, KEY, "one")
    archive.is_away = True
    with pytest.raises(SessionBusyError):
        await use(there, KEY)
    assert here.peek(KEY) is old
    archive.is_away = False
    patient = SessionCache(archive.make, memory_store=store)
    assert (await use(patient, KEY)).messages == ["one"]
    for cache in (here, there, patient):
        await cache.close()


async def test_a_lost_session_without_news_is_dropped_unwritten(archive: Archive, store: MemoryStore) -> None:
    """And made anew at the next use: another process may have gone on with it."""
    cache = SessionCache(archive.make, memory_store=store)
    old = await use(cache, KEY)
    archive.lines[KEY].append("from elsewhere")
    await take_away(store, KEY)
    assert (await use(cache, KEY)).messages == ["from elsewhere"]
    assert old.calls == ["resume", "close"]
    await cache.close()


async def test_what_a_lost_session_knows_is_archived_beside_the_others(archive: Archive, store: MemoryStore) -> None:
    """Idle or at work: nothing is lost or overwritten, and the holder may not answer."""
    cache = SessionCache(archive.make, memory_store=store)
    idle = await use(cache, key_of("idle"), "one")

    async def work() -> None:
        async with cache.hold(KEY) as session:
            for key in (KEY, key_of("idle")):
                archive.lines[key].append("from elsewhere")
                await take_away(store, key)
            session.add("mine")

    with pytest.raises(SessionBusyError, match="lost session 's' to another"):
        await work()
    for one in (archive.made[-1], idle):
        await soon(one.is_closed)
    assert archive.lines == {KEY: ["from elsewhere"], key_of("idle"): ["from elsewhere"]}
    assert archive.branches == {KEY: ["mine"], key_of("idle"): ["one"]}
    await cache.close()


@pytest.mark.parametrize("fails", [False, True])
async def test_a_lost_session_saves_no_state(archive: Archive, store: MemoryStore, fails: bool) -> None:
    """It could replace a newer one, also after a failure; what it knows goes to the archive."""
    states = States()
    cache = SessionCache(archive.make, memory_store=store, states=states)

    async def work() -> None:
        async with cache.hold(KEY) as session:
            session.add("mine")
            await take_away(store, KEY)
            states.kept[KEY] = {"messages": ["from elsewhere"]}
            if fails:
                raise ValueError

    with pytest.raises(ValueError if fails else SessionBusyError):
        await work()
    assert archive.made[-1].is_closed.is_set()
    assert states.kept[KEY] == {"messages": ["from elsewhere"]}
    assert archive.lines[KEY] == ["mine"]
    await cache.close()


async def test_a_lost_session_is_kept_until_it_can_be_archived(archive: Archive, store: MemoryStore) -> None:
    """Nobody works on it meanwhile; the next one makes it durable first."""
    cache = SessionCache(archive.make, memory_store=store)
    old = await use(cache, KEY, "one")
    archive.is_away = True
    await take_away(store, KEY)
    with pytest.raises(StoreUnavailableError, match="still to be archived"):
        await use(cache, KEY)
    assert not old.is_closed.is_set()
    archive.is_away = False
    new = await use(cache, KEY, "two")
    assert new is not old
    assert new.messages == ["one", "two"]
    await take_away(store, KEY)
    assert await use(cache, KEY) is not new, "it had the session, and lost it again"
    await cache.close()


async def test_a_discarded_session_is_not_archived(archive: Archive) -> None:
    """At once, or after who is at work; its state goes too."""
    states = States()
    cache = SessionCache(archive.make, states=states)
    idle = await use(cache, KEY, "one")
    await cache.discard(KEY)
    async with cache.hold(KEY) as busy:
        assert busy is not idle
        busy.add("two")
        await cache.discard(KEY)
        assert cache.peek(KEY) is None
    await settled()
    assert busy.is_closed.is_set()
    assert (archive.lines[KEY], states.kept) == ([], {})
    await cache.discard(key_of("unknown"))
    await cache.close()


async def test_a_session_that_was_deleted_elsewhere_leaves(archive: Archive) -> None:
    """The archive refuses it for good: there is nothing to keep it for."""
    cache = SessionCache(archive.make)
    session = await use(cache, KEY, "one")

    async def refuse() -> None:
        raise SessionGoneError("deleted yesterday")

    session.archive = refuse  # type: ignore[method-assign]
    await cache.close()
    assert session.is_closed.is_set()


async def test_closing_waits_for_those_at_work_and_refuses_the_rest(archive: Archive, store: MemoryStore) -> None:
    """Everything is archived and let go."""
    cache_states = States()
    cache = SessionCache(archive.make, memory_store=store, states=cache_states)
    await use(cache, key_of("idle"), "idle")
    holding, release = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with cache.hold(KEY) as session:
            holding.set()
            await release.wait()
            session.add("last words")

    holder = asyncio.create_task(hold())
    await soon(holding)
    waiting = asyncio.create_task(use(cache, KEY))
    await settled()
    closing = asyncio.create_task(cache.close())
    with pytest.raises(SessionBusyError, match="shutting down"):
        await soon(waiting)
    with pytest.raises(SessionBusyError, match="shutting down"):
        await use(cache, KEY)
    assert not closing.done()
    release.set()
    await asyncio.gather(holder, closing)
    assert archive.lines == {KEY: ["last words"], key_of("idle"): ["idle"]}
    assert cache.stats.live == 0
    assert cache_states.is_closed
    other = SessionCache(archive.make, memory_store=store, wait_seconds=0.01)
    await use(other, KEY)
    await cache.close()


async def test_closing_does_not_wait_for_ever(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither for who does not end, nor for a store that is away; what is lost is said."""
    monkeypatch.setattr("memory_context.sessions.live.cache._CLOSE_SECONDS", 0.01)
    cache = SessionCache(archive.make)
    holding = asyncio.Event()

    async def hold() -> None:
        async with cache.hold(KEY) as session:
            session.add("one")
            holding.set()
            await asyncio.Event().wait()

    holder = asyncio.create_task(hold())
    await soon(holding)
    await use(cache, key_of("t"), "two")
    archive.is_away = True
    await cache.close()
    assert caplog.text.count("ends without being archived: away") == 2
    holder.cancel()
    await asyncio.gather(holder, return_exceptions=True)
    other = SessionCache(archive.make)
    archive.is_away = False
    await use(other, KEY, "three")
    archive.gate = asyncio.Event()
    await other.close()
    assert "may be lost" in caplog.text


async def test_holder_whose_cache_is_closed_over_it_is_not_cancelled(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache gives up saving a state; the holder's task ends as it would have."""
    monkeypatch.setattr("memory_context.sessions.live.cache._CLOSE_SECONDS", 0.01)
    states, is_saving = States(), asyncio.Event()

    async def hang(key: SessionKey, state: Mapping[str, Any]) -> None:
        is_saving.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(states, "save", hang)
    cache = SessionCache(archive.make, states=states)
    holder = asyncio.create_task(use(cache, KEY, "one"))
    await soon(is_saving)
    await cache.close()
    assert (await holder).messages == ["one"]


def test_a_cache_belongs_to_one_event_loop(archive: Archive) -> None:
    """It says so, instead of waiting for a loop that is gone; and a loop may end without closing it."""
    cache = SessionCache(archive.make)
    asyncio.run(use_once(cache))
    with pytest.raises(RuntimeError, match="belongs to the event loop"):
        asyncio.run(use_once(cache))


async def use_once(cache: SessionCache[FakeSession]) -> None:
    await use(cache, KEY)


@pytest.mark.parametrize("bound", ["size", "idle_seconds", "wait_seconds"])
def test_bounds_are_above_zero(archive: Archive, bound: str) -> None:
    with pytest.raises(ValueError, match=f"{bound}=0"):
        SessionCache(archive.make, **{bound: 0})  # type: ignore[arg-type]
