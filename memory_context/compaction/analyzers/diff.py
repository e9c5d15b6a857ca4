"""Unified diffs: changed files and functions, with line counts.

Hunk header counts delimit hunks, so changed lines that look like headers are content.
"""

import re
from dataclasses import dataclass, field

from ...text import KEYWORDS, Passage
from ..compactor import Analysis, Result
from .output import FILE_PRINTERS, NAMES, call_of, count_lines, described, fact, frame_of, lines_in, windows

__all__ = ["analyze_diff"]

_HEAD_CHARACTERS = 4000
_SNIFFED_CHARACTERS = 100_000
_START = re.compile(r"^(?:diff --git |diff --cc |--- [^\n]{1,500}\n\+\+\+ [^\n]{1,500}\n@@ )", re.MULTILINE)
_HUNK = re.compile(r"@@+ -\d{1,9}(?:,(\d{1,9}))? (?:-\d[\d,]{0,19} )?\+\d{1,9}(?:,(\d{1,9}))? @@+ ?(.{0,200})")
_GIT_PATHS = re.compile(r"diff --git \"?a/(.{1,400}?)\"? \"?b/(.{1,400})")
_CONTEXT_NAME = re.compile(rf"(?:{KEYWORDS})\s(?:\([^)]{{0,80}}\) )?(\w+)")
_NOTES = {"new file mode": "new", "deleted file mode": "deleted", "rename to ": "renamed", "Binary files ": "binary"}
_PATCH_SUFFIXES = (".diff", ".patch")
_FACTS = 10


@dataclass
class _Change:
    path: str
    added: int = 0
    removed: int = 0
    note: str = ""
    names: list[str] = field(default_factory=list[str])

    def line(self) -> str:
        note = f" {self.note}" if self.note else ""
        where = f" in {', '.join(self.names[:8])}" if self.names else ""
        return fact(f"{self.path}{note} +{self.added} -{self.removed}{where}")


def analyze_diff(result: Result) -> Analysis | None:
    """Return the files and functions of a unified diff; None for other content."""
    content, call = result.content, call_of(result)
    frame = frame_of(content, call.command)
    if not _is_diff(content, frame.body, call.programs, call.path):
        return None
    passages = windows(content, frame.body)
    changes = _changes([text for _, text in lines_in(content, passages)])
    if not changes:
        return None
    least = "" if len(passages) == 1 else "at least "
    count = f"{least}{len(changes):,} file{'s' if len(changes) > 1 else ''}"
    added, removed = sum(c.added for c in changes), sum(c.removed for c in changes)
    shown = changes[: _FACTS - 1]
    facts = [fact(f"{count} changed, {added:,} lines added, {removed:,} removed"), *(one.line() for one in shown)]
    if len(shown) < len(changes):
        facts.append(fact("also " + ", ".join(change.path for change in changes[len(shown) :])))
    paths = [change.path for change in changes[: NAMES // 2]]
    names = dict.fromkeys([*paths, *(name for change in changes[:NAMES] for name in change.names)])
    path = changes[0].path + (" and others" if len(changes) > 1 else "")
    size = f"{count_lines(content, frame.body):,} lines"
    return Analysis(
        description=described("diff of", path, f"{count}, +{added:,} -{removed:,}", size),
        has_failed=None,  # `diff` exits with 1 on differences
        facts=facts,
        names=list(names)[:NAMES],
    )


def _is_diff(content: str, body: Passage, programs: list[str], path: str) -> bool:
    if path and not path.endswith(_PATCH_SUFFIXES):
        return False  # a file that contains a diff
    prints_file = bool(programs) and all(program in FILE_PRINTERS for program in programs)
    if prints_file and not content.count("\n+++ ", 0, _HEAD_CHARACTERS):
        return False
    limit = min(body.end, body.start + _SNIFFED_CHARACTERS)
    if content.find("@@ -", body.start, limit) < 0 and content.find("diff --git ", body.start, limit) < 0:
        return False
    start = _START.search(content, body.start, limit)
    is_asked = any(program in ("git", "diff") for program in programs)
    return start is not None and (is_asked or start.start() <= body.start + _HEAD_CHARACTERS)


def _changes(lines: list[str]) -> list[_Change]:
    changes: list[_Change] = []
    change = _Change("")  # collects text before the first file
    old_left = new_left = 0
    for text in lines:
        if changes and (old_left > 0 or new_left > 0):
            sign = text[:1]
            if sign in ("+", "-", " ", "", "\\"):
                change.added += sign == "+"
                change.removed += sign == "-"
                new_left -= sign in ("+", " ", "")
                old_left -= sign in ("-", " ", "")
                continue
            old_left = new_left = 0  # truncated hunk
        if changes and (match := _HUNK.match(text)):
            old_left, new_left = int(match[1] or 1), int(match[2] or 1)
            if (name := _CONTEXT_NAME.search(match[3])) and name[1] not in change.names:
                change.names.append(name[1])
        elif text.startswith(("diff --git ", "diff --cc ", "diff --combined ")):
            match = _GIT_PATHS.match(text)
            change = _Change(match[2] if match else text.split(" ", 2)[2])
            changes.append(change)
        elif text.startswith("+++ ") and changes:
            change.path = change.path or _path_of(text)
        elif text.startswith("--- ") and (not changes or change.added or change.removed):
            change = _Change(_path_of(text))
            changes.append(change)
        elif note := next((note for start, note in _NOTES.items() if text.startswith(start)), ""):
            change.note = change.note or note
    return [change for change in changes if change.path]


def _path_of(header: str) -> str:
    path = header[4:].split("\t", 1)[0].strip().strip('"')
    return "" if path == "/dev/null" else path[2:] if path.startswith(("a/", "b/")) else path
