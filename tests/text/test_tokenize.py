"""Terms: what finds what, and that any str can be indexed."""

import base64
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_context.foundation.text.tokenize import (
    QUERY_LIMIT_TERMS,
    TERM_LIMIT_CHARACTERS,
    pointing_terms,
    query_terms,
    terms_of,
)
from memory_context.foundation.utf8 import is_plain
from tests.support.growth import assert_linear

any_text = st.text(st.characters(exclude_categories=())) | st.text("aB1_./-:@'\x00\ud800 é漢字\u0301", max_size=200)


def finds(query: str, text: str) -> bool:
    """Whether every term of the query is one of the text."""
    return set(query_terms(query)) <= set(terms_of(text))


@pytest.mark.parametrize(
    "text", ["LoginHandler", "login_handler.py", "loginHandler()", "login-handler", "LOGIN_HANDLER"]
)
@pytest.mark.parametrize("query", ["login handler", "login handlers", "LoginHandler", "login_handler", "loginhandler"])
def test_names_are_found_by_their_parts_and_by_each_other(query: str, text: str):
    """However their words are joined."""
    assert finds(query, f"call {text} here")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("inflection", "several inflections"),
        ("running tests", "run the test"),
        ("user", "the user's files"),
        ("URL", "all URLs"),
        ("HTTP server", "HTTPServer"),
        ("src/auth/login.py", "at src/auth/login.py:42:"),
        ("login.py", "src/auth/login.py"),
        ("auth", "src/auth/login.py"),
        ("test_login", "tests/test_login.py::test_it"),
        ("E1234", "error E1234."),
        ("1234", "E1234"),
        ("0x80070005", "(0x80070005)"),
        ("80070005", "0x80070005"),
        ("HTTP 404", "HTTP 404 Not Found"),
        ("404", "HTTP404"),
        ("ann.lee@example.org", "<ann.lee@example.org>"),
        ("example.org", "ann.lee@example.org"),
        ("lee", "ann.lee@example.org"),
        ("1.2.3", "version v1.2.3-rc1"),
        ("v2.0.1-rc1", "v2.0.1-rc1,"),
        ("python 3.11", "Python 3.11.7"),
        ("550e8400-e29b-41d4-a716-446655440000", "id=550e8400-e29b-41d4-a716-446655440000"),
        ("550e8400", "550e8400-e29b-41d4-a716-446655440000"),
        ("da39a3e", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
        ("email", "e-mail"),
        ("http://example.org/a?b=1", "see http://example.org/a?b=1"),
        (r"C:\\repo\\src", r"C:\repo\src"),
        ("repo/src", r"C:\repo\src"),
        ("std::vector", "std::vector<int>"),
        ("京都", "東京都"),
        ("猫", "「猫」"),
        ("程序 python", "Python程序员"),
        ("한국", "한국어를"),
        ("cafe", "CAFÉ"),
        ("Łódź", "lodz"),
        ("ёлка", "ЕЛКА"),
        ("हिन्दी", "यह हिन्दी है"),
        ("ｆｕｌｌ", "full"),
        ("STRASSE", "straße"),
        ("src/owl.py error", "\x1b[35m\x1b[Ksrc/\x1b[01;31mowl\x1b[m.py:\x1b[31merror\x1b[0m"),
    ],
)
def test_a_query_finds_a_text(query: str, text: str):
    """Whole, in parts, and by inflections."""
    assert finds(query, text)


@pytest.mark.parametrize(
    ("query", "text"), [("1.2.3", "1.2.4"), ("E1234", "E1235"), ("हिन्दी", "हन्द"), ("東都", "東京都")]
)
def test_a_query_does_not_find_another_text(query: str, text: str):
    """What makes a thing distinct is kept."""
    assert not finds(query, text)


def test_a_plain_word_is_one_term():
    """Prose is not blown up."""
    assert terms_of("The quick brown foxes") == ["the", "quick", "brown", "fox"]


def test_terms_come_as_often_as_they_occur():
    """So that frequencies can be counted."""
    assert terms_of("log logs Log") == ["log"] * 3


def test_hashes_are_not_split():
    """A line of base64 gives few terms."""
    line = base64.b64encode(bytes(range(256))).decode()
    assert len(terms_of(line)) < 20


def test_function_words_are_left_out_of_a_query_unless_there_is_nothing_else():
    """Also contracted ones; those in names stay."""
    assert query_terms("How does the login's check work? Didn't it?") == ["login", "check", "work"]
    assert query_terms("who is it") == ["who", "is", "it"]
    assert "doe" in query_terms("john.doe@example.org")


def test_long_query_keeps_its_longest_terms():
    """In their order."""
    terms = query_terms(" ".join(f"{'x' * (index % 9)}word{index}" for index in range(1000)))
    assert len(terms) == QUERY_LIMIT_TERMS
    assert min(map(len, terms)) >= 10


@example("\u0301" * 3000)
@example("'s" * 50)
@given(any_text)
def test_any_text_has_terms_that_postgres_takes(text: str):
    """Not empty, not too long, deterministic; and a query's are among them."""
    terms = terms_of(text)
    assert all(0 < len(term) <= TERM_LIMIT_CHARACTERS and is_plain(term) for term in terms)
    assert terms == terms_of(text)
    queried = query_terms(text)
    assert set(queried) <= set(terms)
    assert len(queried) == len(set(queried)) <= QUERY_LIMIT_TERMS
    assert bool(queried) == bool(terms)


@given(any_text, any_text)
def test_lines_are_independent(first: str, second: str):
    """Terms never reach over a line end, so passages can be indexed alone."""
    assert terms_of(f"{first}\n{second}") == terms_of(first) + terms_of(second)


@pytest.mark.parametrize(
    "unit",
    ["a", "a.", "aB", "_", "-", "1.", "\n", "'s", "漢", "é", "\u0301\u0316", "\u093c\u094d", "a\u093c\u094d", "😀"],
)
def test_terms_take_linear_time(unit: str):
    """Also without a space."""
    assert_linear(terms_of, unit)
    assert_linear(query_terms, unit)


def test_threads_do_not_disturb_each_other():
    """Each has a stemmer of its own."""
    texts = [" ".join(f"running{chr(97 + i)}{chr(97 + j)}ings" for i in range(26)) for j in range(26)] * 8
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(terms_of, texts)) == [terms_of(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("What did Anna Bruno pay in FY2019?", {"anna", "bruno", "fy2019", "fy", "2019"}),
        ("Where is it? There, in Lisbon", {"lisbon"}),
        ("all in lower case", set()),
        ("x" * 1_000_000, set()),
    ],
)
def test_pointing_terms_are_those_of_names_and_numbers(text: str, terms: set[str]) -> None:
    """In linear time; the first word of a sentence is no name."""
    assert pointing_terms(text) == terms
