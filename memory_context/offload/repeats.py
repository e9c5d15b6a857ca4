"""Finds agent texts that repeat stored ones. They are not stored as items, so search finds the source and not its copy;
the transcript, `read_history` and the archive keep them.
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
"""Share of a text's word runs found in its sources from which it counts as a repeat."""
_RUN_WORDS = 8
_CONTRIBUTING_SHARE = 0.1
_MOST_SOURCES = 40
_MOST_CHARACTERS = 1_000_000  # of sources; takes 0.1 s
_WORD = re.compile(r"\w+|\S", re.ASCII)  # single letters of other scripts: some have no spaces


@dataclass(frozen=True)
class Source:
    """A stored text that the agent was shown.

    Attributes:
        keys: Keys of its items; empty if unknown, as for a look-up.
    """

    text: str = field(repr=False)
    keys: tuple[str, ...] = ()


def may_repeat(entry: Entry, part: Part, policy: ContextPolicy) -> bool:
    """Return whether a part is an agent's words; the user's words are always stored."""
    if part.is_result or part.address.kind not in ("text", "thought"):
        return False
    message = entry.message
    is_agents = isinstance(message, UserMessage) and source_of(message) not in policy.user_sources
    return isinstance(message, AssistantMessage) or (is_agents and not entry.carries_result)


def sources_before(transcript: Transcript, position: int) -> list[Source]:
    """Return the known stored and recalled texts before a message, newest first."""
    sources: list[Source] = []
    room = _MOST_CHARACTERS
    for source in _stored_before(transcript, position):
        room -= len(source.text)
        if room < 0 or len(sources) == _MOST_SOURCES:
            break
        sources.append(source)
    return sources


def find_repeated(text: str, sources: Sequence[Source]) -> list[str] | None:
    """Return the known keys of the sources that a text repeats; None if it says enough of its own."""
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
    words = _WORD.findall(text)
    return zip(*(words[start:] for start in range(_RUN_WORDS)), strict=False)
