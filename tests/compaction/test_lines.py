"""Lines of a text, cut between names, and how relevant they are to words."""

from hypothesis import given
from hypothesis import strategies as st

from memory_context.foundation.compactors.lines import LONGEST_LINE, RUN, Lines
from memory_context.foundation.text.tokenize import words_in

_texts = st.text(st.sampled_from("abcXY_ 1é\n(.'"), max_size=200) | st.text(max_size=600)


@given(_texts, st.integers(1, 4))
def test_lines_cover_the_text_in_order(text: str, times: int) -> None:
    """With their line breaks; none is longer than the limit."""
    text *= times
    lines = Lines(text)
    assert "".join(text[start:end] for start, end in lines.spans) == text
    assert [text[start:end].removesuffix("\n") for start, end in lines.spans] == lines.texts
    assert all(len(line) <= LONGEST_LINE for line in lines.texts)


@given(_texts)
def test_runs_are_those_of_the_pattern(text: str) -> None:
    """Splitting ASCII text is only faster."""
    lines = Lines(text)
    found: dict[str, list[int]] = {}
    for number, line in enumerate(lines.texts):
        for run in RUN.findall(line):
            found.setdefault(run, []).append(number)
    assert {run: places for run, places in lines.runs.items() if run != "("} == found


def test_rare_words_weigh_more() -> None:
    """A line with a word that few lines have is ahead of one with a word that many have; others have nothing."""
    lines = Lines("common one\ncommon two\ncommon rare\nnothing")
    common, _, rare, nothing = lines.relevance(frozenset(("common", "rare")))
    assert rare > common > nothing == 0.0


@given(_texts)
def test_a_line_is_relevant_if_it_has_a_wanted_word(text: str) -> None:
    wanted = words_in(text[: len(text) // 2])
    lines = Lines(text)
    values = lines.relevance(wanted)
    assert [value > 0 for value in values] == [bool(words_in(line) & wanted) for line in lines.texts]
