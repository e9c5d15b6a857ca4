"""Finds stack traces of Python, Java, JavaScript, Go, Rust and C# in lines, each with its frames, innermost first.

A trace is found by its shape alone, wherever it stands: in the output of a program, in a test log, in the log of a
service.
"""

import re

from ..excerpt import Passage
from .frames import Trace, TraceFrame, is_foreign, raised_in

__all__ = ["find_traces"]

_TRACES = 2000
_FRAMES = 400

_PYTHON_FRAME = re.compile(r"\s*File \"([^\"\n]{1,400})\", line (\d{1,9})(?:, in (.{1,200}))?")
_CELL_FRAME = re.compile(r"(?:File|Cell)\s([^\s,:]{1,400}(?:\[\d+\])?)(?:, line |:)(\d{1,9})(?:, in (.{1,100}))?")
_AT_JAVA = re.compile(r"\s+at ([\w.$<>/@]{1,300})\(([\w.$-]{1,200}):(\d{1,9})\)")
_AT_CSHARP = re.compile(r"\s+at (.{1,400}?) in (.{1,400}):line (\d{1,9})")
_AT_SCRIPT = re.compile(
    r"\s+at (?:(?:async )?([^\s(]{1,200}(?: \[as [^\]]{1,80}\])?) \()?(?:file://)?([^()\s]{1,400}):(\d{1,9}):\d{1,9}\)?"
)
_AT_OTHER = re.compile(r"\s+at \S|\s*\.\.\. \d+ (?:more|common)")
_GO_FRAME = re.compile(r"\t(\S{1,400}\.\w{1,3}):(\d{1,9})(?: \+0x[0-9a-f]+)?$")
_RUST_FRAME = re.compile(r"\s+at (\S{1,400}\.rs):(\d{1,9})(?::\d{1,9})?$")
_RUST_PANIC = re.compile(
    r"thread '([^']{0,100})'(?: \(\d+\))? panicked at (?:'(.{0,300})', )?(\S{1,400}):(\d{1,9}):\d{1,9}:?"
)
_GO_PANIC = re.compile(r"(?:panic|fatal error): ")
_JAVA_THREAD = re.compile(r"Exception in thread \"[^\"\n]{0,100}\" ")
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")

_FOREIGN_CALLS = (
    "java.", "javax.", "jdk.", "sun.", "jakarta.", "kotlin.", "scala.", "org.springframework.", "org.junit.",
    "org.apache.",
    "System.", "Microsoft.",
)  # fmt: skip


def find_traces(lines: list[tuple[int, str]]) -> list[Trace]:
    """Return the stack traces in some lines, in order."""
    traces: list[Trace] = []
    index = 0
    while index < len(lines) and len(traces) < _TRACES:
        text = lines[index][1]
        if "Traceback (most recent call last)" in text:
            index = _read_python(lines, index, traces)
        elif text.startswith(("\tat ", "    at ", "   at ", "  at ")) and index:
            index = _read_at(lines, index, traces)
        elif "panicked at " in text and (match := _RUST_PANIC.search(text)):
            index = _read_rust(lines, index, match, traces)
        elif text.startswith(("panic: ", "fatal error: ")) and _GO_PANIC.match(text):
            index = _read_go(lines, index, traces)
        else:
            index += 1
    return traces


def _read_python(lines: list[tuple[int, str]], index: int, traces: list[Trace]) -> int:
    start, head = lines[index]
    indent = head[: len(head) - len(head.lstrip(" |+-"))]
    trace = Trace(start, start + len(head))
    stop = min(len(lines), index + _FRAMES * 4)
    is_cell = not head.lstrip(" |+-").startswith("Traceback")
    frames: list[TraceFrame] = []
    index += 1
    while index < stop:
        at, text = lines[index]
        inner = text[len(indent) :]
        if (match := (_CELL_FRAME if is_cell else _PYTHON_FRAME).match(inner)) is not None:
            end = at + len(text)
            if not is_cell and index + 1 < stop and lines[index + 1][1].startswith(indent + "    "):
                end = lines[index + 1][0] + len(lines[index + 1][1])
            frames.append(TraceFrame(match[1], match[2], match[3] or "", Passage(at, end), not is_foreign(match[1])))
        elif _ends_python(inner, is_cell, bool(frames)):
            trace.raised, trace.raised_at = inner.strip(), Passage(at, at + len(text))
            trace.end = at + len(text)
            index += 1
            break
        elif not inner and not is_cell:
            break
        trace.end = at + len(text)
        index += 1
    trace.frames = frames[::-1]
    for _, text in lines[index : index + 3]:
        if text.startswith(_CHAIN):
            trace.is_cause = True
    if trace.raised:
        traces.append(trace)
    return index


def _ends_python(text: str, is_cell: bool, has_frames: bool) -> bool:
    if is_cell:
        return has_frames and text[:1].isalpha() and raised_in(text) is not None
    return bool(text) and not text[0].isspace() and not text.startswith(("File ", "Traceback", "["))


def _read_at(lines: list[tuple[int, str]], index: int, traces: list[Trace]) -> int:
    first = following = index
    while first > 0 and index - first < 6:  # a message may take several lines
        first -= 1
        text = lines[first][1]
        if raised_in(text):
            break
    else:
        first = index - 1
    start, head = lines[first]
    raised = _JAVA_THREAD.sub("", head.strip())
    named = raised_in(raised)
    trace = Trace(start, start + len(head))
    while index < len(lines) and len(trace.frames) < _FRAMES:
        at, text = lines[index]
        if (frame := _frame_at(at, text)) is not None:
            trace.frames.append(frame)
        elif not _AT_OTHER.match(text) and not text.startswith("   --- "):
            break
        trace.end = at + len(text)
        index += 1
    if named and trace.frames:
        is_cause = raised.startswith(("Caused by: ", "---> "))
        trace.raised, trace.raised_at, trace.is_cause = (
            raised[named.start() :],
            Passage(start, start + len(head)),
            is_cause,
        )
        traces.append(trace)
    return max(index, following + 1)


def _frame_at(at: int, text: str) -> TraceFrame | None:
    passage = Passage(at, at + len(text))
    if match := _AT_JAVA.match(text):
        return TraceFrame(match[2], match[3], match[1], passage, not match[1].startswith(_FOREIGN_CALLS))
    if match := _AT_CSHARP.match(text):
        function = match[1].partition("(")[0]
        return TraceFrame(match[2], match[3], function, passage, not function.startswith(_FOREIGN_CALLS))
    if match := _AT_SCRIPT.match(text):
        return TraceFrame(match[2], match[3], match[1] or "", passage, not is_foreign(match[2]))
    return None


def _read_rust(lines: list[tuple[int, str]], index: int, match: re.Match[str], traces: list[Trace]) -> int:
    start, text = lines[index]
    end, message = start + len(text), match[2] or ""
    if not message and index + 1 < len(lines):
        index += 1
        message, end = lines[index][1], lines[index][0] + len(lines[index][1])
    trace = Trace(start, end, f"panic: {message.strip()}", Passage(start, end))
    trace.frames.append(TraceFrame(match[3], match[4], "", Passage(start, end), not is_foreign(match[3])))
    index += 1
    function = ""
    while index < len(lines) and (text := lines[index][1]).startswith((" ", "stack backtrace", "note: ")):
        at = lines[index][0]
        if frame := _RUST_FRAME.match(text):
            trace.frames.append(
                TraceFrame(frame[1], frame[2], function, Passage(at, at + len(text)), not is_foreign(frame[1]))
            )
        else:
            function = text.rpartition(": ")[2]
        trace.end = at + len(text)
        index += 1
    traces.append(trace)
    return index


def _read_go(lines: list[tuple[int, str]], index: int, traces: list[Trace]) -> int:
    start, text = lines[index]
    trace = Trace(start, start + len(text), text, Passage(start, start + len(text)))
    index += 1
    function, stop = "", min(len(lines), index + _FRAMES)
    while index < stop:
        at, text = lines[index]
        if match := _GO_FRAME.match(text):
            trace.frames.append(
                TraceFrame(match[1], match[2], function, Passage(at, at + len(text)), not is_foreign(match[1]))
            )
        elif (
            text
            and not text.startswith(("goroutine ", "\t", "[signal", "created by ", "exit status"))
            and not text.endswith(")")
        ):
            break
        function = text.rpartition("(")[0] or text
        trace.end = at + len(text) if text else trace.end
        index += 1
    if trace.frames:
        traces.append(trace)
    return index
