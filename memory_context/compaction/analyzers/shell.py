"""Shell, build and test outputs: exit status, summaries, failed tests, errors, the last line. Runs last, because it
matches any command.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from ...patterns import LinePattern
from ...text import Passage
from ...utf8 import to_utf8
from ..compactor import Analysis, Result
from .output import FACTS, LONGEST_LINE, NAMES, Call, Frame, call_of, count_lines, described, fact, frame_of, windows

__all__ = ["analyze_shell"]

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
_RAISED = re.compile(r"^[A-Za-z_][\w.]{0,200}(?:: [^\n]*)?(?=\r?$)", re.MULTILINE)  # first unindented line
_TRACE = "Traceback (most recent call last)"
_FRAME = re.compile(r"^[ |+]*File \"([^\"\n]{1,300})\", line (\d{1,9})", re.MULTILINE)
_RAISED_CHARACTERS = 120
_EXAMINED = 4000
_TAIL_CHARACTERS = 20_000
_LAST_CHARACTERS = 4000

_INTERESTING = LinePattern(
    r"\b\d+ (?:pass|fail|error|skipped|warning|example|problem|pending|vulnerab|upgraded|files? |packages?\b)"
    r"|^=+ .* =+$"
    r"|^Ran \d+ test|^(?:FAILED|ERROR|FAIL|OK|PASS)\b|^ +(?:FAIL|×|✕|✗|●) |^[×✕✗●✖] |^\s*\d+\) \S|^not ok \d"
    r"|^ *(?:Tests|Test Suites|Test Files):? +\d|--- FAIL: |^ok  \t|^test (?:result: |\S+ \.\.\. FAILED)|\*\*\*"
    r"|Tests run: |BUILD |Build s|^\[ERROR\]|tests completed"
    r"|^up to date\b|^npm (?:ERR|error)|Successfully "
    r"|^E: |^Err:\d|generated|^Found \d+ |All checks passed|^Success: |reformatted"
    r"|^#\d+ ERROR|tests passed|Finished "
    r"|(?:Error|Exception|ERROR)\b|(?i:\berror\b|\bfatal\b|\bpanic|\bcritical\b|\bfailed\b)"
    r"|^ *--> |^E  |denied|[Nn]o such file|not found|[Cc]annot |[Cc]ould not|\b[Kk]illed\b|imed out|Segmentation"
)
_SUMMARIES = {
    "pytest": r"(?:=+ )?\d+ (?:passed|failed|errors?|skipped|deselected|xfailed|warnings?)\b.{0,150} in [\d.:]+ ?s"
    r"|=+ no tests ran in",
    "unittest": r"Ran \d+ tests? in |FAILED \((?:failures|errors|skipped|expected)|OK(?: \(.{1,80}\))?$",
    "jest": r"(?:Tests|Test Suites): +\d",
    "vitest": r" *(?:Test Files|Tests) {1,3}\d",
    "mocha": r" *\d+ (?:passing|failing|pending)\b",
    "go": r"(?:FAIL|ok  )\t\S|FAIL$",
    "cargo": r"test result: |error: could not compile|warning: .{1,80} generated \d+ warning"
    r"|\s*Finished .{1,60} in [\d.]+",
    "maven": r"(?:\[\w+\] )?Tests run: .{1,120}$|\[INFO\] BUILD |\[ERROR\] +BUILD ",
    "gradle": r"BUILD (?:SUCCESSFUL|FAILED)|\d+ tests? completed",
    "dotnet": r"(?:Passed|Failed)! +- |Build succeeded|Build FAILED",
    "npm": r"(?:added|removed|changed|audited) \d+ packages?|up to date\b|found \d+ vulnerabilit",
    "pip": r"Successfully (?:installed|uninstalled) ",
    "apt": r"\d+ upgraded, \d+ newly installed",
    "make": r"make(?:\[\d+\])?: \*\*\* ",
    "compiler": r"\d+ (?:errors?|warnings?)(?: and \d+ \w+)? generated",
    "mypy": r"Success: no issues found|Found \d+ errors? in \d+ files? \(checked",
    "tsc": r"Found \d+ errors?(?: in (?:\d+ files?|\S{1,200}))?\.?(?:$| in the same)",
    "ruff": r"All checks passed!|\d+ files? (?:reformatted|left unchanged|would be reformatted)",
    "eslint": r"✖ \d+ problems?",
    "pyright": r"\d+ errors?, \d+ warnings?",
    "rspec": r"\d+ examples?, \d+ failures?",
    "phpunit": r"OK \(\d+ tests?|Tests: \d+, Assertions",
    "ctest": r"\d+% tests passed",
    "docker": r"Successfully (?:built|tagged) |ERROR: failed to (?:solve|build)",
}
_TOOLS = frozenset(_SUMMARIES)
_SUMMARY = re.compile("|".join(f"(?P<{tool}>{pattern})" for tool, pattern in _SUMMARIES.items()))
_FAILED = tuple(
    re.compile(pattern)
    for pattern in (
        r"(?:FAILED|ERROR) ((\S{1,300}?)(?:::\S{1,200}(?:\[[^\]]{0,100}\])?)?)(?: - .{0,600}|)$",
        r"(\S{1,300}::\S{1,200}) (?:FAILED|ERROR)(?: +\[ *\d+%\])?$",
        r"(?:FAIL|ERROR): (\w{1,150}) \(([\w.<> ]{1,200})\)",
        r" *--- FAIL: (\S{1,200}) \(",
        r" ?FAIL +(\S{1,300}\.\w{1,5})(?: > .{1,200})?",
        r"test (\S{1,200}) \.\.\. FAILED",
        r" *(?:●|✕|×|✗) ([^\n]{1,150})",
        r"not ok \d+ (?:- )?([^\n]{1,150})",
        r" {1,8}\d{1,4}\) ([^\n]{1,150})",
        r"\[ERROR\] +(?:Failures: +)?([\w.]{1,150}(?::\d+|\([^)]{0,80}\)))",
        r" *\d+/\d+ Test +#\d+: (\S{1,150}) \.+\*\*\*",
    )
)
_DIAGNOSTIC = re.compile(
    r"((?:[A-Za-z]:)?[\w./\\@+~-]{1,300}\.\w{1,6})(?::\d{1,9}(?::\d{1,9})?|\(\d{1,9}(?:,\d{1,9})?\)):? "
    r"?(?:-\s)?((?:fatal |internal )?error|warning|note|info|hint|[A-Z]{1,6}\d{2,5})\b"
)
_RUSTC_PLACE = re.compile(r" *--> ([^\s:]{1,300}):\d")
_ERROR = re.compile(
    r"(?:.{0,80}?[\s\[(|:.]|)(?:\w{0,60}(?:Error|Exception)|error|ERROR|[Ff]atal|FATAL|[Pp]anic"
    r"|CRITICAL)\b(?:[^:]{0,20}:|\]| TS\d|\[E\d|[| ]+\S)"
    r"|E  |E: |Err:|npm (?:ERR!|error) |.{0,150}(?:[Pp]ermission denied|[Nn]o such file|command not found"
    r"|Segmentation fault|[Tt]imed out|\b[Ff]ailed to |[Cc]ould not |[Cc]annot |\bKilled\b)"
)
_NO_ERROR = re.compile(
    r"\s*(?:\d{1,6} +[|+-](?: |$)|except\b|raise\b|#|//|\*|0 errors?\b|no errors?\b|>|<|def |class )"
    r"|.{0,60}\b(?:0|no) (?:errors?|failed)\b",
    re.IGNORECASE,
)
_FAILED_COUNT = re.compile(
    r"(?<!\d)[1-9]\d{0,8} (?:failed|failing|errors?\b|failures?\b|problems?\b)|Failed: +[1-9]|(?:Failures"
    r"|Errors): [1-9]",
    re.IGNORECASE,
)
_FAILED_WORDS = ("FAILED", "FAIL\t", "BUILD FAIL", "*** ", "could not compile", "failed to solve", "failed to build")
_PASSED = re.compile(
    r"\b[1-9]\d{0,8} (?:passed|passing)\b|^OK\b|BUILD SUCCESS|test result: ok|no issues found|All checks passed"
    r"|Passed!|^ok  \t|Successfully |, 0 failures|0 errors, 0"
)
_COMPILERS = frozenset({"gcc", "g++", "cc", "c++", "clang", "clang++", "javac", "tsc", "rustc", "mypy", "pyright"})
"""Programs whose error reports mean failure."""


class _Noted(NamedTuple):
    """A classified log line: kind, names in it, tool."""

    kind: str
    names: tuple[str, ...] = ()
    tool: str = ""


def _classify(text: str) -> _Noted | None:
    bare = text.strip("=- ") if text[:2] == "==" else text
    if match := _SUMMARY.match(bare):
        return _Noted("summary", (), match.lastgroup or "")
    for pattern in _FAILED:
        if match := pattern.match(text):
            return _Noted("failed", tuple(name for name in match.groups() if name))
    if match := _DIAGNOSTIC.match(text):
        return None if match[2] in ("warning", "note", "info", "hint") else _Noted("error", (match[1],))
    if match := _RUSTC_PLACE.match(text):
        return _Noted("place", (match[1],))
    return _Noted("error") if _ERROR.match(text) and not _NO_ERROR.match(text) else None


def _outcome_of(summary: str) -> bool | None:
    """Return whether a summary line reports failure; None if unclear."""
    if _FAILED_COUNT.search(summary) or any(word in summary for word in _FAILED_WORDS) or summary == "FAIL":
        return True
    return False if _PASSED.search(summary) else None


@dataclass
class _Log:
    summaries: dict[str, str] = field(default_factory=dict[str, str])
    failures: list[str] = field(default_factory=list[str])
    errors: dict[str, None] = field(default_factory=dict[str, None])
    names: dict[str, None] = field(default_factory=dict[str, None])


def analyze_shell(result: Result) -> Analysis | None:
    """Return the outcome and reports of a command or build; None for other content."""
    content, call = result.content, call_of(result)
    frame = frame_of(content, call.command)
    last = _last_lines(content, frame.body)
    raised, is_end = _raised(content, frame.body)
    is_log = is_end or _is_log(content, frame.body)
    is_shell = call.command or frame.exit_status is not None
    if not is_log and (not is_shell or (call.prints_file and not frame.exit_status)):
        return None  # documents only mention errors
    log = _read(content, frame.body)
    has_failed = frame.has_failed if frame.exit_status is not None else is_end or _verdict(call, log)
    facts = [raised if is_end else "", *([f"exit status {frame.exit_status}"] if frame.exit_status else [])]
    facts += list(log.summaries)[-4:] or ([f"{len(log.failures):,} failures"] if log.failures else [])
    facts += [raised, *log.failures[:5], *(text for text in list(log.errors)[:4] if not raised.startswith(text))]
    if not (log.summaries or log.failures or log.errors):
        facts += [f"{'before it' if number else 'last line'}: {text}" for number, text in enumerate(last)]
    return Analysis(
        description=_description(content, frame, call, log, raised),
        has_failed=has_failed,
        facts=list(dict.fromkeys(fact(text) for text in facts if text.strip()))[:FACTS],
        names=list(log.names)[:NAMES],
    )


def _verdict(call: Call, log: _Log) -> bool | None:
    """Return whether summaries, failed tests or compiler errors report failure."""
    verdicts = [verdict for verdict in map(_outcome_of, log.summaries) if verdict is not None]
    if verdicts:
        return any(verdicts)
    has_failures = any("::" in text and ("FAILED" in text or text.startswith("ERROR ")) for text in log.failures)
    has_errors = bool(log.errors) and not _COMPILERS.isdisjoint(call.programs[-1:])
    return True if has_failures or has_errors else None


def _is_log(content: str, body: Passage) -> bool:
    head = _SHAPES.search(content, body.start, min(body.end, body.start + _SNIFFED_CHARACTERS))
    return bool(head or _SHAPES.search(content, max(body.start, body.end - _SNIFFED_CHARACTERS), body.end))


def _raised(content: str, body: Passage) -> tuple[str, bool]:
    """Return the last Python exception with place, and whether output ends there."""
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
        if (noted := _classify(text)) is None:
            continue
        bare = text.strip().strip("= ") if noted.kind == "summary" else text.strip()
        if noted.kind == "summary":
            log.summaries.pop(bare, None)  # the last place counts
            log.summaries[bare] = noted.tool
        elif noted.kind == "failed":
            place = told.setdefault(noted.names[0], len(log.failures))
            if place == len(log.failures):
                log.failures.append(bare)
            elif bare.startswith("FAILED"):  # progress line, without the reason
                log.failures[place] = bare
        elif noted.kind == "error":
            log.errors.setdefault(bare)
        if len(log.names) < 2 * NAMES:
            log.names.update(dict.fromkeys(noted.names))
    return log


def _interesting(content: str, body: Passage) -> Iterator[str]:
    """Yield the classified lines, of many only the first and last."""
    for passage in windows(content, body):
        data = to_utf8(content[passage.start : passage.end])
        cut = data.rfind(b"\n", 0, max(0, len(data) - _TAIL_CHARACTERS)) + 1
        seen = -1
        for begin, end in ((0, cut), (cut, len(data))):
            for start, _ in islice(_INTERESTING.spans(data, begin, end, math.inf), _EXAMINED):
                if start < seen:
                    continue
                first = data.rfind(b"\n", begin, start) + 1 or begin
                seen = data.find(b"\n", start, end) + 1 or end
                line = data[first : min(seen, first + 4 * LONGEST_LINE)]
                yield _as_shown(line.decode("utf-8", "replace").rstrip("\n")[:LONGEST_LINE])


def _as_shown(text: str) -> str:
    """Return a line as a terminal shows it: final progress, no colours."""
    if "\r" in text:
        text = text.rstrip("\r").rpartition("\r")[2]
    return _ANSI.sub("", text) if "\x1b" in text else text


def _last_lines(content: str, body: Passage) -> list[str]:
    """Return the last two nonblank lines, last one first."""
    tail = content[max(body.start, body.end - _LAST_CHARACTERS) : body.end].split("\n")
    return list(islice((text for line in reversed(tail) if (text := _as_shown(line).strip())), 2))


def _description(content: str, frame: Frame, call: Call, log: _Log, raised: str) -> str:
    body = frame.body
    is_session = content.find("test session starts", body.start, body.start + _SNIFFED_CHARACTERS) >= 0
    writers = ["pytest"] if is_session else []
    writers += [tool for summary, tool in log.summaries.items() if _outcome_of(summary) is not None]
    program = next((one for one in reversed(call.programs) if one in _TOOLS), "")
    writer = program if program not in ("make", "npm", "gradle") else ""
    what = "output"
    if log.failures or writers:
        tool = writer or (writers[-1] if writers else "pytest" if "::" in log.failures[0] else "test")
        what = f"{tool} log"
    summary = next((text for text in reversed(log.summaries) if any(map(str.isdigit, text))), "")
    summary = summary or (f"{len(log.failures):,} failures" if log.failures else raised.partition(":")[0])
    status = f"exit status {frame.exit_status}" if frame.exit_status else ""
    return described(what, "", summary[:44], status, f"{count_lines(content, body):,} lines")
