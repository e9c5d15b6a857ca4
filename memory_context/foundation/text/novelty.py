"""Whether something said adds anything to what is known: courtesies, repeated questions and quotations do not."""

import re
from collections.abc import Iterable

from .lexicon import COURTESIES, GREETINGS
from .tokenize import query_terms, terms_of

__all__ = ["adds_nothing", "is_courtesy", "is_question", "says_nothing"]

_KNOWN_SHARE = 0.8
_LONGEST_COURTESY, _COURTESY_CHARACTERS = 12, 400  # words, characters
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")
_QUESTION = re.compile(
    r"^\W*(?:what|where|when|which|who|whom|whose|why|how|is|are|was|were|do|does|did|can|could|would|will|should|have|has"
    r"|was|wo|wann|welche[rsnm]?|wer|wen|wem|wessen|warum|wieso|wie|qué|dónde|cuándo|cuál|quién|cómo|où|quand|quel(?:le)?s?"
    r"|qui|pourquoi|comment)\b(?=.*[?？])",
    re.IGNORECASE,
)


def says_nothing(text: str) -> bool:
    """Return whether a text is a greeting, thanks or a mere "noted"."""
    return _has_only(text, COURTESIES)


def is_courtesy(text: str) -> bool:
    """Return whether a text only greets or thanks: unlike "yes" and "do it again", it asks for nothing."""
    return _has_only(text, GREETINGS)


def _has_only(text: str, words: frozenset[str]) -> bool:
    said = re.findall(r"[^\W_]+", text[: _COURTESY_CHARACTERS + 1].casefold())
    return len(text) <= _COURTESY_CHARACTERS and len(said) <= _LONGEST_COURTESY and words.issuperset(said)


def is_question(text: str) -> bool:
    """Return whether a text asks, and does nothing else but greet."""
    said = [one for one in _SENTENCE.findall(text) if one.strip() and not says_nothing(one)]
    return bool(said) and all(one.rstrip().endswith(("?", "？")) or _QUESTION.match(one) for one in said)


def adds_nothing(text: str, known: Iterable[str]) -> bool:
    """Return whether one of the known texts has nearly all words of a text that tell something."""
    told = {term for term in query_terms(text) if term not in COURTESIES}
    return any(len(told & set(terms_of(one))) >= _KNOWN_SHARE * len(told) for one in known) if told else True
