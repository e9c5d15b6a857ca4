"""What a turn needs, decided without a model: deterministic, in milliseconds, never raising."""

import re
import string
from collections.abc import Iterable

from .ambiguity import VisibleContext, find_missing
from .keys import named_keys, unknown_keys
from .lexicon import FUNCTION_WORDS
from .match import matched_references
from .models import Expansion, ExpansionAnswer, ExpansionRequest

__all__ = ["decide_by_rules", "ends_of", "named_keys", "unknown_keys", "without_keys"]

_READ_CHARACTERS = 3000  # at each end of a request or an answer; people say what they want first or last
_KEY_CHARACTERS = string.ascii_letters + string.digits + "_.-"
_QUERY_LIMIT_CHARACTERS = 300
_PLACEHOLDER = re.compile(r"\[MemoryRef: [^\]\r\n]*\]?")
_WORD = re.compile(r"[^\W_](?:[\w./:@+'’-]*\w)?")


def decide_by_rules(turn: ExpansionRequest) -> ExpansionAnswer:
    """Return what the turn needs, as far as rules can tell.

    Expanded are the keys the request names, and up to three references that share rare words with it. Only the first
    and last few thousand characters of a long request are read.
    """
    request = ends_of(turn.request)
    offered = {reference.ref.key: reference for reference in turn.references}
    named = [key for key in named_keys(request, offered) if not offered[key].is_visible]
    matched = _matched(turn, request, named)
    around = VisibleContext(ends_of(turn.last_answer), turn.references, turn.visible_texts)
    missing = find_missing(request, around, has_named=bool(named))
    return ExpansionAnswer(
        expansions=(*(Expansion(key, "named", "named by the user") for key in named), *matched),
        is_ambiguous=bool(missing),
        search_query=_query(request) if missing else "",
        why=missing or "nothing is missing",
    )


def ends_of(text: str, characters: int = _READ_CHARACTERS) -> str:
    """Return a text, of a long one both ends, without the words a cut goes through: a piece may look like a key."""
    if len(text) <= 2 * characters:
        return text
    head, tail = text[:characters], text[-characters:]
    return f"{head.rstrip(_KEY_CHARACTERS)}\n{tail.lstrip(_KEY_CHARACTERS)}"


def without_keys(request: str, keys: Iterable[str]) -> str:
    """Return a request without placeholders and keys, whose parts would be taken for words of it."""
    words = _PLACEHOLDER.sub(" ", request)
    for key in keys:
        words = words.replace(key, " ")
    return words


def _matched(turn: ExpansionRequest, request: str, named: list[str]) -> list[Expansion]:
    """Return the references the rest of the request speaks of, once the named ones are out of it."""
    words = without_keys(request, named)
    rest = [reference for reference in turn.references if reference.ref.key not in named]
    return matched_references(words, rest, turn.visible_texts, turn.last_answer[-_READ_CHARACTERS:])


def _query(request: str) -> str:
    """Return the words to search for: the request without its function words, as it spells them."""
    words = [word for word in _WORD.findall(request) if word.casefold() not in FUNCTION_WORDS]
    return " ".join(dict.fromkeys(words))[:_QUERY_LIMIT_CHARACTERS].strip()
