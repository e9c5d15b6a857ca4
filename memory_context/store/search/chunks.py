"""Cuts contents into passages of about 1,000 characters, at paragraphs, headings, definitions, else lines or words."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from memory_context.text import KEYWORDS, MODIFIERS

__all__ = ["CHUNK_CHARACTERS", "INDEXED_CHARACTERS", "Chunk", "chunks_of"]

CHUNK_CHARACTERS = 1_000
"""Target length; passages have half to one and a half of it, short contents less."""
INDEXED_CHARACTERS = 2_000_000
"""Only this much of a content, from its beginning, can be found."""

_SHORTEST = CHUNK_CHARACTERS // 2
_LONGEST = CHUNK_CHARACTERS + _SHORTEST

_BEGINNING = re.compile(
    r"(?<=\n)(?=[^\r\n])(?:(?<=\n\n)|(?<=\n\r\n)"  # a paragraph
    r"|(?=#{1,6} |={3,} |-{3,} |diff --git |@@ |<h[1-6]\b"  # a heading
    rf"|{MODIFIERS}(?:{KEYWORDS}|namespace|CREATE) ))"
)
"""Every alternative looks at a bounded number of characters."""


@dataclass(frozen=True)
class Chunk:
    """A passage of a content.

    Attributes:
        start_char: From 0; `end_char` is exclusive.
        start_line: From 1, as `split("\\n")` counts.
    """

    number: int
    start_char: int
    end_char: int
    start_line: int
    end_line: int
    text: str


def chunks_of(content: str) -> list[Chunk]:
    """Return the passages of a content, without gaps; none only if it is empty."""
    chunks: list[Chunk] = []
    start, line = 0, 1
    for end in _ends(content):
        text = content[start:end]
        end_line = line + text.count("\n", 0, -1)
        chunks.append(Chunk(len(chunks), start, end, line, end_line, text))
        start, line = end, end_line + text.endswith("\n")
    return chunks


def _ends(content: str) -> Iterator[int]:
    stop = min(len(content), INDEXED_CHARACTERS)
    start = 0
    while stop - start > _LONGEST:
        # the rest is never shorter than _SHORTEST
        start = _best_cut(content, start + _SHORTEST, start + CHUNK_CHARACTERS, min(start + _LONGEST, stop - _SHORTEST))
        yield start
    if start < stop:
        yield stop


def _best_cut(content: str, low: int, aim: int, high: int) -> int:
    beginnings = [match.start() for match in _BEGINNING.finditer(content, low, high + 1)]
    if beginnings:
        return min(beginnings, key=lambda cut: (abs(cut - aim), cut))
    for end_of in ("\n", " "):
        if (cut := content.rfind(end_of, low, aim) + 1) or (cut := content.find(end_of, aim, high) + 1):
            return cut
    return _after_word(content, low, aim)


def _after_word(content: str, low: int, aim: int) -> int:
    """Return the last end of a word; `aim` if there is none."""
    for cut in range(aim, low, -1):
        last = content[cut - 1]
        if not (last.isalnum() or last == "_") and (content[cut].isalnum() or content[cut] == "_"):
            return cut
    return aim
