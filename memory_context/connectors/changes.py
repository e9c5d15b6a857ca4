"""Changes of a folder between two snapshots: created, changed (with a diff), deleted and moved files."""

import difflib
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from memory_context.foundation.text.landmarks import definition_starts

from .folder import FileStat, kind_and_size, shown
from .protocols import TextObservation

__all__ = ["FileChange", "KnownTexts", "changes_between", "described", "unified_diff"]

_MOST_DESCRIBED = 20
_MOST_LINES = 5000
_CONTEXT_LINES = 3
_DIFF_CHARACTERS = 6000
_KNOWN_CHARACTERS = 32 << 20


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


class KnownTexts:
    """Texts of files as they were last seen, the latest ones within a limit; `left` is its rest in characters."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, str] = OrderedDict()
        self.left = _KNOWN_CHARACTERS

    def get(self, path: str) -> str | None:
        return self._texts.get(path)

    def put(self, path: str, text: str | None) -> None:
        """Remember a text; None forgets it."""
        self.left += len(self._texts.pop(path, ""))
        if text is not None:
            self._texts[path] = text
            self.left -= len(text)
            while self.left < 0:
                self.left += len(self._texts.popitem(last=False)[1])


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
