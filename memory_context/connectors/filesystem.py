"""A folder as an agent sees it: what changed in it, by whatever process, and what it holds now.

All files are observed but those that `.gitignore` names, and `.git`: created, changed, deleted and moved ones.
"""

import asyncio
import difflib
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from autogen_core.tools import FunctionTool

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.extras import needs
from memory_context.foundation.patterns import LinePattern
from memory_context.foundation.text.landmarks import definition_starts
from memory_context.foundation.utf8 import to_utf8

from .folder import FileStat, Folder, FolderConnector, kind_and_size, matching_lines, shown
from .open_file import plain_ends, replaced, with_own_ends
from .protocols import TextObservation

with needs("connectors", "the file system connector"):
    import pathspec

__all__ = ["FileSystemConnector", "changes_between", "unified_diff"]

_logger = logging.getLogger("memory_context")

_MOST_FILES = 200_000
_MOST_SAVED_FILES = 5000
_FIRST_TEXTS_SECONDS = 2.0
_SEARCH_SECONDS = 5.0
_MOST_HITS = 100
_READ_LINES = 400
_RECENT = 8
_MOST_DEPTH = 100
_MOST_PATTERNS = 500  # of one file; RE2 compiles a thousand
_MOST_DESCRIBED = 20
_MOST_LINES = 5000
_CONTEXT_LINES = 3
_DIFF_CHARACTERS = 6000
_KNOWN_CHARACTERS = 32 << 20


class FileSystemConnector(FolderConnector):
    """Tools for the files of one folder, which they cannot leave, and observations of every change in it.

    Files that `.gitignore` names, and `.git`, are not observed. Symbolic links are not followed.

    Args:
        root: The folder; it must exist at the start.
        id: Source of the observations, and beginning of the tools' names.
    """

    component_provider_override = "memory_context.FileSystemConnector"

    def __init__(self, root: str, id: str = "files") -> None:
        super().__init__(root, id)
        self.state_limit_tokens = 500
        self._files: dict[str, FileStat] | None = None
        self._rules = _IgnoreRules()
        self._texts = _KnownTexts()
        self._recent: list[str] = []

    def save_state(self) -> Mapping[str, Any]:
        """Return what is compared with later; of a large folder nothing, and the next look is a first one."""
        files = self._files
        if files is None or len(files) > _MOST_SAVED_FILES:
            return {}
        return {"files": {path: [*known] for path, known in files.items()}}

    def load_state(self, data: Mapping[str, Any]) -> None:
        """Take over what an earlier process saw."""
        files: Mapping[str, Sequence[int]] | None = data.get("files")
        if files is not None:
            self._files = {path: FileStat(*known) for path, known in files.items()}

    async def get_observations(self) -> list[TextObservation]:
        """Return what changed since the last call; first, what there is."""
        return await asyncio.to_thread(self._look)

    def _look(self) -> list[TextObservation]:
        before, after = self._files, dict(islice(_observed_files(self._open, self._rules), _MOST_FILES))
        if before is None:
            ends_at = time.monotonic() + _FIRST_TEXTS_SECONDS
            for path in after:  # so that their first change has a diff
                if time.monotonic() > ends_at:
                    break
                self._texts.put(path, self._open.text(path))
            self._files = after
            text = f"[{self.id}] Initial folder: {self.root} ({len(after):,} files)"
            return [TextObservation(self.id, text, "initial")]
        changes = changes_between(before, after)
        if len(after) == _MOST_FILES:  # one that is beyond the limit now is not gone
            changes = [one for one in changes if one.kind != "deleted" or self._open.stat(one.path) is None]
        now = {one.path: self._open.text(one.path) for one in changes[:_MOST_HITS] if one.after is not None}
        observations = [*_described(self.id, changes, self._texts, now)]
        for change in changes:
            self._texts.put(change.moved_from or change.path, None)
            self._texts.put(change.path, now.get(change.path))
            if change.after is not None:
                self._recent = [change.path, *(one for one in self._recent if one != change.path)][:_RECENT]
        self._files = after  # last: a look that fails has seen nothing
        return observations

    async def render_current_state(self) -> list[str]:
        """Return the listing and the latest changes."""
        return [await asyncio.to_thread(self._state)]

    def _state(self) -> str:
        files = self._files or {}
        more = "; more are not watched" if len(files) == _MOST_FILES else ""
        lines = [f"Folder {self.root}: {len(files):,} files{more}"]
        if self._recent:
            lines.append(f"Changed lately: {', '.join(map(shown, self._recent))}")
        room = 3 * self.state_limit_tokens - sum(map(len, lines))
        for number, name in enumerate(names := [name for name, _ in self._open.entries()]):
            room -= len(name) + 1
            if room < 0:
                lines.append(f"({len(names) - number} more; list them)")
                break
            lines.append(shown(name))
        return "\n".join(lines)

    # --- tools

    def tools(self) -> list[FunctionTool]:
        """Return tools to list, read, write, edit, move, delete and search files."""
        return self._named(
            (self._list, "list", "List a folder: names, folders with /, sizes in bytes."),
            (self._read, "read", "Read lines of a text file, from first_line (from 1)."),
            (self._write, "write", "Write a text file whole; folders are made."),
            (self._edit, "edit", "Replace a text that stands exactly once in a file, or all of it with every=true."),
            (self._move, "move", "Move or rename a file or folder."),
            (self._delete, "delete", "Delete a file or an empty folder."),
            (self._search, "search", "Find lines by regular expression (RE2) in files below a folder."),
        )

    def _list(self, path: str = "") -> str:
        entries = self._open.entries(path)
        lines = [shown(name) if known is None else f"{shown(name)} {known.size}" for name, known in entries]
        return "\n".join(lines) or "(empty)"

    def _read(self, path: str, first_line: int = 1, lines: int = _READ_LINES) -> str:
        text = self._open.text(path)
        text = self._open.read_text(path)[0] if text is None else text  # says why it is not read
        all_lines, first = plain_ends(text).split("\n"), max(first_line, 1)
        shown = all_lines[first - 1 : first - 1 + max(lines, 1)]
        more = f"\n[lines {first}-{first + len(shown) - 1} of {len(all_lines)}]" if len(shown) < len(all_lines) else ""
        return "\n".join(shown) + more

    def _write(self, path: str, content: str) -> str:
        with self._lock:
            text = content
            with suppress(ConnectorError):  # a missing file, or one that is no text, is replaced whole
                text = content if "\r" in content else with_own_ends(self._open.read_text(path)[0], content)
            self._open.write(path, to_utf8(text))
        return f"Wrote {path}."

    def _edit(self, path: str, old: str, new: str, every: bool = False) -> str:
        with self._lock:
            text, version = self._open.read_text(path)
            made, count = replaced(text, old, new, path, every=every)
            self._open.write(path, to_utf8(made), version)
        return f"Replaced {count} in {path}."

    def _move(self, path: str, to: str) -> str:
        self._open.move(path, to)
        return f"Moved {path} to {to}."

    def _delete(self, path: str) -> str:
        self._open.delete(path)
        return f"Deleted {path}."

    def _search(self, pattern: str, path: str = "") -> str:
        regex, ends_at = LinePattern(pattern), time.monotonic() + _SEARCH_SECONDS
        prefix = f"{path.rstrip('/')}/" if path else ""
        hits: list[str] = []
        for one in sorted(self._files or {}):
            if not one.startswith(prefix) and one != path:
                continue
            if time.monotonic() > ends_at or len(hits) >= _MOST_HITS:
                return "\n".join([*hits, f"[stopped at {one}; search a folder, or a rarer word]"])
            hits += matching_lines(one, self._open.text(one) or "", regex, ends_at)
        return "\n".join(hits) or "no line matches"


# --- changes


class _IgnoreRules:
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


def _observed_files(folder: Folder, rules: _IgnoreRules) -> Iterator[tuple[str, FileStat]]:
    """Yield the observed files; 100,000 take about a second."""
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
class _FileChange:
    """One change; `path` is where the file is now, or was."""

    kind: str
    path: str
    before: FileStat | None
    after: FileStat | None
    moved_from: str = ""


def changes_between(before: Mapping[str, FileStat], after: Mapping[str, FileStat]) -> list[_FileChange]:
    """Return the changes in order of paths; a file that kept its inode or is gone here and new there has moved."""
    gone = {path: known for path, known in before.items() if path not in after}
    by_inode = {known.inode: path for path, known in gone.items()}
    changes: list[_FileChange] = []
    for path, now in after.items():
        was = before.get(path)
        source = by_inode.get(now.inode) if was is None else None
        if source is not None and source in gone:
            changes.append(_FileChange("moved", path, gone.pop(source), now, source))
        elif was is None:
            changes.append(_FileChange("created", path, None, now))
        elif was != now:
            changes.append(_FileChange("changed", path, was, now))
    changes += [_FileChange("deleted", path, was, None) for path, was in gone.items()]
    return sorted(changes, key=lambda change: change.path)


class _KnownTexts(dict[str, str]):
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


def _described(
    source: str, changes: Sequence[_FileChange], texts: _KnownTexts, now: Mapping[str, str | None]
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


def _counted(kind: str, changes: Sequence[_FileChange]) -> str:
    folders = Counter(change.path.rpartition("/")[0] or "." for change in changes)
    most = ", ".join(f"{count} in {shown(folder)}" for folder, count in folders.most_common(10))
    more = f", and in {len(folders) - 10} more folders" if len(folders) > 10 else ""
    return (
        f"{len(changes):,} files {kind}: {most}{more}; for example {', '.join(shown(one.path) for one in changes[:3])}"
    )


def _line(change: _FileChange, before: str | None, now: str | None) -> str:
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
