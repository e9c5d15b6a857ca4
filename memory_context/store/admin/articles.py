"""Topics of articles: names of which several conversations said different things, each sentence with its source."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.references import one_line
from memory_context.foundation.text.statements import canonical_words, unchangeable_words

__all__ = ["Said", "Topic", "recurring_topics"]

LEAST_SESSIONS = 3
MOST_TOPICS = 5
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
class Topic:
    """A name, and the sentences that have it, the newest first, each with its message."""

    name: str
    sentences: tuple[tuple[str, Said], ...]

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(said.key for _, said in self.sentences)

    @property
    def quotes(self) -> str:
        """The sentences as lines, each with its date, conversation and source."""
        return "\n".join(f"- {said.said_at:%Y-%m-%d}{_title(said)}: {one} ({said.key})" for one, said in self.sentences)


def recurring_topics(said: Sequence[Said]) -> list[Topic]:
    """Return names of which at least three sessions said something different, those of most sessions first.

    Each session gives one sentence, verbatim: of the agent's last answer that has the name, else of the user's last
    message. Equal sentences, such as a question that was asked again, are one source.
    """
    sessions = {one.session_id for one in said}
    most = len(sessions) * _COMMON_SHARE if len(sessions) >= _MANY_SESSIONS else len(sessions)
    found: dict[str, dict[str, Said]] = {}
    for one in sorted(said, key=lambda one: (one.is_answer, one.said_at)):  # the last wins
        for name in _names_in(one.text):
            found.setdefault(name, {})[one.session_id] = one
    recurring = [(name, by_session) for name, by_session in found.items() if LEAST_SESSIONS <= len(by_session) <= most]
    recurring.sort(key=lambda one: (-len(one[1]), one[0]))
    topics = (_topic(name, [*by_session.values()]) for name, by_session in recurring)
    return [topic for topic in topics if len(topic.sentences) >= LEAST_SESSIONS][:MOST_TOPICS]


def _topic(name: str, said: Sequence[Said]) -> Topic:
    different: dict[tuple[str, ...], tuple[str, Said]] = {}
    for one in sorted(said, key=lambda one: one.said_at, reverse=True):
        sentence = _sentence(one.text, name)
        different.setdefault(tuple(canonical_words(sentence)), (sentence, one))
    return Topic(name, tuple(different.values())[:_MOST_LINES])


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
