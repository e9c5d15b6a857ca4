"""The HTTP server of commands and samples: uvicorn, with a limit of connections and a clean end."""

import errno
import signal
import socket
from typing import Any

import uvicorn

__all__ = ["bounded_config", "check_port", "serve_until_stopped"]

_STOP_SECONDS = 5


def bounded_config(app: Any, connections: int = 512, **settings: Any) -> uvicorn.Config:
    """Return a configuration in which uvicorn answers 503 to more connections; slow clients are a proxy's affair."""
    # uvicorn refuses the connection that reaches its limit
    defaults: dict[str, Any] = {
        "limit_concurrency": connections + 1,
        "access_log": False,
        "timeout_graceful_shutdown": _STOP_SECONDS,
    }
    return uvicorn.Config(app, **defaults | settings)


def check_port(host: str, port: int) -> None:
    """Raise OSError if the port is taken or the address not local."""
    if not port:
        return
    try:
        for family, *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE):
            socket.create_server(address, family=family).close()
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        reason = f"port {port} is in use on {host}" if is_taken else f"cannot listen on {host}, port {port}"
        remedy = "choose another with --port" if is_taken else error.strerror
        raise OSError(error.errno, f"{reason}: {remedy}") from error


async def serve_until_stopped(server: uvicorn.Server | uvicorn.Config, *listening: socket.socket) -> None:
    """Serve until SIGTERM or SIGINT, at the configured address or at sockets that listen already."""
    server = uvicorn.Server(server) if isinstance(server, uvicorn.Config) else server

    # uvicorn re-raises the signal: a handler lets the store close
    def stop(*_: object) -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    await server.serve([*listening] or None)
