"""Ranking: what puts one passage before another. Pure; no database."""

import math
import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from memory_context.store.search.hits import _RelevanceTest
from memory_context.store.search.rank import Candidate, QueryProfile, inverse_frequency, rank

QUERY = QueryProfile(passages=1000, frequencies={"rare": 2, "common": 500}, mean=0.1, deviation=0.1)


def passage(
    memory_id: int, semantic: float | None = None, length: int = 700, size: int = 700, **counts: int
) -> Candidate:
    return Candidate(memory_id, 0, counts, semantic, length, session="", content_bytes=size)


def session(counts: list[int], word: str = "rare", name: str = "s") -> list[Candidate]:
    """Items of one short passage each, in the order of their session."""
    last = len(counts) - 1
    places = [(number, 0) for number in range(len(counts))]
    return [
        Candidate(
            *places[number], {word: count} if count else {}, None, 100,
            places[number - 1] if number else None, places[number + 1] if number < last else None, name, 100,
        )
        for number, count in enumerate(counts)
    ]  # fmt: skip


def order(candidates: list[Candidate], query: QueryProfile = QUERY) -> list[int]:
    return [one.candidate.content_id for one in rank(candidates, query)]


def test_rare_terms_weigh_more():
    """Never nothing, and counts that do not agree (read at different times) do no harm."""
    assert inverse_frequency(1, 1000) > inverse_frequency(10, 1000) > inverse_frequency(1000, 1000) > 0
    assert math.isclose(inverse_frequency(3, 10), math.log(1 + 7.5 / 3.5))
    assert inverse_frequency(5, 0) > 0


def test_more_of_the_terms_ranks_first():
    """As a share of what the query's terms could say."""
    best, worst = rank([passage(1, common=3), passage(2, common=1, rare=1)], QUERY)
    assert best.candidate.content_id == 2
    assert 0 < worst.lexical < 0.2 < best.lexical < 1
    assert best.semantic == worst.semantic == 0.0


def test_names_and_numbers_of_the_query_weigh_more_than_equally_frequent_words():
    """A page of the right year comes before one with another word of the question; neither is left out."""
    frequencies = {"2019": 40, "incom": 40}
    plain, pointed = (QueryProfile(1000, frequencies, emphasised=frozenset(names)) for names in ((), ("2019",)))
    candidates = [Candidate(1, 0, {"2019": 1}, None, 700), Candidate(2, 0, {"incom": 1}, None, 700)]
    assert order(candidates, plain) == [2, 1]
    assert order(candidates, pointed) == [1, 2]


def test_nearer_in_meaning_ranks_first():
    """On whatever part of the scale the model's similarities lie."""
    for low in (0.0, 0.8):
        scale = 1 - low
        query = replace(QUERY, mean=low, deviation=0.1 * scale)
        candidates = [passage(number, semantic=low + scale * share) for number, share in enumerate((0.1, 0.6, 0.2))]
        best = rank(candidates, query)
        assert [one.candidate.content_id for one in best] == [1, 2, 0]
        assert math.isclose(query.evidence(candidates[1].semantic), 18 * 1000 / 1010)


def test_meaning_tells_nothing_where_everything_is_equally_near():
    """Reports that resemble each other: the terms decide."""
    candidates = [passage(1, 0.80, rare=1), passage(2, 0.84)]
    assert order(candidates, replace(QUERY, mean=0.8, deviation=0.03)) == [1, 2]
    assert order(candidates, replace(QUERY, mean=0.8, deviation=0.005)) == [2, 1]
    assert order(candidates, replace(QUERY, mean=0.8, deviation=0.0)) == [1, 2]


def test_words_that_the_memory_lacks_change_no_order():
    """A long question weighs meaning no more than a short one."""
    candidates = [passage(1, 0.2, common=1), passage(2, 0.7), passage(3, 0.2)]
    unknown = replace(QUERY, frequencies={**QUERY.frequencies, "wort": 0, "parola": 0, "mot": 0})
    assert order(candidates) == order(candidates, unknown) == [2, 1, 3]


def test_a_passage_without_an_embedding_is_neither_near_nor_far():
    """As is one whose similarity is no number."""
    ranked = rank([passage(1, 0.9), passage(2), passage(3, math.nan), passage(4, 0.0)], QUERY)
    assert [one.candidate.content_id for one in ranked] == [1, 4, 3, 2]
    assert ranked[1].semantic == ranked[2].semantic == ranked[3].semantic == 0.0


def test_a_short_passage_between_two_good_ones_comes_before_one_that_stands_alone():
    """A question names the thing, its answer does not."""
    ranks = order(session([0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0]))
    assert sorted(ranks[:3]) == [3, 4, 5]


def test_terms_that_stand_in_adjacent_passages_meet():
    """A name in the first and a number in the next say more together than the name twice."""
    query = QueryProfile(1000, {"kestrel": 20, "2019": 20})
    apart = [
        Candidate(1, 0, {"kestrel": 1}, None, 700, after=(2, 0)),
        Candidate(2, 0, {"2019": 1}, None, 700, before=(1, 0)),
        Candidate(3, 0, {"kestrel": 1}, None, 700, after=(4, 0)),
        Candidate(4, 0, {"kestrel": 1}, None, 700, before=(3, 0)),
    ]
    assert sorted(order(apart, query)[:2]) == [1, 2]


def test_the_session_that_says_more_ranks_first_among_equal_passages():
    """What else was said there tells what it was about."""
    about = [one._replace(before=None, after=None) for one in session([1, 2, 2], name="about")]
    aside = [one._replace(before=None, after=None, content_id=10 + one.content_id) for one in session([1, 0, 0])]
    ranks = order([*about, *aside])
    assert ranks.index(0) < ranks.index(10)


def test_a_large_item_needs_more_than_a_small_one():
    """The best of a hundred passages is often best by chance."""
    assert order([passage(2, rare=1, size=100_000), passage(1, rare=1)]) == [1, 2]


def test_a_content_said_in_many_sessions_has_one_neighbour_on_each_side():
    """A greeting before each of three statements is not the sum of them."""
    greeting = Candidate(1, 0, {}, None, 13)
    statements = [
        Candidate(number, 0, {"rare": 1}, None, 60, before=(1, 0), session=f"s{number}") for number in (2, 3, 4)
    ]
    (once,) = [one for one in rank([greeting, statements[-1]], QUERY) if one.candidate == greeting]
    ranked = rank([greeting, *statements], QUERY)
    assert ranked[-1].candidate == greeting
    assert ranked[-1].total == once.total


def test_a_link_in_one_direction_is_as_good_as_in_both():
    """Of the neighbours of what was found, the store does not know the neighbours."""
    found, beside = session([2, 0])
    both = {one.candidate.content_id: one.total for one in rank([found, beside], QUERY)}
    alone = beside._replace(before=None)
    assert {one.candidate.content_id: one.total for one in rank([found, alone], QUERY)} == both


def test_of_equal_passages_the_newer_comes_first():
    """Then the earlier one of an item."""
    candidates = [Candidate(memory_id, number, {"rare": 1}, None, 9) for memory_id in (1, 2) for number in (0, 1)]
    assert [one.candidate.place for one in rank(candidates, QUERY)] == [(2, 0), (2, 1), (1, 0), (1, 1)]


places = st.tuples(st.integers(0, 8), st.integers(0, 2))
terms = st.sampled_from("abc")
candidates_ = st.lists(
    st.builds(
        lambda place, *rest: Candidate(*place, *rest),
        places,
        st.dictionaries(terms, st.integers(1, 255)),
        st.none() | st.floats(-1, 1) | st.just(math.nan),
        st.integers(0, 1500),
        st.none() | places,
        st.none() | places,
        st.sampled_from(["", "s", "t"]),
        st.integers(0, 10**9),
    ),
    unique_by=lambda one: one.place,
    max_size=20,
)
profiles = st.builds(
    QueryProfile,
    st.integers(0, 50),
    st.fixed_dictionaries(dict.fromkeys("abc", st.integers(0, 100))),
    st.frozensets(terms),
    st.floats(-1, 1),
    st.just(0.0) | st.floats(1e-3, 1),
)


@given(candidates_, profiles, st.randoms())
def test_any_candidates_are_ranked(candidates: list[Candidate], query: QueryProfile, randomness: random.Random):
    """All of them, by totals that are the sums of their parts, whatever order they came in."""
    ranked = rank(candidates, query)
    assert {id(one.candidate) for one in ranked} == {id(one) for one in candidates}
    for one in ranked:
        whole = one.lexical + one.semantic + one.neighbours
        assert math.isclose(one.total, whole, abs_tol=1e-9)
        assert 0 <= one.lexical <= 1
        assert math.isfinite(one.total)
    totals = [one.total for one in ranked]
    assert totals == sorted(totals, reverse=True)
    shuffled = list(candidates)
    randomness.shuffle(shuffled)
    again = rank(shuffled, query)
    assert [round(one.total, 9) for one in again] == [round(one.total, 9) for one in ranked]


def test_a_few_rare_words_of_a_long_question_make_a_passage_relevant_and_common_ones_do_not():
    """A quarter of the question by weight, or what one of N passages hardly has by chance."""
    rare, common = [f"rare{number}" for number in range(40)], [f"common{number}" for number in range(40)]
    query = QueryProfile(1000, dict.fromkeys(rare, 1) | dict.fromkeys(common, 100))

    def is_relevant(words: list[str], profile: QueryProfile = query) -> bool:
        (ranked,) = rank([Candidate(1, 0, dict.fromkeys(words, 1), None, 500)], profile)
        return _RelevanceTest(profile, [])(ranked, None)[0]

    assert is_relevant(rare[:4] + common[:4])
    assert not is_relevant(rare[:1] + common[:4])
    assert not is_relevant(common[:10])
    assert is_relevant(rare[:1], QueryProfile(1000, dict.fromkeys(rare[:4], 1)))
    assert not is_relevant([])
