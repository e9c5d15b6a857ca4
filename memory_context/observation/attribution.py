"""Which messages a line of the observer rests on, and whose words it may hold. Pure; a model only proposes."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import cached_property

from ..compaction import reads_as_order
from ..credentials import masked
from ..references import one_line
from ..text import canonical_words, relevance, telling_terms, terms_of
from ..transcript import ObservationLine, joined_ranges
from .parsing import LogLine, parsed_observations
from .reading import ObservedMessage

__all__ = ["attributed", "claims_user"]

_OWN_SHARE, _OTHERS_SHARE = 0.25, 0.5  # of a line's terms, in the user's and in other messages
_CLAIM = ("the user ", "user ", "user's ", "the user's ")
_ANYWHERE = 10**9


def attributed(lines: Sequence[LogLine], messages: Sequence[ObservedMessage], known: str) -> list[ObservationLine]:
    """Return the lines with the messages they rest on, dated by these.

    A line that cites nothing rests on the message with the most relevant words. Only lines that rest on the user's
    words keep the user's priority; what a tool or page claims of the user says so.

    Args:
        known: End of the log; its lines are not repeated.
    """
    sources = _Sources(messages)
    said = {canonical_words(line.text) for line in parsed_observations(known, 0, _ANYWHERE).lines}
    found: list[ObservationLine] = []
    for line in lines:
        text = masked(line.text)
        words = canonical_words(text)
        if words in said:
            continue
        said.add(words)
        found.append(sources.placed(replace(line, text=text)))
    return found


def claims_user(text: str) -> bool:
    """Return whether a line reports something of the user."""
    return text.casefold().startswith(_CLAIM)


class _Sources:
    """The messages that lines may rest on."""

    def __init__(self, messages: Sequence[ObservedMessage]) -> None:
        self._messages = messages

    @cached_property
    def _terms(self) -> list[frozenset[str]]:
        return [frozenset(telling_terms(terms_of(message.text))) for message in self._messages]

    def placed(self, line: LogLine) -> ObservationLine:
        cited = [index for index, one in enumerate(self._messages) if _is_in(one.position, line.cited)]
        ranges = line.cited
        if not cited:
            cited = self._likely(line)
            ranges = ((self._messages[cited[0]].position, self._messages[cited[-1]].position + 1),)
        text, priority = line.text, line.priority or "project"
        is_claim = priority == "user" or claims_user(text)
        if (is_claim or reads_as_order(text)) and not self._is_users(line, cited):
            priority = "project" if priority == "user" else priority
            text = self._as_claim(text, cited)
        return ObservationLine(text, joined_ranges(ranges), self._messages[cited[0]].at, priority)

    def _likely(self, line: LogLine) -> list[int]:
        """Return the message with the most relevant words, among equals the nearest in time; all if none has any."""
        wanted = frozenset(telling_terms(terms_of(line.text)))
        scores = relevance({index: terms & wanted for index, terms in enumerate(self._terms)}, len(self._terms))
        best = max(scores)
        if not best and line.said_at is None:
            return [*range(len(scores))]
        return [min((index for index, score in enumerate(scores) if score == best), key=lambda i: self._gap(line, i))]

    def _gap(self, line: LogLine, index: int) -> float:
        at = self._messages[index].at.astimezone(timezone.utc)
        if line.said_at is None:
            return 0.0
        said = datetime.combine(line.day or at.date(), line.said_at, timezone.utc)
        return abs((at - said).total_seconds())

    def _is_users(self, line: LogLine, cited: Sequence[int]) -> bool:
        """Return whether a line rests on the user's words, and its own words do not come from elsewhere."""
        own = [index for index in cited if self._messages[index].origin == "user"]
        if not own:
            return False
        others = [index for index, one in enumerate(self._messages) if one.origin in ("tool", "other")]
        wanted = frozenset(telling_terms(terms_of(line.text)))
        shares = [max((self._share(wanted, index) for index in some), default=0.0) for some in (own, others)]
        return shares[0] >= _OWN_SHARE or shares[1] < _OTHERS_SHARE

    def _share(self, wanted: frozenset[str], index: int) -> float:
        return len(wanted & self._terms[index]) / len(wanted) if wanted else 0.0

    def _as_claim(self, text: str, cited: Sequence[int]) -> str:
        """Name the source whose words a line reports: a cited tool, or one that holds most of the words."""
        wanted = frozenset(telling_terms(terms_of(text)))
        others = [index for index, one in enumerate(self._messages) if one.origin in ("tool", "other")]
        holding = [index for index in others if self._share(wanted, index) >= _OTHERS_SHARE]
        likely = [index for index in cited if index in others] or holding
        if not likely:
            return text
        source = self._messages[max(likely, key=lambda index: self._share(wanted, index))].source
        return f"According to {one_line(source, 60)}: {text}"


def _is_in(position: int, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(first <= position < last for first, last in ranges)
