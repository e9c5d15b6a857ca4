"""A process that is killed between any two statements leaves no placeholder without content."""

import json
import re

import pytest

from memory_context import MemoryContext, MemoryStore
from tests.support.waiting import soon

from ..conftest import StartPython

pytestmark = pytest.mark.thorough

KILLS = 16

# The forking process has everything imported and the token ranks loaded, so that each child lives only for its steps. A
# child counts its calls in memory_context, from a given one on the lines that it executes there, in that function and
# in those that called it too, and kills itself at a given line: to count lines from the beginning takes three times as
# long. What it showed goes to its standard output as it happens, one JSON list of keys a line.
SCRIPT = """
import asyncio, json, os, re, signal, sys
from autogen_core.models import UserMessage
from memory_context import MemoryContext, MemoryStore
from tests.context.steps import add_step

url, kills = sys.argv[1], int(sys.argv[2])

def show(texts):
    keys = re.findall(r"MemoryRef: ([A-Za-z0-9_.-]+) - ", texts)
    os.write(1, (json.dumps([key for key in keys if not key.startswith("history_")]) + "\\n").encode())

async def live(number):
    context = MemoryContext("alice", "coder", memory_store=MemoryStore(url))
    await context.add_message(UserMessage(content="Survey the whole of it.", source="user"))
    for step in range(5):
        contents = [f"run {number} step {step} part {i}\\n" + "some words of a result\\n" * 300 for i in range(2)]
        await add_step(context, *contents)
        show(str(await context.get_messages()))
        show(json.dumps(await context.save_state()))
    await context.memory_store.close()

def is_ours(frame):
    return "memory_context/" in frame.f_code.co_filename

def run_child(number, last_call, last_line):
    calls = lines = 0
    def trace_calls(frame, event, argument):
        nonlocal calls
        if not is_ours(frame):
            return None
        calls += 1
        if calls == last_call:
            caller = frame.f_back
            while caller is not None:
                if is_ours(caller):
                    caller.f_trace = trace_lines
                caller = caller.f_back
        return trace_lines if 0 < last_call <= calls else None
    def trace_lines(frame, event, argument):
        nonlocal lines
        lines += event == "line"
        if lines == last_line:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace_lines
    sys.settrace(trace_calls)
    asyncio.run(live(number))
    sys.settrace(None)
    return calls

def fork(number, last_call, last_line=0):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, str(run_child(number, last_call, last_line)).encode())
        os._exit(0)
    os.close(write)
    status = os.waitpid(pid, 0)[1]
    total = os.read(read, 100)
    os.close(read)
    return int(total) if total else None, os.WIFSIGNALED(status)

# the first run also meets what is done once, and a slow database is tried again: the shortest of two is what all run
(total, was_killed), (again, was_killed_again) = fork(0, -1), fork(-1, -1)
assert total and again and not was_killed and not was_killed_again
total = min(total, again)
killed = 0
for number in range(1, kills + 1):
    # the points are spread over the whole run, and the lines differ so that they do not fall into step with it
    killed += fork(number, number * total // (kills + 3), 1 + number * 7 % 50)[1]
os.write(1, f"killed {killed}\\n".encode())
"""


async def test_a_killed_process_never_showed_a_placeholder_without_content(
    start_python: StartPython, database_url: str
):
    """Killed at places spread over its whole run: every key in a view or a saved state has its row."""
    script = SCRIPT.replace("sys.argv[1], int(sys.argv[2])", f"{database_url!r}, {KILLS}")
    process = await start_python(script)
    out, err = await soon(process.communicate())
    assert process.returncode == 0, err.decode()
    *shown, last = out.decode().splitlines()
    assert re.fullmatch(r"killed \d+", last)
    assert int(last.split()[1]) >= KILLS * 0.9
    keys = {key for line in shown if line.endswith("]") for key in json.loads(line)}
    assert len(keys) > KILLS
    async with MemoryStore(database_url) as store:
        memory = MemoryContext("alice", "coder", memory_store=store).agent_memory
        assert (await memory.retrieve_contents(keys)).keys() == keys
