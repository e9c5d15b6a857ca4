"""Reads source files and ranges of them: which file and lines, what they define and where, what they import.

With or without line numbers in front, as `cat -n`, `sed -n` and editors' views print them. What a file defines is what
an agent asks for next; so each definition is a landmark, and each body has a name.
"""

import re
from dataclasses import dataclass
from typing import Any, cast

from ..compactor import Result
from ..excerpt import Passage
from ..reading import Reading
from .calls import FILE_PRINTERS, Call, call_of
from .framing import LABELS, LANDMARKS, NAMES, described, fact, frame_of, head_lines, lines_in, windows
from .languages import Language, language_by_shape, language_of
from .numbering import Code, codes_in, numbering_of

__all__ = ["read_source"]

_FILTERS = {"head", "tail", "sed", "nl", "cat", "less"}
_NO_READING = ("exec", "bash", "shell", "run", "terminal", "diff", "grep", "search", "list")
_HEADLINE = re.compile(
    r"(?:.{0,300}?`?cat -n`? on (?:a snippet of )?|\[?(?:File|file|Contents of|content of|# File"
    r"|Path)[: ]+)`?([^\s`:\]]{1,400})"
)
_SED_RANGE = re.compile(r"(\d{1,9}),(\d{1,9})p")
_CLIPPED = re.compile(
    r"<response clipped>|\[?(?:truncated|output truncated|\.\.\. ?\[?\d+ (?:more )?(?:lines|characters)"
    r"|\(\d+ more lines)",
    re.IGNORECASE,
)
_KIND_WORDS = {"class", "interface", "struct", "trait", "enum", "record", "type", "impl", "module", "object"}
_DOCUMENT = re.compile(r"^\s{0,3}```|\]\(https?://|^#{2,6} \w")
_FIRST_LINE_KEYS = ("offset", "start_line", "line_start", "startLine")
_HEADLINES = 3
_SIGNATURE = 110
_DEFINITIONS = 2000
_CONTINUES = (")", "]", "{", "(", "|", "->", "=>", "throws", "where")
_CLOSES = ("}", "end", "};", "});", "fi", "done")


@dataclass(frozen=True)
class _Definition:
    name: str
    is_type: bool
    indent: int
    number: int
    signature: str
    passage: Passage


def read_source(result: Result) -> Reading | None:
    """Return what a source or configuration file defines, and where; None if the content is no such file."""
    content, call = result.content, call_of(result)
    path = _path_read(call, result.source)
    if path is None:
        return None
    frame = frame_of(content, call.command)
    head = head_lines(content, frame.body)
    headline = next((match for _, text in head[:_HEADLINES] if (match := _HEADLINE.match(text))), None)
    path = path or (headline[1].strip("()'\",") if headline else "")
    is_numbered, first_numbers = numbering_of(head)
    known = language_of(path) if path else None
    if known is None and (path and "." in path.rpartition("/")[2] and not is_numbered):
        return None  # a document or data
    filled = [code for _, _, code in codes_in(head, is_numbered, 1) if code.strip()]
    if not filled:
        return None
    if known is None:
        if filled[0].lstrip()[:1] in ("{", "[", "<") or any(_DOCUMENT.search(code) for code in filled):
            return None
        shaped = language_by_shape(filled)
        known = (shaped, shaped.name) if shaped else None
    elif not (is_numbered or headline) and not _is_code(filled, known[0]):
        return None
    if known is None:
        return None
    language, what = known
    lines = lines_in(content, windows(content, frame.body))
    first = first_numbers if is_numbered else _first_line(call)
    codes = codes_in(lines, is_numbered, first)
    definitions, imports = _definitions(codes, language)
    spans = _bodies(codes, definitions)
    last = codes[-1][1] if codes else first
    outer_first = sorted(definitions, key=lambda definition: definition.indent)
    facts = _outline(definitions, language)
    if clipped := _CLIPPED.search(content, max(frame.body.start, frame.body.end - 600), frame.body.end):
        facts.insert(0, f"cut by the tool after line {last}" if clipped else "")
    if imports:
        facts.append(fact("imports " + ", ".join(dict.fromkeys(imports))))
    return Reading(
        description=described(what, path, f"lines {first}-{last}"),
        has_failed=frame.has_failed,
        facts=facts[:12],
        names=list(dict.fromkeys([*(d.name for d in outer_first[:40]), *imports]))[:NAMES],
        landmarks=[d.passage for d in outer_first][:LANDMARKS],
        labels=[(span, d.signature) for span, d in zip(spans, definitions, strict=True) if span.end > span.start][
            :LABELS
        ],
    )


def _path_read(call: Call, source: str) -> str | None:
    """Return the file that a call printed, empty if unknown; None if it did something else."""
    if not call.command:
        return None if any(word in source.lower() for word in _NO_READING) and not call.path else call.path
    if len(call.pipelines) != 1:
        printing = [pipeline for pipeline in call.pipelines if pipeline[0][0] != "echo"]
        if not printing or any(pipeline[0][0] not in FILE_PRINTERS for pipeline in printing):
            return None
    pipeline = call.pipelines[0] if call.pipelines else ()
    if not pipeline or pipeline[0][0] not in FILE_PRINTERS or any(words[0] not in _FILTERS for words in pipeline[1:]):
        return None
    words = [word for word in pipeline[0][1:] if not word.startswith(("-", "<", ">"))]
    named = [word for word in words if language_of(word)]
    if any(word.startswith((">", "<<")) for word in pipeline[0]):
        return None  # writes a file
    return named[0] if named else None


def _is_code(filled: list[str], language: Language) -> bool:
    """Whether text of a file of that name is its source, not an error message or a page about it."""
    if language.is_config:
        return sum(language.define.match(text) is not None for text in filled) >= max(2, 0.1 * len(filled))
    if any(language.define.match(text) or (language.imports and language.imports.match(text)) for text in filled):
        return True
    return (
        sum(text.startswith((" ", "\t", "#", "//", "}", ")")) for text in filled) >= 0.4 * len(filled)
        and len(filled) > 3
    )


def _first_line(call: Call) -> int:
    if match := _SED_RANGE.search(call.command):
        return max(1, int(match[1]))
    view = call.arguments.get("view_range")
    first: Any = cast(list[Any], view)[0] if isinstance(view, list) and view else None
    values: list[Any] = [first, *(call.arguments.get(key) for key in _FIRST_LINE_KEYS)]
    return next((max(1, value) for value in values if isinstance(value, int) and not isinstance(value, bool)), 1)


def _definitions(codes: list[Code], language: Language) -> tuple[list[_Definition], list[str]]:
    definitions: list[_Definition] = []
    imports: list[str] = []
    for start, number, code in codes:
        if not code:
            continue
        if match := language.define.match(code):
            if len(definitions) == _DEFINITIONS:
                break
            groups = match.groupdict()
            name = next(value for key, value in groups.items() if key != "kind" and value).strip()
            indent = len(code) - len(code.lstrip())
            signature = code[: indent + _SIGNATURE].strip().rstrip("{: ")
            is_type = groups.get("kind") in _KIND_WORDS or name.startswith("impl")
            passage = Passage(start + indent, start + len(code))
            definitions.append(_Definition(name, is_type, indent, number, signature, passage))
        elif language.imports and (match := language.imports.match(code)):
            imports.append(next((group for group in match.groups() if group), ""))
    return definitions, [name for name in imports if name]


def _bodies(codes: list[Code], definitions: list[_Definition]) -> list[Passage]:
    """Return the span of each definition: to the next line that stands no deeper and does not close or continue it."""
    starts = {definition.passage.start: index for index, definition in enumerate(definitions)}
    spans = [definition.passage for definition in definitions]
    opened: list[int] = []
    last_end = 0
    for start, _, code in codes:
        stripped = code.lstrip()
        if not stripped:
            continue
        indent = len(code) - len(stripped)
        while opened and indent <= definitions[opened[-1]].indent and not stripped.startswith(_CONTINUES):
            index = opened.pop()
            closes = indent == definitions[index].indent and stripped.startswith(_CLOSES)
            spans[index] = Passage(definitions[index].passage.start, start + len(code) if closes else last_end)
            if closes:
                break
        if (index := starts.get(start + indent)) is not None:
            opened.append(index)
        last_end = start + len(code)
    for index in opened:
        spans[index] = Passage(definitions[index].passage.start, last_end)
    return spans


def _outline(definitions: list[_Definition], language: Language) -> list[str]:
    """Return the definitions as facts: a class with its methods each, then functions with their lines."""
    if language.is_config:
        return (
            [fact("keys: " + ", ".join(f"{d.name} (line {d.number})" for d in definitions[:40]))] if definitions else []
        )
    facts: list[str] = []
    loose: list[_Definition] = []
    members: list[str] = []
    owner: _Definition | None = None
    for definition in definitions:
        if owner is not None and definition.indent > owner.indent and not definition.is_type:
            members.append(f"{definition.name} {definition.number}")
            continue
        if owner is not None:
            facts.append(fact(f"{owner.signature} (line {owner.number}): {', '.join(members)}".rstrip(": ")))
        owner, members = (definition, []) if definition.is_type else (None, [])
        if not definition.is_type:
            loose.append(definition)
    if owner is not None:
        facts.append(fact(f"{owner.signature} (line {owner.number}): {', '.join(members)}".rstrip(": ")))
    outer = min((d.indent for d in loose), default=0)
    shown = [d for d in loose if d.indent == outer]
    if len(shown) > 4:
        whole = f"{len(shown)} definitions: " + ", ".join(f"{d.name} {d.number}" for d in shown)
        return [*facts[:7], *(fact(piece) for piece in _pieces(whole))][:10]
    return [*facts[:7], *(fact(f"{d.signature} (line {d.number})") for d in shown)]


def _pieces(text: str) -> list[str]:
    """Cut a long list into facts, at commas."""
    pieces: list[str] = []
    while text and len(pieces) < 3:
        cut = len(text) if len(text) <= 195 else text.rfind(", ", 0, 195)
        pieces.append(text[:cut] if cut > 0 else text[:195])
        text = text[cut:].lstrip(", ") if cut > 0 else ""
    return pieces
