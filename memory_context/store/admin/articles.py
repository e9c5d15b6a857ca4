"""Articles: what several conversations said of a topic, each line with its source."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from memory_context.credentials import masked
from memory_context.references import one_line
from memory_context.text import unchangeable_words

__all__ = ["Article", "Said", "recurring_articles"]

LEAST_SESSIONS = 3
MOST_ARTICLES = 20
_MOST_LINES = 12
_LINE_CHARACTERS = 240
_LONGEST_TOPIC = 64
_COMMON_SHARE = 0.5
"""A name in more of many sessions distinguishes none of them."""
_MANY_SESSIONS = 8
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
_EDGES = ".,;:!?\"'`“”„‘’«»()[]*…"
_LETTER = re.compile(r"[^\W\d_]")


@dataclass(frozen=True)
class Said:
    """A message of an archived session."""

    key: str
    session_id: str
    title: str
    text: str
    said_at: datetime
    is_answer: bool


@dataclass(frozen=True)
class Article:
    """A text about one topic and the keys of the messages it rests on."""

    topic: str
    text: str
    sources: tuple[str, ...]
    sessions: int


def recurring_articles(said: Sequence[Said]) -> list[Article]:
    """Return articles about names that recur in at least three sessions, those of most sessions first.

    Each session gives one sentence, verbatim: of the agent's last answer that has the name, else of the user's last
    message. No model is asked, so nothing is added.
    """
    sessions = {one.session_id for one in said}
    most = len(sessions) * _COMMON_SHARE if len(sessions) >= _MANY_SESSIONS else len(sessions)
    found: dict[str, dict[str, Said]] = {}
    for one in sorted(said, key=lambda one: (one.is_answer, one.said_at)):  # the last wins
        for name in _names_in(one.text):
            found.setdefault(name, {})[one.session_id] = one
    recurring = [(name, by_session) for name, by_session in found.items() if LEAST_SESSIONS <= len(by_session) <= most]
    recurring.sort(key=lambda one: (-len(one[1]), one[0]))
    return [_article(name, by_session.values()) for name, by_session in recurring[:MOST_ARTICLES]]


def _article(topic: str, said: Iterable[Said]) -> Article:
    newest = sorted(said, key=lambda one: one.said_at, reverse=True)
    shown = newest[:_MOST_LINES]
    lines = [f"{topic}: in {len(newest)} conversations, {newest[-1].said_at:%Y-%m-%d} to {newest[0].said_at:%Y-%m-%d}"]
    lines += [f"- {one.said_at:%Y-%m-%d}{_title(one)}: {_sentence(one.text, topic)} ({one.key})" for one in shown]
    return Article(topic, "\n".join(lines), tuple(one.key for one in shown), len(newest))


def _title(said: Said) -> str:
    return f", {one_line(said.title, 60)}" if said.title else ""


def _sentence(text: str, topic: str) -> str:
    best = next((one for one in _SENTENCES.split(masked(text)) if topic in one), text)
    return one_line(best, _LINE_CHARACTERS)


def _names_in(text: str) -> Iterator[str]:
    """Yield names: identifiers and paths, and capitalised words that do not merely begin a sentence."""
    sentences = [one for one in _SENTENCES.split(masked(text)) if one.strip()]
    first = Counter(sentence.split()[0].strip(_EDGES) for sentence in sentences)
    for word in sorted(unchangeable_words(" ".join(sentences))):
        is_plain = word.isalpha() and word[1:].islower()
        begins = is_plain and text.count(word) <= first[word]
        if 3 <= len(word) <= _LONGEST_TOPIC and _LETTER.search(word) and not begins and word != "not":
            yield word
