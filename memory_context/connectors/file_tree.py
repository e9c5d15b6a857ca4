"""The observed files of a folder. A look reads the whole tree, or only the folders of a large one that changed."""

import logging
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.extras import needs

from .folder import FileStat, Folder
from .folder_watch import FolderWatch

with needs("connectors", "the file system connector"):
    import pathspec

__all__ = ["MOST_FILES", "FileTree", "IgnoreRules", "TreeLook"]

_MOST_PATTERNS = 500  # of one file; RE2 compiles a thousand
_MOST_CHARACTERS = 16_000
MOST_FILES = 200_000
_MOST_DEPTH = 100
_LEAST_WATCHED = 5000  # files; fewer are read in some 50 ms
_MOST_CHANGED = 200  # folders; more are read as fast with all others
_WHOLE_SECONDS = 60.0  # inotify does not tell of writes through mmap and by other machines


class IgnoreRules:
    """The rules of all `.gitignore` files below a root; a file's text is compiled once."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._specs: dict[str, pathspec.GitIgnoreSpec] = {}

    def put(self, folder: str, text: str | None) -> bool:
        """Set the text of a folder's `.gitignore`, None if it has none, and return whether that changed.

        Folders end in `/`, the root is empty.
        """
        if text == self._texts.get(folder):
            return False
        self._texts.pop(folder, None)
        self._specs.pop(folder, None)
        if text is not None:
            self._texts[folder] = text
            self._specs[folder] = _spec(folder, text)
        return True

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


_logger = logging.getLogger("memory_context")


@dataclass(frozen=True)
class TreeLook:
    """Files by path as they were and as they are: all of them, or those of folders in which something changed.

    Attributes:
        before: None if nothing was known.
    """

    before: Mapping[str, FileStat] | None
    after: Mapping[str, FileStat]
    is_whole: bool


class FileTree:
    """The files of a folder that `.gitignore` does not name, without `.git`.

    Attributes:
        files: Those that the last look saw; None before the first.
    """

    def __init__(self) -> None:
        self.files: dict[str, FileStat] | None = None
        self._listed: dict[str, list[str]] = {}
        self._rules = IgnoreRules()
        self._are_rules_new = False
        self._watch: FolderWatch | None = None
        self._can_watch = True
        self._whole_at = 0.0

    @contextmanager
    def look(self, folder: Folder) -> Generator[TreeLook, None, None]:
        """Yield what changed since the last look; it counts as seen if the caller does not raise."""
        try:
            look = self._partial(folder) or self._whole(folder)
            yield look
        except BaseException:
            self.close()  # what it told is read, so that the next look has to be whole
            raise
        if look.is_whole or self.files is None:
            self.files = dict(look.after)
            return
        for path in look.before or ():
            self.files.pop(path, None)
        self.files.update(look.after)

    def close(self) -> None:
        """End the watch; the next look reads the whole tree."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _whole(self, folder: Folder) -> TreeLook:
        self.close()
        self._listed.clear()
        self._whole_at = time.monotonic() + _WHOLE_SECONDS
        is_large = self.files is None or 2 * len(self.files) >= _LEAST_WATCHED
        self._watch = FolderWatch.opened() if is_large and self._can_watch else None
        after = dict(islice(self._walk(folder, [""]), MOST_FILES))
        if not _LEAST_WATCHED <= len(after) < MOST_FILES:
            self.close()
        return TreeLook(self.files, after, True)

    def _partial(self, folder: Folder) -> TreeLook | None:
        """Look into the folders that changed; None if that does not do."""
        if self._watch is None or self.files is None or time.monotonic() > self._whole_at:
            return None
        changed = self._watch.changed()
        if changed is None or len(changed[0]) + len(changed[1]) > _MOST_CHANGED:
            return None
        with_files, moved = changed
        taken = [one for tree in moved for one in [*self._listed] if one.startswith(tree)]
        with_files |= {tree[: tree.rstrip("/").rfind("/") + 1] for tree in moved}
        waiting = [one for one in with_files if one in self._listed and one not in taken]
        before = {path: self.files[path] for one in {*taken, *waiting} for path in self._listed.pop(one)}
        self._are_rules_new = False
        after = dict(self._walk(folder, waiting))
        if self._are_rules_new or len(self.files) - len(before) + len(after) >= MOST_FILES:
            return None
        return TreeLook(before, after, False)

    def _walk(self, folder: Folder, waiting: list[str]) -> Iterator[tuple[str, FileStat]]:
        """Yield the files of folders, and of folders below them that are not listed yet."""
        while waiting:
            here = waiting.pop()
            if here in self._listed:
                continue
            try:
                entries = folder.entries(here, partial(self._add_watch, here))
            except ConnectorError:  # it went away
                continue
            files: list[str] = []
            self._listed[here] = files
            has_rules = any(name == ".gitignore" for name, _ in entries)
            self._are_rules_new |= self._rules.put(here, folder.text(f"{here}.gitignore") if has_rules else None)
            for name, known in entries:
                path = f"{here}{name}"
                if name == ".git/" or self._rules.is_ignored(path):
                    continue
                if name.endswith("/"):
                    waiting += [path] if path.count("/") <= _MOST_DEPTH else []
                elif known is not None:
                    files.append(path)
                    yield path, known

    def _add_watch(self, path: str, fd: int) -> None:
        if self._watch is not None:
            try:
                self._watch.add(fd, path)
            except OSError as error:
                _logger.warning("a large folder is read whole at each look: %s", error)
                self.close()
                self._can_watch = False
