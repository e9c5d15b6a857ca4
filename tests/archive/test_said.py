"""Archived messages are items: found by search until their session goes, derived, private where their session is."""

import asyncio
from datetime import timedelta

import pytest
from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, FunctionExecutionResult, FunctionExecutionResultMessage, UserMessage

from memory_context import AgentMemory, MemoryContext, MemoryCriteria, MemoryItem, MemoryStore
from memory_context.store import SearchHit
from tests.conftest import Server, database_of

from .talking import context_of, say

SAID = MemoryCriteria(conversation=True, limit=1000, oldest_first=True)


async def archived(*contexts: MemoryContext) -> None:
    for context in contexts:
        await context.close()
    await contexts[0].memory_store.flush_index()


async def said(store: MemoryStore, user: str = "alice", **scope: str) -> list[MemoryItem]:
    return await AgentMemory(store, user, **scope).query(SAID)  # type: ignore[arg-type]


async def found(store: MemoryStore, query: str, criteria: MemoryCriteria | None = None) -> list[SearchHit]:
    return await AgentMemory(store, "alice").search(query, 10, criteria)


async def texts(store: MemoryStore) -> list[str]:
    contents = await AgentMemory(store, "alice").retrieve_contents([item.key for item in await said(store)])
    return list(contents.values())


async def test_messages_of_person_and_agent_are_items_in_order(store: MemoryStore):
    context = context_of(store, None)
    await say(context, "My database is Orders at db1.", "Deploy on Friday.")
    await archived(context)
    items = await said(store)
    assert [(item.source, item.origin, item.metadata["position"]) for item in items] == [
        ("user", "user_words", 1), ("coder", "agent", 2), ("user", "user_words", 3), ("coder", "agent", 4),
    ]  # fmt: skip
    assert {item.session_id for item in items} == {context.session_id}
    assert [item.created_at for item in items] == [entry.added_at for entry in context.transcript.entries(0)]


async def test_results_calls_code_output_and_own_notices_are_not_said(store: MemoryStore):
    context = context_of(store, None)
    call = FunctionCall("c1", '{"command": "ls"}', "shell")
    result = FunctionExecutionResult(content="README.md", name="shell", call_id="c1")
    await context.add_message(UserMessage(content="What is there?", source="user"))
    await context.add_message(AssistantMessage(content=[call], source="coder", thought="I list the files."))
    await context.add_message(FunctionExecutionResultMessage(content=[result]))
    await context.add_message(UserMessage(content="a notice", source="memory"))
    await context.get_messages()
    await context.add_message(AssistantMessage(content="There is a README.", source="coder"))
    await context.add_message(UserMessage(content="exit code 0", source="coder"))  # as CodeExecutorAgent does
    await archived(context)
    assert [item.ref.description for item in await said(store)] == ["What is there?", "There is a README."]


async def test_equal_messages_have_one_content_and_a_date_each(store: MemoryStore, server: Server, database_url: str):
    context = context_of(store, None)
    for _ in range(20):
        await context.add_message(UserMessage(content="yes", source="user"))
        await context.get_messages()
        await context.add_message(AssistantMessage(content="Done.", source="coder"))
    await archived(context)
    count = "SELECT count(*), count(DISTINCT created_at), count(DISTINCT content_id) FROM memory_context.agent_memories"
    assert server.execute(count, database_of(database_url)) == [(40, 40, 2)]
    (hit, *_) = await found(store, "yes")
    entries = context.transcript.entries(0)
    assert (hit.item.created_at, len(hit.item.other_keys)) == (entries[-2].added_at, 19)


async def test_an_offloaded_message_is_stored_once(store: MemoryStore, server: Server, database_url: str):
    text = " ".join(f"word{number}" for number in range(2000))
    context = context_of(store, None)
    await context.add_message(UserMessage(content=text, source="user"))
    await context.get_messages()
    await context.add_message(AssistantMessage(content="Read.", source="coder"))
    await archived(context)
    items = await said(store)
    assert (await AgentMemory(store, "alice").retrieve(items[0].key)).content == text  # type: ignore[union-attr]
    assert server.execute("SELECT count(*) FROM memory_context.agent_memory_contents", database_of(database_url)) == [
        (2,)
    ]
    assert [hit.item.type for hit in await found(store, "word1234") if hit.is_relevant] == ["conversation"]
    # whoever forgets the item forgets the message
    (item,) = await context.agent_memory.query()
    assert await context.agent_memory.forget(item.key)
    assert not any(hit.is_relevant for hit in await found(store, "word1234"))


async def test_batches_that_repeat_messages_store_none_twice(store: MemoryStore):
    """A batch that begins anew, a branch after a conflict, a job that is done again."""
    first, second = context_of(store), context_of(store)
    await say(first, "One.")
    await first.archive()
    await say(second, "Two.")
    await second.get_messages()  # its history is there
    await say(first, "Three.")
    await first.archive()
    await second.archive()
    await archived(first, second)
    said_texts = await texts(store)
    assert sorted(said_texts) == sorted(["One.", "On One..", "Two.", "On Two..", "Three.", "On Three.."])


async def test_redelivered_messages_are_said_once(store: MemoryStore):
    context = context_of(store, None)
    message = UserMessage(content="Fetch it again.", source="user")
    await context.add_message(message)
    await context.get_messages()
    await context.add_message(message)
    await archived(context)
    assert await texts(store) == ["Fetch it again."]


async def test_listings_counts_and_pruning_leave_messages_alone(store: MemoryStore):
    context = context_of(store, None)
    await say(context, "Look at the Orders database.")
    await archived(context)
    await asyncio.sleep(0.01)
    memory = AgentMemory(store, "alice")
    assert await memory.query() == []
    assert len(await memory.query(MemoryCriteria(types=("conversation",)))) == 2
    await store.prune(timedelta(microseconds=1))
    assert len(await said(store)) == 2
    await store.prune(timedelta(microseconds=1), conversations=True)
    assert await found(store, "Orders") == []
    with pytest.raises(ValueError, match="never pruned"):
        await store.prune(timedelta(days=1), types=["conversation"])


async def test_a_deleted_session_is_not_found_and_stays_so(store: MemoryStore, server: Server, database_url: str):
    context, other = context_of(store, None), context_of(store, None)
    await say(context, "Look at the Orders database.")
    await say(other, "Look at the Parts database.")
    await context.archive()
    await archived(other)
    await store.conversations.delete_session("alice", context.session_id)
    await store.flush_index()
    assert [hit.passage for hit in await found(store, "Orders database")] == [
        "Look at the Parts database.", "On Look at the Parts database..",
    ]  # fmt: skip
    left = server.execute("SELECT content FROM memory_context.agent_memory_contents", database_of(database_url))
    assert sorted(row[0] for row in left) == ["Look at the Parts database.", "On Look at the Parts database.."]  # type: ignore[type-var]


async def test_messages_of_a_private_session_are_private(store: MemoryStore):
    context = context_of(store, None)
    isolated = context.for_subagent("helper", "isolated")
    await isolated.add_message(UserMessage(content="The password hint is zebra.", source="coder"))
    await archived(isolated)
    assert await found(store, "zebra") == []
    assert len(await isolated.search("zebra")) == 1
    assert await AgentMemory(store, "bob").search("zebra") == []
