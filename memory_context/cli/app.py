"""The commands, put together, and how each ends: one line for an error, and an exit code.

Exit codes: 0 done, 1 failed, 2 asked wrongly, 130 stopped by Ctrl-C.
"""

import io
import sys
from typing import Annotated

import typer
from typer.main import get_command

from .console import ASKED_WRONGLY, Failure, say_error
from .demo import demo
from .explaining import explain
from .finding import search
from .items import forget, list_items
from .reports import stats
from .serving import mcp, serve
from .sessions import sessions_app
from .showing import show
from .transfer import export, import_
from .upkeep import migrate, prune, reindex, status

__all__ = ["app", "execute", "main"]

app = typer.Typer(
    name="memory-context",
    help="A context and memory layer for AutoGen agents: what is stored, what it saves, and how to serve it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_STOPPED = 130

_is_debugging = False


@app.callback()
def _options(  # pyright: ignore[reportUnusedFunction]
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")] = False,
) -> None:
    global _is_debugging
    _is_debugging = debug


app.command()(demo)
app.command("list")(list_items)
app.command()(show)
app.command()(search)
app.command()(forget)
app.add_typer(sessions_app, name="sessions")
app.command()(stats)
app.command()(explain)
app.command()(export)
app.command("import")(import_)
app.command()(status)
app.command()(migrate)
app.command()(prune)
app.command()(reindex)
app.command()(serve)
app.command()(mcp)


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
