"""Finds candidates by rare terms of a request that names no keys.

Conservative: wrong expansions cost thousands of tokens, missed ones a look-up.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..references import QUOTATION, shorten
from ..text import folded, telling_terms, terms_of
from . import lexicon
from .candidates import CandidateReference, Expansion

__all__ = ["match_references"]

_MATCHES_LIMIT, _TERMS_LIMIT = 3, 24
_KEPT_CHARACTERS, _OPENING_CHARACTERS = 600, 200
_SHOWN_WORDS, _SHOWN_CHARACTERS = 3, 40
_EXACT_WEIGHT, _PLAIN_WEIGHT, _DEFINITE_WEIGHT = 2.0, 0.8, 1.6
_PLACE_FACTOR = 0.5  # after "into" or "beside": a target, seldom a source
_LEAST_SCORE = 1.6
_LEAST_SCORE_TO_ACT = 3.2  # "restart docker" hardly needs docker's logs
_LEAD = 1.25  # others this near match too
_RARE_SHARE = 0.34  # of candidates with a rare term

_DEFINITES = lexicon.DETERMINERS | {"both", "all", "each", "every"}
_PLACES = frozenset(("for", "into", "to", "beside", "near", "like"))
_WORD = re.compile(r"[^\W_](?:[\w./:@+-]*\w)?")
_SNAKE_CASE = re.compile(r"[^\W_]+(?:_[^\W_]+)+")
_FENCE_TAG = re.compile(r"^([ \t]*(?:```|~~~))[^\s`]*", re.MULTILINE)
_SENTENCE_START = re.compile(r"(?:^|[.?!:\n])[^\w]*$")
_DETAIL = re.compile(r":\s+\S|\n\s*(?:[-*|]|\d+[.)])\s")


class _Term(NamedTuple):
    weight: float
    word: str
    is_exact: bool = False


def match_references(
    request: str,
    references: Sequence[CandidateReference],
    visible_texts: Callable[[], Iterable[str]],
    last_answer: str = "",
) -> list[Expansion]:
    """Return up to three matching expansions, best first.

    Args:
        references: Visible ones count only for term frequency.
        visible_texts: Called only after a match; a term found there needs no expansion.
        last_answer: Details after a colon or in a list count as visible.
    """
    weighed = _weigh(request) if references else {}
    terms = sorted(weighed, key=lambda term: -weighed[term].weight)[:_TERMS_LIMIT]
    if not terms:
        return []
    found = [_terms_in(reference, terms) for reference in references]
    frequency = {term: sum(term in one for one in found) for term in terms}
    most = max(1, int(len(references) * _RARE_SHARE))
    rare = [term for term in terms if 0 < frequency[term] <= most]
    matches = [
        (sum(weighed[term].weight / frequency[term] ** 0.5 for term in shared), reference, shared)
        for reference, present in zip(references, found, strict=True)
        if (shared := [term for term in rare if term in present])
    ]
    matches.sort(key=lambda match: (-match[0], match[1].messages_ago))
    threshold = _LEAST_SCORE_TO_ACT if _is_to_act(request) else _LEAST_SCORE
    unique = {term for term in rare if weighed[term].is_exact and frequency[term] == 1}
    best = [
        match
        for match in matches
        if match[0] >= threshold and (match[0] * _LEAD >= matches[0][0] or not unique.isdisjoint(match[2]))
    ]
    hidden = [match for match in best if not match[1].is_visible]
    if len(best) > _MATCHES_LIMIT or not hidden:
        return []
    unseen = {term for _, _, shared in hidden for term in shared}
    for text in map(folded, (_detail_of(last_answer), *visible_texts())):
        unseen = {term for term in unseen if term not in text}
    return [
        Expansion(reference.ref.key, "matched", f"rare word {_words_of(shared, weighed)}")
        for _, reference, shared in hidden
        if not unseen.isdisjoint(shared)
    ]


def _weigh(request: str) -> dict[str, _Term]:
    weighed: dict[str, _Term] = {}
    is_definite = is_place = False
    request = _FENCE_TAG.sub(r"\1 ", request)  # drops code languages
    is_english = lexicon.ENGLISH.search(request) is not None
    for match in _WORD.finditer(request):
        word = folded(match[0])
        is_determiner = word in (_DEFINITES if is_english else _DEFINITES | lexicon.FOREIGN_DETERMINERS)
        if is_determiner or word in lexicon.FUNCTION_WORDS or not (is_english or telling_terms([word])):
            is_definite = is_determiner or (is_definite and word in lexicon.LINKS)
            is_place = word in _PLACES or (is_place and is_definite)
            continue
        is_name = not is_english and match[0][0].isupper() and not _SENTENCE_START.search(request, 0, match.start())
        for place, term in enumerate(filter(_tells, terms_of(match[0]))):
            is_exact = _is_exact(term) or (place == 0 and _SNAKE_CASE.fullmatch(match[0]) is not None)
            weight = _EXACT_WEIGHT if is_exact else _DEFINITE_WEIGHT if is_definite or is_name else _PLAIN_WEIGHT
            one = _Term(weight * (_PLACE_FACTOR if is_place else 1), match[0], is_exact)
            weighed[term] = max(weighed.get(term, one), one, key=lambda one: one.weight)
    return weighed


def _detail_of(answer: str) -> str:
    match = _DETAIL.search(answer)
    return answer[max(answer.rfind(mark, 0, match.start()) for mark in (". ", "! ", "? ", "\n")) + 1 :] if match else ""


def _words_of(terms: Sequence[str], weighed: dict[str, _Term]) -> str:
    words = list(dict.fromkeys(weighed[term].word for term in terms))[:_SHOWN_WORDS]
    return ", ".join(repr(shorten(word, _SHOWN_CHARACTERS)) for word in words)


def _is_to_act(request: str) -> bool:
    """True for a request to act rather than read."""
    words = (match[0].lower() for match in _WORD.finditer(request[:_OPENING_CHARACTERS]))
    return next((word for word in words if word not in lexicon.LEAD_INS), "") in lexicon.ACTIONS | lexicon.CREATIONS


def _tells(term: str) -> bool:
    shortest = 3 if term.isascii() else 2
    return len(term) >= shortest and term not in lexicon.WEAK and not term.startswith("#")


def _is_exact(term: str) -> bool:
    if term.isdigit():
        return len(term) > 4  # excludes years
    return any(char.isdigit() or char in "_./:-@" for char in term)


def _terms_in(reference: CandidateReference, terms: Sequence[str]) -> set[str]:
    kept = reference.kept_text[:_KEPT_CHARACTERS].replace(QUOTATION, "")
    text = " ".join((reference.ref.description, reference.ref.key, reference.source, kept))
    lower = folded(text)
    # 100 times faster than splitting into terms
    if lower.isascii() and not any(term[: max(3, len(term) - 2)] in lower for term in terms if term.isascii()):
        return set()
    return set(terms).intersection(terms_of(text))
