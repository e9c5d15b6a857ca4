"""A folder that cannot be left: every path is walked from one open descriptor, and no link is followed.

A `..`, an absolute path, a symbolic link, or a folder that is replaced by a link meanwhile leads to an error, never
outside (each step is `openat` with O_NOFOLLOW, as openat2's RESOLVE_BENEATH does in the kernel).
"""

import asyncio
import errno
import mimetypes
import os
import stat
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import BinaryIO, NamedTuple

from autogen_core import Component, ComponentBase
from autogen_core.tools import FunctionTool
from pydantic import BaseModel
from typing_extensions import Self

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.patterns import LinePattern, OutOfTimeError
from memory_context.foundation.utf8 import to_utf8

__all__ = ["FileStat", "Folder", "FolderConnector", "kind_and_size", "matching_lines", "shown"]

_TEXT_BYTES = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TEMPORARY = ".memory-context-"


class FileStat(NamedTuple):
    """Size, modification time in nanoseconds and inode of a file; a change of any means that the file changed."""

    size: int
    modified_ns: int
    inode: int


class Folder:
    """A folder by its descriptor; paths are relative, with `/`.

    Raises:
        ConnectorError: It is no folder, or cannot be opened.
    """

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        try:
            self._fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ConnectorError(f"{self.root} cannot be opened as a folder: {error.strerror}") from error

    def close(self) -> None:
        """Close the descriptor; a second time does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read(self, path: str, limit_bytes: int) -> bytes:
        """Return at most so many bytes of a file."""
        with self._file(path) as file:
            return file.read(limit_bytes)

    def text(self, path: str) -> str | None:
        """Return a text to be shown; None for a binary or large file, and for what is no file."""
        with suppress(ConnectorError):
            data = self.read(path, _TEXT_BYTES + 1)
            return data.decode("utf-8", "replace") if _is_text(data) else None
        return None

    def read_text(self, path: str) -> tuple[str, FileStat]:
        """Return a text as it is, and the file's state from before it was read; ConnectorError if it is no text."""
        with self._file(path) as file:
            found = os.fstat(file.fileno())
            data = file.read(_TEXT_BYTES + 1)
        if not _is_text(data):
            about = kind_and_size(path, found.st_size)
            raise ConnectorError(f"{shown(path)} is not read ({about}): only text of at most {_TEXT_BYTES:,} bytes is")
        try:
            return data.decode(), FileStat(found.st_size, found.st_mtime_ns, found.st_ino)
        except UnicodeDecodeError as error:
            where = f"{shown(path)} is not UTF-8 at byte {error.start}"
            raise ConnectorError(f"{where}; an edit would change other bytes") from None

    def stat(self, path: str) -> FileStat | None:
        """Return what is known of a file; None for a folder, a link, anything else, or nothing there."""
        try:
            with self._parent(path) as (parent, name):
                return _file_stat(os.stat(name, dir_fd=parent, follow_symlinks=False))
        except (ConnectorError, OSError):
            return None

    def write(self, path: str, data: bytes, expected: FileStat | None = None) -> FileStat | None:
        """Write a file whole, so that nobody reads half of it, and return its state; missing folders are made.

        Args:
            expected: The state in which the file was read; one in another state is not overwritten. None: any state.
        """
        with self._parent(path, make=True) as (parent, name):
            mode = 0o644
            with suppress(FileNotFoundError):
                mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
                if not stat.S_ISREG(mode):  # replacing it would make a file of a link
                    what = "a symbolic link" if stat.S_ISLNK(mode) else "a folder" if stat.S_ISDIR(mode) else "no file"
                    raise ConnectorError(f"{shown(path)} is {what}; only files are written, and links are not followed")
                mode = stat.S_IMODE(mode)
            temporary = f"{_TEMPORARY}{os.urandom(6).hex()}"
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode, dir_fd=parent)
            try:
                with os.fdopen(fd, "wb") as file:
                    file.write(data)
                    os.fchmod(file.fileno(), mode)
                    file.flush()
                    written = _file_stat(os.fstat(file.fileno()))
                if expected is not None and expected != _file_stat(os.stat(name, dir_fd=parent, follow_symlinks=False)):
                    raise ConnectorError(f"{shown(path)} was changed by another process just now; read it again")
                os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=parent)
                raise
            return written

    def move(self, path: str, to: str) -> None:
        """Move a file or folder; what is there already stays, with an error."""
        with self._parent(path) as (parent, name), self._parent(to, make=True) as (new_parent, new_name):
            with suppress(FileNotFoundError):
                os.stat(new_name, dir_fd=new_parent, follow_symlinks=False)
                raise ConnectorError(f"{to} exists already; delete it first, or choose another name")
            os.rename(name, new_name, src_dir_fd=parent, dst_dir_fd=new_parent)

    def delete(self, path: str) -> None:
        """Delete a file, a link, or an empty folder."""
        with self._parent(path) as (parent, name):
            if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                os.rmdir(name, dir_fd=parent)
            else:
                os.unlink(name, dir_fd=parent)

    def entries(self, path: str = "") -> list[tuple[str, FileStat | None]]:
        """Return names with what is known of files, in order; None for folders, whose names end in `/`, and links."""
        found: list[tuple[str, FileStat | None]] = []
        with self._folder(path) as fd, os.scandir(fd) as entries:
            for entry in entries:
                with suppress(OSError):
                    is_folder = entry.is_dir(follow_symlinks=False)
                    known = None if is_folder else _file_stat(entry.stat(follow_symlinks=False))
                    if not entry.name.startswith(_TEMPORARY):
                        found.append((f"{entry.name}/" if is_folder else entry.name, known))
        return sorted(found)

    @contextmanager
    def _file(self, path: str) -> Generator[BinaryIO, None, None]:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC  # a pipe would wait for its writer
        with self._parent(path) as (parent, name):
            fd = os.open(name, flags, dir_fd=parent)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                os.close(fd)
                raise ConnectorError(f"{path} is not a file")
            with os.fdopen(fd, "rb") as file:
                yield file

    @contextmanager
    def _parent(self, path: str, *, make: bool = False) -> Generator[tuple[int, str], None, None]:
        parts = _parts(path)
        if not parts:
            raise ConnectorError(f"{path!r} names no file; give a path below the folder")
        with self._folder("/".join(parts[:-1]), make=make) as fd:
            try:
                yield fd, parts[-1]
            except OSError as error:
                raise _told(error, path) from error

    @contextmanager
    def _folder(self, path: str, *, make: bool = False) -> Generator[int, None, None]:
        fd = os.dup(self._fd)
        try:
            for part in _parts(path):
                try:
                    if make:
                        with suppress(FileExistsError):
                            os.mkdir(part, dir_fd=fd)
                    below = os.open(part, _DIRECTORY, dir_fd=fd)
                except OSError as error:
                    raise _told(error, path) from error
                os.close(fd)
                fd = below
            yield fd
        finally:
            os.close(fd)


class _RootAndId(BaseModel):
    root: str
    id: str


class FolderConnector(ComponentBase[BaseModel], Component[_RootAndId]):
    """The part of a connector that opens one folder at the start; its tools cannot leave it."""

    component_type = "connector"
    component_config_schema = _RootAndId

    def __init__(self, root: str, id: str) -> None:
        self.id = id
        self.root = root
        self._folder: Folder | None = None
        self._lock = threading.Lock()  # parallel calls may edit one file

    def _named(self, *functions: tuple[Callable[..., str], str, str]) -> list[FunctionTool]:
        """Return tools that AutoGen runs in threads: functions with the ends of their names and what they do."""
        return [FunctionTool(function, about, name=f"{self.id}_{name}") for function, name, about in functions]

    def _to_config(self) -> _RootAndId:
        return _RootAndId(root=self.root, id=self.id)

    @classmethod
    def _from_config(cls, config: _RootAndId) -> Self:
        return cls(config.root, config.id)

    async def on_start(self) -> None:
        """Open the folder."""
        if self._folder is None:
            self._folder = await asyncio.to_thread(Folder, self.root)

    async def on_stop(self) -> None:
        """Close the folder, once no edit is under way."""

        def close() -> None:
            with self._lock:
                folder, self._folder = self._folder, None
                if folder is not None:
                    folder.close()

        await asyncio.to_thread(close)

    @property
    def _open(self) -> Folder:
        if self._folder is None:
            raise ConnectorError(f"the folder {self.root} is not open; the session has not begun, or has ended")
        return self._folder


def shown(path: str) -> str:
    """Return a path as text: quoted if it holds line breaks or characters that change how a line reads."""
    return path if path.isprintable() else ascii(path)


def kind_and_size(path: str, size: int) -> str:
    """Return the MIME type that a name stands for, and the size."""
    return f"{mimetypes.guess_type(path)[0] or 'binary'}, {size:,} bytes"


def matching_lines(path: str, text: str, pattern: LinePattern, ends_at: float) -> Iterator[str]:
    """Yield the lines of a text that match, with its path and their numbers, until `ends_at` of `time.monotonic`."""
    data = to_utf8(text)
    seen = -1
    try:
        for start, _ in pattern.spans(data, 0, len(data), ends_at):
            begin = data.rfind(b"\n", 0, start) + 1
            if begin > seen:
                seen = begin
                line = data[begin : begin + 300].partition(b"\n")[0].decode("utf-8", "replace").rstrip("\r")
                yield f"{shown(path)}:{data.count(10, 0, begin) + 1}: {line}"
    except OutOfTimeError:
        yield f"[stopped in {shown(path)}: it took too long; search a rarer word]"


def _is_text(data: bytes) -> bool:
    # a PDF may be ASCII as a whole; its source is no text for a reader
    return len(data) <= _TEXT_BYTES and b"\0" not in data[:8000] and not data.startswith(b"%PDF-")


def _parts(path: str) -> tuple[str, ...]:
    if "\0" in path:
        raise ConnectorError("a path cannot hold NUL characters")
    parts = PurePosixPath(path).parts
    if path.startswith("/") or ".." in parts:
        raise ConnectorError(f"{path!r} leads out of the folder; give a path relative to it, without '..'")
    return parts


def _file_stat(found: os.stat_result) -> FileStat | None:
    return FileStat(found.st_size, found.st_mtime_ns, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def _told(error: OSError, path: str) -> ConnectorError:
    if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and error.filename is not None):
        return ConnectorError(f"{path} leads through a symbolic link or a file; links are not followed")
    if error.errno == errno.ENOENT:
        return ConnectorError(f"there is no {path}; list the folder to see what there is")
    if error.errno == errno.ENOTEMPTY:
        return ConnectorError(f"{path} is not empty; delete what is in it first")
    return ConnectorError(f"{path}: {error.strerror or type(error).__name__}")
