"""The commands of `memory-context`, and their errors and exit codes.

Exit codes: 0 done, 1 runtime failure, 2 usage error, 130 Ctrl-C.
"""

import io
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from .console import USAGE_ERROR, Failure, say_error
from .explain import explain
from .items import forget, list_items, search, store_file
from .maintenance import consolidate, migrate, prune, reindex, stop
from .memory import memory_app, notes_app, secrets_app
from .serve import mcp, serve
from .sessions import sessions_app
from .show import show
from .stats import stats, users
from .status import doctor, status
from .transfer import export, import_

__all__ = ["EXAMPLES", "app", "execute", "main"]

_STOPPED = 130
_GROUPS: dict[str, dict[str, Any]] = {
    "Look": {
        "list": list_items,
        "show": show,
        "search": search,
        "sessions": sessions_app,
        "stats": stats,
        "explain": explain,
        "users": users,
    },
    "Change": {
        "store": store_file,
        "forget": forget,
        "memory": memory_app,
        "notes": notes_app,
        "secrets": secrets_app,
    },
    "Move": {"export": export, "import": import_},
    "Look after": {
        "status": status,
        "doctor": doctor,
        "stop": stop,
        "migrate": migrate,
        "prune": prune,
        "consolidate": consolidate,
        "reindex": reindex,
    },
    "Serve": {"serve": serve, "mcp": mcp},
}
EXAMPLES = {
    "": ("list --since 1d", "show read_file_3tbfgi | less", "search 'disk full'", "stats"),
    "list": ("list --source run_shell --since 7d", "list --json | jq -r '.[].key'"),
    "show": (
        "show read_file_3tb --grep 'def .*retry'",
        "show read_file_3tb --lines 120:180",
        "show read_file_3tbfgi > file.py",
        "show run_shell_k3f9x2 | grep -C 5 Traceback",
    ),
    "search": ("search 'connection refused' --type command_output", "search retries --session s1 --json"),
    "store": ("store notes.md --tag billing", "make test 2>&1 | memory-context store --source make"),
    "memory": (
        "memory list --all",
        "memory add 'The user lives in Porto.'",
        "memory confirm user_fact_k3f9x2ab",
        "memory forget user_fact_k3f9x2ab --yes",
    ),
    "forget": ("forget read_file_3tbfgi", "forget --session s1 --yes"),
    "stats": ("stats", "stats s1 --calls"),
    "explain": ("explain s1", "explain s1 --full --now"),
    "export": ("export alice.jsonl.gz --user alice", "export --session s1 > s1.jsonl"),
    "import": ("import alice.jsonl.gz --check", "import alice.jsonl.gz --user bob"),
    "secrets": ("secrets set API_TOKEN", "pass show api | memory-context secrets set API_TOKEN", "secrets list"),
    "prune": ("prune --older-than 90d --dry-run",),
    "consolidate": ("consolidate --user alice", "consolidate --all --model gpt-4o-mini"),
    "migrate": ("migrate --check && deploy",),
    "serve": (
        "serve --agent shop:build_agent",
        "serve --agent shop:build_agent --host 0.0.0.0 --token-env CHAT_TOKENS",
    ),
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
for _commands in _GROUPS.values():
    for _name, _command in _commands.items():
        if isinstance(_command, typer.Typer):
            app.add_typer(_command, name=_name)
        else:
            app.command(_name, epilog=_examples(_name))(_command)

_is_debugging = False


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        typer.echo(f"memory-context {version('memory-context')}")
        raise typer.Exit


@app.callback()
def _options(  # pyright: ignore[reportUnusedFunction]
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    global _is_debugging
    _is_debugging = debug


def main() -> None:
    """Run the command and end the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # for characters that its encoding lacks
    sys.exit(execute())


def execute(arguments: list[str] | None = None) -> int:
    """Run one command line, by default this process's own, and return its exit code."""
    try:
        exit_code: int = get_command(app).main(arguments, "memory-context", standalone_mode=False) or 0
    except typer.Exit as ended:
        exit_code = ended.exit_code
    except (KeyboardInterrupt, typer.Abort):
        exit_code = _STOPPED
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
