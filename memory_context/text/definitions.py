"""The lines of a text that define something: functions, types, modules, headings of documents.

One expression for all languages, tried at the beginning of a line: it splits a text into blocks (`names`), names what
an excerpt leaves out (`compaction.compose`) and gives the outline of a source file (`compaction.analyzers.source`).
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

__all__ = ["DEFINITION", "Definition", "definitions_in", "line_number"]

_NUMBER = r"(?:(?P<number>\d{1,7})(?:[\t→]| ?[:|] ?| |$))"  # as `cat -n` and tools that read files put before lines
DEFINITION = re.compile(
    rf"^(?P<indent>[ \t]*)(?:{_NUMBER}(?P<inner>[ \t]*))?"
    r"(?P<signature>(?:(?:export|public|private|static|async|abstract|final|pub(?:\([^()\n]{1,20}\))?|default) ){0,3}"
    r"(?P<kind>def|class|function|func|fn|struct|interface|enum|trait|impl|type|module)\s+"
    r"(?:\([^()\n]{0,80}\) )?(?P<name>\w[\w.]*)[^\n]{0,110}|#{1,6} \S[^\n]{0,110})",
    re.MULTILINE,
)
_LINE_NUMBER = re.compile(rf"[ \t]*{_NUMBER}")
_DEFINITIONS = 2000


class Definition(NamedTuple):
    """A line that defines something.

    Attributes:
        start: Where the signature begins in the text; `end` where it ends.
        number: The line number that stands in front of it; None without one.
        indent: Characters before the signature, a line number in front left out.
        kind: The keyword, such as `def`; empty for a heading.
        name: The defined identifier; empty for a heading.
        signature: The line, without the punctuation at its end.
    """

    start: int
    end: int
    number: int | None
    indent: int
    kind: str
    name: str
    signature: str


def definitions_in(text: str, start: int = 0, end: int | None = None) -> Iterator[Definition]:
    """Yield the definitions between two characters of a text, in order; no more than anybody needs."""
    matches = DEFINITION.finditer(text, start, len(text) if end is None else end)
    for match in islice(matches, _DEFINITIONS):
        indent = match["indent"] if match["inner"] is None else match["inner"]
        signature = match["signature"].rstrip("{:( \r")
        number = None if match["number"] is None else int(match["number"])
        kind, name = match["kind"] or "", match["name"] or ""
        yield Definition(match.start("signature"), match.end(), number, len(indent), kind, name, signature)


def line_number(line: str) -> int | None:
    """Return the line number that a tool put in front of a line, or None."""
    match = _LINE_NUMBER.match(line)
    return int(match["number"]) if match else None
