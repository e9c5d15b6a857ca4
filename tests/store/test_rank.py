"""Ranking: what puts one passage before another. Pure; no database."""

import math
import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from memory_context.store import Candidate, QueryProfile
from memory_context.store.search.rank import BM25_K1, MOST_SUPPORT, inverse_frequency, rank

QUERY = QueryProfile(passages=1000, frequencies={"rare": 2, "common": 500})
MOST = (BM25_K1 + 1) * sum(inverse_frequency(count, 1000) for count in (2, 500))


def passage(memory_id: int, lexical: float = 0.0, semantic: float | None = None, length: int = 1000) -> Candidate:
    return Candidate(memory_id, 0, lexical, semantic, length, None, None)


def session(scores: list[float]) -> list[Candidate]:
    """Items of one passage each, in the order of their session."""
    last = len(scores) - 1
    return [
        Candidate(
            number, 0, score, None, 100, (number - 1, 0) if number else None, (number + 1, 0) if number < last else None
        )
        for number, score in enumerate(scores)
    ]


def order(candidates: list[Candidate], query: QueryProfile = QUERY) -> list[int]:
    return [one.candidate.content_id for one in rank(candidates, query)]


def test_rare_terms_tell_more():
    """Never nothing, and counts that do not agree (read at different times) do no harm."""
    assert inverse_frequency(1, 1000) > inverse_frequency(10, 1000) > inverse_frequency(1000, 1000) > 0
    assert math.isclose(inverse_frequency(3, 10), math.log(1 + 7.5 / 3.5))
    assert inverse_frequency(5, 0) > 0


def test_more_of_the_terms_ranks_first():
    """The share of what the query's terms could say."""
    best, worst = rank([passage(1, lexical=1.0), passage(2, lexical=MOST / 2)], QUERY)
    assert best.candidate.content_id == 2
    assert math.isclose(best.lexical, 0.5)
    assert best.semantic == best.neighbours == worst.semantic == 0.0


def test_nearer_in_meaning_ranks_first():
    """On whatever part of the scale the model's similarities lie."""
    for low in (0.0, 0.8):
        scale = 1 - low
        candidates = [passage(number, semantic=low + scale * share) for number, share in enumerate((0.1, 0.6, 0.2))]
        best = rank(candidates, QUERY)
        assert [one.candidate.content_id for one in best] == [1, 2, 0]
        assert math.isclose(best[0].semantic, 0.5 * 0.5 * 1000 / 1200)


def test_the_meaning_of_a_few_words_counts_little():
    """Their embedding is mostly chance."""
    candidates = [passage(1, 0, 0.9, length=10), passage(2, 0, 0.6), passage(3, 0, 0.1), passage(4, 0, 0.1)]
    assert order(candidates)[:2] == [2, 1]


def test_a_query_in_unknown_words_is_left_to_meaning():
    """What the memory has no words for lowers the share that the others are."""
    candidates = [passage(1, 3.0, 0.2), passage(2, 0.0, 0.7), passage(3, 0.0, 0.2)]
    known = QueryProfile(1000, {"word": 50})
    unknown = QueryProfile(1000, {"word": 50, "wort": 0, "parola": 0, "mot": 0})
    assert order(candidates, known)[0] == 1
    assert order(candidates, unknown)[0] == 2


def test_a_passage_without_an_embedding_is_neither_near_nor_far():
    """As is one whose similarity is no number."""
    ranked = rank([passage(1, 0, 0.9), passage(2), passage(3, 0, math.nan), passage(4, 0, 0.1)], QUERY)
    assert [one.candidate.content_id for one in ranked] == [1, 3, 2, 4]
    assert ranked[1].semantic == ranked[2].semantic == 0.0


def test_neighbours_support_each_other_where_they_belong_together():
    """What stands between two good passages comes before what stands alone."""
    scores = [0.0, 0.1, 0.0, 2.0, 1.0, 2.0, 0.0, 0.1, 0.0, 0.1, 0.0, 1.1, 0.0, 0.1, 0.0, 1.8, 1.9, 1.7, 0.0]
    ranks = order(session(scores))
    assert ranks.index(4) < ranks.index(11)


def test_neighbours_do_not_count_where_they_have_nothing_to_do_with_each_other():
    """A list of unrelated texts is ranked as if each stood alone."""
    randomness = random.Random(1)
    scores = [randomness.expovariate(1.0) for _ in range(400)]
    for one in rank(session(scores), QUERY):
        assert abs(one.neighbours) <= 0.15 * max(one.lexical, 3 / MOST)
    alternating = rank(session([0.1, 2.0] * 20), QUERY)
    assert all(one.neighbours == 0.0 for one in alternating)


def test_a_link_in_one_direction_is_as_good_as_in_both():
    """Of the neighbours of what was found, the store does not know the neighbours."""
    candidates = session([score for best in (1, 2, 3, 4, 5, 6) for score in (0.1, best / 2, best, best / 2, 0.0)])
    found = {one.content_id for one in candidates if one.lexical >= 1.0}
    beside = next(one for one in candidates if one.content_id not in found and one.content_id - 1 in found)
    alone = replace(beside, content_id=1000, before=None, after=None)
    pool = [one if one.content_id in found else replace(one, before=None, after=None) for one in [*candidates, alone]]
    gains = {one.candidate.content_id: one.neighbours for one in rank(pool, QUERY)}
    assert gains[beside.content_id] > 0.0 == gains[1000]


def test_of_equal_passages_the_newer_comes_first():
    """Then the earlier one of an item."""
    candidates = [Candidate(memory_id, number, 1.0, None, 9, None, None) for memory_id in (1, 2) for number in (0, 1)]
    places = [(one.candidate.content_id, one.candidate.chunk_number) for one in rank(candidates, QUERY)]
    assert places == [(2, 0), (2, 1), (1, 0), (1, 1)]


places = st.tuples(st.integers(0, 8), st.integers(0, 2))
candidates_ = st.lists(
    st.builds(
        lambda place, *rest: Candidate(*place, *rest),
        places,
        st.floats(0, 50),
        st.none() | st.floats(-1, 1) | st.just(math.nan),
        st.integers(0, 1500),
        st.none() | places,
        st.none() | places,
    ),
    unique_by=lambda one: (one.content_id, one.chunk_number),
    max_size=20,
)


@given(candidates_, st.dictionaries(st.text(max_size=3), st.integers(0, 100)), st.integers(0, 50), st.randoms())
def test_any_candidates_are_ranked(
    candidates: list[Candidate], frequencies: dict[str, int], passages: int, randomness: random.Random
):
    """All of them, by totals that are the sums of their parts, whatever order they came in."""
    query = QueryProfile(passages, frequencies)
    ranked = rank(candidates, query)
    assert {id(one.candidate) for one in ranked} == {id(one) for one in candidates}
    for one in ranked:
        assert math.isclose(one.total, one.lexical + one.semantic + one.neighbours, abs_tol=1e-12)
        assert 0 <= one.lexical <= 1
        assert math.isfinite(one.total)
    totals = [one.total for one in ranked]
    assert totals == sorted(totals, reverse=True)
    own = max((abs(one.lexical + one.semantic) for one in ranked), default=0.0)
    assert all(abs(one.neighbours) <= MOST_SUPPORT * own * len(candidates) + 1e-12 for one in ranked)
    shuffled = list(candidates)
    randomness.shuffle(shuffled)
    again = rank(shuffled, query)
    assert [round(one.total, 9) for one in again] == [round(one.total, 9) for one in ranked]
