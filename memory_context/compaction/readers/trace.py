"""Reads stack traces of Python, Java, JavaScript, Go, Rust and C#: what was raised, where in one's own code, and why.

Frames in installed packages and in the language's own library say how it came there, seldom what is wrong; so the
innermost frames outside of them come first.
"""

import re
from collections import Counter

from ..compactor import Result
from ..excerpt import Passage
from ..reading import Reading
from .calls import call_of
from .framing import FACTS, LABELS, LANDMARKS, count_lines, described, fact, frame_of, lines_in, windows
from .stack import find_traces

__all__ = ["read_trace"]

_MARKS = (
    "Traceback (most recent call last)",
    "\n\tat ",
    "\n    at ",
    "\n   at ",
    "\ngoroutine ",
    "panicked at ",
)
_TEST_LOG = re.compile(
    r"^=+ (?:test session starts|FAILURES|short test summary)|^Ran \d+ tests? in |^Tests: +\d|^--- FAIL: "
    r"|^test result: "
    r"|^Tests run: ",
    re.MULTILINE,
)
_LEAST_SHARE = 0.3
_REST_CHARACTERS = 1000


def read_trace(result: Result) -> Reading | None:
    """Return what a stack trace says; None if the content is none, or has one among many other things."""
    content, call = result.content, call_of(result)
    frame = frame_of(content, call.command)
    passages = windows(content, frame.body)
    if not any(content.find(mark, p.start, p.end) >= 0 for mark in _MARKS for p in passages):
        return None
    if any(_TEST_LOG.search(content, p.start, p.end) for p in passages):
        return None
    traces = find_traces(lines_in(content, passages))
    if not traces:
        return None
    share = sum(trace.end - trace.start for trace in traces) / max(1, sum(p.end - p.start for p in passages))
    ends = not content[traces[-1].end : min(frame.body.end, traces[-1].end + _REST_CHARACTERS)].strip()
    if not ends and share < _LEAST_SHARE:
        return None
    last = next((trace for trace in reversed(traces) if not trace.is_cause), traces[-1])
    counts = Counter(trace.line() for trace in traces)
    others = {trace.line(): trace.is_cause for trace in reversed(traces)}
    facts = [_counted(last.line(), counts), *(fact(f"at {at}") for at in last.own_frames[1:4])]
    facts += [
        _counted(f"cause: {line}" if is_cause else line, counts)
        for line, is_cause in list(others.items())[:FACTS]
        if line != last.line()
    ]
    names = [last.name, *(at.file for at in last.own_frames[:12]), *(at.function for at in last.own_frames[:12])]
    names += [name for trace in traces[:20] for name in (trace.name, *(at.file for at in trace.own_frames[:3]))]
    shown = (last, *traces[:-LANDMARKS:-1])
    landmarks = [at for trace in shown[:20] if (at := trace.raised_at)]
    landmarks += [at.passage for trace in shown for at in trace.own_frames[:8]]
    return Reading(
        description=described(
            f"stack trace, {last.name}" if len(traces) == 1 else f"{len(traces)} stack traces, last {last.name}",
            "",
            f"{count_lines(content, frame.body):,} lines",
        ),
        has_failed=frame.has_failed if frame.exit_status is not None else (True if ends else None),
        facts=list(dict.fromkeys(facts))[:FACTS],
        names=[name for name in dict.fromkeys(names) if name and name != "<module>"][:60],
        landmarks=list(dict.fromkeys(landmarks))[:LANDMARKS],
        labels=[(Passage(trace.start, trace.end), f"trace of {trace.name}") for trace in traces[:LABELS]],
    )


def _counted(line: str, counts: Counter[str]) -> str:
    count = counts[line.removeprefix("cause: ")]
    return fact(f"{count:,} times {line}" if count > 1 else line)
