"""Snapshots: a scope reads again what it read when one was taken, in this process or another."""

import json

import pytest
from pydantic import ValidationError

from memory_context import AgentMemory, MemorySnapshot, MemoryStore
from memory_context.store.items import MemoryCriteria
from tests.conftest import StartPython
from tests.embeddings.fakes import FakeEmbedder

pytestmark = pytest.mark.fake_embedder


async def readable(memory: AgentMemory, *keys: str) -> set[str]:
    """Return what every read path shows, which has to be the same."""
    listed = {item.key for item in await memory.query()}
    assert {hit.item.key for hit in await memory.search("harbour", limit=50)} == listed
    assert {key for key in keys if await memory.retrieve(key) is not None} == listed & set(keys)
    assert set(await memory.retrieve_contents(keys)) == listed & set(keys)
    assert set((await memory.snapshot()).keys) == listed
    return listed


async def test_exactly_what_was_there_is_read_again(store: MemoryStore) -> None:
    """And what is stored afterwards; what others stored meanwhile, or the own scope before, is not."""
    memory, other = AgentMemory(store, "alice", "coder", "s"), AgentMemory(store, "alice", "critic", "s")
    before = [(await one.store(f"harbour {n}")).key for n, one in enumerate((memory, other))]
    snapshot = await memory.snapshot()
    assert (snapshot.user_id, snapshot.agent_id, snapshot.session_id) == ("alice", "coder", "s")
    later = [(await one.store(f"later harbour {n}")).key for n, one in enumerate((memory, other))]
    await store.flush_index()
    assert await readable(memory, *before, *later) == {*before, *later}
    await memory.restore(snapshot)
    assert await readable(memory, *before, *later) == set(before)
    assert "is not in the snapshot that this memory was restored to" in str(await memory.not_found(later[0]))
    new = (await memory.store("a new harbour")).key
    again = (await memory.store("later harbour 0")).key
    assert again == later[0]
    for _ in range(2):
        assert await readable(memory, *before, *later, new) == {*before, new, again}
        await store.flush_index()
    assert await readable(other, *before, *later, new) == {*before, *later, new}  # it is the scope that was restored
    await other.forget(before[1])
    assert await readable(memory, *before, new) == {before[0], new, again}
    assert "was forgotten on" in str(await memory.not_found(before[1]))
    await memory.restore(snapshot)
    assert await readable(memory, *before, new) == {before[0]}


async def test_criteria_and_links_stay_within_a_snapshot(store: MemoryStore) -> None:
    """They narrow it, like any reach."""
    memory = AgentMemory(store, "alice", "coder", "s")
    hub = await memory.store("the hub harbour", tags=["x"])
    await memory.store("a spoke harbour", related_to=[hub.key])
    snapshot = await memory.snapshot()
    await memory.store("a later harbour", tags=["x"], related_to=[hub.key])
    await memory.restore(snapshot)
    assert len(await memory.query(MemoryCriteria(related_to=hub.key))) == 1
    assert [hit.item.key for hit in await memory.search("harbour", criteria=MemoryCriteria(tags=("x",)))] == [hub.key]


async def test_an_empty_snapshot_shows_nothing(store: MemoryStore) -> None:
    """Rather than everything."""
    memory = AgentMemory(store, "alice", "coder", "s")
    empty = await memory.snapshot()
    key = (await memory.store("harbour")).key
    await memory.restore(empty)
    assert await readable(memory, key) == set()


async def test_a_snapshot_hands_on_what_its_taker_could_read(store: MemoryStore) -> None:
    """Private items too, to whom the application gives it; it stays the only one who reads them."""
    hermit = AgentMemory(store, "alice", "hermit", "s", sharing="isolated")
    key = (await hermit.store("a private harbour")).key
    heir = AgentMemory(store, "alice", "hermit", "t", sharing="isolated")
    assert await readable(heir, key) == set()
    await heir.restore(await hermit.snapshot())
    assert await readable(heir, key) == {key}
    assert await readable(AgentMemory(store, "alice", "lead", "s"), key) == set()
    assert not await heir.forget(key)


async def test_a_snapshot_of_another_user_is_refused(store: MemoryStore) -> None:
    """And would show nothing: keys are looked for among the own items only."""
    bob = AgentMemory(store, "bob", "coder", "s")
    key = (await bob.store("harbour of bob")).key
    snapshot = await bob.snapshot()
    alice = AgentMemory(store, "alice", "coder", "s")
    own = (await alice.store("harbour of alice")).key
    with pytest.raises(ValueError, match="this snapshot belongs to user 'bob', not to 'alice'"):
        await alice.restore(snapshot)
    assert await readable(alice, key, own) == {own}
    await alice.restore(snapshot.model_copy(update={"user_id": "alice"}))
    assert await readable(alice, key, own) == set()


async def test_json_keeps_it_and_nothing_else_is_taken_for_one(store: MemoryStore) -> None:
    """Keys and scope, no content; what is no key is refused."""
    memory = AgentMemory(store, "alice", "coder", "s")
    await memory.store("harbour", description="the description")
    snapshot = await memory.snapshot()
    text = snapshot.to_json()
    assert MemorySnapshot.from_json(text) == snapshot
    assert set(json.loads(text)) == {"user_id", "agent_id", "session_id", "taken_at", "keys"}
    assert "harbour" not in text
    assert "description" not in text
    with pytest.raises(ValidationError, match="frozen"):
        snapshot.user_id = "bob"  # type: ignore[misc]
    for wrong in ("{}", "no json", text.replace(snapshot.keys[0], "'; --"), text.replace("taken_at", "at")):
        with pytest.raises(ValueError, match="MemorySnapshot"):
            MemorySnapshot.from_json(wrong)


async def test_another_store_restores_it(store: MemoryStore, database_url: str) -> None:
    """The snapshot is all it needs."""
    memory = AgentMemory(store, "alice", "coder", "s")
    key = (await memory.store("harbour")).key
    text = (await memory.snapshot()).to_json()
    later = (await memory.store("later harbour")).key
    await store.flush_index()
    async with MemoryStore(database_url, FakeEmbedder()) as other:
        restored = AgentMemory(other, "alice", "coder", "s")
        await restored.restore(MemorySnapshot.from_json(text))
        assert await readable(restored, key, later) == {key}


RESTORE = """
import asyncio, os, sys
from memory_context import AgentMemory, MemorySnapshot, MemoryStore

async def main():
    async with MemoryStore(os.environ["TEST_URL"]) as store:
        memory = AgentMemory(store, "alice", "coder", "s")
        await memory.restore(MemorySnapshot.from_json(sys.stdin.read()))
        new = await memory.store("stored elsewhere")
        print(*sorted(item.key for item in await memory.query() if item.key != new.key), len(await memory.query()))

asyncio.run(main())
"""


@pytest.mark.thorough
async def test_another_process_restores_it(store: MemoryStore, database_url: str, start_python: StartPython) -> None:
    """Given as text on its standard input."""
    memory = AgentMemory(store, "alice", "coder", "s")
    keys = sorted([(await memory.store(f"harbour {n}")).key for n in range(3)])
    snapshot = await memory.snapshot()
    await memory.store("later")
    process = await start_python(RESTORE, TEST_URL=database_url)
    out, errors = await process.communicate(snapshot.to_json().encode())
    assert errors == b""
    assert out.decode().split() == [*keys, "4"]
    assert len(await memory.query()) == 5
