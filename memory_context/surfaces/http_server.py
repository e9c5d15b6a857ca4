"""HTTP server with bounded connections.

Connections without a timely header are closed; a surplus one replaces the longest idle.
"""

import asyncio
import errno
import signal
import socket
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, cast

import uvicorn

from memory_context.foundation.runtime.background import Timer

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as HttpProtocol
    from uvicorn.protocols.http.h11_impl import RequestResponseCycle
else:  # h11 or httptools, with the same members
    from uvicorn.protocols.http.auto import AutoHTTPProtocol as HttpProtocol

__all__ = ["ConnectionLimits", "bounded_config", "check_port", "serve_until_stopped"]

_STOP_SECONDS = 5


@dataclass(frozen=True)
class ConnectionLimits:
    """The most connections, and the time for a header."""

    connections: int = 512
    header_seconds: float = 10

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) <= 0:
                raise ValueError(f"{field.name}={getattr(self, field.name)!r}: use more than zero")


def bounded_config(app: Any, limits: ConnectionLimits | None = None, **settings: Any) -> uvicorn.Config:
    """Return a configuration with bounded connections."""
    limits = limits or ConnectionLimits()
    # then uvicorn answers 503
    settings = {"limit_concurrency": limits.connections + 1, "access_log": False, **settings}
    settings.setdefault("timeout_graceful_shutdown", _STOP_SECONDS)
    return uvicorn.Config(app, http=_bounded_protocol(limits), **settings)


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


async def serve_until_stopped(server: uvicorn.Server) -> None:
    """Serve until SIGTERM or SIGINT."""

    # uvicorn re-raises the signal: a handler lets the store close
    def stop(*_: object) -> None:
        server.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    await server.serve()


def _bounded_protocol(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    waiting: dict[HttpProtocol, Timer] = {}  # oldest first

    class BoundedProtocol(HttpProtocol):
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            if len(self.connections) > limits.connections and waiting:
                next(iter(waiting)).transport.abort()
            self._wait()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._note()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._note()

        def connection_lost(self, exc: Exception | None) -> None:
            self._go_on()
            super().connection_lost(exc)

        def _note(self) -> None:
            cycle = cast("RequestResponseCycle | None", self.cycle)
            is_at_work = cycle is not None and not cycle.response_complete
            is_handed_over = self.transport.get_protocol() is not self  # to a WebSocket
            if is_at_work or is_handed_over or self.transport.is_closing():
                self._go_on()
            else:
                self._wait()

        def _wait(self) -> None:
            if self not in waiting:
                waiting[self] = Timer(self.transport.abort)
                waiting[self].plan(limits.header_seconds)

        def _go_on(self) -> None:
            timer = waiting.pop(self, None)
            if timer is not None:
                timer.cancel()

    return BoundedProtocol
