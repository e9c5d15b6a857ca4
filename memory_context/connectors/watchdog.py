"""A process that kills a process group when this program ends, also by SIGKILL: it holds a pipe to the program."""

import asyncio
import sys

__all__ = ["Watchdog"]

_SCRIPT = """
import os, signal, sys
while os.read(0, 1):
    pass
try:
    os.killpg(int(sys.argv[1]), signal.SIGKILL)
except ProcessLookupError:
    pass
"""


class Watchdog:
    """Watches one process group for as long as it is started."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, group: int) -> None:
        """Watch the process group of this id.

        Raises:
            OSError: No process can be started.
        """
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", "-c", _SCRIPT, str(group)),
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
