"""Images as items of the store: their bytes come and go as the contents of other items do."""

import re

import pytest

from memory_context import AgentMemory, MemoryCriteria, MemoryStore
from memory_context.foundation.errors import ItemDamagedError
from memory_context.foundation.references import describe_image
from memory_context.store.transfer.importer import TransferError
from tests.conftest import Server, database_of
from tests.support.images import image_item, picture_of

pytestmark = pytest.mark.fake_embedder


def reading(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


async def export(store: MemoryStore, user: str) -> bytes:
    return b"".join([piece async for piece in store.admin.export_lines(user, None)])


async def test_image_survives_export_and_import(store: MemoryStore):
    item = image_item(picture_of(1), key="web_1")
    await store.items.insert_memories("alice", [item])
    exported = await export(store, "alice")
    await store.admin.import_lines(reading(exported), "other")
    there = await store.items.fetch_memory("other", "web_1")
    assert there is not None
    assert (there.data, there.content_type, there.content) == (item.data, "image/png", item.content)
    assert re.search(rb'"content_type": ?"image/png"', await export(store, "other"))


async def test_import_refuses_an_image_that_was_changed(store: MemoryStore):
    await store.items.insert_memories("alice", [image_item(picture_of(1), key="web_1")])
    exported = await export(store, "alice")
    changed = re.sub(rb'"content_base64":"(.{20}).', rb'"content_base64":"\1A', exported)
    with pytest.raises(TransferError, match="has not the hash"):
        await store.admin.import_lines(reading(changed), "other")
    assert await store.items.fetch_memory("other", "web_1") is None


async def test_bytes_of_an_image_are_stored_once_for_a_user(store: MemoryStore, server: Server, database_url: str):
    for agent in ("coder", "tester"):
        await AgentMemory(store, "alice", agent, "s").store_all([image_item(picture_of(1))])
    counted = "SELECT count(*), sum(octet_length(content_raw)) FROM memory_context.agent_memory_contents"
    assert server.execute(counted, database_of(database_url)) == [(1, len(image_item(picture_of(1)).data or b""))]


async def test_damaged_image_is_not_returned(store: MemoryStore, server: Server, database_url: str):
    await store.items.insert_memories("alice", [image_item(picture_of(1), key="web_1")])
    change = "UPDATE memory_context.agent_memory_contents SET content_raw = set_byte(content_raw, 40, 7)"
    server.execute(change, database_of(database_url))
    assert await store.items.fetch_images("alice", ["web_1"]) == {}
    with pytest.raises(ItemDamagedError, match="'web_1'"):
        await store.items.fetch_memory("alice", "web_1")


async def test_forgotten_image_leaves_a_tombstone_and_no_bytes(store: MemoryStore, server: Server, database_url: str):
    memory = AgentMemory(store, "alice", "coder", "s")
    (ref,) = await memory.store_all([image_item(picture_of(1))])
    await store.flush_index()
    assert await memory.forget(ref.key)
    assert await memory.retrieve_images([ref.key]) == {}
    assert "was forgotten on" in str(await memory.not_found(ref.key))
    assert server.execute("SELECT count(*) FROM memory_context.agent_memory_contents", database_of(database_url)) == [
        (0,)
    ]


async def test_images_are_listed_by_their_type_without_bytes(store: MemoryStore):
    memory = AgentMemory(store, "alice", "coder", "s")
    await memory.store_all([image_item(picture_of(1))])
    await memory.store("a text", source="notes")
    (listed,) = await memory.query(MemoryCriteria(types=("image",)))
    assert (listed.type, listed.data, listed.ref.token_count) == ("image", None, 1100)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (image_item(picture_of(1, 20)).data, "image of 20 x 20 (PNG, 12 kB)"),
        (b"\x89PNG\r\n\x1a\n", "image (PNG, 12 kB)"),
        (b"", "image (PNG, 12 kB)"),
    ],
)
def test_description_tells_size_and_kind(head: bytes, said: str):
    assert describe_image(head, "image/png", 12_345) == said
