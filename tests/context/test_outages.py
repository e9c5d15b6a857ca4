"""The store is down, hangs, goes away and comes back: the agent goes on, and what stayed inline is stored later."""

import asyncio
import logging
import threading
from collections import Counter
from pathlib import Path

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage, UserMessage
from psycopg.conninfo import make_conninfo

from memory_context import ContextPolicy, MemoryContext, MemoryStore, UserMemoryPolicy
from memory_context.sessions.transcript.part_decisions import PartsCompacted
from memory_context.store import embedded
from tests.support.outages import hanging
from tests.support.waiting import seconds_waited

from ..agents.scripted import calls, model, report, seen, text_of
from ..conftest import Server, database_of
from .steps import ALWAYS_PAYS, a_turn_of_the_loop, add_step

pytestmark = pytest.mark.thorough

LONGEST_STEP_SECONDS = 1.5


def survey(topic: str) -> str:
    """Survey a topic at length."""
    return report(topic)


async def test_an_agent_finishes_its_run_while_the_store_is_down(caplog: pytest.LogCaptureFixture):
    """Nothing is raised into AutoGen, everything stays in the view, and the reason is logged."""
    context = MemoryContext("alice", "coder", memory_store=MemoryStore("postgresql://alice@127.0.0.1:1/nowhere"))
    client = model(calls(("survey", {"topic": "owls"})), calls(("survey", {"topic": "bats"})), "Done.")
    agent = AssistantAgent("coder", client, tools=[survey], model_context=context, max_tool_iterations=5)
    with caplog.at_level(logging.WARNING, logger="memory_context"):
        result = await agent.run(task="Survey owls and bats.")
    assert result.messages[-1].content == "Done."
    assert report("owls") in text_of(seen(client)), "what is not stored stays inline"
    warnings = [record.getMessage() for record in caplog.records if record.name == "memory_context"]
    assert len(warnings) == 1, "said once, not at every step"
    assert "stays inline" in warnings[0]
    await context.close()


@pytest.mark.usefixtures("store_asked_again_at_once")
async def test_outage_is_logged_once_however_often_it_is_met(
    database_url: str, server: Server, caplog: pytest.LogCaptureFixture
):
    """Once for each consequence, by all contexts of a store together; and once more in the next outage."""
    caplog.set_level(logging.INFO, logger="memory_context")
    name = database_of(database_url)

    def warnings() -> Counter[str]:
        said = [one for one in caplog.records if one.name == "memory_context" and one.levelno >= logging.WARNING]
        return Counter(str(one.msg) for one in said if "stays inline" in one.msg or "brought back" in one.msg)

    async with MemoryStore(database_url) as store:
        policy = ContextPolicy(archive={"enabled": False})
        contexts = [MemoryContext("alice", f"agent{n}", memory_store=store, policy=policy) for n in range(2)]

        async def go_on(topic: str) -> None:
            for context in contexts:
                for number in range(3):
                    await context.add_message(
                        UserMessage(content=f"What about {topic} {number} last time?", source="user")
                    )
                    await add_step(context, report(f"{topic} {number} {context.agent_id}"))
                    await context.get_messages()

        found = warnings()
        for outage in range(1, 3):
            known = found
            server.execute("ALTER DATABASE {name} ALLOW_CONNECTIONS false", name=name)
            server.execute(f"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '{name}'")
            await go_on(f"away {outage}")
            found = warnings()
            new = found - known
            assert new["content stays inline for now: %s"] == 1
            assert set(new.values()) == {1}, new
            server.execute("ALTER DATABASE {name} ALLOW_CONNECTIONS true", name=name)
            await go_on(f"back {outage}")
        assert "storing content again" in caplog.messages
        assert warnings() == found
        for context in contexts:
            await context.close()


@pytest.mark.usefixtures("store_asked_again_at_once")
async def test_content_from_an_outage_is_stored_and_compacted_after_it(home: Path):
    """The server stops in mid-run and comes back: the next message stores what waited; one compaction follows."""
    url = make_conninfo(**embedded.start(home))
    async with MemoryStore(url) as store:
        policy = ContextPolicy(cache=ALWAYS_PAYS)
        context = MemoryContext("alice", "coder", memory_store=store, policy=policy)
        await context.add_message(UserMessage(content="Survey.", source="user"))
        await add_step(context, report("owls"))
        embedded.release(home)
        await add_step(context, report("bats"))
        await add_step(context, report("eels"))
        view = text_of(await context.get_messages())
        assert report("owls") not in view
        assert report("bats") in view, "consumed, but not stored: it must not vanish"
        assert context.stats.offloads == 1
        embedded.start(home)
        await add_step(context, report("newts"))
        assert context.stats.offloads == 4
        view = text_of(await context.get_messages())
        assert report("bats") not in view
        compacted = [d for _, d in context.transcript.log if isinstance(d, PartsCompacted)]
        assert [len(decision.parts) for decision in compacted] == [1, 2], "owls; then bats and eels, in one batch"
        keys = [s.keys[0] for s in (await context.explain()).segments if s.keys]
        assert [await context.retrieve(key) for key in keys] == [report(t) for t in ("owls", "bats", "eels", "newts")]


async def test_no_step_waits_long_for_a_store_that_hangs(server: Server, database_url: str):
    """The first step waits a second, the next ones do not wait at all; afterwards the content gets there."""
    async with MemoryStore(database_url) as store:
        context = MemoryContext("alice", "coder", memory_store=store)
        await add_step(context, report("owls"))
        slowest = 0.0
        with hanging(server):
            for topic in ("bats", "eels", "newts"):
                with seconds_waited() as waited:
                    await add_step(context, report(topic))
                    await context.get_messages()
                slowest = max(slowest, waited())
            assert slowest < LONGEST_STEP_SECONDS
            assert report("newts") in text_of(await context.get_messages())
        await context.close()
        assert context.stats.offloads == 4


async def test_a_first_use_does_not_wait_for_the_server_to_start(new_home: Path, monkeypatch: pytest.MonkeyPatch):
    """The embedded server of a new folder starts behind the agent's back; nothing is lost meanwhile."""
    may_start, start = threading.Event(), embedded.start

    def start_later(folder: Path) -> dict[str, str]:
        assert may_start.wait(60), "the step waited for the server"
        return start(folder)

    monkeypatch.setattr(embedded, "start", start_later)
    context = MemoryContext("alice", "coder")
    await add_step(context, report("owls"))
    assert context.stats.offloads == 0
    may_start.set()
    await context.close()
    assert context.stats.offloads == 1


async def test_a_cancelled_add_message_loses_nothing(store: MemoryStore):
    """A message is in the transcript before the first wait."""
    context = MemoryContext("alice", "coder", memory_store=store)
    message = UserMessage(content=report("owls", 2000), source="user")
    task = asyncio.create_task(context.add_message(message))
    await a_turn_of_the_loop()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [m.content for m in await context.get_messages()] == [message.content]
    await context.add_message(AssistantMessage(content="Hm.", source="coder"))
    await context.close()
    assert context.stats.offloads == 1


async def test_state_loads_while_the_store_is_down(home: Path):
    """A result that was still to be shown comes back as its placeholder: its row is committed, its text is away."""
    url = make_conninfo(**embedded.start(home))
    async with MemoryStore(url) as store:
        context = MemoryContext("alice", "coder", memory_store=store)
        await add_step(context, report("owls"))
        state = await context.save_state()
        embedded.release(home)
        later = MemoryContext("alice", "coder", memory_store=store)
        await later.load_state(state)
        results = [m for m in await later.get_messages() if isinstance(m, FunctionExecutionResultMessage)]
        assert "[MemoryRef: survey_" in results[0].content[0].content
        assert [c.reason for c in (await later.explain()).changes if c.kind == "result"] == ["added"]
        embedded.start(home)


async def test_small_messages_touch_no_database(caplog: pytest.LogCaptureFixture):
    """A message under the threshold costs no access: this store could not be reached, and that is never noticed.

    The user's memory is read once, with the first message of a session.
    """
    nowhere = MemoryStore("postgresql://alice@127.0.0.1:1/nowhere")
    policy = ContextPolicy(user_memory=UserMemoryPolicy(enabled=False))
    context = MemoryContext("alice", "coder", memory_store=nowhere, policy=policy)
    for i in range(20):
        await context.add_message(UserMessage(content=f"hello {i}", source="user"))
        await context.get_messages()
    assert [record for record in caplog.records if record.name.startswith("memory_context")] == []
    await context.close()
    assert [record.args[0] for record in caplog.records if record.name.startswith("memory_context")] == [
        context.session_id
    ], "only what would be lost with the process is told, at its end"
    assert context.stats.write_transactions == 0


def test_a_context_lives_through_several_event_loops(database_url: str):
    """A team can run under several asyncio.run calls."""
    store = MemoryStore(database_url)
    context = MemoryContext("alice", "coder", memory_store=store)

    async def one_run(topic: str) -> None:
        await add_step(context, report(topic))
        await context.get_messages()

    for topic in ("owls", "bats", "eels"):
        asyncio.run(one_run(topic))
    assert context.stats.offloads == 3
    asyncio.run(store.close())
