"""Running text in any script: what it says first and last, its sections, the names, dates and amounts in it.

It is asked after the readers of more particular sorts: any of those may hold words too.
"""

import re
from collections import Counter
from collections.abc import Sequence

from ...references import shorten
from ..compactor import Result
from ..documents import is_prose
from ..excerpt import Passage
from ..reading import Reading
from .framing import LABELS, LANDMARKS, NAMES, described, fact

__all__ = ["read_prose"]

_PARSED = 300_000
_NAMED = 60_000
_SENTENCES = 400
_SNIFFED = 4000
_LEAST = 200
_LEAST_SENTENCE = 30
_LEAST_WIDE_SENTENCE = 10
_LONGEST_PARAGRAPH = 600

_SENTENCE_END = re.compile(r"[.!?…]+[\"'”’)\]]{0,3}(?=\s|$)|[。！？؟।]+[”」』]?|\n[ \t]*\n")
_NAME = r"[A-ZÀ-ÖØ-ÞΑ-ΩА-Я][\w’'-]{1,30}"
_CAPITALS = re.compile(rf"\b{_NAME}(?: (?:(?:of|the|de|da|van|von|der|and|la|di) )?{_NAME}){{0,4}}")
_AMOUNT = re.compile(
    r"[$€£¥₹] ?\d[\d.,]{0,20}(?: ?(?:million|billion|trillion|k|m|bn)\b)?"
    r"|\b\d[\d.,]{0,20} ?(?:%|percent\b|million\b|billion\b|dollars\b|euros?\b|USD\b|EUR\b|kg\b|km\b|miles\b|°C)"
    r"|\d[\d.,]{0,20} ?(?:元|円|年|月|万|亿|人)"
)
_FIGURE = re.compile(r"[$€£¥₹%]|\d[\d.,]")
_DATE = re.compile(
    r"\b(?:\d{1,2} )?(?:January|February|March|April|May|June|July|August|September|October|November|December)"
    r"(?: \d{1,2},?)?(?: \d{4})?\b|\b\d{4}-\d\d-\d\d\b"
    r"|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b|\d{4}年(?:\d{1,2}月(?:\d{1,2}日)?)?"
)
_HEADING = re.compile(r"^(?:#{1,6} +|\d{1,2}(?:\.\d{1,2})*\.? +)?[^\W\d_][^\n]{2,80}$")
_COMMON = {
    "The", "This", "That", "These", "Those", "It", "In", "On", "At", "And", "But", "For", "If", "He", "She", "We",
    "They", "You", "As", "There", "When", "While", "However", "To", "From", "With", "By", "No", "Yes", "Its", "Next",
    "What", "How", "Why", "Who", "After", "Before", "Also", "Some", "Many", "Most", "Here", "His", "Her", "Our",
}  # fmt: skip


def read_prose(result: Result) -> Reading | None:
    """Return what a running text is about; None for what is not mostly words and sentences."""
    content = result.content
    if len(content) < _LEAST or not is_prose(content[:_SNIFFED]):
        return None
    if len(content) > 2 * _SNIFFED and not is_prose(content[len(content) // 2 :][:_SNIFFED]):
        return None
    paragraphs = _paragraphs(content)
    headings = [(passage, _heading(content[passage.start : passage.end])) for passage in paragraphs]
    headings = [(passage, text) for passage, text in headings if text]
    sentences = _sentences(content, paragraphs)
    told = [passage for passage in sentences if _FIGURE.search(content, passage.start, passage.end)]
    facts = [_text(content, passage) for passage in sentences[:2]]
    if headings:
        facts.append(f"sections: {'; '.join(shorten(text, 40) for _, text in headings[:12])}")
    facts += [_text(content, passage) for passage in (*told[:4], *sentences[-1:])]
    words = len(content.split()) if len(content) <= _PARSED else 0
    size = f"{words:,} words" if words * 12 > len(content) else f"{len(content):,} characters"
    paragraph_count = f"{len(paragraphs):,} paragraphs" if len(content) <= _PARSED and len(paragraphs) > 1 else ""
    about = headings[0][1] if headings and headings[0][0].start < _LEAST else shorten(facts[0] if facts else "", 60)
    return Reading(
        described("text:", about, paragraph_count, size),
        facts=list(dict.fromkeys(facts)),
        names=_names(content, told),
        landmarks=_landmarks(paragraphs, headings, told),
        labels=_labels(content, paragraphs, headings),
    )


def _paragraphs(content: str) -> list[Passage]:
    """Return the lines of the head and of the tail, without empty ones."""
    found: list[Passage] = []
    bounds = (
        [(0, len(content))] if len(content) <= _PARSED else [(0, _PARSED), (len(content) - _PARSED // 10, len(content))]
    )
    for start, end in bounds:
        position = start
        for line in content[start:end].split("\n"):
            if line.strip():
                found.append(Passage(position, position + len(line)))
            position += len(line) + 1
    return found


def _heading(text: str) -> str:
    """Return a line as a heading if it is one: short, and without the end of a sentence."""
    line = text[:100].strip()
    is_heading = len(line) < 80 and _HEADING.match(line) and line[-1] not in ".!?,;:。！？，；：…\"'”"
    return line.lstrip("# ") if is_heading and (line.startswith("#") or line[0].isupper() or line[0] > "⺀") else ""


def _sentences(content: str, paragraphs: Sequence[Passage]) -> list[Passage]:
    """Return the sentences of weight, at most a few hundred."""
    found: list[Passage] = []
    for paragraph in (*paragraphs[:300], *paragraphs[300:][-5:]):
        start, end = paragraph.start, min(paragraph.end, paragraph.start + 20 * _LONGEST_PARAGRAPH)
        for match in _SENTENCE_END.finditer(content, start, end):
            least = _LEAST_WIDE_SENTENCE if content[start : start + 20].strip()[:1] > "⺀" else _LEAST_SENTENCE
            if match.end() - start >= least:
                found.append(Passage(start, match.end()))
            start = match.end()
            if len(found) > _SENTENCES:
                return found
    return found


def _text(content: str, passage: Passage) -> str:
    return fact(content[passage.start : passage.end])


def _names(content: str, told: Sequence[Passage]) -> list[str]:
    """Return names in capitals, the most frequent first, then the dates and amounts of sentences that have figures."""
    counts: Counter[str] = Counter(match[0] for match in _CAPITALS.finditer(content[:_NAMED]))
    named = [name for name, _ in counts.most_common(300) if name.split(" ")[0] not in _COMMON]
    named.sort(key=lambda name: (" " not in name, -counts[name]))
    figures = [
        match[0]
        for passage in told[:NAMES]
        for pattern in (_DATE, _AMOUNT)
        for match in pattern.finditer(content, passage.start, min(passage.end, passage.start + _LONGEST_PARAGRAPH))
        if len(match[0]) > 2
    ]
    return list(dict.fromkeys([*named[: NAMES // 2], *figures[: NAMES // 2]]))


def _landmarks(
    paragraphs: Sequence[Passage], headings: Sequence[tuple[Passage, str]], told: Sequence[Passage]
) -> list[Passage]:
    marks = [*paragraphs[:2], *paragraphs[-1:], *(passage for passage, _ in headings[:20]), *told[:20], *paragraphs]
    short = (Passage(mark.start, min(mark.end, mark.start + _LONGEST_PARAGRAPH)) for mark in marks[: 2 * LANDMARKS])
    return list(dict.fromkeys(short))[:LANDMARKS]


def _labels(
    content: str, paragraphs: Sequence[Passage], headings: Sequence[tuple[Passage, str]]
) -> list[tuple[Passage, str]]:
    """Name sections by their headings, else paragraphs by their first words."""
    if len(headings) > 1:
        ends = [*(passage.start for passage, _ in headings[1:]), paragraphs[-1].end]
        return [(Passage(p.start, end), shorten(text, 60)) for (p, text), end in zip(headings, ends, strict=True)][
            :LABELS
        ]
    long = [passage for passage in paragraphs if passage.end - passage.start > _LEAST]
    return [(passage, shorten(content[passage.start : passage.start + 40], 30)) for passage in long[:LABELS]]
