"""Which messages a line of the observer rests on, and whose words it may hold. Pure; a model only proposes."""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import cached_property

from memory_context.foundation.compactors.names import reads_as_order
from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.patterns import regex
from memory_context.foundation.references import one_line, shorten
from memory_context.foundation.text.lexicon import NEGATIONS
from memory_context.foundation.text.own_words import own_passages, sentences
from memory_context.foundation.text.statements import canonical_words, unchangeable_words
from memory_context.foundation.text.tokenize import relevance, telling_terms, terms_of, verbatim_parts, verbatim_pattern
from memory_context.sessions.transcript.observations import ObservationLine, joined_ranges

from .parsing import LogLine, parsed_observations
from .reading import ObservedMessage

__all__ = ["attributed", "checked_hint", "claims_user", "is_covered"]

_OTHERS_SHARE = 0.5  # of a line's terms in another's message: its words come from there
_CLAIM = regex(
    r"^\W*(?:(?:the |der |die )?(?:user|nutzer|benutzer)(?:in)?\b|the user's)|\buser(?:'s)? (?:\w+ )?(?:ask|want|"
    r"request|order|need|"
    r"instruct|prefer|confirm|approv|allow|agree|said|say|told|wish)|\bby (?:the )?user\b",
    re.IGNORECASE,
)
_ORDER = regex(
    r"\b(?:you|du|sie) (?:must|should|have to|need to|are to|shall|musst|müssen|sollst|sollen)\b", re.IGNORECASE
)
_QUOTED = regex(r"[\"“„«「]([^\"“”„«»「」\n]{3,}?)[\"“”»」]")
_DATE = regex(r"\(\d{4}-\d\d-\d\d[^)]*\)")
_REPORTING = frozenset(
    terms_of(
        "user users ask asks asked want wants wanted say says said tell tells told state states stated request "
        "requests requested "
        "need needs needed like likes prefer prefers decide decided plan plans planned goal wish wishes mention "
        "mentioned report "
        "confirm confirms confirmed"
    )
)
_RUN = 3  # words in a row that make a quote
_QUOTE_CHARACTERS = 120
_ANYWHERE = 10**9


def attributed(lines: Sequence[LogLine], messages: Sequence[ObservedMessage], known: str) -> list[ObservationLine]:
    """Return the lines with the messages they rest on, dated by these.

    A line that cites nothing rests on the message with the most relevant words. A line counts as the user's only
    with a quote that stands verbatim in the user's own words, which pasted text is not. Others that claim it name
    their source.

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
    return _CLAIM.search(text) is not None


def is_covered(text: str, said: Sequence[str]) -> bool:
    """Return whether all telling words of a text stand in what was said, and no negation was added or dropped."""
    wanted = _telling(text)
    shares = {sentence: len(wanted & _telling(sentence)) for sentence in said}
    near = [sentence for sentence, share in shares.items() if share]
    if not near or not wanted <= frozenset().union(*map(_telling, near)):
        return False
    best = max(near, key=lambda sentence: shares[sentence])
    return any(map(_is_negated, near)) if _is_negated(text) else not _is_negated(best)


def checked_hint(text: str, messages: Sequence[ObservedMessage]) -> str:
    """Return a hint for the agent; "" if it reads as an order, claims what the user did not say, or has the words of a
    tool or page rather than of the user's and the agent's own work."""
    sources, wanted = _Sources(messages), _telling(text)
    if reads_as_order(text) or _ORDER.search(text) or (claims_user(text) and sources.said_by_user(text) is None):
        return ""
    here = sources.terms_of_origins("user", "agent")
    foreign = (wanted - here) & sources.terms_of_origins("tool", "other")
    return "" if len(foreign) >= _OTHERS_SHARE * max(len(wanted), 1) else masked(text)


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
        if priority == "user" or claims_user(text) or reads_as_order(text) or _ORDER.search(text):
            said = self.said_by_user(text, cited)
            priority = "project" if said is None and priority == "user" else priority
            text = self._as_claim(text, cited) if said is None else said
        return ObservationLine(text, joined_ranges(ranges), self._messages[cited[0]].at, priority)

    def said_by_user(self, text: str, cited: Sequence[int] | None = None) -> str | None:
        """Return a claim with the user's own words that it rests on; None if the user said nothing of the kind.

        A claim stays as it is if all its words are the user's, and gets the sentence as a quote if it has none. Else
        only its verbatim quotes stay, without what the observer made of them.
        """
        own = [index for index, one in enumerate(self._messages) if one.origin == "user"]
        said = [sentence for index in own if cited is None or index in cited for sentence in self._said[index]]
        quotes = [one for one in _QUOTED.findall(text) if len(verbatim_parts(one)) > 1 and self._stands(one, own)]
        bare = _DATE.sub(" ", text)
        for quote in quotes:
            bare = bare.replace(quote, " ")
        if quotes and not _telling(bare) and not _is_negated(bare):
            return text
        if is_covered(bare, said):
            return text if quotes or _has_run(text, said) else f'{text} ("{_nearest(bare, said)}")'
        return "The user: " + "; ".join(f'"{one}"' for one in quotes) if quotes else None

    def terms_of_origins(self, *origins: str) -> frozenset[str]:
        pairs = zip(self._messages, self._terms, strict=True)
        return frozenset[str]().union(*(terms for message, terms in pairs if message.origin in origins))

    @cached_property
    def _said(self) -> list[list[str]]:
        """The sentences of each message's own words, without what is pasted."""
        return [[one for part in own_passages(message.text) for one in sentences(part)] for message in self._messages]

    def _stands(self, quote: str, positions: Sequence[int]) -> bool:
        pattern = re.compile(verbatim_pattern(quote), re.IGNORECASE)
        return any(pattern.search(sentence) for index in positions for sentence in self._said[index])

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

    def _share(self, wanted: frozenset[str], index: int) -> float:
        return len(wanted & self._terms[index]) / len(wanted) if wanted else 0.0

    def _as_claim(self, text: str, cited: Sequence[int]) -> str:
        """Name the source whose words a line reports: a cited tool, or one that holds most of the words."""
        wanted = frozenset(telling_terms(terms_of(text)))
        others = [index for index, one in enumerate(self._messages) if one.origin in ("tool", "other")]
        holding = [index for index in others if self._share(wanted, index) >= _OTHERS_SHARE]
        likely = [index for index in cited if index in others] or holding
        if not likely:
            is_agents = all(self._messages[index].origin == "agent" for index in cited)
            return f"According to the {'agent' if is_agents else 'observer'}: {text}"
        source = self._messages[max(likely, key=lambda index: self._share(wanted, index))].source
        return f"According to {one_line(source, 60)}: {text}"


def _is_in(position: int, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(first <= position < last for first, last in ranges)


def _telling(text: str) -> frozenset[str]:
    return frozenset(telling_terms(terms_of(text))) - _REPORTING - NEGATIONS


def _is_negated(text: str) -> bool:
    return "not" in unchangeable_words(text)


def _has_run(text: str, said: Sequence[str]) -> bool:
    """Return whether some words in a row stand in a sentence."""
    return bool(_runs(text) & frozenset().union(*map(_runs, said)))


def _runs(text: str) -> frozenset[tuple[str, ...]]:
    words = verbatim_parts(text.casefold())
    return frozenset(tuple(words[start : start + _RUN]) for start in range(len(words) - _RUN + 1))


def _nearest(text: str, said: Sequence[str]) -> str:
    wanted = _telling(text)
    return shorten(
        max(said, key=lambda sentence: len(wanted & _telling(sentence))).replace('"', "'"), _QUOTE_CHARACTERS
    )
