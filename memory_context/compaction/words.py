"""The words of a text that tell what it is about, as they are written: names whole and in parts.

Simpler and faster than the terms of the index: nothing is stemmed, since here a result is compared with the very words
that the user and the agent used for it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["parts_in", "with_parts_of", "words_in", "words_shared"]

_WORD = re.compile(r"[^\W\d]\w{2,}")
_PART = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}|\d{2,}")
_WORD_OR_BREAK = re.compile(rf"{_WORD.pattern}|\n")
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
    for place, word in _placed(_WORD_OR_BREAK.findall("\n".join(lines)), wanted):
        shared.setdefault(place, set()).add(word)
    return shared


def with_parts_of(lines: Sequence[str], wanted: frozenset[str]) -> set[int]:
    """Return the places of the lines that have one of the wanted parts; none may have a line break."""
    parts = map(str.lower, _PART_OR_BREAK.findall("\n".join(lines)))
    return {place for place, _ in _placed(parts, wanted)}


def _placed(found: Iterable[str], wanted: frozenset[str]) -> Iterator[tuple[int, str]]:
    place = 0
    for text in found:
        if text == "\n":
            place += 1
        elif text in wanted:
            yield place, text
