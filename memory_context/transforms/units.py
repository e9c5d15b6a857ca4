"""What a summary is chosen from: the lines of a content, or its sentences, each with the role it plays.

Prose is cut into sentences, also across line ends; everything else is taken line by line, and a line too long to be
shown whole in sentences or pieces. What repeats but for its numbers counts as one. Linear in time, for any str.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, cast, get_args

from ..text import error_lines

__all__ = ["LONG_LINE_CHARACTERS", "Role", "Unit", "units_of"]

Role = Literal["title", "error", "total", "heading", "definition", "section", "member", "doc", "warning", "end", "lead"]
"""The most telling first; a unit has one."""

LONG_LINE_CHARACTERS = 400
"""A longer line is never shown whole; the same as where a filter begins to show parts."""
_LONGEST_PIECE, _SHORTEST_PIECE = 240, 120  # characters of what has no sentences
_ONE_SENTENCE = 160  # characters up to which a line of prose stays whole
_ERRORS = 200  # lines that report errors, looked at
_SAMPLED_LINES = 400  # to tell what kind of content it is


@dataclass(slots=True)
class Unit:
    """A line, a sentence or a piece of a line.

    Attributes:
        start: Its first character in the content, from 0.
        end: Its last, exclusive.
        first_line: The line it begins in, from 1.
        last_line: The line it ends in.
        is_part: Whether it is a part of a long line, to be named by its characters.
        is_sentence: Whether it belongs to running text.
        role: The role it plays; None for any other line.
        alike: How many lines say the same but for their numbers, itself included.
    """

    start: int
    end: int
    first_line: int
    last_line: int
    is_part: bool = False
    is_sentence: bool = False
    role: Role | None = None
    alike: int = 1


_ROLES: tuple[Role, ...] = get_args(Role)
_Kind = Literal["code", "log", "text"]

_NUMBERED = r"(?:[ \t]{0,8}\d{1,7}(?:\t|: ?| ?\| ?|→))?"  # as `cat -n` and tools that read files put before each line
_INDENT = r"[ \t]{0,40}"
_MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|abstract|final|async|declare|override|virtual"
    r"|unsafe|pub(?:\(\w+\))?) +){0,4}"
)
_DEFINITION = (
    r"(?:def|class|func|function\*?|fn|interface|struct|enum|trait|impl|type|module|namespace|record|object) +[\w(<&*]"
    r"|(?:public|private|protected|static) +[\w<>\[\], ]{1,60}\("
    r"|export +const +\w+ *=|(?:CREATE|create) +(?:\w+ +){1,3}\w"
)
_CODE_ROLES = re.compile(
    rf"^{_NUMBERED}(?:(?P<definition>{_MODIFIERS}(?:{_DEFINITION})(?<!_))"
    rf"|(?P<member>[ \t]{{0,12}}{_MODIFIERS}(?:{_DEFINITION}))"
    rf"|(?P<doc>{_INDENT}(?:[rRuU]?(?:\"\"\"|''')[ \t]{{0,4}}\w|/\*\*[ \t]{{0,4}}(?:\n{_INDENT}\*[ \t]{{0,4}})?\w)))",
    re.MULTILINE,
)
_TEXT_ROLES = re.compile(
    rf"^{_NUMBERED}(?:(?P<heading>#{{1,2}} +\S|= [^\n=]|title: *\S|diff --git |[^\n]{{0,80}}<(?:title|h1)\b"
    r"|(?=\S[^\n]{0,100}\n={3,}[ \t]*$)\S|(?:[Cc]hapter|CHAPTER|PART|Part|BOOK|Book) +[\dIVXLC]{1,6}\b)"
    r"|(?P<section>#{3,6} +\S|={2,}[ \w][^\n]{0,100}={2,} *$|@@ -|[^\n]{0,80}<h[2-4]\b|\*\*[^\n*]{1,80}\*\*:? *$"
    r"|\[[\w. -]{1,60}\]\r?$|(?=[^\W\d_][^\n]{0,100}\n(?:-{3,}|~{3,})[ \t]*$)\S"
    r"|(?:\d{1,2}\. |[-*] )?\[[^\]\n]{3,200}\]\(http"  # a result of a search
    r"|\d{1,2}(?:\.\d{1,2}){0,3}\.? +[A-Z][^\n.]{1,60}\r?$"
    r"|(?=[A-Z][A-Z \d&,'-]{5,60}\r?$)[A-Z]|[^\W\d_][\w -]{1,40}:\r?$)"
    r"|(?P<total>(?i:(?:grand )?total|sum|overall|results?|summary|ran|found|added|exit (?:code|status))"
    r"\b[^\n\d]{0,40}\d))",
    re.MULTILINE,
)
_ANYWHERE_ROLES = re.compile(
    r"(?P<total>\b\d[\d,.]{0,12} +(?:passed|failed|failures?|errors?|warnings?|skipped|vulnerabilities|tests? "
    r"|files? changed|insertions|packages\b|problems?\b|total\b))"
    r"|(?P<error>\b(?:ERROR|FATAL|CRITICAL|SEVERE|EMERG|ERR!)|\blevel=(?:error|fatal)\b"
    r"|\"level\": ?\"(?:error|fatal)\")"
    r"|(?P<warning>\b(?:WARN(?:ING)?|DeprecationWarning)\b|\blevel=warn|\"level\": ?\"warn)"
)
_CODE_LINE = re.compile(
    rf"{_NUMBERED}{_INDENT}(?:import |from \S+ import |#include|#!|using |package |return\b|@\w|//|/?\*|[\])}}]"
    rf"|{_MODIFIERS}(?:{_DEFINITION})|(?:if|for|while|elif|else|try|except|with|match|case|switch)\b[^\n]*[:{{]\s*$"
    r"|(?:const|let|var|val) +\w|[\w.\[\]]+(?:: *[\w\[\], |.]+)? *[-+*/|:]?= *\S"
    r"|[\w.]+\([^\n]*[\])},;({]\s*$|[^\n]*[{};]\s*$)"
)
_LOG_LINE = re.compile(
    r"\W{0,3}(?:\d{4}[-/]\d\d[-/]\d\d|\d\d:\d\d:\d\d|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d|\d+\.\d{3,}\])"
    r"|\W{0,3}(?:INFO|DEBUG|WARN|WARNING|ERROR|TRACE|NOTICE)\b|\{\"|\w+=\S+ \w+=|[\d.]{7,15} - "
)
_FENCE = re.compile(r"^[ \t]{0,3}(?:```|~~~)", re.MULTILINE)
_WORD = re.compile(r"\w")
_VARYING = re.compile(r"\b[0-9a-f]{8,}(?:-[0-9a-f]{4,}){0,4}\b|\d+")
_BULLET = re.compile(r"\s*(?:[-*+•>]|\d{1,3}[.)]|[a-z][.)]) ")
_PLAIN_WORDS = re.compile(r"(?<!\S)[\"“‘'(]?[^\W\d_]+(?:[-'’][^\W\d_]+)*[,;:.!?\"”’')]*(?!\S)")
_SENTENCE_END = re.compile(
    r"(?<!\b[A-Z])(?<!\b(?:Mr|Ms|Dr|St|vs|No|Jr))(?<!\b(?:Mrs|etc|Fig|Inc|e\.g|i\.e))"
    r"[.!?][\"”’')\]]{0,2}(?=\s+[\"“‘'(\[]?[^\sa-z])|[。！？][”’」』]?"
)
_BREAKS = ("\n", "\\n", "; ", "},", ">", ", ", " ")  # where a piece ends best, a line end in quoted text among them


def units_of(content: str) -> list[Unit]:
    """Return the units of a content in order; what has no letter and no digit is none."""
    kind = _kind(content)
    units = list(_Cutter(content, kind).units())
    if kind != "log" and units:
        units[0].role = "title"
    if kind != "code" and units and units[-1].role in (None, "lead"):
        units[-1].role = "end"
    return _alike_as_one(content, units, kind)


def _kind(content: str) -> _Kind:
    lines = [line[:LONG_LINE_CHARACTERS] for line in content[:100_000].split("\n") if _WORD.search(line)]
    lines = lines[:_SAMPLED_LINES]
    if 5 * sum(_LOG_LINE.match(line) is not None for line in lines) > 2 * len(lines) and len(lines) > 1:
        return "log"
    is_code = 3 * sum(_CODE_LINE.match(line) is not None for line in lines) > len(lines)
    return "code" if is_code and _CODE_ROLES.search(content, 0, 100_000) and not _FENCE.search(content) else "text"


class _Cutter:
    """Cuts one content into units, in one pass over its lines."""

    def __init__(self, content: str, kind: _Kind) -> None:
        self._content = content
        self._kind = kind
        self._marks = _marks(content, kind)
        self._mark_starts = [start for start, _ in self._marks]

    def units(self) -> Iterator[Unit]:
        block: list[tuple[int, int, int]] = []
        start, is_fenced = 0, False
        for number, line in enumerate(self._content.split("\n"), 1):
            end = start + len(line)
            if self._kind == "text" and line.lstrip()[:3] in ("```", "~~~"):
                is_fenced = not is_fenced
                yield from self._block_units(block)
                block = []
            elif is_fenced or self._kind != "text" or self._is_structure(start, end):
                yield from self._block_units(block)
                block = []
                yield from self._line_units(number, start, end, has_headings=not is_fenced)
            elif not line or line.isspace():
                yield from self._block_units(block)
                block = []
            else:
                block.append((number, start, end))
            start = end + 1
        yield from self._block_units(block)

    def _block_units(self, block: list[tuple[int, int, int]]) -> Iterator[Unit]:
        """Yield the units of lines without a blank one between them."""
        if not block:
            return
        if not self._is_prose(block):
            for number, start, end in block:
                yield from self._line_units(number, start, end)
            return
        role: Role | None = "lead"
        parts = self._joined(block) if self._is_wrapped(block) else [[line] for line in block]
        for part in parts:
            for start, end in self._sentences(part[0][1], part[-1][2]):
                first = part[bisect_left(part, start + 1, key=lambda line: line[1]) - 1]
                last = part[bisect_left(part, end, key=lambda line: line[1]) - 1]
                is_part = first is last and first[2] - first[1] > LONG_LINE_CHARACTERS
                unit = Unit(start, end, first[0], last[0], is_part, True, role)
                if _WORD.search(self._content, start, end):
                    yield unit
                    role = None

    def _line_units(self, number: int, start: int, end: int, has_headings: bool = True) -> Iterator[Unit]:
        content = self._content
        if end - start <= LONG_LINE_CHARACTERS:
            if _WORD.search(content, start, end):
                role = self._role(start, end, has_headings)
                yield Unit(start, end, number, number, role=role)
            return
        for piece_start, piece_end in self._sentences(start, end):
            if _WORD.search(content, piece_start, piece_end):
                yield Unit(piece_start, piece_end, number, number, True, role=self._role(piece_start, piece_end))

    def _role(self, start: int, end: int, has_headings: bool = True) -> Role | None:
        first = bisect_left(self._mark_starts, start)
        last = first
        while last < len(self._marks) and self._mark_starts[last] < end:
            last += 1
        if first == last:
            return None
        roles = {role for _, role in self._marks[first:last]}
        if not has_headings:
            roles -= {"heading", "section"}
        return next((role for role in _ROLES if role in roles), None)

    def _is_structure(self, start: int, end: int) -> bool:
        first = bisect_left(self._mark_starts, start)
        return (
            first < len(self._marks) and self._marks[first][0] < end and self._marks[first][1] in ("heading", "section")
        )

    def _is_prose(self, block: list[tuple[int, int, int]]) -> bool:
        lines = [self._content[start : min(end, start + LONG_LINE_CHARACTERS)] for _, start, end in block[:5]]
        words = [len(line.split()) for line in lines]
        if any("\t" in line or "   " in line for line in map(str.strip, lines)):
            return False  # columns
        plain = sum(len(_PLAIN_WORDS.findall(line)) for line in lines)
        return max(words) >= 6 and 4 * plain >= 3 * sum(words)

    def _is_wrapped(self, block: list[tuple[int, int, int]]) -> bool:
        """Whether sentences go on in the next line: most lines after one without an end begin in lower case."""
        content = self._content
        openings = [
            content[after[1] : after[2]].lstrip()[:1]
            for before, after in pairwise(block)
            if content[before[1] : before[2]].rstrip()[-1:] not in (".", "!", "?", ":", "。")
        ]
        return bool(openings) and 2 * sum(opening.islower() for opening in openings) >= len(openings)

    def _joined(self, block: list[tuple[int, int, int]]) -> list[list[tuple[int, int, int]]]:
        """Return the lines that belong together: the items of a list do not."""
        parts: list[list[tuple[int, int, int]]] = []
        for line in block:
            if parts and not _BULLET.match(self._content, line[1], line[2]):
                parts[-1].append(line)
            else:
                parts.append([line])
        return parts

    def _sentences(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        content = self._content
        if end - start <= _ONE_SENTENCE:
            yield start, end
            return
        for match in _SENTENCE_END.finditer(content, start, end):
            yield from self._pieces(start, match.end())
            start = match.end()
        yield from self._pieces(start, end)

    def _pieces(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        content = self._content
        while start < end and content[start].isspace():
            start += 1
        while end - start > _LONGEST_PIECE + _SHORTEST_PIECE:
            low, high = start + _SHORTEST_PIECE, start + _LONGEST_PIECE
            ends = (at + len(stop) for stop in _BREAKS if (at := content.rfind(stop, low, high)) >= 0)
            cut = next(ends, high)
            yield start, cut
            start = cut
        if start < end:
            yield start, end


def _marks(content: str, kind: _Kind) -> list[tuple[int, Role]]:
    """Return where something says what role its line plays, in order."""
    if kind == "code":
        return [_mark(match) for match in _CODE_ROLES.finditer(content)]
    marks = [_mark(match) for match in _ANYWHERE_ROLES.finditer(content)]
    if kind == "text":
        marks += [_mark(match) for match in _TEXT_ROLES.finditer(content)]
    reported = error_lines(content, 0, len(content), _ERRORS)
    return sorted(marks + [(passage.start, "error") for passage in reported])


def _mark(match: re.Match[str]) -> tuple[int, Role]:
    return match.end() - 1, cast(Role, match.lastgroup)  # the groups are named as roles


def _alike_as_one(content: str, units: list[Unit], kind: _Kind) -> list[Unit]:
    """Return one unit for all lines that differ in their numbers only: the first, of running totals the last.

    In source code lines must be the same, and how often they come tells nothing.
    """
    seen: dict[str, Unit] = {}
    for unit in units:
        said = content[unit.start : unit.end].strip()
        known = seen.setdefault(said if kind == "code" else _VARYING.sub("0", said), unit)
        if known is unit or kind == "code":
            continue
        known.alike += 1
        if unit.role == "total":
            unit.alike = known.alike
            seen[_VARYING.sub("0", said)] = unit
    return sorted(seen.values(), key=lambda unit: unit.start)
