"""Whatever is missing, in the way or interrupted: one line on stderr, an exit code, nothing on stdout, no secret."""

import asyncio
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import typer

from memory_context.store.pool import Connection, ConnectionPool
from tests.support.exports import item, many, written
from tests.support.rows import make_newer
from tests.support.waiting import PATIENT_SECONDS, soon

from ..conftest import REPOSITORY, Server, StartPython
from .conftest import Run, contents
from .lived import Lived, a_database

pytestmark = pytest.mark.thorough

SECRET = "s3cret-word"
LOOKING = [["status"], ["migrate", "--check"]]
"""What answers whatever the schema is."""
READING = [
    ["list", "--user", "alice"],
    ["show", "k", "--user", "alice"],
    ["search", "owls", "--user", "alice"],
    ["sessions", "--user", "alice"],
    ["sessions", "owls", "--user", "alice"],
    ["stats", "--user", "alice"],
    ["sessions", "owls", "--explain", "--user", "alice"],
    ["sessions", "owls", "--transcript", "--user", "alice"],
    ["memory", "list", "--user", "alice"],
    ["export", "--user", "alice"],
]
CHANGING = [
    ["migrate"],
    ["prune", "--older-than", "90d", "--yes"],
    ["reindex"],
    ["import", "FILE"],
    ["store", "FILE", "--user", "alice"],
    ["forget", "k", "--user", "alice", "--yes"],
    ["sessions", "owls", "--delete", "--user", "alice", "--yes"],
]
COMMANDS = [*LOOKING, *READING, *CHANGING]
"""A new command joins with a line here; FILE stands for an export."""


def named(command: list[str]) -> str:
    return " ".join(command[:2])


every_command = pytest.mark.parametrize("command", COMMANDS, ids=named)


@pytest.fixture
def run_it(run: Run, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Runs a command of the list."""

    def run_it(command: list[str], *others: str) -> tuple[int, str, str]:
        file = tmp_path / "export"
        file.write_bytes(written([item("k", "text")]))
        return run(*(str(file) if one == "FILE" else one for one in command), *others)

    return run_it


def is_one_line(out: str, err: str) -> bool:
    return out == "" and err.count("\n") == 1 and err.startswith("memory-context: ") and SECRET not in err


# --- no database, or one that cannot be used


@every_command
def test_database_that_is_away_is_reported_in_one_line(run_it: Run, command: list[str]):
    """Nobody listens on port 1. The address is told without its password."""
    ended, out, err = run_it(command, "--url", f"postgresql://somebody:{SECRET}@127.0.0.1:1/none")
    assert ended == 1
    assert is_one_line(out, err), err
    assert "does not answer" in err
    assert "127.0.0.1:1/none" in err


@every_command
def test_unusable_folder_is_reported_in_one_line(
    run_it: Run, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As with a folder that may not be written: the variable that names another is told."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("MEMORY_CONTEXT_HOME", str(tmp_path / "file" / "home"))
    monkeypatch.delenv("MEMORY_CONTEXT_URL", raising=False)
    ended, out, err = run_it(command)
    assert ended == 1
    assert is_one_line(out, err), err
    assert "MEMORY_CONTEXT_HOME" in err


@pytest.mark.parametrize("command", [*READING, *CHANGING], ids=named)
def test_schema_of_a_newer_version_is_refused_in_one_line(run_it: Run, newer: str, command: list[str]):
    ended, out, err = run_it(command, "--url", newer)
    assert ended == 1
    assert is_one_line(out, err), err
    assert "the schema is at version 99" in err
    assert "pip install -U memory-context" in err


@pytest.fixture(scope="module")
def newer(server: Server, template: str) -> Iterator[str]:
    """The address of a database that a later version has migrated."""
    with a_database(server, template, "cli_newer") as url:
        make_newer(server, url)
        yield url


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://somebody:{SECRET}/x@host/db",
        f"postgresql://somebody:p@{SECRET}@host/db",
        f"postgresql://somebody:{SECRET}@host:port/db",
        f"host=somewhere password={SECRET} nonsense",
    ],
)
def test_an_address_that_cannot_be_read_is_not_shown(run: Run, url: str):
    ended, out, err = run("status", "--url", url)
    assert ended == 2
    assert is_one_line(out, err), err


def test_login_without_rights_is_refused_in_one_line(run: Run, server: Server, full: Lived):
    """It may log in, and nothing else."""
    server.execute(f"CREATE ROLE nobody_cli LOGIN PASSWORD '{SECRET}'")
    url = f"{full.url} user=nobody_cli password={SECRET}"
    for command in (["status"], ["export", "--user", "alice"]):
        ended, out, err = run(*command, "--url", url)
        assert ended == 1
        assert is_one_line(out, err), err


# --- a reader that has gone


@pytest.mark.parametrize("command", [["list"], ["list", "--json"], ["search", "owls"], ["sessions", "owls"]], ids=named)
def test_pipe_that_closes_early_ends_a_command_quietly(full: Lived, command: list[str]):
    """As with `memory-context list | head -1`: no traceback, no line, exit code 0."""
    reading, writing = os.pipe()
    os.close(reading)
    main = "from memory_context.surfaces.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", main, *command, "--url", full.url, "--user", "alice"],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=PATIENT_SECONDS,
        cwd=REPOSITORY,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_defect(full: Lived, closed: str):
    """As cron jobs and service managers may start a program."""
    main = "from memory_context.surfaces.cli import main; main()"
    command = f'"$0" -c "{main}" list --url "$1" --user alice {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, full.url],
        capture_output=True,
        timeout=PATIENT_SECONDS,
        cwd=REPOSITORY,
    )
    assert (done.returncode, done.stderr) == (0, b"")


# --- interrupted, and a disk that is full


@every_command
def test_ctrl_c_ends_a_command_with_130_and_one_line(
    run_it: Run, command: list[str], full: Lived, monkeypatch: pytest.MonkeyPatch
):
    """Wherever it comes: 130, and one line."""

    before = contents(full.url)

    async def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Connection, "wait", interrupted)
    ended, out, err = run_it(command, "--url", full.url)
    assert (ended, out) == (130, "")
    assert err == "memory-context: stopped; what was done until now stays\n"
    assert contents(full.url) == before


def test_ctrl_c_at_a_question_is_an_answer(run: Run, full: Lived, monkeypatch: pytest.MonkeyPatch):
    """The first one, not the second; nothing is destroyed."""
    before = contents(full.url)
    answered: list[str] = []

    def interrupted(question: str) -> str:
        signal.raise_signal(signal.SIGINT)
        answered.append(question)
        return "y"

    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        monkeypatch.setattr(sys, "stdin", Terminal())
        monkeypatch.setattr(sys.modules[typer.confirm.__module__], "visible_prompt_func", interrupted)
        ended, out, err = run("forget", "--all", "--user", "alice", "--url", full.url)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, handler)
    assert (ended, out, answered) == (130, "", [])
    assert err.endswith("\nmemory-context: stopped; what was done until now stays\n")
    assert contents(full.url) == before


class Terminal(io.StringIO):
    """A stdin where somebody sits."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("option", ["--url", "--user"])
def test_empty_url_or_user_is_refused(run: Run, full: Lived, option: str):
    """A variable of a script that is not set must not choose another database, or another user."""
    others = ["--url", full.url] if option == "--user" else []
    for command in (["forget", "--all", "--yes"], ["import", "/dev/null"]):
        ended, out, err = run(*command, option, "", *others)
        assert (ended, out) == (2, "")
        assert err.startswith(f"memory-context: Invalid value for '{option}'")
        assert err.endswith(f": it is empty; see memory-context {command[0]} --help\n")


async def test_ctrl_c_in_the_middle_of_an_export(start_python: StartPython, database_url: str, tmp_path: Path):
    """A real signal, while the reader waits for the rest: the rest does not come, and no end that looks like one."""
    many(database_url, "alice", 2000)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    arguments = ["export", str(pipe), "--user", "alice", "--url", database_url]
    process = await start_python(
        f"from memory_context.surfaces.cli import execute; raise SystemExit(execute({arguments!r}))"
    )
    with await asyncio.to_thread(pipe.open, "rb", 0) as reader:
        data = await asyncio.to_thread(reader.read, 1000)
        process.send_signal(signal.SIGINT)
        data += await asyncio.to_thread(lambda: b"".join(iter(lambda: reader.read(65536), b"")))
    out, err = await soon(process.communicate())
    assert (process.returncode, out) == (130, b"")
    assert err == b"memory-context: stopped; what was done until now stays\n"
    assert data.startswith(b'{"format":"memory-context"')
    assert b'{"record":"end"' not in data


def test_full_disk_under_an_export_is_reported(run: Run, full: Lived):
    ended, out, err = run("export", "/dev/full", "--user", "alice", "--url", full.url)
    assert (ended, err) == (1, "memory-context: /dev/full cannot be written: No space left on device\n")
    assert out == ""


@pytest.mark.parametrize("command", CHANGING[1:], ids=named)
def test_full_disk_under_the_database_is_reported_and_nothing_written(
    run_it: Run, command: list[str], full: Lived, monkeypatch: pytest.MonkeyPatch
):
    """What the server says is passed on; nothing is written."""
    before = contents(full.url)

    async def disk_full(*_: Any, **__: Any) -> None:
        raise psycopg.errors.DiskFull("could not extend file: No space left on device")

    monkeypatch.setattr(ConnectionPool, "run", disk_full)
    ended, out, err = run_it(command, "--url", full.url)
    assert ended == 1
    assert is_one_line(out, err), err
    assert "No space left on device" in err
    monkeypatch.undo()
    assert contents(full.url) == before


# --- what only looks, changes nothing


@pytest.mark.parametrize("command", [*LOOKING, *READING], ids=named)
def test_reading_commands_write_nothing(run_it: Run, command: list[str], full: Lived):
    before = contents(full.url)
    run_it(command, "--url", full.url)
    assert contents(full.url) == before
