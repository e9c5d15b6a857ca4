"""A Redis server of a test's own."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import needs

from .scratch import SCRATCH
from .waiting import soon

__all__ = ["RedisServer", "redis_server"]


class RedisServer:
    """A Redis of its own, on a socket in a folder of its own."""

    def __init__(self, program: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mc-redis-", dir=SCRATCH))
        self.url = f"unix://{self.folder}/redis.sock"
        self._program = program
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start it, empty."""
        self._process = await asyncio.create_subprocess_exec(
            self._program,
            *("--port", "0", "--unixsocket", str(self.folder / "redis.sock"), "--dir", str(self.folder)),
            *("--save", "", "--appendonly", "no"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        line = b""
        while b"accept connections" not in line and b"ready" not in line.lower():
            line = await soon(self._process.stdout.readline())
            assert line, "Redis did not start"

    async def stop(self) -> None:
        """Kill it."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.communicate()

    @contextmanager
    def hanging(self) -> Iterator[None]:
        """Stop it as a machine that ran out of memory does."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._process.pid, signal.SIGCONT)


@pytest.fixture
async def redis_server() -> AsyncIterator[RedisServer]:
    server = RedisServer(needs("redis-server"))
    await server.start()
    yield server
    await server.stop()
    shutil.rmtree(server.folder)
