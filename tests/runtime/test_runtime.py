"""Background, Flusher, Breaker and in_thread_if_large, under random histories of two event loops and one clock."""

import asyncio
import gc
import threading
import time
from collections import Counter
from collections.abc import Coroutine
from functools import partial
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from memory_context.foundation.errors import StoreUnavailableError
from memory_context.foundation.runtime.background import (
    LARGE_CHARACTERS,
    Background,
    Breaker,
    PerLoop,
    Timer,
    attempt,
    in_thread_if_large,
)
from memory_context.foundation.runtime.buffers import Flusher
from tests.support.waiting import soon

from ..context.steps import a_turn_of_the_loop

BATCH, BATCH_SECONDS, RETRY_SECONDS = 3, 5.0, 20.0
LOOPS = st.sampled_from([0, 1])


class FailedError(Exception):
    """What the work of these tests raises."""


class Caller:
    """A task of the test that waits for the code under test, and whether the test cancelled it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Coroutine[Any, Any, Any]) -> None:
        self.loop = loop
        self.task = loop.create_task(call)
        self.is_cancelled = False

    def check(self) -> None:
        """A caller is cancelled by its own cancellation only."""
        if self.task.done() and self.task.cancelled():
            assert self.is_cancelled
        elif self.task.done():
            assert self.task.exception() is None or isinstance(
                self.task.exception(), (FailedError, StoreUnavailableError, asyncio.TimeoutError)
            )


class Histories(RuleBasedStateMachine):
    """Work is slow, fails, or resists its cancellation; callers are cancelled; loops end, are dropped, and follow."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(time, "monotonic", lambda: self.now)  # asyncio's clock, too
        self.complaints: list[dict[str, Any]] = []
        self.loops = [self.new_loop(), self.new_loop()]
        self.callers: list[Caller] = []
        self.gates: list[asyncio.Future[str]] = []  # what each piece of work that is under way waits for
        self.holders: dict[asyncio.Future[str], tuple[asyncio.AbstractEventLoop, str]] = {}  # of work not given up
        self.added = 0
        self.buffer: list[int] = []
        self.written: list[int] = []
        self.flushes: list[Caller] = []
        self.failed_in: asyncio.AbstractEventLoop | None = None
        self.failed_at = 0.0
        self.noted_in: asyncio.AbstractEventLoop | None = None
        self.breaker = Breaker(2.0, failures_allowed=2, longest_seconds=8.0)
        self.in_a_row = 0
        self.numbers = count()
        self.background = Background[str]("work")
        self.flusher = Flusher(
            "flush",
            self.write,
            lambda: len(self.buffer),
            batch=BATCH,
            batch_seconds=BATCH_SECONDS,
            retry_seconds=RETRY_SECONDS,
            on_failure=self.note_failure,
        )

    def new_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda _, complaint: self.complaints.append(complaint))
        return loop

    def note_failure(self, error: BaseException) -> None:
        assert isinstance(error, FailedError)
        self.failed_in, self.failed_at = asyncio.get_running_loop(), self.now

    # --- the work

    @property
    def at_work(self) -> Counter[tuple[asyncio.AbstractEventLoop, str]]:
        return Counter(self.holders.values())

    async def gated(self, what: str, *, is_stubborn: bool = False) -> str:
        """Wait until the test says how it ends; a stubborn one swallows its first cancellation."""
        place = (asyncio.get_running_loop(), what)
        gate = asyncio.get_running_loop().create_future()
        self.gates.append(gate)
        self.holders[gate] = place
        assert self.at_work[place] == 1, "two at once in one event loop"
        outcome = ""
        try:
            for may_resist in (is_stubborn, False):
                try:
                    outcome = await asyncio.shield(gate)
                    break
                except asyncio.CancelledError:
                    if not may_resist:
                        raise
                    self.holders.pop(gate, None)  # given up: another may begin
        finally:
            self.holders.pop(gate, None)
            self.gates.remove(gate)
        if outcome == "fails":
            raise FailedError
        return outcome

    async def write(self) -> None:
        is_told = any(not one.task.done() and not one.loop.is_closed() for one in self.flushes)
        has_failed = self.failed_in is asyncio.get_running_loop()  # another loop's failure comes at any moment
        assert is_told or not has_failed or self.now >= self.failed_at + RETRY_SECONDS, "it is to be left alone"
        taken, self.buffer = self.buffer, []
        try:
            await self.gated("write")
        except BaseException:
            self.buffer = taken + self.buffer
            raise
        self.written += taken
        self.failed_in = None

    # --- what happens

    def run(self, place: int, call: Coroutine[Any, Any, Any]) -> None:
        self.callers.append(Caller(self.loops[place], call))

    @rule(place=LOOPS, seconds=st.sampled_from([None, 1.0]), is_stubborn=st.booleans())
    def ask_for_work(self, place: int, seconds: float | None, is_stubborn: bool) -> None:
        async def attempted() -> None:
            ended = await attempt(self.gated(f"attempt {next(self.numbers)}", is_stubborn=is_stubborn), seconds)
            assert ended is None or ended.done()

        work = partial(self.gated, "work", is_stubborn=is_stubborn)
        self.run(place, self.background.result(work, seconds))
        self.run(place, attempted())

    @rule(place=LOOPS, is_shielded=st.booleans())
    def flush(self, place: int, is_shielded: bool) -> None:
        self.run(place, self.flusher.flush(is_shielded=is_shielded))
        self.flushes.append(self.callers[-1])

    @rule(place=st.sampled_from([0, 1, None]))
    def add(self, place: int | None) -> None:
        """Also without an event loop."""
        self.buffer.append(self.added)
        self.added += 1
        if place is None:
            self.flusher.note()
            self.noted_in = None
        else:
            self.loops[place].call_soon(self.flusher.note)
            self.noted_in = self.loops[place]

    @rule(works=st.booleans())
    def try_something(self, works: bool) -> None:
        """A breaker by itself: two failures in a row open it, then each one; 2 s, 4 s, 8 s, 8 s, and 2 s again."""
        self.in_a_row = 0 if works else self.in_a_row + 1
        if works:
            self.breaker.worked()
        else:
            assert self.breaker.failed() == (0.0, 2.0, 4.0, 8.0)[min(self.in_a_row, 4) - 1]
        assert self.breaker.is_open == (self.in_a_row > 1)

    @rule(place=LOOPS, turns=st.integers(1, 12))
    def step(self, place: int, turns: int) -> None:
        """Let an event loop go on by some turns."""
        loop = self.loops[place]
        for _ in range(turns):
            loop.call_soon(loop.stop)
            loop.run_forever()

    @rule(choice=st.integers(0, 7), outcome=st.sampled_from(["works", "works", "fails"]))
    def end_work(self, choice: int, outcome: str) -> None:
        self.turn()
        open_gates = [gate for gate in self.gates if not gate.done() and not gate.get_loop().is_closed()]
        if open_gates:
            gate = open_gates[choice % len(open_gates)]
            gate.set_result(outcome)
            self.turn()

    @rule(place=LOOPS)
    def outage(self, place: int) -> None:
        self.add(place)
        self.flush(place, is_shielded=True)
        self.turn()
        for _ in range(len(self.gates)):
            self.end_work(0, "fails")
        self.wait(BATCH_SECONDS)

    @rule(place=LOOPS)
    def flush_during_a_write(self, place: int) -> None:
        """What was added before a flush is written when that returns, also if a write is under way."""
        for _ in range(2):
            self.add(place)
            self.flush(place, is_shielded=True)
            self.turn()
        flush = self.callers[-1].task
        for _ in range(10):
            self.end_all_work()
            self.turn()
        assert flush.done()
        assert flush.exception() is not None or self.buffer == []

    @rule(place=LOOPS, is_stubborn=st.booleans())
    def overdue_attempt(self, place: int, is_stubborn: bool) -> None:
        self.ask_for_work(place, 1.0, is_stubborn)
        self.turn()
        self.wait(1.0)
        assert self.callers[-1].task.done()

    @rule(place=LOOPS)
    def cancelled_flush(self, place: int) -> None:
        self.add(place)
        self.turn()
        self.flush(place, is_shielded=False)
        self.turn()
        self.callers[-1].is_cancelled = self.callers[-1].task.cancel()
        self.go_on()
        assert self.buffer == []

    @rule(choice=st.integers(0, 7))
    def cancel_caller(self, choice: int) -> None:
        waiting = [one for one in self.callers if not one.task.done() and not one.loop.is_closed()]
        if waiting:
            caller = waiting[choice % len(waiting)]
            caller.is_cancelled = caller.task.cancel()

    @rule(seconds=st.sampled_from([0.3, BATCH_SECONDS, RETRY_SECONDS]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.turn()

    def turn(self) -> None:
        for place in (0, 1):
            self.step(place, 4)

    @rule(place=LOOPS)
    def give_up(self, place: int) -> None:
        """As a context that is closed; from any event loop or none."""

        async def cancel() -> None:
            self.background.cancel()  # another event loop hears of it with its next turn, and may begin anew before
            for gate in [gate for gate, (_, what) in self.holders.items() if what == "work"]:
                del self.holders[gate]

        self.run(place, cancel())

    @rule(place=LOOPS)
    def stop_stubborn_work(self, place: int) -> None:
        self.ask_for_work(place, None, is_stubborn=True)
        self.turn()
        self.stop(place)

    @rule(place=LOOPS)
    def stop(self, place: int) -> None:
        """In mid-flight: afterwards nothing of ours is under way in this event loop."""

        async def stop() -> None:
            await self.background.stop()
            await self.flusher.stop()
            assert self.background.running() is None
            assert not self.at_work[asyncio.get_running_loop(), "write"]

        self.turn()
        # what a write here had taken when another event loop looked for it is planned by nobody until the next note
        has_taken = self.at_work[self.loops[place], "write"] or self.noted_in is self.loops[place]
        self.run(place, stop())
        while not self.callers[-1].task.done():
            self.step(place, 4)
            self.now += 0.1
        self.callers.pop().task.result()
        self.noted_in = None if has_taken else self.noted_in

    @rule(place=LOOPS)
    def end_loop(self, place: int) -> None:
        """As asyncio.run does: cancel everything, wait for it, let `Unwritten` close what is there, close."""
        loop = self.loops[place]
        for caller in self.callers:
            caller.is_cancelled |= caller.loop is loop
        for _ in range(2):
            for task in asyncio.all_tasks(loop):
                task.cancel()
            self.step(place, 12)
        self.stop(place)
        assert not asyncio.all_tasks(loop)
        loop.close()
        self.loops[place] = self.new_loop()

    @rule(place=LOOPS)
    def drop_loop(self, place: int) -> None:
        """Closed by hand: what was under way stands still for ever; what was being written is lost with it."""
        self.step(place, 3)  # so that everything has begun
        if self.at_work[self.loops[place], "write"]:
            return  # the end of a loop is watched for by `Unwritten`
        for task in asyncio.all_tasks(self.loops[place]):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.callers = [caller for caller in self.callers if caller.loop is not self.loops[place]]
        self.loops[place].close()
        self.noted_in = None if self.noted_in is self.loops[place] else self.noted_in
        self.loops[place] = self.new_loop()

    # --- what holds

    @invariant()
    def nothing_is_lost_or_written_twice(self) -> None:
        in_flight = self.added - len(self.buffer) - len(self.written)
        assert in_flight == 0 or any(self.at_work[loop, "write"] for loop in self.loops)
        assert len({*self.written}) == len(self.written)

    @invariant()
    def callers_are_answered_and_cancelled_by_their_own_cancellation_only(self) -> None:
        for caller in self.callers:
            caller.check()

    def go_on(self) -> None:
        """Let time pass while everything works."""
        for _ in range(8):
            self.wait(BATCH_SECONDS)
            self.end_all_work()

    def end_all_work(self) -> None:
        while any(not gate.done() and not gate.get_loop().is_closed() for gate in self.gates):
            self.end_work(0, "works")

    def teardown(self) -> None:
        """Whatever happened, a loop in which the store works again writes everything, without being asked."""
        try:
            if self.noted_in is not None:
                self.go_on()
                assert self.buffer == []
            self.end_loop(0)
            self.end_loop(1)
            self.now += RETRY_SECONDS
            self.add(0)
            self.go_on()
            assert sorted(self.written) == list(range(self.added))
            self.end_loop(0)
            for loop in self.loops:
                loop.close()
            self.callers_are_answered_and_cancelled_by_their_own_cancellation_only()
            self.callers.clear()
            self.loops.clear()
            gc.collect()
            assert self.complaints == []
        finally:
            self.patch.undo()


Histories.TestCase.settings = settings(
    stateful_step_count=30,
    deadline=None,
    phases=[Phase.reuse, Phase.generate],  # a history is short enough to be read as it was found
    suppress_health_check=[*HealthCheck],
)
test_runtime_keeps_its_promises_in_random_histories = Histories.TestCase


@pytest.mark.parametrize("cancelled", ["the work", "the caller", "both"])
async def test_caller_of_shared_work_is_cancelled_by_its_own_cancellation_only(cancelled: str):
    """What only the caller gives up goes on."""
    is_over = asyncio.Event()
    background = Background[bool]("work")
    work = background.start(is_over.wait)
    caller = asyncio.create_task(background.result(is_over.wait, if_stopped="it was closed"))
    await a_turn_of_the_loop()
    if cancelled != "the caller":
        work.cancel()
    if cancelled != "the work":
        caller.cancel()
    (outcome,) = await asyncio.gather(caller, return_exceptions=True)
    if cancelled == "the caller":
        assert not work.done()
    is_over.set()
    await asyncio.wait([work])
    if cancelled == "the work":
        assert isinstance(outcome, StoreUnavailableError)
        assert str(outcome) == "it was closed"
    else:
        assert isinstance(outcome, asyncio.CancelledError)


# --- timers, threads


async def test_timer_calls_once_at_the_soonest_time_that_was_said():
    calls: list[float] = []
    is_called = asyncio.Event()

    def on_time() -> None:
        calls.append(time.monotonic())
        is_called.set()

    timer = Timer(on_time)
    began = time.monotonic()
    for seconds in (3600, 0.02, 7200):
        timer.plan(seconds)
    await soon(is_called.wait())
    assert calls[0] >= began + 0.02 - 0.001
    for _ in range(20):
        await a_turn_of_the_loop()
    assert len(calls) == 1
    is_called.clear()
    timer.plan(0)
    await soon(is_called.wait())


async def test_cancelling_a_key_leaves_the_tasks_of_other_keys():
    background, release = Background[str]("test"), asyncio.Event()

    async def work() -> str:
        await release.wait()
        return "done"

    kept, cancelled = background.start(work, "kept"), background.start(work, "cancelled")
    background.cancel("cancelled", "unknown")
    assert background.start(work, "kept") is kept
    again = background.start(work, "cancelled")
    assert again is not cancelled
    release.set()
    await soon(asyncio.wait([kept, cancelled, again]))
    assert (kept.result(), cancelled.cancelled(), again.result()) == ("done", True, "done")


async def test_cancelled_timer_does_not_call_and_can_be_planned_anew():
    calls: list[str] = []
    timer = Timer(lambda: calls.append("called"))
    timer.cancel()
    timer.plan(0)
    timer.cancel()
    for _ in range(20):
        await a_turn_of_the_loop()
    assert calls == []
    timer.plan(0)
    for _ in range(20):
        await a_turn_of_the_loop()
    assert calls == ["called"]


def test_timer_planned_in_a_loop_that_has_ended_is_planned_in_the_next():
    """However much sooner it was to be there."""
    is_called = asyncio.Event()
    timer = Timer(is_called.set)

    async def plan(seconds: float) -> None:
        timer.plan(seconds)

    async def plan_and_wait() -> None:
        await plan(0.2)
        await soon(is_called.wait())

    asyncio.run(plan(0.1))
    asyncio.run(plan_and_wait())


@pytest.mark.parametrize(("size", "is_large"), [(LARGE_CHARACTERS, False), (LARGE_CHARACTERS + 1, True)])
async def test_large_work_runs_in_a_thread_and_small_work_at_once(size: int, is_large: bool):
    called_in = await in_thread_if_large(size, threading.current_thread)
    assert (called_in is not threading.current_thread()) == is_large
    with pytest.raises(ZeroDivisionError):
        await in_thread_if_large(size, divmod, 1, 0)


def test_value_of_a_closed_loop_is_handed_to_the_next_one():
    adopted: list[tuple[list[str], list[str]]] = []
    values = PerLoop[list[str]](list, lambda here, ended: adopted.append((here, ended)))

    async def use(text: str) -> None:
        values.here().append(text)

    asyncio.run(use("first"))
    asyncio.run(use("second"))
    assert adopted == [(["second"], ["first"])]
    assert [value for _, value in values.all()] == [["second"]]
