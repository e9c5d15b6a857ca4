"""Child processes that end with this program, or at limits of time and memory.

Parsers of documents and of code are native code: a hostile file may crash or hang that process, but not this one.
"""

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

from memory_context.foundation.errors import ConnectorError

__all__ = ["Watchdog", "run_limited"]

_BEGIN = """
import resource, runpy, sys
memory, seconds, program = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
limits = {"RLIMIT_AS": memory, "RLIMIT_CPU": seconds, "RLIMIT_FSIZE": 0, "RLIMIT_CORE": 0}
for name, value in limits.items():
    try:
        resource.setrlimit(getattr(resource, name), (value, value))
    except (AttributeError, ValueError):  # a system without it
        pass
sys.argv[:] = sys.argv[3:]
runpy.run_path(program, run_name="__main__")
"""
_KEPT = ("PATH", "LD_LIBRARY_PATH")
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2"}
_KILL_AT_END = """
import os, signal, sys
while os.read(0, 1):
    pass
try:
    os.killpg(int(sys.argv[1]), signal.SIGKILL)
except ProcessLookupError:
    pass
"""


async def run_limited(program: str, *arguments: str, data: bytes, seconds: float, memory_bytes: int) -> bytes:
    """Return what a module of this package writes to stdout when it is run as a script.

    It inherits no environment, writes no files, and is killed with a cancelled call.

    Args:
        program: Name of the module, which imports no other of this package.
        data: Its stdin.
        seconds: The longest it may take.

    Raises:
        ConnectorError: It passed a limit, or crashed.
    """
    path = Path(__file__).with_name(f"{program}.py")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-B", "-c", _BEGIN, str(memory_bytes), str(int(seconds) + 1), str(path), *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={name: os.environ[name] for name in _KEPT if name in os.environ} | _ONE_THREAD,
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(data), seconds)
    except asyncio.TimeoutError:
        raise ConnectorError(f"it took more than {seconds:g} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode:
        raise ConnectorError(f"it needs more than {memory_bytes >> 20:,} MB, or cannot be handled")
    return output


class Watchdog:
    """Kills a process group when this program ends, also by SIGKILL: it holds a pipe to the program."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, group: int) -> None:
        """Watch the process group of this id.

        Raises:
            OSError: No process can be started.
        """
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _KILL_AT_END, str(group)),
            stdin=asyncio.subprocess.PIPE,
            start_new_session=True,
        )

    async def stop(self) -> None:
        """Kill what is left of the group, and end; a second time does nothing."""
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            await process.wait()
