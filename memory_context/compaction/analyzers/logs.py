"""How build and test tools write what matters: summaries, failures, errors, and which tool wrote a log.

The patterns are tried on single lines; the one expression that finds those lines in a long log is linear.
"""

import re
from typing import NamedTuple

from ...patterns import LinePattern

__all__ = ["COMPILERS", "INTERESTING", "TOOLS", "Noted", "classify", "outcome_of"]

INTERESTING = LinePattern(
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
TOOLS = frozenset(_SUMMARIES)
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
COMPILERS = frozenset({"gcc", "g++", "cc", "c++", "clang", "clang++", "javac", "tsc", "rustc", "mypy", "pyright"})
"""Programs that fail if they report an error."""


class Noted(NamedTuple):
    """A classified log line: summary, failed test, error or place; its names; its writer."""

    kind: str
    names: tuple[str, ...] = ()
    tool: str = ""


def classify(text: str) -> Noted | None:
    """Return what a line of a log is; None if it is nothing in particular."""
    bare = text.strip("=- ") if text[:2] == "==" else text
    if match := _SUMMARY.match(bare):
        return Noted("summary", (), match.lastgroup or "")
    for pattern in _FAILED:
        if match := pattern.match(text):
            return Noted("failed", tuple(name for name in match.groups() if name))
    if match := _DIAGNOSTIC.match(text):
        return None if match[2] in ("warning", "note", "info", "hint") else Noted("error", (match[1],))
    if match := _RUSTC_PLACE.match(text):
        return Noted("place", (match[1],))
    return Noted("error") if _ERROR.match(text) and not _NO_ERROR.match(text) else None


def outcome_of(summary: str) -> bool | None:
    """Return whether a summary line says that something failed; None if it does not say."""
    if _FAILED_COUNT.search(summary) or any(word in summary for word in _FAILED_WORDS) or summary == "FAIL":
        return True
    return False if _PASSED.search(summary) else None
