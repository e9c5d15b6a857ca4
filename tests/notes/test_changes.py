"""Running sessions learn of notes and statements that others change, also in other processes; own ones not again."""

import asyncio
from collections.abc import AsyncIterator, Awaitable

import pytest
from autogen_core import CancellationToken
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage

from memory_context import AgentMemory, ContextPolicy, MemoryContext, MemoryStore, StoreUnavailableError
from memory_context.store.user_memory_feed import UserMemoryFeed
from tests.agents.scripted import text_of
from tests.conftest import Server, database_of
from tests.support.waiting import soon


@pytest.fixture
async def elsewhere(database_url: str) -> AsyncIterator[MemoryStore]:
    """The store of another process: in this one, but it shares nothing with `store`."""
    async with MemoryStore(database_url) as store:
        yield store


@pytest.fixture
async def context(store: MemoryStore) -> AsyncIterator[MemoryContext]:
    """A session of an agent with tools."""
    policy = ContextPolicy(store_timeout_seconds=30)
    async with MemoryContext("alice", "coder", "s", store, policy=policy) as context:
        context.tools()
        yield context


async def take_turn(context: MemoryContext) -> list[LLMMessage]:
    """Return the view of a new turn once the user's memory was read for it."""
    await context.add_message(AssistantMessage(content="All right.", source="coder"))
    await context.add_message(UserMessage(content="Hello.", source="user"))
    if task := context._session.user_memory._task:
        await asyncio.wait([task])
    return await context.get_messages()


async def listening(context: MemoryContext) -> UserMemoryFeed:
    """Begin the session and return the feed once it listens."""
    await take_turn(context)
    feed = context.memory_store._feeds.here()
    await feed._work.wait(30)
    assert feed._connection is not None
    await take_turn(context)
    return feed


def notes_of(store: MemoryStore, agent: str = "coder") -> AgentMemory:
    return AgentMemory(store, "alice", agent, "other")


async def heard_of(feed: UserMemoryFeed, monkeypatch: pytest.MonkeyPatch, change: Awaitable[object]) -> None:
    """Change something elsewhere and wait until this process has heard of it."""
    is_heard, hear = asyncio.Event(), feed._hear
    monkeypatch.setattr(feed, "_hear", lambda payload: (hear(payload), is_heard.set()))
    await change
    await soon(is_heard.wait())


async def heard(feed: UserMemoryFeed, monkeypatch: pytest.MonkeyPatch, memory: AgentMemory, text: str) -> None:
    await heard_of(feed, monkeypatch, memory.notes.append(text))


async def test_notes_of_another_process_show_in_the_tail(
    context: MemoryContext, elsewhere: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first and later ones; the head keeps its bytes."""
    feed = await listening(context)
    await heard(feed, monkeypatch, notes_of(elsewhere), "Owls turn at night.")
    assert "> Owls turn at night.\n</memory-" in str((await take_turn(context))[-1].content)
    await heard(feed, monkeypatch, notes_of(elsewhere), "Bats, too.")
    assert "> Owls turn at night.\n>\n> Bats, too.\n</memory-" in str((await take_turn(context))[-1].content)
    await heard(feed, monkeypatch, notes_of(elsewhere, "coder"), "Cats.")
    await context.agent_memory.notes.read()
    assert "> Cats." in text_of(await take_turn(context))


async def test_statements_of_another_process_show_in_the_tail_and_forgotten_ones_leave_the_head(
    store: MemoryStore, context: MemoryContext, elsewhere: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever agent's session they are said in; another user's are not heard."""
    first = await notes_of(store).remember("The harbour master is Ruth.")
    feed = await listening(context)
    assert "The harbour master is Ruth." in text_of(await take_turn(context))
    other = notes_of(elsewhere, "critic")
    await heard_of(feed, monkeypatch, other.remember("I prefer rye bread.", type="user_preference"))
    assert "- I prefer rye bread. (" in str((await take_turn(context))[-1].content)
    await heard_of(feed, monkeypatch, other.add("I live in Porto."))
    assert "- I live in Porto." in str((await take_turn(context))[-1].content)
    await heard_of(feed, monkeypatch, elsewhere.user_stats.forget("alice", [first.key]))
    assert "Ruth" not in text_of(await take_turn(context))
    before = store.user_memory_changes("alice")
    await heard_of(feed, monkeypatch, AgentMemory(elsewhere, "bob", "coder", "s").remember("I prefer salt."))
    assert store.user_memory_changes("alice") == before


async def test_other_agents_notes_are_not_heard(
    context: MemoryContext, elsewhere: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = await listening(context)
    before = context.memory_store.user_memory_changes("alice")
    await heard(feed, monkeypatch, notes_of(elsewhere, "critic"), "Owls turn at night.")
    assert context.memory_store.user_memory_changes("alice") == before
    assert "Owls" not in text_of(await take_turn(context))


async def test_own_edits_are_not_repeated_in_the_view(context: MemoryContext, store: MemoryStore) -> None:
    """Until another session edits, too."""
    await notes_of(store).notes.append("Earlier.")
    await take_turn(context)
    (tool,) = [tool for tool in context.tools() if tool.name == "manage_long_term_memory"]
    await tool.run_json({"operation": "append", "content": "Mine."}, CancellationToken())
    assert "Mine." not in text_of(await take_turn(context))
    await notes_of(store).notes.append("Theirs.")
    assert "> Mine.\n>\n> Theirs.\n" in text_of(await take_turn(context))
    await context.agent_memory.notes.append("Mine again.")
    assert "> Mine.\n>\n> Theirs.\n>\n> Mine again." in text_of(await take_turn(context))


async def test_notes_shown_as_a_whole_may_be_replaced(store: MemoryStore) -> None:
    """In the head or the tail they are read already."""
    await notes_of(store).notes.append("# Work\nOrders is at db1.")
    async with MemoryContext("alice", "coder", "s", store, policy=ContextPolicy(store_timeout_seconds=30)) as context:
        await take_turn(context)
        await context.agent_memory.notes.edit("replace_section_by_header", "None.", "Work")
        await notes_of(store).notes.append("# Home")
        await take_turn(context)
        assert (await context.agent_memory.notes.overwrite("All new.")).text == "All new."


async def test_lost_connection_is_opened_again_and_misses_nothing(
    context: MemoryContext, elsewhere: MemoryStore, server: Server, database_url: str
) -> None:
    feed = await listening(context)
    assert feed._connection is not None
    pid = feed._connection.pgconn.backend_pid
    assert server.execute(f"SELECT pg_terminate_backend({pid}, 5000)", database_of(database_url)) == [(True,)]
    await notes_of(elsewhere).notes.append("Owls turn at night.")
    if feed._connection is not None:
        feed._read(feed._connection)  # as the event loop does when the server says goodbye
    assert feed._connection is None
    await take_turn(context)
    await feed._work.wait(30)
    assert feed._connection is not None
    assert "Owls turn at night." in text_of(await take_turn(context))


async def test_without_notifications_each_turn_reads_again(
    context: MemoryContext, elsewhere: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(self: UserMemoryFeed) -> None:
        raise StoreUnavailableError("the pooler lends connections")

    monkeypatch.setattr(UserMemoryFeed, "_connect", refuse)
    await take_turn(context)
    await context.memory_store._feeds.here()._work.wait(30)
    await notes_of(elsewhere).notes.append("Owls turn at night.")
    assert "Owls turn at night." in text_of(await take_turn(context))
