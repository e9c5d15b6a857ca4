"""The quickstart, as somebody runs it who has just installed the package."""

import re
import subprocess
import sys
from pathlib import Path

from tests.support.waiting import PATIENT_SECONDS

ROOT = Path(__file__).parents[2]


def test_quickstart_shows_a_result_its_placeholder_and_the_content_again(new_home: Path, tmp_path: Path) -> None:
    """It does so in a new folder, where Postgres has to be set up first, and without a word on standard error."""
    command = [sys.executable, "-W", "error", str(ROOT / "samples" / "01_quickstart.py")]

    def started() -> str:
        run = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENT_SECONDS, check=False
        )
        assert (run.returncode, run.stderr) == (0, "")
        return run.stdout

    output = started()
    fresh, answered, back = re.split(r"\n\n[23]\. ", output)
    assert fresh.count("GET /api/orders") == 20
    assert "[MemoryRef: read_log_" in answered
    assert answered.count("GET /api/orders") < 5
    assert "14: 12:13" in back
    assert output.endswith("byte for byte: True.\n")
    again = [re.sub(r"read_log_\w+", "KEY", one) for one in (output, started())]
    assert again[0] == again[1], "the second run finds the user's memory of the first"
