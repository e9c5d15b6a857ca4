"""Random lives under scripted observers: nothing is lost or doubled, also in killed and in two processes."""

import asyncio
import random

import pytest

from benchmarks.observation_lives import KINDS, Life, Script, Watch, live, policy_of, varied_constants
from memory_context import MemoryContext, MemoryStore

from ..conftest import StartPython

SEEDS = 100
EVENTS = 16
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"  # never opened: nothing is large or archived

# A child lives on an archived session. It kills itself at a given number of callbacks of the event loop: at some await.
CHILD = """
import asyncio, os, random, signal
from benchmarks.observation_lives import Life, Script, Watch, policy_of, varied_constants
from memory_context import MemoryContext, MemoryStore

async def main():
    rng = random.Random({seed})
    varied_constants(random.Random({seed}), {kind!r}).__enter__()
    policy = policy_of(random.Random({seed}), {kind!r}, is_archived=True)
    context = MemoryContext("alice", "coder", "{session}", MemoryStore({url!r}), policy=policy)
    life = Life(context, Script({kind!r}, rng), rng, Watch(), number={number})
    life.leaves_out = ("save_and_load", "clear")
    life.take(context)
    await context.resume()
    await life.live({events})
    await context.close()
    await context.memory_store.close()

ran = 0
run = asyncio.events.Handle._run

def count(handle):
    global ran
    ran += 1
    if ran == {last}:
        os.kill(os.getpid(), signal.SIGKILL)
    return run(handle)

asyncio.events.Handle._run = count
asyncio.run(main())
"""


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
async def test_no_life_loses_or_doubles_a_message(first: int):
    """Each message is in the view, the log or a fold; positions, budget, pairing, task and prefix keep their rules."""
    for seed in range(first, first + 10):
        try:
            await live(MemoryStore(NOWHERE), seed, EVENTS)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, {KINDS[seed % len(KINDS)]}") from error


async def continued(store: MemoryStore, session: str, seed: int) -> None:
    """Resume a session, check what it holds, and live on."""
    kind = KINDS[seed % len(KINDS)]
    policy = policy_of(random.Random(seed), kind, is_archived=True)
    with varied_constants(random.Random(seed), kind):
        context = MemoryContext("alice", "coder", session, store, policy=policy)
        life = Life(context, Script("lossless", random.Random(seed)), random.Random(seed), Watch(), number=9000)
        await context.resume()
        life.take(context)
        life.check_log()
        await life.look()
        await life.live(8)
        await life.context.close()


@pytest.mark.thorough
async def test_session_of_a_killed_process_resumes_without_gap_or_overlap(start_python: StartPython, database_url: str):
    """Killed at some await of its observers, activations and batches."""
    async with MemoryStore(database_url) as store:
        killed = 0
        for seed in range(4):
            script = CHILD.format(
                url=database_url,
                seed=seed,
                kind=KINDS[seed % len(KINDS)],
                session=f"killed-{seed}",
                number=0,
                events=20,
                last=60 + 70 * seed,
            )
            process = await start_python(script)
            _, err = await asyncio.wait_for(process.communicate(), 240)
            assert process.returncode in (0, -9), err.decode()
            killed += process.returncode == -9
            await continued(store, f"killed-{seed}", seed)
        assert killed >= 2


@pytest.mark.thorough
async def test_two_processes_on_one_session_keep_its_log_whole(start_python: StartPython, database_url: str):
    """One of them writes beside the other; what is resumed has neither gap nor overlap."""
    async with MemoryStore(database_url) as store:
        for seed in range(2):
            scripts = [
                CHILD.format(
                    url=database_url,
                    seed=seed,
                    kind=KINDS[seed],
                    session=f"shared-{seed}",
                    number=5000 * number,
                    events=12,
                    last=-1,
                )
                for number in range(2)
            ]
            processes = [await start_python(script) for script in scripts]
            ended = await asyncio.wait_for(asyncio.gather(*(one.communicate() for one in processes)), 240)
            assert [one.returncode for one in processes] == [0, 0], [err.decode()[-2000:] for _, err in ended]
            await continued(store, f"shared-{seed}", seed)
