"""What is stored is stored and indexed once for each user; who reads it, and that nobody learns of another's twin."""

import asyncio
import json

import pytest

from memory_context import AgentMemory, ItemNotFoundError, MemoryCriteria, MemoryStore, SearchHit
from memory_context.store.items import NewItem
from memory_context.store.jobs import JobReport
from tests.conftest import Server, database_of

pytestmark = [pytest.mark.fake_embedder, pytest.mark.usefixtures("index_when_flushed")]

TEXT = "The harbour master keeps the ledger of the ships.\n" * 60
TABLES = ("agent_memory_contents", "agent_memory_chunks", "agent_memory_terms", "agent_memory_embeddings")


def agent(store: MemoryStore, name: str, sharing: str = "shared") -> AgentMemory:
    return AgentMemory(store, "alice", name, "s", sharing=sharing)  # type: ignore[arg-type]


def rows(server: Server, store: MemoryStore) -> dict[str, object]:
    """Return how many rows each table has."""
    database = database_of(store._database.location.url or "")
    return {name: server.execute(f"SELECT count(*) FROM memory_context.{name}", database)[0][0] for name in TABLES}


async def test_the_same_content_of_several_agents_is_stored_and_indexed_once(
    store: MemoryStore, server: Server
) -> None:
    """Each keeps its item: key, agent, type, source, description, sharing. Another user has a content of their own."""
    first = await agent(store, "a").store(TEXT, description="of a", source="shell", tags=["x"])
    await store.flush_index()
    before = rows(server, store)
    assert before["agent_memory_contents"] == 1
    second = await agent(store, "b", "read_only").store(TEXT, description="of b", type="article")
    third = await agent(store, "c", "isolated").store(TEXT, description="of c", source="page")
    assert await store.flush_index() == JobReport(0, 0)
    assert rows(server, store) == before
    assert len({first.key, second.key, third.key}) == 3
    item = await agent(store, "b", "read_only").retrieve(second.key)
    assert item is not None
    assert (item.ref.description, item.type, item.agent_id, item.is_private) == ("of b", "article", "b", True)
    assert item.content == TEXT
    await AgentMemory(store, "bob").store(TEXT)
    assert rows(server, store)["agent_memory_contents"] == 2


async def test_lists_and_searches_show_one_hit_for_each_content(store: MemoryStore) -> None:
    """The newest item that meets the criteria and is within reach; it names the others that are, and no more."""
    keys = [(await agent(store, name).store(TEXT, source=name)).key for name in "abc"]
    hermit = await agent(store, "hermit", "isolated").store(TEXT, source="hermit")
    for is_indexed in (False, True):
        if is_indexed:
            await store.flush_index()
        for reader in (agent(store, "a"), AgentMemory(store, "alice")):
            (hit,) = await reader.search("harbour ledger")
            (listed,) = await reader.query()
            assert hit.item.key == listed.key == keys[2]
            assert hit.item.other_keys == listed.other_keys == (keys[1], keys[0])
        criteria = MemoryCriteria(sources=("a", "b"))
        (hit,) = await agent(store, "c").search("harbour ledger", criteria=criteria)
        (listed,) = await agent(store, "c").query(criteria)
        assert hit.item.key == listed.key == keys[1]
        (hit,) = await agent(store, "hermit", "isolated").search("harbour ledger")
        assert (hit.item.key, hit.item.other_keys) == (hermit.key, ())


def told(hits: list[SearchHit]) -> list[object]:
    """Return all that a reader learns of hits, but keys and times, which are the item's own."""
    return [
        (
            hit.passage,
            hit.score,
            hit.is_relevant,
            hit.item.other_keys,
            hit.item.ref.description,
            hit.item.type,
        )
        for hit in hits
    ]


@pytest.mark.parametrize("twin", ["shared", "read_only", "isolated"])
async def test_an_isolated_agent_learns_nothing_of_a_twin(database_url: str, store: MemoryStore, twin: str) -> None:
    """Whatever another agent stored of the same text: scores, ranks, counts and what is found when are as without."""
    seen: list[object] = []
    for user in ("without", "with"):
        other = AgentMemory(store, user, "other", "s", sharing=twin)  # type: ignore[arg-type]
        hermit = AgentMemory(store, user, "hermit", "t", sharing="isolated")
        if user == "with":
            for text in (TEXT, "harbour and ships, of the other only", "ledger"):
                await other.store(text, description="treasure of the other", tags=["treasure"])
            await store.flush_index()
        for text in (TEXT, "a note on the harbour", "something else\n" * 90):
            await hermit.store(text, description="of the hermit")
        found = [told(await hermit.search(query)) for query in ("harbour ledger", "treasure", "ships")]
        candidates, _ = await store.search.candidates(
            user, "harbour", ["harbour"], MemoryCriteria(), scope=hermit.scope
        )
        seen.append((found, len(candidates)))
        await store.flush_index()
        indexed = [told(await hermit.search(query)) for query in ("harbour ledger", "treasure", "ships")]
        _, profile = await store.search.candidates(
            user, "harbour", ["harbour", "treasure"], MemoryCriteria(), scope=hermit.scope
        )
        listed = [(one.ref.description, one.other_keys) for one in await hermit.query()]
        seen[-1] = (seen[-1], indexed, profile, listed)
    assert seen[0] == seen[1]


async def test_others_learn_nothing_of_an_isolated_agent(store: MemoryStore) -> None:
    """Neither by terms that only its items have, nor by how frequent a term is, nor by its twin of their own item."""
    seen: list[object] = []
    for user in ("without", "with"):
        if user == "with":
            hermit = AgentMemory(store, user, "hermit", "t", sharing="isolated")
            for text in (TEXT, "harbour of the hermit", "ledger"):
                await hermit.store(text, description="treasure of the hermit")
            await store.flush_index()
        lead = AgentMemory(store, user, "lead", "s")
        for text in (TEXT, "a note on the harbour"):
            await lead.store(text, description="of the lead")
        early = told(await lead.search("harbour treasure"))
        await store.flush_index()
        _, profile = await store.search.candidates(
            user, "harbour", ["harbour", "treasure"], MemoryCriteria(), scope=lead.scope
        )
        seen.append((early, told(await lead.search("harbour treasure")), profile))
    assert seen[0] == seen[1]


async def test_one_item_is_shared_with_one_agent(store: MemoryStore) -> None:
    """By whoever stored it: read, listed and found by that agent, however isolated; by no other, and nothing else."""
    hermit, other, third = (agent(store, name, "isolated") for name in ("hermit", "other", "third"))
    given, kept = await hermit.store(TEXT), await hermit.store("the harbour, kept")
    with pytest.raises(ItemNotFoundError, match="belongs to another agent"):
        await other.share(given.key, "third")
    with pytest.raises(ItemNotFoundError):
        await hermit.share("nothing_k3f7x2", "other")
    with pytest.raises(ValueError, match="agent_id=''"):
        await hermit.share(given.key, "")
    await hermit.share(given.key, "other")
    await hermit.share(given.key, "other")
    for is_indexed in (False, True):
        if is_indexed:
            await store.flush_index()
        item = await other.retrieve(given.key)
        assert item is not None
        assert item.content == TEXT
        assert [one.key for one in await other.query()] == [given.key]
        assert [hit.item.key for hit in await other.search("harbour")] == [given.key]
        assert await other.retrieve(kept.key) is None
        assert await third.retrieve(given.key) is None
        assert await third.search("harbour") == []
    assert not await other.forget(given.key)
    assert await hermit.forget(given.key)
    assert await other.retrieve(given.key) is None


@pytest.mark.thorough
async def test_a_content_goes_with_its_last_item(store: MemoryStore, server: Server) -> None:
    """An agent forgets its own item; what another one stored stays whole and is found."""
    first, second = agent(store, "a"), agent(store, "b", "isolated")
    one, two = await first.store(TEXT, description="zebra"), await second.store(TEXT)
    await store.flush_index()
    assert await first.forget(one.key)
    assert rows(server, store)["agent_memory_contents"] == 1
    assert await first.search("harbour zebra") == []
    assert await second.search("zebra") == [] or (await second.search("zebra"))[0].item.key == two.key
    assert (await second.retrieve(two.key)).content == TEXT  # type: ignore[union-attr]
    again = await first.store(TEXT)
    assert again.key != one.key
    assert await first.forget(again.key)
    assert await second.forget(two.key)
    assert set(rows(server, store).values()) == {0}
    await store.flush_index()


async def test_the_user_forgets_all_items_of_a_content(store: MemoryStore, server: Server) -> None:
    """Whichever agents have it, also privately; each leaves its tombstone."""
    keys = [
        (await agent(store, name, sharing).store(TEXT)).key for name, sharing in (("a", "shared"), ("b", "isolated"))
    ]
    other = await agent(store, "a").store("another harbour")
    await store.flush_index()
    assert sorted(await store.user_stats.forget("alice", keys[:1])) == sorted(keys)
    assert rows(server, store)["agent_memory_contents"] == 1
    assert not any([(await store.items.fetch_whereabouts("alice", key)).is_active for key in keys])  # type: ignore[union-attr]
    assert await store.items.select_keys("alice") == [other.key]


@pytest.mark.thorough
async def test_storing_indexing_and_forgetting_the_same_content_at_once(store: MemoryStore, server: Server) -> None:
    """Nobody waits for each other for good, no item loses its content, and nothing is left of what was forgotten."""
    agents = [agent(store, f"a{number}", "isolated" if number % 2 else "shared") for number in range(6)]

    async def live(memory: AgentMemory) -> None:
        for round_ in range(6):
            refs = await asyncio.gather(*(memory.store(f"{text} {round_ % 2}") for text in ("harbour", TEXT, "ledger")))
            for ref in refs:
                item = await memory.retrieve(ref.key)
                assert item is not None
                assert item.content
            await memory.clear()

    async def index() -> None:
        for _ in range(10):
            await store.flush_index()

    await asyncio.gather(*(live(memory) for memory in agents), index(), index())
    await store.flush_index()
    assert set(rows(server, store).values()) == {0}
    database = database_of(store._database.location.url or "")
    assert server.execute("SELECT chunk_count FROM memory_context.agent_memory_statistics", database) == [(0,)]
    assert server.execute("SELECT count(*) FROM memory_context.agent_memory_names", database) == [(0,)]


# --- files


async def test_a_file_with_the_same_content_twice_comes_back_as_one(store: MemoryStore, server: Server) -> None:
    """Both items, whom they are shared with, and one content; the same file again changes nothing."""
    hermit = agent(store, "hermit", "isolated")
    given = await hermit.store(TEXT)
    await agent(store, "a").store(TEXT)
    await hermit.share(given.key, "a")
    whole = b"".join([piece async for piece in store.admin.export_lines("alice")])
    assert [json.loads(line)["record"] for line in whole.splitlines()[1:]].count("item") == 2
    read = whole.splitlines(keepends=True)
    report = await store.admin.import_lines(read, "bob")
    assert report.stored["item"] == 2
    assert rows(server, store)["agent_memory_contents"] == 2
    reader = AgentMemory(store, "bob", "a", "elsewhere", sharing="isolated")
    assert [one.key for one in await reader.query()] == [given.key]
    again = await store.admin.import_lines(read, "bob")
    assert (again.stored["item"], again.known["item"]) == (0, 2)
    await store.user_stats.forget("bob", [given.key])
    kept = await store.admin.import_lines(read, "bob")
    assert kept.known["item"] == 2
    assert rows(server, store)["agent_memory_contents"] == 1


async def test_one_transaction_may_hold_the_same_content_twice(store: MemoryStore, server: Server) -> None:
    """Stored under two sources at once."""
    items = [NewItem(TEXT, "", 1, key=f"k{number}", source=f"s{number}") for number in range(3)]
    assert await store.items.insert_memories("alice", items) == ["k0", "k1", "k2"]
    assert await store.flush_index() == JobReport(0, 0)
    assert rows(server, store)["agent_memory_contents"] == 1
