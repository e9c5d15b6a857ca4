"""Keys made from a content and its place, placeholders of one line, and the look-ups of memory tools."""

import pytest

from memory_context.foundation.references import (
    DESCRIPTION_LIMIT,
    KEY_PATTERN,
    MemoryRef,
    ToolAnswer,
    ToolAnswerRegistry,
    memory_key_for,
    one_line,
)


def key_of(*identity: str, source: str = "tool", content: str = "content") -> str:
    return memory_key_for(source, identity, content)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (key_of("ab", "c"), key_of("a", "bc")),
        (key_of("a", "", "b"), key_of("a", "b", "")),
        (key_of("ab", source="c"), key_of("a", source="bc")),
        (key_of("a", source="tool", content="scontent"), key_of("a", source="tools", content="content")),
        (key_of("a", "b"), key_of("ab")),
    ],
    ids=["two ids", "an empty id", "id and source", "source and content", "number of ids"],
)
def test_key_tells_apart_fields_that_read_the_same_when_joined(one: str, other: str) -> None:
    """Else two places would meet in one key, and no longer suffix could part them."""
    assert one[-6:] != other[-6:]


def test_key_is_the_same_for_the_same_content_in_the_same_place() -> None:
    """This one was made by an earlier version: keys in archived conversations keep their meaning."""
    assert key_of("coder", "s", "command_output", source="run shell", content="x\ud800") == "run_shell_e5laak"
    assert key_of("coder", "s", "command_output", source="run shell", content="x") != "run_shell_e5laak"


def test_key_suffix_has_a_digit_and_the_length_asked_for() -> None:
    """A digit tells a key in somebody's words from a name such as read_results."""
    for number in range(200):
        for length in (6, 12, 20):
            key = memory_key_for("read", ("a",), str(number), length)
            suffix = key.removeprefix("read_")
            assert len(suffix) == length
            assert any(map(str.isdigit, suffix))
            assert KEY_PATTERN.fullmatch(key)


@pytest.mark.parametrize("length", [6, 20])
def test_key_of_a_long_or_odd_source_is_still_a_key(length: int) -> None:
    """64 characters at most, of those that a key may have."""
    longest = memory_key_for("s" * 200, ("a",), "content", length)
    assert len(longest) == 64
    assert KEY_PATTERN.fullmatch(longest)
    assert memory_key_for("../ß/", ("a",), "content", length).startswith("item_")


def test_description_is_one_line_of_limited_length_without_brackets() -> None:
    """What does not fit ends with an ellipsis; what fits exactly is kept."""
    assert one_line("a\n\tb [c]\x00 d ") == "a b (c) d"
    assert one_line("x" * DESCRIPTION_LIMIT) == "x" * DESCRIPTION_LIMIT
    assert one_line("x" * (DESCRIPTION_LIMIT + 1)) == "x" * (DESCRIPTION_LIMIT - 1) + "…"


def test_placeholder_is_parsed_only_if_it_is_exactly_one() -> None:
    """Text around it, or another line, makes it text."""
    ref = MemoryRef("run_shell_k3f7x2", "npm install - 500 lines", 2340)
    assert MemoryRef.parse(ref.render()) == ref
    assert MemoryRef.parse(f"{ref.render()} ") is None
    assert MemoryRef.parse(f"see {ref.render()}") is None
    assert MemoryRef.parse(ref.render().replace("npm", "n\npm")) is None


def test_reference_refuses_an_invalid_key_and_a_negative_count() -> None:
    with pytest.raises(ValueError, match="no memory key"):
        MemoryRef("_k", "", 1)
    with pytest.raises(ValueError, match="must not be negative, got -1"):
        MemoryRef("k", "", -1)
    assert MemoryRef("k", "", 0).token_count == 0


def test_lookups_are_found_by_user_and_exact_text_and_the_oldest_are_dropped_first() -> None:
    """An answer that was given again counts as new."""
    register = ToolAnswerRegistry(capacity=2)
    assert register.find("alice", "one") is None
    for text in ("one", "two"):
        register.add("alice", text, ToolAnswer(text))
    assert register.find("bob", "one") is None
    assert register.find("alice", "one ") is None
    register.add("alice", "one", ToolAnswer("one again"))
    register.add("alice", "three", ToolAnswer("three"))
    assert register.find("alice", "one") == ToolAnswer("one again")
    assert register.find("alice", "two") is None
    assert register.find("alice", "three") == ToolAnswer("three")
