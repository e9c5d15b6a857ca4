"""`serve`: a chat with an agent over HTTP."""

from pathlib import Path
from typing import Annotated

import typer

from .console import ASKED_WRONGLY, Failure, UrlOption

__all__ = ["serve"]


def serve(
    agent: Annotated[
        str | None,
        typer.Option(help="module:function that makes an agent from a MemoryContext. [default: an assistant]"),
    ] = None,
    model: Annotated[str, typer.Option(help="The model of the assistant, at OPENAI_BASE_URL.")] = "gpt-4o-mini",
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 for any free port.")] = 8000,
    url: UrlOption = None,
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
        from ..web.serving import ServeOptions, UsageError
        from ..web.serving import serve as serve_chat
    except ImportError as error:
        raise Failure(f"{error}; the server needs more: pip install 'memory-context[web]'") from error
    try:
        serve_chat(ServeOptions(agent, model, host, port, url, static, redis, allow_anonymous, user_header, token_env))
    except UsageError as error:
        raise Failure(str(error), ASKED_WRONGLY) from error
