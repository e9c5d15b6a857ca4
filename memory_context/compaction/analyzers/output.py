"""What stands around an output: the shell's echo, its prompt, its exit status; and the lines in between.

Several readers ask for these before they look at the content. They cost no more than a look at the two ends; a very
long content is looked at by its head and its tail.
"""

import re
from dataclasses import dataclass

from ...references import shorten
from ...text import Passage

__all__ = [
    "FACTS",
    "FACT_LIMIT",
    "NAMES",
    "Frame",
    "count_lines",
    "described",
    "fact",
    "frame_of",
    "head_lines",
    "lines_in",
    "windows",
]

ANALYSED_CHARACTERS = 1_000_000
"""Of a longer content this much is looked at, half from each end."""
FACT_LIMIT = 200
DESCRIPTION_CHARACTERS = 110
FACTS = 12
NAMES = 60
"""The most of each in a reading."""
LONGEST_LINE = 1000
"""Of a longer line only its beginning is looked at."""

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
    """The output proper, and what its shell says of it.

    Attributes:
        body: Where the output stands, without echo, prompt and exit status.
        exit_status: The exit status; None if there is none.
    """

    body: Passage
    exit_status: int | None

    @property
    def has_failed(self) -> bool | None:
        """Whether the exit status says that the command failed; None without one."""
        return None if self.exit_status is None else self.exit_status != 0


def frame_of(content: str, command: str = "") -> Frame:
    """Return where the output stands in a content, and the exit status that its first or last lines tell."""
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
    """Return what of a body is looked at: all of it, or its head and its tail, cut at lines where there are any."""
    if body.end - body.start <= ANALYSED_CHARACTERS:
        return [body]
    half = ANALYSED_CHARACTERS // 2
    head, tail = content.rfind("\n", body.start, body.start + half), content.find("\n", body.end - half, body.end)
    return [
        Passage(body.start, head if head >= 0 else body.start + half),
        Passage(tail + 1 if tail >= 0 else body.end - half, body.end),
    ]


def lines_in(content: str, passages: list[Passage]) -> list[tuple[int, str]]:
    """Return the lines of passages with where they start; of very long ones the beginning, without a final CR."""
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
    """Return the first lines of a body, enough of them to tell what it is."""
    head = Passage(body.start, min(body.end, body.start + _HEAD_CHARACTERS))
    return lines_in(content, [head])[:_HEAD_LINES]


def count_lines(content: str, body: Passage) -> int:
    """Return the number of lines of a body; a final line break ends the last line."""
    if body.end <= body.start:
        return 0
    return content.count("\n", body.start, body.end) + (content[body.end - 1] != "\n")


def fact(text: str) -> str:
    """Return a text as a fact: one line, not too long."""
    return shorten(text, FACT_LIMIT)


def described(what: str, subject: str, *rest: str) -> str:
    """Return a description: what it is, of what (its middle left out if there is no room), and the rest."""
    tail = ", ".join(part for part in rest if part)
    room = DESCRIPTION_CHARACTERS - len(what) - len(tail) - 4
    subject = shorten(subject, 500)
    if len(subject) > room:
        half = max(room - 1, 8) // 2
        subject = f"{subject[: max(room - 1, 8) - half]}…{subject[-half:]}"
    text = " ".join(part for part in (what, subject) if part)
    return shorten(f"{text}, {tail}" if tail else text, DESCRIPTION_CHARACTERS).replace("[", "(").replace("]", ")")
