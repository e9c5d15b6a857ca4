"""Which mutants there are, and which are drawn."""

from pathlib import Path

import pytest

pytest.importorskip("mutmut", reason="comes with the extra `mutation`")

from tests.conftest import REPOSITORY
from tests.mutation.__main__ import LEFT_OUT, PACKAGES
from tests.mutation.mutants import Mutant, modules_of, sample, sites_of

HEAD = '''"""A module."""
import logging

_logger = logging.getLogger(__name__)
LIMIT = 5


@staticmethod
def function(a: int = 3, *b: "int | None") -> int:
    """Not a mutant."""
'''


def changes(body: str) -> set[str]:
    """Return what becomes of one line in a function."""
    source = f"{HEAD}    {body}\n"
    mutated = {site.mutated() for site in sites_of(source)}
    assert all(one.startswith(HEAD) for one in mutated)
    return {one.removeprefix(HEAD).strip() for one in mutated}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return a < LIMIT", {"return a <= LIMIT"}),
        ("return a and b", {"return a or b"}),
        ("return a + 1", {"return a - 1", "return a + 2"}),
        ("return not a", {"return a"}),
        ("return a is None", {"return a is not None"}),
        ("return min(a, LIMIT)", {"return min(LIMIT)", "return min(a, )", "return (a)", "return (LIMIT)"}),
        ("await a.close()", {"pass"}),
        ("a.digest.update(b)", {"pass"}),
        ("a.login = None", {"pass"}),
        ("a.total -= b", {"a.total += b", "a.total = b", "pass"}),
        ("b = None", set()),
        ("return a if b else LIMIT", {"return a if (b) and False else LIMIT", "return a if (b) or True else LIMIT"}),
        ("return [x for x in b if x]", {"return [x for x in b if not (x)]"}),
        ("return 'key'", {"return 'XXkeyXX'", "return 'KEY'"}),
        ("return 'prose is not mutated'", set()),
        ("_logger.info(a < 1)", set()),
        ("assert a < 1", set()),
        ("return cast(a, len(b + 1))", set()),
        ("c: int = a", set()),
    ],
)
def test_line_of_a_function_has_these_mutants(body: str, expected: set[str]) -> None:
    """Of each operator one example; head, decorator, defaults and constants of the module stay as they are."""
    assert changes(body) == expected


def test_condition_is_negated_on_its_own_line() -> None:
    source = f"{HEAD}    if (\n        a\n        and b\n    ):\n        return 1\n    return 2\n"
    negated = [site for site in sites_of(source) if "not" in site.mutated()]
    assert [(site.line, site.span) for site in negated] == [(11, (11, 11))]
    (swapped,) = [site for site in sites_of(source) if " or " in site.mutated()]
    assert swapped.line == 12


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "package").mkdir()
    for name in ("one", "two"):
        body = "".join(f"    b.append(function(a + {number}, b, c, d, e))\n" for number in range(20))
        (tmp_path / "package" / f"{name}.py").write_text(f"def {name}(a, b, c, d, e):\n{body}")
    return tmp_path


def test_sample_is_the_same_for_a_seed_and_of_different_lines(repository: Path) -> None:
    """The files themselves are not touched."""
    modules = modules_of(repository, ["package"])
    before = [(repository / module).read_bytes() for module in modules]
    drawn = sample(repository, modules, 12, seed=1)
    assert drawn == sample(repository, modules, 12, seed=1) != sample(repository, modules, 12, seed=2)
    assert len({(one.module, one.line) for one in drawn}) == 12
    assert {one.module for one in drawn} == {"package/one.py", "package/two.py"}
    assert len(sample(repository, modules, 1000, seed=1)) == 40
    assert [(repository / module).read_bytes() for module in modules] == before


def test_mutant_tells_its_changed_lines_without_numbers(repository: Path) -> None:
    mutants = sample(repository, ["package/one.py"], 20, seed=3)
    mutant = next(one for one in mutants if one.diff[-1] == "+ pass")
    assert mutant == Mutant(
        "package/one.py",
        mutant.line,
        (mutant.line, mutant.line),
        mutant.source,
        (f"- b.append(function(a + {mutant.line - 2}, b, c, d, e))", "+ pass"),
    )
    assert mutant.source.splitlines()[mutant.line - 1] == "    pass"


def test_folder_without_modules_is_refused(repository: Path) -> None:
    with pytest.raises(ValueError, match="'nowhere' has no modules"):
        modules_of(repository, ["package", "nowhere"])


def test_what_a_run_mutates_and_leaves_out_by_default_exists() -> None:
    """A room that was renamed would end the run before it begins."""
    assert all(modules_of(REPOSITORY, [package]) for package in PACKAGES)
    assert [name for name in LEFT_OUT if not (REPOSITORY / name).exists()] == []
