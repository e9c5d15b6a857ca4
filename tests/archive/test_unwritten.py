"""A clean end loses nothing: what contexts buffered is written when the store, the event loop or the process ends."""

import asyncio
import gc
import json
import logging
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from autogen_core.models import UserMessage

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.errors import StoreUnavailableError
from memory_context.foundation.policy import ArchivePolicy
from memory_context.foundation.runtime import buffers
from tests.support.waiting import soon

from ..agents.scripted import report
from ..conftest import StartPython
from ..context.steps import a_turn_of_the_loop
from .talking import SESSION, context_of, said_in, say, turns

# --- the end of a program


PROGRAMS = """
import asyncio, json, os, sys, threading
from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.sessions.archive import archiver
from tests.agents.scripted import calls, model, report
from tests.archive.talking import say

url = os.environ["MEMORY_CONTEXT_URL"]

async def talk(store=None):
    context = MemoryContext("alice", "coder", session, store)
    await say(context, "One.", "Two.")
    return context

async def main():
    await talk()

programs, children = json.loads(sys.stdin.readline()), {}
for session, (script, log) in programs.items():
    if (pid := os.fork()) == 0:
        os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), 2)
        exec(script)
        break  # and the process ends, as that of any script
    children[session] = pid
else:
    print(json.dumps({s: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for s, pid in children.items()}))
"""

ENDS = {
    "a store that is closed": """
async def main():
    async with MemoryStore(url) as store:
        await talk(store=store)
asyncio.run(main())
""",
    "asyncio.run with the default store": "asyncio.run(main())",
    "asyncio.run with a store of its own": "asyncio.run(talk(store=MemoryStore(url)))",
    "a loop that is closed by hand": """
loop = asyncio.new_event_loop()
loop.run_until_complete(main())
loop.close()
""",
    "a loop that is never closed": "asyncio.new_event_loop().run_until_complete(main())",
    "sys.exit in a callback": """
async def exits():
    await main()
    asyncio.get_running_loop().call_soon(sys.exit, 3)
    await asyncio.Event().wait()
asyncio.run(exits())
""",
    "an exception": """
async def fails():
    await main()
    raise ValueError("mine")
asyncio.run(fails())
""",
    "a loop in a thread that runs on": """
said = threading.Event()
async def serve():
    context = await talk()
    said.set()
    await asyncio.Event().wait()
threading.Thread(target=asyncio.run, args=[serve()], daemon=True).start()
said.wait()
""",
    "a batch that is on its way": """
async def full():
    archiver._BATCH_MESSAGES = 3
    context = MemoryContext("alice", "coder", session)
    await say(context, "One.", "Two.")
asyncio.run(full())
""",
    "several runs": """
async def first():
    global context
    context = MemoryContext("alice", "coder", session)
    await say(context, "One.")
async def second():
    await say(context, "Two.")
asyncio.run(first())
asyncio.run(second())
""",
    "a fork": """
async def forks():
    context = await talk()
    if os.fork() == 0:
        sys.exit(0)
    os.wait()
    return context
loop = asyncio.new_event_loop()
context = loop.run_until_complete(forks())
""",
}
STATUS = {"sys.exit in a callback": 3, "an exception": 1}


async def ends_of(
    start_python: StartPython, database_url: str, folder: Path, scripts: Mapping[str, str]
) -> dict[str, tuple[int, str]]:
    """Run programs, each in a fork of one Python that has imported everything; return their status and stderr.

    The name of a program is the id of the session that it talks in.
    """
    programs = {name: (script, str(folder / f"{number}.txt")) for number, (name, script) in enumerate(scripts.items())}
    process = await start_python(PROGRAMS, MEMORY_CONTEXT_URL=database_url)
    out, errors = await soon(process.communicate(json.dumps(programs).encode() + b"\n"))
    assert (process.returncode, errors) == (0, b""), errors.decode()
    status = json.loads(out.splitlines()[-1])
    return {name: (status[name], text_of_file(log)) for name, (_, log) in programs.items()}


def text_of_file(path: str) -> str:
    return Path(path).read_text()


async def test_a_session_is_complete_after_a_clean_end(start_python: StartPython, database_url: str, tmp_path: Path):
    """On one line of batches, and no task is left behind."""
    ends = await ends_of(start_python, database_url, tmp_path, ENDS)
    async with MemoryStore(database_url) as store:
        for how, (status, errors) in ends.items():
            assert status == STATUS.get(how, 0), (how, errors)
            assert ("Traceback" in errors) == (how == "an exception"), (how, errors)
            assert not any(word in errors for word in ("never awaited", "destroyed", "written", "not archived")), errors
            context = context_of(store, how)
            assert await said_in(context) == turns("One.", "Two."), how
            assert context.resume_report.is_complete, (how, context.resume_report)


WORKS = """
async def works():
    store = MemoryStore(url)
    context = MemoryContext("alice", "chief", "s", store)
    sub = context.for_subagent("expert")
    key = await context.store(report("owls"), "a survey")
    await context.retrieve(key)
    await say(context, "One.")
    await say(sub, "Of the expert.")
asyncio.run(works())
"""
AGENTS = """
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat

def survey(topic: str) -> str:
    "Survey a topic."
    return report(topic)

def agent(name, *answers):
    context = MemoryContext("alice", name, f"session of {name}")
    return AssistantAgent(name, model(*answers), tools=[survey], model_context=context, reflect_on_tool_use=True)

async def main():
    await agent("alone", calls(("survey", {"topic": "owls"})), "Owls.").run(task="Survey owls.")
    writer, critic = agent("writer", "Draft.", "Better."), agent("critic", "Too short.", "Good.")
    await RoundRobinGroupChat([writer, critic], max_turns=4).run(task="Write.")

asyncio.run(main())
"""


@pytest.mark.thorough
async def test_agents_teams_and_sub_agents_that_close_nothing_are_resumed_whole(
    start_python: StartPython, database_url: str, tmp_path: Path
):
    """AutoGen never closes a context. Offloads and the audit trail are written too; nobody refers to them any more."""
    ends = await ends_of(start_python, database_url, tmp_path, {"works": WORKS, "agents": AGENTS})
    assert {status for status, _ in ends.values()} == {0}, ends
    async with MemoryStore(database_url) as store:
        chief = context_of(store, "s", agent_id="chief")
        assert await said_in(chief) == turns("One.")
        assert await said_in(context_of(store, "s/expert", agent_id="expert")) == turns("Of the expert.")
        assert "retrieved" in {event.kind for event in await chief.agent_memory.audit()}
        alone = context_of(store, "session of alone", agent_id="alone")
        assert (await said_in(alone))[::3] == ["Survey owls.", "Owls."]
        (ref,) = [ref for e in alone.transcript.entries() for p in e.measured if p.stored for ref in p.stored.refs]
        assert await alone.retrieve(ref.key) == report("owls")
        thread = ["Write.", "Draft.", "Too short.", "Better.", "Good."]
        assert await said_in(context_of(store, "session of critic", agent_id="critic")) == thread
        assert await said_in(context_of(store, "session of writer", agent_id="writer")) == thread[:-1]


# --- a store that is closed


@pytest.mark.thorough
async def test_a_closed_store_has_written_each_of_its_contexts(store: MemoryStore, database_url: str):
    """Those of another store wait for theirs; closing twice changes nothing; a context can be used again."""
    other = MemoryStore(database_url)
    contexts = [context_of(store, f"s{number}") for number in range(12)]
    apart = context_of(other, "apart")
    for context in [*contexts, apart]:
        await say(context, "One.")
    await store.close()
    assert not any(context.is_dirty for context in contexts)
    assert apart.is_dirty
    transactions = [context.stats.archive_transactions for context in contexts]
    await store.close()
    await other.close()
    assert [context.stats.archive_transactions for context in contexts] == transactions == [1] * 12
    assert not apart.is_dirty
    await say(contexts[0], "Two.")
    await store.close()
    assert await said_in(context_of(store, "s0")) == turns("One.", "Two.")


async def test_content_that_waits_is_stored_when_the_store_is_closed(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """Also of a context without an archive, and however recently the store failed."""

    async def away(*_: object, **__: object) -> Any:
        raise StoreUnavailableError("away")

    context = MemoryContext("alice", "coder", None, store, policy=ContextPolicy(archive=ArchivePolicy(enabled=False)))
    with monkeypatch.context() as patch:
        patch.setattr(store.items, "insert_memories", away)
        await context.add_message(UserMessage(content=report("owls"), source="user"))
    assert context.stats.offloads == 0
    await store.close()
    assert context.stats.offloads == 1
    assert len(await context.agent_memory.query()) == 1


async def test_a_store_that_is_closed_while_the_database_is_away_says_what_is_not_written(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Within its limit, naming sessions; nothing is given up as long as the event loop lives."""
    context = context_of(store)
    await say(context, "One.", "Two.")

    is_over = asyncio.Event()

    async def hang(*_: object, **__: object) -> Any:
        await is_over.wait()
        raise StoreUnavailableError("the connection was lost")

    with monkeypatch.context() as patch:
        patch.setattr(store.conversations, "append", hang)
        await soon(store.close(write_seconds=0.2))
    (warning,) = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert f"session {SESSION!r} of agent 'coder': 4 messages (not done in 0.2 s)" in warning
    assert "await context.archive()" in warning
    is_over.set()
    await store.close()
    assert await said_in(context_of(store)) == turns("One.", "Two.")


async def test_a_history_that_could_not_be_read_a_moment_ago_is_read_before_the_store_is_closed(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """Or what was said without it would wait for the next attempt, which does not come."""
    known = context_of(store)
    await say(known, "One.")
    await known.close()

    async def away(*_: object, **__: object) -> Any:
        raise StoreUnavailableError("away")

    context = context_of(store)
    with monkeypatch.context() as patch:
        patch.setattr(store.conversations, "read", away)
        await say(context, "Two.")
    await store.close()
    assert await said_in(context_of(store)) == turns("One.", "Two.")


def test_a_store_that_is_closed_leaves_the_contexts_of_other_running_loops(database_url: str):
    """They are written by their own loops."""
    store = MemoryStore(database_url)
    said, go_on = threading.Event(), threading.Event()

    async def elsewhere() -> None:
        context = context_of(store, "elsewhere")
        await say(context, "One.")
        said.set()
        while not go_on.is_set():
            await a_turn_of_the_loop()
        assert context.is_dirty, "another loop wrote it"

    failures: list[BaseException] = []

    def run() -> None:
        try:
            asyncio.run(elsewhere())
        except BaseException as error:
            failures.append(error)

    async def here() -> None:
        await say(context_of(store, "here"), "One.")
        await asyncio.to_thread(said.wait, 60)
        await store.close()

    thread = threading.Thread(target=run)
    thread.start()
    asyncio.run(here())
    go_on.set()
    thread.join(60)
    assert not failures

    async def check() -> None:
        for name in ("here", "elsewhere"):
            assert await said_in(context_of(store, name)) == turns("One.")
        await store.close()

    asyncio.run(check())


# --- contexts that nobody refers to


async def test_a_dropped_context_is_written_while_its_loop_lives(store: MemoryStore):
    """Without a warning: nothing is lost."""
    await say(context_of(store), "One.")
    gc.collect()
    await store.close()
    assert await said_in(context_of(store)) == turns("One.")


async def test_a_dropped_context_that_is_written_is_collected(store: MemoryStore):
    """Nothing keeps it longer than it has something to write."""
    await say(context_of(store), "One.")
    await store.unwritten.write_out()
    gc.collect()
    contexts = [one for one in gc.get_objects() if type(one) is MemoryContext]  # isinstance asks proxies
    assert not [one for one in contexts if one.memory_store is store]


async def test_decisions_of_a_view_are_written_though_no_message_follows(
    store: MemoryStore, recwarn: pytest.WarningsRecorder
):
    """The context is dropped right after; the view of the next process begins with the same decisions."""
    context = context_of(store)
    await context.add_message(UserMessage(content="One.", source="user"))
    await context.archive()
    await context.get_messages()
    decided = len(context.transcript.log)
    del context
    gc.collect()
    await store.close()
    again = context_of(store)
    await again.resume()
    assert len(again.transcript.log) == decided
    assert not [one for one in recwarn if "lost" in str(one.message)]


async def test_a_view_of_a_context_without_messages_writes_nothing(store: MemoryStore):
    await context_of(store, "never used").get_messages()
    await store.unwritten.write_out()
    assert await store.conversations.session("alice", "never used") is None


def test_a_context_that_is_collected_with_something_unwritten_warns(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """When its loop ended the store was away: the warning names the session and what to do."""
    monkeypatch.setattr(buffers, "WRITE_SECONDS", 5.0)

    async def main() -> MemoryContext:
        context = context_of(MemoryStore("postgresql://nobody@127.0.0.1:1/nowhere"), "lost")
        await context.add_message(UserMessage(content="One.", source="user"))
        return context

    context = asyncio.run(main())
    assert "session 'lost' of agent 'coder': 1 messages" in caplog.text
    assert context.is_dirty
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del context
        gc.collect()
    (warning,) = [one for one in caught if "session" in str(one.message)]
    assert issubclass(warning.category, ResourceWarning)
    assert "session 'lost' of agent 'coder': 1 messages are lost" in str(warning.message)


async def test_a_state_that_takes_the_place_of_unwritten_messages_keeps_nothing_alive(store: MemoryStore):
    """What was left behind by a load is not written again."""
    context = context_of(store, None)
    await say(context, "One.")
    state = json.loads(json.dumps(await context.save_state()))
    await context.load_state(state)
    await store.close()
    assert store.unwritten.is_empty
