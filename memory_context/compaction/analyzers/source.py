"""Source files: file, lines, definitions. The file name determines the language."""

import re
from itertools import pairwise
from textwrap import wrap
from typing import Any, cast

from ...text import Definition, definitions_in, line_number
from ..compactor import Analysis, Result
from .output import (
    FACT_LIMIT,
    FACTS,
    FILE_PRINTERS,
    NAMES,
    Call,
    call_of,
    described,
    fact,
    frame_of,
    head_lines,
    windows,
)

__all__ = ["analyze_source"]

_LANGUAGES = {
    "py pyi pyx": "Python", "js jsx mjs cjs": "JavaScript", "ts tsx mts": "TypeScript", "go": "Go", "rs": "Rust",
    "java": "Java", "kt kts": "Kotlin", "cs": "C#", "scala": "Scala", "swift": "Swift", "c h": "C",
    "cc cpp hpp cxx": "C++", "rb": "Ruby", "php": "PHP", "sh bash zsh": "shell", "sql": "SQL", "vue": "Vue",
}  # fmt: skip
_BY_SUFFIX = {suffix: name for suffixes, name in _LANGUAGES.items() for suffix in suffixes.split()}
_FILTERS = {"head", "tail", "sed", "nl", "cat", "less"}
_NO_READING = ("exec", "bash", "shell", "run", "terminal", "diff", "grep", "search", "list")
_HEADLINE = re.compile(
    r"(?:.{0,300}?`?cat -n`? on (?:a snippet of )?|\[?(?:File|file|Contents of|content of|# File"
    r"|Path)[: ]+)`?([^\s`:\]]{1,400})"
)
_HEAD_CHARACTERS = 16_000
_SED_RANGE = re.compile(r"(\d{1,9}),(\d{1,9})p")
_CLIPPED = re.compile(
    r"<response clipped>|\[?(?:truncated|output truncated|\.\.\. ?\[?\d+ (?:more )?(?:lines|characters)"
    r"|\(\d+ more lines)",
    re.IGNORECASE,
)
_CLIPPED_CHARACTERS = 600
_TYPES = {"class", "struct", "interface", "enum", "trait", "impl", "type", "module"}
_TYPES_SHOWN, _SIGNATURES_SHOWN, _LINES_OF_NAMES = 7, 4, 3
_TAIL_CHARACTERS = 2000
_FIRST_LINE_KEYS = ("offset", "start_line", "line_start", "startLine")
_CODE_STARTS = (" ", "\t", "#", "//", "}", ")", "import ", "from ", "package ", "use ", "using ", "CREATE ", "create ")


def analyze_source(result: Result) -> Analysis | None:
    """Return the definitions of a source file; None for other content."""
    content, call = result.content, call_of(result)
    path = _path_read(call, result.source)
    if path is None:
        return None
    frame = frame_of(content, call.command)
    body = frame.body
    first_lines = content[body.start : min(body.end, body.start + _HEAD_CHARACTERS)].split("\n", 3)[:3]
    headline = next((match for text in first_lines if (match := _HEADLINE.match(text))), None)
    path = path or (headline[1].strip("()'\",") if headline else "")
    language = language_of(path)
    if not language:
        return None
    head = [text for _, text in head_lines(content, frame.body)]
    numbers = [number for text in head if (number := line_number(text)) is not None]
    rising = sum(after == before + 1 for before, after in pairwise(numbers))
    is_numbered = len(numbers) >= 2 and rising * 2 >= len(head) - 1
    passages = windows(content, frame.body)
    definitions = [one for part in passages for one in definitions_in(content, part.start, part.end) if one.name]
    if not (is_numbered or headline or definitions or _is_code(head)):
        return None
    first = numbers[0] if is_numbered else _first_line(call)
    last = first + content.count("\n", frame.body.start, frame.body.end) - content.endswith("\n", 0, frame.body.end)
    if is_numbered:
        tail = content[max(frame.body.start, frame.body.end - _TAIL_CHARACTERS) : frame.body.end].split("\n")
        last = max((number for text in tail if (number := line_number(text)) is not None), default=first)
    placed = _placed(content, frame.body.start, first, definitions, is_numbered)
    facts = _outline(placed)
    if _CLIPPED.search(content, max(frame.body.start, frame.body.end - _CLIPPED_CHARACTERS), frame.body.end):
        facts.insert(0, f"cut by the tool after line {last}")
    outer_first = sorted(definitions, key=lambda one: one.indent)
    return Analysis(
        description=described(f"{language} source", path, f"lines {first}-{max(first, last)}"),
        has_failed=frame.has_failed,
        facts=facts[:FACTS],
        names=list(dict.fromkeys(one.name for one in outer_first))[:NAMES],
    )


def language_of(path: str) -> str:
    """Return the language of a file name; empty if unknown."""
    name = path.rstrip("/").replace("\\", "/").rpartition("/")[2].lower()
    return _BY_SUFFIX.get(name.rpartition(".")[2], "") if "." in name else ""


def _path_read(call: Call, source: str) -> str | None:
    """Return the printed file, empty if unknown; None for other calls."""
    if not call.command:
        return None if any(word in source.lower() for word in _NO_READING) and not call.path else call.path
    printing = [pipeline for pipeline in call.pipelines if pipeline[0][0] != "echo"]
    if not printing or any(pipeline[0][0] not in FILE_PRINTERS for pipeline in printing):
        return None
    pipeline = call.pipelines[0]
    if pipeline[0][0] not in FILE_PRINTERS or any(words[0] not in _FILTERS for words in pipeline[1:]):
        return None
    if any(word.startswith((">", "<<")) for word in pipeline[0]):
        return None  # writes a file
    words = (word for word in pipeline[0][1:] if not word.startswith(("-", "<", ">")))
    return next((word for word in words if language_of(word)), None)


def _is_code(head: list[str]) -> bool:
    """Return False for an error message or a page about the file."""
    filled = [text for text in head if text.strip()]
    return len(filled) > 3 and sum(text.startswith(_CODE_STARTS) for text in filled) >= 0.4 * len(filled)


def _first_line(call: Call) -> int:
    if match := _SED_RANGE.search(call.command):
        return max(1, int(match[1]))
    view = call.arguments.get("view_range")
    first: Any = cast(list[Any], view)[0] if isinstance(view, list) and view else None
    values: list[Any] = [first, *(call.arguments.get(key) for key in _FIRST_LINE_KEYS)]
    return next((max(1, value) for value in values if isinstance(value, int) and not isinstance(value, bool)), 1)


def _placed(
    content: str, start: int, first: int, definitions: list[Definition], is_numbered: bool
) -> list[tuple[int, Definition]]:
    """Return the definitions with their line numbers in the file."""
    placed: list[tuple[int, Definition]] = []
    number = first
    for one in definitions:
        number += content.count("\n", start, one.start)
        start = one.start
        placed.append(((one.number or 0) if is_numbered else number, one))
    return placed


def _outline(placed: list[tuple[int, Definition]]) -> list[str]:
    """Return facts: types with members, then functions, with lines."""
    types: list[str] = []
    loose: list[tuple[int, Definition]] = []
    owner: Definition | None = None
    for number, one in placed:
        if one.kind in _TYPES:
            owner = one
            types.append(f"{one.signature} (line {number})")
        elif owner is not None and one.indent > owner.indent:
            types[-1] += f"{', ' if types[-1][-1].isdigit() else ': '}{one.name} {number}"
        else:
            owner = None
            loose.append((number, one))
    outer = min((one.indent for _, one in loose), default=0)
    shown = [(number, one) for number, one in loose if one.indent == outer]
    facts = [fact(line) for line in types[:_TYPES_SHOWN]]
    if len(shown) <= _SIGNATURES_SHOWN:
        return facts + [fact(f"{one.signature} (line {number})") for number, one in shown]
    named = ", ".join(f"{one.name} {number}" for number, one in shown[:NAMES])
    return facts + wrap(f"{len(shown)} definitions: {named}", FACT_LIMIT, break_on_hyphens=False)[:_LINES_OF_NAMES]
