"""Finds candidates by the words of a request that names no keys: names, and rare terms of descriptions.

Conservative: wrong expansions cost thousands of tokens, missed ones a look-up.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from memory_context.foundation.references import QUOTATION, shorten
from memory_context.foundation.text.tokenize import folded, telling_terms, terms_of

from . import lexicon
from .candidates import CandidateReference, Expansion

__all__ = ["asks_to_act", "match_references"]

_MATCHES_LIMIT, _TERMS_LIMIT = 3, 24
_KEPT_CHARACTERS, _OPENING_CHARACTERS = 600, 200
_SHOWN_WORDS, _SHOWN_CHARACTERS = 3, 40
_EXACT_WEIGHT, _DEFINITE_WEIGHT, _PLAIN_WEIGHT, _WEAK_WEIGHT = 2.0, 1.6, 1.0, 0.5
_KEPT_QUALITY = 0.6  # of a word in a kept line, beside one in the description
_PLACE_FACTOR = 0.5  # after "into" or "beside": a target, seldom a source
_LEAST_SCORE = 0.95
_LEAST_SCORE_WITHOUT_SOURCE = 2.4  # "what is a p-value" hardly needs the statistics, nor "restart docker" docker's logs
_LEAD = 1.25  # others this near match too

_DEFINITES = lexicon.DETERMINERS | {"both", "all", "each", "every"}
_PLACES = frozenset(("for", "into", "to", "beside", "near", "like"))
_WORD = re.compile(r"[^\W_](?:[\w./:@+-]*\w)?")
_FILE_NAME = re.compile(r"[\w./@+-]{1,300}\.[a-z]\w{0,7}")
_SNAKE_CASE = re.compile(r"[^\W_]+(?:_[^\W_]+)+")
_FENCE_TAG = re.compile(r"^([ \t]*(?:```|~~~))[^\s`]*", re.MULTILINE)
_SENTENCE_START = re.compile(r"(?:^|[.?!:\n])[^\w]*$")
_SIZE = re.compile(r"\b\d+(?:[ ,.]\d{3})*(?:\.\d+)? (?:lines|tokens|words|pages|[kM]?B)\b")  # rows say the kind
_DETAIL = re.compile(r":\s+\S|\n\s*(?:[-*|]|\d+[.)])\s")


class _Term(NamedTuple):
    weight: float
    word: str
    is_exact: bool = False


def match_references(
    request: str,
    references: Sequence[CandidateReference],
    visible_texts: Callable[[], Iterable[str]],
    opened_texts: Callable[[], Iterable[str]] | None = None,
    *,
    last_answer: str = "",
) -> list[Expansion]:
    """Return up to three matching expansions, best first.

    Args:
        references: Visible ones count only for term frequency.
        visible_texts: Called only after a match; a term found there needs no expansion.
        opened_texts: The same for names of files, which other texts only mention; None for `visible_texts`.
        last_answer: Details after a colon or in a list count as visible.
    """
    asked = _weigh(request) if references else {}
    asked = dict(sorted(asked.items(), key=lambda item: -item[1].weight)[:_TERMS_LIMIT])
    if not asked:
        return []
    found = [_found_in(reference, asked) for reference in references]
    frequency = {term: sum(term in one for one in found) for term in asked}
    weights = {term: one.weight * max(frequency[term], 1) ** -0.5 for term, one in asked.items()}
    matches = [
        (_score({term: weights[term] * quality for term, quality in shared.items()}, asked), reference, shared)
        for reference, shared in zip(references, found, strict=True)
    ]
    matches.sort(key=lambda match: (-match[0], match[1].messages_ago))
    unique = {term for term, one in asked.items() if one.is_exact and frequency[term] == 1}
    threshold = _least_score(request)
    best = [
        match
        for match in matches
        if _score({term: weights[term] for term in match[2]}, asked) >= threshold
        and (match[0] * _LEAD >= matches[0][0] or not unique.isdisjoint(match[2]))
    ]
    hidden = [match for match in best if not match[1].is_visible]
    if len(best) > _MATCHES_LIMIT or not hidden:
        return []
    unseen = {term for _, _, shared in hidden for term in shared}
    files = {term for term in unseen if _FILE_NAME.fullmatch(term)}
    for terms, texts in ((unseen - files, visible_texts), (files, opened_texts or visible_texts)):
        for text in map(folded, (_detail_of(last_answer), *texts())) if terms else ():
            unseen -= {term for term in terms if term in text}
    return [
        Expansion(reference.ref.key, "matched", f"rare word {_words_of(shared, asked)}")
        for _, reference, shared in hidden
        if not unseen.isdisjoint(shared)
    ]


def asks_to_act(request: str) -> bool:
    """Return whether a request begins with an order to act or to make something rather than to read."""
    words = (match[0].lower() for match in _WORD.finditer(request[:_OPENING_CHARACTERS]))
    first = next((word for word in words if word not in lexicon.LEAD_INS), "")
    return first in lexicon.ACTIONS | lexicon.CREATIONS


def _least_score(request: str) -> float:
    needs_none = lexicon.KNOWLEDGE.search(request) or asks_to_act(request)
    return _LEAST_SCORE_WITHOUT_SOURCE if needs_none else _LEAST_SCORE


def _weigh(request: str) -> dict[str, _Term]:
    weighed: dict[str, _Term] = {}
    is_definite = is_place = False
    has_place = asks_to_act(request)
    request = _FENCE_TAG.sub(r"\1 ", request)  # drops code languages
    is_english = lexicon.ENGLISH.search(request) is not None
    for match in _WORD.finditer(request):
        word = folded(match[0])
        is_determiner = word in (_DEFINITES if is_english else _DEFINITES | lexicon.GERMAN_DETERMINERS)
        if is_determiner or word in lexicon.FUNCTION_WORDS or not (is_english or telling_terms([word])):
            is_definite = is_determiner or (is_definite and word in ("and", "und"))
            is_place = has_place and (word in _PLACES or (is_place and is_definite))
            continue
        is_name = not is_english and match[0][0].isupper() and not _SENTENCE_START.search(request, 0, match.start())
        of_word = _DEFINITE_WEIGHT if is_definite or is_name else _PLAIN_WEIGHT
        terms = terms_of(match[0])
        for place, term in enumerate(terms):
            is_exact = _is_exact(term) or (place == 0 and _SNAKE_CASE.fullmatch(match[0]) is not None)
            is_telling = _tells(term) or (term.isdigit() and len(term) > 1)
            if not (is_telling or is_exact) and word in lexicon.REQUESTS:
                continue  # "read" is part of a tool's name
            weight = _EXACT_WEIGHT if is_exact else of_word if is_telling else _WEAK_WEIGHT
            weight *= _PLACE_FACTOR if is_place else 1
            term = term.lstrip("0") or term
            if term not in weighed or weighed[term].weight < weight:
                weighed[term] = _Term(weight, match[0], is_exact)
    return weighed


def _score(weights: Mapping[str, float], asked: Mapping[str, _Term]) -> float:
    """Return the sum of the best term of each word."""
    best: dict[str, float] = {}
    for term, weight in weights.items():
        word = asked[term].word
        best[word] = max(best.get(word, 0.0), weight)
    return sum(best.values())


def _found_in(reference: CandidateReference, asked: Mapping[str, _Term]) -> dict[str, float]:
    """Return the asked terms of a reference with how well each says what the reference is."""
    described, known = _terms_of_reference(reference, has_kept=False), _terms_of_reference(reference)
    found = {term: 1.0 if term in described else _KEPT_QUALITY for term in asked if term in known}
    tells = any(asked[term].weight > _WEAK_WEIGHT for term in found)  # "tool", "lines" and "context" alone do not
    return found if tells else {}


@lru_cache(maxsize=1024)
def _terms_of_reference(reference: CandidateReference, *, has_kept: bool = True) -> frozenset[str]:
    kept = reference.kept_text[:_KEPT_CHARACTERS].replace(QUOTATION, "") if has_kept else ""
    description = _SIZE.sub("", reference.ref.description)
    text = " ".join((description, reference.ref.key, reference.source, kept))
    return frozenset(term.lstrip("0") or term for term in terms_of(text))


def _detail_of(answer: str) -> str:
    match = _DETAIL.search(answer)
    return answer[max(answer.rfind(mark, 0, match.start()) for mark in (". ", "! ", "? ", "\n")) + 1 :] if match else ""


def _words_of(terms: Iterable[str], asked: Mapping[str, _Term]) -> str:
    words = list(dict.fromkeys(asked[term].word for term in terms))[:_SHOWN_WORDS]
    return ", ".join(repr(shorten(word, _SHOWN_CHARACTERS)) for word in words)


def _tells(term: str) -> bool:
    return len(term) >= (3 if term.isascii() else 2) and term not in lexicon.WEAK


def _is_exact(term: str) -> bool:
    if term.isdigit():
        return len(term) > 4  # excludes years
    return any(char.isdigit() or char in "_./:-@" for char in term)
