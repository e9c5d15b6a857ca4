"""Reads a result for all analyzers: its call, the frame of its output (echo, prompt, exit status), text and lines."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, cast

from memory_context.foundation.references import one_line, shorten
from memory_context.foundation.text.landmarks import Passage
from memory_context.foundation.utf8 import json_object

from ...patterns import regex
from ..compactor import Result
from ..names import reads_as_order

__all__ = [
    "FACTS",
    "FACT_LIMIT",
    "LONGEST_LINE",
    "NAMES",
    "SAMPLED",
    "Call",
    "Content",
    "Frame",
    "call_of",
    "count_lines",
    "fact",
    "frame_of",
    "size_and_first_line",
    "size_of",
    "without_series",
]

FACT_LIMIT = 200
FACTS = 12
NAMES = 60
"""Limits of an analysis."""
SAMPLED = 40  # lines or records
LONGEST_LINE = 1000  # characters that are looked at

_READ_CHARACTERS = 400_000
_HTTP = regex(
    r"(?:[*>] [^\n]*\n)*(?:< )?HTTP/\d[^\n]*\n(?:[*<>] [^\n]*\n|[{}] \[[^\n]*\n|[\w-]{1,60}:[^\n]*\n)*(?:[ \r]*\n)?"
)
"""Status and headers before an answer, as `curl -i` and `curl -v` print them."""
_PATTERN_SUFFIX = regex(r"\.(?:sample|example|default|dist|template|tmpl|in|j2|orig|bak)$")
_ALIKE = 12
_DIGITS = regex(r"\d+")
_NUMBER = regex(r"[ \t]*(\d{1,7})(?:\t|→| ?[:|] ?)")

_STATUS = regex(
    r"\b(?:exit(?:ed)?|finished|terminated|return(?=[ _]?code))[ _]?(?:with )?(?:exit )?(?:status|code)"
    r"[\">:= ]{0,4}(-?\d{1,10})\b",
    re.IGNORECASE,
)
_LEADING = regex(r"(?:wall time|total output lines|chunk id|output|stdout|<output>|```)\b[^\n]{0,80}$|$", re.IGNORECASE)
_TRAILING = regex(r"\S{0,80}@\S{0,80}:[^\n]{0,200}[#$] ?$|</\w{1,20}>$|```$|$")
_INTERPRETER = regex(r"\[Python Interpreter: [^\]\n]{0,200}\]$")
_STATUS_LINE = 160
_FIRST_LINE_LIMIT, _SENTENCE_WORDS, _PUNCTUATION = 70, 4, ".,:;!?()[]'\"`"
_FRAME_LINES = 6

_PARSED_ARGUMENTS = 200_000
_PARSED_COMMAND = 2000
_COMMAND_KEYS = ("command", "cmd", "commands", "script", "shell_command", "bash_command", "code")
_PATH_KEYS = (
    *("path", "file_path", "filePath", "filepath", "target_file", "filename", "file", "relative_path"),
    *("uri", "url"),
)
_EDITOR_COMMANDS = {"view", "create", "str_replace", "insert", "undo_edit", "read", "write", "edit", "open"}
_PRINTERS = r"(?:cat|head|tail|sed|nl|bat|batcat|less|more)"
_PRINTED = regex(
    rf"(?:cd [^&;|\n]{{1,300}}&& {{0,9}})?(?:sudo )?{_PRINTERS} (?:[^|;&<>\n]{{0,300}} )?[\"']?([^\s|;&<>\"']{{1,300}})"
    rf"[\"']?\s*(?:\| {{0,9}}{_PRINTERS}[^|;&<>\n]{{0,200}})?$"
)
"""A command that prints one file."""


@dataclass(frozen=True)
class Frame:
    """A command output split into body (without echo, prompt and status) and exit status."""

    body: Passage
    exit_status: int | None


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


def count_lines(text: str) -> int:
    """Return the number of lines; a final line break starts no new line."""
    return text.count("\n") + (text[-1:] not in ("", "\n"))


def size_of(text: str) -> str:
    """Return the number of lines, or the number of characters of a single line."""
    return f"{lines:,} lines" if (lines := count_lines(text)) > 1 else f"{len(text):,} characters"


def size_and_first_line(text: str) -> str:
    """Return the size of a text, and its first line if that is a title or a sentence."""
    line = text[:LONGEST_LINE].strip().partition("\n")[0].strip("#*=-|<> \r")
    first = one_line(line, _FIRST_LINE_LIMIT) if "\x1b" not in line else ""
    words = [word.strip(_PUNCTUATION) for word in first.split()]
    alphabetic = sum(map(str.isalpha, words))
    is_title = 1 < len(words) == alphabetic
    is_sentence = len(words) >= _SENTENCE_WORDS and 2 * alphabetic >= len(words) and first[0] not in "{[("
    is_telling = (is_title or is_sentence) and not reads_as_order(first)
    return f"{size_of(text)}: {first}" if is_telling else size_of(text)


def fact(text: str) -> str:
    """Return a text as one line of limited length."""
    return shorten(text, FACT_LIMIT)


def without_series(items: Iterable[str]) -> list[str]:
    """Return items once each; of many that differ by numbers alone, such as `rule_0` to `rule_139`, the ends stay."""
    series: dict[str, list[str]] = {}
    for item in (told := list(dict.fromkeys(items))):
        series.setdefault(_DIGITS.sub("#", item), []).append(item)
    left_out = {item for alike in series.values() if len(alike) > _ALIKE for item in alike[2:-1]}
    return [item for item in told if item not in left_out]


@dataclass(frozen=True)
class Call:
    """The parsed arguments of a call.

    Attributes:
        command: Shell command or code; empty for none.
        path: File, folder or address that was read; empty for none.
    """

    command: str
    path: str


def call_of(result: Result) -> Call:
    """Return the parsed arguments of the call; empty if not JSON."""
    return _parsed(result.arguments)


@lru_cache(maxsize=16)
def _parsed(arguments: str) -> Call:
    named = (json_object(arguments) if len(arguments) <= _PARSED_ARGUMENTS else None) or {}
    path = next((value for key in _PATH_KEYS if isinstance(value := named.get(key), str) and value), "")
    command = next((text for key in _COMMAND_KEYS if (text := _as_command(named.get(key)))), "")
    if command in _EDITOR_COMMANDS:
        command = ""
    printed = _PRINTED.match(command[:_PARSED_COMMAND])
    return Call(command, printed[1] if printed else path)


def _as_command(value: Any) -> str:
    if isinstance(value, str):
        return value.strip()
    if not isinstance(value, list):
        return ""
    words = [word for word in cast(list[Any], value) if isinstance(word, str)]
    return (words[2] if len(words) > 2 and words[1] in ("-c", "-lc") else " ".join(words)).strip()


class Content:
    """The body of a result, its beginning without printed line numbers, and the name of its file.

    Attributes:
        name: In lower case; empty if unknown.
        suffix: Of the name; the name itself without one.
        whole: All of it.
        lines: Of the beginning, also joined as `text`.
        filled: The first lines that are not blank.
    """

    def __init__(self, result: Result) -> None:
        call = call_of(result)
        body, path = frame_of(result.content, call.command).body, call.path
        whole = result.content[body.start : body.end]
        self.whole = whole = whole[head.end() :] if (head := _HTTP.match(whole)) else whole
        self.name = re.split(r"[?#]", path[:2000])[0].replace("\\", "/").rstrip("/").rpartition("/")[2].lower()
        self.suffix = _PATTERN_SUFFIX.sub("", self.name).rpartition(".")[2]
        lines = [line.rstrip("\r") for line in whole[:_READ_CHARACTERS].lstrip("\ufeff").split("\n")]
        numbers = [int(match[1]) if (match := _NUMBER.match(line)) else -9 for line in lines[:SAMPLED]]
        rising = sum(other == one + 1 for one, other in pairwise(numbers))
        if rising >= 2 and rising * 2 >= len(numbers) - 2:  # as `cat -n` and editors print
            lines = [_NUMBER.sub("", line, count=1) for line in lines]
        self.lines = lines
        self.text = "\n".join(lines)
        self.characters = f"{len(whole):,} characters"
        self.size = size_of(whole)
        self.filled = list(islice((line for line in lines if line.strip()), SAMPLED))

    def share(self, pattern: "re.Pattern[str]") -> float:
        """Return the share of the first lines that begin with a match."""
        return sum(pattern.match(line, 0, LONGEST_LINE) is not None for line in self.filled) / max(len(self.filled), 1)

    def rows(self, headings: int) -> str:
        return f"{max(count_lines(self.whole.rstrip()) - headings, 0):,} rows"
