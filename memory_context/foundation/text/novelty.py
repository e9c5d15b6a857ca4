"""Whether something said adds anything to what is known: courtesies, repeated questions and quotations do not."""

import re
from collections.abc import Iterable

from .lexicon import COURTESIES
from .tokenize import query_terms, terms_of

__all__ = ["adds_nothing", "is_question", "says_nothing"]

_KNOWN_SHARE = 0.8
_LONGEST_COURTESY = 12  # words
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")
_QUESTION = re.compile(
    r"^\W*(?:what|where|when|which|who|whom|whose|why|how|is|are|was|were|do|does|did|can|could|would|will|should|have|has"
    r"|was|wo|wann|welche[rsnm]?|wer|wen|wem|wessen|warum|wieso|wie|qué|dónde|cuándo|cuál|quién|cómo|où|quand|quel(?:le)?s?"
    r"|qui|pourquoi|comment)\b(?=.*[?？])",
    re.IGNORECASE,
)


def says_nothing(text: str) -> bool:
    """Return whether a text is a greeting, thanks or a mere "noted"."""
    words = re.findall(r"[^\W_]+", text[:400].casefold())
    return len(words) <= _LONGEST_COURTESY and len(text) <= 400 and all(word in COURTESIES for word in words)


def is_question(text: str) -> bool:
    """Return whether a text asks, and does nothing else but greet."""
    said = [one for one in _SENTENCE.findall(text) if one.strip() and not says_nothing(one)]
    return bool(said) and all(one.rstrip().endswith(("?", "？")) or _QUESTION.match(one) for one in said)


def adds_nothing(text: str, known: Iterable[str]) -> bool:
    """Return whether one of the known texts has nearly all words of a text that tell something."""
    told = {term for term in query_terms(text) if term not in COURTESIES}
    return any(len(told & set(terms_of(one))) >= _KNOWN_SHARE * len(told) for one in known) if told else True
