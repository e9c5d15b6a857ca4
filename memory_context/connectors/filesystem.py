"""A folder as an agent sees it: what changed in it, by whatever process, and what it holds now."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from autogen_core.tools import FunctionTool

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.patterns import LinePattern
from memory_context.foundation.utf8 import to_utf8

from .changes import MOST_FILES, IgnoreRules, KnownTexts, changes_between, described, observed_files
from .folder import FileStat, FolderConnector, matching_lines, shown
from .open_file import plain_ends, replaced, with_own_ends
from .protocols import TextObservation

__all__ = ["FileSystemConnector"]

_MOST_SAVED_FILES = 5000
_FIRST_TEXTS_SECONDS = 2.0
_SEARCH_SECONDS = 5.0
_MOST_HITS = 100
_READ_LINES = 400
_RECENT = 8


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
        self._rules = IgnoreRules()
        self._texts = KnownTexts()
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
        before, after = self._files, observed_files(self._open, self._rules)
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
        if len(after) == MOST_FILES:  # one that is beyond the limit now is not gone
            changes = [one for one in changes if one.kind != "deleted" or self._open.stat(one.path) is None]
        now = {one.path: self._open.text(one.path) for one in changes[:_MOST_HITS] if one.after is not None}
        observations = [*described(self.id, changes, self._texts, now)]
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
        more = "; more are not watched" if len(files) == MOST_FILES else ""
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
