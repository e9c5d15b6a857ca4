"""Concepts: names of things in English and nine other languages, so that synonyms and translations meet.

`data/meanings.txt` has one concept a line: English names, `|`, foreign words without accents. `*` ends a stem, `~`
begins a word that English has with another meaning, `-` joins the words of a phrase.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple, TypeVar

from memory_context.foundation.text.tokenize import folded, terms_of

from .lexicon import REQUESTS

__all__ = ["Meaning", "english_terms", "is_concept", "meanings_in", "meanings_of"]

_CONCEPT = "="  # begins a concept, as it begins no term
_WORD = re.compile(r"[^\W_]+")
_DIGRAPH = re.compile("([aou])e")  # ä, ö, ü of addresses and file names
_ENDINGS = ("s", "e", "n", "en", "es", "er", "i", "em", "a", "o", "y", "u", "ow", "om", "ami", "ach")
_LEAST_STEM, _LONGEST_INFLECTION = 5, 3
_LEAST_COMPOUND, _LEAST_PART = 8, 4
_LONGEST_WORD = 48  # longer ones are no words, and the parts of a compound take quadratic time
_COMPOUND_MODIFIER = 0.5  # "Rechnung" of "Rechnungsnummer", which is a number
_LONGEST_PHRASE_WORDS, _LONGEST_UNSPACED = 4, 10


class Meaning(NamedTuple):
    """A concept that a word stands for, with its share of the word's meanings."""

    concept: str
    share: float
    word: str


_Concepts = tuple[str, ...]


class _Words(NamedTuple):
    """Concepts by word.

    Attributes:
        english: By word.
        english_stems: By stem.
        foreign: By folded word.
        homographs: Foreign words that English has with another meaning.
        stems: Beginnings of foreign words.
        phrases: By two to four words without a plural s.
        names: English words of each concept.
    """

    english: dict[str, _Concepts]
    english_stems: dict[str, _Concepts]
    foreign: dict[str, _Concepts]
    homographs: dict[str, _Concepts]
    stems: dict[str, _Concepts]
    phrases: dict[tuple[str, ...], _Concepts]
    names: dict[str, tuple[str, ...]]


def is_concept(term: str) -> bool:
    """Return whether a term of a description or request is a concept."""
    return term.startswith(_CONCEPT)


def english_terms(concept: str) -> tuple[str, ...]:
    """Return the terms of a concept's English names."""
    return tuple(map(_stem, _words().names[concept]))


def meanings_in(text: str) -> Iterator[Meaning]:
    """Yield the concepts of a text's phrases of several words."""
    words = [word.removesuffix("s") for word in _WORD.findall(folded(text))]
    for start in range(len(words) - 1):
        for end in range(start + 2, min(start + _LONGEST_PHRASE_WORDS, len(words)) + 1):
            for concept in _words().phrases.get(tuple(words[start:end]), ()):
                yield Meaning(concept, 1.0, words[start])


@lru_cache(maxsize=4096)
def meanings_of(word: str, *, is_english: bool | None = None) -> tuple[Meaning, ...]:
    """Return the concepts of a folded word; a word without spaces may hold several.

    Args:
        is_english: Whether the text around it is English, none if unknown. English words with another meaning in
            another language mean what they mean in the text's language.
    """
    if not word.isascii():
        return tuple(_in_unspaced(word))
    if len(word) > _LONGEST_WORD:
        return ()
    words = _words()
    english = _english(word, words)
    if english and is_english:
        return _shared(english, word)
    foreign = _foreign(word, words) or (_foreign(_DIGRAPH.sub(r"\1", word), words) if _DIGRAPH.search(word) else ())
    if is_english is False:
        foreign = foreign or words.homographs.get(word, ())
    if is_english is None:
        return _shared(dict.fromkeys((*english, *foreign)), word) or tuple(_in_compound(word, words))
    return _shared(foreign or english, word) or tuple(_in_compound(word, words))


def _shared(concepts: Iterable[str], word: str, share: float = 1.0) -> tuple[Meaning, ...]:
    found = list(concepts)
    return tuple(Meaning(concept, share * len(found) ** -0.5, word) for concept in found)


def _english(word: str, words: _Words) -> _Concepts:
    """Return the concepts of an English word: itself or its singular, else its stem; "run" is no "running"."""
    singulars = (word, word.removesuffix("s"), word.removesuffix("es"))
    found = next((found for one in singulars if (found := words.english.get(one))), None)
    return found or (() if word in REQUESTS else words.english_stems.get(_stem(word), ()))


def _foreign(word: str, words: _Words) -> _Concepts:
    """Return the concepts of a foreign word, inflected or not; the longest entry wins."""
    if word in words.foreign:
        return words.foreign[word]
    for ending in _ENDINGS:
        if word.endswith(ending) and (found := words.foreign.get(word[: -len(ending)])):
            return found
    for end in range(len(word), 2, -1):
        if found := words.stems.get(word[:end]):
            return found
        if max(_LEAST_STEM, len(word) - _LONGEST_INFLECTION) <= end and (found := words.foreign.get(word[:end])):
            return found
    return ()


def _in_compound(word: str, words: _Words) -> Iterator[Meaning]:
    """Yield the concepts of a compound word's head and of its modifier: "Lagerbestand", "Rechnungsnummer"."""
    if len(word) < _LEAST_COMPOUND:
        return
    heads = (word[start:] for start in range(_LEAST_PART, len(word) - _LEAST_PART + 1))
    head = next((found for part in heads if (found := _foreign(part, words))), ())
    yield from _shared(head, word)
    modifiers = (word[:end] for end in range(len(word) - _LEAST_PART, _LEAST_PART - 1, -1))
    modifier = next((found for part in modifiers for form in _joined(part) if (found := words.foreign.get(form))), ())
    yield from _shared((one for one in modifier if one not in head), word, _COMPOUND_MODIFIER)


def _joined(part: str) -> tuple[str, ...]:
    """Return the forms of a compound's first word: "Miet-", "Versicherungs-"."""
    return part, f"{part}e", part.removesuffix("s")


def _in_unspaced(word: str) -> Iterator[Meaning]:
    """Yield the concepts of a run without spaces, longest entries first."""
    foreign, start = _words().foreign, 0
    while start < len(word):
        ends = range(min(start + _LONGEST_UNSPACED, len(word)), start, -1)
        end = next((end for end in ends if word[start:end] in foreign), 0)
        if end:
            yield from _shared(foreign[word[start:end]], word[start:end])
        start = end or start + 1


@lru_cache(maxsize=4096)
def _stem(word: str) -> str:
    return next(iter(terms_of(word)), word)


@cache
def _words() -> _Words:
    words = _Words({}, {}, {}, {}, {}, {}, {})
    text = (files("memory_context.foundation") / "data" / "meanings.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        english, _, foreign = line.partition(" | ")
        names = english.split()
        meant = (_CONCEPT + names[0],)
        for name in names:
            if "-" in name:
                _add(words.phrases, _phrase(name), meant)
            else:
                _add(words.english, name, meant)
                _add(words.english_stems, _stem(name), meant)
        words.names[meant[0]] = tuple(name for name in names if "-" not in name)
        for one in foreign.split():
            if "-" in one:
                _add(words.phrases, _phrase(one), meant)
            elif one[-1] == "*":
                _add(words.stems, one[:-1], meant)
            elif one[0] == "~":
                _add(words.homographs, one[1:], meant)
            else:
                _add(words.foreign, one, meant)
    return words


def _phrase(words: str) -> tuple[str, ...]:
    return tuple(word.removesuffix("s") for word in words.split("-"))


_Key = TypeVar("_Key")


def _add(concepts: dict[_Key, _Concepts], key: _Key, meant: _Concepts) -> None:
    known = concepts.get(key)
    concepts[key] = meant if known is None or known == meant else (*known, *meant)
