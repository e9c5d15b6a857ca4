"""The observed files of a folder. A look reads the whole tree, or of a large one only the files that a watch names."""

import logging
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import PurePosixPath

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.extras import needs

from .folder import TEMPORARY, FileStat, Folder
from .folder_watch import FolderWatch

with needs("connectors", "the file system connector"):
    import pathspec

__all__ = ["MOST_FILES", "FileTree", "IgnoreRules"]

_logger = logging.getLogger("memory_context")

Files = Mapping[str, FileStat]

_MOST_PATTERNS = 500  # of one file; RE2 compiles a thousand
_MOST_CHARACTERS = 16_000
MOST_FILES = 200_000
_MOST_DEPTH = 100
_LEAST_WATCHED = 5000  # files; fewer are read in some 50 ms
_MOST_CHANGED = 1000  # paths; more are read as fast with all others
_WHOLE_SECONDS = 60.0  # no event tells of writes through mmap and by other machines


class IgnoreRules:
    """The rules of all `.gitignore` files below a root; a file's text is compiled once."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._specs: dict[str, pathspec.GitIgnoreSpec] = {}

    def put(self, folder: str, text: str | None) -> None:
        """Set the text of a folder's `.gitignore`, None if it has none. Folders end in `/`, the root is empty."""
        if text == self._texts.get(folder):
            return
        self._texts.pop(folder, None)
        self._specs.pop(folder, None)
        if text is not None:
            self._texts[folder] = text
            self._specs[folder] = _spec(folder, text)

    def is_ignored(self, path: str) -> bool:
        """Return whether a file, or a folder ending in `/`, is ignored; the rules nearest to it decide."""
        folder = path.rstrip("/") if self._specs else ""
        while folder:
            folder = folder[: folder.rstrip("/").rfind("/") + 1]
            if folder in self._specs:
                verdict = self._specs[folder].check_file(path[len(folder) :]).include
                if verdict is not None:
                    return verdict
        return False


def _spec(folder: str, text: str) -> pathspec.GitIgnoreSpec:
    """Compile patterns for RE2, in linear time; those that are none are left out, as git does."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    room, kept = _MOST_CHARACTERS, list[str]()
    for line in lines[:_MOST_PATTERNS]:
        room -= len(line)
        if room >= 0 and _is_pattern(line):
            kept.append(line)
    if len(lines) > _MOST_PATTERNS or room < 0:
        _logger.warning(
            "%r has more rules than %d, or longer ones; the others are not heeded", f"{folder}.gitignore", len(kept)
        )
    try:
        return pathspec.GitIgnoreSpec.from_lines(kept, backend="re2")
    except Exception as error:
        _logger.warning("%r is not heeded: %s", f"{folder}.gitignore", error)
        return pathspec.GitIgnoreSpec.from_lines([], backend="re2")


def _is_pattern(line: str) -> bool:
    try:
        pathspec.GitIgnoreSpec.from_lines([line], backend="re2")
    except Exception:  # each kind of error means a malformed line, which git ignores, too
        return False
    return True


class FileTree:
    """The files of a folder that `.gitignore` does not name, without `.git`.

    Attributes:
        files: Those that the last look saw; None before the first.
    """

    def __init__(self) -> None:
        self.files: dict[str, FileStat] | None = None
        self._rules = IgnoreRules()
        self._watch: FolderWatch | None = None
        self._can_watch = True
        self._whole_at = 0.0

    @contextmanager
    def look(self, folder: Folder) -> Generator[tuple[Files | None, Files], None, None]:
        """Yield files as the last look saw them, None before the first, and as they are: all, or those that changed.

        That counts as seen if the caller does not raise.
        """
        try:
            before, after = self._changed(folder) or (self.files, self._read(folder))
            yield before, after
        except BaseException:
            self.close()  # its events are read, so that the next look has to read the whole tree
            raise
        if self.files is None or before is self.files:
            self.files = dict(after)
            return
        for path in before or ():
            del self.files[path]
        self.files.update(after)

    def close(self) -> None:
        """End the watch; the next look reads the whole tree."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _give_up(self, error: OSError) -> None:
        _logger.warning("a large folder is read whole at each look: %s", error)
        self._can_watch = False
        self.close()

    def _read(self, folder: Folder) -> dict[str, FileStat]:
        is_large = self.files is not None and _LEAST_WATCHED <= len(self.files) < MOST_FILES
        if is_large and self._watch is None and self._can_watch:
            try:
                self._watch = FolderWatch(folder.root)  # first: what changes while the tree is read is looked at again
            except OSError as error:
                self._give_up(error)
        self._whole_at = time.monotonic() + _WHOLE_SECONDS
        return dict(islice(self._walk(folder), MOST_FILES))

    def _changed(self, folder: Folder) -> tuple[Files, Files] | None:
        """Return the files that the watch names, as they were and as they are; None if the tree has to be read."""
        if self._watch is None or self.files is None or time.monotonic() > self._whole_at:
            return None
        try:
            changed = [*filter(self._is_observed, self._watch.changed())]
        except OSError as error:
            self._give_up(error)
            return None
        if len(changed) > _MOST_CHANGED or len(self.files) + len(changed) >= MOST_FILES:
            return None
        if any(PurePosixPath(path).name == ".gitignore" or self._is_folder(folder, path) for path in changed):
            return None
        before = {path: self.files[path] for path in changed if path in self.files}
        after = {path: known for path in changed if (known := folder.stat(path)) is not None}
        gone = tuple(f"{path}/" for path in changed if path not in before and path not in after)
        if gone and any(path.startswith(gone) for path in self.files):
            return None  # a folder went
        return before, after

    def _is_observed(self, path: str) -> bool:
        """Return whether a path may be that of an observed file or folder."""
        *folders, name = path.split("/")
        if ".git" in folders or name.startswith(TEMPORARY) or len(folders) > _MOST_DEPTH:
            return False
        above = ("/".join(folders[:depth]) + "/" for depth in range(1, len(folders) + 1))
        return not any(map(self._rules.is_ignored, [*above, path]))

    def _is_folder(self, folder: Folder, path: str) -> bool:
        """Return whether a path is an observed folder, which may have come with files."""
        if path == ".git" or path.endswith("/.git") or self._rules.is_ignored(f"{path}/"):
            return False
        try:
            folder.entries(path)
        except ConnectorError:
            return False
        return True

    def _walk(self, folder: Folder) -> Iterator[tuple[str, FileStat]]:
        """Yield the files of all observed folders."""
        waiting = [""]
        while waiting:
            here = waiting.pop()
            try:
                entries = folder.entries(here)
            except ConnectorError:  # it went away
                continue
            has_rules = any(name == ".gitignore" for name, _ in entries)
            self._rules.put(here, folder.text(f"{here}.gitignore") if has_rules else None)
            for name, known in entries:
                path = f"{here}{name}"
                if name == ".git/" or self._rules.is_ignored(path):
                    continue
                if name.endswith("/"):
                    waiting += [path] if path.count("/") <= _MOST_DEPTH else []
                elif known is not None:
                    yield path, known
