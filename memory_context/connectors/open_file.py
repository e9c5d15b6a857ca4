"""A file that is open in the editor: its cursor, its window of lines, and what became of lines that changed."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from memory_context.foundation.errors import ConnectorError
from memory_context.foundation.patterns import regex

from .folder import FileStat

__all__ = ["WINDOW_LINES", "ChangedLines", "OpenFile", "lines_of", "numbered"]
__all__ += ["plain_ends", "replaced", "with_own_ends"]

WINDOW_LINES = 100
_LINE_CHARACTERS = 300
_END = regex(r"(?:\r\n|\n|\r(?!\n))")
_LAST_END = regex(rf"{_END.pattern}\Z")
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

    def around(self, limit_characters: int) -> str:
        """Return as many lines of the window about the cursor as there is room for, with their numbers."""
        lines, first, last = self.lines, self.line, self.line
        best = numbered(lines, first, last)
        while (first, last) != (wider := (max(first - 1, self.top), min(last + 1, self.top + WINDOW_LINES - 1))):
            first, last = wider
            if len(text := numbered(lines, first, last)) > limit_characters:
                break
            best = text
        return best

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
        begin = first - 1 if last <= changed.first else None
        if first > changed.old_end:
            begin = changed.moved(first - 1)
        if begin is None:
            raise ConnectorError(
                f"lines {first} to {last} of {self.path} changed since you were shown them; see what they are now:\n"
                + numbered(lines, changed.first - 2, changed.new_end + 3)
            )
        whole = self.text + "\n" * _is_open(self.text)
        starts = [int(whole.startswith(_BOM)), *(end.end() for end in _END.finditer(whole))]
        start, stop = starts[begin], starts[begin + last - first + 1]
        new = "".join(f"{line}\n" for line in lines_of(text))
        made = whole[:start] + _with_ends(new, _END.findall(whole[start:stop]), _usual_end(self.text)) + whole[stop:]
        return _LAST_END.sub("", made) if _is_open(self.text) else made, begin + 1

    def with_text(self, old: str, new: str, *, every: bool) -> tuple[str, int]:
        """Return the text with `old` replaced, and the line where the first stood."""
        text, _ = replaced(self.text, old, new, self.path, every=every)
        return text, ChangedLines.between(self.lines, lines_of(text)).first + 1


def replaced(text: str, old: str, new: str, path: str, *, every: bool) -> tuple[str, int]:
    """Return a text with `old` replaced, and how often it stood there; line ends, BOM and a missing last end stay.

    Raises:
        ConnectorError: It does not stand there, or more than once and not `every`.
    """
    old, new = plain_ends(old), plain_ends(new)
    is_open = _is_open(text) and old.endswith("\n")  # lines were copied whole, and the last one has no end
    whole = text + "\n" * is_open
    pattern = re.compile(_END.pattern.join(map(re.escape, old.split("\n"))))
    count = len(pattern.findall(whole)) if old else 0
    if count == 0:
        raise ConnectorError(f"the text to replace does not stand in {path}; read it and copy it exactly, no numbers")
    if count > 1 and not every:
        raise ConnectorError(f"it stands {count} times in {path}; add lines around it, or send every=true")
    usual = _usual_end(text)
    made = pattern.sub(lambda one: _with_ends(new, _END.findall(one[0]), usual), whole)
    return _LAST_END.sub("", made) if is_open else made, count


def plain_ends(text: str) -> str:
    """Return a text as it is shown: with line feeds, without a BOM."""
    return _END.sub("\n", text.removeprefix(_BOM))


def with_own_ends(before: str, text: str) -> str:
    """Return a new text with the line ends, by their order, and the BOM of the one that it replaces."""
    made = _with_ends(plain_ends(text), _END.findall(before), _usual_end(before))
    return _BOM * before.startswith(_BOM) + made


def _with_ends(plain: str, ends: Sequence[str], usual: str) -> str:
    remaining = iter(ends)
    return _END.sub(lambda _: next(remaining, usual), plain)


def _usual_end(text: str) -> str:
    return max(("\n", "\r\n", "\r"), key=_END.findall(text).count)


def _is_open(text: str) -> bool:
    """Return whether the last line has no end."""
    return bool(text.removeprefix(_BOM)) and not text.endswith(("\n", "\r"))


def numbered(lines: Sequence[str], first: int, last: int) -> str:
    """Return lines `first` to `last` with their numbers, from 1; what is beyond is left out and long lines are cut."""
    first, last = max(first, 1), min(last, len(lines))
    width = len(str(last))
    shown: list[str] = []
    for number, line in enumerate(lines[first - 1 : last], first):
        more = f"… [{len(line):,} characters]" if len(line) > _LINE_CHARACTERS else ""
        shown.append(f"{number:>{width}} {line[:_LINE_CHARACTERS]}{more}")
    return "\n".join(shown) or "(no lines)"


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, whatever their ends; the end of the last one begins none."""
    lines = plain_ends(text).split("\n")
    return lines[:-1] if lines[-1] == "" else lines
