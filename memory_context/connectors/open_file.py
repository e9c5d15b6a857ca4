"""A file that is open in the editor: its cursor, its window of lines, and what became of lines that changed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from memory_context.foundation.errors import ConnectorError

from .folder import FileStat

__all__ = ["WINDOW_LINES", "ChangedLines", "OpenFile", "lines_of", "numbered"]
__all__ += ["plain_ends", "replaced", "with_own_ends"]

WINDOW_LINES = 100
_LINE_CHARACTERS = 300
_END = re.compile(r"\r\n|\n|\r")
_BOM = "\ufeff"


@dataclass(frozen=True)
class ChangedLines:
    """The span of lines in which two texts differ, from 0: `first` to `old_end` became `first` to `new_end`."""

    first: int
    old_end: int
    new_end: int

    @classmethod
    def between(cls, old: Sequence[str], new: Sequence[str]) -> "ChangedLines":
        shorter = min(len(old), len(new))
        first = next((at for at in range(shorter) if old[at] != new[at]), shorter)
        same = next((at for at in range(shorter - first) if old[-1 - at] != new[-1 - at]), shorter - first)
        return cls(first, len(old) - same, len(new) - same)

    def moved(self, line: int) -> int | None:
        """Return where a line is now; None if it changed."""
        if line < self.first:
            return line
        return line - self.old_end + self.new_end if line >= self.old_end else None


@dataclass
class OpenFile:
    """A file's text as the editor knows it.

    Attributes:
        line: The cursor's, from 1.
        top: The first line of the window, from 1.
        shown: The text that line numbers of the agent refer to: as it was when the agent was last shown its lines.
    """

    path: str
    text: str
    version: FileStat | None
    line: int = 1
    top: int = 1
    shown: str = field(default="")

    def __post_init__(self) -> None:
        self.shown = self.text

    @property
    def lines(self) -> list[str]:
        """The lines; the end of the last one begins none."""
        return lines_of(self.text)

    def go_to(self, line: int) -> None:
        """Move the cursor, with the window about it."""
        count = max(len(self.lines), 1)
        self.line = min(max(line, 1), count)
        self.top = min(max(self.line - WINDOW_LINES // 2, 1), max(count - WINDOW_LINES + 1, 1))

    def scroll(self, lines: int) -> None:
        """Move window and cursor by so many lines, up if negative."""
        count = max(len(self.lines), 1)
        self.top = min(max(self.top + lines, 1), max(count - WINDOW_LINES + 1, 1))
        self.line = min(max(self.line + lines, self.top), self.top + WINDOW_LINES - 1, count)

    def window(self) -> str:
        """Return the lines of the window with their numbers."""
        return numbered(self.lines, self.top, self.top + WINDOW_LINES - 1)

    def around(self, limit_characters: int) -> str:
        """Return as many lines of the window about the cursor as there is room for, with their numbers."""
        lines = self.lines
        first = last = self.line
        least, most = self.top, min(self.top + WINDOW_LINES - 1, len(lines))
        room = limit_characters - _size(lines, self.line)
        while first > least or last < most:
            is_above = first > least and (last >= most or self.line - first < last - self.line)
            room -= _size(lines, first - 1 if is_above else last + 1)
            if room < 0:
                break
            first, last = (first - 1, last) if is_above else (first, last + 1)
        return numbered(lines, first, last)

    def is_in_window(self, changed: ChangedLines) -> bool:
        """Return whether a change touches the window."""
        return changed.first < self.top + WINDOW_LINES - 1 and changed.new_end >= self.top - 1

    def becomes(self, text: str) -> ChangedLines:
        """Take over a new text; the cursor stays with its line."""
        changed = ChangedLines.between(self.lines, lines_of(text))
        line = changed.moved(self.line - 1)
        self.text = text
        self.go_to((changed.first if line is None else line) + 1)
        return changed

    def with_lines(self, first: int, last: int, text: str) -> tuple[str, int]:
        """Return the text with lines `first` to `last`, as the agent was shown them, replaced, and where they begin.

        `last` = `first` - 1 inserts before `first`.
        """
        shown, lines = lines_of(self.shown), self.lines
        if not (1 <= first <= len(shown) + 1 and first - 1 <= last <= len(shown)):
            raise ConnectorError(
                f"lines {first} to {last} are no lines of {self.path}, which has {len(shown)};"
                f" last_line={first - 1} inserts before line {first}"
            )
        changed = ChangedLines.between(shown, lines)
        begin = _moved_range(changed, first - 1, last)
        if begin is None:
            raise ConnectorError(
                f"lines {first} to {last} of {self.path} changed since you were shown them; see what they are now:\n"
                + numbered(lines, changed.first - 2, changed.new_end + 3)
            )
        made = lines_of(text)
        result = [*lines[:begin], *made, *lines[begin + last - first + 1 :]]
        has_end = bool(result) and (not self.text or self.text.endswith(("\n", "\r")))
        return with_own_ends(self.text, "\n".join(result) + "\n" * has_end), begin + 1

    def with_text(self, old: str, new: str, *, every: bool) -> tuple[str, int]:
        """Return the text with `old` replaced, and the line where the first stood."""
        text, _ = replaced(self.text, old, new, self.path, every=every)
        return text, ChangedLines.between(self.lines, lines_of(text)).first + 1


def replaced(text: str, old: str, new: str, path: str, *, every: bool) -> tuple[str, int]:
    """Return a text with `old` replaced, and how often it stood there; line ends, BOM and a missing last end stay.

    Raises:
        ConnectorError: It does not stand there, or more than once and not `every`.
    """
    plain, old, new = plain_ends(text), plain_ends(old), plain_ends(new)
    is_open = bool(plain) and not plain.endswith("\n")
    if is_open and old.endswith("\n"):  # lines were copied whole, and the last one has no end
        plain += "\n"
    count = plain.count(old) if old else 0
    if count == 0:
        raise ConnectorError(f"the text to replace does not stand in {path}; read it and copy it exactly, no numbers")
    if count > 1 and not every:
        raise ConnectorError(f"it stands {count} times in {path}; add lines around it, or send every=true")
    made = plain.replace(old, new)
    if is_open and old.endswith("\n"):
        made = made.removesuffix("\n")
    return with_own_ends(text, made), count


def plain_ends(text: str) -> str:
    """Return a text as it is shown: with line feeds, without a BOM."""
    return _END.sub("\n", text.removeprefix(_BOM))


def with_own_ends(before: str, text: str) -> str:
    """Return a new text with the line ends and the BOM of the one that it replaces, each line with its own."""
    parts = _END.split(before.removeprefix(_BOM))
    ends = _END.findall(before)
    usual = max(set(ends), key=ends.count) if ends else "\n"
    made = plain_ends(text).split("\n")
    if set(ends) <= {usual}:
        joined = usual.join(made)
    else:
        span = ChangedLines.between(parts, made)
        old, new = parts[span.first : span.old_end], made[span.first : span.new_end]
        middle = [usual] * len(new)
        for tag, i, j, k, m in SequenceMatcher(None, old, new).get_opcodes():
            if tag in ("equal", "replace"):
                kept = ends[span.first + i : span.first + min(j, i + m - k)]
                middle[k : k + len(kept)] = kept
        own = [*ends[: span.first], *middle, *ends[span.old_end :]]
        joined = "".join(map("".join, zip(made[:-1], own, strict=False))) + made[-1]
    return f"{_BOM}{joined}" if before.startswith(_BOM) else joined


def numbered(lines: Sequence[str], first: int, last: int) -> str:
    """Return lines `first` to `last` with their numbers, from 1; what is beyond is left out and long lines are cut."""
    first, last = max(first, 1), min(last, len(lines))
    width = len(str(last))
    return "\n".join(f"{at:>{width}} {_cut(lines[at - 1])}" for at in range(first, last + 1)) or "(no lines)"


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, whatever their ends; the end of the last one begins none."""
    lines = plain_ends(text).split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _cut(line: str) -> str:
    return line if len(line) <= _LINE_CHARACTERS else f"{line[:_LINE_CHARACTERS]}… [{len(line):,} characters]"


def _size(lines: Sequence[str], line: int) -> int:
    return min(len(lines[line - 1]), _LINE_CHARACTERS + 25) + 6 if 1 <= line <= len(lines) else 0


def _moved_range(changed: ChangedLines, begin: int, end: int) -> int | None:
    """Return where a range of lines begins now; None if a part of it changed."""
    if end <= changed.first:
        return begin
    return begin - changed.old_end + changed.new_end if begin >= changed.old_end else None
