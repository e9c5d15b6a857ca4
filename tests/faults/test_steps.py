"""An agent's step goes on whatever the connection does, and what waited is stored when the database is there again."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from autogen_core import CancellationToken
from autogen_core.models import UserMessage

from benchmarks.proxy import Proxy
from memory_context import AgentMemory, ContextPolicy, MemoryContext, MemoryStore, UserMemoryPolicy
from memory_context.context.user_memory import UserMemoryLoader
from memory_context.foundation.light_model import guards
from memory_context.memory.vault.secrets import SECRET_KEY_ENV, secrets_of
from memory_context.recall.expansion import expander
from memory_context.store.database import Database
from memory_context.store.jobs import Jobs
from memory_context.store.limits import StoreLimits, at_most, most_seconds
from tests.support.waiting import PATIENT_SECONDS, soon

from ..agents.scripted import report, text_of
from ..context.steps import add_step
from ..vault.conftest import made_key

QUICK_STEPS = ContextPolicy(store_timeout_seconds=0.1)

pytestmark = pytest.mark.usefixtures("store_asked_again_at_once")


async def test_content_is_stored_after_its_connection_fell_silent_for_ever(proxy: Proxy, proxy_url: str):
    """The attempt on the dead connection ends by itself; the next one begins on a fresh connection."""
    async with MemoryStore(proxy_url, pool_size=1) as store:
        context = MemoryContext("alice", "coder", memory_store=store, policy=QUICK_STEPS)
        await context.add_message(UserMessage(content="Survey.", source="user"))
        store._database.limits = StoreLimits(transaction_seconds=0.5)
        proxy.fail("silent", new=False)
        await add_step(context, report("owls"))
        assert report("owls") in text_of(await context.get_messages()), "what is not stored stays inline"
        store._database.limits = StoreLimits()
        while context.stats.offloads == 0:
            await add_step(context, "small")
        await add_step(context, report("bats"))
        await context.close()
        assert context.stats.offloads == 2


async def test_close_follows_a_dead_attempt_with_a_fresh_one(proxy: Proxy, proxy_url: str):
    """What the dead one carried is stored all the same."""
    async with MemoryStore(proxy_url) as store:
        context = MemoryContext("alice", "coder", memory_store=store, policy=QUICK_STEPS)
        await store.items.insert_memories("alice", [])
        await store.items.select_keys("alice")
        store._database.limits = StoreLimits(transaction_seconds=0.5)
        proxy.fail("silent", new=False)
        await add_step(context, report("owls"))
        store._database.limits = StoreLimits()
        await context.close()
        assert context.stats.offloads == 1


async def test_opening_what_a_message_asks_for_shortens_the_transactions(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """A search of several transactions may take longer than a step waits for one that does not answer."""
    monkeypatch.setattr(Jobs, "wake", lambda self, user_id: None)  # the index reads beside the step
    policy = ContextPolicy(user_memory=UserMemoryPolicy(enabled=False))
    context = MemoryContext("alice", "coder", memory_store=store, policy=policy)
    key = await context.store(report("owls"), "owls")
    seen: list[float] = []
    read = Database.read

    async def noted(database: Database, *args: Any, **named: Any) -> Any:
        seen.append(most_seconds())
        return await read(database, *args, **named)

    monkeypatch.setattr(Database, "read", noted)
    await context.add_message(UserMessage(content=f"Open {key}.", source="user"))
    await context.get_messages()
    assert set(seen) == {context.policy.store_timeout_seconds}


async def test_nothing_is_opened_right_after_storing_failed(
    proxy: Proxy, proxy_url: str, monkeypatch: pytest.MonkeyPatch
):
    """A step waits for the store once."""
    monkeypatch.setattr("memory_context.foundation.runtime.background.STORE_RETRY_SECONDS", 30)
    async with MemoryStore(proxy_url) as store:
        context = MemoryContext("alice", "coder", memory_store=store, policy=ContextPolicy(store_timeout_seconds=0.1))
        key = await context.store(report("owls"), "owls")
        proxy.fail("silent")
        await context.add_message(UserMessage(content=f"Open {key}. " + report("bats"), source="user"))
        asked = proxy.opened
        await context.get_messages()
        assert context.stats.expansions == 0
        assert proxy.opened == asked, "it was not asked again"
        await proxy.refuse()  # closing need not wait for the silent connections


async def test_unexpected_failure_below_a_step_is_logged_once(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Corrupted or odd answers of the server: the agent goes on with everything inline."""

    async def odd(*_: object, **__: object) -> Any:
        return [[{"memory_key": 7}]]

    monkeypatch.setattr(Database, "read", odd)
    monkeypatch.setattr(Database, "write", odd)
    context = MemoryContext("alice", "coder", "known", store)
    for topic in ("owls", "bats", "eels"):
        await add_step(context, report(topic))
        await context.add_message(UserMessage(content="What was it last time?", source="user"))
        assert report(topic) in text_of(await context.get_messages())
    tracebacks = [record.getMessage() for record in caplog.records if record.exc_info]
    assert len(tracebacks) == len(set(tracebacks))
    await context.close()


@pytest.mark.parametrize("rows", [[], [[]], [[{}]], [[{"memory_key": None}]], [[{"memory_key": 7}], [], [{}]]])
async def test_tools_answer_odd_rows_with_a_sentence(
    store: MemoryStore, rows: list[list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
):
    """Missing columns, wrong types, truncated rows."""
    context = MemoryContext("alice", "coder", memory_store=store)

    async def odd(*_: object, **__: object) -> Any:
        return rows

    monkeypatch.setattr(Database, "read", odd)
    monkeypatch.setattr(Database, "write", odd)
    arguments = {
        "store_memory": {"content": "text", "description": "text"},
        "retrieve_memory": {"memory_key": "notes_abc234"},
        "search_memory": {"query": "owls"},
        "query_memory": {},
    }
    for tool in context.tools():
        if tool.name in arguments:
            assert isinstance(await tool.run_json(arguments[tool.name], CancellationToken()), str)


async def test_tool_that_hangs_is_answered_for(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """Whatever it waits for; nested limits would add up otherwise."""

    async def hang(*_: object, **__: object) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr("memory_context.recall.tools.base._ANSWER_SECONDS", 0.1)
    monkeypatch.setattr(store.items, "select_memories", hang)
    (query,) = [tool for tool in MemoryContext("alice", memory_store=store).tools() if tool.name == "query_memory"]
    answer = await soon(query.run_json({}, CancellationToken()))
    assert "did not answer within 0.1 s" in answer


def test_a_step_ends_with_its_block():
    with at_most(0.1):
        assert most_seconds() == 0.1
    assert most_seconds() == float("inf")


async def test_waits_for_the_store_count_towards_the_time_of_an_expansion(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """Else the view of a first step would wait for the sum of both."""
    now = 1000.0

    async def wait(self: UserMemoryLoader) -> None:
        nonlocal now
        now += 4

    monkeypatch.setattr(expander, "time", SimpleNamespace(monotonic=lambda: now))
    monkeypatch.setattr(UserMemoryLoader, "arrive", wait)
    context = MemoryContext("alice", "coder", memory_store=store)
    key = await context.store(report("owls"), "owls")
    await context.add_message(UserMessage(content=f"Open {key}.", source="user"))
    deadline = context._session.expander._fetcher.deadline
    assert deadline == 1000 + guards.DECISION_SECONDS + context.policy.store_timeout_seconds
    await context.close()


@pytest.mark.parametrize("by_view", [False, True])
async def test_history_and_secrets_are_read_beside_each_other(
    store: MemoryStore, by_view: bool, monkeypatch: pytest.MonkeyPatch
):
    """One after the other they would take twice the time of a step that waits for a known session."""
    monkeypatch.setenv(SECRET_KEY_ENV, made_key())
    earlier = MemoryContext("alice", "coder", "s", store)
    await earlier.add_message(UserMessage(content="Hello.", source="user"))
    await earlier.close()
    read, select, begun = store.conversations.read, store.secret_rows.select, asyncio.Event()

    async def read_later(*args: Any, **named: Any) -> Any:
        await begun.wait()
        return await read(*args, **named)

    async def note(user_id: str) -> Any:
        begun.set()
        return await select(user_id)

    monkeypatch.setattr(store.conversations, "read", read_later)
    monkeypatch.setattr(store.secret_rows, "select", note)
    monkeypatch.setattr("memory_context.sessions.archive.session_archive.RESUME_SECONDS", PATIENT_SECONDS)
    secrets_of(store, "alice")._read_at = None  # as in another process
    context = MemoryContext("alice", "coder", "s", store)
    await (context.get_messages() if by_view else context.add_message(UserMessage(content="Again.", source="user")))
    assert context.resume_report.outcome == "resumed"
    await context.close()


async def test_reading_of_secrets_is_waited_for_from_its_beginning(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """A step that waited for the history meanwhile has used up the time."""
    monkeypatch.setenv(SECRET_KEY_ENV, made_key())

    async def hang(*_: object) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(store.secret_rows, "select", hang)
    secrets = AgentMemory(store, "alice").secrets
    assert secrets.begin()
    secrets._began_at -= 600
    assert not await soon(secrets.ready(600))
