"""An editor as an agent sees it: open files, a cursor in each, and lines around it."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from autogen_core.tools import FunctionTool

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.patterns import LinePattern
from memory_context.foundation.utf8 import to_utf8

from .folder import FolderConnector, matching_lines, shown
from .open_file import WINDOW_LINES, ChangedLines, OpenFile, numbered
from .protocols import TextObservation

__all__ = ["EditorConnector"]

_MOST_OPEN = 8
_MOST_HITS = 100
_SEARCH_SECONDS = 5.0
_SHOWN_CHANGE = 20


class EditorConnector(FolderConnector):
    """Tools for the text files of one folder, which they cannot leave; observations of changes by other processes.

    Line numbers of an edit are those of the lines that the agent was shown last: lines that moved since are found, and
    lines that changed since are not overwritten.

    Args:
        root: The folder; it must exist at the start.
        id: Source of the observations, and beginning of the tools' names.
    """

    component_provider_override = "memory_context.EditorConnector"

    def __init__(self, root: str, id: str = "editor") -> None:
        super().__init__(root, id)
        self.state_limit_tokens = 700
        self._files: dict[str, OpenFile] = {}  # the last one is the one in hand
        self._saved: Sequence[tuple[str, int, Sequence[int]]] = ()
        self._news: list[str] = []

    async def on_start(self) -> None:
        """Open the folder, and the files of a loaded session."""
        if self._folder is None:
            await super().on_start()
            await asyncio.to_thread(self._reopen)

    def save_state(self) -> Mapping[str, Any]:
        """Return the open files, their cursors, and what is compared with later."""
        return {"files": [[one.path, one.line, [*(one.version or ())]] for one in self._files.values()]}

    def load_state(self, data: Mapping[str, Any]) -> None:
        """Take over the open files of an earlier process; they are read at the start."""
        self._saved = [(str(path), int(line), version) for path, line, version in data.get("files", ())]

    def _reopen(self) -> None:
        saved, self._saved = self._saved, ()
        for path, line, version in saved:
            try:
                file = self._opened(path)
            except ConnectorError as error:
                self._news.append(f"closed: {error}")
                continue
            file.go_to(line)
            if [*(file.version or ())] != [*version]:
                self._news.append(f"{shown(path)} was changed by another process meanwhile")

    async def get_observations(self) -> list[TextObservation]:
        """Return changes of open files by other processes since the last call."""

        def look() -> list[str]:
            with self._lock:
                for file in [*self._files.values()]:
                    if self._open.stat(file.path) != file.version:
                        self._refresh(file)
                news, self._news = self._news, []
                return news

        return [TextObservation(self.id, f"[{self.id}] {one}") for one in await asyncio.to_thread(look)]

    def _refresh(self, file: OpenFile) -> None:
        """Take over what another process wrote; a file that is no text any more is closed."""
        try:
            text, version = self._open.read_text(file.path)
        except ConnectorError as error:
            del self._files[file.path]
            self._news.append(f"closed: {error}")
            return
        file.version = version
        if text != file.text:
            changed = file.becomes(text)
            first, last = changed.first + 1, changed.new_end
            about = f"{_where(changed)}; cursor at line {file.line}"
            self._news.append(f"{shown(file.path)} was changed by another process: {about}")
            if first < file.top + WINDOW_LINES and file.top <= last >= first:
                self._news[-1] += f"\n{numbered(file.lines, first, min(last, first + _SHOWN_CHANGE - 1))}"

    async def render_current_state(self) -> list[str]:
        """Return the lines around the cursor, and the names of the other open files."""
        return await asyncio.to_thread(self._state)

    def _state(self) -> list[str]:
        with self._lock:
            if not self._files:
                return []
            *others, file = self._files.values()
            for one in self._files.values():
                one.shown = one.text
            head = f"{shown(file.path)}, line {file.line} of {len(file.lines)}"
            also = f"Also open: {', '.join(f'{shown(one.path)} (line {one.line})' for one in others)}" if others else ""
            room = 3 * self.state_limit_tokens - len(head) - len(also)
            return ["\n".join(filter(None, (head, file.around(room), also)))]

    def _opened(self, path: str) -> OpenFile:
        """Open a file, or bring an open one up to date, and put it in hand."""
        if (file := self._files.get(path)) is None:
            file = OpenFile(path, *self._open.read_text(path))
        else:
            self._refresh(file)
            if path not in self._files:
                raise ConnectorError(self._news.pop())
        self._put_in_hand(file)
        return file

    def _put_in_hand(self, file: OpenFile) -> None:
        self._files.pop(file.path, None)
        self._files[file.path] = file
        if len(self._files) > _MOST_OPEN:
            del self._files[next(iter(self._files))]

    def _path(self, path: str) -> str:
        if not path and not self._files:
            raise ConnectorError(f"no file is open; open one with {self.id}_open")
        return str(PurePosixPath(path)) if path else next(reversed(self._files))

    # --- tools

    def tools(self) -> list[FunctionTool]:
        """Return tools to open, search, edit, create and close files."""
        return self._named(
            (self._open_at, "open", "Open a text file, or go to a line of the open one; shows 100 numbered lines."),
            (self._search, "search", "Find lines of the open file by regular expression (RE2)."),
            (
                self._replace_lines,
                "replace_lines",
                "Replace lines first_line to last_line of the open file, as shown "
                "last; last_line = first_line - 1 inserts before them.",
            ),
            (self._replace_text, "replace_text", "Replace a text that stands exactly once, or all with every=true."),
            (self._create, "create", "Create a text file and open it."),
            (self._close, "close", "Close a file."),
        )

    def _open_at(self, path: str = "", line: int = 1) -> str:
        with self._lock:
            file = self._opened(self._path(path))
            file.go_to(line)
            lines = numbered(file.lines, file.top, file.top + WINDOW_LINES - 1)
            return f"{shown(file.path)}, line {file.line} of {len(file.lines)}\n{lines}"

    def _search(self, pattern: str, path: str = "") -> str:
        regex = LinePattern(pattern)
        with self._lock:
            file = self._opened(self._path(path))
            hits = [*matching_lines(file.path, file.text, regex, time.monotonic() + _SEARCH_SECONDS)]
        more = [f"[{len(hits) - _MOST_HITS} more; search a rarer word]"] if len(hits) > _MOST_HITS else []
        return "\n".join([*hits[:_MOST_HITS], *more]) or "no line matches"

    def _replace_lines(self, first_line: int, last_line: int, text: str, path: str = "") -> str:
        return self._edit(path, lambda file: file.with_lines(first_line, last_line, text))

    def _replace_text(self, old: str, new: str, path: str = "", every: bool = False) -> str:
        return self._edit(path, lambda file: file.with_text(old, new, every=every))

    def _edit(self, path: str, change: Callable[[OpenFile], tuple[str, int]]) -> str:
        with self._lock:
            file = self._opened(self._path(path))
            text, line = change(file)
            if text == file.text:
                raise ConnectorError(f"{file.path} holds that already; nothing is written")
            file.version = self._open.write(file.path, to_utf8(text), file.version)
            changed = file.becomes(text)
            file.go_to(line)
            return f"Wrote {shown(file.path)}: {_where(changed)}."

    def _create(self, path: str, text: str) -> str:
        path = str(PurePosixPath(path))
        with self._lock:
            if self._open.stat(path) is not None:
                raise ConnectorError(f"{shown(path)} exists already; open and edit it, or choose another name")
            self._put_in_hand(OpenFile(path, text, self._open.write(path, to_utf8(text))))
            return f"Created {shown(path)}."

    def _close(self, path: str = "") -> str:
        with self._lock:
            if self._files.pop(self._path(path), None) is None:
                raise ConnectorError(f"{shown(path)} is not open")
            return "Closed."


def _where(changed: ChangedLines) -> str:
    first, last = changed.first + 1, changed.new_end
    if last == first:
        return f"line {first}"
    return f"lines {first} to {last}" if last > first else f"lines before line {first} are gone"
