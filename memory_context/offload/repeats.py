"""Answers that repeat what is stored: an agent that copies a file, or what was recalled, has said nothing new.

Such a text is not stored as an item of its own, so that search finds the source and never the copy above it. It stays
in the transcript, as short texts do: `read_history` and the archive have every byte of it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from autogen_core.models import AssistantMessage, UserMessage

from ..messages import source_of
from ..policy import ContextPolicy
from ..transcript import Entry, Part, Transcript

__all__ = ["Source", "find_repeated", "may_repeat", "sources_before"]

REPEATED_SHARE = 0.8
"""Of a text, in runs of words, that stands in its sources; what quotes less has something to say of its own."""
_RUN_WORDS = 8
_CONTRIBUTING_SHARE = 0.1
_MOST_SOURCES = 40
_MOST_CHARACTERS = 1_000_000  # of sources, which takes a tenth of a second
_WORD = re.compile(r"\w+|\S", re.ASCII)  # letters of other scripts one by one, as some are written without spaces


@dataclass(frozen=True)
class Source:
    """A text that the agent was shown and that is stored.

    Attributes:
        text: The text.
        keys: The items it is, or is from; empty if they are not known, as of a look-up.
    """

    text: str = field(repr=False)
    keys: tuple[str, ...] = ()


def may_repeat(entry: Entry, part: Part, policy: ContextPolicy) -> bool:
    """Whether a part is an agent's words. The user's own words are stored as such, whatever they repeat."""
    if part.is_result or part.address.kind not in ("text", "thought"):
        return False
    message = entry.message
    is_agents = isinstance(message, UserMessage) and source_of(message) not in policy.user_sources
    return isinstance(message, AssistantMessage) or (is_agents and not entry.carries_result)


def sources_before(transcript: Transcript, position: int) -> list[Source]:
    """Return the stored and recalled texts that the process still has and that came before a message, newest first."""
    sources: list[Source] = []
    room = _MOST_CHARACTERS
    for source in _stored_before(transcript, position):
        room -= len(source.text)
        if room < 0 or len(sources) == _MOST_SOURCES:
            break
        sources.append(source)
    return sources


def find_repeated(text: str, sources: Sequence[Source]) -> list[str] | None:
    """Return the keys of what a text repeats, as far as they are known; None if it has enough to say of its own.

    Args:
        text: What an agent said.
        sources: What it was shown.
    """
    runs = set(_runs(text))
    left, keys = set(runs), dict[str, None]()
    for source in sources if runs else ():
        shared = left.intersection(_runs(source.text))
        left -= shared
        if len(shared) >= _CONTRIBUTING_SHARE * len(runs):
            keys.update(dict.fromkeys(source.keys))
        if len(left) <= (1 - REPEATED_SHARE) * len(runs):
            return list(keys)
    return None


def _stored_before(transcript: Transcript, position: int) -> Iterator[Source]:
    for expanded in transcript.state.expanded.values():
        if expanded.position < position:
            yield Source(expanded.text, tuple(opened.key for opened in expanded.opened))
    for entry in reversed(transcript.entries(end=position)):
        for part in entry.measured:
            text = entry.text(part.address) if part.stored is not None and part.address.kind != "image" else None
            if part.stored is not None and text is not None and part.address not in entry.dropped:
                yield Source(text, tuple(ref.key for ref in part.stored.refs))


def _runs(text: str) -> Iterator[tuple[str, ...]]:
    """Yield the runs of words of a text, each word with those behind it."""
    words = _WORD.findall(text)
    return zip(*(words[start:] for start in range(_RUN_WORDS)), strict=False)
