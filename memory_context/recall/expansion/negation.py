"""Finds what a request says not to open, in English and German: "not the report of March, the one of April".

A request is read clause by clause. Only orders and contrasts count: "why does config.yaml not load" asks for the file.
"""

import re
from collections.abc import Iterator
from functools import lru_cache

from memory_context.foundation.patterns import regex

__all__ = ["without_negated"]

_VERBS = "open|read|load|show|use|look|touch|include|take|quote|summari[sz]e|compare|list|tell|give"
_OTHERS = "bring|fetch|retrieve|mention|search|check|consider|need|want|bother|worry|go|start|pull|expand|view|print"
_LESEN = r"(?:öffn|les|lad|zeig|nimm|nehm|nutz|benutz|verwend|schau|such|änder|anfass|anseh|anschau|aufmach)\w*"
_NAME = r"[`\"'„“]?\S*(?:\w[._/-]|\d)\w\S*"  # a file, a path or a key
_BOUNDARY = regex(
    r"([,;!?\n]+|\.(?=\s|$)|\s[-–—]\s|\b(?:but|sondern|aber|stattdessen)\b"
    rf"|\b(?:and|und|then|dann)\s+(?=(?:{_VERBS})\b|{_LESEN}|not\b|nicht\b|do not\b|don't\b|the (?:one|other)s?\b))",
    re.IGNORECASE,
)
_LEAD = r"\s*(?:(?:please|so|ok|okay|then|also|just|no|bitte|nein|also|dann)\s+)*"
_DO_NOT = r"(?:do not|don't|dont|never|(?:must|should|need) not|(?:must|should|need)n't)"
_ORDER = regex(
    rf"{_LEAD}(?:(?:you\s+)?{_DO_NOT}\s+(?:{_VERBS}|{_OTHERS})\b|(?:there is )?no need to\s"
    r"|(?:i|we)\s+(?:do not|don't|dont)\s+(?:need|want|mean|care)\b|(?:ignore|skip|disregard|leave out|forget about)\s"
    rf"|{_LESEN}\s(?!.*\b(?:warum|wieso|weshalb|wenn|falls|ob|dass|was)\b)(?:.*\s)?(?:nicht|kein\w*)\b(?! nur)"
    rf"|(?:ich|wir)\s+(?:brauche|will|meine|möchte)\w*\s(?:.*\s)?(?:nicht|kein\w*)\b(?! nur))",
    re.IGNORECASE,
)
_CONTRAST = regex(
    rf"{_LEAD}(?:not|nicht|nor|noch)\s+(?=(?:the|this|that|those|these|my|our|in|from|about|of|for|on|with|die|der|das|"
    rf"den|dem|diese\w*|jene\w*|mein\w*|unser\w*|aus|von|vom|im|mit|zu|zur|zum)\b|{_NAME}|(?-i:[A-ZÄÖÜ]\w))",
    re.IGNORECASE,
)
_WHOLE = regex(
    r".*\b(?:should|must|need|shall) not (?:to )?be (?:opened|read|loaded|shown|used|touched|included)\b"
    rf"|(?!.*\b(?:kann|konnte|können|lässt|ließ|warum|wieso|weshalb|wenn|ob|dass)\b).*\bnicht (?:mehr )?{_LESEN}\s*$",
    re.IGNORECASE | re.DOTALL,
)
_IN_WHOLE = regex(r"not (?:to )?be|nicht", re.IGNORECASE)
_APART = regex(
    r"\b(?:instead of|rather than|except|apart from|other than|statt|anstatt|anstelle|außer|bis auf"
    r"|without \w+ing|ohne)\s",
    re.IGNORECASE,
)
_AND = r"(?:and|or|nor|und|oder|noch)\s+"
_NAMES = regex(rf"\s*(?:{_AND})?{_NAME}(?:\s+{_AND}{_NAME})*\s*$")


@lru_cache(maxsize=4)  # the rules ask, and who looks for keys in the same message
def without_negated(request: str) -> tuple[str, tuple[str, ...]]:
    """Return a request without the phrases that say what not to open, and those phrases."""
    kept: list[str] = []
    negated: list[str] = []
    for clause, at in _negations(_BOUNDARY.split(request.replace("’", "'"))):
        kept.append(clause[:at])
        if at < len(clause):
            negated.append(clause[at:])
    return ("".join(kept), tuple(negated)) if negated else (request, ())


def _negations(pieces: list[str]) -> Iterator[tuple[str, int]]:
    """Yield clauses and the boundaries between them, with the place from which each is negated."""
    is_listing = False  # "do not open a.py, b.py and c.py"
    for number, clause in enumerate(pieces):
        if number % 2:
            is_listing = is_listing and clause.strip() == ","
            yield clause, len(clause)
            continue
        is_order = _ORDER.match(clause) is not None or (is_listing and _NAMES.match(clause) is not None)
        apart = _APART.search(clause)
        is_whole = _WHOLE.match(clause) if _IN_WHOLE.search(clause) else None  # which reads it again and again
        if is_order or is_whole or _CONTRAST.match(clause):
            yield clause, 0
        else:
            yield clause, apart.start() if apart else len(clause)
        is_listing = is_order
