"""Keys in the user's words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.recall.expansion.candidates import named_keys, unknown_keys

KEY = "run_shell_k3f6x2"


@pytest.mark.parametrize(
    "text",
    [
        KEY,
        f"What is in {KEY}?",
        f"Look at {KEY}.",
        f"Look at {KEY}...",
        f"Look at `{KEY}`, please",
        f"('{KEY}')",
        f"“{KEY}”: show it",
        f"{KEY}'s last lines",
        f"{KEY} - the one from before",
        f"{KEY}-",
        f"打开{KEY}的内容",
        f"[MemoryRef: {KEY} - npm install output, 500 lines - 2340 tokens]",
        f"[MemoryRef: {KEY} - cut off",
        f"key={KEY}\r\n",
    ],
)
def test_named_key_is_found_between_punctuation_and_quotes(text: str):
    """Punctuation, quotes, backticks, brackets, a placeholder."""
    assert named_keys(text, {KEY, "other_abc234"}) == [KEY]


@pytest.mark.parametrize(
    "text",
    ["", "run_shell", KEY.upper(), KEY + "x", "my_" + KEY, KEY + ".log", KEY + "_2", "x" + KEY, KEY[:-1]],
)
def test_words_that_resemble_a_key_are_not_named_keys(text: str):
    """Other case, longer words, parts."""
    assert named_keys(text, {KEY}) == []


def test_key_that_is_a_prefix_of_another_is_told_apart():
    """Whole words only, and of two readings the longer."""
    known = ["log_a2", "log_a2.b", "log_a2."]
    assert named_keys("log_a2.b", known) == ["log_a2.b"]
    assert named_keys("log_a2, log_a2.b and log_a2.", known) == ["log_a2", "log_a2.b", "log_a2."]
    assert named_keys("log_a2.", ["log_a2"]) == ["log_a2"]


def test_named_keys_come_in_order_and_once():
    """In the order the user named them."""
    assert named_keys("b_2, a_1 and b_2 again", ["a_1", "b_2"]) == ["b_2", "a_1"]


def test_unknown_keys_are_placeholders_and_key_shaped_words():
    """At most five; what is known is left out; a digit has to be among the last characters."""
    text = f"see {KEY}, [MemoryRef: notes - my notes - 10 tokens], read_page_abcdef, and grep_22a.b and fold-1"
    assert unknown_keys(text) == ["notes", KEY]
    assert unknown_keys(text, [KEY]) == ["notes"]
    assert unknown_keys(" ".join(f"tool_aaaaa{i}" for i in "234567")) == [f"tool_aaaaa{i}" for i in "23456"]


@given(st.text(alphabet="ab2_.-[ ]MemoryRef:é\ud800", max_size=80), st.lists(st.from_regex(r"[ab2_.-]{1,8}")))
def test_named_keys_are_known_keys_for_any_text(text: str, known: list[str]):
    """A property over texts that are nearly keys."""
    found = named_keys(text, known)
    assert set(found) <= set(known)
    assert all(key in text for key in found)
    assert not set(unknown_keys(text, known)) & set(known)
