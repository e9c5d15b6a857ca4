"""Placeholders as people see them, and what tools return as nothing but text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from memory_context import MemoryRef
from samples.chainlit_web.references import excerpt, fenced, find_references, linked, title_of

REF = MemoryRef("npm_install_k3f9x2", "command=npm install *output*, 500 lines", 2340)
LINK = r"[npm install \*output\*, 500 lines · 2,340 tokens](#memory/npm_install_k3f9x2)"


def test_a_placeholder_becomes_a_link_with_its_description_and_size() -> None:
    assert linked(f"It worked. {REF.render()} Anything else?", {}) == f"It worked. {LINK} Anything else?"


def test_a_known_key_that_stands_as_code_becomes_a_link() -> None:
    text = f"see `{REF.key}` or `another`"
    assert linked(text, {REF.key: REF}) == f"see [`{REF.key}`](#memory/{REF.key}) or `another`"


@pytest.mark.parametrize("fence", ["```", "````", "~~~"])
def test_code_blocks_stay_as_they_are(fence: str) -> None:
    block = f"{fence}text\n{REF.render()} `{REF.key}`\n{fence}\n"
    assert linked(block, {REF.key: REF}) == block
    assert linked(f"{fence}\n{REF.render()}", {}) == f"{fence}\n{REF.render()}"  # also one that is not closed yet


def test_other_brackets_are_no_links() -> None:
    for text in ("[MemoryRef: ../x - y - 3 tokens]", "[MemoryRef: a - b - many tokens]", "MemoryRef: a - b - 3 tokens"):
        assert linked(text, {}) == text


def test_references_are_found_once_and_in_order() -> None:
    other = MemoryRef("grep_a2b3c4", "matches", 12)
    assert find_references(f"{other.render()}\n{REF.render()} {other.render()}") == [other, REF]


def test_a_title_is_short_and_without_the_name_of_an_argument() -> None:
    assert title_of("path=store/policy.py, Python source") == "store/policy.py, Python source"
    assert len(title_of("word " * 30)) <= 72


def test_an_excerpt_says_how_much_is_left_out() -> None:
    assert excerpt("one\ntwo") == "one\ntwo"
    assert excerpt("\n".join("abcdefghijklmnopqrstuvwxyz")).endswith("x\n… 2 more lines")
    assert excerpt("x" * 100_000) == "x" * 2400 + " …"


@given(st.text(alphabet="`~a \n![](<>", max_size=60))
def test_no_text_ends_its_code_block(text: str) -> None:
    """A tool's result is never Markdown: no link, no image, no heading comes of it."""
    tokens = MarkdownIt().parse(fenced(text))
    assert [token.type for token in tokens] == ["fence"]
