"""Secrets are refused at every entry; those in clear are in no search, list, view or export."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from autogen_core import CancellationToken
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.models import UserMessage

from memory_context import (
    AgentMemory,
    MemoryContext,
    MemoryCriteria,
    MemoryStore,
    PostgresMemory,
    SecretError,
)
from memory_context.store.items import NewItem
from memory_context.surfaces.cli import execute as command
from tests.conftest import Server, database_of
from tests.embeddings.fakes import FakeEmbedder
from tests.mcp_server.conftest import connected, said
from tests.support.exports import item, written
from tests.support.secrets import IN_CLEAR

SECRET: Any = "user_secret"
WORDS = "the safe opens with 4711-zebra"


@pytest.fixture
async def old(database_url: str) -> AsyncIterator[MemoryStore]:
    """A store that holds a secret in clear, which nothing of this version stores, and an indexed note."""
    with psycopg.connect(database_url) as connection:
        connection.execute(IN_CLEAR.encode(), (f"{WORDS} user_secret",))
    async with MemoryStore(database_url, FakeEmbedder()) as store:
        note = NewItem(f"{WORDS} custom", "zebra of the safe", 7, key="note_k3f7x2", source="notes", tags=("zebra",))
        await store.items.insert_memories("alice", [note])
        await store.flush_index()
        yield store


async def test_every_way_to_store_refuses_the_type(store: MemoryStore) -> None:
    """With a SecretError that says where to keep the secret instead; nothing is stored."""
    memory = AgentMemory(store, "alice")
    context = MemoryContext("alice", memory_store=store)
    content = MemoryContent(content=WORDS, mime_type=MemoryMimeType.TEXT, metadata={"type": SECRET})
    for attempt in (
        memory.store(WORDS, type=SECRET),
        context.store(WORDS, "safe", SECRET),
        PostgresMemory("alice", memory_store=store).add(content),
        store.items.insert_memories("alice", [NewItem(WORDS, "", 1, SECRET, key="k")]),
    ):
        with pytest.raises(SecretError, match="keep the secret outside of the memory, such as in an environment"):
            await attempt
    with pytest.raises(SecretError):
        PostgresMemory("alice", memory_store=store, type=SECRET)
    assert await store.items.select_keys("alice") == []


async def test_the_tool_answers_a_secret_with_what_to_do(store: MemoryStore) -> None:
    """In words for the model; its schema does not offer the type."""
    context = MemoryContext("alice", memory_store=store)
    tool = next(tool for tool in context.tools() if tool.name == "store_memory")
    asked = {"content": WORDS, "description": "safe", "type": SECRET}
    answer = await tool.run_json(asked, CancellationToken())
    assert answer.startswith("Not stored: secrets are not kept here")
    assert "ask the user to keep it in a safe place" in answer
    assert SECRET not in json.dumps(tool.schema)
    async with connected(store) as client:
        result = await client.call_tool("store_memory", asked)
        assert result.isError
        assert said(result) == answer
        assert SECRET not in json.dumps([one.model_dump(mode="json") for one in (await client.list_tools()).tools])
    assert await store.items.select_keys("alice") == []


async def test_import_leaves_out_a_secret_in_clear(store: MemoryStore) -> None:
    """Files of earlier versions may hold one; its key is told. What was forgotten of that type is no secret."""
    lines = written([item("note", "harbour"), item("safe", WORDS, memory_type=SECRET)]).splitlines(keepends=True)
    report = await store.admin.import_lines(lines)
    assert report.secrets == ["safe"]
    assert await store.items.select_keys("alice") == ["note"]
    gone = item("safe", WORDS, memory_type=SECRET, is_active=False, content=None, content_sha256=None)
    report = await store.admin.import_lines(written([gone]).splitlines(keepends=True))
    assert report.stored == {"item": 1}


async def test_a_secret_in_clear_is_found_by_nothing(old: MemoryStore, server: Server) -> None:
    """Neither by search nor in lists, offers and the words of a saved state; it has no passages and terms."""
    memory = AgentMemory(old, "alice")
    await old.flush_index()
    assert {hit.item.key for hit in await memory.search("zebra safe 4711")} == {"note_k3f7x2"}
    assert [one.key for one in await memory.query()] == ["note_k3f7x2"]
    assert (await memory.snapshot()).keys == ("note_k3f7x2",)
    assert await memory.retrieve_contents(["safe_k3f7x2"]) == {}
    assert "safe_k3f7x2" not in str(await memory.not_found("safe_k3f7x3"))
    database = database_of(old._database.location.url or "")
    assert server.execute("SELECT chunk_count FROM memory_context.agent_memory_statistics", database) == [(1,)]
    for table in ("agent_memory_chunks", "agent_memory_terms", "agent_memory_embeddings"):
        count = f"SELECT count(DISTINCT content_id) FROM memory_context.{table}"
        assert server.execute(count, database) == [(1,)], table


async def test_a_secret_in_clear_is_read_by_its_application_and_forgotten(old: MemoryStore) -> None:
    """By its key; a list that asks for the type says that it is there, and nothing that somebody wrote."""
    memory = AgentMemory(old, "alice")
    context = MemoryContext("alice", memory_store=old)
    assert await context.retrieve("safe_k3f7x2") == f"{WORDS} user_secret"
    (listed,) = await memory.query(MemoryCriteria(types=(SECRET,)))
    assert (listed.key, listed.ref.description, listed.tags, listed.metadata) == (
        "safe_k3f7x2",
        "a secret: not shown",
        (),
        {},
    )
    assert await memory.forget("safe_k3f7x2")
    assert "was forgotten on" in str(await memory.not_found("safe_k3f7x2"))


async def test_a_secret_in_clear_is_shown_to_no_model(old: MemoryStore) -> None:
    """Not by the tool, over MCP, or by its key in the words of the user."""
    context = MemoryContext("alice", memory_store=old)
    tool = next(tool for tool in context.tools() if tool.name == "retrieve_memory")
    answer = await tool.run_json({"memory_key": "safe_k3f7x2"}, CancellationToken())
    assert answer == "'safe_k3f7x2' is a secret, which no model is shown: ask the user for what you need."
    await context.add_message(UserMessage(content="open safe_k3f7x2 and note_k3f7x2", source="user"))
    view = str(await context.get_messages())
    assert "custom" in view
    assert f"{WORDS} user_secret" not in view
    async with connected(old) as client:
        assert "which no model is shown" in said(
            await client.call_tool("retrieve_memory", {"memory_key": "safe_k3f7x2"})
        )
        listed = (await client.list_resources()).resources
        assert [resource.name for resource in listed] == ["note_k3f7x2"]
        with pytest.raises(Exception, match="is a secret, which is not given to clients"):
            await client.read_resource("memory://safe_k3f7x2")  # type: ignore[arg-type]


async def test_a_secret_in_clear_stays_behind_in_an_export(
    old: MemoryStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the command says of it; the rest is in the file."""
    url = old._database.location.url
    assert url is not None
    assert await asyncio.to_thread(command, ["export", "-", "--url", url, "--user", "alice"]) == 0
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["memory_key"] for line in lines if line.get("record") == "item"] == ["note_k3f7x2"]
    assert "user_secret" not in out
    assert "1 item of type user_secret stayed behind" in err
