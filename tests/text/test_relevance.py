"""Words and parts that lines share with what is wanted."""

import re

from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation.text.tokenize import parts_in, shared_parts, shared_words, tokens_by_word, words_in

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


@given(_LINES)
def test_tokens_are_found_by_their_words(tokens: list[str]) -> None:
    wanted = words_in(" ".join(tokens))
    found = tokens_by_word(tokens)
    assert {word: found[word] for word in wanted} == {
        word: [token for token in tokens for each in re.findall(r"\w+", token) if each.lstrip("1") == word]
        for word in wanted
    }
