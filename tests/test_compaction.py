"""What survives of a result: true, within its limits, with every gap named."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_context.compaction import GenericCompactor, Result, excerpt, render_passages
from memory_context.compaction.excerpt import error_lines
from memory_context.tokens import default_token_counter

counter = default_token_counter()
compactor = GenericCompactor()
any_text = st.text(st.characters(exclude_categories=()))
long_text = st.builds(
    lambda pieces, times: "".join(pieces) * times,
    st.lists(any_text | st.sampled_from(["\n", "Error: no\n", "word ", "x" * 300]), min_size=1, max_size=8),
    st.integers(1, 400),
)


@pytest.mark.parametrize(
    ("content", "is_error", "outcome"),
    [
        ("all fine", False, "succeeded"),
        ("all fine", None, "succeeded"),
        ("all fine", True, "failed"),
        ("exit code 1\nno such file", False, "failed"),
        ("done\n[Command finished with exit code 0]", False, "succeeded"),
        ("make: ***\n[Command finished with exit code 2]\n", False, "failed"),
        ("The script ran, then exited with an error (POSIX exit code: 7)\nIts output was:\n", None, "failed"),
        ("meta=None content=[TextContent(text='no')] isError=True", None, "failed"),
        ("1\timport sys\n2\t# exit code 1 means: nothing found\n3\tx = 1\n4\ty = 2\n5\tz = 3", False, "succeeded"),
        ("the docs say isError=True for a failure\nand go on", False, "succeeded"),
    ],
)
def test_a_result_says_whether_it_succeeded(content: str, is_error: bool | None, outcome: str):
    """By the framework's word, or by the status that shells and wrappers print; not by words in the content."""
    assert compactor.compact(Result(content, "shell", "", is_error), 4000, counter).status == f"shell {outcome}."


def test_a_description_says_what_was_asked_and_how_much_came():
    """Arguments shortened to one line each."""
    result = Result("a\nb\n", "run_shell", '{"command": "npm install\\n--verbose", "timeout": 5}')
    assert compactor.compact(result, 4000, counter).description == "command=npm install --verbose timeout=5, 2 lines"
    assert compactor.compact(Result("abc", "ask"), 4000, counter).description == "output of ask, 3 characters"
    assert compactor.compact(Result("abc", "ask", "not json"), 4000, counter).description == "not json, 3 characters"


def test_first_last_and_error_lines_are_kept():
    """None twice, within the limit, cut with an ellipsis."""
    log = "start\n" + "step\n" * 50 + "Error: disk full\n" + "step\n" * 50 + "end\n"
    assert (
        compactor.compact(Result(log, "x"), 4000, counter).facts
        == "First line: start\nError: disk full\nLast line: end"
    )
    long = GenericCompactor(facts_limit_tokens=12).compact(Result(log, "x"), 4000, counter).facts
    assert long.endswith("…")
    assert counter.count(long) <= 12


def test_source_code_that_speaks_of_errors_reports_none():
    """Handlers, raises, comments and docstrings are no reports."""
    source = 'try:\n    pass\nexcept ValueError:\n    raise ValueError("x: y")\n# Error: none\n"""Error: none"""\n'
    assert error_lines(source, 0, len(source), 5) == []
    report = "Traceback (most recent call last):\n  File 'x'\nValueError: bad value\n"
    lines = [report[p.start : p.end] for p in error_lines(report, 0, len(report), 5)]
    assert lines == ["Traceback (most recent call last):", "ValueError: bad value"]


@settings(max_examples=150, deadline=None)
@given(content=long_text, limit=st.sampled_from([130, 200, 500, 2000]))
def test_an_excerpt_is_within_its_limit_and_names_exactly_what_is_left_out(content: str, limit: int):
    """Shown and left-out stretches are the whole content; names of gaps by line are true."""
    passages = excerpt(content, limit, counter)
    position = 0
    for passage in passages:
        assert position <= passage.start < passage.end <= len(content)
        position = passage.end
    assert counter.count(render_passages(content, passages)) <= limit + 20
    lines = content.split("\n")
    shown = "\n".join(content[p.start : p.end] for p in passages)
    for first, last in re.findall(r"\[… lines? (\d+)(?:-(\d+))? left out …\]", render_passages(content, passages)):
        if "left out" in content:
            break
        first_line = lines[int(first) - 1]
        assert 1 <= int(first) <= int(last or first) <= len(lines)
        assert not first_line or len(first_line) < 20 or first_line not in shown or content.count(first_line) > 1


def test_a_long_log_shows_head_tail_and_the_error_between():
    """Each gap with the lines it leaves out."""
    log = "\n".join(f"step {i}" if i != 3000 else "ERROR: step 3000 failed" for i in range(1, 6001))
    text = render_passages(log, excerpt(log, 600, counter))
    assert text.startswith("step 1\n")
    assert text.endswith("\nstep 6000")
    assert "ERROR: step 3000 failed" in text
    gaps = [tuple(map(int, gap)) for gap in re.findall(r"lines (\d+)-(\d+) left out", text)]
    (first, before), (after, last) = gaps
    assert f"step {first - 1}\n" in text
    assert (before, after) == (2999, 3001)
    assert f"\nstep {last + 1}\n" in text


def test_one_long_line_is_cut_by_characters():
    """There are no lines to name."""
    line = "".join(f"{i}," for i in range(20_000))
    text = render_passages(line, excerpt(line, 400, counter))
    first, last = (int(n) for n in re.search(r"characters (\d+)-(\d+) left out", text).groups())  # type: ignore[union-attr]
    head, tail = text.split("\n")[0], text.split("\n")[-1]
    assert head + line[first - 1 : last] + tail == line
