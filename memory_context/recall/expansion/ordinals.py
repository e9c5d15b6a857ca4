"""Finds the reference that a number counts out: "the second mail", "das letzte Protokoll", "chapter 2"."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import islice, pairwise
from typing import NamedTuple

from memory_context.foundation.text.tokenize import folded, terms_of

from .lexicon import DETERMINERS, FOREIGN_DETERMINERS, FUNCTION_WORDS
from .meanings import meanings_of

__all__ = ["Counted", "counted_out", "numbered_in"]

_ORDINALS = {
    1: """
    first erste[nrs]? premiere? primer[oa]? prim[oa] primeir[oa] eerste pierwsz(?:y|a|e|ego|ej) 第一 最初の? 1番目
    一つ目
    """,
    2: """
    second zweite[nrs]? deuxieme seconde? segund[oa] second[oa] tweede drug(?:i|a|ie|iego|iej) 第二 2番目 二番目 二つ目
    """,
    3: """
    third dritte[nrs]? troisieme tercer[oa]? terz[oa] terceir[oa] derde trzeci(?:a|e|ego|ej)? 第三 3番目 三番目
    三つ目
    """,
    4: "fourth vierte[nrs]? quatrieme cuart[oa] quart[oa] vierde czwart(?:y|a|e|ego|ej) 第四 4番目",
    -1: """
    last latest newest letzte[nrs]? neueste[nrs]? derni(?:er|ere) ultim[oa] laatste nieuwste ostatni(?:a|e|ego|ej)? 最后
    最新 最後の?
    """,
    -2: """
    penultimate vorletzte[nrs]? avant-derni(?:er|ere) penultim[oa] voorlaatste przedostatni(?:a|e|ego|ej)? 倒数第二
    """,
}
"""Patterns of folded words by place; negative places count from the newest."""

_PLACES = {place: re.compile("|".join(rf"(?:{one})" for one in words.split())) for place, words in _ORDINALS.items()}
_UNSPACED_ORDINAL = re.compile(
    "|".join(one for words in _ORDINALS.values() for one in words.split() if not one.isascii())
)
_SUPERLATIVE = re.compile(r"[a-z]{3,}est|most|least|best|worst|plus|mas|piu|mais|meist\w*|moins|meno|menos")
_WORD = re.compile(r"[^\W_](?:[\w-]*\w)?")
_NAME_OR_NUMBER = re.compile(r"[^\W\d_]+|\d+|[.,;:?!]")
_NUMBER_DIGITS = 3  # "chapter 2"; longer ones are ids and years
_ORDINALS_LIMIT, _ANSWER_WORDS = 4, 64
_NOUN_WORDS = 2  # "the second German mail"
_ALL = frozenset(("=document", "output", "ausgab", "sorti", "salida"))  # nouns that name any reference
_ARTICLES = DETERMINERS | FOREIGN_DETERMINERS
_SINCE = frozenset(("from", "since", "vom", "seit", "depuis", "desde", "dalla", "dall", "sinds", "vanaf", "od"))
"""Words before an ordinal that tell a time: "from the last meeting"."""

_NO_NOUNS = FUNCTION_WORDS | FOREIGN_DETERMINERS | {"run"}


class Counted(NamedTuple):
    """The position of the reference that is meant, newest first, and the words that say so."""

    position: int
    words: str


def counted_out(request: str, last_answer: str, described: Sequence[AbstractSet[str]]) -> Counted | None:
    """Return which reference an ordinal of the request means.

    The noun after it says of which references: those that share it, all for "the last document". If no reference has
    it, as in "wann kann der zweite anfangen?", the last answer spoke of them.

    Args:
        described: The terms of each reference, newest first.
    """
    words = [folded(match[0]) for match in _WORD.finditer(_UNSPACED_ORDINAL.sub(r" \g<0> ", request))]
    for i in islice((i for i, word in enumerate(words) if _place_of(word)), _ORDINALS_LIMIT):
        word, following = words[i], words[i + 1 : i + 1 + _NOUN_WORDS]
        place = _place_of(word)
        if not _SINCE.isdisjoint(words[max(i - 2, 0) : i]):
            continue
        if following and _SUPERLATIVE.fullmatch(following[0]):
            continue
        group: tuple[int, ...] = ()
        noun = ""
        for noun in (*following, *words[max(i - 1, 0) : i]):  # Romance languages may put it before
            if group := () if noun in _NO_NOUNS else _sharing(_terms_of(noun), described):
                break
        if not group and i and words[i - 1] in _ARTICLES:
            group, noun = _spoken_of(last_answer, described), ""
        if len(group) >= max(2, abs(place)):
            return Counted(group[-place] if place > 0 else group[-place - 1], f"{word} {noun}".strip())
    return None


def numbered_in(text: str) -> Iterator[str]:
    """Yield terms of each numbered thing, the same for "chapter 2", "Kapitel_02" and "das zweite Kapitel"."""
    words = _NAME_OR_NUMBER.findall(folded(_UNSPACED_ORDINAL.sub(r" \g<0> ", text)))
    for before, word in pairwise(words):
        is_number = word.isdigit() and len(word) <= _NUMBER_DIGITS
        noun, number = (before, int(word)) if is_number else (word, max(_place_of(before), 0))
        if number and noun[0].isalpha() and noun not in _NO_NOUNS:
            yield from (f"{term}#{number}" for term in _terms_of(noun))


@lru_cache(maxsize=4096)
def _place_of(word: str) -> int:
    """Return 1 for "first", -1 for "last", 0 for no ordinal."""
    return next((place for place, pattern in _PLACES.items() if pattern.fullmatch(word)), 0)


def _terms_of(noun: str) -> set[str]:
    return {*terms_of(noun), *(one.concept for one in meanings_of(noun))}


def _sharing(terms: AbstractSet[str], described: Sequence[AbstractSet[str]]) -> tuple[int, ...]:
    """Return the references that share the noun's most frequent term."""
    if not terms.isdisjoint(_ALL):
        return tuple(range(len(described)))
    counts = Counter(term for one in described for term in terms & one)
    most = max(counts, key=lambda term: (counts[term], term), default="")
    return tuple(i for i, one in enumerate(described) if most in one) if most else ()


def _spoken_of(answer: str, described: Sequence[AbstractSet[str]]) -> tuple[int, ...]:
    """Return the largest group of references, not all, that a word of the last answer names."""
    groups = (
        _sharing(_terms_of(folded(match[0])) - _ALL, described)
        for match in islice(_WORD.finditer(answer), _ANSWER_WORDS)
    )
    return max((group for group in groups if len(group) < max(len(described), 3)), key=len, default=())
