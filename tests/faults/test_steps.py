"""An agent's step goes on whatever the connection does, and what waited is stored when the database is there again."""

import asyncio
from typing import Any

import pytest
from autogen_core import CancellationToken
from autogen_core.models import UserMessage

from benchmarks.proxy import Proxy
from memory_context import ContextPolicy, MemoryContext, MemoryStore, UserMemoryPolicy
from memory_context.store.database import Database
from memory_context.store.jobs import Jobs
from memory_context.store.limits import StoreLimits, at_most, most_seconds
from tests.support.waiting import soon

from ..agents.scripted import report, text_of
from ..context.steps import add_step

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
