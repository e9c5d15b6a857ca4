"""The content hash is compared whenever an item is read: a difference is an error that names it, never a wrong text."""

import logging

import pytest
from autogen_core import CancellationToken
from autogen_core.models import UserMessage

from memory_context import AgentMemory, ItemDamagedError, MemoryContext, MemoryStore
from memory_context.store.items import MemoryCriteria, NewItem

from ..conftest import Server, database_of

CONTENT_OF = "id = (SELECT content_id FROM memory_context.agent_memories WHERE memory_key = '{key}')"
GOOD, EVIL = "The deploy key is in vault 7.", "The deploy key is in vault 8."


@pytest.fixture
async def key(store: MemoryStore, server: Server, database_url: str) -> str:
    """The key of an item whose content somebody changed in the database."""
    ref = await AgentMemory(store, "alice", "coder", "s").store(GOOD, description="where the key is", source="notes")
    await store.flush_index()
    change = (
        f"UPDATE memory_context.agent_memory_contents SET content = '{EVIL}' WHERE {CONTENT_OF.format(key=ref.key)}"
    )
    server.execute(change, database_of(database_url))
    return ref.key


async def test_retrieve_raises_an_error_that_names_the_item(store: MemoryStore, key: str):
    with pytest.raises(ItemDamagedError, match=f"item '{key}' is damaged") as caught:
        await AgentMemory(store, "alice").retrieve(key)
    assert "vault" not in str(caught.value)


async def test_tool_answers_with_a_sentence(store: MemoryStore, key: str):
    context = MemoryContext("alice", "coder", "s", store)
    (retrieve,) = [tool for tool in context.tools() if tool.name == "retrieve_memory"]
    for transform in ("full", "summary", "first_n"):
        answer = await retrieve.run_json({"memory_key": key, "transform": transform, "n": 1}, CancellationToken())
        assert "vault 8" not in answer
    answer = await retrieve.run_json({"memory_key": key}, CancellationToken())
    assert answer.startswith(f"item '{key}' is damaged in the database")


async def test_view_goes_on_without_what_is_damaged(store: MemoryStore, key: str, caplog: pytest.LogCaptureFixture):
    """It is logged; the store counts as there, so that other items still open."""
    other = await AgentMemory(store, "alice", "coder", "s").store("The door code is 1234.", source="notes")
    context = MemoryContext("alice", "coder", memory_store=store)
    with caplog.at_level(logging.ERROR, logger="memory_context"):
        await context.add_message(UserMessage(content=f"Open {key} and {other.key}.", source="user"))
        shown = "\n".join(str(message.content) for message in await context.get_messages())
    assert "vault 8" not in shown
    assert "The door code is 1234." in shown
    assert [key in record.getMessage() for record in caplog.records] == [True]


async def test_several_contents_at_once_leave_the_damaged_one_out(
    store: MemoryStore, key: str, caplog: pytest.LogCaptureFixture
):
    await store.items.insert_memories("alice", [NewItem("sound", "", 1, key="sound")])
    assert await store.items.fetch_contents("alice", [key, "sound"]) == {"sound": "sound"}
    assert key in caplog.text


async def test_export_names_the_damaged_item(store: MemoryStore, key: str):
    with pytest.raises(ItemDamagedError, match=key):
        async for _ in store.admin.export_lines("alice"):
            pass


async def test_bytes_that_are_no_text_are_damage(store: MemoryStore, server: Server, database_url: str):
    """Also where the content is kept as bytes, since it holds a NUL."""
    await store.items.insert_memories("alice", [NewItem("a\0b", "", 1, key="raw")])
    change = r"UPDATE memory_context.agent_memory_contents SET content_raw = '\xff00fe' WHERE " + CONTENT_OF.format(
        key="raw"
    )
    server.execute(change, database_of(database_url))
    with pytest.raises(ItemDamagedError, match="'raw'"):
        await store.items.fetch_memory("alice", "raw")


async def test_damaged_item_can_be_listed_and_forgotten(store: MemoryStore, key: str):
    assert [item.key for item in await store.items.select_memories("alice", MemoryCriteria())] == [key]
    assert await AgentMemory(store, "alice", "coder", "s").forget(key)


async def test_search_shows_no_damaged_passage(
    store: MemoryStore, server: Server, database_url: str, caplog: pytest.LogCaptureFixture
):
    """Other items are still found."""
    memory = AgentMemory(store, "alice", "coder", "s")
    bad = await memory.store(GOOD + " and more" * 900, source="notes")
    raw = await memory.store("vault of \0 7" + " and more" * 900, source="notes")
    good = await memory.store("The vault opens at noon.", source="notes")
    assert {hit.item.key for hit in await memory.search("vault")} == {bad.key, raw.key, good.key}
    damage = "UPDATE memory_context.agent_memory_chunks SET text = replace(text, ' 7', ' 8')"
    server.execute(damage, database_of(database_url))
    with caplog.at_level(logging.ERROR, logger="memory_context"):
        assert {hit.item.key for hit in await memory.search("vault")} == {good.key}
    assert {key in caplog.text for key in (bad.key, raw.key)} == {True}


async def test_damaged_item_is_not_indexed(
    store: MemoryStore, server: Server, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    """A search that would index it finds the others."""
    monkeypatch.setattr("memory_context.store.jobs.Jobs.wake", lambda self, user_id: None)
    memory = AgentMemory(store, "alice", "coder", "s")
    await memory.store(GOOD, source="notes")
    good = await memory.store("The vault opens at noon.", source="notes")
    change = "UPDATE memory_context.agent_memory_contents SET content = replace(content, ' 7', ' 8')"
    server.execute(change, database_of(database_url))
    assert {hit.item.key for hit in await memory.search("vault")} == {good.key}
