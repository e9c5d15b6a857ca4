"""Stores that are away or hang."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil

from memory_context.foundation.errors import StoreUnavailableError
from tests.conftest import Server


@contextmanager
def hanging(server: Server) -> Iterator[None]:
    """Stop every process of the server, as a machine that ran out of memory does."""
    postmaster = psutil.Process(int((server.folder / "postgres" / "postmaster.pid").read_text().split()[0]))
    pids = [process.pid for process in (postmaster, *postmaster.children())]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):  # it ended before it could be stopped
                os.kill(pid, signal.SIGCONT)


async def away(*_: object, **__: object) -> Any:
    """Answer as a store that cannot be reached."""
    raise StoreUnavailableError("away")
