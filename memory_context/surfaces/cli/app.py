"""The commands of `memory-context`, and their errors and exit codes.

Exit codes: 0 done, 1 runtime failure, 2 usage error, 130 Ctrl-C.
"""

import io
import os
import sys
from functools import partial
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer import Option
from typer.core import TyperGroup
from typer.main import get_command

from .console import USAGE_ERROR, Failure, say_error

__all__ = ["EXAMPLES", "execute", "main", "make_app"]

_STOPPED = 130
_GROUPS = {
    "Look": {
        "list": "items:list_items",
        "show": "show:show",
        "search": "items:search",
        "sessions": "sessions:sessions",
        "stats": "stats:stats",
        "open": "serve:open_inspector",
    },
    "Change": {
        "store": "items:store_file",
        "forget": "items:forget",
        "memory": "memory:memory_app",
        "notes": "memory:notes",
        "secrets": "memory:secrets",
    },
    "Move": {"export": "transfer:export", "import": "transfer:import_"},
    "Look after": {
        "status": "status:status",
        "doctor": "status:doctor",
        "stop": "maintenance:stop",
        "migrate": "maintenance:migrate",
        "prune": "maintenance:prune",
        "consolidate": "maintenance:consolidate",
        "reindex": "maintenance:reindex",
    },
    "Serve": {"serve": "serve:serve", "mcp": "serve:mcp"},
}
"""Modules and functions of the commands."""

EXAMPLES = {
    "": ("list --since 1d", "show read_file_3tbfgi | less", "search 'disk full'", "stats"),
    "list": ("list --source run_shell --since 7d", "list --json | jq -r '.[].key'"),
    "show": (
        "show read_file_3tb --grep 'def .*retry'",
        "show read_file_3tb --lines 120:180",
        "show shot_k3f9x2 > it.png",
    ),
    "search": ("search 'connection refused' --type command_output",),
    "sessions": ("sessions", "sessions s1 --transcript --from 21", "sessions s1 --explain", "sessions s1 --delete"),
    "stats": ("stats", "stats s1", "stats s1 --json | jq .saved_tokens"),
    "open": ("open", "open s1 --no-browser"),
    "store": ("store notes.md --tag billing", "make test 2>&1 | memory-context store --source make"),
    "forget": ("forget read_file_3tbfgi", "forget --session s1 --yes"),
    "memory": (
        "memory list --as-of 2026-03-14",
        "memory add 'The user lives in Porto.' --replaces user_fact_k3f9x2ab",
        "memory confirm user_fact_k3f9x2ab",
    ),
    "notes": ("notes --agent coder > notes.md", "notes --agent coder --set notes.md", "notes --undo"),
    "secrets": ("secrets", "pass show api | memory-context secrets --set API_TOKEN"),
    "export": ("export alice.jsonl.gz --user alice", "export --session s1 > s1.jsonl"),
    "import": ("import alice.jsonl.gz --user bob",),
    "status": ("status --json | jq .items",),
    "doctor": ("doctor --url postgresql://db.example.org/memory",),
    "stop": ("stop",),
    "migrate": ("migrate --check && deploy",),
    "prune": ("prune --older-than 90d --dry-run",),
    "consolidate": ("consolidate --user alice", "consolidate --all --model gpt-4o-mini"),
    "reindex": ("reindex --embedder openai --model text-embedding-3-small",),
    "serve": ("serve --agent shop:build_agent --host 0.0.0.0 --token-env CHAT_TOKENS",),
    "mcp": ("mcp --user alice", "mcp --transport http --token-env MCP_TOKENS"),
}
"""Examples at the end of each help, by command; "" for the whole."""


class GroupedCommands(TyperGroup):
    """Lists the commands in groups."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(80)) for name in names])


def _examples(command: str = "") -> str | None:
    lines = (line if "memory-context" in line else f"memory-context {line}" for line in EXAMPLES.get(command, ()))
    text = "".join(f"\n  {line}" for line in lines)
    return f"\b\nExamples:{text}" if text else None  # \b keeps the lines apart


def make_app(*names: str) -> typer.Typer:
    """Return the application with these commands, or with all. To run a command only its own module is imported."""
    app = typer.Typer(
        name="memory-context",
        cls=GroupedCommands,
        help="A context and memory layer for AutoGen agents: what is stored, what it saves, and how to serve it.",
        epilog=_examples(),
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for name, place in [one for commands in _GROUPS.values() for one in commands.items()]:
        if not names or name in names:
            module, _, function = place.partition(":")
            command = getattr(import_module(f".{module}", __package__), function)
            if isinstance(command, typer.Typer):
                app.add_typer(command, name=name)
            else:
                app.command(name, epilog=_examples(name))(command)
    return app


_is_debugging = False


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        typer.echo(f"memory-context {version('memory-context')}")
        raise typer.Exit


def _options(
    debug: Annotated[bool, Option("--debug", help="Show the whole traceback of an error.")] = False,
    _version: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    global _is_debugging
    _is_debugging = debug


def main() -> None:
    """Run the command and end the process with its exit code."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started the process
            setattr(sys, name, open(os.devnull, "r" if name == "stdin" else "w"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for characters that its encoding lacks
    exit_code = execute()
    try:
        if not sys.stdout.closed:  # as the MCP server leaves it
            sys.stdout.flush()
    except BrokenPipeError:
        _leave_closed_pipe()
    sys.exit(exit_code)


def execute(arguments: list[str] | None = None) -> int:
    """Run one command line, by default this process's own, and return its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    named = words[1:2] if words[:1] == ["--debug"] else words[:1]
    is_known = any(name in commands for name in named for commands in _GROUPS.values())
    try:
        app = make_app(*named) if is_known else make_app()
        exit_code: int = _lean(get_command(app)).main(words, "memory-context", standalone_mode=False) or 0
    except typer.Exit as ended:
        exit_code = ended.exit_code
    except (KeyboardInterrupt, typer.Abort):
        exit_code = _STOPPED
    except SystemExit as ended:  # typer and rich say 1 where a pipe closes: `memory-context list | head -1`
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        _leave_closed_pipe()
        exit_code = 0
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a group without a command: its help
            typer.echo(str(error))
            return USAGE_ERROR
        if _is_debugging:
            raise
        failure = Failure.of(error)
        say_error(failure.text)
        return failure.exit_code
    if exit_code == _STOPPED:  # Ctrl-C, on which typer prints nothing
        say_error("stopped; what was done until now stays")
    return exit_code


def _lean(command: Any) -> Any:
    """Spare values that are right as they are typer's conversion: it imports pydantic, a third of a listing's time."""
    get_params = command.get_params

    def lean_params(ctx: Any) -> Any:
        params = get_params(ctx)
        for param in params:
            param.process_value = partial(_process_value, param)
        return params

    command.get_params = lean_params
    for part in getattr(command, "commands", {}).values():
        _lean(part)
    return command


def _process_value(param: Any, ctx: Any, value: Any) -> object:
    is_text = isinstance(value, str) and param.type_descriptor.annotation is str
    is_left_out = not param.required and (value is None or value is param.default)
    if not is_text and not is_left_out:
        return cast(Any, type(param)).process_value(param, ctx, value)
    return value if param.callback is None else param.callback(ctx, param, value)


def _leave_closed_pipe() -> None:
    """Send the rest to nowhere: the interpreter flushes stdout once more, and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
