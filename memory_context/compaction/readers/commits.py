"""Reads `git log`: how many commits there are, which is the newest and the oldest, and who wrote them.

Agents come back to a log for the id of a commit, mostly of one that they know by its subject.
"""

import re
from collections import Counter
from dataclasses import dataclass

from ..compactor import Result
from ..excerpt import Passage
from ..reading import Reading
from .calls import call_of
from .framing import LABELS, LANDMARKS, NAMES, described, fact, frame_of, lines_in, windows

__all__ = ["read_commits"]

_COMMIT = re.compile(r"commit ([0-9a-f]{7,40})\b")
_ONE_LINE = re.compile(r"[*|\\/ ]{0,20}([0-9a-f]{7,40}) (?:\([^)\n]{1,200}\) )?(\S.{0,300})")
_FIELD = re.compile(r"(Author|Date|AuthorDate): +(.{1,200})")
_STAT = re.compile(r" (\S.{0,300}?) +\| +(?:\d+|Bin)\b")
_LEAST_SHARE = 0.9
_LEAST = 2
_FACTS = 8


@dataclass
class _Commit:
    name: str
    start: int
    end: int
    subject: str = ""
    author: str = ""
    date: str = ""

    def line(self) -> str:
        date = f" ({self.date})" if self.date else ""
        return f"{self.name[:12]} {self.subject}{date}"


def read_commits(result: Result) -> Reading | None:
    """Return which commits a log lists; None if the content is no log of at least two commits."""
    content, call = result.content, call_of(result)
    frame = frame_of(content, call.command)
    head = content[frame.body.start : frame.body.start + 500]
    asked = any(words[:2] in (("git", "log"), ("git", "reflog")) for pipeline in call.pipelines for words in pipeline)
    if not (_COMMIT.match(head) or (asked and _ONE_LINE.match(head))):
        return None
    passages = windows(content, frame.body)
    lines = lines_in(content, passages)
    files: Counter[str] = Counter()
    commits = _of_fields(lines, files) if _COMMIT.match(head) else _of_lines(lines)
    if len(commits) < _LEAST:
        return None
    authors = Counter(commit.author for commit in commits if commit.author)
    facts = [f"newest: {commits[0].line()}", f"oldest: {commits[-1].line()}"]
    facts += [f"{text}: {', '.join(f'{name} ({count})' for name, count in counted.most_common(6))}"
              for text, counted in (("by", authors), ("most changed", files)) if counted]  # fmt: skip
    facts += [commit.line() for commit in commits[1:-1][: _FACTS - len(facts)]]
    least = "at least " if len(passages) > 1 else ""
    spans = [(Passage(commit.start, commit.end), commit.line()[:80]) for commit in commits]
    return Reading(
        described("git log", "", f"{least}{len(commits):,} commits", f"{len(lines):,} lines"),
        has_failed=frame.has_failed,
        facts=[fact(line) for line in dict.fromkeys(facts)],
        names=[commit.name[:12] for commit in commits[:NAMES]],
        landmarks=[span for span, _ in spans[:LANDMARKS]],
        labels=spans[:LABELS],
    )


def _of_fields(lines: list[tuple[int, str]], files: Counter[str]) -> list[_Commit]:
    commits: list[_Commit] = []
    for start, text in lines:
        if match := _COMMIT.match(text):
            commits.append(_Commit(match[1], start, start))
        if not commits or not text:
            continue
        commit = commits[-1]
        commit.end = start + len(text)
        if text.startswith("    "):
            commit.subject = commit.subject or text.strip()
        elif match := _FIELD.match(text):
            if match[1] == "Author":
                commit.author = match[2].partition(" <")[0]
            else:
                commit.date = match[2]
        elif match := _STAT.match(text):
            files[match[1]] += 1
    return commits


def _of_lines(lines: list[tuple[int, str]]) -> list[_Commit]:
    filled = [(start, text) for start, text in lines if text.strip()]
    matches = [(start, match) for start, text in filled if (match := _ONE_LINE.match(text))]
    if len(matches) < _LEAST_SHARE * len(filled):
        return []
    return [_Commit(match[1], start, start + match.end(), match[2]) for start, match in matches]
