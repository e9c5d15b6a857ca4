"""Explicit statements of users about themselves, by rules: a stand-in for a model, made for precision."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..memory import STATEMENT_LIMIT_CHARACTERS, StatementType
from . import phrases
from .own_words import own_passages, sentences

__all__ = ["Statement", "explicit_statements", "has_statement"]

_LEAST_WORDS = 2
_ALONE_CHARACTERS = 100
_TASK_CHARACTERS = 1000  # longer own words are a task or instructions, whose "always" is for the task


@dataclass(frozen=True)
class Statement:
    """A statement of a user, and the verbatim words it rests on."""

    text: str
    quote: str
    type: StatementType
    supersedes: tuple[str, ...] = ()


def has_statement(text: str) -> bool:
    """Return True if a message states something explicitly. No I/O."""
    return bool(explicit_statements(own_passages(text)))


def explicit_statements(passages: Sequence[str]) -> list[Statement]:
    """Return the explicit statements in passages of a user's own words, in order, each once.

    A frame such as "imagine" or "translate" ends what counts; a text that gives the assistant a role counts nowhere. In
    a long message only requests to remember count; beside other sentences these must speak of the user. "Remember it"
    refers to the sentence before.
    """
    if any(map(phrases.ROLES.search, passages)):
        return []
    found: dict[str, Statement] = {}
    before = ""
    is_task = sum(map(len, passages)) > _TASK_CHARACTERS
    said = [one for passage in passages for one in sentences(passage)]
    for sentence in said:
        if phrases.LASTING_FRAMES.search(sentence):
            break
        statement = _stated(sentence, is_task=is_task, is_alone=len(said) == 1 and len(said[0]) <= _ALONE_CHARACTERS)
        if statement is None and before and phrases.IT.match(_bare(sentence)) and not _is_vetoed(sentence):
            statement = _remembered(before)
        before = sentence
        if statement is not None and len(statement.text) <= STATEMENT_LIMIT_CHARACTERS:
            found.setdefault(statement.text, statement)
    return list(found.values())


def _stated(sentence: str, *, is_task: bool, is_alone: bool) -> Statement | None:
    if len(sentence) > 2 * STATEMENT_LIMIT_CHARACTERS:  # bounds the patterns
        return None
    for clause in phrases.CLAUSE.finditer(sentence):
        rest, ahead = _bare(sentence[clause.end() :]), sentence[: clause.end()]
        if phrases.FRAMES.search(ahead):
            return None
        if asks_to_remember := phrases.REMEMBER_THAT.match(rest):
            content = rest[asks_to_remember.end() :]
            is_hint = not _is_of_user(content) and (not is_alone or "mind" in asks_to_remember[0].lower())
            is_none = is_hint or _is_vetoed(rest.rstrip("?")) or phrases.ANAPHORA.match(content)
            return None if is_none else _statement(content, sentence)
        kind = None if is_task else _kind(rest)
        if kind is not None:
            is_none = _is_vetoed(sentence) or _is_vetoed(rest) or _is_of_task(rest, ahead, kind)
            said = phrases.TAIL.sub("", rest)
            return None if is_none or _kind(said) != kind else _statement(said, sentence, kind)
    return None


def _is_of_task(rest: str, ahead: str, kind: StatementType) -> bool:
    """Return whether a clause chooses for the task at hand, or continues a sentence about something else."""
    is_continued = phrases.BARE_HABIT.match(rest) and phrases.WITH_SUBJECT.search(ahead)
    return bool(is_continued or (kind == "user_preference" and phrases.WISHES.search(rest)))


def _kind(clause: str) -> StatementType | None:
    if (found := phrases.PREFERENCES.match(clause)) and not phrases.FRAMES.search(found[0]):
        return "user_preference"
    if (found := phrases.FACTS.match(clause)) and not phrases.FRAMES.search(found[0]):
        return "user_fact"
    return None


def _remembered(sentence: str) -> Statement | None:
    """Return what "remember it" refers to: a sentence that says something."""
    is_stated = len(sentence.split()) > _LEAST_WORDS and _is_of_user(sentence)
    is_usable = is_stated and not phrases.FRAMES.search(sentence) and not _is_vetoed(sentence)
    return _statement(_bare(sentence), sentence) if is_usable else None


def _is_of_user(content: str) -> bool:
    return phrases.OF_USER.search(content) is not None or _kind(content) is not None


def _statement(text: str, sentence: str, kind: StatementType | None = None) -> Statement | None:
    text = text.strip().rstrip("?").rstrip()
    if len(text.split()) < _LEAST_WORDS or phrases.UNFINISHED.search(text):
        return None
    return Statement(text, text, kind or _kind(_bare(text)) or "user_fact")


def _bare(sentence: str) -> str:
    """Return a sentence without words such as "by the way"."""
    while found := phrases.LEAD_INS.match(sentence):
        sentence = sentence[found.end() :]
    return sentence


def _is_vetoed(sentence: str) -> bool:
    return phrases.VETOES.search(sentence) is not None
