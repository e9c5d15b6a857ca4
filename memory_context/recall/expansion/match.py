"""Finds candidates by the words of a request that names no keys.

Conservative: wrong expansions cost thousands of tokens, missed ones a look-up.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from memory_context.foundation.references import QUOTATION, shorten
from memory_context.foundation.text.tokenize import folded, telling_terms, terms_of

from . import lexicon
from .candidates import CandidateReference, Expansion
from .meanings import english_terms, is_concept, meanings_in, meanings_of
from .ordinals import counted_out, numbered_in

__all__ = ["asks_to_act", "match_references"]

_MATCHES_LIMIT, _TERMS_LIMIT = 3, 24
_KEPT_CHARACTERS, _OPENING_CHARACTERS = 600, 200
_SHOWN_WORDS, _SHOWN_CHARACTERS = 3, 40
_EXACT_WEIGHT, _DEFINITE_WEIGHT, _PLAIN_WEIGHT, _WEAK_WEIGHT = 2.0, 1.6, 1.0, 0.5
_LEAST_OTHERS = 2  # references without a meaning, for it to tell one from another
_KEPT_QUALITY, _LIKE_QUALITY, _MEANING_QUALITY = 0.6, 0.6, 0.9  # the word itself in the description is 1
_PLACE_FACTOR = 0.5  # after "into" or "beside": a target, seldom a source
_PART_FACTOR = 0.5  # "policy" of "policy.py": another file may be about it
_NEAR_RATIO, _LEAST_NEAR = 0.8, 5
_LEAST_SCORE = 0.95
_LEAST_SCORE_OF_KNOWLEDGE = 2.4  # "what is a p-value" hardly needs the statistics
_LEAST_SCORE_TO_ACT = 2.4  # nor "restart docker" docker's logs
_LEAST_SCORE_OF_ANSWER = 1.5  # what the last answer spoke of
_LEAD = 1.25  # others this near match too

_DEFINITES = lexicon.DETERMINERS | {"both", "all", "each", "every"}
_PLACES = frozenset(("for", "into", "to", "beside", "near", "like"))
_WORD = re.compile(r"[^\W_](?:[\w./:@+-]*\w)?")
_PART = re.compile(r"[^\W_]{2,}")
_FILE_NAME = re.compile(r"[\w./@+-]{1,300}\.[a-z]\w{0,7}")
_SNAKE_CASE = re.compile(r"[^\W_]+(?:_[^\W_]+)+")
_FENCE_TAG = re.compile(r"^([ \t]*(?:```|~~~))[^\s`]*", re.MULTILINE)
_SENTENCE_START = re.compile(r"(?:^|[.?!:\n])[^\w]*$")
_SIZE = re.compile(r"\b\d+(?:[ ,.]\d{3})*(?:\.\d+)? (?:lines|tokens|words|pages|[kM]?B)\b")  # rows say the kind
_QUESTION = re.compile(r"[?？]\W*$")
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
    counted = counted_out(request, last_answer, [_terms_of_reference(one, has_kept=False) for one in references])
    if counted is not None:
        meant = references[counted.position]
        return [] if meant.is_visible else [Expansion(meant.ref.key, "matched", f"counted out by {counted.words!r}")]
    texts = visible_texts, opened_texts or visible_texts
    matched = _matched(request, references, *texts, _detail_of(last_answer), _least_score(request))
    goes_on = lexicon.REFERS_BACK.search(request) and _QUESTION.search(request)
    if matched or not goes_on or len(references) <= _LEAST_OTHERS or _detail_of(last_answer):
        return matched
    return _matched(last_answer[:_KEPT_CHARACTERS], references, *texts, "", _LEAST_SCORE_OF_ANSWER, limit=1)


def _matched(
    request: str,
    references: Sequence[CandidateReference],
    visible_texts: Callable[[], Iterable[str]],
    opened_texts: Callable[[], Iterable[str]],
    detail: str,
    threshold: float,
    *,
    limit: int = _MATCHES_LIMIT,
) -> list[Expansion]:
    asked = _weigh(request) if references else {}
    asked = dict(sorted(asked.items(), key=lambda item: -item[1].weight)[:_TERMS_LIMIT])
    if not asked:
        return []
    found = [_found_in(reference, asked) for reference in references]
    frequency = {term: sum(term in one for one in found) for term in asked}
    rarity = {term: max(count, 1) ** -0.5 for term, count in frequency.items()}
    weights = {term: one.weight * rarity[term] for term, one in asked.items()}
    for term in filter(is_concept, asked):
        if len(references) - frequency[term] < _LEAST_OTHERS:
            weights[term] = min(weights[term], _WEAK_WEIGHT)
    matches = [
        (_score({term: weights[term] * quality for term, quality in shared.items()}, asked), reference, shared)
        for reference, shared in zip(references, found, strict=True)
    ]
    matches.sort(key=lambda match: (-match[0], match[1].messages_ago))
    unique = {term for term, one in asked.items() if one.is_exact and frequency[term] == 1}
    best = [
        match
        for match in matches
        if _score({term: weights[term] for term in match[2]}, asked) >= threshold
        and (match[0] * _LEAD >= matches[0][0] or not unique.isdisjoint(match[2]))
    ]
    hidden = [match for match in best if not match[1].is_visible]
    if len(best) > limit or not hidden:
        return []
    unseen = {term for _, _, shared in hidden for term in shared}
    files = {term for term in unseen if _FILE_NAME.fullmatch(term)}
    for terms, texts in ((unseen - files, visible_texts), (files, opened_texts)):
        for text in map(folded, (detail, *texts())) if terms else ():
            unseen -= {term for term in terms if any(name in text for name in _names_of(term))}
    return [
        Expansion(reference.ref.key, "matched", f"rare word {_words_of(shared, asked)}")
        for _, reference, shared in hidden
        if not unseen.isdisjoint(shared)
    ]


def _names_of(term: str) -> tuple[str, ...]:
    noun = term.partition("#")[0] or term  # "chapter#2"
    return english_terms(noun) if is_concept(noun) else (noun,)


def _score(weights: Mapping[str, float], asked: Mapping[str, _Term]) -> float:
    """Return the sum of the best term of each word."""
    best: dict[str, float] = {}
    for term, weight in weights.items():
        word = asked[term].word
        best[word] = max(best.get(word, 0.0), weight)
    return sum(best.values())


def _weigh(request: str) -> dict[str, _Term]:
    weighed: dict[str, _Term] = {}

    def weigh(term: str, weight: float, word: str, *, is_exact: bool = False) -> None:
        if term not in weighed or weighed[term].weight < weight:
            weighed[term] = _Term(weight, word, is_exact)

    is_definite = is_place = False
    has_place = asks_to_act(request)
    request = _FENCE_TAG.sub(r"\1 ", request)  # drops code languages
    is_english = lexicon.ENGLISH.search(request) is not None
    for match in _WORD.finditer(request):
        word = folded(match[0])
        is_determiner = word in (_DEFINITES if is_english else _DEFINITES | lexicon.FOREIGN_DETERMINERS)
        if is_determiner or word in lexicon.FUNCTION_WORDS or not (is_english or telling_terms([word])):
            is_definite = is_determiner or (is_definite and word in lexicon.LINKS)
            is_place = has_place and (word in _PLACES or (is_place and is_definite))
            continue
        is_name = not is_english and match[0][0].isupper() and not _SENTENCE_START.search(request, 0, match.start())
        of_word = _DEFINITE_WEIGHT if is_definite or is_name else _PLAIN_WEIGHT
        factor = _PLACE_FACTOR if is_place else 1
        terms = terms_of(match[0])
        is_named = len(terms) > 1 and _is_exact(terms[0])
        for place, term in enumerate(terms):
            is_exact = _is_exact(term) or (place == 0 and _SNAKE_CASE.fullmatch(match[0]) is not None)
            is_told = _tells(term) or (term.isdigit() and len(term) > 1)
            if not (is_told or is_exact) and word in lexicon.REQUESTS:
                continue  # "read" is part of a tool's name
            weight = _EXACT_WEIGHT if is_exact else of_word if is_told else _WEAK_WEIGHT
            part_factor = _PART_FACTOR if is_named and place and not is_exact else 1
            weigh(term.lstrip("0") or term, weight * factor * part_factor, match[0], is_exact=is_exact)
        tells = any(map(_tells, terms[:1]))
        for meant in meanings_of(word, is_english=is_english):
            weight = (of_word if tells else _PLAIN_WEIGHT) * factor * meant.share
            weigh(meant.concept, weight, match[0] if word.isascii() else meant.word)
    for numbered in numbered_in(request):
        weigh(numbered, _EXACT_WEIGHT, numbered.rpartition("#")[0])
    for meant in meanings_in(request):
        weigh(meant.concept, _DEFINITE_WEIGHT, meant.word)
    return weighed


def asks_to_act(request: str) -> bool:
    """Return whether a request begins with an order to act or to make something rather than to read."""
    words = (match[0].lower() for match in _WORD.finditer(request[:_OPENING_CHARACTERS]))
    first = next((word for word in words if word not in lexicon.LEAD_INS), "")
    return first in lexicon.ACTIONS | lexicon.CREATIONS | lexicon.APPLIES


def _least_score(request: str) -> float:
    if lexicon.KNOWLEDGE.search(request):
        return _LEAST_SCORE_OF_KNOWLEDGE
    return _LEAST_SCORE_TO_ACT if asks_to_act(request) else _LEAST_SCORE


def _detail_of(answer: str) -> str:
    match = _DETAIL.search(answer)
    return answer[max(answer.rfind(mark, 0, match.start()) for mark in (". ", "! ", "? ", "\n")) + 1 :] if match else ""


def _words_of(terms: Iterable[str], asked: Mapping[str, _Term]) -> str:
    words = list(dict.fromkeys(asked[term].word for term in terms))[:_SHOWN_WORDS]
    return ", ".join(repr(shorten(word, _SHOWN_CHARACTERS)) for word in words)


def _tells(term: str) -> bool:
    shortest = 3 if term.isascii() else 2
    return len(term) >= shortest and term not in lexicon.WEAK and not term.startswith("#")


def _is_exact(term: str) -> bool:
    if term.isdigit():
        return len(term) > 4  # excludes years
    return any(char.isdigit() or char in "_./:-@" for char in term)


def _found_in(reference: CandidateReference, asked: Mapping[str, _Term]) -> dict[str, float]:
    """Return the asked terms of a reference, in their order, with how well each says what the reference is.

    A description's word itself says it best. Less say a kept line, which the content only has among others, a word
    like it, which is mistyped or part of a compound, and a word that means the same.
    """
    described, known = _terms_of_reference(reference, has_kept=False), _terms_of_reference(reference)
    found: dict[str, float] = {}
    for term in asked:
        if term in known:
            of_place = 1.0 if term in described else _KEPT_QUALITY
            found[term] = of_place * (_MEANING_QUALITY if is_concept(term) else 1.0)
        elif _is_like_one(term, known):
            found[term] = _LIKE_QUALITY
    tells = any(asked[term].weight > _WEAK_WEIGHT for term in found)  # "tool", "lines" and "context" alone do not
    return found if tells else {}


@lru_cache(maxsize=1024)
def _terms_of_reference(reference: CandidateReference, *, has_kept: bool = True) -> frozenset[str]:
    kept = reference.kept_text[:_KEPT_CHARACTERS].replace(QUOTATION, "") if has_kept else ""
    description = _SIZE.sub("", reference.ref.description)
    return _terms_in(" ".join((description, reference.ref.key, reference.source, kept)))


def _terms_in(text: str) -> frozenset[str]:
    """Return the terms of a description, its foreign words also in English."""
    words = [word for word in map(folded, _PART.findall(text)) if word not in lexicon.FUNCTION_WORDS]
    meant = {one.concept for word in words if telling_terms([word]) for one in meanings_of(word)}
    meant.update(one.concept for one in meanings_in(text))
    meant.update(numbered_in(text))
    models = {word for word in words if not word.isalpha()}  # "sx500" of "inverter_SX500.pdf"
    return frozenset(meant.union(models, (term.lstrip("0") or term for term in terms_of(text))))


def _is_like_one(term: str, terms: Iterable[str]) -> bool:
    is_long = len(term) >= _LEAST_NEAR and term.isalpha()
    return is_long and any(one.endswith(term) or _is_near(term, one) for one in terms)


def _is_near(term: str, other: str) -> bool:
    if abs(len(term) - len(other)) > 1 or other[:1] != term[:1]:
        return False
    return SequenceMatcher(None, term, other).ratio() >= _NEAR_RATIO
