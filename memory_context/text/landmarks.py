"""Landmarks of a text: definitions, headings and error reports."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from ..patterns import LinePattern
from ..utf8 import to_utf8

__all__ = [
    "DEFINITION",
    "KEYWORDS",
    "MODIFIERS",
    "Definition",
    "Passage",
    "definition_starts",
    "definitions_in",
    "error_lines",
    "line_number",
]

MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|abstract|final|async"
    r"|pub(?:\([^()\n]{1,20}\))?) ){0,4}"
)
KEYWORDS = r"def|class|function|func|fn|struct|interface|enum|trait|impl|type|module"
"""Parts of `DEFINITION`, for other patterns."""
_NUMBER = r"(?:(?P<number>\d{1,7})(?:[\t→]| ?[:|] ?| |$))"  # as in `cat -n`
DEFINITION = re.compile(
    rf"^(?P<indent>[ \t]*)(?:{_NUMBER}(?P<inner>[ \t]*))?(?P<signature>{MODIFIERS}(?P<kind>{KEYWORDS})\s+"
    r"(?:\([^()\n]{0,80}\) )?(?P<name>\w[\w.]*)[^\n]{0,110}|#{1,6} \S[^\n]{0,110})",
    re.MULTILINE,
)
_DEFINITION_LINE = LinePattern(rf"^[ \t]*(?:\d{{1,7}}[^\n]{{0,3}}[ \t]*)?(?:{MODIFIERS}(?:{KEYWORDS})\s|#{{1,6}} \S)")
"""Finds the lines that `DEFINITION` may match, many times faster."""
_LINE_NUMBER = re.compile(rf"[ \t]*{_NUMBER}")
_DEFINITIONS = 2000

_ERROR = LinePattern(
    r"\b(?:\w*Error|\w*Exception|error|ERROR|[Ff]atal|FATAL|[Pp]anic)\b[^:\n]{0,20}: *\S"  # ValueError: …
    r"|^ *(?:FAILED|FAIL|ERROR|FATAL|E  )\b|^Traceback \(|\bfailed\b"
    r"|(?:[Pp]ermission|[Aa]ccess) denied|[Nn]o such file|command not found"
)
"""RE2, 35 times faster than `re`."""
_NO_REPORT = re.compile(r"\s*(?:\d+[:\t ]\s*)?(?:except\b|raise\b|#|//|\*|\"\"\"|'''|>|<)")
"""Source code that mentions errors without reporting one."""
_SEARCHED_CHARACTERS = 2_000_000
_EXAMINED_MATCHES = 1000
_LONGEST_ERROR_LINE = 300


@dataclass(frozen=True)
class Passage:
    """A range of characters, from 0, end exclusive."""

    start: int
    end: int


class Definition(NamedTuple):
    """A definition or heading.

    Attributes:
        start: Offset of the signature.
        number: Printed line number before the line.
        indent: Characters before the signature, without line number.
        kind: Keyword, such as `def`; empty for a heading.
        name: Empty for a heading.
        signature: The line without final punctuation.
    """

    start: int
    end: int
    number: int | None
    indent: int
    kind: str
    name: str
    signature: str


def definition_starts(text: str) -> Iterator[int]:
    """Yield the offsets of up to 2,000 lines that define something or are headings."""
    return (match.start() for match in _definitions(text, 0, len(text)))


def _definitions(text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    if text.isascii():
        spans = _DEFINITION_LINE.spans(to_utf8(text), start, end, deadline=math.inf)
        found = (match for at, _ in spans if (match := DEFINITION.match(text, at, end)))
    else:
        found = DEFINITION.finditer(text, start, end)
    return islice(found, _DEFINITIONS)


def definitions_in(text: str, start: int = 0, end: int | None = None) -> Iterator[Definition]:
    """Yield up to 2,000 definitions and headings of a range."""
    for match in _definitions(text, start, len(text) if end is None else end):
        indent = match["indent"] if match["inner"] is None else match["inner"]
        number = None if match["number"] is None else int(match["number"])
        kind, name, signature = match["kind"] or "", match["name"] or "", match["signature"].rstrip("{:( \r")
        yield Definition(match.start("signature"), match.end(), number, len(indent), kind, name, signature)


def line_number(line: str) -> int | None:
    """Return the line number that a tool printed before a line."""
    match = _LINE_NUMBER.match(line)
    return int(match["number"]) if match else None


def error_lines(content: str, start: int, end: int, limit: int) -> list[Passage]:
    """Return up to `limit` lines of a range that report an error; of a very long line, a part."""
    found: list[Passage] = []
    for match_start, match_end in _error_spans(content, start, min(end, start + _SEARCHED_CHARACTERS)):
        if found and match_start < found[-1].end:
            continue
        line_start = max(content.rfind("\n", start, match_start) + 1, start, match_start - _LONGEST_ERROR_LINE // 2)
        line_end = content.find("\n", match_end, end)
        line_end = min(end if line_end < 0 else line_end, line_start + _LONGEST_ERROR_LINE)
        if _NO_REPORT.match(content, line_start):
            continue
        found.append(Passage(line_start, line_end))
        if len(found) == limit:
            break
    return found


def _error_spans(content: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    window = content[start:end]
    data = to_utf8(window)
    has_long_characters = len(data) != len(window)
    byte, character = 0, 0
    for span in islice(_ERROR.spans(data, 0, len(data), deadline=math.inf), _EXAMINED_MATCHES):
        match_start, match_end = span
        if has_long_characters:  # count from the previous match
            character += len(data[byte : span[0]].decode("utf-8", "surrogatepass"))
            length = len(data[span[0] : span[1]].decode("utf-8", "surrogatepass"))
            byte, match_start, match_end = span[0], character, character + length
        yield start + match_start, start + match_end
