"""Samples in a process of their own, as somebody runs them who has just installed the package."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENT_SECONDS

ROOT = Path(__file__).parents[2]


def run_sample(name: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a numbered sample, from a folder that is not the checkout; warnings are errors."""
    command = [sys.executable, "-W", "error", str(ROOT / "samples" / f"{name}.py")]
    env = {**os.environ, **environment}
    return subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=PATIENT_SECONDS, check=False
    )


def test_quickstart_shows_a_result_its_placeholder_and_the_content_again(new_home: Path, tmp_path: Path) -> None:
    """It does so in a new folder, where Postgres has to be set up first, and without a word on standard error."""
    first, second = (run_sample("01_quickstart", tmp_path) for _ in range(2))
    for run in (first, second):
        assert (run.returncode, run.stderr) == (0, "")
    fresh, answered, back = re.split(r"\n\n[23]\. ", first.stdout)
    assert fresh.count("GET /api/orders") == 20
    assert "[MemoryRef: read_log_" in answered
    assert answered.count("GET /api/orders") < 5
    assert "14: 12:13" in back
    assert first.stdout.endswith("byte for byte: True.\n")
    again = [re.sub(r"read_log_\w+", "KEY", run.stdout) for run in (first, second)]
    assert again[0] == again[1], "the second run finds the user's memory of the first"


def test_what_one_agent_stores_over_mcp_another_finds(home: Path, tmp_path: Path) -> None:
    """Each with a server of its own, on the embedded store; a failed call comes back as a sentence."""
    run = run_sample("06_mcp", tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    scribe, operator = run.stdout.split("\noperator, ")
    assert "can use: store_memory, retrieve_memory, search_memory, query_memory, read_history" in scribe
    assert "Stored. [MemoryRef: store_memory_" in scribe
    assert "2. Run the migration with the owner's login, never with the application's." in operator
    assert "Rolling back is `deploy --to previous`" in operator
    assert "is told:\n    no item 'runbook' in this memory." in operator


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("sample", "missing", "extras"),
    [
        ("02_code_agent", "autogen_ext", "samples"),
        ("05_fastapi_chat", "fastapi", "web,samples"),
        ("06_mcp", "mcp", "mcp,samples"),
        ("11_browser_agent", "playwright", "browser,samples"),
    ],
)
def test_sample_names_the_extra_that_is_missing(
    home: Path, tmp_path: Path, sample: str, missing: str, extras: str
) -> None:
    """In one line, with an exit code that is not 0."""
    (tmp_path / f"{missing}.py").write_text(f"raise ModuleNotFoundError('none', name={missing!r})\n")
    run = run_sample(sample, tmp_path, PYTHONPATH=os.pathsep.join([str(tmp_path), str(ROOT)]))
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.count("\n") == 1
    assert missing in run.stderr
    assert f"pip install 'memory-context[{extras}]'" in run.stderr
