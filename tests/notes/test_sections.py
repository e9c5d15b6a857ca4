"""Operations on Markdown notes, as pure functions."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from memory_context import NotesError
from memory_context.memory.notes import (
    LIMIT_CHARACTERS,
    NotesEdit,
    clean,
    doubled_sections,
    find_section,
    sections_of,
)

NOTES = """Loose text.

# Work

Orders is at db1.

## Tools

```sh
# no header
## nor this
```

## People

- Ann
  # in a list

Style
=====

> # quoted

    # indented code

<!--
# in a comment
-->
Short sentences."""


def apply(text: str, operation: str, content: str | None = None, header: str | None = None) -> str:
    return NotesEdit(operation, content, header).apply(text)  # type: ignore[arg-type]


def headers(text: str) -> list[str]:
    return [one.header for one in sections_of(text)]


def test_headers_are_those_of_commonmark() -> None:
    """None in code, lists, quotations and comments; an underlined one counts."""
    assert headers(NOTES) == ["# Work", "## Tools", "## People", "# Style"]
    assert [one.path for one in sections_of(NOTES)][1] == ("Work", "Tools")
    assert headers("# a\r\n~~~~\r\n# b\r\n~~~\r\n# c\r\n~~~~\r\n# d #\r\n".replace("\r\n", "\n")) == ["# a", "# d"]


def test_a_section_includes_its_nested_ones() -> None:
    assert apply(NOTES, "delete_section_by_header", header="Work").startswith("Loose text.\n\nStyle\n=====")
    assert "## People" in apply(NOTES, "delete_section_by_header", header="## Tools")
    assert headers(apply(NOTES, "delete_section_by_header", header="style")) == ["# Work", "## Tools", "## People"]


def test_text_added_is_separated_by_a_blank_line() -> None:
    assert apply("a\n\n\n", "append", "\n\nb\r\nc\n") == "a\n\nb\nc"
    assert apply("", "append", "a") == apply("", "prepend", "a") == apply("old", "overwrite", "a\n") == "a"
    assert apply("a", "prepend", "# T") == "# T\n\na"
    assert apply("a", "delete_all_notes") == ""


def test_a_replaced_section_keeps_its_header_unless_the_content_has_one() -> None:
    """A deeper header in the content is nested."""
    text = "# A\nold\n## N\nn\n# B\nb"
    assert apply(text, "replace_section_by_header", "new", "A") == "# A\n\nnew\n\n# B\nb"
    assert apply(text, "replace_section_by_header", "## M\nm", "A") == "# A\n\n## M\nm\n\n# B\nb"
    assert apply(text, "replace_section_by_header", "# C\nnew", "# A") == "# C\nnew\n\n# B\nb"
    assert apply(NOTES, "replace_section_by_header", "Long ones.", "Style").endswith("Style\n=====\n\nLong ones.")


def test_an_unknown_header_is_answered_with_those_there_are() -> None:
    with pytest.raises(NotesError, match=r"no section 'Toolz'; there are '# Work', '## Tools', '## People', '# Style'"):
        apply(NOTES, "delete_section_by_header", header="## Toolz")
    with pytest.raises(NotesError, match="there are none"):
        apply("text", "delete_section_by_header", header="A")
    many = "\n".join(f"# S{number}" for number in range(50))
    with pytest.raises(NotesError, match=r"'# S29' and 20 more$"):
        apply(many, "delete_section_by_header", header="A")


def test_one_of_several_equal_headers_is_named_by_level_case_or_path() -> None:
    text = "# A\n## Log\na\n# B\n## Log\nb\n### log\nc\n# Log\nd"
    with pytest.raises(NotesError, match=r"3 sections are called 'Log': 'A > Log', 'B > Log', 'Log'; name one by its"):
        apply(text, "delete_section_by_header", header="Log")
    assert apply(text, "delete_section_by_header", header="# log") == "# A\n## Log\na\n# B\n## Log\nb\n### log\nc"
    assert headers(apply(text, "delete_section_by_header", header="b > log")) == ["# A", "## Log", "# B", "# Log"]
    assert "### log" not in apply(text, "delete_section_by_header", header="log")


@pytest.mark.parametrize(
    ("operation", "given", "says"),
    [
        ("append", {}, "append needs content, which is missing or empty"),
        ("overwrite", {"content": " \n"}, "overwrite needs content"),
        ("replace_section_by_header", {}, "needs section_header and content, which are missing"),
        ("replace_section_by_header", {"content": "x"}, "needs section_header, which is missing"),
        ("delete_section_by_header", {}, "needs section_header"),
        ("delete_all_notes", {"section_header": "A"}, "takes no argument, not section_header; nothing was changed"),
        ("append", {"content": "x", "section_header": "A"}, "append takes content, not section_header"),
        ("erase", {}, "no operation 'erase'; there are overwrite, append"),
    ],
)
def test_a_missing_or_meaningless_argument_is_named(operation: str, given: dict[str, str], says: str) -> None:
    with pytest.raises(NotesError, match=says):
        NotesEdit(operation, **given)  # type: ignore[arg-type]


def test_notes_hold_32_000_characters() -> None:
    whole = apply("a" * (LIMIT_CHARACTERS - 3), "append", "b")
    assert len(whole) == LIMIT_CHARACTERS
    for operation, content in (("append", "c"), ("overwrite", "x" * 10_000_000)):
        with pytest.raises(NotesError, match=r"the notes would have [\d,]+ characters and 32,000 is the most; nothing"):
            apply(whole, operation, content)


@pytest.mark.parametrize("content", ["```\ncode", "~~~~ python\n~~~", "text <!--\n\n<!-- comment", "<script>\nlet a"])
def test_a_content_that_swallows_what_follows_is_refused(content: str) -> None:
    """Also at the end, where the next text would be swallowed."""
    for operation, header in (("append", None), ("prepend", None), ("replace_section_by_header", "Tools")):
        with pytest.raises(NotesError, match="a code block, comment or list is not closed at its end"):
            apply(NOTES, operation, content, header)
    with pytest.raises(NotesError, match="not closed"):
        apply("", "overwrite", content)


def test_unclosed_notes_of_an_import_can_be_mended() -> None:
    """By deleting and overwriting, which is never refused for what was there before."""
    assert apply("# A\na\n# B\n```\ncode", "delete_section_by_header", header="A") == "# B\n```\ncode"
    assert apply("```\ncode", "overwrite", "a") == "a"


LINES = st.sampled_from([
    "# A", "## A", "## B", "### c", "# D #", "text", "T", "===", "---", "- item", "  # in", "    code", "> # q", "",
    "```", "```py", "~~~", "````", "<!--", "-->", "\t", "1. one", "#no", "<div>", "\u2028# sep", "\x0b# sep", "***",
])  # fmt: skip
TEXTS = st.lists(LINES, max_size=12).map("\n".join)


def closed(text: str) -> bool:
    """Whether a text is taken as notes."""
    try:
        apply("", "overwrite", text or "x")
    except NotesError:
        return False
    return True


CLOSED = TEXTS.filter(closed).map(clean)


@given(text=CLOSED, body=CLOSED)
def test_append_then_delete_section_is_identity(text: str, body: str) -> None:
    """Whatever fences, lists and comments the notes and the section hold, if the section has one header on top."""
    content = clean(f"# Added\n\n{body}")
    assume(all(one.level > 1 for one in sections_of(content)[1:]))
    assert apply(apply(text, "append", content), "delete_section_by_header", header="Added") == text


@given(text=CLOSED, content=CLOSED.filter(bool), at=st.integers(0, 20))
def test_an_operation_changes_no_other_section(text: str, content: str, at: int) -> None:
    """The headers and texts before and behind are the same afterwards, or the operation is refused."""
    sections = sections_of(text)
    edits = [("append", content, None, (len(text), len(text))), ("prepend", content, None, (0, 0))]
    if sections:
        target = sections[at % len(sections)]
        place = (target.start, target.end)
        edits += [("replace_section_by_header", content, " > ".join(target.path), place)]
        edits += [("delete_section_by_header", None, " > ".join(target.path), place)]
    for operation, given_content, header, (start, end) in edits:
        try:
            result = apply(text, operation, given_content, header)
        except NotesError:
            continue
        before = [one.header for one in sections if one.start < start]
        after = [one.header for one in sections if one.start >= end]
        found = headers(result)
        assert found[: len(before)] == before
        assert not after or found[-len(after) :] == after
        assert result.startswith(clean(text[:start]))
        assert result.endswith(clean(text[end:]))
        assert closed(result)


@given(text=TEXTS)
def test_sections_are_exact_ranges_of_the_text(text: str) -> None:
    """Each begins with its header, holds what is nested in it, and ends where the next of its rank begins."""
    text = clean(text)
    sections = sections_of(text)
    for number, one in enumerate(sections):
        following = sections[number + 1] if number + 1 < len(sections) else None
        assert all(word in text[one.start : one.body] for word in one.title.split())
        assert one.start < one.body <= one.end
        if following is not None:
            assert (following.level <= one.level) == (one.end <= following.start)
            assert text[following.start - 1] == "\n"


TWICE = "# Log\nfirst\n\n# Ideas #later\nnone\n\n# Log\nsecond"


def test_sections_of_one_name_are_told_apart_by_number() -> None:
    assert doubled_sections(TWICE) == ["Log (1)", "Log (2)"]
    assert apply(TWICE, "delete_section_by_header", header="Log (2)") == "# Log\nfirst\n\n# Ideas #later\nnone"
    with pytest.raises(NotesError, match=r"'Log \(1\)', 'Log \(2\)'"):
        apply(TWICE, "delete_section_by_header", header="Log")
    with pytest.raises(NotesError, match="there is no section"):
        apply(TWICE, "delete_section_by_header", header="Log (3)")


def test_header_is_found_without_its_tags() -> None:
    assert "some" in apply(TWICE, "replace_section_by_header", "some", "Ideas")
    assert find_section(TWICE, "## Ideas").title == "Ideas #later"


def test_text_that_is_there_is_not_added_again() -> None:
    assert apply(TWICE, "append", "# Log\nfirst") == TWICE
    assert apply(TWICE, "prepend", "# Log\nsecond") == TWICE
    assert apply(TWICE, "append", "second") != TWICE
