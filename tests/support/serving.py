"""Applications on real ports, served in the event loop of a test."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn


@asynccontextmanager
async def serving(config: uvicorn.Config) -> AsyncIterator[tuple[uvicorn.Server, int]]:
    """Serve on a port of 127.0.0.1, which takes connections at once; yields the server and the port."""
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as port:
        task = asyncio.ensure_future(server.serve(sockets=[port]))
        try:
            yield server, port.getsockname()[1]
        finally:
            server.should_exit = True
            await task
