"""Samples without an optional library: one line that names the extra, and an exit code that is not 0."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import PATIENT_SECONDS

ROOT = Path(__file__).parents[2]


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
    (tmp_path / f"{missing}.py").write_text(f"raise ModuleNotFoundError('none', name={missing!r})\n")
    run = subprocess.run(
        [sys.executable, str(ROOT / "samples" / f"{sample}.py")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=PATIENT_SECONDS,
        check=False,
    )
    assert (run.returncode, run.stdout) == (1, "")
    assert run.stderr.count("\n") == 1
    assert missing in run.stderr
    assert f"pip install 'memory-context[{extras}]'" in run.stderr
