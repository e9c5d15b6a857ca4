"""Reads what shell commands print: exit status, summaries, failed tests, errors, and what repeats.

Any command's output is its; it is asked last, when no reader of a more particular sort of content knows the output.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import islice

from ...escaping import to_utf8
from ..compactor import Result
from ..excerpt import Passage
from ..reading import Reading
from .calls import Call, call_of
from .framing import LABELS, LANDMARKS, count_lines, described, fact, frame_of, lines_in, windows
from .logs import COMPILERS, INTERESTING, SECTION, classify, outcome_of, runs_others, tool_of
from .stack import find_traces

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
_NO_DIGITS = str.maketrans("", "", "0123456789")
_EXAMINED = 4000
_TAIL_CHARACTERS = 20_000
_LEAST_REPEATS = 5
_LONGEST_SHOWN = 120


@dataclass
class _Log:
    lines: list[tuple[int, str]]
    summaries: dict[str, Passage] = field(default_factory=dict[str, Passage])
    failures: dict[str, Passage] = field(default_factory=dict[str, Passage])
    errors: dict[str, Passage] = field(default_factory=dict[str, Passage])
    error_counts: Counter[str] = field(default_factory=Counter[str])
    warnings: dict[str, Passage] = field(default_factory=dict[str, Passage])
    files: Counter[str] = field(default_factory=Counter[str])
    tools: Counter[str] = field(default_factory=Counter[str])
    sections: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    names: list[str] = field(default_factory=list[str])


def read_shell(result: Result) -> Reading | None:
    """Return how a command or a build ended and what it reported; None if the content is no output of a command."""
    content, call = result.content, call_of(result)
    frame = frame_of(content, call.command)
    if not call.command and frame.exit_status is None and not _is_log(content, frame.body):
        return None
    if call.prints_file and not frame.exit_status and not _is_log(content, frame.body):
        return None  # a document that speaks of errors reports none
    passages = windows(content, frame.body)
    log = _read(content, passages)
    has_failed = frame.has_failed if frame.exit_status is not None else _verdict(call, log)
    traces = find_traces(log.lines) if any(content.find("raceback (", p.start, p.end) >= 0 for p in passages) else []
    facts = [f"exit status {frame.exit_status}"] if frame.exit_status else []
    facts += list(log.summaries)[-4:] or ([f"{len(log.failures):,} failures"] if log.failures else [])
    facts += list(log.failures)[:5]
    facts += [trace.line() for trace in traces[-2:]]
    facts += [f"{text} ×{count}" if (count := log.error_counts[text]) > 1 else text for text in list(log.errors)[:4]]
    if log.files:
        facts.append("reported in " + ", ".join(f"{name} ({count})" for name, count in log.files.most_common(6)))
    if log.warnings:
        first = next(iter(log.warnings))
        facts.append(f"{len(log.warnings)} sorts of warnings, first: {first}" if len(log.warnings) > 1 else first)
    facts += _repeats(log.lines)
    if len(facts) < 4:
        facts += _last_lines(log.lines, 3 - len(facts) // 2)
    if frame.exit_status == 0 and len(facts) < 3:
        facts.append("exit status 0")
    ends = [trace.raised_at for trace in traces[-3:] if trace.raised_at]
    important = [*list(log.failures.values())[:20], *ends, *list(log.errors.values())[:20]]
    landmarks = [*list(log.summaries.values())[-6:], *important, *list(log.warnings.values())[:5]]
    return Reading(
        description=_description(call, log, frame.exit_status, count_lines(content, frame.body)),
        has_failed=has_failed,
        facts=list(dict.fromkeys(fact(text) for text in facts if text.strip()))[:12],
        names=list(dict.fromkeys([*log.names, *(name for name, _ in log.files.most_common(20))]))[:60],
        landmarks=list(dict.fromkeys(landmarks))[:LANDMARKS],
        labels=_labels(log, passages),
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


def _read(content: str, passages: list[Passage]) -> _Log:
    log = _Log(lines_in(content, passages))
    told: dict[str, str] = {}
    for index in _interesting(content, passages, log.lines):
        start, raw = log.lines[index]
        text = _as_shown(raw)
        passage = Passage(start, start + len(raw))
        if (section := SECTION.match(text)) and len(log.sections) < LABELS:
            log.sections.append((start, next(group for group in section.groups() if group)))
            log.tools["pytest"] += log.sections[-1][1] == "test session starts"
        noted = classify(text)
        if noted is None:
            continue
        if noted.tool:
            log.tools[noted.tool] += 1
        bare = text.strip().strip("= ") if noted.kind == "summary" else text.strip()
        if noted.kind == "summary":
            log.summaries.pop(bare, None)  # the last place counts
            log.summaries[bare] = passage
        elif noted.kind == "failed":
            test = noted.names[0]
            if bare.startswith("FAILED") and test in told:  # in the progress, without the reason
                log.failures.pop(told[test], None)
            told[test] = bare
            log.failures.setdefault(bare, passage)
            log.names += [name for name in noted.names if name not in log.names[-10:] and len(log.names) < 200]
        elif noted.kind == "warning":
            log.warnings.setdefault(bare[:_LONGEST_SHOWN].translate(_NO_DIGITS) and bare, passage)
        else:
            log.files.update(noted.names)
            if noted.kind == "error":
                log.errors.setdefault(bare, passage)
                log.error_counts[bare] += 1
    return log


def _interesting(content: str, passages: list[Passage], lines: list[tuple[int, str]]) -> list[int]:
    """Return the places in `lines` of the lines worth a closer look, of very many the first ones and the last ones."""
    found: list[int] = []
    first = 0
    for passage in passages:
        data = to_utf8(content[passage.start : passage.end])
        count = data.count(b"\n") + 1
        cut = max(0, len(data) - _TAIL_CHARACTERS)
        cut = data.rfind(b"\n", 0, cut) + 1
        for begin, end in ((0, cut), (cut, len(data))):
            index, position = first + data.count(b"\n", 0, begin), begin
            for start, _ in islice(INTERESTING.spans(data, begin, end, math.inf), _EXAMINED):
                index += data.count(b"\n", position, start)
                position = start
                if not found or found[-1] < index:
                    found.append(index)
        first += count
    return [index for index in found if index < len(lines)]


def _as_shown(text: str) -> str:
    """Return a line as a terminal shows it: the last state of a progress bar, without colours."""
    if "\r" in text:
        text = text.rstrip("\r").rpartition("\r")[2]
    return _ANSI.sub("", text) if "\x1b" in text else text


def _repeats(lines: list[tuple[int, str]]) -> list[str]:
    """Return what was printed many times, apart from digits, with how often."""
    shapes = "\n".join(text for _, text in lines).translate(_NO_DIGITS).split("\n")
    repeated: list[str] = []
    for shape, count in Counter(shapes).most_common(6):
        if count < _LEAST_REPEATS:
            break
        if sum(map(str.isalpha, shape[:80])) >= 8 and len(repeated) < 2:
            sample = _as_shown(lines[shapes.index(shape)][1]).strip()[:_LONGEST_SHOWN]
            repeated.append(f"{count:,} lines like: {sample}")
    return repeated


def _last_lines(lines: list[tuple[int, str]], limit: int) -> list[str]:
    shown: list[str] = []
    for _, raw in reversed(lines[-50:]):
        if (text := _as_shown(raw).strip()) and len(shown) < limit:
            shown.append(f"last line: {text}" if not shown else f"before it: {text}")
    return shown


def _labels(log: _Log, passages: list[Passage]) -> list[tuple[Passage, str]]:
    end = passages[-1].end
    starts = [start for start, _ in log.sections[1:]] + [end]
    return [
        (Passage(start, stop), name) for (start, name), stop in zip(log.sections, starts, strict=False) if stop > start
    ]


def _description(call: Call, log: _Log, exit_status: int | None, line_count: int) -> str:
    program = call.pipelines[-1][0] if call.pipelines else ()
    tool = tool_of(program[0], program[1:]) if program else ""
    wrote = next((name for name, _ in log.tools.most_common() if name != "diagnostics"), "")
    what = f"{tool or wrote} output" if tool or wrote else "output"
    if log.failures or log.tools["pytest"] or any(outcome_of(summary) is not None for summary in log.summaries):
        writer = tool if tool and not runs_others(tool) else wrote or tool  # two tools write some summaries alike
        what = f"{writer} log" if writer else "test log"
    summary = next((text for text in reversed(log.summaries) if any(map(str.isdigit, text))), "")
    summary = summary or (f"{len(log.failures):,} failures" if log.failures else "")
    status = f"exit status {exit_status}" if exit_status else ""
    return described(what, "", summary[:44], status, f"{line_count:,} lines")
