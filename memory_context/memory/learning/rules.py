"""What users ask to remember or state outright, by rules: a stand-in for a model, made for precision.

Also the vetoes for a model's answers: a story, a role, hearsay or another person's wish is not the user's.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from memory_context.foundation.patterns import regex
from memory_context.foundation.text.lexicon import NEGATIONS
from memory_context.foundation.text.own_words import LONG_CHARACTERS, own_passages, sentences
from memory_context.foundation.text.statements import ends_another, indices_of_ended, replaces_others, subject_of
from memory_context.foundation.text.tokenize import telling_terms, terms_of

from ..statements import STATEMENT_LIMIT_CHARACTERS, StatementType
from . import phrases

__all__ = [
    "Statement",
    "ended_orders",
    "explicit_statements",
    "has_statement",
    "is_of_user",
    "is_told_by_others",
    "orders_in",
]

_LEAST_WORDS = 2
_ALONE_CHARACTERS = 100
_ORDER_CHARACTERS = 600
_LIFTED_SHARE = 0.5  # of an order's words: more than these a permission has to repeat
_TASK_CHARACTERS = 1000  # longer own words are a task or instructions, whose "always" is for the task
_UNFINISHED = regex(r"\b(?:as|with|by|like|to|of|for|and|or|the|an?|is|are|als|mit|von|und|oder|wie)\W*$|[:,]$", re.I)
_OTHER = regex(
    r"^(?:(?:my|our|mein\w*|unser\w*|the|an?|der|die|das|eine?|one|every|some|many) (?:(?:best|old|older|younger|new|"
    r"little|"
    r"former|beste[rn]?|alte[rn]?|jüngere[rn]?) )?(\w+)|(he|she|they|it|er|sie|es)\b|([A-ZÄÖÜ]\w+) "
    r"(?:is|was|has|had|can|can't|cannot|will|never|always|hates|loves|likes|prefers|uses|lives|works|ist|hat|kann|"
    r"mag|wohnt)\b)",
    re.IGNORECASE,
)
"""A sentence about somebody or something else than the user."""


@dataclass(frozen=True)
class Statement:
    """A statement of a user, and the verbatim words it rests on.

    Attributes:
        only_ends: Worth storing only if it ends a known statement: "I no longer see the error" says nothing lasting.
    """

    text: str
    quote: str
    type: StatementType
    supersedes: tuple[str, ...] = ()
    only_ends: bool = False


def has_statement(text: str) -> bool:
    """Return True if a message states something explicitly. No I/O."""
    return _has_statement(text[: LONG_CHARACTERS + 1])


@lru_cache(maxsize=32)  # asked as the message comes, and again for its batch
def _has_statement(text: str) -> bool:
    return bool(explicit_statements(own_passages(text)))


def explicit_statements(passages: Sequence[str]) -> list[Statement]:
    """Return the explicit statements in passages of a user's own words, in order, each once.

    Fiction ends what counts, and a text that begins with it counts nowhere. In a long message only requests to remember
    count. "Remember it" refers to the sentence before.
    """
    found: dict[str, Statement] = {}
    said = [one for passage in passages for one in sentences(passage)]
    is_task = sum(map(len, passages)) > _TASK_CHARACTERS
    is_alone = len(said) == 1 and len(said[0]) <= _ALONE_CHARACTERS
    before = ""
    for sentence in said:
        if phrases.FICTION.search(sentence):
            break
        rest = _bare(sentence)
        statement = _stated(rest, is_task=is_task, is_alone=is_alone)
        if statement is None and phrases.IT.match(rest) and not _is_vetoed(rest):
            statement = _remembered(before)
        before = rest
        if statement is not None and len(statement.text) <= STATEMENT_LIMIT_CHARACTERS:
            found.setdefault(statement.text, statement)
    return list(found.values())


def is_told_by_others(sentence: str, before: str) -> bool:
    """Return whether a model's quote is no claim of the user: its sentence is hearsay, a question or a condition, or
    fiction began before it in the message."""
    return _is_vetoed(_bare(sentence)) or phrases.FICTION.search(f"{before}{sentence}") is not None


def is_of_user(statement: str, sentence: str) -> bool:
    """Return False if a sentence speaks of somebody whom the statement made of it does not name."""
    other = _OTHER.match(_bare(sentence))
    if other is None:
        return True
    named = other[1] or other[3]
    return named is not None and bool(set(terms_of(named)) & set(terms_of(statement)))


def orders_in(passages: Sequence[str]) -> list[str]:
    """Return the sentences that state a rule, correction, preference or decision for the session, verbatim."""
    found: list[str] = []
    for sentence in (one for passage in passages for one in sentences(passage)):
        bare = _bare(sentence)
        is_short = len(sentence) <= _ORDER_CHARACTERS and not sentence.rstrip().endswith("?")
        is_order = phrases.ORDERS.search(sentence) or phrases.ORDERS.search(bare)
        if is_short and (is_order or _stated(bare, is_task=False, is_alone=False) is not None):
            found.append(sentence)
    return list(dict.fromkeys(found))


def ended_orders(passages: Sequence[str], standing: Sequence[str]) -> set[int]:
    """Return the indices of the orders that the user takes back, or replaces by a newer answer to the same question."""
    ended: set[int] = set()
    if not standing:
        return ended
    for sentence in (_bare(one) for passage in passages for one in sentences(passage)):
        ended.update(indices_of_ended(sentence, standing))
        subject, terms = (
            subject_of(sentence),
            frozenset(telling_terms(terms_of(sentence))) - phrases.RULE_WORDS - NEGATIONS,
        )
        is_lifted, is_named = phrases.LIFTED.match(sentence), phrases.FORGET.match(sentence)
        if is_named and not terms:
            ended.update(range(len(standing)) if phrases.EVERYTHING.search(sentence) else range(len(standing))[-1:])
        for index, order in enumerate(standing):
            own = frozenset(telling_terms(terms_of(order))) - NEGATIONS
            is_lifting = is_lifted and terms <= own and len(terms) > _LIFTED_SHARE * len(own)
            is_newer = subject is not None and subject == subject_of(order) and replaces_others(sentence)
            if is_lifting or is_newer or (is_named and terms and terms <= own):
                ended.add(index)
    return ended


def _stated(rest: str, *, is_task: bool, is_alone: bool) -> Statement | None:
    if len(rest) > 2 * STATEMENT_LIMIT_CHARACTERS:  # bounds the patterns
        return None
    if asked := phrases.REMEMBER_THAT.match(rest):
        content = rest[asked.end() :].strip()
        is_hint = phrases.NOT_OF_USER.search(content) and not (is_alone and "mind" not in asked[0].lower())
        return None if is_hint or _is_vetoed(rest.rstrip("?")) else _statement(content, _kind(content) or "user_fact")
    kind = None if is_task or _is_vetoed(rest) else _kind(rest)
    said = phrases.TAIL.sub("", rest)
    return None if kind is None or _kind(said) != kind else _statement(said, kind)


def _kind(clause: str) -> StatementType | None:
    if phrases.PREFERENCES.match(clause):
        return "user_preference"
    return "user_fact" if phrases.FACTS.match(clause) or phrases.ENDED.match(clause) else None


def _remembered(sentence: str) -> Statement | None:
    """Return what "remember it" refers to: a sentence that says something of the user."""
    is_stated = len(sentence.split()) > _LEAST_WORDS and not phrases.NOT_OF_USER.search(sentence)
    return _statement(sentence, _kind(sentence) or "user_fact") if is_stated and not _is_vetoed(sentence) else None


def _statement(text: str, kind: StatementType) -> Statement | None:
    text = text.strip().rstrip("?").rstrip()
    if len(text.split()) < _LEAST_WORDS or _UNFINISHED.search(text):
        return None
    return Statement(text, text, kind, only_ends=ends_another(text))


def _bare(sentence: str) -> str:
    """Return a sentence without words such as "by the way"."""
    while found := phrases.LEAD_INS.match(sentence):
        sentence = sentence[found.end() :]
    return sentence


def _is_vetoed(sentence: str) -> bool:
    return phrases.VETOES.search(sentence) is not None
