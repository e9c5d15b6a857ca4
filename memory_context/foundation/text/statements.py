"""Short statements: which words carry their meaning, and when two say the same."""

import re
from collections.abc import Iterable

from .lexicon import ENGLISH_STOP_WORDS, FILLERS, NEGATIONS
from .tokenize import folded, terms_of

__all__ = ["canonical_words", "has_relative_time", "is_supported", "unchangeable_words"]

_NOT = re.compile(r"n['’]t\b", re.IGNORECASE)
_DAYS = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day|(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|sonnabend"
_RELATIVE_TIME = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|soon|recently|currently|ago|heute|morgen|gestern|vorgestern|übermorgen|bald|"
    r"kürzlich|derzeit|(?:this|next|last|coming|diese\w*|nächste\w*|letzte\w*|kommende\w*) (?:"
    rf"week(?:end)?|month|year|spring|summer|autumn|fall|winter|time|woche(?:nende)?|monat|jahr|{_DAYS})|"
    rf"(?:on|by|until|am|bis) (?:{_DAYS})|(?:in|vor|since|seit) (?:an?|one|two|three|\d+|ein\w*|zwei|drei) "
    r"(?:hour|day|week|month|year|stunde|tag|woche|monat|jahr)\w*)\b",
    re.IGNORECASE,
)
_EDGES = ".,;:!\"'`“”„‘’«»()[]…"


def canonical_words(text: str) -> tuple[str, ...]:
    """Return the words of a statement in order, without case, punctuation and fillers.

    Equal words mean the same statement. Numbers, paths and names within a sentence stay as written.
    """
    kept = [word for word in _words(text.replace("?", " ? ")) if folded(word) not in FILLERS]
    return tuple(folded(word) if index == 0 or word.islower() else word for index, word in enumerate(kept))


def has_relative_time(text: str) -> bool:
    """Return whether a statement means another day whenever it is said: "next month", "on Friday", "vor drei Tagen"."""
    return _RELATIVE_TIME.search(text) is not None


def unchangeable_words(text: str) -> frozenset[str]:
    """Return numbers, names, dates and paths as written, and "not" for any negation: no paraphrase may change them."""
    return frozenset(map(_unchangeable, _words(text))) - {""}


def is_supported(statement: str, sources: Iterable[str]) -> bool:
    """Return whether each unchangeable word of a statement stands in a source, and no negation was added or dropped.

    The first word begins with a capital in any case: another form of it in a source is enough.
    """
    sources = list(sources)
    known = frozenset[str]().union(*map(unchangeable_words, sources))
    words = set(unchangeable_words(statement))
    first = next((word for word in _words(statement) if folded(word) not in FILLERS), "")
    if first.istitle() and (folded(first) in ENGLISH_STOP_WORDS or set(terms_of(first)) & set(_terms(sources))):
        words.discard(first)
    return words <= known and ("not" in words) == ("not" in known)


def _terms(texts: Iterable[str]) -> list[str]:
    return [term for text in texts for term in terms_of(text)]


def _words(text: str) -> list[str]:
    return [word for part in _NOT.sub(" not", text).split() if (word := part.strip(_EDGES))]


def _unchangeable(word: str) -> str:
    word = word.rstrip("?")
    lower = folded(word)
    if lower in NEGATIONS:
        return "not"
    return "" if lower in FILLERS or (word.isalpha() and word.islower()) else word
