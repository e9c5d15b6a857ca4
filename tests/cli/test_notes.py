"""`memory-context notes`: an agent's notes are shown, edited, undone and erased by the user."""

import asyncio
import json
from pathlib import Path

import pytest

from memory_context import AgentMemory, MemoryStore

from .conftest import Run


def note(url: str, agent: str, text: str) -> None:
    """Let an agent append to its notes about alice."""

    async def append() -> None:
        async with MemoryStore(url) as store:
            await AgentMemory(store, "alice", agent).notes.append(text)

    asyncio.run(append())


@pytest.mark.thorough
def test_notes_are_shown_edited_and_undone(run: Run, database_url: str, tmp_path: Path) -> None:
    url = ("--url", database_url, "--user", "alice")
    assert run("notes", *url)[0::2] == (2, "memory-context: no agent has notes; give --agent NAME\n")
    note(database_url, "coder", "# Work\nOrders is at db1.\n# Home\nParis")
    assert run("notes", *url) == (0, "# Work\nOrders is at db1.\n# Home\nParis\n", "")
    (tmp_path / "notes.md").write_text("# New\n")
    assert run("notes", "--set", str(tmp_path / "notes.md"), "--version", "0", *url)[0] == 1
    assert run("notes", "--set", str(tmp_path / "notes.md"), *url) == (0, "", "version 2, 5 characters\n")
    (tmp_path / "notes.md").write_text("# Newer\n")
    assert run("notes", "--set", str(tmp_path / "notes.md"), "--version", "2", *url)[0] == 0
    assert run("notes", "--undo", *url) == (0, "", "version 4, 5 characters\n")
    assert run("notes", "--undo", "--version", "1", *url) == (0, "", "version 5, 37 characters\n")
    assert run("notes", "--version", "2", *url)[1] == "# New\n"
    assert "version 99 is not kept" in run("notes", "--version", "99", *url)[2]
    history = json.loads(run("notes", "--history", "--json", *url)[1])
    assert [one["operation"] for one in history] == [*("undo", "undo", "overwrite", "overwrite", "append", "")]
    assert run("notes", "--history", *url)[1].count("\n") == 8


def test_notes_of_several_agents_are_told_apart(run: Run, database_url: str) -> None:
    """Erased notes leave nothing to undo."""
    url = ("--url", database_url, "--user", "alice")
    for agent in ("coder", "critic"):
        note(database_url, agent, f"of {agent}")
    assert "several agents have notes: 'critic', 'coder'; give --agent NAME" in run("notes", *url)[2]
    assert run("notes", "--agent", "critic", *url)[1] == "of critic\n"
    assert run("notes", "--erase", "--agent", "critic", "--yes", *url) == (0, "", "erased\n")
    assert run("notes", "--agent", "critic", *url) == (0, "", "the notes are empty\n")
    assert run("notes", "--undo", "--agent", "critic", *url)[0] == 1


def test_notes_refuses_options_that_contradict_each_other(run: Run, database_url: str) -> None:
    ended, _, err = run("notes", "--undo", "--erase", "--yes", "--url", database_url, "--user", "alice")
    assert (ended, "give one of --history" in err) == (2, True)
