"""`open`: the inspector of one user, on this machine's loopback, until Ctrl-C."""

import asyncio
import socket
import webbrowser
from typing import Annotated

import typer
from typer import Argument, Option

from .command import Target, command, find_session
from .console import say

__all__ = ["open_inspector"]

_HOST = "127.0.0.1"


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
    from urllib.parse import quote

    from memory_context.foundation.extras import needs

    with needs("web", "memory-context open"):
        from ..http_server import bounded_config, check_port, serve_until_stopped
        from ..inspector.entrance import Entrance
        from ..inspector.router import inspector_app

    check_port(_HOST, port)
    place, user = "sessions", await target.user()
    if session is not None:
        found = await find_session(target, session)
        agents = [one.agent_id for one in found.transcripts][:1]
        place = "/".join(["session", *(quote(one, safe="") for one in (found.info.session_id, *agents))])
    await target.store.open()
    entrance = Entrance(user)
    with socket.create_server((_HOST, port)) as listening:
        address = f"http://{_HOST}:{listening.getsockname()[1]}/inspector/#/{place}?enter={entrance.code}"
        typer.echo(address)
        if not no_browser and not await asyncio.to_thread(webbrowser.open, address):
            say("there is no browser here: open the address above")
        say("Ctrl-C ends it")
        config = bounded_config(inspector_app(target.store, user, entrance=entrance), log_level="warning")
        await serve_until_stopped(config, listening)
