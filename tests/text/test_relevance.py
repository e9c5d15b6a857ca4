"""Words and parts that lines share with what is wanted, and the score of that."""

from hypothesis import given
from hypothesis import strategies as st

from memory_context.text import line_relevance, parts_in, relevance, shared_parts, shared_words, words_in

_LINES = st.lists(st.text(st.sampled_from("abcXY_ 1é"), max_size=30), max_size=8)


def test_words_and_parts_leave_stop_words_out() -> None:
    """Of English and of code; single characters are no parts."""
    assert words_in("return the LoginHandler of user_id from x") == {"LoginHandler", "user_id"}
    assert parts_in("HTTPServer.parseURLs2 a") == {"http", "server", "parse", "urls"}


@given(_LINES)
def test_shared_words_and_parts_are_those_of_each_line(lines: list[str]) -> None:
    """One scan of all lines finds the same as a scan of each."""
    words, parts = words_in(" ".join(lines)), parts_in(" ".join(lines))
    assert shared_words(lines, words) == {i: found for i, line in enumerate(lines) if (found := words_in(line) & words)}
    assert shared_parts(lines, parts) == {i: found for i, line in enumerate(lines) if (found := parts_in(line) & parts)}


def test_rare_words_weigh_more() -> None:
    """A line with a word that few lines have is ahead of one with a word that many have; others have nothing."""
    lines = ["common one", "common two", "common rare", "nothing"]
    common, _, rare, nothing = line_relevance(lines, frozenset(("common", "rare")))
    assert rare > common > nothing == 0.0


@given(st.dictionaries(st.integers(0, 5), st.frozensets(st.sampled_from("abc"))))
def test_relevance_grows_with_each_word(having: dict[int, frozenset[str]]) -> None:
    """No passage is ahead of one that has all its words and more."""
    values = relevance(having, 6)
    for one, words in having.items():
        for other, more in having.items():
            if words < more:
                assert values[one] < values[other]
