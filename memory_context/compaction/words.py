"""The words of a text that tell what it is about, as they are written: names whole and in parts.

Simpler and faster than the terms of the index: nothing is stemmed, since here a result is compared with the very words
that the user and the agent used for it.
"""

import re

__all__ = ["WORD", "parts_in", "words_in"]

WORD = re.compile(r"[^\W\d]\w{2,}")
_PART = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}|\d{2,}")
_COMMON_WORDS = """
the and for with that this from not are was were you your have can will has but its use our all any one into let see
need now new get set self return none true false null def class import file files line lines code using should would
could here then than also there when what which they them been more some each only out
"""
_COMMON = frozenset(_COMMON_WORDS.split())


def words_in(text: str) -> frozenset[str]:
    """Return the words and names of a text that say something."""
    return frozenset(WORD.findall(text)) - _COMMON


def parts_in(text: str) -> frozenset[str]:
    """Return the words that the words and names of a text are made of, in lower case."""
    return frozenset(part.lower() for part in _PART.findall(text)) - _COMMON
