"""Draw mutants and see which of them the tests notice: `python -m tests.mutation --mutants 150 --seed 1`.

Exit code 1 if less than 85 % of those not shown to be equivalent are noticed.
"""

import argparse
import queue
import random
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from .coverage_map import CoverageMap, collect, files_of_tests
from .mutants import Mutant, modules_of, sample
from .summary import LEAST_KILLED, Equivalent, Result, killed_share, read_equivalents, summarise
from .workspace import Workspace

REPOSITORY = Path(__file__).parents[2]
PACKAGES = [f"memory_context/{name}" for name in ("store", "sessions", "view")]
LEFT_OUT = [  # pages in browsers, wheels, benchmarks, random requests: too slow to be asked about a line
    *("tests/chainlit/test_served.py", "tests/chainlit_web", "tests/web_chat", "tests/samples", "tests/mutation"),
    *("tests/test_project.py", "tests/test_benchmarks.py", "tests/web/test_openapi.py"),
]
_START_SECONDS = 60  # for the interpreter, imports and the first database, on a busy machine
_SLOWER = 8  # than when it was recorded


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--mutants", type=int, default=150, metavar="N", help="how many are drawn (default 150)")
    parser.add_argument("--seed", type=int, help="which are drawn (default: any; it is printed)")
    parser.add_argument("--packages", nargs="+", default=PACKAGES, metavar="FOLDER", help="what is mutated")
    parser.add_argument("--tests", nargs="+", default=["tests"], metavar="PATH", help="which tests may notice it")
    parser.add_argument("--workers", type=int, default=2, help="runs at a time (default 2)")
    parser.add_argument(
        "--limit", type=float, default=60, metavar="SECONDS", help="of tests for one mutant, as recorded (default 60)"
    )
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="begin no further mutant after so long (default: no limit)"
    )
    parser.add_argument("--only-record", action="store_true", help="record which lines the tests run, and stop")
    parser.add_argument("--report", type=Path, default=REPOSITORY / "out/mutation/report.txt", help="where it goes")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that copies and servers are removed
    seed = random.randrange(10**6) if given.seed is None else given.seed
    started = time.monotonic()
    modules = modules_of(REPOSITORY, sorted({*PACKAGES, *given.packages}))
    files = files_of_tests(REPOSITORY, given.tests, LEFT_OUT)
    covered = collect(REPOSITORY, REPOSITORY / "out/mutation", modules, files, given.workers, _say)
    if given.only_record:
        return 0
    mutants = sample(REPOSITORY, modules_of(REPOSITORY, given.packages), given.mutants, seed)
    _say(f"{len(mutants)} mutants by seed {seed}, {len(covered.seconds)} tests")
    equivalents = read_equivalents((Path(__file__).parent / "equivalent.txt").read_text(encoding="utf-8"))
    deadline = started + 60 * given.minutes
    results = _try_all(mutants, covered, equivalents, given.workers, given.limit, deadline)
    share = killed_share(results)
    took = time.monotonic() - started
    report = (
        f"{summarise(results)}\n\n{share:.1%} of N={len(results)} by seed {seed} are noticed, "
        f"{LEAST_KILLED:.0%} is the least; {took:,.0f} s with {given.workers} workers"
    )
    given.report.parent.mkdir(parents=True, exist_ok=True)
    given.report.write_text("\n".join([*map(str, results), report, ""]), encoding="utf-8")
    _say(report)
    return int(share < LEAST_KILLED)


def _try_all(
    mutants: Sequence[Mutant],
    covered: CoverageMap,
    equivalents: Sequence[Equivalent],
    workers: int,
    limit_seconds: float,
    deadline: float,
) -> list[Result]:
    """Return what became of each mutant that was begun before a deadline, in the order they were drawn in."""
    reasons = {(one.module, one.diff): one.reason for one in equivalents}
    results: dict[int, Result] = {}
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    tests: dict[int, list[str]] = {}
    for number, mutant in enumerate(mutants):
        tests[number] = covered.tests_of(mutant.module, mutant.line, mutant.span)
        if reason := reasons.get((mutant.module, mutant.diff)):
            results[number] = Result(mutant, "equivalent", reason)
        elif not tests[number]:
            results[number] = Result(mutant, "not covered", "no test runs this line")
        else:
            waiting.put(number)
    for result in results.values():
        _say(str(result))
    spaces = [Workspace(REPOSITORY, number) for number in range(workers)]
    stopping, broken = threading.Event(), list[Exception]()

    def work(space: Workspace) -> None:
        while not stopping.is_set() and time.monotonic() < deadline:
            try:
                number = waiting.get_nowait()
            except queue.Empty:
                return
            try:
                results[number] = _try_one(space, mutants[number], covered, tests[number], limit_seconds)
            except Exception as error:
                broken.append(error)
                return
            if not stopping.is_set():
                _say(f"[{len(results):>3}/{len(mutants)}] {results[number]}")

    try:
        threads = [threading.Thread(target=work, args=(space,), daemon=True) for space in spaces]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(0.5)  # so that an interruption is heard
        if broken:
            raise broken[0]
        end = len(mutants) if waiting.empty() else waiting.get_nowait()  # of those behind it some need no tests
        return _controlled([results[number] for number in range(end)], spaces[0], covered)
    finally:
        stopping.set()
        for space in spaces:
            space.close()


def _try_one(
    space: Workspace, mutant: Mutant, covered: CoverageMap, tests: Sequence[str], limit_seconds: float
) -> Result:
    asked = covered.within(tests, limit_seconds)
    recorded = sum(covered.seconds[nodeid] for nodeid in asked)
    run = space.run(mutant, asked, _START_SECONDS + _SLOWER * recorded)
    if run.outcome == "failed":
        return Result(mutant, "killed", run.failed, run.seconds)
    if run.outcome == "timed out":
        return Result(mutant, "timed out", f"{len(asked)} tests, {recorded:.1f} s as recorded", run.seconds)
    of_all = "" if len(asked) == len(tests) else f" of {len(tests)} (those that fit in the limit)"
    return Result(mutant, "survived", f"{len(asked)} tests{of_all}", run.seconds)


def _controlled(results: Sequence[Result], space: Workspace, covered: CoverageMap) -> list[Result]:
    """Run the tests that noticed something against the package as it is: what fails there, too, noticed nothing."""
    asked = list(dict.fromkeys(result.detail for result in results if result.detail in covered.seconds))
    unreliable: set[str] = set()
    while remaining := [nodeid for nodeid in asked if nodeid not in unreliable]:
        run = space.run(None, remaining, _START_SECONDS + _SLOWER * sum(covered.seconds[one] for one in remaining))
        if run.outcome == "passed" or run.failed not in remaining:
            break
        unreliable.add(run.failed)
        _say(f"fails without a mutant, too: {run.failed}")
    return [
        Result(result.mutant, "survived", f"{result.detail} fails without it, too", result.seconds)
        if result.outcome == "killed" and result.detail in unreliable
        else result
        for result in results
    ]


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
