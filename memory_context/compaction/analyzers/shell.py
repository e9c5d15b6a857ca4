"""Reads what shell commands print: exit status, summaries, failed tests, errors, the last line.

Any command's output is its; it is asked last, when no reader of a more particular sort of content knows the output.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

from ...text import Passage
from ...utf8 import to_utf8
from ..analysis import Reading
from ..compactor import Result
from .calls import Call, call_of
from .logs import COMPILERS, INTERESTING, TOOLS, classify, outcome_of
from .output import FACTS, LONGEST_LINE, NAMES, Frame, count_lines, described, fact, frame_of, windows

__all__ = ["read_shell"]

_SNIFFED_CHARACTERS = 8000
_SHAPES = re.compile(
    r"^(?:=+ test session starts =+|=+ .{0,100}\b(?:passed|failed|errors?)\b.{0,60} in [\d.]+ ?s"
    r"|Ran \d+ tests? in [\d.]+s"
    r"|Tests: +\d+ \w+, |Test Suites: +\d| Test Files +\d|--- (?:FAIL|PASS): |test result: (?:ok|FAILED)|(?:ok  "
    r"|FAIL)\t\S+"
    r"|(?:\[\w+\] )?Tests run: \d+|\[INFO\] BUILD |BUILD (?:SUCCESSFUL|FAILED) in|added \d+ packages|npm (?:ERR!"
    r"|error) "
    r"|Successfully installed |Found \d+ errors? in \d+ files?|✖ \d+ problems?|Step \d+/\d+ : "
    r"|#\d+ \[|make(?:\[\d+\])?: (?:\*\*\*|Entering))",
    re.MULTILINE,
)
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]{0,20}[A-Za-z]|[()][A-Z0-9])")
_RAISED = re.compile(r"^[A-Za-z_][\w.]{0,200}(?:: [^\n]*)?(?=\r?$)", re.MULTILINE)  # the first line without indentation
_TRACE = "Traceback (most recent call last)"
_FRAME = re.compile(r"^[ |+]*File \"([^\"\n]{1,300})\", line (\d{1,9})", re.MULTILINE)
_RAISED_CHARACTERS = 120
_EXAMINED = 4000
_TAIL_CHARACTERS = 20_000
_LAST_CHARACTERS = 4000


@dataclass
class _Log:
    summaries: dict[str, str] = field(default_factory=dict[str, str])
    failures: list[str] = field(default_factory=list[str])
    errors: dict[str, None] = field(default_factory=dict[str, None])
    names: dict[str, None] = field(default_factory=dict[str, None])


def read_shell(result: Result) -> Reading | None:
    """Return how a command or a build ended and what it reported; None if the content is no output of a command."""
    content, call = result.content, call_of(result)
    frame = frame_of(content, call.command)
    last = _last_lines(content, frame.body)
    raised, is_end = _raised(content, frame.body)
    is_log = is_end or _is_log(content, frame.body)
    is_shell = call.command or frame.exit_status is not None
    if not is_log and (not is_shell or (call.prints_file and not frame.exit_status)):
        return None  # a document that speaks of errors reports none
    log = _read(content, frame.body)
    has_failed = frame.has_failed if frame.exit_status is not None else is_end or _verdict(call, log)
    facts = [raised if is_end else "", *([f"exit status {frame.exit_status}"] if frame.exit_status else [])]
    facts += list(log.summaries)[-4:] or ([f"{len(log.failures):,} failures"] if log.failures else [])
    facts += [raised, *log.failures[:5], *(text for text in list(log.errors)[:4] if not raised.startswith(text))]
    if not (log.summaries or log.failures or log.errors):
        facts += [f"{'before it' if number else 'last line'}: {text}" for number, text in enumerate(last)]
    return Reading(
        description=_description(content, frame, call, log, raised),
        has_failed=has_failed,
        facts=list(dict.fromkeys(fact(text) for text in facts if text.strip()))[:FACTS],
        names=list(log.names)[:NAMES],
    )


def _verdict(call: Call, log: _Log) -> bool | None:
    """Whether a command failed, by what it printed: its summaries, its failed tests, the errors of a compiler."""
    verdicts = [verdict for verdict in map(outcome_of, log.summaries) if verdict is not None]
    if verdicts:
        return any(verdicts)
    has_failures = any("::" in text and ("FAILED" in text or text.startswith("ERROR ")) for text in log.failures)
    has_errors = bool(log.errors) and not COMPILERS.isdisjoint(call.programs[-1:])
    return True if has_failures or has_errors else None


def _is_log(content: str, body: Passage) -> bool:
    head = _SHAPES.search(content, body.start, min(body.end, body.start + _SNIFFED_CHARACTERS))
    return bool(head or _SHAPES.search(content, max(body.start, body.end - _SNIFFED_CHARACTERS), body.end))


def _raised(content: str, body: Passage) -> tuple[str, bool]:
    """Return the exception of the last trace of Python with its place, and whether it ends the output."""
    start = content.rfind(_TRACE, max(body.start, body.end - _TAIL_CHARACTERS), body.end)
    frames = list(_FRAME.finditer(content, start, body.end)) if start >= 0 else []
    match = _RAISED.search(content, frames[-1].end(), body.end) if frames else None
    if match is None:
        return "", False
    said = f"{match[0][:_RAISED_CHARACTERS]} ({frames[-1][1]}:{frames[-1][2]})"
    return said, not content[match.end() : body.end].strip()


def _read(content: str, body: Passage) -> _Log:
    log = _Log()
    told: dict[str, int] = {}
    for text in _interesting(content, body):
        if (noted := classify(text)) is None:
            continue
        bare = text.strip().strip("= ") if noted.kind == "summary" else text.strip()
        if noted.kind == "summary":
            log.summaries.pop(bare, None)  # the last place counts
            log.summaries[bare] = noted.tool
        elif noted.kind == "failed":
            place = told.setdefault(noted.names[0], len(log.failures))
            if place == len(log.failures):
                log.failures.append(bare)
            elif bare.startswith("FAILED"):  # so far in the progress, without the reason
                log.failures[place] = bare
        elif noted.kind == "error":
            log.errors.setdefault(bare)
        if len(log.names) < 2 * NAMES:
            log.names.update(dict.fromkeys(noted.names))
    return log


def _interesting(content: str, body: Passage) -> Iterator[str]:
    """Yield the lines worth a closer look, of very many the first ones and the last ones."""
    for passage in windows(content, body):
        data = to_utf8(content[passage.start : passage.end])
        cut = data.rfind(b"\n", 0, max(0, len(data) - _TAIL_CHARACTERS)) + 1
        seen = -1
        for begin, end in ((0, cut), (cut, len(data))):
            for start, _ in islice(INTERESTING.spans(data, begin, end, math.inf), _EXAMINED):
                if start < seen:
                    continue
                first = data.rfind(b"\n", begin, start) + 1 or begin
                seen = data.find(b"\n", start, end) + 1 or end
                line = data[first : min(seen, first + 4 * LONGEST_LINE)]
                yield _as_shown(line.decode("utf-8", "replace").rstrip("\n")[:LONGEST_LINE])


def _as_shown(text: str) -> str:
    """Return a line as a terminal shows it: the last state of a progress bar, without colours."""
    if "\r" in text:
        text = text.rstrip("\r").rpartition("\r")[2]
    return _ANSI.sub("", text) if "\x1b" in text else text


def _last_lines(content: str, body: Passage) -> list[str]:
    """Return the last two lines that say something, the last one first."""
    tail = content[max(body.start, body.end - _LAST_CHARACTERS) : body.end].split("\n")
    return list(islice((text for line in reversed(tail) if (text := _as_shown(line).strip())), 2))


def _description(content: str, frame: Frame, call: Call, log: _Log, raised: str) -> str:
    body = frame.body
    is_session = content.find("test session starts", body.start, body.start + _SNIFFED_CHARACTERS) >= 0
    writers = ["pytest"] if is_session else []
    writers += [tool for summary, tool in log.summaries.items() if outcome_of(summary) is not None]
    program = next((one for one in reversed(call.programs) if one in TOOLS), "")
    writer = program if program not in ("make", "npm", "gradle") else ""
    what = "output"
    if log.failures or writers:
        tool = writer or (writers[-1] if writers else "pytest" if "::" in log.failures[0] else "test")
        what = f"{tool} log"
    summary = next((text for text in reversed(log.summaries) if any(map(str.isdigit, text))), "")
    summary = summary or (f"{len(log.failures):,} failures" if log.failures else raised.partition(":")[0])
    status = f"exit status {frame.exit_status}" if frame.exit_status else ""
    return described(what, "", summary[:44], status, f"{count_lines(content, body):,} lines")
