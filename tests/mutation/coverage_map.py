"""Which tests run a line of the package: recorded once, kept for each test file until it or the package changes.

out/mutation/<hash of all but the test files>/<hash of a test file>.json
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .plugin import ARGUMENTS, ENVIRONMENT

__all__ = ["CoverageMap", "collect", "files_of_tests", "tree_hash"]

_HASHED = ("memory_context", "sql", "tests", "samples", "benchmarks", "pyproject.toml")
_FILES_AT_ONCE = 8
_LIMIT_SECONDS = 1800


@dataclass
class CoverageMap:
    """The tests and the lines they run.

    Attributes:
        seconds: How long each test takes that passes, its fixtures included, by its id.
        by_line: The tests that run a line, by module and line.
        breadth: How many lines a test runs: few tell of a test of just that.
        starting: The tests that run the package in another process, too, which no recording sees.
    """

    seconds: dict[str, float] = field(default_factory=dict[str, float])
    by_line: dict[tuple[str, int], set[str]] = field(
        default_factory=lambda: defaultdict[tuple[str, int], set[str]](set)
    )
    breadth: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    starting: set[str] = field(default_factory=set[str])

    def add(self, record: dict[str, Any]) -> None:
        """Add what was recorded of a test file; of tests that do not pass nothing."""
        tests: dict[str, dict[str, Any]] = record["tests"]
        passed = {nodeid: test["seconds"] for nodeid, test in tests.items() if test.get("outcome") == "passed"}
        self.seconds |= passed
        self.starting |= {nodeid for nodeid in passed if tests[nodeid]["starts_python"]}
        for module, lines in record["lines"].items():
            for line, nodeids in lines.items():
                good = passed.keys() & nodeids
                self.by_line[module, int(line)] |= good
                for nodeid in good:
                    self.breadth[nodeid] += 1

    def tests_of(self, module: str, line: int, span: tuple[int, int]) -> list[str]:
        """Return the tests that may notice a fault in a line.

        First those that run it, the ones with the fewest lines in all before others; if no test runs the line itself,
        as with parts of a longer statement, those that run its statement. Then those of the package's own folder that
        start a process.
        """
        found = self.by_line.get((module, line)) or {
            nodeid for number in range(span[0], span[1] + 1) for nodeid in self.by_line.get((module, number), ())
        }
        folder = f"tests/{module.split('/')[1]}/"
        others = {nodeid for nodeid in self.starting if nodeid.startswith(folder)} - found
        return [
            *sorted(found, key=lambda nodeid: (self.breadth[nodeid], self.seconds[nodeid], nodeid)),
            *sorted(others, key=lambda nodeid: (self.seconds[nodeid], nodeid)),
        ]

    def within(self, nodeids: Sequence[str], limit_seconds: float) -> list[str]:
        """Return the first of these tests that together take no longer than a limit; one at least."""
        taken, total = list[str](), 0.0
        for nodeid in nodeids:
            total += self.seconds[nodeid]
            if taken and total > limit_seconds:
                break
            taken.append(nodeid)
        return taken


def files_of_tests(repository: Path, folders: Sequence[str], left_out: Sequence[str]) -> list[str]:
    """Return the test files in folders, as paths in the repository."""
    found = {
        str(path.relative_to(repository))
        for folder in folders
        for path in ([repository / folder] if folder.endswith(".py") else (repository / folder).rglob("test_*.py"))
    }
    return sorted(path for path in found if not any(path == out or path.startswith(f"{out}/") for out in left_out))


def tree_hash(repository: Path, modules: Sequence[str]) -> str:
    """Return the hash of everything a recording of these modules depends on, but for test files and this folder."""
    digest = hashlib.sha256(json.dumps(list(modules)).encode())
    for path in _files(repository, _HASHED):
        name = path.relative_to(repository).as_posix()
        if not (name.startswith("tests/mutation/") or path.name.startswith("test_")):
            digest.update(f"{name}\0{_hash_of(path)}\0".encode())
    return digest.hexdigest()[:16]


def collect(
    repository: Path,
    cache: Path,
    modules: Sequence[str],
    files: Sequence[str],
    workers: int,
    say: Callable[[str], None],
) -> CoverageMap:
    """Return the map of these test files; those are run whose recording is not in the cache."""
    folder = cache / tree_hash(repository, modules)
    folder.mkdir(parents=True, exist_ok=True)
    stale = [file for file in files if not _recording(folder, repository, file).exists()]
    if stale:
        say(f"recording which lines {len(stale)} of {len(files)} test files run ...")
        lock, done = threading.Lock(), [0]

        def run(piece: Sequence[str]) -> None:
            ended = _record(repository, folder, modules, piece)
            with lock:
                done[0] += len(piece)
                say(f"[{done[0]:>3}/{len(stale)}] {' '.join(piece)}: {ended}")

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(run, _pieces(stale)))
    found = CoverageMap()
    for file in files:
        path = _recording(folder, repository, file)
        if path.exists():
            found.add(json.loads(path.read_text(encoding="utf-8")))
    return found


def _record(repository: Path, folder: Path, modules: Sequence[str], files: Sequence[str]) -> str:
    """Run test files and keep what they run; return how that ended."""
    with tempfile.TemporaryDirectory(prefix="mc-mutation-", dir="/tmp") as scratch:
        wanted, result, log = (Path(scratch) / name for name in ("modules.json", "result.json", "log"))
        wanted.write_text(json.dumps(list(modules)))
        variables = {"MUTATION_RECORD": str(result), "MUTATION_MODULES": str(wanted)}
        with log.open("w") as out:
            try:
                subprocess.run(
                    [sys.executable, "-m", "pytest", *ARGUMENTS, *files],
                    cwd=repository,
                    env={**os.environ, **ENVIRONMENT, **variables},
                    stdout=out,
                    stderr=out,
                    timeout=_LIMIT_SECONDS,
                )
            except subprocess.TimeoutExpired:
                return f"not done in {_LIMIT_SECONDS} s"
        ended = (log.read_text(errors="replace").strip().splitlines() or [""])[-1]
        if not result.exists():
            return f"nothing recorded: {ended}"
        whole = json.loads(result.read_text(encoding="utf-8"))
    for file in files:
        tests = {nodeid: test for nodeid, test in whole["tests"].items() if nodeid.partition("::")[0] == file}
        record = json.dumps({"tests": tests, "lines": whole["lines"].get(file, {})})
        path = _recording(folder, repository, file)
        path.with_suffix(".new").write_text(record, encoding="utf-8")
        path.with_suffix(".new").replace(path)
    failed = sum(test["outcome"] == "failed" for test in whole["tests"].values())
    return f"{len(whole['tests'])} tests" + (f", {failed} failed and do not count" if failed else "")


def _pieces(files: Sequence[str]) -> Iterator[list[str]]:
    """Yield a few files of one folder at a time: an interrupted recording goes on after the last piece."""
    by_folder: dict[str, list[str]] = defaultdict(list)
    for file in files:
        by_folder[file.rpartition("/")[0]].append(file)
    for some in by_folder.values():
        for start in range(0, len(some), _FILES_AT_ONCE):
            yield some[start : start + _FILES_AT_ONCE]


def _recording(folder: Path, repository: Path, file: str) -> Path:
    digest = hashlib.sha256(f"{file}\0{_hash_of(repository / file)}".encode()).hexdigest()[:16]
    return folder / f"{file.replace('/', '.').removesuffix('.py')}.{digest}.json"


def _hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _files(repository: Path, names: Iterable[str]) -> Iterator[Path]:
    for name in names:
        path = repository / name
        inside = sorted(path.rglob("*")) if path.is_dir() else [path]
        yield from (one for one in inside if one.is_file() and "__pycache__" not in one.parts and one.suffix != ".pyc")
