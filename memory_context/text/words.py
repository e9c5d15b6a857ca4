"""The words of a text that tell what it is about, as they are written: names whole and in parts.

Simpler and faster than the terms of the index: nothing is stemmed, since here a result is compared with the very words
that the user and the agent used for it.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

__all__ = ["is_name", "parts_beside", "parts_in", "reads_as_order", "words_in", "words_shared"]

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


_ORDER = re.compile(
    r"\b(?:ignor|disregard|forget|overrid)\w*\b[^.\n]{0,40}\b(?:instructions?|prompts?|rules)\b"
    r"|\byou (?:are now|must now|must immediately)\b|\bsystem prompt\b",
    re.IGNORECASE,
)
_ORDER_IN_A_NAME = re.compile(
    r"\b(?:ignor|disregard|forget|overrid)[a-z]*\b.{0,40}\b(?:previous|prior|above|earlier|all|your|these|those)\b.{0,40}"
    r"\b(?:instructions?|prompts?|rules|orders)\b|\byou (?:are now|must|should|have to)\b|^please\b",
    re.IGNORECASE,
)
_JOINTS = str.maketrans("_-./\\:", "      ")
_FILE_NAME = re.compile(r"[^\s/\\][^/\\]*\.[A-Za-z0-9]{1,5}")
_MOST_WORDS_OF_A_NAME = 6


def reads_as_order(text: str) -> bool:
    """Whether a text tells its reader to give up what it was told: no tool's result has a reason to."""
    return _ORDER.search(text) is not None


def is_name(text: str) -> bool:
    """Whether a text may be told as a name: an identifier, path, URL, code or proper name, and no order.

    Of several words each that says something begins with a capital or a digit, unless they are a path: a sentence is
    no name, whatever it asks for.
    """
    if _ORDER_IN_A_NAME.search(text.translate(_JOINTS)):
        return False
    words = text.split()
    if len(words) < 2 or "/" in text or "\\" in text or _FILE_NAME.fullmatch(text):
        return True
    telling = [word for word in words if len(word) > 3]
    return len(words) <= _MOST_WORDS_OF_A_NAME and not any(word[0].islower() for word in telling)


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
