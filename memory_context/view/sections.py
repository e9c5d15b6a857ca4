"""Sections: messages that the context adds to a view. Each is a pure function of transcript and policy.

To add one, add an entry to `SECTIONS`; budget, prices and `explain()` need no change.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Literal, Protocol

from autogen_core import Image
from autogen_core.models import UserMessage

from memory_context.foundation import tokens as token_counts
from memory_context.foundation.messages import MEMORY_SOURCE
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.references import defused, fenced
from memory_context.foundation.tokens import TokenCounter
from memory_context.sessions.transcript.entries import MESSAGE_OVERHEAD_TOKENS
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.values import Fold
from memory_context.sessions.transcript.view_decisions import (
    ConnectorStateShown,
    UserMemoryChanged,
    UserMemoryLoaded,
)

from .view import TAIL_PLACE, PartState, Segment, ViewMessage

__all__ = [
    "SECTIONS",
    "Place",
    "Price",
    "Section",
    "Slot",
    "first_folded",
    "history_slots",
    "sections_beside",
]

_HINTS_LIMIT_TOKENS = 600
_ORDERS_LEAD = (
    "[The user said this earlier in this conversation, in these words, and it still holds; where two disagree, "
    "the later one does. The numbers in brackets are messages.]"
)
_ORDERS_LEAD_TOKENS = 60  # with its marks
_SLOT_OVERHEAD_TOKENS = MESSAGE_OVERHEAD_TOKENS + 4  # a message and its source

Place = Literal["head", "observations", "history", "tail"]
Price = Literal["fixed", "planned", "volatile"]

PLACES: dict[Place, int] = {"head": -2, "observations": -1, "tail": TAIL_PLACE}
"""`ViewMessage.place` of the sections beside the history, among its positions."""


@dataclass(frozen=True)
class Slot:
    """One message that the context adds to a view.

    Attributes:
        name: Unique within its section and position.
        tokens: None counts a short text whenever it is shown.
        full_tokens: Tokens of the whole content, if they differ.
        why: Reason of each item.
    """

    name: str
    content: str | tuple[str | Image, ...]
    tokens: int | None
    full_tokens: int | None = None
    keys: tuple[str, ...] = ()
    why: str = ""


class Section(Protocol):
    """A named group of slots at one place of the view."""

    @property
    def name(self) -> str:
        """The unique `kind` of its segments."""
        ...

    @property
    def place(self) -> Place: ...

    @property
    def price(self) -> Price:
        """When its bytes may change, as a prompt cache charges for it.

        `fixed`: never within a session. `planned`: at its end, else with a decision that states its arithmetic.
        `volatile`: in each view; only in the tail, where nothing cached follows.
        """
        ...

    def limit_tokens(self, policy: ContextPolicy) -> int: ...

    def slots(self, transcript: Transcript, policy: ContextPolicy, position: int | None) -> Sequence[Slot]: ...


@dataclass(frozen=True)
class _HistorySection:
    name: str
    place: Place = "history"
    price: Price = "planned"

    def limit_tokens(self, policy: ContextPolicy) -> int:
        return sys.maxsize  # the budget plans the history itself


class _Fold(_HistorySection):
    def slots(self, transcript: Transcript, policy: ContextPolicy, position: int | None) -> Sequence[Slot]:
        fold = transcript.state.fold
        if fold is None or not fold.text or position != first_folded(transcript, fold):
            return ()
        return (Slot("", fold.text, fold.tokens, fold.ref.token_count, (fold.ref.key,)),)


class _Expansions(_HistorySection):
    """Expansions behind their messages; AutoGen's Memory comes last."""

    def slots(self, transcript: Transcript, policy: ContextPolicy, position: int | None) -> Sequence[Slot]:
        expanded = transcript.state.expanded_at.get(-1 if position is None else position, {}).values()
        return [
            Slot(
                one.place[1],
                one.text,
                one.tokens,
                keys=tuple(opened.key for opened in one.opened),
                why="; ".join(f"{opened.key}: {opened.why}" for opened in one.opened),
            )
            for one in sorted(expanded, key=lambda one: one.origin == "memory")
        ]


@dataclass(frozen=True)
class _UserMemory:
    """The user's memory, in the head or, if it came late, in the tail; changes since stand in the tail, too."""

    name: str
    place: Place
    price: Price

    def limit_tokens(self, policy: ContextPolicy) -> int:
        return 2 * (policy.user_memory.limit_tokens + _SLOT_OVERHEAD_TOKENS)

    def slots(self, transcript: Transcript, policy: ContextPolicy, position: int | None) -> Sequence[Slot]:
        if not policy.user_memory.enabled:
            return ()
        loaded = transcript.state.newest(UserMemoryLoaded)
        slots = [_slot_of(loaded, "known before")] if loaded is not None and loaded.place == self.place else []
        if self.place == "tail" and (changed := transcript.state.newest(UserMemoryChanged)):
            slots.append(_slot_of(changed, "changed since"))
        return [slot for slot in slots if slot.content]


@dataclass(frozen=True)
class _Observations:
    """The observation log: one message for each chunk, so that only the newest is new to a prompt cache."""

    name: str = "observations"
    place: Place = "observations"
    price: Price = "planned"

    def limit_tokens(self, policy: ContextPolicy) -> int:
        return sys.maxsize

    def slots(self, transcript: Transcript, policy: ContextPolicy, position: int | None) -> Sequence[Slot]:
        log = transcript.state.observation
        if not log.chunks:
            return ()
        lead = Slot("lead", log.lead, log.lead_tokens)
        chunks = (Slot(f"{one.first + 1}-{one.last}", one.text, one.tokens, why=one.account) for one in log.chunks)
        return [lead, *chunks]


@dataclass(frozen=True)
class _Orders:
    """What the user ordered in messages that left the view; it changes only when messages leave it."""

    name: str = "orders"
    place: Place = "observations"
    price: Price = "planned"

    def limit_tokens(self, policy: ContextPolicy) -> int:
        return policy.user_memory_limit_tokens + _SLOT_OVERHEAD_TOKENS

    def slots(self, transcript: Transcript, policy: ContextPolicy, position: int | None) -> Sequence[Slot]:
        left = policy.user_memory_limit_tokens - _ORDERS_LEAD_TOKENS
        lines: list[str] = []
        for order in reversed(transcript.state.orders_shown):
            left -= order.tokens
            if left < 0:
                break
            lines.append(f"- {defused(order.text)} ({order.position + 1})")
        text = "\n".join([_ORDERS_LEAD, fenced("\n".join(reversed(lines)))]) if lines else ""
        return [Slot("", text, None)] if text else ()


@dataclass(frozen=True)
class _ObservationHints:
    """Hints of the newest chunk that has any, and how long ago the days of the log were when it is read."""

    name: str = "observation_hints"
    place: Place = "tail"
    price: Price = "volatile"

    def limit_tokens(self, policy: ContextPolicy) -> int:
        return _HINTS_LIMIT_TOKENS

    def slots(self, transcript: Transcript, policy: ContextPolicy, position: int | None) -> Sequence[Slot]:
        log = transcript.state.observation
        if not log.chunks:
            return ()
        days = log.days_before(transcript[transcript.end - 1].added_at)
        slots = [Slot("", log.hints.hints, log.hints.hints_tokens)] if log.hints is not None else []
        return [*slots, Slot("days", days, None)] if days else slots


@dataclass(frozen=True)
class _ConnectorStates:
    """What connectors show of the present."""

    name: str = "connector_state"
    place: Place = "tail"
    price: Price = "volatile"

    def limit_tokens(self, policy: ContextPolicy) -> int:
        return sys.maxsize  # the host of the connectors keeps it

    def slots(self, transcript: Transcript, policy: ContextPolicy, position: int | None) -> Sequence[Slot]:
        return [
            Slot(
                one.connector_id,
                (one.text, *one.images) if one.images else one.text,
                one.tokens + len(one.images) * token_counts.IMAGE_TOKENS,
            )
            for one in transcript.state.newest_of(ConnectorStateShown)
            if one.text
        ]


def _slot_of(shown: UserMemoryLoaded | UserMemoryChanged, why: str) -> Slot:
    return Slot(why, shown.text, shown.tokens, keys=shown.keys, why=f"of the user, {why}")


_OWN: tuple[Section, ...] = (
    _Fold("fold"),
    _Expansions("expansion"),
    _UserMemory("user_memory", "head", "fixed"),
    _Observations(),
    _Orders(),
    _UserMemory("user_memory_news", "tail", "volatile"),
    _ObservationHints(),
    _ConnectorStates(),
)
SECTIONS: dict[str, Section] = {one.name: one for one in _OWN}
"""All sections by name, in order within their place."""

_STATES: dict[str, PartState] = {"fold": "folded", "expansion": "expanded"}


def first_folded(transcript: Transcript, fold: Fold) -> int:
    """Return the position of a fold's placeholder."""
    return next(position for position in count(transcript.state.history_start) if position not in fold.kept)


def history_slots(
    transcript: Transcript, policy: ContextPolicy, counter: TokenCounter, position: int
) -> Iterator[ViewMessage]:
    """Yield the slots at a position of the history."""
    for section in SECTIONS.values():
        if section.place == "history":
            for number, slot in enumerate(section.slots(transcript, policy, position)):
                yield _message(section, number, slot, counter, position, position)


def sections_beside(
    transcript: Transcript, policy: ContextPolicy, counter: TokenCounter
) -> dict[Place, list[ViewMessage]]:
    """Return the messages of the sections beside the history.

    All together take at most half of the view. A line replaces a slot that does not fit.
    """
    limit = policy.view_limit_tokens
    room = sys.maxsize if limit is None else limit // 2
    shown: dict[Place, list[ViewMessage]] = {place: [] for place in PLACES}
    for place, at in PLACES.items():
        for section in (one for one in SECTIONS.values() if one.place == place):
            taken = min(room, section.limit_tokens(policy))
            own_room = taken
            for number, slot in enumerate(section.slots(transcript, policy, None)):
                if slot.tokens is None:
                    slot = replace(slot, tokens=counter.count(str(slot.content)))
                message = _message(section, number, slot, counter, -1, at)
                if message.tokens > own_room:
                    text = f"[{section.name}: {slot.tokens} tokens left out to fit the budget]"
                    left_out = replace(slot, content=text, tokens=counter.count(text), full_tokens=slot.tokens)
                    message = _message(section, number, left_out, counter, -1, at, "shortened")
                if message.tokens <= own_room:
                    own_room -= message.tokens
                    shown[place].append(message)
            room -= taken - own_room
    return shown


def _message(
    section: Section,
    number: int,
    slot: Slot,
    counter: TokenCounter,
    position: int,
    place: int,
    state: PartState | None = None,
) -> ViewMessage:
    tokens = (slot.tokens or 0) + counter.count(MEMORY_SOURCE)
    content = slot.content if isinstance(slot.content, str) else list(slot.content)
    segment = Segment(
        position,
        MEMORY_SOURCE,
        section.name,
        number,
        state or _STATES.get(section.name, "section"),
        tokens,
        tokens if slot.full_tokens is None else slot.full_tokens,
        slot.keys,
        slot.why,
        slot.name,
    )
    message = UserMessage(content=content, source=MEMORY_SOURCE)
    return ViewMessage(position, message, MESSAGE_OVERHEAD_TOKENS + tokens, (segment,), place)
