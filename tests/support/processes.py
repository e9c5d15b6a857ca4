"""Python processes for tests, forked from one that has imported the package: importing takes half a second each."""

import asyncio
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import memory_context
from memory_context.foundation.tokens import default_token_counter

__all__ = ["ForkedPython", "Forks", "load_everything", "next_program"]

_REPOSITORY = Path(__file__).parents[2]
_SURFACES = ("chainlit_data_layer", "http_server", "live", "mcp_server", "testing", "web")
_ALSO_LOADED = ("numpy", "tokenizers", "tests.agents.scripted", "tests.archive.talking", "tests.embeddings.fakes")
_MAIN = (
    "import sys; from tests.support.processes import next_program; exec(next_program(int(sys.argv[1])), {**globals()})"
)


def load_everything() -> None:
    """Import what stores and contexts import when they are used, and load the token ranks."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # threads would be lost in a fork
    for module in pkgutil.walk_packages(memory_context.__path__, "memory_context."):
        if module.name.split(".")[1] not in _SURFACES:
            importlib.import_module(module.name)
    for name in _ALSO_LOADED:
        importlib.import_module(name)
    default_token_counter().count("load the ränks")  # a short text in ASCII needs none
    gc.freeze()


def next_program(descriptor: int) -> str:
    """Fork for each program that is asked for, and return its script in the fork that is to run it.

    A request has the script and its environment, with the descriptors of its streams and of a pipe for its report: the
    process id, and the exit code, in a line each.
    """
    load_everything()
    control = socket.socket(fileno=descriptor)
    while True:
        request, descriptors, _, _ = socket.recv_fds(control, 1 << 20, 4)
        if not request:
            os._exit(0)
        if os.fork() == 0:
            *streams, report = descriptors
            if (pid := os.fork()) == 0:
                for number, stream in enumerate(streams):
                    os.dup2(stream, number)
                    os.close(stream)
                os.close(report)
                control.close()
                program = json.loads(request)
                os.environ.clear()
                os.environ.update(program["environment"])
                return program["script"]
            for stream in streams:
                os.close(stream)
            os.write(report, b"%d\n" % pid)
            os.write(report, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            os._exit(0)
        for one in descriptors:
            os.close(one)
        os.wait4(-1, os.WNOHANG)  # reports that are made


class ForkedPython:
    """A running script; it has what tests use of `asyncio.subprocess.Process`."""

    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    stderr: asyncio.StreamReader
    pid: int

    def __init__(self) -> None:
        self.returncode: int | None = None

    async def start(self, control: socket.socket, script: str, environment: Mapping[str, str]) -> None:
        """Have a program forked, and wait until its number is known."""
        stdin, given = os.pipe()
        (out, stdout), (err, stderr), (reported, report) = (os.pipe() for _ in range(3))
        request = json.dumps({"script": script, "environment": dict(environment)}).encode()
        theirs = (stdin, stdout, stderr, report)
        socket.send_fds(control, [request], theirs)
        for one in theirs:
            os.close(one)
        self.stdin = await _writer(given)
        self.stdout, self.stderr, told = [await _reader(one) for one in (out, err, reported)]
        self.pid = int(await told.readline())
        self._ended = asyncio.ensure_future(self._follow(told))

    async def _follow(self, told: asyncio.StreamReader) -> None:
        self.returncode = int(await told.read())

    async def wait(self) -> int | None:
        """Wait for the end and return the exit code, negative for a signal."""
        await asyncio.shield(self._ended)
        return self.returncode

    async def communicate(self, given: bytes = b"") -> tuple[bytes, bytes]:
        """Write to the script and return the rest of what it prints, on stdout and stderr, when it has ended."""
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.stdin.write(given)
            await self.stdin.drain()
        self.stdin.close()
        printed = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return printed[0], printed[1]

    def send_signal(self, number: int) -> None:
        """Send a signal if it runs."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


class Forks:
    """The process that forks; it ends with this one."""

    def __init__(self) -> None:
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _MAIN, str(theirs.fileno())], cwd=_REPOSITORY, pass_fds=[theirs.fileno()]
            )

    async def start(self, script: str, environment: Mapping[str, str]) -> ForkedPython:
        """Start a script as a main program with everything imported."""
        process = ForkedPython()
        await process.start(self._control, script, environment)
        return process

    def close(self) -> None:
        """End the process that forks; programs go on."""
        self._control.close()
        self._process.wait(60)


async def _reader(descriptor: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", 0)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


async def _writer(descriptor: int) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(descriptor, "wb", 0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)
