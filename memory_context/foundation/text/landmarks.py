"""Landmarks of a text: definitions, headings and error reports."""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from ..patterns import LinePattern, at_first_use, regex
from ..utf8 import to_utf8

__all__ = [
    "DEFINITION",
    "KEYWORDS",
    "LANGUAGES",
    "MODIFIERS",
    "Definition",
    "Passage",
    "defined_in",
    "definition_starts",
    "definitions_in",
    "error_lines",
    "language_of",
    "line_number",
]

MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|abstract|final|async"
    r"|pub(?:\([^()\n]{1,20}\))?) ){0,4}"
)
KEYWORDS = r"def|class|function|func|fn|struct|interface|enum|trait|impl|type|module"
"""Parts of `DEFINITION`, for other patterns."""
_NUMBER = r"(?:(?P<number>\d{1,7})(?:[\t→]| ?[:|] ?| |$))"  # as in `cat -n`
DEFINITION = regex(
    rf"^(?P<indent>[ \t]*)(?:{_NUMBER}(?P<inner>[ \t]*))?(?P<signature>{MODIFIERS}(?P<kind>{KEYWORDS})\s+"
    r"(?:\([^()\n]{0,80}\) )?(?P<name>\w[\w.]*)[^\n]{0,110}|#{1,6} \S[^\n]{0,110})",
    re.MULTILINE,
)
_DEFINITION_LINE = at_first_use(
    LinePattern, rf"^[ \t]*(?:\d{{1,7}}[^\n]{{0,3}}[ \t]*)?(?:{MODIFIERS}(?:{KEYWORDS})\s|#{{1,6}} \S)"
)
"""Finds the lines that `DEFINITION` may match, many times faster."""
_LINE_NUMBER = regex(rf"[ \t]*{_NUMBER}")
_DEFINITIONS = 2000

_ERROR = at_first_use(
    LinePattern,
    r"\b(?:\w*Error|\w*Exception|error|ERROR|[Ff]atal|FATAL|[Pp]anic)\b[^:\n]{0,20}: *\S"  # ValueError: …
    r"|^ *(?:FAILED|FAIL|ERROR|FATAL|E  )\b|^Traceback \(|\bfailed\b"
    r"|(?:[Pp]ermission|[Aa]ccess) denied|[Nn]o such file|command not found"
    r"|^[\[(]?\d{1,4}[-/:.]\d\d[^\n]{0,60}[ \t\[|](?:ERROR|FATAL|CRITICAL|SEVERE)\b"  # a time, then the level
    r"|\b(?i:level|severity)\"?[=:] ?\"?(?i:error|fatal|critical)\b"
    r"|(?:Fehler|FEHLER|[Ee]rreur|ERREUR|[Оо]шибка|ОШИБКА|错误|錯誤|エラー|오류|خطأ)[^:：\n]{0,20}[:：] *\S",
)
"""RE2, 35 times faster than `re`."""
_NO_REPORT = regex(r"\s*(?:\d+[:\t ]\s*)?(?:except\b|raise\b|#|//|\*|\"\"\"|'''|>|<)")
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


# --- what a file of source code defines

_LANGUAGES = {
    "py pyi pyx pxd pxi": "Python", "js jsx mjs cjs": "JavaScript", "ts tsx mts": "TypeScript", "go": "Go",
    "rs": "Rust", "java": "Java", "kt kts": "Kotlin", "cs": "C#", "scala": "Scala", "swift": "Swift", "c h": "C",
    "cc cpp hpp cxx": "C++", "rb": "Ruby", "php": "PHP", "sh bash zsh": "shell script", "sql": "SQL", "vue": "Vue",
    "proto": "protobuf", "css scss less": "CSS", "diff patch": "diff", "makefile mk": "Makefile", "graphql": "GraphQL",
    "lua": "Lua", "pl pm": "Perl", "tcl": "Tcl", "cmake": "CMake", "dockerfile": "Dockerfile", "tf": "Terraform",
}  # fmt: skip
LANGUAGES = {suffix: name for suffixes, name in _LANGUAGES.items() for suffix in suffixes.split()}
"""Languages by the suffix of their files."""
_INTERPRETERS = {"python": "Python", "node": "JavaScript", "ruby": "Ruby", "sh": "shell script"}
_INTERPRETED = regex(r"#!.{0,80}?(python|node|ruby|sh\b)")
_SQL = regex(
    r"(?:\s*(?:--|SET |SELECT |PRAGMA |BEGIN)[^\n]*\n){0,60}"
    r"\s*CREATE [A-Z ]{0,40}(?:TABLE|VIEW|SCHEMA|INDEX|FUNCTION|TYPE|ROLE|EXTENSION) +[\w\".]"
)
_DIFF = regex(r"^(?:diff --git |--- .{1,300}\n\+\+\+ )", re.MULTILINE)
_HEAD_CHARACTERS = 4000
_C = (
    r"^(?:typedef[ \t]+)?(?:struct|enum|union|class)[ \t]+(\w+)"
    r"|^[A-Za-z_][\w \t*&:]{0,100}?\b(?!(?:if|for|while|switch|return|void|sizeof)\b)((?:\w{1,80}::)?\w{2,80})[ \t]*\("
    r"|^#define[ \t]+(\w+)[ \t(]"  # without a value it guards a header
)
_SCRIPT = (
    r"^(?:export[ \t]+)?(?:default[ \t]+|declare[ \t]+|abstract[ \t]+|async[ \t]+){0,3}"
    r"(?:(?:function\*?|class|interface|type|enum|namespace)[ \t]+(\w{2,80})"
    r"|(?:const|let|var)[ \t]+(\w{2,80})[ \t]*=[ \t]*(?:async\b[ \t]*)?(?:\(|function\b|\w{1,80}[ \t]*=>)"
    r"|(?:const|let|var)[ \t]+(\w{2,80})\b(?![ \t]*=[ \t]*(?:\w{1,80}\()?require\b))"
)
_JAVA = (
    r"^[ \t]*(?:(?:public|protected|private|internal|static|final|abstract|sealed|partial)[ \t]+){0,4}"
    r"(?:class|interface|enum|record|struct)[ \t]+(\w{1,80})"
    r"|^[ \t]+(?:(?:public|protected|private|internal|static|final|abstract|async|override|virtual)[ \t]+){1,4}"
    r"[\w<>\[\],.?]{1,80}[ \t]+(\w{1,80})[ \t]*\("
)
_DEFINING = {
    language: regex(pattern, re.MULTILINE | re.IGNORECASE * (language == "SQL"))
    for language, pattern in {
        "C": _C,
        "C#": _JAVA,
        "C++": _C,
        "CMake": r"^[ \t]*(?:function|macro)[ \t]*\([ \t]*(\w{1,80})",
        "CSS": r"(?:^|(?<=[{}]))[ \t]*(@(?:media|keyframes)[^\n{};]{0,60}|[.#\w:*\[][^{}@;\"\n]{0,80}?)[ \t]*\{",
        "Dockerfile": r"^((?:FROM|EXPOSE|ENTRYPOINT|CMD)[ \t]+\S.{0,80})",
        "Java": _JAVA,
        "JavaScript": _SCRIPT,
        "Makefile": r"^([\w./%-]{1,60}):(?!=)",
        "Perl": r"^[ \t]*(?:sub|package)[ \t]+([\w:]{1,80})",
        "SQL": r"^[ \t]*create[ \t]+(?:or[ \t]+replace[ \t]+)?(?:\w+[ \t]+){0,2}?"
        r"(?:table|view|index|function|procedure|trigger|type|schema|domain|operator|aggregate|sequence)[ \t]+"
        r"(?:if[ \t]+not[ \t]+exists[ \t]+)?([\w.\"]{1,99})",
        "Tcl": r"^[ \t]*proc[ \t]+(\S{1,80})",
        "Terraform": r"^((?:resource|data|module|variable|output|provider)[ \t]+\"[^\n{]{1,100}\")",
        "TypeScript": _SCRIPT,
        "diff": r"^\+\+\+ (?:b/)?([^\t\r\n]{1,300})",
        "protobuf": r"^[ \t]*(?:message|service|enum|rpc)[ \t]+(\w{1,100})",
        "shell script": r"^(?:function[ \t]+)?([\w-]{1,80})[ \t]*\(\)",
    }.items()
}
"""Of several groups, the last one finds what says least: constants, and methods."""
_PYTHON_STRING = regex(
    r"#[^\n]*|\"\"\".*?(?:\"\"\"|\Z)|'''.*?(?:'''|\Z)|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?", re.DOTALL
)
_NOT_A_BREAK = regex(r"[^\n]+")
_TYPES = frozenset(("class", "struct", "interface", "enum", "trait", "impl", "type", "module"))
_TYPES_SHOWN = 7


def language_of(suffix: str, text: str) -> str:
    """Return the language of a file by its suffix, first line, diff headers or first statement; empty if unknown."""
    if suffix in LANGUAGES:
        return LANGUAGES[suffix]
    if script := _INTERPRETED.match(text, 0, _HEAD_CHARACTERS):
        return _INTERPRETERS[script[1]]
    if _DIFF.search(text, 0, _HEAD_CHARACTERS):
        return "diff"
    return "SQL" if _SQL.match(text, 0, _HEAD_CHARACTERS) else ""


def defined_in(text: str, language: str) -> tuple[list[str], list[str]]:
    """Return the names that source code defines, outer ones first, and lines on its types with their members.

    Names that begin with two underscores say nothing. Strings and comments of Python define nothing. `ast` would tell
    them, too, but takes quadratic time on hostile texts, and before Python 3.11 nested ones end the process.
    """
    if (defining := _DEFINING.get(language)) is not None:
        matches = sorted(
            islice(defining.finditer(text), _DEFINITIONS), key=lambda one: one.lastindex == defining.groups
        )
        return _telling(" ".join(one[one.lastindex or 0].split()) for one in matches), []
    code = text
    if language == "Python":
        code = _PYTHON_STRING.sub(lambda one: _NOT_A_BREAK.sub(lambda run: " " * len(run[0]), one[0]), text)
    found = [one for one in definitions_in(code) if one.name]
    outer = min((one.indent for one in found), default=0)
    names = _telling(one.name for one in sorted(found, key=lambda one: one.indent > outer))
    return names, _outline(text, found)[:_TYPES_SHOWN]


def _telling(names: Iterable[str]) -> list[str]:
    distinct = dict.fromkeys(names)
    return [name for name in distinct if not name.startswith("__")] or list(distinct)


def _outline(text: str, found: list[Definition]) -> list[str]:
    """Return a line for each type, with its members and their lines, counted from 1."""
    types: list[str] = []
    owner: Definition | None = None
    number, position = 1, 0
    for one in found:
        number += text.count("\n", position, one.start)
        position = one.start
        if one.kind in _TYPES:
            owner = one
            types.append(f"{text[one.start : one.end].rstrip('{:( ')} (line {number})")
        elif owner is not None and one.indent > owner.indent:
            types[-1] += f"{', ' if types[-1][-1].isdigit() else ': '}{one.name} {number}"
        else:
            owner = None
    return types
