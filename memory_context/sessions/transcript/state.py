"""The state of a transcript, updated incrementally."""

from bisect import bisect_left, bisect_right
from collections.abc import Hashable
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import ClassVar, TypeVar, cast

from autogen_core.models import UserMessage

from memory_context.foundation.light_model.usage import LightModelBill

from .entries import Entry, Part, PartId
from .observations import ObservationLog
from .values import (
    BilledLightModel,
    ChosenBy,
    ConnectorSubjects,
    Expansion,
    Fold,
    MaskedPart,
    OfferedHead,
    ShortenedPart,
    StandingOrder,
)

__all__ = ["Recorded", "RunningSums", "TranscriptState"]


class Recorded:
    """The part of a decision that the state depends on.

    Attributes:
        kind: Name in saved data.
        outlives_clear: True if a state saved after a clear still contains it.
    """

    kind: ClassVar[str]
    outlives_clear: ClassVar[bool] = False

    def positions(self) -> tuple[int, ...]:
        """Return its entries' positions; without any of them it is not saved."""
        return ()


_R = TypeVar("_R", bound=Recorded)


@dataclass
class TranscriptState:
    """The accumulated state of all events.

    Attributes:
        shown: End of the entries that a view has shown.
        consumed: End of the entries shown and answered; `answered_from` is its previous value.
        answered: Position after the last assistant message.
        own_answer: Last assistant message that answered a view; a hand-off brings others' messages.
        answered_whole: Consumed stored results that it does not pay (yet) to compact.
        first_views: Unanswered results with a chosen first view.
        compared: Unanswered results shown by their difference from an earlier one.
        retained: Parts with a chosen compacted text, and who chose last.
        facts: Estimated tokens of each compacted result's facts.
        redelivered: Messages that came again; views show the copies.
        expanded: Active expansions by place; `unseen`: not in a view yet.
        spoken: Latest message of each source, except results.
        reads_much: The agent's earlier sessions with the user did, and it can open references from its first call on.
        orders: What the user ordered and did not take back, in order; `orders_shown`: those that stand in the view.
    """

    start: int = 0
    shown: int = 0
    consumed: int = 0
    answered_from: int = 0
    answered: int = 0
    answers: int = 0
    own_answer: int = -1
    compacted: set[PartId] = field(default_factory=set[PartId])
    shortened: dict[PartId, ShortenedPart] = field(default_factory=dict[PartId, ShortenedPart])
    masked: dict[PartId, MaskedPart] = field(default_factory=dict[PartId, MaskedPart])
    answered_whole: set[PartId] = field(default_factory=set[PartId])
    first_views: set[PartId] = field(default_factory=set[PartId])
    compared: dict[PartId, PartId] = field(default_factory=dict[PartId, PartId])
    retained: dict[PartId, ChosenBy] = field(default_factory=dict[PartId, ChosenBy])
    fold: Fold | None = None
    redelivered: set[int] = field(default_factory=set[int])
    repeated: set[PartId] = field(default_factory=set[PartId])
    facts: dict[PartId, int] = field(default_factory=dict[PartId, int])
    expanded: dict[tuple[int, str], Expansion] = field(default_factory=dict[tuple[int, str], Expansion])
    expanded_at: dict[int, dict[str, Expansion]] = field(default_factory=dict[int, dict[str, Expansion]])
    unseen: set[tuple[int, str]] = field(default_factory=set[tuple[int, str]])
    spoken: dict[str, int] = field(default_factory=dict[str, int])
    first_spoken: int | None = None
    has_items: bool = False
    reads_much: bool = False
    observation: ObservationLog = field(default_factory=ObservationLog)
    subjects: ConnectorSubjects = field(default_factory=ConnectorSubjects)
    orders: list[StandingOrder] = field(default_factory=list[StandingOrder])
    orders_shown: tuple[StandingOrder, ...] = ()
    slots: dict[tuple[str, Hashable], Recorded] = field(default_factory=dict[tuple[str, Hashable], Recorded])
    _logged_at: dict[tuple[int, str], int] = field(default_factory=dict[tuple[int, str], int])

    def newest(self, kind: type[_R], slot: Hashable = "") -> _R | None:
        return cast("_R | None", self.slots.get((kind.kind, slot)))

    def newest_of(self, kind: type[_R]) -> list[_R]:
        return [cast(_R, one) for (name, _), one in self.slots.items() if name == kind.kind]

    @property
    def offered(self) -> OfferedHead:
        return cast("OfferedHead | None", self.slots.get(("offered", ""))) or OfferedHead()

    @property
    def light_model(self) -> LightModelBill:
        billed = cast("BilledLightModel | None", self.slots.get(("light_model", "")))
        return LightModelBill() if billed is None else billed.bill

    @property
    def foldable_end(self) -> int:
        """End of the entries that were answered and that no unanswered result is compared with."""
        return min([self.consumed, *(position for position, _ in self.compared.values())])

    def is_folded(self, position: int) -> bool:
        return self.fold is not None and position < self.fold.upto and position not in self.fold.kept

    def is_away(self, position: int) -> bool:
        """Return whether a fold or the observation log stands for the entry."""
        return self.observation.is_left(position) or self.is_folded(position)

    def is_hidden(self, position: int) -> bool:
        return position in self.redelivered or self.is_away(position)

    @property
    def frame(self) -> tuple[list[int], int]:
        """Earlier positions that stay in the view, and the position from which all do."""
        fold, log = self.fold, self.observation
        begin = max(self.history_start, fold.upto if fold else 0)
        kept = {*log.kept, *(fold.kept if fold else ())}
        return sorted(one for one in kept if self.start <= one < begin and not self.is_away(one)), begin

    @property
    def history_start(self) -> int:
        """First position that the observation log does not stand for."""
        return max(self.start, self.observation.left)

    @classmethod
    def at(cls, position: int) -> "TranscriptState":
        log = ObservationLog.at(position)
        return cls(position, position, position, position, position, observation=log)

    def cleared(self, position: int) -> "TranscriptState":
        state = TranscriptState.at(position)
        state.reads_much = self.reads_much
        state.slots = {key: one for key, one in self.slots.items() if one.outlives_clear and not one.positions()}
        return state

    def hear(self, entry: Entry) -> None:
        message = entry.message
        if isinstance(message, UserMessage) and not entry.carries_result:
            self.spoken[message.source] = entry.position
            if self.first_spoken is None:
                self.first_spoken = entry.position

    def show_orders(self) -> None:
        """Have the view show, from now until messages leave it again, the orders whose messages it does not show."""
        standing = [one for one in self.orders if self.is_away(one.position)]
        newest = {one.text: one for one in standing if one.position not in self.redelivered}
        self.orders_shown = tuple(one for one in standing if newest.get(one.text) is one)

    def note_facts(self, position: int, part: Part) -> None:
        part_id, stored = (position, part.address), part.stored
        is_shown = part_id in self.compacted and position >= self.start and not self.is_hidden(position)
        if is_shown and part.is_result and stored is not None and stored.refs and "\n" in stored.compacted:
            self.facts[part_id] = stored.facts_tokens
        else:
            self.facts.pop(part_id, None)

    def expand(self, expanded: Expansion, number: int) -> None:
        position, name = expanded.place
        self.expanded[expanded.place] = self.expanded_at.setdefault(position, {})[name] = expanded
        self._logged_at[expanded.place] = number
        self.unseen.add(expanded.place)

    def withdraw(self, place: tuple[int, str]) -> int | None:
        """Return its log number, None if not shown."""
        if self.expanded.pop(place, None) is None:
            return None
        self.unseen.discard(place)
        after = self.expanded_at[place[0]]
        del after[place[1]]
        if not after:
            del self.expanded_at[place[0]]
        return self._logged_at.pop(place)

    def fold_behind(self, fold: Fold) -> list[int]:
        """Return the newly hidden positions; a fold that the observation log stands for has no effect."""
        if fold.upto <= self.observation.left:
            return []
        before, self.fold = self.fold, fold
        kept = before.kept if before else self.observation.kept
        first = max(before.upto if before else self.start, self.observation.left)
        self.forget_away()
        return [position for position in (*kept, *range(first, fold.upto)) if self.is_folded(position)]

    def forget_away(self) -> None:
        """Drop what is remembered of parts that left the view."""
        self.answered_whole = {part for part in self.answered_whole if not self.is_away(part[0])}
        self.facts = {part: tokens for part, tokens in self.facts.items() if not self.is_away(part[0])}


class RunningSums:
    """Numbers and their prefix sums."""

    def __init__(self) -> None:
        self._values: list[int] = []
        self._sums = [0]  # lazy prefix sums

    def put(self, index: int, value: int) -> None:
        if index == len(self._values):
            self._values.append(value)
        elif self._values[index] != value:
            self._values[index] = value
            del self._sums[index + 1 :]

    def before(self, index: int) -> int:
        done = len(self._sums) - 1
        if index > done:
            self._sums += islice(accumulate(self._values[done:], initial=self._sums[-1]), 1, None)
        return self._sums[index]

    def last_before(self, index: int) -> int:
        """Return the last non-zero index below `index`, or -1."""
        total = self.before(index)
        return bisect_left(self._sums, total, 0, index + 1) - 1 if total else -1

    def count_within(self, total: int, index: int) -> int:
        self.before(index)
        return bisect_right(self._sums, total, 0, index + 1) - 1
