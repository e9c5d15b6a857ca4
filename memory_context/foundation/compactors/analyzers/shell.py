"""Reports of commands: exit status, summaries of tests and builds, the exception, failed tests, the last line."""

import re
from itertools import islice

from memory_context.foundation.text.landmarks import error_lines

from ...patterns import regex
from ..compactor import Analysis, Result
from .output import FACTS, NAMES, Frame, call_of, count_lines, fact, frame_of, size_and_first_line

__all__ = ["analyze_command", "analyze_report"]

_TAIL_CHARACTERS = 20_000
_SUMMARY_LINES = 25  # from the end
_LINE_CHARACTERS = 400
_SUMMARY = regex(
    r"\W{0,80}(?:Tests?(?: Suites| Files)?:?\s{1,9})?\d+ (?:passed|failed|failing|passing|failures?|errors?|problems?"
    r"|examples?|tests? (?:passed|completed))\b|Ran \d+ tests? in |(?:FAILED|OK) \(|OK$|FAIL$|(?:FAIL|ok  )\t"
    r"|test result: |\W{0,9}(?:\w+\W{1,3})?Tests run: |(?:\W\w+\W )?BUILD |Build (?:succeeded|FAILED)"
    r"|(?:Passed|Failed)! |Found \d+ errors?|Success: |All checks passed|Successfully |added \d+ packages"
    r"|error: could not compile|make(?:\[\d+\])?: \*\*\* |ERROR: failed to "
)
_FAILED_COUNT = regex(
    r"(?<!\d)[1-9]\d{0,8} (?:failed|failing|errors?\b|failures?\b|problems?\b)|(?:failures|errors|Failed)[:=] *[1-9]",
    re.IGNORECASE,
)
_FAILED_WORDS = regex(r"FAIL|\*\*\*|could not compile|failed to ")
_PASSED = regex(
    r"\b[1-9]\d{0,8} (?:passed|passing|examples)\b|OK\b|SUCCESS|: ok|ok  |Success|All checks|Passed!|succeeded"
)
_FAILED_TEST = regex(
    r"^(?:(?:FAILED|ERROR|FAIL:|ERROR:|--- FAIL:) {1,3}(\S{1,300})|test (\S{1,200}) \.\.\. FAILED"
    r"| {0,4}FAIL {1,3}(\S{1,300}))",
    re.MULTILINE,
)
_DIAGNOSTIC = regex(r"^[^\s:(]{1,300}(?::\d{1,7}(?::\d{1,7})?|\(\d{1,7},\d{1,7}\)): (?:fatal )?error\b", re.MULTILINE)
"""As compilers and type checkers report: `a.c:3:9: error`, `a.ts(3,9): error`."""
_MOST_DIAGNOSTICS = 999
_SESSION = "test session starts"
_TRACE = "Traceback (most recent call last)"
_TRACE_FILE = regex(r"^[ |+]*File \"([^\"\n]{1,300})\", line (\d{1,9})", re.MULTILINE)
_RAISED = regex(r"^[A-Za-z_][\w.]{0,200}(?:: [^\n]*)?(?=\r?$)", re.MULTILINE)  # first unindented line


def analyze_report(result: Result) -> Analysis | None:
    """Return the outcome of tests, a build or a program that failed; None for other content."""
    call = call_of(result)
    frame = frame_of(result.content, call.command)
    if call.path and not call.path.endswith((".log", ".out")) and not frame.exit_status:
        return None  # a file that mentions errors
    body = result.content[frame.body.start : frame.body.end]
    tail = [text for text in _shown(body[-_TAIL_CHARACTERS:]).split("\n") if text.strip()]
    summaries = [text.strip("= ") for text in tail[-_SUMMARY_LINES:] if _SUMMARY.match(text[:_LINE_CHARACTERS])]
    raised, ends_so = _raised(body)
    is_session = _SESSION in body[:_LINE_CHARACTERS]
    reported = 0 if call.path else sum(1 for _ in islice(_DIAGNOSTIC.finditer(body), _MOST_DIAGNOSTICS))
    if not (summaries or ends_so or is_session or reported or frame.exit_status):
        return None
    outcomes = [is_bad for text in summaries if (is_bad := _is_bad(text)) is not None]
    has_failed = ends_so or (any(outcomes) if outcomes else reported > 0 or None)
    failed = [
        text for found in islice(_FAILED_TEST.finditer(body), NAMES) if (text := next(filter(None, found.groups())))
    ]
    errors = [body[one.start : one.end] for one in error_lines(body, 0, len(body), 4)] if not raised else []
    facts = [*_status(frame), *summaries[-3:], raised, *map("failed: {}".format, dict.fromkeys(failed[:5])), *errors]
    facts += [f"last line: {tail[-1]}"] if not summaries and tail else []
    said = next((text for text in reversed(summaries) if any(map(str.isdigit, text))), raised.partition(":")[0])
    said = said or (f"{reported} error{'s' if reported > 1 else ''}" if reported else "")
    what = "test log" if is_session or failed or "test" in "".join(summaries).lower() or "passed" in said else "output"
    described = [what, *([said[:60]] if said else []), *_status(frame), f"{count_lines(body):,} lines"]
    return Analysis(
        ", ".join(described),
        has_failed if frame.exit_status is None else frame.exit_status != 0,
        _distinct(facts),
        [name for name in dict.fromkeys(failed) if len(name) > 1],
    )


def analyze_command(result: Result) -> Analysis | None:
    """Return size and last line of any command's output; None without a command."""
    call = call_of(result)
    frame = frame_of(result.content, call.command)
    if not call.command and frame.exit_status is None:
        return None
    body = result.content[frame.body.start : frame.body.end]
    last = _shown(body[-_TAIL_CHARACTERS:]).rstrip().rpartition("\n")[2]
    has_failed = None if frame.exit_status is None else frame.exit_status != 0
    facts = _distinct([*_status(frame), f"last line: {last}" if last else ""])
    return Analysis(f"output, {size_and_first_line(body)}", has_failed, facts)


def _status(frame: Frame) -> list[str]:
    return [f"exit status {frame.exit_status}"] if frame.exit_status else []


def _is_bad(summary: str) -> bool | None:
    if _FAILED_COUNT.search(summary) or _FAILED_WORDS.search(summary):
        return True
    return False if _PASSED.search(summary) else None


def _raised(body: str) -> tuple[str, bool]:
    """Return the last Python exception with its place, and whether the output ends there."""
    start = body.rfind(_TRACE, max(0, len(body) - _TAIL_CHARACTERS))
    frames = list(_TRACE_FILE.finditer(body, start)) if start >= 0 else []
    match = _RAISED.search(body, frames[-1].end()) if frames else None
    if match is None:
        return "", False
    return f"{match[0][:120]} ({frames[-1][1]}:{frames[-1][2]})", not body[match.end() :].strip()


def _shown(text: str) -> str:
    """Return a text with the last state of each line, as a terminal shows it."""
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")) if "\r" in text else text


def _distinct(facts: list[str]) -> list[str]:
    return [text for text in dict.fromkeys(map(fact, facts)) if text][:FACTS]
