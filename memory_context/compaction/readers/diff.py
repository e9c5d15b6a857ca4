"""Reads unified diffs: `git diff`, `git show`, `git log -p`, `format-patch`, `diff -u`.

What matters of a diff is which files change by how much, and in which functions. It is read by the counts in the
headers of its hunks, so that a changed line that looks like a header is not taken for one.
"""

import re
from dataclasses import dataclass, field

from ..compactor import Result
from ..excerpt import Passage
from ..reading import Reading
from .calls import FILE_PRINTERS, call_of
from .framing import LABELS, LANDMARKS, NAMES, count_lines, described, fact, frame_of, lines_in, windows

__all__ = ["read_diff"]

_HEAD_CHARACTERS = 4000
_SNIFFED_CHARACTERS = 100_000
_START = re.compile(r"^(?:diff --git |diff --cc |--- [^\n]{1,500}\n\+\+\+ [^\n]{1,500}\n@@ )", re.MULTILINE)
_HUNK = re.compile(r"@@+ -(\d{1,9})(?:,(\d{1,9}))? (?:-\d[\d,]{0,19} )?\+(\d{1,9})(?:,(\d{1,9}))? @@+ ?(.{0,200})")
_GIT_PATHS = re.compile(r"diff --git \"?a/(.{1,400}?)\"? \"?b/(.{1,400})")
_CONTEXT_NAME = re.compile(
    r"(?:def|class|func|fn|function|struct|interface|impl|module|trait)\s(?:\([^)]{0,80}\) )?(\w+)"
)
_COMMIT = re.compile(r"commit ([0-9a-f]{7,40})\b|From ([0-9a-f]{40}) ")
_NOTES = ("new file mode", "deleted file mode", "rename to ", "Binary files ", "GIT binary patch", "copy to ")
_PATCH_SUFFIXES = (".diff", ".patch")
_FACTS = 10


@dataclass
class _Change:
    path: str
    added: int = 0
    removed: int = 0
    note: str = ""
    names: list[str] = field(default_factory=list[str])
    runs: list[Passage] = field(default_factory=list[Passage])


@dataclass
class _Diff:
    changes: list[_Change] = field(default_factory=list[_Change])
    hunks: list[tuple[Passage, str]] = field(default_factory=list[tuple[Passage, str]])
    commits: list[str] = field(default_factory=list[str])


def read_diff(result: Result) -> Reading | None:
    """Return the files and functions a diff changes and by how much; None if the content is no unified diff."""
    content, call = result.content, call_of(result)
    frame = frame_of(content, call.command)
    if not _is_diff(content, frame.body, call.programs, call.path):
        return None
    passages = windows(content, frame.body)
    diff = _parse(lines_in(content, passages))
    if not diff.changes:
        return None
    is_whole = len(passages) == 1
    files = len(diff.changes)
    added, removed = sum(c.added for c in diff.changes), sum(c.removed for c in diff.changes)
    least = "" if is_whole else "at least "
    size = f"{least}{files:,} file{'s' if files > 1 else ''}, +{added:,} -{removed:,}"
    facts = [
        fact(f"{least}{files:,} file{'s' if files > 1 else ''} changed, {added:,} lines added, {removed:,} removed")
    ]
    facts += [fact(commit) for commit in diff.commits[:3]]
    shown = diff.changes[: _FACTS - len(facts)]
    facts += [_fact_of(change) for change in shown]
    if len(shown) < files:
        facts.append(fact("also " + ", ".join(change.path for change in diff.changes[len(shown) :])))
    paths = [change.path for change in diff.changes[: NAMES // 2]]
    names = dict.fromkeys([*paths, *(name for change in diff.changes[:NAMES] for name in change.names)])
    first = [change.runs[0] for change in diff.changes if change.runs]
    others = [run for change in diff.changes for run in change.runs[1:]]
    return Reading(
        description=described(
            "diff of",
            diff.changes[0].path + (" and others" if files > 1 else ""),
            size,
            f"{count_lines(content, frame.body):,} lines",
        ),
        has_failed=None,  # `diff` and `git diff --exit-code` end in 1 if there are differences
        facts=facts,
        names=list(names)[:NAMES],
        landmarks=(first + others)[:LANDMARKS],
        labels=diff.hunks,
    )


def _is_diff(content: str, body: Passage, programs: list[str], path: str) -> bool:
    if path and not path.endswith(_PATCH_SUFFIXES):
        return False  # a file was read that has a diff in it
    asked = any(program in ("git", "diff") for program in programs)
    if (
        programs
        and all(program in FILE_PRINTERS for program in programs)
        and not content.count("\n+++ ", 0, _HEAD_CHARACTERS)
    ):
        return False
    limit = min(body.end, body.start + _SNIFFED_CHARACTERS)
    if content.find("@@ -", body.start, limit) < 0 and content.find("diff --git ", body.start, limit) < 0:
        return False
    start = _START.search(content, body.start, limit)
    return start is not None and (asked or start.start() <= body.start + _HEAD_CHARACTERS)


def _parse(lines: list[tuple[int, str]]) -> _Diff:
    diff = _Diff()
    change: _Change | None = None
    old_left = new_left = run_start = run_end = 0
    hunk_start, hunk_label, hunk_end = -1, "", 0
    subject_of = -1

    def end_run() -> None:
        if change is not None and run_end > run_start and len(change.runs) < LANDMARKS:
            change.runs.append(Passage(run_start, run_end))

    def end_hunk() -> None:
        if hunk_start >= 0 and hunk_end > hunk_start and len(diff.hunks) < LABELS:
            diff.hunks.append((Passage(hunk_start, hunk_end), hunk_label))

    for start, text in lines:
        if change is not None and (old_left > 0 or new_left > 0):
            sign = text[:1]
            hunk_end = start + len(text)
            if sign in ("+", "-"):
                if sign == "+":
                    change.added += 1
                    new_left -= 1
                else:
                    change.removed += 1
                    old_left -= 1
                if run_end != start - 1:
                    end_run()
                    run_start = start
                run_end = hunk_end
                continue
            if sign in (" ", ""):
                old_left -= 1
                new_left -= 1
                continue
            if sign == "\\":
                continue
            old_left = new_left = 0  # a hunk that was cut short
        if text.startswith("@@") and change is not None and (match := _HUNK.match(text)):
            end_run()
            end_hunk()
            run_start = run_end = 0
            old_left, new_left = int(match[2] or 1), int(match[4] or 1)
            context = match[5].strip()
            hunk_start, hunk_end = start, start + len(text)
            hunk_label = _label_of(change.path, int(match[3]), new_left, context)
            if (name := _CONTEXT_NAME.search(context)) and name[1] not in change.names:
                change.names.append(name[1])
        elif text.startswith(("diff --git ", "diff --cc ", "diff --combined ")):
            end_run()
            run_start = run_end = 0
            match = _GIT_PATHS.match(text)
            change = _Change(match[2] if match else text.split(" ", 2)[2])
            diff.changes.append(change)
        elif text.startswith("+++ ") and change is not None:
            path = _path_of(text)
            if path and not change.path:
                change.path = path
        elif text.startswith("--- ") and (change is None or change.added or change.removed):
            end_run()
            run_start = run_end = 0
            change = _Change("" if text.startswith("--- /dev/null") else _path_of(text))
            diff.changes.append(change)
        elif change is not None and text.startswith(_NOTES):
            change.note = change.note or (
                "binary" if "inary" in text else text.split(" ", 1)[0].replace("rename", "renamed")
            )
        elif (match := _COMMIT.match(text)) and len(diff.commits) < LANDMARKS:
            diff.commits.append(f"commit {(match[1] or match[2])[:12]}")
            subject_of = len(diff.commits) - 1
        elif subject_of >= 0 and (subject := _subject(text)):
            diff.commits[subject_of] += f": {subject}"
            subject_of = -1
    end_run()
    end_hunk()
    diff.changes = [c for c in diff.changes if c.path]
    return diff


def _path_of(header: str) -> str:
    path = header[4:].split("\t", 1)[0].strip().strip('"')
    return "" if path == "/dev/null" else path[2:] if path.startswith(("a/", "b/")) else path


def _subject(text: str) -> str:
    if text.startswith("Subject: "):
        return text[9:]
    return text.strip() if text.startswith("    ") else ""


def _label_of(path: str, first: int, count: int, context: str) -> str:
    name = path.rpartition("/")[2]
    return f"{name}: {context[:80]}" if context else f"{name} lines {first}-{first + max(count, 1) - 1}"


def _fact_of(change: _Change) -> str:
    note = f" {change.note}" if change.note else ""
    where = f" in {', '.join(change.names[:8])}" if change.names else ""
    return fact(f"{change.path}{note} +{change.added} -{change.removed}{where}")
