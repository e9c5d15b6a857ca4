"""The passages that are shown of a long text: the right ones, within the limit, with every gap named."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation.compactors.excerpt import Passage, excerpt, render_passages
from memory_context.foundation.text.landmarks import error_lines
from memory_context.foundation.tokens import default_token_counter

counter = default_token_counter()
any_text = st.text(st.characters(exclude_categories=()))
long_text = st.builds(
    lambda pieces, times: "".join(pieces) * times,
    st.lists(any_text | st.sampled_from(["\n", "Error: no\n", "word ", "x" * 300]), min_size=1, max_size=8),
    st.integers(1, 400),
)


def test_source_code_about_errors_is_not_an_error_line():
    """Handlers, raises, comments and docstrings are no reports."""
    source = 'try:\n    pass\nexcept ValueError:\n    raise ValueError("x: y")\n# Error: none\n"""Error: none"""\n'
    assert error_lines(source, 0, len(source), 5) == []
    report = "Traceback (most recent call last):\n  File 'x'\nValueError: bad value\n"
    lines = [report[p.start : p.end] for p in error_lines(report, 0, len(report), 5)]
    assert lines == ["Traceback (most recent call last):", "ValueError: bad value"]


@given(
    content=long_text,
    limit=st.sampled_from([130, 200, 500, 2000]),
    words=st.sampled_from(["", "word Error", "the words of a task"]),
    places=st.lists(st.integers(0, 10**6), max_size=5),
)
def test_excerpt_respects_limit_tokens_and_names_every_gap(content: str, limit: int, words: str, places: list[int]):
    """Shown and left-out stretches are the whole content, in order; names of gaps by line are true."""
    starts = [place % (len(content) + 1) for place in places]
    landmarks = [Passage(start, min(start + 50, len(content))) for start in starts]
    passages = excerpt(content, limit, counter, words=words, landmarks=landmarks)
    position = 0
    for passage in passages:
        assert position <= passage.start < passage.end <= len(content)
        position = passage.end
    text = render_passages(content, passages)
    assert counter.count(text) <= limit
    assert passages == excerpt(content, limit, counter, words=words, landmarks=landmarks)
    lines = content.split("\n")
    shown = "\n".join(content[p.start : p.end] for p in passages)
    for first, last in re.findall(r"\[… lines? (\d+)(?:-(\d+))? left out …\]", text):
        if "left out" in content:
            break
        first_line = lines[int(first) - 1]
        assert 1 <= int(first) <= int(last or first) <= len(lines)
        assert not first_line or len(first_line) < 20 or first_line not in shown or content.count(first_line) > 1


def test_excerpt_of_a_log_has_head_tail_and_the_error_between():
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


def test_excerpt_of_one_long_line_is_cut_by_characters():
    """There are no lines to name."""
    line = "".join(f"{i}," for i in range(20_000))
    text = render_passages(line, excerpt(line, 400, counter))
    first, last = (int(n) for n in re.search(r"characters (\d+)-(\d+) left out", text).groups())  # type: ignore[union-attr]
    head, tail = text.split("\n")[0], text.split("\n")[-1]
    assert head + line[first - 1 : last] + tail == line


def log_with(**lines: str) -> str:
    """Make a log of 3,000 lines with some of them replaced: `line_7="…"`."""
    return "\n".join(lines.get(f"line_{i}", f"{i} nothing to see here") for i in range(1, 3001))


def test_excerpt_has_lines_with_words_of_the_task_and_their_neighbours():
    """Rare words most; without words, head and tail alone."""
    log = log_with(line_1500="1500 the ledger was closed", line_2200="2200 nothing but a parcel")
    plain = render_passages(log, excerpt(log, 400, counter))
    assert "ledger" not in plain
    text = render_passages(log, excerpt(log, 400, counter, words="Why was the ledger closed?"))
    assert "1499 nothing to see here\n1500 the ledger was closed\n1501 nothing to see here" in text
    assert "parcel" not in text
    assert text.startswith("1 nothing")
    assert text.endswith("3000 nothing to see here")


def test_excerpt_takes_the_most_important_landmarks_first():
    """As many as fit."""
    log = log_with(line_1000="1000 def ship():", line_2000="2000 def refund():")
    landmarks = [Passage(start, start + 10) for start in (log.index("2000 def"), log.index("1000 def"))]
    text = render_passages(log, excerpt(log, 600, counter, landmarks=landmarks))
    assert "2000 def refund():" in text
    assert "1000 def ship():" in text


def test_excerpt_takes_errors_before_landmarks():
    """Where there is room for one only."""
    log = log_with(line_1500="ValueError: no such order", **{f"line_{i}": f"{i} def f():" for i in range(100, 1400, 9)})
    landmarks = [Passage(match.start(), match.end()) for match in re.finditer(r"\d+ def f\(\):", log)]
    text = render_passages(log, excerpt(log, 260, counter, landmarks=landmarks))
    assert "ValueError: no such order" in text


def test_excerpt_finds_words_far_inside_a_huge_text():
    """Only what lies around the words is looked at, however large the text is."""
    lines = [f"{i} nothing to see here" for i in range(200_000)]
    lines[123_456] = "123456 the zebra_total is computed here"
    log = "\n".join(lines)
    text = render_passages(log, excerpt(log, 800, counter, words="Where is zebra_total?"))
    assert "123456 the zebra_total is computed here" in text


def test_gap_is_named_by_its_lines_and_the_labels_in_it():
    """The first few labels; only the first gap is marked as the first."""
    content = "\n".join(f"line {i}" for i in range(1, 101))

    def at(first: int, last: int) -> Passage:
        return Passage(content.index(f"line {first}\n"), content.index(f"line {last}\n") + len(f"line {last}"))

    passages = [at(1, 5), at(50, 60), Passage(content.index("line 99\n"), len(content))]
    labels = [
        (at(3, 4), "def shown"),
        *((at(10 + i, 20 + i), f"def f{i}") for i in range(10)),
        (at(70, 80), "def last"),
    ]
    gaps: list[tuple[str, bool]] = []
    text = render_passages(content, passages, lambda what, is_first: gaps.append((what, is_first)) or "[gap]", labels)
    names = ", ".join(f"def f{i}" for i in range(4))
    assert gaps == [(f"lines 6-49 ({names} and 6 more)", True), ("lines 61-98 (def last)", False)]
    assert text.count("[gap]") == 2


def test_gap_of_one_line_and_gap_at_the_start_are_named():
    """Counted from 1."""
    content = "a\nb\nc\nd"
    assert (
        render_passages(content, [Passage(2, 3), Passage(6, 7)]) == "[… line 1 left out …]\nb\n[… line 3 left out …]\nd"
    )
    assert render_passages(content, []) == "[… lines 1-4 left out …]"


def test_excerpt_is_empty_if_the_limit_holds_gap_lines_only():
    """Then the placeholder says all there is to say."""
    assert excerpt(log_with(), 80, counter) == []
    assert excerpt(log_with(), 1, counter, words="nothing") == []


@pytest.mark.parametrize("named", ["SO-5337", "5337", "10.0.53.37"])
def test_excerpt_shows_the_rows_of_a_number_that_the_words_name(named: str):
    """A request names its row by an id; the other words stand in every row."""
    rows = [f"order SO-{n} of customer {n} at 10.0.{n // 100}.{n % 100} is open" for n in range(1000, 9000)]
    table = "\n".join(["order,customer", *rows])
    for limit in (300, 1500):
        passages = excerpt(table, limit, counter, words=f"Which customer has the open order {named}?")
        assert any("order SO-5337 of" in table[one.start : one.end] for one in passages)
        assert counter.count(render_passages(table, passages)) <= limit


def test_number_in_many_lines_or_within_another_one_is_no_landmark():
    """The year of each line tells nothing, and 533 is no part of 5337."""
    log = "\n".join(f"2026 step {n * 7} took {n % 83} ms" for n in range(1000, 5000))
    plain = excerpt(log, 500, counter, words="which step")
    assert plain == excerpt(log, 500, counter, words="which step 2026")
    assert plain == excerpt(log, 500, counter, words="which step 777")
