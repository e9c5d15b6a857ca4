"""The commands, put together, and how each ends: one line for an error, and an exit code.

Exit codes: 0 done, 1 failed, 2 asked wrongly, 130 stopped by Ctrl-C.
"""

import sys
from typing import Annotated

import typer
from typer.main import get_command

from .console import ASKED_WRONGLY, Failure, say_error
from .serving import serve

__all__ = ["app", "execute", "main"]

app = typer.Typer(
    name="memory-context",
    help="A context and memory layer for AutoGen agents: what is stored, what it saves, and how to serve it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_is_debugging = False


@app.callback()
def _options(  # pyright: ignore[reportUnusedFunction]
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")] = False,
) -> None:
    global _is_debugging
    _is_debugging = debug


app.command()(serve)


def main() -> None:
    """Run the command and end the process with its exit code."""
    sys.exit(execute())


def execute(arguments: list[str] | None = None) -> int:
    """Run one command line, this process's own without `arguments`, and return its exit code."""
    try:
        return get_command(app).main(arguments, "memory-context", standalone_mode=False) or 0
    except typer.Exit as ended:
        return ended.exit_code
    except (KeyboardInterrupt, typer.Abort):
        say_error("stopped; what was done until now stays")
        return 130
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a group of commands without one of them: its help
            typer.echo(str(error))
            return ASKED_WRONGLY
        if _is_debugging:
            raise
        failure = Failure.of(error)
        say_error(failure.text)
        return failure.exit_code
