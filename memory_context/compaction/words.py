"""The words of a text that tell what it is about, as they are written: names whole and in parts.

Simpler and faster than the terms of the index: nothing is stemmed, since here a result is compared with the very words
that the user and the agent used for it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["parts_beside", "parts_in", "words_in", "words_shared"]

_WORD = re.compile(r"[^\W\d]\w{2,}")
_PART = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}|\d{2,}")
_WORD_OR_BREAK = re.compile(rf"{_WORD.pattern}|\n")
_ASCII_WORD_OR_BREAK = re.compile(
    _WORD_OR_BREAK.pattern, re.ASCII
)  # finds the same in ASCII, in two thirds of the time
_PART_OR_BREAK = re.compile(rf"{_PART.pattern}|\n")
_COMMON_WORDS = """
the and for with that this from not are was were you your have can will has but its use our all any one into let see
need now new get set self return none true false null def class import file files line lines code using should would
could here then than also there when what which they them been more some each only out
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def words_in(text: str) -> frozenset[str]:
    """Return the words and names of a text that say something."""
    return frozenset(_WORD.findall(text)) - _COMMON


def parts_in(text: str) -> frozenset[str]:
    """Return the words that the words and names of a text are made of, in lower case."""
    return frozenset(part.lower() for part in _PART.findall(text)) - _COMMON


def words_shared(lines: Sequence[str], wanted: frozenset[str]) -> dict[int, set[str]]:
    """Return which of the wanted words stand in which lines, by the lines' places; lines without any are left out.

    All lines are searched at once, which is several times faster than one by one. None may have a line break.
    """
    shared: dict[int, set[str]] = {}
    text = "\n".join(lines)
    pattern = _ASCII_WORD_OR_BREAK if text.isascii() else _WORD_OR_BREAK
    for place, word in _placed(pattern.findall(text), wanted):
        shared.setdefault(place, set()).add(word)
    return shared


def parts_beside(lines: Sequence[str], wanted: frozenset[str]) -> dict[int, frozenset[str]]:
    """Return the parts of the lines that have a wanted one, by the lines' places; none may have a line break."""
    beside: dict[int, frozenset[str]] = {}
    place, parts = 0, list[str]()
    for part in map(str.lower, [*_PART_OR_BREAK.findall("\n".join(lines)), "\n"]):
        if part != "\n":
            parts.append(part)
            continue
        if not wanted.isdisjoint(parts):
            beside[place] = frozenset(parts) - _COMMON
        place += 1
        parts.clear()
    return beside


def _placed(found: Iterable[str], wanted: frozenset[str]) -> Iterator[tuple[int, str]]:
    place = 0
    for text in found:
        if text == "\n":
            place += 1
        elif text in wanted:
            yield place, text
