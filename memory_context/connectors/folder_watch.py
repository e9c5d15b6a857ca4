"""Tells in which folders something changed, by inotify of Linux.

The kernel queues an event before the call that made the change returns, and the queue is read when asked: a change that
happened before is never missing, and an overflow is told. Libraries that read in a thread of their own give neither.
"""

import ctypes
import errno
import logging
import os
import struct
from contextlib import suppress
from typing import Any

__all__ = ["FolderWatch"]

_logger = logging.getLogger("memory_context")

_EVENT = struct.Struct("iIII")
_MODIFY, _ATTRIB, _MOVED, _CREATE, _DELETE = 0x2, 0x4, 0xC0, 0x100, 0x200
_UNMOUNT, _OVERFLOW, _IGNORED, _IS_FOLDER = 0x2000, 0x4000, 0x8000, 0x40000000
_ONLY_FOLDERS = 0x1000000
_MASK = _MODIFY | _ATTRIB | _MOVED | _CREATE | _DELETE | _ONLY_FOLDERS


class FolderWatch:
    """Watches on folders, each by its path below a root, which ends in `/` (the root's is empty).

    Raises:
        OSError: There is no inotify here, or no instance is left.
    """

    _fd = -1

    def __init__(self) -> None:
        self._libc: Any = ctypes.CDLL(None, use_errno=True)
        self._paths: dict[int, str] = {}
        if not hasattr(self._libc, "inotify_init1"):
            raise OSError(errno.ENOSYS, "no inotify")
        self._fd = _checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    @classmethod
    def opened(cls) -> "FolderWatch | None":
        """Return a watch; None where there can be none."""
        try:
            return cls()
        except OSError as error:
            _logger.debug("folders are not watched: %s", error)
            return None

    def add(self, folder_fd: int, path: str) -> None:
        """Watch an open folder, once more if it is watched. A folder that is listed afterwards is listed completely.

        Raises:
            OSError: No watch is left (`fs.inotify.max_user_watches`), or there is no `/proc`.
        """
        name = f"/proc/self/fd/{folder_fd}".encode()
        self._paths[_checked(self._libc.inotify_add_watch(self._fd, name, _MASK))] = path

    def changed(self) -> tuple[set[str], set[str]] | None:
        """Return what changed since the last call: folders with changed files, and folders that came, went or moved.

        None if events were lost.
        """
        files: set[str] = set()
        folders: set[str] = set()
        is_lost = False
        with suppress(BlockingIOError):
            while data := os.read(self._fd, 1 << 16):
                at = 0
                while at < len(data):
                    watch, mask, _, length = _EVENT.unpack_from(data, at)
                    name = os.fsdecode(data[at + _EVENT.size : at + _EVENT.size + length].rstrip(b"\0"))
                    at += _EVENT.size + length
                    is_lost = is_lost or bool(mask & (_OVERFLOW | _UNMOUNT))
                    path = self._paths.pop(watch, None) if mask & _IGNORED else self._paths.get(watch)
                    if path is not None and name and mask & _IS_FOLDER:
                        folders.add(f"{path}{name}/")
                    elif path is not None:
                        files.add(path)
        return None if is_lost else (files, folders)

    def close(self) -> None:
        """Close all watches; a second time does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __del__(self) -> None:
        self.close()  # a user has only 128 of them


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
