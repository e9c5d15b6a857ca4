"""The sample of the MCP server, as somebody runs it who has just installed the package."""

import subprocess
import sys
from pathlib import Path

from tests.support.waiting import PATIENT_SECONDS

ROOT = Path(__file__).parents[2]


def test_what_one_agent_stores_over_mcp_another_finds(home: Path, tmp_path: Path) -> None:
    """Each with a server of its own, on the embedded store; a failed call comes back as a sentence."""
    command = [sys.executable, "-W", "error", str(ROOT / "samples" / "06_mcp.py")]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENT_SECONDS, check=False)
    assert (run.returncode, run.stderr) == (0, "")
    scribe, operator = run.stdout.split("\noperator, ")
    assert "can use: store_memory, retrieve_memory, search_memory, query_memory, read_history" in scribe
    assert "Stored. [MemoryRef: store_memory_" in scribe
    assert "2. Run the migration with the owner's login, never with the application's." in operator
    assert "Rolling back is `deploy --to previous`" in operator
    assert "is told:\n    no item 'runbook' in this memory." in operator
