"""Placeholders as people see them, and what tools return as nothing but text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from memory_context import MemoryRef
from samples.chainlit_web.references import LINK, chips, excerpt, fenced, find_references, labelled, linked, titled

REF = MemoryRef("npm_install_k3f9x2", "npm install *output*, 500 lines", 2340)


def test_a_placeholder_becomes_a_link_with_its_description_and_size() -> None:
    text = f"It worked. {REF.render()} Anything else?"
    assert linked(text) == (
        "It worked. [npm install \\*output\\*, 500 lines · 2,340 tokens](#memory/npm_install_k3f9x2) Anything else?"
    )


def test_a_known_key_that_stands_as_code_becomes_a_link() -> None:
    known = {REF.key: REF}
    assert linked(f"see `{REF.key}` or `another`", known) == f"see [`{REF.key}`]({LINK}{REF.key}) or `another`"


@pytest.mark.parametrize("fence", ["```", "````", "~~~"])
def test_code_blocks_stay_as_they_are(fence: str) -> None:
    block = f"{fence}text\n{REF.render()} `{REF.key}`\n{fence}\n"
    assert linked(block, {REF.key: REF}) == block
    assert linked(f"{fence}\n{REF.render()}") == f"{fence}\n{REF.render()}"  # one that is not closed yet, too


def test_what_is_no_placeholder_is_no_link() -> None:
    for text in ("[MemoryRef: ../x - y - 3 tokens]", "[MemoryRef: a - b - many tokens]", "MemoryRef: a - b - 3 tokens"):
        assert linked(text) == text


def test_references_are_found_once_and_in_order() -> None:
    other = MemoryRef("grep_a2b3c4", "matches", 12)
    text = f"{other.render()}\n{REF.render()} {other.render()}"
    assert find_references(text) == [other, REF]
    assert [one["key"] for one in chips(find_references(text))["refs"]] == [other.key, REF.key]


@pytest.mark.parametrize(
    ("description", "title", "rest"),
    [
        ("path=store/policy.py, Python source, lines 1-223", "policy.py", "Python source, lines 1-223"),
        ("path=a.py start_line=3, Python source", "a.py", "start_line=3, Python source"),
        ("command=cat log | grep -c x, 3 lines", "cat log | grep -c x", "3 lines"),
        ("url=https://example.org/a, a page", "https://example.org/a", "a page"),
        ("## The **release** is on `Friday`, see [the plan](http://x)", "The release is on Friday, see the plan", ""),
        ("snake_case stays _so_", "snake_case stays so", ""),
        ("word " * 30, "word " * 13 + "word…", ""),
        ("**", "**", ""),
    ],
)
def test_a_title_is_what_a_person_calls_the_item(description: str, title: str, rest: str) -> None:
    assert titled(description) == (title, rest)


@pytest.mark.parametrize(
    ("thing", "tool", "label"),
    [
        ("store/pool.py", "read_file", "pool.py · read file"),
        ("raise\nTimeoutError", "search_code", "raise TimeoutError · search code"),
        ("word " * 30, "store_memory", "word " * 8 + "word… · store memory"),
        ("", "list_files", "List files"),
    ],
)
def test_the_title_of_a_step_begins_with_what_the_tool_works_on(thing: str, tool: str, label: str) -> None:
    assert labelled(thing, tool) == label


def test_an_excerpt_says_how_much_is_left_out() -> None:
    assert excerpt("one\ntwo") == "one\ntwo"
    assert excerpt("\n".join("abcdefghij"), most_lines=3) == "a\nb\nc\n… 7 more lines"
    assert excerpt("x" * 100, most_characters=10) == "x" * 10 + " …"
    assert excerpt("") == ""


@given(st.text(alphabet="`~a \n![](<>", max_size=60))
def test_no_text_ends_its_code_block(text: str) -> None:
    """What a tool returns is never Markdown: no link, no image, no heading comes of it."""
    tokens = MarkdownIt().parse(fenced(text))
    assert [token.type for token in tokens] == ["fence"]
