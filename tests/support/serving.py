"""Applications on real ports, served in the event loop of a test."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn


@asynccontextmanager
async def serving(
    config: uvicorn.Config, port: int = 0, host: str = "127.0.0.1"
) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    """Serve on a port, by default a free one; yields the server and the port, which takes connections."""
    server = uvicorn.Server(config)
    with socket.create_server((host, port), backlog=1000) as listener:
        task = asyncio.ensure_future(server.serve(sockets=[listener]))
        try:
            yield server, listener.getsockname()[1]
        finally:
            server.should_exit = True
            await task
