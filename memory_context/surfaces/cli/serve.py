"""`serve`: a chat with an agent over HTTP. `mcp`: a memory for any client of the Model Context Protocol."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from .command import UrlOption, UserOption

__all__ = ["mcp", "serve"]

PublicHostOption = Annotated[list[str] | None, Option("--public-host", help="A name people reach it by; repeatable.")]
ConnectionsOption = Annotated[int, Option(min=1, help="The most connections at a time.")]


def serve(
    agent: Annotated[str | None, Option(help="module:function that makes an agent from a MemoryContext.")] = None,
    agent_ids: Annotated[
        list[str] | None, Option("--agent-id", help="An id of the agent; repeatable. [default: assistant]")
    ] = None,
    model: Annotated[str, Option(help="The model of the assistant, at OPENAI_BASE_URL.")] = "gpt-4o-mini",
    light_model: Annotated[
        str | None,
        Option(
            help="What decides beside the agent: a model at OPENAI_BASE_URL, own (the assistant's, or model_client of "
            "the --agent module), or off. [default: MEMORY_CONTEXT_LIGHT_MODEL, else own]"
        ),
    ] = None,
    host: Annotated[str, Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Where to listen; 0 for any free port.")] = 8000,
    url: UrlOption = None,
    static_folder: Annotated[Path | None, Option("--static", help="A folder with files to serve.")] = None,
    redis_url: Annotated[str | None, Option("--redis", help="Keeps what live sessions have not archived.")] = None,
    allow_anonymous: Annotated[bool, Option(help="Let everybody in, as the same user.")] = False,
    public_hosts: PublicHostOption = None,
    token_env: Annotated[str | None, Option(help="The variable with user:token pairs, for bearer tokens.")] = None,
    connections: ConnectionsOption = 512,
) -> None:
    """Serve a chat with an agent over HTTP.

    It ends with SIGTERM or Ctrl-C.
    """
    options = locals()
    from ..web.serve import serve as serve_chat

    serve_chat(**options)


def mcp(
    url: UrlOption = None,
    user: UserOption = None,
    agent: Annotated[str, Option(help="The agent that items are stored as.")] = "mcp",
    session: Annotated[str | None, Option(help="The conversation to store in, and to read. [default: none]")] = None,
    transport: Annotated[
        Literal["stdio", "http"], Option(help="stdio: the client starts the server; or http.")
    ] = "stdio",
    host: Annotated[str, Option(help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Where to listen; 0 for any free port.")] = 8001,
    token_env: Annotated[str | None, Option(help="The variable with user:token pairs, over http.")] = None,
    public_hosts: PublicHostOption = None,
    read_only: Annotated[bool, Option("--read-only", help="Offer nothing that stores.")] = False,
    forgets: Annotated[bool, Option("--forget", help="Offer forget_memory, too.")] = False,
    connections: ConnectionsOption = 512,
) -> None:
    """Serve a memory to clients of the Model Context Protocol.

    It ends when the client that started it has gone, and with SIGTERM or Ctrl-C.
    """
    options = locals()
    from ..mcp.run import serve as serve_memory

    serve_memory(**options)
