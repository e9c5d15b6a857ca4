"""Mutants of a small repository: recorded, run, noticed or not; and nothing of it is left."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

pytest.importorskip("mutmut", reason="comes with the extra `mutation`")

from tests.conftest import REPOSITORY
from tests.mutation.coverage_map import collect
from tests.mutation.mutants import Mutant
from tests.mutation.workspace import Workspace

MODULE = "package/adding.py"
SOURCE = "def add(a, b):\n    return a + b\n\n\ndef wait(is_over):\n    while not is_over:\n        pass\n"
TESTS = """
import json, os, pathlib
import psycopg
from package.adding import add, wait

def test_adds_nothing():
    assert add(0, 0) == 0

def test_adds():
    assert add(1, 2) == 3

def test_waits():
    wait(True)

def test_fails():
    add(1, 2)
    assert False

def test_leaves_a_database():
    folder = pathlib.Path(os.environ["MEMORY_CONTEXT_TEST_SERVER"])
    url = psycopg.conninfo.make_conninfo(**json.loads((folder / "server.json").read_text()))
    with psycopg.connect(url, autocommit=True) as connection:
        for thing in ("DATABASE", "ROLE"):
            connection.execute(f"CREATE {thing} left_behind")
"""
ADDS_NOTHING, ADDS, WAITS, FAILS, LEAVES = (
    f"tests/test_adding.py::test_{name}" for name in ("adds_nothing", "adds", "waits", "fails", "leaves_a_database")
)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "package").mkdir()
    (tmp_path / MODULE).write_text(SOURCE)
    (tmp_path / "tests" / "mutation").mkdir(parents=True)
    for name in ("tests/__init__.py", "tests/mutation/__init__.py", "tests/mutation/plugin.py"):
        shutil.copy(REPOSITORY / name, tmp_path / name)
    (tmp_path / "tests" / "test_adding.py").write_text(TESTS)
    (tmp_path / "pyproject.toml").write_text("")
    return tmp_path


def test_recording_tells_which_tests_run_a_line_and_is_kept(repository: Path, tmp_path: Path) -> None:
    """A test that fails is not asked about anything."""
    for expected in (2, 0):
        said: list[str] = []
        covered = collect(repository, tmp_path / "cache", [MODULE], ["tests/test_adding.py"], 1, said.append)
        assert len(said) == expected, said
        assert sorted(covered.tests_of(MODULE, 2, (2, 2))) == [ADDS, ADDS_NOTHING]
        assert covered.tests_of(MODULE, 6, (6, 6)) == [WAITS]
        assert covered.seconds.keys() == {ADDS_NOTHING, ADDS, WAITS}


@pytest.fixture
def space(repository: Path) -> Iterator[Workspace]:
    space = Workspace(repository, 0)
    yield space
    space.close()


def test_mutant_fails_passes_or_runs_out_of_time_and_leaves_nothing(space: Workspace, repository: Path) -> None:
    """Neither in the repository, nor in the copy, nor in the server."""
    minus = Mutant(MODULE, 2, (2, 2), SOURCE.replace("+", "-"), ())
    endless = Mutant(MODULE, 6, (6, 6), SOURCE.replace("not is_over", "is_over"), ())
    broken = Mutant(MODULE, 1, (1, 1), "nonsense", ())
    run = space.run(minus, [ADDS_NOTHING, ADDS, FAILS], 60)
    assert (run.outcome, run.failed) == ("failed", ADDS)
    assert space.run(minus, [ADDS_NOTHING], 60).outcome == "passed"
    assert space.run(None, [ADDS, LEAVES], 60).outcome == "passed"
    assert space.run(None, [ADDS, LEAVES], 60).outcome == "passed"
    run = space.run(broken, [ADDS], 60)
    assert (run.outcome, run.failed) == ("failed", "exit code 2")
    assert space.run(endless, [WAITS], 3).outcome == "timed out"
    assert space.run(None, [WAITS, FAILS], 60).failed == FAILS
    assert (repository / MODULE).read_text() == (space._copy / MODULE).read_text() == SOURCE
    home, scratch = space._server(), space._scratch
    url = make_conninfo(**json.loads((home / "server.json").read_text()))
    space.close()
    assert not home.exists()
    assert not scratch.exists()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
