"""SIGTERM and the program around a session: whoever has to do with the signal keeps what they have."""

import signal

import pytest

from memory_context import MemoryContext, MemoryStore
from tests.support.waiting import soon

from ..conftest import StartPython

WATCHED = """
import asyncio, multiprocessing, os, signal, threading
from memory_context.foundation.runtime.buffers import watch as watch_loop
from tests.context.steps import a_turn_of_the_loop

class Owner:
    async def write_out(self):
        print("flushed", flush=True)

    async def close_for_good(self):
        pass

owner = Owner()

async def watch():
    watch_loop(asyncio.get_running_loop(), owner)

def stop():
    os.kill(os.getpid(), signal.SIGTERM)

heard = threading.Event()

def mine(*_):
    heard.set()
    print("mine", flush=True)

async def go_on():
    "Whatever else the signal set off comes to its end."
    for _ in range(100):
        await a_turn_of_the_loop()

async def main():
    await watch()
"""

STORIES = {
    "a loop that waits": (
        """
    threading.Thread(target=stop).start()
    await asyncio.Event().wait()
asyncio.run(main())
""",
        b"flushed\n",
        -signal.SIGTERM,
    ),
    "a handler that came later": (
        """
    signal.signal(signal.SIGTERM, mine)
    stop()
    while not heard.is_set():
        await a_turn_of_the_loop()
    await go_on()
asyncio.run(main())
""",
        b"mine\n",
        0,
    ),
    "a handler of the loop that came later": (
        """
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, mine)
    stop()
    while not heard.is_set():
        await a_turn_of_the_loop()
    await go_on()
asyncio.run(main())
""",
        b"mine\n",
        0,
    ),
    "a child that is stopped": (
        """
    fork = multiprocessing.get_context("fork")
    ready = fork.Event()
    child = fork.Process(target=lambda: (ready.set(), signal.pause()))
    child.start()
    ready.wait()
    child.terminate()
    child.join(60)
    print(child.exitcode, flush=True)
    child.kill()
    await go_on()
asyncio.run(main())
""",
        b"-15\n",
        0,
    ),
    "no loop that runs": (
        """
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
stop()
signal.pause()
""",
        b"",
        -signal.SIGTERM,
    ),
    "a second run": (
        """
asyncio.run(main())
async def again():
    await watch()
    stop()
    await asyncio.Event().wait()
asyncio.run(again())
""",
        b"flushed\n",
        -signal.SIGTERM,
    ),
}


@pytest.mark.parametrize("story", STORIES)
@pytest.mark.thorough
async def test_sigterm_does_what_the_program_expects(start_python: StartPython, story: str):
    script, output, status = STORIES[story]
    process = await start_python(WATCHED + script)
    out, errors = await soon(process.communicate())
    assert (out, errors, process.returncode) == (output, b"", status)


ENDS = """
import asyncio, os, sys
from memory_context import MemoryContext, MemoryStore
from memory_context.sessions.archive import archiver
from tests.archive.talking import context_of, say

archiver._BATCH_MESSAGES = 2

async def main():
    async with MemoryStore(os.environ["TEST_URL"]) as store:
        context = context_of(store, None)
        for number in range(int(os.environ["TURNS"])):
            await say(context, f"Message {number}")

asyncio.run(main())
"""


@pytest.mark.parametrize("turns", [1, 2, 5])
@pytest.mark.thorough
async def test_a_program_that_closes_nothing_ends_without_a_word(
    start_python: StartPython, database_url: str, turns: int
):
    """A batch that is on its way when the event loop ends is cut off and sent again; no task is left behind."""
    process = await start_python(ENDS, TEST_URL=database_url, TURNS=str(turns))
    _, errors = await soon(process.communicate())
    assert (process.returncode, errors.decode()) == (0, "")


KILLED = """
import asyncio, os, signal
from autogen_agentchat.agents import AssistantAgent
from memory_context import MemoryContext, MemoryStore
from memory_context.testing import ScriptedModel, call
from tests.support.contexts import archived

async def look() -> str:
    return "a look around"

async def die() -> str:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""

async def main():
    store = MemoryStore(URL)
    for session, decisions in (("answers", ("Yes.", "No.", call("die"))), ("results", (call("look"),))):
        context = MemoryContext("alice", "coder", session, store)
        agent = AssistantAgent("coder", ScriptedModel(*decisions), tools=[look, die], model_context=context)
        for messages in (2, 4) if session == "answers" else (3,):
            await agent.run(task="Well?")
            await archived(store, session, messages)
        if session == "answers":
            dying = agent
    await dying.run(task="And now?")
asyncio.run(main())
"""


@pytest.mark.thorough
async def test_killed_process_loses_the_running_turn_only(start_python: StartPython, database_url: str):
    """Its turns are archived as they end, by the default policy: with an answer, and with results as agents do."""
    process = await start_python(KILLED.replace("URL", repr(database_url)))
    _, errors = await soon(process.communicate())
    assert process.returncode == -signal.SIGKILL, errors.decode()
    async with MemoryStore(database_url) as store:
        for session, messages in (("answers", 4), ("results", 3)):
            report = await MemoryContext("alice", "coder", session, store).resume()
            assert (report.outcome, report.messages) == ("resumed", messages)
