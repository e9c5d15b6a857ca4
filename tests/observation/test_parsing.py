"""Answers of small models: read leniently, trusted in nothing."""

from datetime import date, time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_context.compaction.observation.parsing import LogLine, is_degenerate, parsed_edits, parsed_observations
from memory_context.compaction.observation.prompts import OBSERVER_INSTRUCTIONS
from memory_context.sessions.transcript.observations import Edit

DAY = date(2026, 11, 22)
N = 10_000
GOOD = """\
Here is the log.
<observations>
Date: 2026-11-22
- 14:05 !! The user wants port 8080 (13)
- 14:06 ! Agent read the settings (14-16, 18)
  - src/a.py: 3 errors (17)
  - → src/b.py: none
- 14:20 x The port is set (20)
- 14:21 ~ A greeting (21)
</observations>
<current-task>Set the port</current-task>
<suggested-response>
Ask whether to restart
</suggested-response>
Bye."""


def lines_of(text: str) -> list[LogLine]:
    return list(parsed_observations(text, 10, 30).lines)


def test_lines_carry_day_time_priority_and_messages():
    """Numbers count from 1 in answers, positions from 0; the citations of details are those of their line."""
    answer = parsed_observations(GOOD, 10, 30)
    assert answer.lines == (
        LogLine("The user wants port 8080", ((12, 13),), DAY, time(14, 5), "user"),
        LogLine(
            "Agent read the settings\n- src/a.py: 3 errors\n- src/b.py: none",
            ((13, 16), (16, 17), (17, 18)),
            DAY,
            time(14, 6),
            "project",
        ),
        LogLine("The port is set", ((19, 20),), DAY, time(14, 20), "done"),
        LogLine("A greeting", ((20, 21),), DAY, time(14, 21), "minor"),
    )
    assert (answer.current_task, answer.suggested_response) == ("Set the port", "Ask whether to restart")


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("- (2:06 pm) 🔴 A fact", (time(14, 6), "user")),
        ("* 🟡 [14:06:59] A fact", (time(14, 6), "project")),
        ("1. 12:30 AM, ✅ A fact", (time(0, 30), "done")),
        ("• 14:06: 🟢 A fact", (time(14, 6), "minor")),
        ("- 25:70 A fact", (None, "project")),
        ("14:06 - A fact", (time(14, 6), "project")),
    ],
)
def test_times_and_marks_are_read_in_many_forms(written: str, expected: tuple[time | None, str]):
    """Twelve-hour times become 24-hour ones, emoji are priorities, either may come first."""
    (line,) = lines_of(f"<observations>\n{written}\n</observations>")
    assert (line.text, line.said_at, line.priority) == ("A fact", *expected)


@pytest.mark.parametrize("number", ["9", "31", "13, 99", "0", "15-12", "2019"])
def test_numbers_of_unobserved_messages_are_text(number: str):
    """Only the observed range can be cited, so a year in brackets stays."""
    (line,) = lines_of(f"- it was so ({number})")
    assert (line.text, line.cited) == (f"it was so ({number})", ())


def test_tags_count_only_at_the_start_of_a_line():
    """A line about tags neither opens nor closes them."""
    text = "<observations>\n- They wrote </observations> in it\n- and more\n</observations>\n- not a line"
    assert [line.text for line in lines_of(text)] == ["They wrote </observations> in it", "and more"]
    assert [line.text for line in lines_of("I use <observations> here\n- the line")] == ["the line"]


def test_answer_without_tags_is_its_list_items():
    """Prose around the list is left out, and so are the hints."""
    text = "Sure, here it is:\n- one thing\n* another\nThat is all.\n<current-task>\n- a task\n</current-task>"
    answer = parsed_observations(text, 10, 30)
    assert ([line.text for line in answer.lines], answer.current_task) == (["one thing", "another"], "- a task")
    assert lines_of("I have nothing to report.") == []


def test_unclosed_block_is_read_to_its_end():
    """An answer may end at its token limit, or forget a tag."""
    assert [line.text for line in lines_of("<observations>\n- one thing\n- another")] == ["one thing", "another"]
    text = "<observations>\n- one thing\n<current-task>\na task\n"
    answer = parsed_observations(text, 10, 30)
    assert ([line.text for line in answer.lines], answer.current_task) == (["one thing"], "a task")


def test_wrapped_lines_are_joined():
    """Lines between tags without a bullet go on with the one before; without any bullet each is its own."""
    assert [line.text for line in lines_of("<observations>\n- one thing\n  goes on\n- two\n")] == [
        "one thing goes on",
        "two",
    ]
    assert [line.text for line in lines_of("<observations>\none\n\ntwo\n</observations>")] == ["one", "two"]


@pytest.mark.parametrize(
    "echo",
    ["- HH:MM MARK TEXT (NUMBERS)", "- 14:00 ! TEXT", "- [what was observed]", "- <text>", "- ...", "- none", "- N/A"],
)
def test_placeholders_are_no_content(echo: str):
    """A model that repeats the form has observed nothing."""
    assert lines_of(f"<observations>\nDate: YYYY-MM-DD\n{echo}\n  - DETAIL\n</observations>") == []


def test_prompt_repeated_as_an_answer_has_no_content():
    """Neither its form, nor its rules, nor its examples."""
    answer = parsed_observations(OBSERVER_INSTRUCTIONS, 10, 30)
    assert answer == parsed_observations("", 10, 30)


@pytest.mark.parametrize(
    "text",
    [
        "- the same line\n" * 12,
        "\n".join(f"- 14:{minute:02} ! Agent read the file again ({minute})" for minute in range(20)),
        "and so on and so forth " * 40,
        "<observations>\n- 14:05 ! A fact (13)\n" + "ha" * 3000,
        "哈" * 500,
    ],
    ids=["lines", "lines with times", "words", "letters", "no spaces"],
)
def test_repetition_is_degenerate(text: str):
    """Of lines, also under other times and numbers, and of windows within a line."""
    assert is_degenerate(text)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        "- ok\n- ok\n",
        "\n".join(
            f"- 14:{minute:02} ! Agent read src/file_{minute}.py, {minute * 7} lines (13)" for minute in range(60)
        ),
        "\n".join(f"merge {n}, {n + 1}: The agent made change number {n * 31}" for n in range(0, 80, 2)),
    ],
    ids=["good", "short", "alike", "edits"],
)
def test_alike_lines_are_not_degenerate(text: str):
    """A list of different files is a list."""
    assert not is_degenerate(text)


@given(st.text(alphabet="<>/obs-ervations \n\t*-•!x~🔴([{1290:,)]#Dd\ud800\x00", max_size=400))
def test_any_answer_is_read_without_an_error(text: str):
    """Lines are not empty, hold their own details only, and cite observed messages only."""
    for line in parsed_observations(text, 10, 30).lines:
        first, *details = line.text.split("\n")
        assert first.strip()
        assert all(detail.startswith("- ") for detail in details)
        assert all(10 <= start < end <= 30 for start, end in line.cited)
    parsed_edits(text, range(10))


@pytest.mark.parametrize(
    "text",
    [
        *(
            one * N
            for one in (" ", "(", "- (1,", "<observations>\n", "<current-task>", "- 14:05 ", "{", "!!", "\n\t- ")
        ),
        *(one * N for one in ("(1, ", "drop 1, ", "a\n", "- a\n")),
        *(
            first + again * N
            for first, again in (("- ", " "), ("merge ", "1, "), ("reword 3: ", "a\n"), ("- a\n", "b\n"))
        ),
    ],
    ids=range(17),
)
def test_long_answers_are_read_in_linear_time(text: str):
    """A quadratic pattern would take minutes here."""
    for answer in (text, f"<observations>\n{text}\n</observations>"):
        parsed_observations(answer, 10, 30)
        parsed_edits(answer, range(10))
        is_degenerate(answer)


def test_edits_are_read_in_lines_and_in_json():
    """With list bullets, brackets, ranges and texts of several lines."""
    assert parsed_edits(
        "Edits:\n- merge 3, 4-5: The agent\n  - did it\n2) drop [7], [8]\n**reword** 12 → new", range(20)
    ) == [
        Edit("merge", (3, 4, 5), "The agent\n- did it"),
        Edit("drop", (7, 8)),
        Edit("reword", (12,), "new"),
    ]
    text = (
        '```json\n{"edits": [{"operation": "drop", "ids": [1, 2]}, {"op": "reword", "id": 3, "text": "hi there"}]}\n```'
    )
    assert parsed_edits(text, range(20)) == [Edit("drop", (1, 2)), Edit("reword", (3,), "hi there")]


@pytest.mark.parametrize(
    "text",
    [
        "merge 3, 99: text",
        "drop 99",
        "reword 3:",
        "merge: text",
        "drop all",
        "reword 3: TEXT",
        "drop 1-999999999",
        "keep 3",
    ],
)
def test_edits_of_unknown_lines_or_without_text_are_left_out(text: str):
    """Also those that repeat the prompt's form."""
    assert parsed_edits(text, range(20)) == []


def test_line_is_edited_once():
    """The first edit of a line wins; merging one line is rewording it."""
    assert parsed_edits("merge 3: one\ndrop 3, 4\ndrop 5", range(20)) == [
        Edit("reword", (3,), "one"),
        Edit("drop", (5,)),
    ]


def test_time_and_mark_of_an_edited_text_are_left_out():
    """The line keeps those of its sources."""
    assert parsed_edits("reword 3: 14:05 !! The user wants it", range(20)) == [
        Edit("reword", (3,), "The user wants it")
    ]
