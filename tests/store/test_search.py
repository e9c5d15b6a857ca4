"""PassageSearch: which statements a search runs, and what it makes of odd data."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.memory.agent_memory import AgentMemory
from memory_context.store.items import MemoryCriteria, NewItem
from memory_context.store.memory_store import MemoryStore
from memory_context.store.search import passages as module
from memory_context.store.search.hits import SearchScore
from memory_context.store.search.passages import ranking_statement
from tests.conftest import Server, database_of
from tests.embeddings.fakes import FakeEmbedder

ANY = MemoryCriteria()

pytestmark = pytest.mark.fake_embedder


@pytest.fixture
async def store(store: MemoryStore) -> MemoryStore:
    """An open store of 30 passages."""
    items = [NewItem(f"common words and rare{n}", "", 1, key=f"k{n}") for n in range(30)]
    await store.items.insert_memories("alice", items)
    await store.flush_index()
    return store


async def test_both_scores_are_known_of_every_candidate(store: MemoryStore) -> None:
    """Also of those that only one ranking found."""
    candidates, profile = await store.search.candidates("alice", "common words", ["rare", "7"], ANY)
    assert len(candidates) == module.CANDIDATES
    assert all(one.semantic is not None for one in candidates)
    assert all(one.occurrences.get("rare") == 1 for one in candidates)
    assert sum("7" in one.occurrences for one in candidates) == 1
    assert (profile.passages, dict(profile.frequencies)) == (30, {"rare": 30, "7": 1})


async def test_of_very_common_terms_the_rarest_find_and_all_score(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query of words that are everywhere does not read everything for each of them."""
    monkeypatch.setattr(module, "POSTINGS_LIMIT", 5)
    store._indexer.embedder = FakeEmbedder(fail_with=RuntimeError())  # by terms alone
    found, _ = await store.search.candidates("alice", "x", ["common", "word", "7"], ANY)
    assert [set(one.occurrences) for one in found] == [{"common", "word", "7"}]
    monkeypatch.setattr(module, "POSTINGS_LIMIT", 5_000)
    everything, _ = await store.search.candidates("alice", "x", ["common", "word", "7"], ANY)
    assert found[0].occurrences in [one.occurrences for one in everything]
    assert len(everything) == module.CANDIDATES


async def test_names_of_an_item_count_in_each_of_its_passages(store: MemoryStore) -> None:
    """Also those that only its first passage holds; a content with two such items counts them once."""
    manual = "gadget\n\n" + "lorem ipsum dolor\n" * 400
    for item in (
        NewItem(manual, "manual of the turbine gadget", 1, key="m1"),
        NewItem(manual, "the turbine again", 1, key="m2"),
    ):
        await store.items.insert_memories("bob", [item])
        await store.flush_index()
        (one,), profile = await store.search.candidates("bob", "x", ["turbin", "gadget", "ipsum"], ANY)
        assert profile.passages > 4
        assert one.occurrences["turbin"] == one.occurrences["gadget"] == 1
        assert one.occurrences["ipsum"] > 1
        assert profile.frequencies["turbin"] == 1


async def test_no_terms_leave_it_to_meaning_and_no_meaning_to_terms(store: MemoryStore) -> None:
    """Neither is an error, nor is the lack of both."""
    assert len((await store.search.candidates("alice", "words", [], ANY))[0]) == module.CANDIDATES
    found = (await store.search.candidates("alice", "?!", ["7"], ANY))[0]
    assert any(one.occurrences for one in found)
    assert (await store.search.candidates("alice", "?!", [], ANY))[0] == []


async def test_fewer_hits_are_the_first_of_more(store: MemoryStore) -> None:
    """Of items of one session, too, which find each other as neighbours: pages neither repeat nor lose any."""
    items = [NewItem(f"ledger entry {n} of customer {n}{n}", "", 1, key=f"e{n}", session_id="s") for n in range(90)]
    await store.items.insert_memories("alice", items)
    await store.flush_index()
    memory = AgentMemory(store, "alice")
    everything = [hit.item.key for hit in await memory.search("ledger entry", limit=90)]
    assert len(set(everything)) == 90
    for limit in (5, 24, 25, 40, 70):
        assert [hit.item.key for hit in await memory.search("ledger entry", limit=limit)] == everything[:limit]


async def test_a_filter_is_not_widened_by_neighbours(store: MemoryStore) -> None:
    """What stands beside a passage in its session may be outside."""
    for number in range(6):
        item = NewItem(f"harbour {number}", "", 1, ("custom", "article")[number % 2], key=f"s{number}", session_id="s")
        await store.items.insert_memories("alice", [item])
    await store.flush_index()
    candidates, _ = await store.search.candidates("alice", "harbour", ["harbour"], MemoryCriteria(types=("article",)))
    assert {one.row["memory_key"] for one in candidates} == {"s1", "s3", "s5"}


async def test_search_makes_one_exchange_with_the_server(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores, texts and items come together, however many hits are asked for."""
    memory, reads = AgentMemory(store, "alice"), 0
    read = store._database.read
    await memory.search("common words")

    async def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal reads
        reads += named.get("kind") != "batch"  # the jobs of the background look, too
        return await read(*arguments, **named)

    monkeypatch.setattr(store._database, "read", counted)
    for limit, found in ((5, 5), (30, 30), (60, 30)):
        assert len(await memory.search("common words", limit=limit)) == found
    assert reads == 3


@pytest.mark.parametrize("ranking", ["exact", "filtered", "nearest"])
@pytest.mark.thorough
async def test_one_large_item_does_not_crowd_out_the_others(
    database_url: str, monkeypatch: pytest.MonkeyPatch, ranking: str
) -> None:
    """A log of hundreds of passages that all say it, and a few notes on it: both are found, however it is ranked."""
    if ranking == "nearest":
        monkeypatch.setattr(module._Size, "is_for_index", True)
    async with MemoryStore(database_url, FakeEmbedder()) as store:
        agent = AgentMemory(store, "alice")
        log = "".join(f"12:{n % 60:02} worker {n} timeout timeout after {n} s\n" for n in range(15_000))
        ref = await agent.store(log, type="command_output")
        notes = [
            await agent.store(f"note {n}: {word} had a timeout, see {word * 2}", type="command_output")
            for n, word in enumerate(["redis", "kafka", "nginx", "mysql", "vault", "etcd", "consul", "envoy"])
        ]
        await store.flush_index()
        candidates, profile = await store.search.candidates("alice", "timeout", ["timeout"], ANY)
        assert profile.passages > 600
        assert len({one.content_id for one in candidates}) == 9
        types = ("command_output",) if ranking == "filtered" else ()
        hits = await agent.search("timeout", limit=5, criteria=MemoryCriteria(types=types))
        assert len(hits) == 5
        assert len({hit.ref for hit in hits} & set(notes)) >= 4
        assert {hit.ref for hit in hits} <= {ref, *notes}


async def test_index_of_embeddings_serves_who_has_much_of_it(store: MemoryStore) -> None:
    """Ten times the root of all: below that a scan of the user's own passages is cheaper."""
    sizes = {(2_000, 2_000): True, (1_999, 1_999): False, (9_000, 1e6): False, (10_000, 1e6): True, (0, 0): False}
    assert {size: module._Size(*size).is_for_index for size in sizes} == sizes
    assert not module._Size(10**6, float("inf")).is_for_index  # there is no index


async def test_memory_that_has_grown_is_searched_by_the_index(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a restart: the scan of a small memory tells how large it is by now."""
    monkeypatch.setattr(module, "LEAST_BY_INDEX", 35)
    asked: list[str] = []

    def statement(name: str, reach: str, *model: Any) -> bytes:
        asked.append("index" if model else "all")
        return ranking_statement(name, reach, *model)

    monkeypatch.setattr(module, "ranking_statement", statement)
    await store.search.candidates("alice", "words", [], ANY)
    store.search._remember_size("alice", "fake/16", store.search._sizes["alice", "fake/16"]._replace(indexed=0))
    await store.items.insert_memories("alice", [NewItem(f"more words {n}", "", 1, key=f"m{n}") for n in range(10)])
    await store.flush_index()
    for _ in range(2):
        await store.search.candidates("alice", "words", [], ANY)
    assert asked == ["all", "all", "index"]


async def test_index_that_finds_too_few_is_not_asked_again(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """All are compared then, as for a small memory."""
    expected = await store.search.candidates("alice", "common words", ["rare"], ANY)
    store.search._remember_size("alice", "fake/16", module._Size(10_000, 10_000))
    asked: list[str] = []

    def statement(name: str, reach: str, *model: Any) -> bytes:
        asked.append("index" if model else "all")
        text = ranking_statement(name, reach, *model)
        return text.replace(b"LIMIT %(nearest)s", b"LIMIT 3") if model else text

    monkeypatch.setattr(module, "ranking_statement", statement)
    for _ in range(2):
        assert await store.search.candidates("alice", "common words", ["rare"], ANY) == expected
    assert asked == ["index", "all", "all"]


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=30))
def test_a_model_name_stands_in_the_statement_as_one_literal(name: str) -> None:
    """Whatever is in it."""
    statement = ranking_statement("select_candidates", "user", name, 7).decode()
    literal = "'" + name.replace("'", "''").replace("%", "%%") + "'"
    assert f"embedding_model = {literal}\n" in statement
    assert statement.replace(literal, "", 1).count("halfvec(7)") == 2


@pytest.mark.parametrize(
    "given_",
    [{"types": "custom"}, {"tags": (1,)}, {"limit": 0}, {"offset": -1}],
)
def test_criteria_that_say_nothing_are_refused(given_: dict[str, Any]) -> None:
    """With the value and the remedy."""
    with pytest.raises(ValueError, match=r"must be|use a"):
        MemoryCriteria(**given_)


@pytest.mark.parametrize("way", ["all compared", "by the index", "by criteria", "of one session", "unfenced"])
@pytest.mark.thorough
async def test_scores_do_not_depend_on_other_users_or_on_private_items_of_other_agents(
    store: MemoryStore, server: Server, database_url: str, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Ranks and scores stay the same to the last digit after strangers stored the same words and forgot some.

    The strangers' passages outnumber the candidates, and adjoin a passage that the reader may read.
    """
    if way == "by the index":
        monkeypatch.setattr(module._Size, "is_for_index", True)
        monkeypatch.setattr(module, "NEAREST", 37)  # all that the reader may know: ties decide nothing
    if way == "unfenced":  # the statements alone hold users apart, too
        for table in ("terms", "names", "chunks", "embeddings", "statistics"):
            unfence = f"ALTER TABLE memory_context.agent_memory_{table} DISABLE ROW LEVEL SECURITY"
            server.execute(unfence, database=database_of(database_url))
    criteria = MemoryCriteria(types=["note"]) if way == "by criteria" else ANY
    lead = AgentMemory(store, "alice", "lead", "s", reach="session" if way == "of one session" else "user")
    hermit = AgentMemory(store, "alice", "hermit", "t")
    hidden = AgentMemory(store, "alice", "hermit", "t", sharing="isolated")
    strangers = hidden, AgentMemory(store, "bob", "lead", "s")
    words = "harbour of Lisbon 2019, words, rare7"
    for text in ("the harbour master of Lisbon", "harbour fees for 2019", "words about ships\n" * 200):
        await lead.store(text, type="note")
    earlier = [(stranger, (await stranger.store(words)).key) for stranger in strangers]
    await hermit.store("a harbour pilot", type="note")
    await store.flush_index()

    async def found() -> list[tuple[str, SearchScore]]:
        queries = "harbour of Lisbon 2019", "rare7 words"
        hits = [hit for query in queries for hit in await lead.search(query, 10, criteria)]
        return [(hit.item.key, hit.score) for hit in hits]

    before = await found()
    for stranger in strangers:
        for number in range(module.CANDIDATES + 10):
            await stranger.store(f"{words} of a stranger {number}")
            await stranger.store(f"neutral {number}", description=words, source="Lisbon")
        await stranger.store("words about ships\n" * 200, description=words, source="Lisbon")
    await store.flush_index()
    assert await found() == before
    for stranger, key in earlier:
        await stranger.forget(key)
    assert await found() == before
