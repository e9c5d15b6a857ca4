"""`serve`: a chat with an agent over HTTP. `mcp`: a memory for any client of the Model Context Protocol.

`open`: the inspector of one user, on this machine's loopback, until Ctrl-C.
"""

from pathlib import Path
from typing import Annotated, Literal

import typer
from typer import Argument, Option

from .command import Target, UrlOption, UserOption, command, find_session
from .console import say

__all__ = ["mcp", "open_inspector", "serve"]

_LOOPBACK = "127.0.0.1"

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


@command(has_json=False)
async def open_inspector(
    target: Target,
    session: Annotated[
        str | None, Argument(metavar="SESSION", help="Its id, or the beginning. [default: the list of them]")
    ] = None,
    port: Annotated[int, Option(min=0, max=65535, help="Where to listen. [default: any free port]")] = 0,
    no_browser: Annotated[bool, Option("--no-browser", help="Print the address only.")] = False,
) -> None:
    """Open a page that shows what the model read, and why.

    It shows each call of each session, and what is kept of the user, who may change it there. The address works once:
    whoever opens it first gets in, nobody else on this machine. Ctrl-C ends it.
    """
    import asyncio
    import socket
    import webbrowser
    from urllib.parse import quote

    from memory_context.foundation.extras import needs

    with needs("web", "memory-context open"):
        from ..http_server import bounded_config, check_port, serve_until_stopped
        from ..inspector.entrance import Entrance
        from ..inspector.router import inspector_app

    check_port(_LOOPBACK, port)
    place, user = "sessions", await target.user()
    if session is not None:
        found = await find_session(target, session)
        agents = [one.agent_id for one in found.transcripts][:1]
        place = "/".join(["session", *(quote(one, safe="") for one in (found.info.session_id, *agents))])
    await target.store.open()
    entrance = Entrance(user)
    with socket.create_server((_LOOPBACK, port)) as listening:
        address = f"http://{_LOOPBACK}:{listening.getsockname()[1]}/inspector/#/{place}?enter={entrance.code}"
        typer.echo(address)
        if not no_browser and not await asyncio.to_thread(webbrowser.open, address):
            say("there is no browser here: open the address above")
        say("Ctrl-C ends it")
        config = bounded_config(inspector_app(target.store, user, entrance=entrance), log_level="warning")
        await serve_until_stopped(config, listening)
