"""Finds candidates by the words of a request that names no keys: names, and rare terms of descriptions.

Conservative: wrong expansions cost thousands of tokens, missed ones a look-up.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from memory_context.foundation.patterns import regex
from memory_context.foundation.references import shorten
from memory_context.foundation.text.tokenize import folded, telling_terms, terms_of

from . import lexicon
from .candidates import CandidateReference, Expansion, ExpansionRequest

__all__ = ["asks_to_act", "match_references"]

_MATCHES_LIMIT, _TERMS_LIMIT = 3, 24
_OPENING_CHARACTERS = 200
_SHOWN_WORDS, _SHOWN_CHARACTERS = 3, 40
_EXACT_WEIGHT, _DEFINITE_WEIGHT, _PLAIN_WEIGHT, _WEAK_WEIGHT = 2.0, 1.6, 1.0, 0.5
_KEPT_QUALITY = 0.6  # of a word in a kept line, beside one in the description
_PLACE_FACTOR = 0.5  # after "into" or "beside": a target, seldom a source
_LEAST_SCORE = 0.95
_LEAST_SCORE_WITHOUT_SOURCE = 2.4  # "what is a p-value" hardly needs the statistics, nor "restart docker" docker's logs
_LEAD = 1.25  # others this near match too
_LEAST_START, _ENDING = 5, 2  # characters of a word that its other forms share

_DEFINITES = lexicon.DETERMINERS | {"both", "all", "each", "every"}
_PLACES = frozenset(("for", "into", "to", "beside", "near", "like"))
_WORD = regex(r"_*[^\W_](?:[\w./:@+-]*\w)?")
_FILE_NAME = regex(r"[\w./@+-]{1,300}\.[a-z]\w{0,7}")
_SNAKE_CASE = regex(r"[^\W_]+(?:_[^\W_]+)+")
_FENCE_TAG = regex(r"^([ \t]*(?:```|~~~))[^\s`]*", re.MULTILINE)
_SENTENCE_START = regex(r"(?:^|[.?!:\n])[^\w]*$")
_DETAIL = regex(r":\s+\S|\n\s*(?:[-*|]|\d+[.)])\s")


class _Term(NamedTuple):
    """A term of a word; `parts` are the others of a word that it joins, such as `LoginHandler`."""

    weight: float
    word: str
    is_exact: bool = False
    parts: tuple[str, ...] = ()

    @property
    def is_telling(self) -> bool:
        """False for "tool", "lines" and "context", which say nothing alone."""
        return self.weight > _WEAK_WEIGHT


def match_references(
    request: ExpansionRequest, sought: str, references: Sequence[CandidateReference], negated: Sequence[str] = ()
) -> list[Expansion]:
    """Return up to three matching expansions, best first. The visible texts are read only after a match.

    Args:
        sought: The words of the request that may name something.
        references: Visible ones count only for term frequency.
        negated: Phrases that say what not to open.
    """
    asked = _weigh(sought) if references else {}
    asked = dict(sorted(asked.items(), key=lambda item: -item[1].weight)[:_TERMS_LIMIT])
    if not asked:
        return []
    refused = [{term for term, one in _weigh(phrase).items() if one.is_telling} - set(asked) for phrase in negated]
    terms = frozenset(asked)
    near = [one for one in references if not terms.isdisjoint(one.words.known)]
    near = [one for one in near if not any(named and named <= one.words.known for named in refused)]
    found = [(reference, shared) for reference in near if (shared := _found_in(reference, asked))]
    if not found:
        return []
    frequency = Counter(term for _, shared in found for term in shared)
    weights = {term: asked[term].weight * count**-0.5 for term, count in frequency.items()}
    matches = [
        (_score({term: weights[term] * quality for term, quality in shared.items()}, asked), reference, shared)
        for reference, shared in found
    ]
    matches.sort(key=lambda match: (-match[0], -match[1].position))
    unique = {term for term, one in asked.items() if one.is_exact and frequency[term] == 1}
    is_about_none = lexicon.KNOWLEDGE.search(sought) or asks_to_act(sought)
    threshold = _LEAST_SCORE_WITHOUT_SOURCE if is_about_none else _LEAST_SCORE
    best = [
        match
        for match in matches
        if _score({term: weights[term] for term in match[2]}, asked) >= threshold
        and (match[0] * _LEAD >= matches[0][0] or not unique.isdisjoint(match[2]))
    ]
    hidden = [match for match in best if not match[1].is_visible]
    if len(best) > _MATCHES_LIMIT or not hidden:
        return []
    unseen = _unseen(request, best, asked)
    return [
        Expansion(reference.ref.key, "matched", f"rare word {_words_of(shared, asked)}")
        for _, reference, shared in hidden
        if not unseen.isdisjoint(shared)
    ]


_Match = tuple[float, CandidateReference, Mapping[str, float]]


def _unseen(request: ExpansionRequest, matches: Sequence[_Match], asked: Mapping[str, _Term]) -> set[str]:
    """Return the telling terms of hidden matches that stand nowhere in view, in no form.

    A file counts as in view only where its content is: other texts, and the answer, may only mention it.
    """
    shared = {term for _, one, found in matches if not one.is_visible for term in found if asked[term].is_telling}
    unseen = shared.difference(*(found for _, one, found in matches if one.is_visible))
    files = {term for term in unseen if _FILE_NAME.fullmatch(term)}
    detail = folded(_detail_of(request.last_answer))
    opened_texts = request.opened_texts or request.visible_texts
    for terms, texts in ((unseen - files, request.visible_texts), (files, opened_texts)):
        for text in (detail, *texts()) if terms else ():
            unseen -= {term for term in terms & unseen if _stands_in(text, term, asked[term])}
    return unseen


def _stands_in(text: str, term: str, asked: _Term) -> bool:
    """Return whether a folded text has a term in any form: `query` for "queries", words for a name that joins them."""
    if term in text or _is_exact(term):
        return term in text
    return _start_of(term) in text or (bool(asked.parts) and all(_start_of(part) in text for part in asked.parts))


def _start_of(term: str) -> str:
    return term[: max(_LEAST_START, len(term) - _ENDING)].rstrip("eiy")


def asks_to_act(request: str) -> bool:
    """Return whether a request begins with an order to act or to make something rather than to read."""
    words = (match[0].lower() for match in _WORD.finditer(request[:_OPENING_CHARACTERS]))
    first = next((word for word in words if word not in lexicon.LEAD_INS), "")
    return first in lexicon.ACTIONS | lexicon.CREATIONS


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
                parts = tuple(terms[1:]) if place == 0 and term.isalpha() else ()
                weighed[term] = _Term(weight, match[0], is_exact, parts)
    return weighed


def _score(weights: Mapping[str, float], asked: Mapping[str, _Term]) -> float:
    """Return the sum of the best term of each word."""
    best: dict[str, float] = {}
    for term, weight in weights.items():
        word = asked[term].word
        best[word] = max(best.get(word, 0.0), weight)
    return sum(best.values())


def _found_in(reference: CandidateReference, asked: Mapping[str, _Term]) -> dict[str, float]:
    """Return the asked terms of a reference with how well each says what the reference is; none if none is telling."""
    shared = asked.keys() & reference.words.known
    if not any(asked[term].is_telling for term in shared):
        return {}
    described = reference.words.described
    return {term: 1.0 if term in described else _KEPT_QUALITY for term in asked if term in shared}


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
