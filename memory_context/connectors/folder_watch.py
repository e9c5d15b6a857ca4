"""Tells which paths below a folder changed, by the operating system's notifications (watchfiles)."""

import os
import tempfile
import time
from pathlib import Path

try:
    from watchfiles._rust_notify import RustNotify
except ImportError:  # there are platforms without a wheel
    RustNotify = None

__all__ = ["FolderWatch"]

_WAIT_SECONDS = 2.0
_DEBOUNCE_MS, _STEP_MS = 5, 1


class FolderWatch:
    """A watch on a folder and all folders below it.

    A thread of watchfiles reads the events, in order. A mark that is made in a watched folder of our own tells when it
    has read all that happened before.

    Raises:
        OSError: No watch is left (`fs.inotify.max_user_watches`), or watchfiles is not installed.
    """

    def __init__(self, root: str) -> None:
        real = os.path.realpath(root)  # as events name it
        self._root = f"{real.rstrip('/')}/"
        self._number = 0
        self._marks = tempfile.TemporaryDirectory(prefix="memory-context-", dir=os.path.realpath(tempfile.gettempdir()))
        if RustNotify is None:
            raise OSError("watchfiles is not installed")
        try:
            self._notify = RustNotify([real, self._marks.name], False, False, 300, True, True)
        except RuntimeError as error:
            raise OSError(str(error)) from error

    def changed(self) -> set[str]:
        """Return the paths, relative to the root, that changed since the last call.

        Raises:
            OSError: Events may be missing.
        """
        try:
            paths = self._read()
            # new folders are watched once their events are read: who looks after that misses nothing in them
            paths |= self._read() if paths else set()
        except RuntimeError as error:
            raise OSError(str(error)) from error
        return {path.removeprefix(self._root) for path in paths if path.startswith(self._root)}

    def _read(self) -> set[str]:
        self._number += 1
        mark = Path(self._marks.name, str(self._number))
        mark.touch()
        mark.unlink()
        paths, ends_at = set[str](), time.monotonic() + _WAIT_SECONDS
        while str(mark) not in paths:
            left_ms = int(1000 * (ends_at - time.monotonic()))
            found = self._notify.watch(_DEBOUNCE_MS, _STEP_MS, left_ms, None) if left_ms > 0 else "timeout"
            if isinstance(found, str):
                raise TimeoutError(f"no event of {mark} came: {found}")
            paths.update(path for _, path in found)
        return {path for path in paths if not path.startswith(f"{self._marks.name}/")}

    def close(self) -> None:
        """End the watch; a second time does nothing."""
        if hasattr(self, "_notify"):  # else it could not begin
            self._notify.close()
        self._marks.cleanup()

    def __del__(self) -> None:
        self.close()  # a user has only 128 of them
