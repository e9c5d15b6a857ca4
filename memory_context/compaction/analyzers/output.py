"""Shared parts of the analyzers: the frame of an output (echo, prompt, status), its lines, the call."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from ...references import shorten
from ...text import Passage
from ...utf8 import json_object
from ..compactor import Result

__all__ = [
    "FACTS",
    "FACT_LIMIT",
    "FILE_PRINTERS",
    "NAMES",
    "Call",
    "Frame",
    "call_of",
    "count_lines",
    "described",
    "fact",
    "frame_of",
    "head_lines",
    "lines_in",
    "windows",
]

ANALYSED_CHARACTERS = 1_000_000
"""Longer contents are analysed half from each end."""
FACT_LIMIT = 200
DESCRIPTION_CHARACTERS = 110
FACTS = 12
NAMES = 60
"""Limits of an analysis."""
LONGEST_LINE = 1000
"""Longer lines are truncated."""

_STATUS = re.compile(
    r"\b(?:exit(?:ed)?|finished|terminated|return(?=[ _]?code))[ _]?(?:with )?(?:exit )?(?:status|code)"
    r"[\">:= ]{0,4}(-?\d{1,10})\b",
    re.IGNORECASE,
)
_LEADING = re.compile(
    r"(?:wall time|total output lines|chunk id|output|stdout|<output>|```)\b[^\n]{0,80}$|$", re.IGNORECASE
)
_TRAILING = re.compile(r"\S{0,80}@\S{0,80}:[^\n]{0,200}[#$] ?$|</\w{1,20}>$|```$|$")
_INTERPRETER = re.compile(r"\[Python Interpreter: [^\]\n]{0,200}\]$")
_HEAD_CHARACTERS = 16_000
_HEAD_LINES = 200
_STATUS_LINE = 160
_FRAME_LINES = 6


@dataclass(frozen=True)
class Frame:
    """A command output split into body (without echo, prompt and status) and exit status."""

    body: Passage
    exit_status: int | None

    @property
    def has_failed(self) -> bool | None:
        """None without an exit status."""
        return None if self.exit_status is None else self.exit_status != 0


def frame_of(content: str, command: str = "") -> Frame:
    """Return the body and the exit status in the first or last lines."""
    start, end, status = 0, len(content), None
    if command and content.startswith(command) and content[len(command) : len(command) + 1] in ("\n", "\r"):
        start = len(command) + 1
    for _ in range(_FRAME_LINES):
        line_end = content.find("\n", start, start + _STATUS_LINE)
        line = content[start:line_end].strip() if line_end >= 0 else ""
        match = _STATUS.search(line)
        if line_end < 0 or not (match or _LEADING.match(line)):
            break
        status = int(match[1]) if match else status
        start = line_end + 1
    for _ in range(_FRAME_LINES):
        line_start = content.rfind("\n", max(start, end - _STATUS_LINE - 1), end) + 1
        if line_start == 0:
            break
        line = content[line_start:end].strip()
        match = _STATUS.search(line)
        if not (match or _TRAILING.match(line)):
            break
        status = int(match[1]) if match else status
        end = line_start - 1
    if interpreter := _INTERPRETER.search(content, max(start, end - 250), end):
        end = interpreter.start()
    return Frame(Passage(start, max(start, end)), status)


def windows(content: str, body: Passage) -> list[Passage]:
    """Return the analysed ranges: the whole body, or its head and tail, cut at lines."""
    if body.end - body.start <= ANALYSED_CHARACTERS:
        return [body]
    half = ANALYSED_CHARACTERS // 2
    head, tail = content.rfind("\n", body.start, body.start + half), content.find("\n", body.end - half, body.end)
    return [
        Passage(body.start, head if head >= 0 else body.start + half),
        Passage(tail + 1 if tail >= 0 else body.end - half, body.end),
    ]


def lines_in(content: str, passages: list[Passage]) -> list[tuple[int, str]]:
    """Return lines with offsets; long lines truncated, without final CR."""
    lines: list[tuple[int, str]] = []
    for passage in passages:
        start = passage.start
        for text in content[passage.start : passage.end].split("\n"):
            length = len(text)
            if length > LONGEST_LINE:
                text = text[:LONGEST_LINE]
            elif text[-1:] == "\r":
                text = text[:-1]
            lines.append((start, text))
            start += length + 1
    return lines


def head_lines(content: str, body: Passage) -> list[tuple[int, str]]:
    """Return enough first lines to recognise the content."""
    head = Passage(body.start, min(body.end, body.start + _HEAD_CHARACTERS))
    return lines_in(content, [head])[:_HEAD_LINES]


def count_lines(content: str, body: Passage) -> int:
    """Return the number of lines; a final line break starts no new line."""
    if body.end <= body.start:
        return 0
    return content.count("\n", body.start, body.end) + (content[body.end - 1] != "\n")


def fact(text: str) -> str:
    """Return a text as one line of limited length."""
    return shorten(text, FACT_LIMIT)


def described(what: str, subject: str, *rest: str) -> str:
    """Return a description: sort, subject with its middle elided if needed, rest."""
    tail = ", ".join(part for part in rest if part)
    room = DESCRIPTION_CHARACTERS - len(what) - len(tail) - 4
    subject = shorten(subject, 500)
    if len(subject) > room:
        half = max(room - 1, 8) // 2
        subject = f"{subject[: max(room - 1, 8) - half]}…{subject[-half:]}"
    text = " ".join(part for part in (what, subject) if part)
    return shorten(f"{text}, {tail}" if tail else text, DESCRIPTION_CHARACTERS).replace("[", "(").replace("]", ")")


# --- call

FILE_PRINTERS = frozenset({"cat", "head", "tail", "sed", "nl", "bat", "batcat", "less", "more", "awk"})

_PARSED_ARGUMENTS = 200_000
_PARSED_COMMAND = 2000
_COMMAND_KEYS = ("command", "cmd", "commands", "script", "shell_command", "bash_command", "code")
_PATH_KEYS = ("path", "file_path", "filePath", "filepath", "target_file", "filename", "file", "relative_path", "uri")
_EDITOR_COMMANDS = {"view", "create", "str_replace", "insert", "undo_edit", "read", "write", "edit", "open"}

_COMMAND_WORD = re.compile(r"""("(?:[^"\\]|\\.)*"|'[^']*'|\|\|?|&&?|;|\n|[^\s|&;"']+)""")
_PIPE, _ENDS = "|", {"||", "&&", "&", ";", "\n"}
_SILENT = {"cd", "export", "source", ".", "set", "unset", "pushd", "popd", "sleep", "mkdir", "rm", "touch", "clear"}
_PREFIXES = {"sudo", "time", "env", "nohup", "stdbuf", "command", "exec", "xargs", "timeout"}
_RUNNERS = {
    ("python", "-m"),
    ("python3", "-m"),
    ("uv", "run"),
    ("poetry", "run"),
    ("pipenv", "run"),
    ("bundle", "exec"),
}


@dataclass(frozen=True)
class Call:
    """The parsed arguments of a call.

    Attributes:
        command: Shell command or code; empty for none.
        path: File or folder; empty for none.
        pipelines: Printing pipelines: commands, then words.
    """

    command: str
    path: str
    pipelines: tuple[tuple[tuple[str, ...], ...], ...]
    arguments: dict[str, Any]

    @property
    def programs(self) -> list[str]:
        """The first program of each printing pipeline."""
        return [pipeline[0][0] for pipeline in self.pipelines]

    @property
    def prints_file(self) -> bool:
        """Only prints a file that is not a log."""
        words = [words for pipeline in self.pipelines for words in pipeline]
        is_log = any(word.endswith((".log", ".out")) or "/log/" in word for one in words for word in one)
        return len(self.pipelines) == 1 and not is_log and all(one[0] in FILE_PRINTERS for one in words)


@lru_cache(maxsize=16)
def _parsed(arguments: str) -> Call:
    named = (json_object(arguments) if len(arguments) <= _PARSED_ARGUMENTS else None) or {}
    path = next((value for key in _PATH_KEYS if isinstance(value := named.get(key), str) and value), "")
    command = next((text for key in _COMMAND_KEYS if (text := _as_command(named.get(key)))), "")
    if command in _EDITOR_COMMANDS:
        command = ""
    return Call(command, path, _pipelines(command[:_PARSED_COMMAND]), named)


def call_of(result: Result) -> Call:
    """Return the parsed arguments of the call; empty if not JSON."""
    return _parsed(result.arguments)


def _as_command(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if not isinstance(value, list):
        return ""
    words = [word for word in cast(list[Any], value) if isinstance(word, str)]
    return (words[2] if len(words) > 2 and words[1] in ("-c", "-lc") else " ".join(words)).strip()


def _pipelines(command: str) -> tuple[tuple[tuple[str, ...], ...], ...]:
    pipelines: list[list[list[str]]] = [[[]]]
    for word in cast(list[str], _COMMAND_WORD.findall(command)):
        if word == _PIPE:
            pipelines[-1].append([])
        elif word in _ENDS:
            pipelines.append([[]])
        else:
            pipelines[-1][-1].append(word.strip("\"'"))
    stripped = (tuple(words for words in map(_without_prefix, pipeline) if words) for pipeline in pipelines)
    return tuple(pipeline for pipeline in stripped if pipeline and pipeline[0][0] not in _SILENT)


def _without_prefix(words: list[str]) -> tuple[str, ...]:
    while words:
        if "=" in words[0].lstrip("-") and not words[0].startswith(("-", "/")):
            words = words[1:]
        elif words[0] in _PREFIXES:
            words = words[1:]
            while words and (words[0].startswith("-") or words[0].rstrip("smh").isdigit()):
                words = words[1:]
        elif tuple(words[:2]) in _RUNNERS:
            words = words[2:]
        elif words[0] == "npx":
            words = words[1:]
        else:
            return (words[0].rpartition("/")[2] or words[0], *words[1:])
    return ()
