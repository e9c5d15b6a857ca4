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
from memory_context.store.search.passages import nearest_statement
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
    assert len(candidates) == 30
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
    assert found[0] in everything
    assert len(everything) == 30


async def test_names_of_an_item_count_in_each_of_its_passages(store: MemoryStore) -> None:
    """Also those that its first passage holds; a content with two such items counts them once."""
    manual = "gadget\n\n" + "lorem ipsum dolor\n" * 400
    for item in (
        NewItem(manual, "manual of the turbine gadget", 1, key="m1"),
        NewItem(manual, "the turbine again", 1, key="m2"),
    ):
        await store.items.insert_memories("bob", [item])
        await store.flush_index()
        candidates, profile = await store.search.candidates("bob", "x", ["turbin", "gadget", "ipsum"], ANY)
        passages = {one.chunk_number: one.occurrences for one in candidates}
        assert len(passages) == profile.passages > 4
        assert all(one["turbin"] == one["gadget"] == 1 and one["ipsum"] > 1 for one in passages.values())
        assert profile.frequencies["turbin"] == 1


async def test_no_terms_leave_it_to_meaning_and_no_meaning_to_terms(store: MemoryStore) -> None:
    """Neither is an error, nor is the lack of both."""
    assert len((await store.search.candidates("alice", "words", [], ANY))[0]) == 30
    found = (await store.search.candidates("alice", "?!", ["7"], ANY))[0]
    assert any(one.occurrences for one in found)
    assert (await store.search.candidates("alice", "?!", [], ANY))[0] == []


async def test_a_filter_is_not_widened_by_neighbours(store: MemoryStore) -> None:
    """What stands beside a passage in its session may be outside."""
    for number in range(6):
        item = NewItem(f"harbour {number}", "", 1, ("custom", "article")[number % 2], key=f"s{number}", session_id="s")
        await store.items.insert_memories("alice", [item])
    await store.flush_index()
    candidates, _ = await store.search.candidates("alice", "harbour", ["harbour"], MemoryCriteria(types=("article",)))
    passages = await store.search.passages(
        "alice", [(one.content_id, one.chunk_number) for one in candidates], MemoryCriteria()
    )
    assert {passage.item.key for passage in passages.values()} == {"s1", "s3", "s5"}


async def test_passages_of_others_and_of_nothing_are_left_out(store: MemoryStore) -> None:
    """Places are no proof of a right to read."""
    (one, *_), _ = await store.search.candidates("alice", "common", ["common"], ANY)
    place = (one.content_id, one.chunk_number)
    assert (
        len(await store.search.passages("alice", [place, place, (0, 0), (one.content_id, 99)], MemoryCriteria())) == 1
    )
    assert await store.search.passages("bob", [place], MemoryCriteria()) == {}
    assert await store.search.passages("alice", [], MemoryCriteria()) == {}


OLD = "created_at = now() - interval '200 days', last_used_at = now() - interval '200 days'"


@pytest.mark.parametrize(
    ("origin", "type", "order"),
    [
        ("tool", "custom", ["first", "second"]),
        ("agent", "article", ["first", "second"]),
        ("application", "custom", ["second", "first"]),
        ("user_words", "user_fact", ["second", "first"]),
        ("agent", "user_fact", ["second", "first"]),
        ("agent", "conversation", ["second", "first"]),
    ],
)
@pytest.mark.thorough
async def test_unused_old_item_of_a_tool_ranks_below_an_equal_used_one(
    store: MemoryStore, server: Server, database_url: str, origin: Any, type: str, order: list[str]
) -> None:
    """Without the decay the newer of equals comes first."""
    for key, word in (("first", "granite"), ("second", "basalt")):
        item = NewItem(f"Survey: the harbour wall is {word}", "", 1, type, origin=origin, key=key)
        await store.items.insert_memories("alice", [item])
    await store.flush_index()
    store._indexer.embedder = None  # equal by terms; the fake embedder tells words apart at random

    async def found() -> list[str]:
        return [hit.item.key for hit in await AgentMemory(store, "alice").search("harbour wall survey")]

    assert await found() == ["second", "first"]
    name = database_of(database_url)
    server.execute(f"UPDATE memory_context.agent_memories SET {OLD} WHERE memory_key IN ('first', 'second')", name)
    assert await found() == ["second", "first"]  # both decay alike
    server.execute("UPDATE memory_context.agent_memories SET last_used_at = now() WHERE memory_key = 'first'", name)
    assert await found() == order


@pytest.mark.parametrize("ranking", ["exact", "filtered", "nearest"])
@pytest.mark.thorough
async def test_one_large_item_does_not_crowd_out_the_others(
    database_url: str, monkeypatch: pytest.MonkeyPatch, ranking: str
) -> None:
    """A log of hundreds of passages that all say it, and a few notes on it: both are found, however it is ranked."""
    if ranking == "nearest":
        monkeypatch.setattr(module, "LARGE_MEMORY_PASSAGES", 100)
        monkeypatch.setattr(module, "EXACT_UP_TO_NUMBERS", 0)
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


async def test_the_first_search_knows_already_how_many_passages_there_are(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that it does not compare all of very many."""
    monkeypatch.setattr(module, "LARGE_MEMORY_PASSAGES", 29)
    monkeypatch.setattr(module, "EXACT_UP_TO_NUMBERS", 0)
    asked: list[str] = []
    monkeypatch.setattr(
        module, "nearest_statement", lambda *given: asked.append("nearest") or nearest_statement(*given)
    )
    await store.search.candidates("alice", "words", [], ANY)
    assert asked == ["nearest"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [([], "k9"), (["HARB"], "k3"), (["zzz", "way"], "k4"), (["%"], "k5"), (["_"], "k9"), (["\\"], "k6"), ([""], "k9")],
)
async def test_of_many_not_indexed_those_that_are_named_come_first(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, words: list[str], expected: str
) -> None:
    """By summary, source or tag; no sign means anything in a word."""
    monkeypatch.setattr("memory_context.store.jobs.Jobs.wake", lambda self, user_id: None)
    names: dict[int, dict[str, Any]] = {3: {"tags": ["harbour"]}, 4: {"source": "railway"}, 5: {"source": "5%"}}
    names[6] = {"source": "C:\\temp"}
    items = [NewItem(f"text {n}", "", 1, key=f"k{n}", **names.get(n, {})) for n in range(10)]
    await store.items.insert_memories("bob", items)
    found = await store.search.unindexed("bob", ANY, 2, words=words)
    assert found[0].item.key == expected
    assert len(found) == 2


async def test_what_ends_with_a_line_ends_in_that_line(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before it is indexed."""
    monkeypatch.setattr("memory_context.store.jobs.Jobs.wake", lambda self, user_id: None)
    contents = {"a": "", "b": "one\ntwo\n", "c": "one\ntwo", "d": "\n"}
    await store.items.insert_memories("bob", [NewItem(text, "", 1, key=key) for key, text in contents.items()])
    passages = await store.search.unindexed("bob", ANY, 10)
    assert {one.item.key: one.end_line for one in passages} == {"a": 1, "b": 2, "c": 2, "d": 1}


@given(st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=30))
def test_a_model_name_stands_in_the_statement_as_one_literal(name: str) -> None:
    """Whatever is in it."""
    statement = nearest_statement(name, 7).decode()
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


@pytest.mark.parametrize(
    "way", ["all compared", "all compared apart", "by the index", "by criteria", "of one session", "unfenced"]
)
@pytest.mark.thorough
async def test_scores_do_not_depend_on_other_users_or_on_private_items_of_other_agents(
    store: MemoryStore, server: Server, database_url: str, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Ranks and scores stay the same to the last digit after strangers stored the same words and forgot some.

    The strangers' passages outnumber the candidates, and adjoin a passage that the reader may read.
    """
    if way in ("all compared apart", "by the index"):
        monkeypatch.setattr(module, "LARGE_MEMORY_PASSAGES", 10)
    if way == "by the index":
        monkeypatch.setattr(module, "EXACT_UP_TO_NUMBERS", 0)
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
