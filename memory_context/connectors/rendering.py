"""Renders what connectors answer, within limits: whatever they return, an agent can read it."""

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby, islice

from autogen_core import Image

from memory_context.foundation.references import defused, one_line

from .protocols import ConnectorObservation, Element, Noticed

__all__ = ["CONNECTOR_ID", "rendered_by_source", "rendered_elements", "rendered_observations"]

_logger = logging.getLogger("memory_context")

CONNECTOR_ID = re.compile(r"[A-Za-z0-9_-]+")
"""AutoGen's rule for sources of messages."""

_MOST_OBSERVATIONS = 200
_MOST_ELEMENTS = 1000  # of one answer
_MOST_CHARACTERS = 4_000_000  # of one answer: about 1 s to count
_MOST_PIXELS = 40_000_000  # 8K; larger ones take seconds to encode
_SUBJECT_CHARACTERS = 200


def rendered_by_source(observations: Iterable[ConnectorObservation]) -> list[Noticed]:
    """Render the observations of an action, which may be of several connectors."""
    by_source = groupby(islice(observations, _MOST_OBSERVATIONS), _source_of)
    return [noticed for source, group in by_source for noticed in rendered_observations(source, group)]


def rendered_observations(connector_id: str, observations: Iterable[ConnectorObservation]) -> list[Noticed]:
    """Render observations, those of one subject together; one that cannot be rendered is left out."""
    noticed: list[Noticed] = []
    room = _Room(connector_id)
    remaining = iter(observations)
    for one in islice(remaining, _MOST_OBSERVATIONS):
        try:
            subject, elements = _subject_of(one), tuple(room.take(one.render()))
        except BaseException as error:  # of a connector, in a thread of its own
            _logger.warning("an observation of connector %s cannot be rendered: %r", connector_id, error)
            continue
        _add(noticed, Noticed(connector_id, elements, subject))
    if next(remaining, None) is not None:
        more = f"[{connector_id}: more than {_MOST_OBSERVATIONS} observations; the others are left out]"
        _add(noticed, Noticed(connector_id, (more,)))
    return noticed


def _add(noticed: list[Noticed], one: Noticed) -> None:
    """Add to the one before if it is about the same subject."""
    if noticed and noticed[-1].subject == one.subject:
        one = replace(one, elements=(*noticed.pop().elements, *one.elements))
    if one.elements:
        noticed.append(one)


def rendered_elements(connector_id: str, rendered: Iterable[object]) -> tuple[Element, ...]:
    """Render the elements of a state."""
    return tuple(_Room(connector_id).take(rendered))


class _Room:
    """The room that the answer of one connector has."""

    def __init__(self, connector_id: str) -> None:
        self._connector_id = connector_id
        self._characters, self._elements = _MOST_CHARACTERS, _MOST_ELEMENTS

    def take(self, rendered: Iterable[object]) -> Iterator[Element]:
        for one in rendered:
            if self._elements <= 0 or self._characters <= 0:
                return
            self._elements -= 1
            if isinstance(one, Image):
                width, height = one.image.size
                is_shown = width * height <= _MOST_PIXELS
                yield one if is_shown else f"[Image of {width} x {height}: it is too large to be shown.]"
            elif isinstance(one, str) and one:
                yield self._cut(one)

    def _cut(self, text: str) -> str:
        kept = defused(text[: self._characters])
        self._characters -= len(text)
        if self._characters >= 0:
            return kept
        return f"{kept}\n[{self._connector_id}: {-self._characters:,} more characters are left out]"


def _source_of(observation: ConnectorObservation) -> str:
    source: object = getattr(observation, "source_connector_id", "")
    return source if isinstance(source, str) and CONNECTOR_ID.fullmatch(source) else "action"


def _subject_of(observation: ConnectorObservation) -> str:
    subject: object = getattr(observation, "subject", "")
    return defused(one_line(subject, _SUBJECT_CHARACTERS)) if isinstance(subject, str) else ""
