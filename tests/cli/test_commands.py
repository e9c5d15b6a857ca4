"""The command line as a whole: version, help, beginnings of names, storing, one JSON vocabulary, ports, extras."""

import io
import json
import re
import shlex
import socket
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from memory_context.foundation.extras import needs
from memory_context.surfaces.cli import make_app
from memory_context.surfaces.cli.app import EXAMPLES, GroupedCommands

from ..conftest import Server
from .conftest import Run
from .lived import SESSION, Command, Lived, a_database, live


@pytest.fixture(scope="module")
def lived(server: Server, template: str) -> Iterator[Lived]:
    """A filled database to which tests of this module add items."""
    with a_database(server, template, "cli_commands") as url:
        yield live(url)


# --- help


def test_version_is_that_of_the_package(run: Run):
    assert run("--version") == (
        0,
        f"memory-context {import_module('importlib.metadata').version('memory-context')}\n",
        "",
    )


def test_help_names_every_command_once_in_a_group_with_examples(run: Run):
    from typer.main import get_command

    ended, out, _ = run("-h")
    group = get_command(make_app())
    assert isinstance(group, GroupedCommands)
    assert ended == 0
    assert "Examples:" in out
    for name in group.commands:
        assert sum(line.startswith(f"  {name} ") for line in out.splitlines()) == 1, name
        assert run(name, "-h")[0] == 0
    assert "memory-context show read_file_3tb --grep 'def .*retry'" in run("show", "-h")[1]


def test_examples_name_options_that_exist():
    from typer.core import TyperGroup
    from typer.main import get_command

    group = get_command(make_app())
    assert isinstance(group, GroupedCommands)
    for lines in EXAMPLES.values():
        for line in lines:
            name, *words = shlex.split(re.split(r" [|&>] | && ", line)[-1 if "| memory-context" in line else 0])
            name, *words = words if name == "memory-context" else (name, *words)
            command = group.commands[name]
            if isinstance(command, TyperGroup):
                command = command.commands[words[0]]
            known = {option for one in command.params for option in one.opts}
            assert {word for word in words if word.startswith("-")} <= known, line


# --- beginnings of keys and ids


def test_a_unique_beginning_names_an_item(command: Command, lived: Lived):
    key = lived.hostile
    beginning = next(key[:length] for length in range(1, len(key) + 1) if is_unique(key[:length], lived, command))
    assert command("show", beginning, "--meta") == command("show", key, "--meta")


def is_unique(beginning: str, lived: Lived, command: Command) -> bool:
    keys = [one["key"] for one in json.loads(command("list", "--json")[1])]
    return sum(key.startswith(beginning) for key in keys) == 1


def test_an_ambiguous_beginning_is_a_usage_error_that_names_the_candidates(command: Command, lived: Lived):
    """Nothing is forgotten then, and an empty key is a beginning of everything."""
    assert len([key for key in lived.keys if key.startswith("survey_")]) > 1
    for line in (("show", "survey_"), ("forget", "survey_"), ("show", "")):
        ended, out, err = command(*line)
        assert (ended, out) == (2, "")
        assert "is the beginning of several items: " in err
    assert all(key in command("show", "survey_")[2] for key in sorted(lived.keys)[:3])


def test_a_unique_beginning_names_a_session(command: Command):
    """A sub-agent's session, whose id extends that of its own, does not make it ambiguous."""
    for line in (("sessions",), ("sessions", "--explain"), ("stats",)):
        told = [command(*line, session, "--json")[:2] for session in (SESSION[:2], SESSION)]
        assert told[0] == told[1]
        assert told[0][0] == 0


# --- store


@pytest.mark.parametrize("data", [b"two\r\nlines\x00", "Gr\u00fc\u00dfe \u2713".encode(), b"\xed\xa0\x80", b""])
def test_a_stored_file_is_shown_byte_for_byte(command: Command, tmp_path: Path, data: bytes):
    file = tmp_path / "notes.md"
    file.write_bytes(data)
    ended, out, err = command("store", str(file), "--tag", "red", "--json")
    assert (ended, err) == (0, "")
    stored = json.loads(out)
    shown = json.loads(command("show", stored["key"], "--json")[1])
    assert shown["content"].encode("utf-8", "surrogatepass") == data
    assert (shown["description"], shown["source"], shown["tags"]) == ("notes.md", "notes.md", ["red"])
    assert shown["origin"] == "application"


def test_a_piped_text_is_stored(command: Command, monkeypatch: pytest.MonkeyPatch):
    piped = io.TextIOWrapper(io.BytesIO(b"make: *** [all] Error 1"))
    monkeypatch.setattr(sys, "stdin", piped)
    ended, out, _ = command("store", "--source", "make", "--session", "builds")
    shown = json.loads(command("show", out.strip(), "--json")[1])
    assert (ended, shown["content"]) == (0, "make: *** [all] Error 1")
    assert (shown["session_id"], shown["source"]) == ("builds", "make")


def test_store_refuses_an_unusable_file_in_one_line(command: Command, tmp_path: Path):
    """Bytes that are no text, a missing file, a folder, and a secret."""
    (tmp_path / "photo").write_bytes(b"\xff\xd8\xff")
    (tmp_path / "key").write_text("hunter2")
    for line, said in (
        ([str(tmp_path / "photo")], "is not text in UTF-8 (at byte 0)"),
        ([str(tmp_path / "none")], "cannot be read: No such file"),
        ([str(tmp_path)], "cannot be read: Is a directory"),
        ([str(tmp_path / "key"), "--type", "user_secret"], "user_secret"),
    ):
        ended, out, err = command("store", *line)
        assert (ended != 0, out, err.count("\n")) == (True, "", 1), err
        assert said in err


# --- JSON


def test_list_search_and_show_describe_an_item_in_the_same_words(command: Command):
    found = json.loads(command("search", "moths finding 250", "--limit", "1", "--json")[1])[0]
    listed = next(one for one in json.loads(command("list", "--json")[1]) if one["key"] == found["key"])
    shown = json.loads(command("show", found["key"], "--meta", "--json")[1])
    assert shown == listed
    assert {name: found[name] for name in listed} == listed


# --- looking after


@pytest.mark.parametrize("line", [["serve", "--allow-anonymous"], ["mcp", "--transport", "http"]])
def test_port_in_use_is_reported_first(run: Run, line: list[str]):
    """Before the agent is looked for and the database is reached."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended, out, err = run(*line, "--port", port, "--url", "postgresql://127.0.0.1:1/none")
    assert (ended, out) == (1, "")
    assert err == f"memory-context: port {port} is in use on 127.0.0.1: choose another with --port\n"


# --- extras


@pytest.mark.parametrize(
    ("module", "missing", "extra"),
    [("web", "fastapi", "web"), ("mcp", "mcp", "mcp"), ("chainlit", "chainlit", "chainlit")],
)
def test_missing_extra_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch, module: str, missing: str, extra: str):
    """Whatever of it is imported first."""
    for name in [name for name in sys.modules if name.split(".")[:3] == ["memory_context", "surfaces", module]]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf"needs {missing}: pip install 'memory-context\[{extra}\]'"):
        import_module(f"memory_context.surfaces.{module}")


def test_a_missing_module_of_the_package_itself_is_no_missing_extra():
    with pytest.raises(ModuleNotFoundError, match=r"No module named .memory_context\.nowhere."), needs("web", "it"):
        import_module("memory_context.nowhere")
