"""Sharing between the agents of one user: each read path keeps to the table of `memory.items`."""

from collections.abc import Awaitable, Callable

import pytest

from memory_context import AgentMemory, MemoryStore
from memory_context.foundation.identifiers import Sharing
from memory_context.store.items import MemoryCriteria
from tests.conftest import Server, database_of
from tests.embeddings.fakes import FakeEmbedder

pytestmark = pytest.mark.fake_embedder


def lead_of(store: MemoryStore) -> AgentMemory:
    return AgentMemory(store, "alice", "lead", "s")


def sub_of(store: MemoryStore, sharing: Sharing, agent: str = "researcher") -> AgentMemory:
    return AgentMemory(store, "alice", agent, f"s/{agent}", sharing=sharing)


Read = Callable[[AgentMemory, list[str]], Awaitable[set[str]]]


async def by_retrieve(memory: AgentMemory, keys: list[str]) -> set[str]:
    return {key for key in keys if await memory.retrieve(key) is not None}


async def by_contents(memory: AgentMemory, keys: list[str]) -> set[str]:
    return set(await memory.retrieve_contents(keys))


async def by_query(memory: AgentMemory, keys: list[str]) -> set[str]:
    return {item.key for item in await memory.query()}


async def by_filtered_query(memory: AgentMemory, keys: list[str]) -> set[str]:
    return {item.key for item in await memory.query(MemoryCriteria(tags=("harbour",)))}


async def by_search(memory: AgentMemory, keys: list[str]) -> set[str]:
    return {hit.item.key for hit in await memory.search("the harbour at dawn", limit=20)}


async def by_filtered_search(memory: AgentMemory, keys: list[str]) -> set[str]:
    criteria = MemoryCriteria(tags=("harbour",))
    return {hit.item.key for hit in await memory.search("the harbour at dawn", limit=20, criteria=criteria)}


async def by_meaning_alone(memory: AgentMemory, keys: list[str]) -> set[str]:
    return {hit.item.key for hit in await memory.search("nowhere", limit=20)}


async def by_nearest_keys(memory: AgentMemory, keys: list[str]) -> set[str]:
    errors = [str(await memory.not_found(key[:-1] + "_")) for key in keys]
    return {key for key, error in zip(keys, errors, strict=True) if repr(key) in error}


async def by_snapshot(memory: AgentMemory, keys: list[str]) -> set[str]:
    return set((await memory.snapshot()).keys)


READ: list[Read] = [
    by_retrieve, by_contents, by_query, by_filtered_query, by_search, by_filtered_search, by_meaning_alone,
    by_nearest_keys, by_snapshot,
]  # fmt: skip


@pytest.mark.parametrize(
    ("read", "is_indexed"),
    [(read, True) for read in READ] + [(read, False) for read in READ if read is not by_meaning_alone],
    ids=lambda one: one.__name__ if callable(one) else "indexed" if one else "fresh",
)
async def test_each_reads_what_the_table_says(store: MemoryStore, read: Read, is_indexed: bool) -> None:
    """Whoever asks, on whatever path: what is private is read in its own scope and nowhere else.

    Content that is not indexed has no embedding, so it is not asked for by meaning alone.
    """
    owners = {
        "lead": lead_of(store),
        "helper": sub_of(store, "shared", "helper"),
        "reader": sub_of(store, "read_only", "reader"),
        "hermit": sub_of(store, "isolated", "hermit"),
        "bob": AgentMemory(store, "bob", "lead", "s"),
    }
    keys = {
        name: (await owner.store(f"the harbour at dawn: {name}", source=f"{name} {name * 3}", tags=["harbour"])).key
        for name, owner in owners.items()
    }
    if is_indexed:
        await store.flush_index()
    readable = {
        "lead": {"lead", "helper"},
        "helper": {"lead", "helper"},
        "reader": {"lead", "helper", "reader"},
        "hermit": {"hermit"},
        "bob": {"bob"},
    }
    for name, owner in owners.items():
        found = await read(owner, list(keys.values()))
        assert found == {keys[other] for other in readable[name]}, name
    nobody = AgentMemory(store, "alice")  # as PostgresMemory reads
    assert await read(nobody, list(keys.values())) == {keys["lead"], keys["helper"]}
    elsewhere = AgentMemory(store, "alice", "hermit", "another session")
    assert await read(elsewhere, list(keys.values())) == {keys["lead"], keys["helper"]}


@pytest.mark.parametrize("criteria", [MemoryCriteria(), MemoryCriteria(types=("custom",))], ids=["all", "filtered"])
@pytest.mark.parametrize("ranking", ["terms", "meaning", "meaning by the index"])
@pytest.mark.thorough
async def test_what_is_private_does_not_crowd_out_the_rest(
    database_url: str, monkeypatch: pytest.MonkeyPatch, ranking: str, criteria: MemoryCriteria
) -> None:
    """Hundreds of better matches of others leave the one that may be read where it is, in each ranking alone."""
    if ranking == "meaning by the index":
        monkeypatch.setattr("memory_context.store.search.passages._Size.is_for_index", True)
    embedder = FakeEmbedder()
    async with MemoryStore(database_url, embedder) as store:
        lead, hermit = lead_of(store), sub_of(store, "isolated")
        for number in range(230):
            await hermit.store(f"harbour harbour harbour {number}")
        right = await lead.store("much else is said here before the harbour is named once, and other things after it")
        await store.flush_index()
        assert right.key not in [hit.item.key for hit in await hermit.search("harbour", limit=50)]
        if ranking == "terms":
            embedder.fail_with = RuntimeError("away")
        terms = ["harbour"] if ranking == "terms" else []
        (one,), _ = await store.search.candidates("alice", "harbour", terms, criteria, scope=lead.scope)
        assert one.row["memory_key"] == right.key
        assert (sum(one.occurrences.values()) > 0) == (ranking == "terms")


async def test_a_private_neighbour_supports_nothing(store: MemoryStore, server: Server, database_url: str) -> None:
    """Of a session in which the sharing changed, the items for all are neighbours of each other."""
    shared, private = (AgentMemory(store, "alice", "r", "s", sharing=sharing) for sharing in ("shared", "read_only"))
    keys = [(await memory.store(f"the harbour {n}")).key for n, memory in enumerate((shared, private, shared))]
    await store.flush_index()
    rows = server.execute("SELECT memory_key, content_id FROM memory_context.agent_memories", database_of(database_url))
    ids = dict(rows)
    for memory, seen in ((lead_of(store), [keys[0], keys[2]]), (private, keys)):
        candidates, _ = await store.search.candidates(
            "alice", "harbour", ["harbour"], MemoryCriteria(), scope=memory.scope
        )
        assert sorted(one.content_id for one in candidates) == sorted(ids[key] for key in seen)  # type: ignore[type-var]
        first = next(one for one in candidates if one.content_id == ids[keys[0]])
        assert first.after == (ids[seen[1]], 0)


async def test_private_duplicates_hide_nothing(store: MemoryStore) -> None:
    """Near-duplicates come once; one that may not be read is no reason to leave out the other."""
    await sub_of(store, "isolated").store("the harbour at dawn is quiet")
    own = await lead_of(store).store("the harbour at dawn is quiet")
    for _ in range(2):
        assert [hit.item.key for hit in await lead_of(store).search("harbour")] == [own.key]
        await store.flush_index()


@pytest.mark.parametrize("is_indexed", [True, False], ids=["indexed", "fresh"])
async def test_links_are_found_from_both_sides_as_far_as_may_be_read(store: MemoryStore, is_indexed: bool) -> None:
    """Listing and searching; a link from or to something private is none for others, one to what is forgotten stays."""
    lead, reader = lead_of(store), sub_of(store, "read_only")

    async def linked(memory: AgentMemory, key: str) -> set[str]:
        criteria = MemoryCriteria(related_to=key)
        listed = {item.key for item in await memory.query(criteria)}
        assert {hit.item.key for hit in await memory.search("harbour", limit=20, criteria=criteria)} == listed
        return listed

    hub = await lead.store("the hub harbour")
    spoke = await lead.store("a spoke harbour", related_to=[hub.key])
    note = await reader.store("a note on the hub harbour", related_to=[hub.key, spoke.key])
    last = await lead.store("the last harbour", related_to=[spoke.key])
    if is_indexed:
        await store.flush_index()
    assert await linked(lead, hub.key) == {spoke.key}
    assert await linked(lead, spoke.key) == {hub.key, last.key}
    assert await linked(lead, note.key) == set()  # what it is linked to is private like itself
    assert await linked(reader, hub.key) == {spoke.key, note.key}
    assert await linked(reader, note.key) == {hub.key, spoke.key}
    assert await lead.forget(spoke.key)
    assert await linked(lead, hub.key) == set()
    assert await linked(reader, note.key) == {hub.key}
    assert await linked(lead, spoke.key) == {last.key}  # the tombstone has no links, but is still linked to
    assert await linked(lead, last.key) == set()


@pytest.mark.parametrize("sharing", ["read_only", "isolated"])
async def test_what_was_stored_for_all_once_stays_for_all(store: MemoryStore, sharing: Sharing) -> None:
    """One item in one place, whatever came first; its reference may already have been handed on."""
    private, shared = sub_of(store, sharing), sub_of(store, "shared")
    first = await private.store("the harbour")
    item = await private.retrieve(first.key)
    assert item is not None
    assert item.is_private
    assert await lead_of(store).retrieve(first.key) is None
    assert await shared.store("the harbour") == first
    assert await private.store("the harbour") == first
    opened = await lead_of(store).retrieve(first.key)
    assert opened is not None
    assert not opened.is_private


async def test_a_refusal_says_whose_it_is_and_what_to_do(store: MemoryStore) -> None:
    """In a sentence; a key of another user is as unknown as one of nobody."""
    lead, hermit, reader = lead_of(store), sub_of(store, "isolated", "hermit"), sub_of(store, "read_only")
    leads, readers = (await lead.store("the harbour")).key, (await reader.store("the harbour")).key
    bobs = (await AgentMemory(store, "bob", "lead", "s").store("of bob", source="bobs")).key
    assert str(await hermit.not_found(leads)) == (
        f"item {leads!r} belongs to another agent, agent 'lead' (session 's'), and this agent is isolated: ask for its "
        "content in the message"
    )
    assert str(await lead.not_found(readers)) == (
        f"item {readers!r} is private to agent 'researcher' (session 's/researcher'): ask it to include the content"
    )
    later = AgentMemory(store, "alice", "researcher", "t", sharing="isolated")
    assert "belongs to another session of this agent and this agent is isolated" in str(await later.not_found(readers))
    near = AgentMemory(store, "alice", "lead", "t", reach="session")
    assert "belongs to agent 'lead' (session 's'), beyond the reach" in str(await near.not_found(leads))
    for memory in (lead, hermit, reader):
        assert str(await memory.not_found(bobs)).startswith(f"no item {bobs!r} in this memory")
    await reader.forget(readers)
    assert "was forgotten on" in str(await lead.not_found(readers))


@pytest.mark.parametrize("sharing", ["shared", "read_only", "isolated"])
async def test_a_sub_agent_forgets_its_own_items_only(store: MemoryStore, sharing: Sharing) -> None:
    """Neither the parent's nor another sub-agent's, one by one or all at once; nor do they forget its own."""
    lead, sub, other = lead_of(store), sub_of(store, sharing), sub_of(store, "shared", "other")
    kept = [(await memory.store("the harbour")).key for memory in (lead, other)]
    own = [(await sub.store(text)).key for text in ("one", "two", "three")]
    assert [await sub.forget(key) for key in kept] == [False, False]
    assert [await memory.forget(own[0]) for memory in (lead, other)] == [False, False]
    assert await sub.forget(own[0])
    assert await sub.clear() == 2
    for memory in (lead, other):
        assert await memory.clear() == 1


async def test_a_look_up_is_recognised_where_it_can_be_opened(store: MemoryStore) -> None:
    """What an agent answers with may be a look-up of its own, word for word; who cannot open that keeps the text."""
    lead, other = lead_of(store), sub_of(store, "shared", "other")
    reader, hermit = sub_of(store, "read_only", "reader"), sub_of(store, "isolated", "hermit")
    knowing = {lead: {lead, other, reader}, reader: {reader}, hermit: {hermit}}
    for asker, others in knowing.items():
        answer = f"what {asker.agent_id} looked up"
        asker.register_answer(answer, "label")
        for memory in (lead, other, reader, hermit):
            assert (memory.find_answer(answer) is not None) == (memory in others), (asker.agent_id, memory.agent_id)


def test_an_unknown_way_to_share_is_refused(database_url: str) -> None:
    """Before anything is stored."""
    with pytest.raises(ValueError, match="sharing='public': use one of shared, read_only, isolated"):
        AgentMemory(MemoryStore(database_url), "alice", sharing="public")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="reach='all': use one of user, agent, session"):
        AgentMemory(MemoryStore(database_url), "alice", reach="all")  # type: ignore[arg-type]
