"""`serve`: a chat with an agent over HTTP. `mcp`: a memory for any client of the Model Context Protocol."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from .command import UrlOption, UserOption

__all__ = ["mcp", "serve"]

PublicHostOption = Annotated[
    list[str] | None,
    typer.Option("--public-host", help="A name people reach it by, such as chat.example.org; repeatable."),
]


ConnectionsOption = Annotated[int, typer.Option(min=1, help="The most connections at a time.")]


def _given(options: dict[str, Any]) -> dict[str, Any]:
    """Return what was given, lists as tuples."""
    given = {name: value for name, value in options.items() if value is not None}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def serve(
    agent: Annotated[
        str | None,
        typer.Option(help="module:function that makes an agent from a MemoryContext. [default: an assistant]"),
    ] = None,
    agent_ids: Annotated[
        list[str] | None,
        typer.Option("--agent-id", help="An id the agent is registered under; repeatable. [default: assistant]"),
    ] = None,
    model: Annotated[str, typer.Option(help="The model of the assistant, at OPENAI_BASE_URL.")] = "gpt-4o-mini",
    light_model: Annotated[
        str | None,
        typer.Option(
            help="The model that decides beside the agent: a model at OPENAI_BASE_URL, own (the assistant's, or the "
            "model_client of the --agent module), or off. [default: MEMORY_CONTEXT_LIGHT_MODEL, else own]"
        ),
    ] = None,
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 for any free port.")] = 8000,
    url: UrlOption = None,
    static_folder: Annotated[
        Path | None, typer.Option("--static", help="A folder with files to serve, such as a chat page.")
    ] = None,
    redis_url: Annotated[
        str | None, typer.Option("--redis", help="Redis, which keeps what live sessions have not archived yet.")
    ] = None,
    allow_anonymous: Annotated[bool, typer.Option(help="Let everybody in, as the same user.")] = False,
    public_hosts: PublicHostOption = None,
    token_env: Annotated[
        str | None, typer.Option(help="The environment variable with user:token pairs, for bearer tokens.")
    ] = None,
    connections: ConnectionsOption = 512,
) -> None:
    """Serve a chat with an agent over HTTP.

    It ends with SIGTERM or Ctrl-C.
    """
    options = _given(locals())
    from ..web.serve import ServeOptions
    from ..web.serve import serve as serve_chat

    serve_chat(ServeOptions(**options))


def mcp(
    url: UrlOption = None,
    user: UserOption = None,
    agent: Annotated[str, typer.Option(help="The agent that items are stored as.")] = "mcp",
    session: Annotated[
        str | None, typer.Option(help="The conversation to store in, and to read if none is named. [default: none]")
    ] = None,
    transport: Annotated[
        Literal["stdio", "http"], typer.Option(help="stdio for a client that starts the server itself; or http.")
    ] = "stdio",
    host: Annotated[str, typer.Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 for any free port.")] = 8001,
    token_env: Annotated[
        str | None, typer.Option(help="The environment variable with user:token pairs, for bearer tokens over http.")
    ] = None,
    public_hosts: PublicHostOption = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Offer nothing that stores.")] = False,
    forgets: Annotated[
        bool, typer.Option("--forget", help="Offer forget_memory, which erases what the user agrees to.")
    ] = False,
    connections: ConnectionsOption = 512,
) -> None:
    """Serve a memory to clients of the Model Context Protocol.

    It ends when the client that started it has gone, and with SIGTERM or Ctrl-C.
    """
    options = _given(locals())
    from ..mcp.run import McpOptions
    from ..mcp.run import serve as serve_memory

    serve_memory(McpOptions(**options))
