"""The command `memory-context`. What a command needs is imported when it runs, so that help is there at once.

Promise: an error is one line that says what to do; the exit code is 2 for what was asked wrongly, 1 for what failed.
"""

import sys
from pathlib import Path
from typing import Annotated, NoReturn

try:
    import typer
except ImportError:
    sys.exit("memory-context needs more than the library: pip install 'memory-context[web]'")

__all__ = ["app", "main"]

app = typer.Typer(
    name="memory-context",
    help="A context and memory layer for AutoGen agents.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.callback()
def _commands() -> None:  # pyright: ignore[reportUnusedFunction]
    """A context and memory layer for AutoGen agents."""


@app.command()
def serve(
    agent: Annotated[
        str | None,
        typer.Option(help="module:function that makes an agent from a MemoryContext. [default: an assistant]"),
    ] = None,
    model: Annotated[str, typer.Option(help="The model of the assistant, at OPENAI_BASE_URL.")] = "gpt-4o-mini",
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 for any free port.")] = 8000,
    url: Annotated[
        str | None, typer.Option(help="The database. [default: MEMORY_CONTEXT_URL, else the embedded one]")
    ] = None,
    static: Annotated[Path | None, typer.Option(help="A folder with files to serve, such as a chat page.")] = None,
    redis: Annotated[str | None, typer.Option(help="Redis, where several processes share live sessions.")] = None,
    allow_anonymous: Annotated[bool, typer.Option(help="Let everybody in, as the same user.")] = False,
    user_header: Annotated[
        str | None, typer.Option(help="The header in which a reverse proxy says who asks, such as X-User.")
    ] = None,
    token_env: Annotated[
        str | None, typer.Option(help="The environment variable with user:token pairs, for bearer tokens.")
    ] = None,
) -> None:
    """Serve a chat with an agent over HTTP, until SIGTERM or Ctrl-C."""
    try:
        from .errors import MemoryContextError
        from .web.serving import ServeOptions, UsageError
        from .web.serving import serve as serve_chat
    except ImportError as error:
        _end(1, f"{error}; the server needs more than the library: pip install 'memory-context[web]'")
    try:
        serve_chat(ServeOptions(agent, model, host, port, url, static, redis, allow_anonymous, user_header, token_env))
    except UsageError as error:
        _end(2, str(error))
    except ValueError as error:  # an address or a folder that cannot be used
        _end(2, str(error))
    except (MemoryContextError, ImportError) as error:
        _end(1, str(error))


def _end(code: int, text: str) -> NoReturn:
    typer.echo(f"memory-context: {' '.join(text.split())}", err=True)
    raise typer.Exit(code)


def main() -> None:
    """Run the command."""
    app()
