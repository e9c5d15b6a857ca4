"""Which references a request speaks of without naming them: by terms that only few of them have.

Conservative on purpose: a wrong expansion costs up to some thousand tokens, a missed one a look-up by the agent.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..references import QUOTATION, shorten
from ..text import folded, terms_of
from .lexicon import (
    DETERMINERS,
    FOREIGN_DETERMINERS,
    FOREIGN_LINKS,
    FOREIGN_WORDS,
    FUNCTION_WORDS,
    LEAD_INS,
    MAKING,
    WEAK,
)
from .models import CandidateReference, Expansion

__all__ = ["matched_references"]

_MATCHES_LIMIT = 3
_TERMS_LIMIT = 24
_KEPT_CHARACTERS = 600
_OPENING_CHARACTERS = 200
_SHOWN_WORDS = 3
_SHOWN_CHARACTERS = 40
_SHORTEST_TERM = 3
_YEAR_DIGITS = 4
_NUMBER_DIGITS = 3  # a shorter number says nothing by itself

_SPECIFIC, _PLAIN, _DEFINITE = 2.0, 0.8, 1.6
_PLACE_SHARE = 0.5
_LEAST_SCORE = 1.6
_LEAST_SCORE_TO_MAKE = 3.2  # "restart docker" needs to know less of docker's logs than "what do the logs say"
_LEAD = 1.25  # the best reference must be ahead of the others, or all those that are equal go, if they are few
_RARE_SHARE = 0.34

_DEFINITES = DETERMINERS | {"both", "all", "each", "every"}
_WORD = re.compile(r"[^\W_](?:[\w./:@+-]*\w)?")
_SNAKE_CASE = re.compile(r"[^\W_]+(?:_[^\W_]+)+")
_FENCE_TAG = re.compile(r"^([ \t]*(?:```|~~~))[^\s`]*", re.MULTILINE)
_ENGLISH = re.compile(r"\b(?:the|is|to|of|and|for|you|my|please)\b", re.IGNORECASE)
_BEGINS = re.compile(r"(?:^|[.?!:\n])[^\w]*$")
_GOES_INTO = re.compile(r":\s+\S|\n\s*(?:[-*|]|\d+[.)])\s")
_PLACES = frozenset(("for", "into", "to", "beside", "near", "like"))
"""What stands behind these is where something goes or what it is for, seldom what is to be read."""


class _Term(NamedTuple):
    weight: float
    word: str  # as the request spells it
    is_exact: bool = False  # a file, path, number or identifier


@dataclass
class _Match:
    reference: CandidateReference
    score: float
    terms: list[str]


def matched_references(
    request: str,
    references: Sequence[CandidateReference],
    visible_texts: Callable[[], Iterable[str]],
    last_answer: str = "",
) -> list[Expansion]:
    """Return up to three expansions for references that the request speaks of, best first.

    Args:
        request: The user's words, cut to a few thousand characters.
        references: What is on offer; visible ones count as what a term may speak of and are not expanded.
        visible_texts: Asked only if there is a candidate: a term that is found there needs no expansion.
        last_answer: What it goes into by a colon or on several lines needs no expansion either.
    """
    weighed = _weighed(request)
    terms = sorted(weighed, key=lambda term: -weighed[term].weight)[:_TERMS_LIMIT]
    if not terms or not references:
        return []
    found = [_found(reference, terms) for reference in references]
    frequency = {term: sum(term in one for one in found) for term in terms}
    least = _LEAST_SCORE_TO_MAKE if _makes(request) else _LEAST_SCORE
    most = max(1, int(len(references) * _RARE_SHARE))
    rare = {term for term in terms if 0 < frequency[term] <= most}
    matches: list[_Match] = []
    for reference, present in zip(references, found, strict=True):
        told = [term for term in terms if term in present & rare]
        score = sum(weighed[term].weight / frequency[term] ** 0.5 for term in told)
        if score >= least:
            matches.append(_Match(reference, score, told))
    matches.sort(key=lambda match: (-match.score, match.reference.messages_ago))
    best = [
        match
        for match in matches
        if match.score * _LEAD >= matches[0].score
        or any(weighed[term].is_exact and frequency[term] == 1 for term in match.terms)
    ]
    if len(best) > _MATCHES_LIMIT:
        return []
    best = [match for match in best if not match.reference.is_visible]
    if not best:
        return []
    seen = [*_gone_into(last_answer), *visible_texts()]
    unseen = _unseen({term for match in best for term in match.terms}, seen)
    return [
        Expansion(match.reference.ref.key, "matched", "rare word " + ", ".join(_shown(match.terms, weighed)))
        for match in best
        if unseen.intersection(match.terms)
    ]


def _weighed(request: str) -> dict[str, "_Term"]:
    """Return the terms of a request that can tell one reference from another."""
    weighed: dict[str, _Term] = {}
    is_definite = is_place = False
    request = _FENCE_TAG.sub(r"\1 ", request)  # the language of pasted code is no word of the request
    is_foreign = not _ENGLISH.search(request) and not {*_WORD.findall(folded(request))}.isdisjoint(FOREIGN_WORDS)
    for match in _WORD.finditer(request):
        word = folded(match[0])
        if is_foreign and word in FOREIGN_WORDS:
            is_definite = word in FOREIGN_DETERMINERS or (is_definite and word in FOREIGN_LINKS)
            is_place = False
            continue
        if word in FUNCTION_WORDS:
            is_definite = word in _DEFINITES or (is_definite and word == "and")
            is_place = word in _PLACES or (is_place and is_definite)
            continue
        is_name = is_foreign and match[0][0].isupper() and not _BEGINS.search(request, 0, match.start())
        terms = [term for term in terms_of(match[0]) if _tells(term)]
        for place, term in enumerate(terms):
            is_exact = _is_specific(term) or (place == 0 and _SNAKE_CASE.fullmatch(match[0]) is not None)
            weight = _SPECIFIC if is_exact else _DEFINITE if is_definite or is_name else _PLAIN
            weight *= _PLACE_SHARE if is_place else 1
            if term not in weighed or weighed[term].weight < weight:
                weighed[term] = _Term(weight, match[0], is_exact)
    return weighed


def _shown(terms: Sequence[str], weighed: dict[str, _Term]) -> list[str]:
    words = dict.fromkeys(weighed[term].word for term in terms)
    return [repr(shorten(word, _SHOWN_CHARACTERS)) for word in list(words)[:_SHOWN_WORDS]]


def _makes(request: str) -> bool:
    """Whether a request is to do or to make something rather than to say what is stored."""
    words = (match[0].lower() for match in _WORD.finditer(request[:_OPENING_CHARACTERS]))
    return next((word for word in words if word not in LEAD_INS), "") in MAKING


def _tells(term: str) -> bool:
    if term in WEAK or term.startswith("#"):
        return False
    if term.isdigit():
        return len(term) >= _NUMBER_DIGITS
    return len(term) >= (_SHORTEST_TERM if term.isascii() else 2)


def _is_specific(term: str) -> bool:
    if term.isdigit():
        return len(term) > _YEAR_DIGITS
    return any(char.isdigit() or char in "_./:-@" for char in term)


def _found(reference: CandidateReference, terms: Sequence[str]) -> set[str]:
    """Return which terms a reference has in its description, its key, its source and what the view kept of it."""
    kept = reference.kept_text[:_KEPT_CHARACTERS].replace(QUOTATION, "")
    text = " ".join((reference.ref.description, reference.ref.key, reference.source, kept))
    lower = folded(text)
    # taking a text apart costs a hundred times a look for the beginnings of a few words
    if (
        not any(term[: max(_SHORTEST_TERM, len(term) - 2)] in lower for term in terms if term.isascii())
        and lower.isascii()
    ):
        return set()
    return set(terms).intersection(terms_of(text))


def _unseen(terms: set[str], visible_texts: Iterable[str]) -> set[str]:
    """Return the terms that occur in none of the texts."""
    unseen = set(terms)
    for text in visible_texts:
        if not unseen:
            break
        lower = folded(text)
        unseen = {term for term in unseen if term not in lower}
    return unseen


def _gone_into(last_answer: str) -> list[str]:
    """Return what an answer says in detail: from the sentence on that has a colon or a list behind it."""
    match = _GOES_INTO.search(last_answer)
    if match is None:
        return []
    start = max(last_answer.rfind(mark, 0, match.start()) for mark in (". ", "! ", "? ", "\n"))
    return [last_answer[max(start, 0) :]]
