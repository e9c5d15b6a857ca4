"""Temporary files of tests in memory: a database on a disk costs half of its processor time for the file system."""

import os
import shutil
import tempfile
from pathlib import Path

import psutil

__all__ = ["SCRATCH", "use_scratch"]

_MEMORY = Path("/dev/shm")
_NEEDED_BYTES = 6 << 30  # four workers with a server each take a third of it


def _is_in_memory() -> bool:
    """Whether the folder in memory is there, has room, and programs in it may be run, which containers forbid."""
    try:
        return (
            not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC
            and os.access(_MEMORY, os.W_OK | os.X_OK)
            and min(shutil.disk_usage(_MEMORY).free, psutil.virtual_memory().available) > _NEEDED_BYTES
        )
    except OSError:
        return False


SCRATCH = _MEMORY if _is_in_memory() else Path("/tmp")
"""Folder for servers, whose sockets need a short path."""


def use_scratch() -> None:
    """Have this process, and those that it starts, make their temporary files there, unless TMPDIR says otherwise."""
    if SCRATCH == _MEMORY:
        os.environ.setdefault("TMPDIR", str(SCRATCH))
        tempfile.tempdir = None
