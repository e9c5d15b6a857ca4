"""The commands, put together, and how each ends: one line for an error, and an exit code.

Exit codes: 0 done, 1 failed, 2 asked wrongly, 130 stopped by Ctrl-C.
"""

import io
import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from .console import ASKED_WRONGLY, Failure, say_error
from .demo import demo
from .doctor import doctor
from .explain import explain
from .items import forget, list_items, store_file
from .maintenance import prune, reindex, status, stop
from .migrate import migrate
from .search import search
from .serve import mcp, serve
from .sessions import sessions_app
from .show import show
from .stats import stats
from .transfer import export, import_
from .users import users

__all__ = ["app", "execute", "main"]

_GROUPS = {
    "Look": ("list", "show", "search", "sessions", "stats", "explain", "users"),
    "Change": ("store", "forget"),
    "Move": ("export", "import"),
    "Look after": ("status", "doctor", "stop", "migrate", "prune", "reindex"),
    "Serve and try": ("serve", "mcp", "demo"),
}
EXAMPLES = {
    "": ("demo", "list --since 1d", "show read_file_3tbfgi | less", "search 'disk full'"),
    "list": ("list --source run_shell --since 7d", "list --json | jq -r '.[].key'"),
    "show": ("show read_file_3tb --pattern 'def .*retry'", "show read_file_3tbfgi > file.py"),
    "search": ("search 'connection refused' --type command_output", "search retries --session s1 --json"),
    "store": ("store notes.md --tag billing", "make test 2>&1 | memory-context store --source make"),
    "forget": ("forget read_file_3tbfgi", "forget --session s1 --yes"),
    "stats": ("stats", "stats s1 --calls --chart bill.svg"),
    "explain": ("explain s1", "explain s1 --full --now"),
    "export": ("export alice.jsonl.gz --user alice", "export --session s1 > s1.jsonl"),
    "import": ("import alice.jsonl.gz --check", "import alice.jsonl.gz --user bob"),
    "prune": ("prune --older-than 90d --dry-run",),
    "migrate": ("migrate --check && deploy",),
    "serve": (
        "serve --agent shop:build_agent",
        "serve --agent shop:build_agent --host 0.0.0.0 --token-env CHAT_TOKENS",
    ),
    "mcp": ("mcp --user alice", "mcp --transport http --token-env MCP_TOKENS"),
}


class GroupedCommands(TyperGroup):
    """The commands, in groups of what they are for."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group."""
        for title, names in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(80)) for name in names])


def _examples(command: str = "") -> str:
    """Return the examples of a command for the end of its help; `\\b` keeps their lines apart."""
    lines = EXAMPLES.get(command, ())
    whole = (line if "memory-context" in line else f"memory-context {line}" for line in lines)
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in whole)]) if lines else ""


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

_STOPPED = 130

_is_debugging = False


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
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


_COMMANDS = {
    "list": list_items,
    "show": show,
    "search": search,
    "sessions": sessions_app,
    "stats": stats,
    "explain": explain,
    "users": users,
    "store": store_file,
    "forget": forget,
    "export": export,
    "import": import_,
    "status": status,
    "doctor": doctor,
    "stop": stop,
    "migrate": migrate,
    "prune": prune,
    "reindex": reindex,
    "serve": serve,
    "mcp": mcp,
    "demo": demo,
}
for _name, _command in _COMMANDS.items():
    if isinstance(_command, typer.Typer):
        app.add_typer(_command, name=_name)
    else:
        app.command(_name, epilog=_examples(_name) or None)(_command)


def main() -> None:
    """Run the command and end the process with its exit code."""
    for stream in (sys.stdout, sys.stderr):  # where signs cannot be encoded, their codes are printed
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.exit(execute())


def execute(arguments: list[str] | None = None) -> int:
    """Run one command line, this process's own without `arguments`, and return its exit code."""
    try:
        status: int = get_command(app).main(arguments, "memory-context", standalone_mode=False) or 0
    except typer.Exit as ended:
        status = ended.exit_code
    except (KeyboardInterrupt, typer.Abort):
        status = _STOPPED
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a group of commands without one of them: its help
            typer.echo(str(error))
            return ASKED_WRONGLY
        if _is_debugging:
            raise
        failure = Failure.of(error)
        say_error(failure.text)
        return failure.exit_code
    if status == _STOPPED:  # typer makes it of Ctrl-C, and says nothing
        say_error("stopped; what was done until now stays")
    return status
