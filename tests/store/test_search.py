"""PassageSearch: which statements a search runs, and what it makes of odd data."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.store import MemoryCriteria, MemoryStore, NewMemory
from memory_context.store import search as module
from memory_context.store.search import nearest_statement
from tests.embeddings.fakes import FakeEmbedder

ANY = MemoryCriteria()


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[MemoryStore]:
    """An open store of 30 passages."""
    async with MemoryStore(database_url, FakeEmbedder()) as store:
        items = [NewMemory(f"k{n}", f"common words and rare{n}", "", 1, "custom") for n in range(30)]
        await store.insert_memories("alice", items)
        await store.flush_index()
        yield store


async def test_both_scores_are_known_of_every_candidate(store: MemoryStore) -> None:
    """Also of those that only one ranking found."""
    candidates, profile = await store.search_candidates("alice", "common words", ["rare", "7"], ANY)
    assert len(candidates) == 30
    assert all(one.semantic is not None for one in candidates)
    assert sum(one.lexical > 0 for one in candidates) == 30  # all have `rare`, one has `7`
    assert max(candidates, key=lambda one: one.lexical).lexical > sorted(one.lexical for one in candidates)[-2]
    assert (profile.passages, dict(profile.frequencies)) == (30, {"rare": 30, "7": 1})


async def test_of_very_common_terms_the_rarest_find_and_all_score(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query of words that are everywhere does not read everything for each of them."""
    monkeypatch.setattr(module, "POSTINGS_LIMIT", 5)
    store._indexer.embedder = FakeEmbedder(fail_with=RuntimeError())  # by terms alone
    candidates, _ = await store.search_candidates("alice", "x", ["common", "word", "7"], ANY)
    with_both = max(candidates, key=lambda one: one.lexical)
    monkeypatch.setattr(module, "POSTINGS_LIMIT", 10_000)
    everything, _ = await store.search_candidates("alice", "x", ["common", "word", "7"], ANY)
    assert max(everything, key=lambda one: one.lexical) == with_both
    assert len(candidates) < len(everything) == 30


async def test_no_terms_leave_it_to_meaning_and_no_meaning_to_terms(store: MemoryStore) -> None:
    """Neither is an error, nor is the lack of both."""
    assert len((await store.search_candidates("alice", "words", [], ANY))[0]) == 30
    found = (await store.search_candidates("alice", "?!", ["7"], ANY))[0]
    assert any(one.lexical > 0 for one in found)
    assert (await store.search_candidates("alice", "?!", [], ANY))[0] == []


async def test_a_filter_is_not_widened_by_neighbours(store: MemoryStore) -> None:
    """What stands beside a passage in its session may be outside."""
    for number in range(6):
        item = NewMemory(f"s{number}", f"harbour {number}", "", 1, ("custom", "article")[number % 2], session_id="s")
        await store.insert_memories("alice", [item])
    await store.flush_index()
    candidates, _ = await store.search_candidates("alice", "harbour", ["harbour"], MemoryCriteria(types=("article",)))
    passages = await store.fetch_passages("alice", [(one.memory_id, one.chunk_number) for one in candidates])
    assert {passage.memory.memory_key for passage in passages.values()} == {"s1", "s3", "s5"}


async def test_passages_of_others_and_of_nothing_are_left_out(store: MemoryStore) -> None:
    """Places are no proof of a right to read."""
    (one, *_), _ = await store.search_candidates("alice", "common", ["common"], ANY)
    place = (one.memory_id, one.chunk_number)
    assert len(await store.fetch_passages("alice", [place, place, (0, 0), (one.memory_id, 99)])) == 1
    assert await store.fetch_passages("bob", [place]) == {}
    assert await store.fetch_passages("alice", []) == {}


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
