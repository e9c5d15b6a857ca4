"""The table of commands and the help."""

import re
import subprocess
import sys

import pytest
from typer.main import get_command

from memory_context.surfaces.cli import make_app
from memory_context.surfaces.cli.app import EXAMPLES
from tests.support.waiting import PATIENT_SECONDS

from ..command_table import PAGE, command_table, with_table
from ..conftest import REPOSITORY

HEAVY = (
    "autogen_core",
    "psycopg",
    "rich",
    "numpy",
    "pydantic",
    "tiktoken",
    "matplotlib",
    "fastapi",
    "uvicorn",
    "redis",
    "mcp",
    "wordllama",
)


def test_page_of_commands_names_the_commands_there_are():
    """`make commands` brings it up to date."""
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page) == page


def test_every_command_has_a_row_and_a_sentence():
    """Groups by their parts; no cell breaks the table."""
    rows = [line for line in command_table().splitlines() if line.startswith("| `")][1:]
    names = [re.match(r"\| `([a-z]+(?: [a-z]+)?)", row)[1].strip() for row in rows]  # type: ignore[index]
    assert {"list", "show", "search", "forget", "stats", "sessions", "memory list", "serve"} <= set(names)
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"\| `[^|]+` \| [A-Z][^|]+\. \| [^|]* \|", row) for row in rows)


def test_no_command_is_cut_in_the_list_of_commands():
    """At 80 columns there is room for 60 characters; typer would end a longer sentence in dots."""
    commands = get_command(make_app()).commands  # type: ignore[attr-defined]
    said = {name: command.help.split("\n\n")[0].replace("\n", " ") for name, command in commands.items()}
    assert {name: text for name, text in said.items() if len(text) > 60} == {}


def test_there_are_at_most_24_commands():
    """The inspector, `open`, comes on top."""
    lines = command_table().splitlines()[1:]
    assert sum(line.startswith("| `") and not line.startswith("| `open ") for line in lines) <= 24


def test_every_command_has_an_example():
    assert {name for name, lines in EXAMPLES.items() if lines} == {"", *get_command(make_app()).commands}  # type: ignore[attr-defined]


@pytest.mark.thorough
def test_commands_that_read_import_no_agent_framework(database_url: str):
    """Neither AutoGen nor what it brings; the modules are counted, not the seconds."""
    whose = ["--user", "alice", "--url", database_url]
    looks = ["list"], ["search", "owls"], ["stats"], ["memory", "list"], ["sessions"], ["notes", "--agent", "a"]
    lines = [*([*look, *whose] for look in looks), ["status", "--url", database_url]]
    script = (
        "import sys; from memory_context.surfaces.cli import execute\n"
        f"assert [execute(line) for line in {lines!r}] == [0] * {len(lines)}\n"
        "heavy = {'autogen_core', 'autogen_agentchat', 'autogen_ext', 'markdown_it'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENT_SECONDS, cwd=REPOSITORY
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "heavy: []"


@pytest.mark.thorough
def test_listing_commands_import_little(database_url: str):
    """No pydantic model, no embedder, no search, no table of rich in a pipe, and no other command."""
    whose = ["--user", "alice", "--url", database_url]
    heavy = ["pydantic", "numpy", "tokenizers", "Stemmer", "re2", "rich.table"]
    others = [
        *("memory_context.store.search.passages", "memory_context.store.admin.status"),
        "memory_context.surfaces.cli.maintenance",
    ]
    script = (
        "import sys; from memory_context.surfaces.cli import execute\n"
        f"assert [execute([name, *{whose!r}]) for name in ('list', 'stats', 'sessions')] == [0, 0, 0]\n"
        f"print('heavy:', sorted({{*{heavy!r}, *{others!r}}} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENT_SECONDS, cwd=REPOSITORY
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "heavy: []"


@pytest.mark.parametrize("line", [["--help"], ["serve", "--help"], ["mcp", "--help"]])
def test_help_imports_nothing_that_takes_time(line: list[str]):
    """Neither an agent framework nor a driver nor a server nor what draws tables."""
    script = (
        f"import sys; from memory_context.surfaces.cli import execute; assert execute({line!r}) == 0; "
        f"print('heavy:', sorted({set(HEAVY)!r} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENT_SECONDS, cwd=REPOSITORY
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "heavy: []"
