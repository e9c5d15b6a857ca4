"""The network boundary of a browser: a forward proxy on this machine that all of its connections must pass.

A name is looked up once, and the connection goes to an address of that answer, so that a name cannot change between
check and use. Tunnels (https, wss, ws) are checked like requests.
"""

import asyncio
import hmac
import secrets
import socket
from base64 import b64encode
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import h11

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.runtime.background import Background, attempt, begin

from .addresses import HostRules, Target, address_problem, check_port, parse_authority

__all__ = ["CHROMIUM_FLAGS", "NavigationGuard", "Refusal"]

CHROMIUM_FLAGS = (
    "--proxy-bypass-list=<-loopback>",  # without it Chromium goes to this machine directly
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",  # it looks up no name itself
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",  # the same flag in older versions
    "--dns-prefetch-disable",
    "--disable-background-networking",
    "--disable-domain-reliability",
)
"""Flags that leave Chromium no way to the network but its proxy; the debugging port must be a pipe."""

_HEADER_SECONDS = 10.0
_CONNECT_SECONDS = 10.0
_IDLE_SECONDS = 300.0
_CLOSE_SECONDS = 1.0
_GONE_CHECK_SECONDS = 2.0
_CONNECTIONS = 256
_ADDRESSES_TRIED = 3
_LOOK_UPS = 8  # at once, in threads of their own: a slow name server holds up nothing else
_REQUEST_HEADER_BYTES = 1 << 16
_RESPONSE_HEADER_BYTES = 1 << 18
_READ_BYTES = 1 << 16
_REFUSALS = 50
_HOP_BY_HOP = frozenset(
    [
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te"),
        *(b"trailer", b"transfer-encoding", b"upgrade"),
    ]
)
_Headers = Iterable[tuple[bytes, bytes]]
_Role = type[h11.CLIENT] | type[h11.SERVER]


@dataclass(frozen=True)
class Refusal:
    """A connection that was not made.

    Attributes:
        target: Host and port, or what was asked for instead, at most 200 characters; a page can choose its text.
    """

    target: str
    reason: str

    def __str__(self) -> str:
        return f"{self.target}: {self.reason}"


class NavigationGuard:
    """A forward proxy that connects to allowed hosts at public addresses only.

    Args:
        allowed_hosts: `example.org`, `*.example.org` (hosts below it), also with a port; None allows every public host.
        allow_private: Allow this machine and private networks. Link-local addresses and the metadata services of
            clouds stay refused.
        resolve: Returns the addresses of a host; the system's resolver by default.

    Attributes:
        username: Of the proxy, with `password`; clients without them are refused.
        refused: The newest refusals, each once; readers may clear it.

    Raises:
        ValueError: A rule of `allowed_hosts` is not a host.
    """

    def __init__(
        self,
        allowed_hosts: Sequence[str] | None = None,
        *,
        allow_private: bool = False,
        resolve: Callable[[str], Awaitable[Sequence[str]]] | None = None,
    ) -> None:
        self.username, self.password = "guard", secrets.token_urlsafe(24)
        self.refused: deque[Refusal] = deque(maxlen=_REFUSALS)
        self._credentials = b"Basic " + b64encode(f"{self.username}:{self.password}".encode())
        self._rules = HostRules(allowed_hosts)
        self._allow_private = allow_private
        self._resolve = resolve or self._look_up
        self._look_ups: ThreadPoolExecutor | None = None
        self._server: asyncio.Server | None = None
        self._open = 0
        self._serving: Background[None] = Background("navigation guard")

    async def start(self) -> str:
        """Listen on a free port of this machine; return the proxy's address. A second call returns the same."""
        if self._server is None:
            self._look_ups = ThreadPoolExecutor(_LOOK_UPS, "navigation guard")
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, backlog=_CONNECTIONS)
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def stop(self) -> None:
        """Stop listening and end all connections; a second call does nothing."""
        server, look_ups, self._server, self._look_ups = self._server, self._look_ups, None, None
        if server is not None:
            server.close()
        if look_ups is not None:
            look_ups.shutdown(wait=False, cancel_futures=True)
        await self._serving.stop()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._open >= _CONNECTIONS or self._server is None:
            writer.transport.abort()
            return
        self._open += 1
        self._serving.start(partial(self._serve, _Peer(h11.SERVER, reader, writer)), key=writer)

    async def _serve(self, client: "_Peer") -> None:
        try:
            while await self._answer(client):
                client.http.start_next_cycle()
        except (OSError, asyncio.TimeoutError, h11.ProtocolError):
            pass  # the browser shows that a connection was closed
        finally:
            self._open -= 1
            await client.close()

    async def _answer(self, client: "_Peer") -> bool:
        """Answer one request; return whether another may follow it on this connection."""
        try:
            request = await client.event(_HEADER_SECONDS)
            if not isinstance(request, h11.Request):
                return False
            _check_framing(request.headers)
        except h11.RemoteProtocolError as error:
            return await client.say(error.error_status_hint, f"The request is malformed: {error}")
        if not self._has_credentials(request.headers):
            challenge = (b"Proxy-Authenticate", b'Basic realm="navigation guard"')
            return await client.say(407, "This proxy serves one browser only.", challenge)
        asked = request.target.decode("ascii", "replace")
        try:
            target, path = _target_of(request.method, asked)
            asked = str(target)
            server = await self._connect(target)
        except ConnectorError as error:
            self._note(Refusal(asked[:200], str(error)))
            return await client.say(403, f"Refused: {error}")
        except (OSError, asyncio.TimeoutError) as error:
            return await client.say(502, f"There is no connection to {asked[:200]}: {error or 'it takes too long'}")
        try:
            if request.method == b"CONNECT":
                await _tunnel(client, server)
                return False
            forwarded = _forward(client, server, _to_server(request, target, path))
            done = await attempt(forwarded, lambda: 0.0 if client.is_gone else _GONE_CHECK_SECONDS)
            return done is not None and done.result()
        finally:
            await server.close()

    def _has_credentials(self, headers: _Headers) -> bool:
        given = next((value for name, value in headers if name == b"proxy-authorization"), b"")
        return hmac.compare_digest(given, self._credentials)

    def _note(self, refusal: Refusal) -> None:
        if refusal in self.refused:
            self.refused.remove(refusal)
        self.refused.append(refusal)

    async def _connect(self, target: Target) -> "_Peer":
        self._rules.check(target)
        check_port(target.port)
        addresses = await asyncio.wait_for(self._resolve(target.host), _CONNECT_SECONDS)
        problems = {one: address_problem(one, allow_private=self._allow_private) for one in addresses}
        allowed = [one for one, problem in problems.items() if not problem]
        if problems and not allowed:
            raise ConnectorError(next(iter(problems.values())))
        failed: Exception = OSError("the host has no address")
        for address in allowed[:_ADDRESSES_TRIED]:
            try:
                streams = await asyncio.wait_for(asyncio.open_connection(address, target.port), _CONNECT_SECONDS)
            except (OSError, asyncio.TimeoutError) as error:
                failed = error
                continue
            server = _Peer(h11.CLIENT, *streams)
            if server.is_this_machine and not self._allow_private:
                await server.close()
                raise ConnectorError(f"{address} is an address of this machine")
            return server
        raise failed

    async def _look_up(self, host: str) -> list[str]:
        loop = asyncio.get_running_loop()
        find = partial(socket.getaddrinfo, host.encode(), None, type=socket.SOCK_STREAM)
        found = await loop.run_in_executor(self._look_ups, find)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))


class _Peer:
    """One side of a connection that speaks HTTP/1.1."""

    def __init__(self, role: _Role, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        limit = _REQUEST_HEADER_BYTES if role is h11.SERVER else _RESPONSE_HEADER_BYTES
        self.http = h11.Connection(role, max_incomplete_event_size=limit)
        self.reader, self.writer = reader, writer

    @property
    def is_gone(self) -> bool:
        return self.reader.at_eof()

    @property
    def is_this_machine(self) -> bool:
        here, there = (self.writer.get_extra_info(name) for name in ("sockname", "peername"))
        return here[0] == there[0]

    async def event(self, seconds: float) -> object:
        """Return the next event; TimeoutError if it is not whole by then."""
        return await asyncio.wait_for(self._event(), seconds)

    async def _event(self) -> object:
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self.reader.read(_READ_BYTES))
        return event

    async def send(self, *events: h11.Event) -> None:
        for event in events:
            self.writer.write(self.http.send(event) or b"")
        await asyncio.wait_for(self.writer.drain(), _IDLE_SECONDS)

    async def say(self, status: int, text: str, *headers: tuple[bytes, bytes]) -> bool:
        """Answer with plain text and end the connection."""
        if self.http.our_state is h11.SEND_RESPONSE or self.http.our_state is h11.IDLE:
            body = text.encode("utf-8", "replace")
            about = [(b"Content-Type", b"text/plain; charset=utf-8"), (b"Content-Length", b"%d" % len(body))]
            ends = [(b"X-Content-Type-Options", b"nosniff"), (b"Connection", b"close"), *headers]
            response = h11.Response(status_code=status, headers=[*about, *ends], reason=b"From the navigation guard")
            await self.send(response, h11.Data(data=body), h11.EndOfMessage())
            self.writer.write_eof()
            with suppress(asyncio.TimeoutError):  # a close with unread bytes would take the answer back
                await asyncio.wait_for(self._discard(), _CLOSE_SECONDS)
        return False

    async def _discard(self) -> None:
        while await self.reader.read(_READ_BYTES):
            pass

    async def close(self) -> None:
        self.writer.close()
        with suppress(OSError, asyncio.TimeoutError):
            await asyncio.wait_for(self.writer.wait_closed(), _CLOSE_SECONDS)
        self.writer.transport.abort()


def _target_of(method: bytes, asked: str) -> tuple[Target, str]:
    """Return where a request leads, and its path there."""
    if method == b"CONNECT":
        return parse_authority(asked), ""
    scheme, separator, rest = asked.partition("://")
    if scheme.lower() != "http" or not separator:
        raise ConnectorError(f"{asked[:100]!r} is not an address of the web")
    length = next((at for at, character in enumerate(rest) if character in "/?#"), len(rest))
    path = rest[length:]
    return parse_authority(rest[:length], 80), path if path.startswith("/") else f"/{path}"


def _check_framing(headers: _Headers) -> None:
    """Raise RemoteProtocolError for a body whose length two parsers could read in two ways."""
    names = [name for name, _ in headers]
    if b"transfer-encoding" in names and b"content-length" in names:
        raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding", error_status_hint=400)


def _end_to_end(headers: _Headers) -> list[tuple[bytes, bytes]]:
    """Return the headers without those that concern one connection only."""
    headers = list(headers)
    listed = {one.strip().lower() for name, value in headers if name == b"connection" for one in value.split(b",")}
    return [(name, value) for name, value in headers if name not in _HOP_BY_HOP and name not in listed]


def _to_server(request: h11.Request, target: Target, path: str) -> h11.Request:
    """Return the request as the server gets it: its host is the one that was checked."""
    host = str(target) if target.port != 80 else str(target).rsplit(":", 1)[0]
    kept = [one for one in _end_to_end(request.headers) if one[0] not in (b"host", b"expect")]
    if any(name == b"transfer-encoding" for name, _ in request.headers):
        kept.append((b"Transfer-Encoding", b"chunked"))
    headers = [(b"Host", host.encode()), *kept, (b"Connection", b"close")]
    return h11.Request(method=request.method, target=path.encode(), headers=headers)


async def _forward(client: _Peer, server: _Peer, request: h11.Request) -> bool:
    """Pass a request on and its answer back; return whether the client's connection can be used again."""
    try:
        await server.send(request)
        while isinstance(event := await client.event(_IDLE_SECONDS), h11.Data):
            await server.send(event)
        await server.send(h11.EndOfMessage())
        response = await server.event(_IDLE_SECONDS)
        while isinstance(response, h11.InformationalResponse):
            response = await server.event(_IDLE_SECONDS)
        if not isinstance(response, h11.Response) or response.status_code == 407:
            raise h11.RemoteProtocolError("it closed the connection, or asks for a proxy's credentials")
        _check_framing(response.headers)
    except (OSError, asyncio.TimeoutError, h11.ProtocolError) as error:
        return await client.say(502, f"The server gave no answer that can be passed on: {error or 'it takes too long'}")
    headers = _end_to_end(response.headers)
    await client.send(h11.Response(status_code=response.status_code, headers=headers, reason=response.reason))
    while isinstance(event := await server.event(_IDLE_SECONDS), h11.Data):
        await client.send(event)
    await client.send(h11.EndOfMessage())
    return client.http.our_state is h11.DONE and client.http.their_state is h11.DONE


async def _tunnel(client: _Peer, server: _Peer) -> None:
    """Pass bytes both ways until one side ends."""
    await client.event(_HEADER_SECONDS)  # the end of the request
    await client.send(h11.Response(status_code=200, headers=[], reason=b"Connection established"))
    server.writer.write(client.http.trailing_data[0])
    ways = [begin(_relay(client.reader, server.writer)), begin(_relay(server.reader, client.writer))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()


async def _relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(_READ_BYTES):
            writer.write(data)
            await writer.drain()
