"""How mutants are counted, and what the list of equivalent ones is."""

from pathlib import Path

import pytest

pytest.importorskip("mutmut", reason="comes with the extra `mutation`")

from tests.conftest import REPOSITORY
from tests.mutation.mutants import Mutant, sites_of
from tests.mutation.summary import Equivalent, Outcome, Result, killed_share, read_equivalents, summarise

LIST = Path(__file__).parent / "equivalent.txt"


def results(*outcomes: Outcome, module: str = "memory_context/store/pool.py") -> list[Result]:
    mutant = Mutant(module, 7, (7, 7), "", ("- a < b", "+ a <= b"))
    return [Result(mutant, outcome, "why") for outcome in outcomes]


def test_timeouts_count_as_noticed_and_lines_without_tests_as_not() -> None:
    """Equivalent mutants count for neither."""
    assert killed_share(results("killed", "timed out", "survived", "not covered", "equivalent")) == 0.5
    assert killed_share(results("killed", "killed", "killed", "survived")) == 0.75
    assert killed_share(results("equivalent")) == 1


def test_summary_lists_survivors_with_their_change_and_counts_by_package() -> None:
    text = summarise(
        [*results("killed", "survived"), *results("killed", "equivalent", module="memory_context/view/render.py")]
    )
    assert text.count("- a < b") == text.count("+ a <= b") == 1
    assert "memory_context/store/pool.py:7" in text
    rows = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.endswith("%")}
    assert rows == {
        "memory_context/store": ["1", "0", "1", "0", "0", "50.0%"],
        "memory_context/view": ["1", "0", "0", "0", "1", "100.0%"],
        "all": ["2", "0", "1", "0", "1", "66.7%"],
    }


def test_equivalents_are_blocks_of_module_change_and_reason() -> None:
    text = "# about\n\npackage/one.py\n- a\n+ b\nNobody can\nsee it.\n\n\npackage/two.py\n- c\n+ pass\nNor this.\n"
    assert read_equivalents(text) == [
        Equivalent("package/one.py", ("- a", "+ b"), "Nobody can see it."),
        Equivalent("package/two.py", ("- c", "+ pass"), "Nor this."),
    ]
    for broken in ("package/one.py\n- a\n+ b", "package/one.py\nreason", "- a\n+ b\nreason"):
        with pytest.raises(ValueError, match="not a module, its changed lines and a reason"):
            read_equivalents(broken)


def test_equivalents_listed_are_still_mutants_of_the_package() -> None:
    """An entry whose line has changed says nothing any more: remove it, or show the new mutant to be equivalent."""
    for one in read_equivalents(LIST.read_text(encoding="utf-8")):
        source = (REPOSITORY / one.module).read_text(encoding="utf-8")
        before = {line[2:] for line in one.diff if line.startswith("- ")}
        assert before <= {line.strip() for line in source.splitlines()}, one
        after = {line[2:] for line in one.diff if line.startswith("+ ")}
        assert any(
            after <= {line.strip() for line in site.mutated().splitlines()}
            for site in sites_of(source)
            if source.splitlines()[site.line - 1].strip() in before
        ), one
