"""Running sessions learn of notes and statements that others change, also in other processes; own ones not again."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from autogen_core import CancellationToken
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage

from memory_context import AgentMemory, ContextPolicy, MemoryContext, MemoryStore
from tests.agents.scripted import text_of


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


def notes_of(store: MemoryStore, agent: str = "coder") -> AgentMemory:
    return AgentMemory(store, "alice", agent, "other")


async def test_notes_of_another_process_show_in_the_tail(context: MemoryContext, elsewhere: MemoryStore) -> None:
    """The first and later ones, at the next turn; the head keeps its bytes."""
    await take_turn(context)
    await notes_of(elsewhere).notes.append("Owls turn at night.")
    assert "> Owls turn at night.\n</memory-" in str((await take_turn(context))[-1].content)
    await notes_of(elsewhere).notes.append("Bats, too.")
    assert "> Owls turn at night.\n>\n> Bats, too.\n</memory-" in str((await take_turn(context))[-1].content)
    await notes_of(elsewhere, "coder").notes.append("Cats.")
    await context.agent_memory.notes.read()
    assert "> Cats." in text_of(await take_turn(context))


async def test_statements_of_another_process_show_in_the_tail_and_forgotten_ones_leave_the_head(
    store: MemoryStore, context: MemoryContext, elsewhere: MemoryStore
) -> None:
    """Whatever agent's session they are said in."""
    first = await notes_of(store).remember("The harbour master is Ruth.")
    await take_turn(context)
    assert "The harbour master is Ruth." in text_of(await take_turn(context))
    other = notes_of(elsewhere, "critic")
    await other.remember("I prefer rye bread.", type="user_preference")
    assert "- I prefer rye bread. (" in str((await take_turn(context))[-1].content)
    await other.add("I live in Porto.")
    assert "- I live in Porto." in str((await take_turn(context))[-1].content)
    await elsewhere.user_stats.forget("alice", [first.key])
    assert "Ruth" not in text_of(await take_turn(context))


async def test_steps_within_a_turn_read_nothing(context: MemoryContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's memory is read once for each of the user's messages."""
    await take_turn(context)
    reads = 0
    fetch = context.memory_store.statements.fetch_user_memory

    async def counted(*args: object, **kwargs: object) -> object:
        nonlocal reads
        reads += 1
        return await fetch(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(context.memory_store.statements, "fetch_user_memory", counted)
    await take_turn(context)
    await context.get_messages()
    await context.add_message(AssistantMessage(content="Well.", source="coder"))
    await context.get_messages()
    assert reads == 1


async def test_other_agents_notes_do_not_show(context: MemoryContext, elsewhere: MemoryStore) -> None:
    await take_turn(context)
    await notes_of(elsewhere, "critic").notes.append("Owls turn at night.")
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
