"""A shell that stays open: its process, its output of any size, and a guard that ends it with the program.

Commands reach the shell over a pipe of their own and answer over another, so that the terminal carries nothing but what
programs read and write.
"""

import asyncio
import fcntl
import os
import pty
import signal
import struct
import tempfile
import termios
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import IO

from memory_context.foundation.errors import ConnectorError

from .child_processes import Watchdog

__all__ = ["Ended", "ShellProcess"]

_LOOP = """
trap "" INT
while IFS= read -r -d "" command <&3; do
    trap : INT  # an interrupt ends the command, not the shell
    eval "$command" 3<&- 4>&-
    code=$?
    trap "" INT
    printf "%s\\0%s\\0" "$code" "$PWD" >&4
done
"""
_MEMORY_BYTES = 4 << 20
_LAST_READS = 64  # of at most 64 kB


@dataclass(frozen=True)
class Ended:
    """How a command ended; `folder` is the shell's afterwards."""

    exit_code: int
    folder: str
    seconds: float


class ShellProcess:
    """One `bash` behind a terminal without echo.

    Attributes:
        command: The one that runs now; None if none does.
        folder: As of the last command that ended.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.command: str | None = None
        self._began_at = 0.0
        self._ended: Ended | None = None
        self._news = asyncio.Event()
        self._output: IO[bytes] = tempfile.SpooledTemporaryFile(_MEMORY_BYTES)  # noqa: SIM115 # closed by `close`
        self._size = 0
        self._answer = b""
        self._process: asyncio.subprocess.Process | None = None
        self._watchdog = Watchdog()
        self._is_over = False
        self._terminal = self._control = self._answers = -1

    @property
    def is_open(self) -> bool:
        return self._process is not None and not self._is_over

    @property
    def size(self) -> int:
        """Bytes of output so far."""
        return self._size

    async def open(self) -> None:
        """Start the shell and its guard.

        Raises:
            ConnectorError: There is no bash, or the folder cannot be entered.
        """
        terminal, terminal_of_shell = pty.openpty()
        control_of_shell, control = os.pipe()
        answers, answers_of_shell = os.pipe()
        _without_echo(terminal_of_shell)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *("bash", "--noprofile", "--norc", "-c", f"exec 3<&{control_of_shell} 4>&{answers_of_shell}\n{_LOOP}"),
                cwd=self.folder,
                stdin=terminal_of_shell,
                stdout=terminal_of_shell,
                stderr=terminal_of_shell,
                pass_fds=(control_of_shell, answers_of_shell),
                start_new_session=True,
                env={**os.environ, "TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat"},
            )
            await self._watchdog.start(self._process.pid)
        except OSError as error:
            for fd in (terminal, control, answers):
                os.close(fd)
            await self.close()
            raise ConnectorError(f"no shell in {self.folder}: {error.strerror}") from error
        finally:
            for fd in (terminal_of_shell, control_of_shell, answers_of_shell):
                os.close(fd)
        self._terminal, self._control, self._answers = terminal, control, answers
        loop = asyncio.get_running_loop()
        os.set_blocking(terminal, False)
        os.set_blocking(answers, False)
        loop.add_reader(terminal, self._read_output)
        loop.add_reader(answers, self._read_answer)

    async def close(self) -> None:
        """End the shell and all that it started; a second time does nothing."""
        process, self._process = self._process, None
        loop = asyncio.get_running_loop()
        for fd in (self._terminal, self._control, self._answers):
            if fd >= 0:
                loop.remove_reader(fd)
                os.close(fd)
        self._terminal = self._control = self._answers = -1
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        await self._watchdog.stop()
        self.command = None
        self._news.set()
        self._output.close()

    async def run(self, command: str) -> None:
        """Give a command to the shell.

        Raises:
            ConnectorError: Another runs, or the shell has ended.
        """
        if not self.is_open:
            raise ConnectorError("the shell has ended; it opens again with the next message")
        if self.command is not None:
            raise ConnectorError(f"{self.command[:80]!r} is still running: send it input, read more, or interrupt it")
        if "\0" in command:
            raise ConnectorError("a command cannot hold NUL characters")
        self.command, self._ended, self._began_at = command, None, time.monotonic()
        # in a thread: bash reads a long command byte by byte
        await asyncio.to_thread(_write_all, self._control, command.encode("utf-8", "replace") + b"\0")

    def send(self, text: str) -> None:
        """Write to the terminal, as typed."""
        if not self.is_open:
            raise ConnectorError("the shell has ended; it opens again with the next message")
        _write_all(self._terminal, text.encode("utf-8", "replace"))

    def interrupt(self) -> None:
        """Send SIGINT to the running command."""
        if self._process is not None and self.command is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGINT)

    async def ended(self, seconds: float) -> Ended | None:
        """Wait for the running command; None if it still runs then."""
        deadline = time.monotonic() + seconds
        while self._ended is None and self.is_open and (left := deadline - time.monotonic()) > 0:
            await self.wait(left)
        return self._ended

    async def wait(self, seconds: float) -> None:
        """Wait until something was written, or the command ended."""
        self._news.clear()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._news.wait(), seconds)

    def output(self, first_byte: int, limit_bytes: int) -> bytes:
        """Return a part of the output."""
        self._output.seek(first_byte)
        return self._output.read(limit_bytes)

    def _read_output(self) -> None:
        try:
            data = os.read(self._terminal, 1 << 16)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:  # the last process at the terminal has ended
            data = b""
        if not data:
            asyncio.get_running_loop().remove_reader(self._terminal)
            self._news.set()
            return
        self._output.seek(0, os.SEEK_END)
        self._size += self._output.write(data)
        self._news.set()

    def _read_answer(self) -> None:
        try:
            data = os.read(self._answers, 1 << 16)
        except (BlockingIOError, InterruptedError):
            return
        if not data:
            asyncio.get_running_loop().remove_reader(self._answers)
            self._is_over, self.command = True, None
            self._read_output_left()
            self._news.set()
            return
        self._answer += data
        if self._answer.count(b"\0") >= 2:
            code, folder, self._answer = self._answer.split(b"\0", 2)
            self._read_output_left()
            self.folder = folder.decode("utf-8", "replace")
            self._ended = Ended(int(code), self.folder, time.monotonic() - self._began_at)
            self.command = None
            self._news.set()

    def _read_output_left(self) -> None:
        """Read the rest of an ended command's output, bounded: a background process may write for ever."""
        for _ in range(_LAST_READS):
            before = self._size
            self._read_output()
            if self._size == before:
                return


def _without_echo(terminal: int) -> None:
    settings = termios.tcgetattr(terminal)
    settings[1] &= ~termios.OPOST  # line ends stay as they are
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, settings)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))


def _write_all(fd: int, data: bytes) -> None:
    """Write at once; a pipe or terminal that is full is an error that the agent can act on."""
    while data:
        try:
            data = data[os.write(fd, data) :]
        except BrokenPipeError:
            raise ConnectorError("the shell has ended; it opens again with the next command") from None
        except BlockingIOError:
            raise ConnectorError(
                "the running program reads no more input now; read its output, then send the rest"
            ) from None
