"""A TCP proxy between the library and its server that fails as networks and machines do."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Literal

__all__ = ["Mode", "Proxy", "proxied"]

Mode = Literal["pass", "silent", "mute", "half_closed", "drip", "slow"]
"""silent: nothing passes. mute: requests pass, answers do not. drip: answers come byte by byte.
slow: at about a megabyte a second."""

DRIP_SECONDS = 0.02
_CANCEL_CODE = (80877102).to_bytes(4, "big")


class _Link:
    """One connection through the proxy."""

    def __init__(self, mode: Mode) -> None:
        self.mode: Mode = mode
        self.is_cancel = False
        self.changed = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.writers: list[asyncio.StreamWriter] = []

    def fail(self, mode: Mode) -> None:
        self.mode = mode
        self.changed.set()
        self.changed = asyncio.Event()


class Proxy:
    """Relays to the server's socket; every connection has a mode, which can change while it is open.

    Attributes:
        port: Where it listens, on 127.0.0.1.
        opened: Connections accepted, with those of cancel requests.
        cancels: Connections that carried a cancel request and have ended.
    """

    def __init__(self, socket_path: str) -> None:
        self.port = 0
        self.opened = 0
        self.cancels = 0
        self._socket_path = socket_path
        self._mode: Mode = "pass"
        self._links: set[_Link] = set()
        self._server: asyncio.Server | None = None

    def fail(self, mode: Mode, *, new: bool = True) -> None:
        """Put the open connections into a mode, and with `new` those that are opened from now on."""
        for link in self._links:
            link.fail(mode)
        if new:
            self._mode = mode

    def heal(self) -> None:
        """Relay connections that are opened from now on; those that failed stay as they are."""
        self._mode = "pass"

    async def refuse(self) -> None:
        """End all connections and refuse new ones."""
        await self.stop()

    async def start(self) -> None:
        """Listen, on the same port as before."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        links = list(self._links)
        for link in links:
            if link.task is not None:
                link.task.cancel()
        await asyncio.gather(*(link.task for link in links if link.task is not None), return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(self._mode)
        self.opened += 1
        link.task = asyncio.current_task()
        link.writers = [writer]
        self._links.add(link)
        try:
            await self._serve(link, reader, writer)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            self._links.discard(link)
            self.cancels += link.is_cancel
            for one in link.writers:
                one.transport.abort()

    async def _serve(self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if link.mode == "half_closed":
            await _half_close(reader, writer)
            return
        inner_reader, inner_writer = await asyncio.open_unix_connection(self._socket_path)
        link.writers.append(inner_writer)
        to_server = asyncio.create_task(_relay(link, reader, inner_writer, is_answer=False))
        to_client = asyncio.create_task(_relay(link, inner_reader, writer, is_answer=True))
        try:
            await asyncio.wait([to_server, to_client], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (to_server, to_client):
                task.cancel()
            await asyncio.gather(to_server, to_client, return_exceptions=True)


async def _half_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Say that nothing more comes, and go on reading."""
    with suppress(OSError):
        writer.write_eof()
    while await reader.read(65536):
        pass


async def _relay(link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool) -> None:
    data = b""
    reading: asyncio.Future[bytes] | None = None
    while True:
        if link.mode == "silent" or (link.mode == "mute" and is_answer):
            await link.changed.wait()
            continue
        if link.mode == "half_closed" and is_answer:
            writer.write_eof()
            while link.mode == "half_closed":
                await link.changed.wait()
        if link.mode == "drip" and is_answer:
            for byte in data:
                writer.write(bytes([byte]))
                await asyncio.sleep(DRIP_SECONDS)
        elif data:
            if link.mode == "slow" and is_answer:
                await asyncio.sleep(len(data) / 1_000_000)
            writer.write(data)
            await writer.drain()
        data = b""
        reading = reading or asyncio.ensure_future(reader.read(65536))
        changed = asyncio.ensure_future(link.changed.wait())
        try:
            await asyncio.wait([reading, changed], return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()
        if reading.done():
            data, reading = reading.result(), None
            link.is_cancel |= data[4:8] == _CANCEL_CODE
            if not data:
                return


@asynccontextmanager
async def proxied(params: Mapping[str, str]) -> AsyncIterator[Proxy]:
    """Yield a proxy before a server that listens on a socket, given its connection parameters."""
    proxy = Proxy(f"{params['host']}/.s.PGSQL.{params['port']}")
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
