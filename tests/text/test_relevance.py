"""Words and parts that lines share with what is wanted."""

import re

from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation.text.tokenize import parts_in, places_of_parts, places_of_words, words_in

_LINES = st.lists(st.text(st.sampled_from("abcXY_ 1é"), max_size=30), max_size=8)


def test_words_and_parts_leave_stop_words_out() -> None:
    """Of English and of code; single characters are no parts."""
    assert words_in("return the LoginHandler of user_id from x") == {"LoginHandler", "user_id"}
    assert parts_in("HTTPServer.parseURLs2 a") == {"http", "server", "parse", "urls"}


@given(_LINES)
def test_places_of_words_and_parts_are_those_of_each_text(texts: list[str]) -> None:
    """One scan of all texts finds the same as a scan of each."""
    words, parts = places_of_words(texts), places_of_parts(texts)
    for word in words_in(" ".join(texts)):
        assert {*words[word]} == {place for place, text in enumerate(texts) if word in words_in(text)}
    for part in parts_in(" ".join(texts)):
        assert {*parts[part]} == {place for place, text in enumerate(texts) if part in parts_in(text)}


@given(_LINES)
def test_a_word_has_a_place_for_each_occurrence(texts: list[str]) -> None:
    wanted = words_in(" ".join(texts))
    found = places_of_words(texts)
    assert {word: found[word] for word in wanted} == {
        word: [i for i, text in enumerate(texts) for each in re.findall(r"\w+", text) if each.lstrip("1") == word]
        for word in wanted
    }
