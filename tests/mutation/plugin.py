"""A pytest plugin for the runs: it records which lines each test runs, or runs chosen tests only, in a given order.

`python -m pytest *ARGUMENTS` with these variables beside `ENVIRONMENT`:
MUTATION_RECORD: file to write lines and durations by test to; MUTATION_MODULES: file with the modules that count.
MUTATION_CHOOSE: file with the ids of the tests to run; MUTATION_RESULT: file to write the id of a failed test to.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
ARGUMENTS = ("-q", "-p", "no:cacheprovider", "-p", "asyncio", "-p", "hypothesispytest", "-p", "tests.mutation.plugin")
ENVIRONMENT = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # the plugins that no test here needs take 2 s of each start
_record, _choose = os.environ.get("MUTATION_RECORD"), os.environ.get("MUTATION_CHOOSE")
_tests: dict[str, dict[str, Any]] = {}

if _record:
    from coverage import Coverage

    _modules: list[str] = json.loads(Path(os.environ["MUTATION_MODULES"]).read_text())
    _coverage = Coverage(
        data_file=None, config_file=False, include=[str(REPOSITORY / module) for module in _modules], messages=False
    )
    _coverage.start()  # before the package is imported


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note what runs from here on as this test's, its fixtures included."""
    started = time.perf_counter()
    if _record:
        _coverage.switch_context(item.nodeid)
        _tests.setdefault(item.nodeid, {})["starts_python"] = "start_python" in getattr(item, "fixturenames", ())
    try:
        return (yield)
    finally:
        if _record:
            _coverage.switch_context("")
            _tests.setdefault(item.nodeid, {})["seconds"] = round(time.perf_counter() - started, 3)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Keep how each test ended, and say at once which failed."""
    if report.when == "call" or report.outcome != "passed":
        _tests.setdefault(report.nodeid, {}).setdefault("outcome", report.outcome)
    if report.failed:
        _tests[report.nodeid]["outcome"] = "failed"
        if result := os.environ.get("MUTATION_RESULT"):
            with Path(result).open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the chosen tests, in the order they were chosen in."""
    if _choose:
        order = {nodeid: number for number, nodeid in enumerate(json.loads(Path(_choose).read_text(encoding="utf-8")))}
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])


def pytest_sessionfinish() -> None:
    """Write what was recorded: by test file, its tests and the lines that they run."""
    if not _record:
        return
    _coverage.stop()
    data = _coverage.get_data()
    lines: dict[str, dict[str, dict[int, list[str]]]] = {}
    for path in data.measured_files():
        module = str(Path(path).relative_to(REPOSITORY))
        for line, nodeids in data.contexts_by_lineno(path).items():
            for nodeid in nodeids:
                by_module = lines.setdefault(nodeid.partition("::")[0], {})
                by_module.setdefault(module, {}).setdefault(line, []).append(nodeid)
    Path(_record).write_text(json.dumps({"tests": _tests, "lines": lines}), encoding="utf-8")
