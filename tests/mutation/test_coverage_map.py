"""Which tests are asked about a line, in which order, and how long a recording is good for."""

from pathlib import Path
from typing import Any

import pytest

from tests.mutation.coverage_map import CoverageMap, files_of_tests, tree_hash

MODULE = "package/one.py"


def record(lines: dict[str, list[str]], **tests: tuple[str, float]) -> dict[str, Any]:
    """Return what is recorded of a test file."""
    return {
        "tests": {
            nodeid: {"outcome": outcome, "seconds": seconds, "starts_python": "process" in nodeid}
            for nodeid, (outcome, seconds) in tests.items()
        },
        "lines": {MODULE: lines},
    }


@pytest.fixture
def covered() -> CoverageMap:
    covered = CoverageMap()
    covered.add(
        record(
            {"1": ["broad", "narrow", "failing"], "2": ["broad"], "3": ["broad"], "5": ["broad", "slow"]},
            broad=("passed", 1.0),
            narrow=("passed", 4.0),
            failing=("failed", 0.1),
            slow=("passed", 5.0),
        )
    )
    covered.add(record({"1": ["other"], "2": ["other"]}, other=("passed", 0.5)))
    return covered


def test_tests_that_run_the_fewest_lines_are_asked_first(covered: CoverageMap) -> None:
    """A test that failed when it was recorded could not notice anything."""
    assert covered.tests_of(MODULE, 1, (1, 1)) == ["narrow", "other", "broad"]
    assert covered.tests_of(MODULE, 2, (2, 2)) == ["other", "broad"]


def test_line_within_a_statement_has_the_tests_of_the_statement(covered: CoverageMap) -> None:
    assert covered.tests_of(MODULE, 4, (3, 5)) == ["slow", "broad"]
    assert covered.tests_of(MODULE, 4, (4, 4)) == []
    assert covered.tests_of("package/two.py", 1, (1, 3)) == []


def test_tests_of_the_package_that_start_a_process_are_asked_last(covered: CoverageMap) -> None:
    """What runs there is not recorded: they may run any line."""
    slow, quick, other = (f"tests/{name}" for name in ("package/a::process", "package/b::process", "c/d::process"))
    seconds = {slow: ("passed", 9.0), quick: ("passed", 2.0), other: ("passed", 1.0)}
    covered.add(record({"2": [slow]}, **seconds))
    assert covered.tests_of("a/package/one.py", 1, (1, 1)) == [quick, slow]
    assert covered.tests_of("package/one.py", 7, (7, 7)) == []
    covered.by_line["a/package/one.py", 1] = {slow, "narrow"}
    assert covered.tests_of("a/package/one.py", 1, (1, 1)) == ["narrow", slow, quick]


def test_tests_of_a_mutant_are_limited_by_time_but_one_is_asked(covered: CoverageMap) -> None:
    assert covered.within(["narrow", "other", "broad"], 5.0) == ["narrow", "other"]
    assert covered.within(["narrow", "other", "broad"], 5.5) == ["narrow", "other", "broad"]
    assert covered.within(["narrow", "other"], 0.1) == ["narrow"]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for path in ("memory_context/one.py", "tests/conftest.py", "tests/a/test_one.py", "tests/b/test_two.py"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def test_recording_is_good_until_the_package_or_what_tests_share_changes(repository: Path) -> None:
    """A changed test file is recorded anew by itself; where the repository lies makes no difference."""
    before = tree_hash(repository, [MODULE])
    assert tree_hash(repository, [MODULE, "package/two.py"]) != before
    (repository / "tests/a/test_one.py").write_text("changed")
    (repository / "memory_context/__pycache__").mkdir()
    (repository / "memory_context/__pycache__/one.pyc").write_text("changed")
    assert tree_hash(repository, [MODULE]) == before
    seen = {before}
    for path in ("tests/conftest.py", "memory_context/one.py", "pyproject.toml"):
        (repository / path).write_text("changed")
        seen.add(tree_hash(repository, [MODULE]))
    assert len(seen) == 4


def test_test_files_are_those_of_folders_without_what_is_left_out(repository: Path) -> None:
    assert files_of_tests(repository, ["tests"], []) == ["tests/a/test_one.py", "tests/b/test_two.py"]
    assert files_of_tests(repository, ["tests/b/test_two.py", "tests"], ["tests/a"]) == ["tests/b/test_two.py"]
    assert files_of_tests(repository, ["tests"], ["tests/b/test_two.py"]) == ["tests/a/test_one.py"]
