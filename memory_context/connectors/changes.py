"""The observed files of a folder, and what changed between two looks: created, changed, deleted and moved files.

All files are observed but those that `.gitignore` names, and `.git`.
"""

import difflib
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.extras import needs
from memory_context.foundation.text.landmarks import definition_starts

from .folder import FileStat, Folder, kind_and_size, shown
from .protocols import TextObservation

with needs("connectors", "the file system connector"):
    import pathspec

__all__ = ["MOST_FILES", "FileChange", "IgnoreRules", "KnownTexts", "changes_between", "described", "observed_files"]
__all__ += ["unified_diff"]

_logger = logging.getLogger("memory_context")

MOST_FILES = 200_000
_MOST_DEPTH = 100
_MOST_PATTERNS = 500  # of one file; RE2 compiles a thousand
_MOST_DESCRIBED = 20
_MOST_LINES = 5000
_CONTEXT_LINES = 3
_DIFF_CHARACTERS = 6000
_KNOWN_CHARACTERS = 32 << 20


class IgnoreRules:
    """The rules of all `.gitignore` files below a root; a file's text is compiled once."""

    def __init__(self) -> None:
        self._specs: dict[str, tuple[str, pathspec.GitIgnoreSpec]] = {}

    def put(self, folder: str, text: str | None) -> None:
        """Set the text of a folder's `.gitignore`, None if it has none. Folders end in `/`, the root is empty."""
        if text is None:
            self._specs.pop(folder, None)
        elif folder not in self._specs or text != self._specs[folder][0]:
            self._specs[folder] = text, _spec(folder, text)

    def is_ignored(self, path: str) -> bool:
        """Return whether a file, or a folder ending in `/`, is ignored; the rules nearest to it decide."""
        folder = path.rstrip("/") if self._specs else ""
        while folder:
            folder = folder[: folder.rstrip("/").rfind("/") + 1]
            if folder in self._specs:
                verdict = self._specs[folder][1].check_file(path[len(folder) :]).include
                if verdict is not None:
                    return verdict
        return False


def _spec(folder: str, text: str) -> pathspec.GitIgnoreSpec:
    """Compile patterns for RE2, in linear time; a line that is malformed or too long is left out, as git does."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if len(lines) > _MOST_PATTERNS:
        _logger.warning("%r has more than %d rules; the others are not heeded", f"{folder}.gitignore", _MOST_PATTERNS)
    kept: list[str] = []
    for line in lines[:_MOST_PATTERNS]:
        with suppress(Exception):  # of each kind for a malformed line
            pathspec.GitIgnoreSpec.from_lines([line], backend="re2")
            kept.append(line)
    return pathspec.GitIgnoreSpec.from_lines(kept, backend="re2")


def observed_files(folder: Folder, rules: IgnoreRules) -> dict[str, FileStat]:
    """Return the observed files, at most `MOST_FILES`; 100,000 take about a second."""
    return dict(islice(_walk(folder, rules), MOST_FILES))


def _walk(folder: Folder, rules: IgnoreRules) -> Iterator[tuple[str, FileStat]]:
    waiting = [""]
    while waiting:
        here = waiting.pop()
        try:
            entries = folder.entries(here)
        except ConnectorError:  # it went away
            continue
        has_rules = any(name == ".gitignore" for name, _ in entries)
        rules.put(here, folder.text(f"{here}.gitignore") if has_rules else None)
        for name, known in entries:
            path = f"{here}{name}"
            if name == ".git/" or rules.is_ignored(path):
                continue
            if name.endswith("/"):
                waiting += [path] if path.count("/") <= _MOST_DEPTH else []
            elif known is not None:
                yield path, known


@dataclass(frozen=True)
class FileChange:
    """One change; `path` is where the file is now, or was."""

    kind: str
    path: str
    before: FileStat | None
    after: FileStat | None
    moved_from: str = ""


def changes_between(before: Mapping[str, FileStat], after: Mapping[str, FileStat]) -> list[FileChange]:
    """Return the changes in order of paths; a file that kept its inode or is gone here and new there has moved."""
    gone = {path: known for path, known in before.items() if path not in after}
    by_inode = {known.inode: path for path, known in gone.items()}
    changes: list[FileChange] = []
    for path, now in after.items():
        was = before.get(path)
        source = by_inode.get(now.inode) if was is None else None
        if source is not None and source in gone:
            changes.append(FileChange("moved", path, gone.pop(source), now, source))
        elif was is None:
            changes.append(FileChange("created", path, None, now))
        elif was != now:
            changes.append(FileChange("changed", path, was, now))
    changes += [FileChange("deleted", path, was, None) for path, was in gone.items()]
    return sorted(changes, key=lambda change: change.path)


class KnownTexts(dict[str, str]):
    """Texts of files as they were last seen, by path: the latest ones, of 32 million characters at most."""

    def __init__(self) -> None:
        super().__init__()
        self._characters = 0

    def put(self, path: str, text: str | None) -> None:
        """Remember a text; None forgets it."""
        self._characters -= len(self.pop(path, ""))
        if text is not None:
            self[path] = text
            self._characters += len(text)
        while self._characters > _KNOWN_CHARACTERS:
            self._characters -= len(self.pop(next(iter(self))))


def described(
    source: str, changes: Sequence[FileChange], texts: KnownTexts, now: Mapping[str, str | None]
) -> Iterator[TextObservation]:
    """Yield an observation for each change; many of one kind are counted by folder.

    Args:
        texts: As they were; `now`: as they are, None for a binary file or one that is too large.
    """
    kinds = Counter(change.kind for change in changes)
    for kind, count in kinds.items():
        if count > _MOST_DESCRIBED:
            yield TextObservation(source, _counted(kind, [one for one in changes if one.kind == kind]), kind)
    for change in changes:
        if kinds[change.kind] <= _MOST_DESCRIBED:
            text = f"[{source}] {_line(change, texts.get(change.path), now.get(change.path))}"
            yield TextObservation(source, text, change.kind, change.path)


def _counted(kind: str, changes: Sequence[FileChange]) -> str:
    folders = Counter(change.path.rpartition("/")[0] or "." for change in changes)
    most = ", ".join(f"{count} in {shown(folder)}" for folder, count in folders.most_common(10))
    more = f", and in {len(folders) - 10} more folders" if len(folders) > 10 else ""
    return (
        f"{len(changes):,} files {kind}: {most}{more}; for example {', '.join(shown(one.path) for one in changes[:3])}"
    )


def _line(change: FileChange, before: str | None, now: str | None) -> str:
    path = shown(change.path)
    if change.kind == "deleted":
        return f"Deleted {path}"
    if change.kind == "moved":
        return f"Moved {shown(change.moved_from)} to {path}"
    size = 0 if change.after is None else change.after.size
    about = kind_and_size(change.path, size) if now is None else f"{len(now.splitlines()):,} lines"
    if change.kind == "created":
        return f"Created {path} ({about})"
    if before is None or now is None:
        return f"Changed {path} ({about})"
    diff = unified_diff(before, now)
    return f"Changed {path} ({about})\n{diff}" if diff else f"Written without a change: {path}"


def unified_diff(before: str, after: str) -> str:
    """Return a unified diff whose hunks name the definition around them, cut at a whole hunk or line."""
    old, new = before.splitlines(), after.splitlines()
    if len(old) > _MOST_LINES or len(new) > _MOST_LINES:
        return f"(from {len(old):,} to {len(new):,} lines: too long for a diff)"
    starts = [after.count("\n", 0, start) for start in definition_starts(after)]
    lines: list[str] = []
    room = _DIFF_CHARACTERS
    for line in islice(difflib.unified_diff(old, new, lineterm="", n=_CONTEXT_LINES), 2, None):
        if line.startswith("@@"):
            first = int(line.partition("+")[2].split(" ")[0].split(",")[0]) - 1
            at = next((one for one in reversed(starts) if one <= first + _CONTEXT_LINES), None)
            line += f" {new[at].strip()[:80]}" if at is not None and at < len(new) else ""
        room -= len(line) + 1
        if room < 0:
            return "\n".join([*lines, line[: max(room + len(line), 0)], "(cut; read the file)"])
        lines.append(line)
    return "\n".join(lines)
