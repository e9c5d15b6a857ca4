"""The transcript of one session: its messages, and its decisions, recorded events that change the view."""

from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, LLMMessage, SystemMessage, UserMessage
from pydantic import TypeAdapter
from typing_extensions import Self

from memory_context.foundation.handlers import ContextEvent
from memory_context.foundation.messages import Pairing, calls_of, copy_message, images_of, results_of, source_of

from .entries import Entry, PartId
from .state import Recorded, RunningSums, TranscriptState
from .values import Arithmetic, OpenedItem

if TYPE_CHECKING:
    from memory_context.store.events import EventKind

__all__ = [
    "Decided",
    "Decision",
    "EntryDecision",
    "Transcript",
    "audit_line",
    "decision_from_json",
    "keys_of",
]


@dataclass(frozen=True)
class Decided:
    """A decision that changed the view.

    Attributes:
        what: compacted, folded, withdrawn, offered, …
        reason: `consumed`, `saves`, `budget`, …; `offload` or `memory` for memory tools.
        count: Number of parts, messages, expansions or memory tools.
    """

    what: str
    reason: str
    count: int
    arithmetic: Arithmetic | None = None

    def __str__(self) -> str:
        head = f"{self.what} {self.count} ({self.reason})"
        if self.arithmetic is None:
            return head
        a = self.arithmetic
        return (
            f"{head}: {a.removed_tokens:,} tokens less in each of {a.expected_calls:,} calls expected, "
            f"{a.rewritten_tokens:,} read anew once; net {a.net:+,.0f}"
        )


_kinds: dict[str, "type[Decision]"] = {}


class Decision(Recorded):
    """One recorded event; subclasses are frozen dataclasses.

    Attributes:
        stands_in_views: False if no view depends on it: of those in one slot, the newest says everything.
    """

    stands_in_views: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" not in vars(cls):
            return  # abstract
        if _kinds.setdefault(cls.kind, cls).__qualname__ != cls.__qualname__:
            raise TypeError(f"decision kind {cls.kind!r} is already defined by {_kinds[cls.kind].__qualname__}")
        _kinds[cls.kind] = cls

    @property
    def is_view(self) -> bool:
        """True if it records that a view was handed out."""
        return False

    @property
    def rewrites_prefix(self) -> bool:
        """True for a planned change after which a prompt cache reads the view anew."""
        return False

    @property
    def is_planned(self) -> bool:
        """True if it follows from the view's policy: another policy decides it anew."""
        return False

    def apply(self, transcript: "Transcript") -> None: ...

    def slot(self) -> Hashable | None:
        """Return its slot, which a later decision of this kind may take."""
        return None

    def logged(self) -> "Decision":
        """Return the log's form; the state keeps this one."""
        return self

    def archived(self) -> "Decision":
        """Return the log's form once the archive has it, without texts that entries keep as long as views need them."""
        return self

    def replaced(self) -> "Decision":
        """Return the log's form once its slot is reused, and the archive has it if a view showed it."""
        return self

    def to_json(self, transcript: "Transcript", slots: Container[tuple[str, Hashable]]) -> dict[str, Any]:
        """Return its saved form; `slots`: kind and slot of all saved decisions."""
        return {**asdict(self), "kind": self.kind}  # pyright: ignore[reportArgumentType] # subclasses are dataclasses

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return _adapter(cls).validate_python({name: value for name, value in data.items() if name != "kind"})

    def items_opened(self) -> tuple[OpenedItem, ...]:
        return ()

    def keys_shown(self) -> tuple[str, ...]:
        return tuple(one.key for one in self.items_opened())

    def memory_keys(self) -> tuple[str, ...]:
        return tuple(one.key for one in self.items_opened())

    def audit(self, transcript: "Transcript") -> list[ContextEvent]:
        """Return its events, after `apply`. The audit trail keeps those with keys."""
        return []

    def tally(self) -> dict[str, int]:
        """Return increments of `ContextStats`."""
        return {}

    def decided(self, transcript: "Transcript", earlier: "Sequence[Decision]") -> Decided | None:
        """Return its line in `explain()`; `earlier` precede the last view."""
        return None

    def reasons(self) -> dict[PartId, str]:
        return {}

    def changes_from(self, transcript: "Transcript") -> int | None:
        """Return the first position that a planned change renders anew."""
        return None


@dataclass(frozen=True)
class EntryDecision(Decision):
    """A decision about one entry."""

    position: int

    def positions(self) -> tuple[int, ...]:
        return (self.position,)


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def decision_from_json(data: Mapping[str, Any]) -> Decision:
    """Return a saved decision; an unknown kind or bad data is a ValueError."""
    kind = _kinds.get(data["kind"])
    if kind is None:
        raise ValueError(
            f"unknown decision kind {data['kind']!r}: a newer memory_context saved it, or the module that defines it "
            "is not imported"
        )
    return kind.from_json(data)


def audit_line(kind: "EventKind", keys: Sequence[str], detail: str) -> list[ContextEvent]:
    """Return an audit event, or none without keys."""
    return [ContextEvent(kind, tuple(keys), detail)] if keys else []


def keys_of(entries: Iterable[Entry]) -> list[str]:
    """Return the keys of these entries."""
    return [ref.key for entry in entries for part in entry.measured if part.stored for ref in part.stored.refs]


_D = TypeVar("_D", bound=Decision)


class Transcript:
    """Messages and decisions, append-only; replaying the same events gives the same state.

    Attributes:
        log: Decisions, each with the number of entries at its time.
        with_images: Positions of entries that came with images.
        touched: Positions of new and changed entries; append-only, so readers keep an index into it.
        on_decision: Called after each new decision took effect, not at a replay. It must not raise.
    """

    def __init__(self, first_position: int = 0) -> None:
        self._first = first_position
        self._entries: list[Entry] = []
        self.log: list[tuple[int, Decision]] = []
        self.on_decision: Callable[[Transcript, Decision], None] | None = None
        self.touched: list[int] = []
        self._keeps_views = False
        self._archived = first_position
        self.pairing = Pairing()
        self.with_images: list[int] = []
        self.state = TranscriptState.at(first_position)
        self._logged_at: dict[tuple[str, Hashable], int] = {}
        self._shrinking: dict[int, Decision] = {}  # by log number, once the archive has it
        self._last_view = -1  # log number
        self._full_tokens = RunningSums()
        self._summed = 0

    @classmethod
    def of(cls, messages: Iterable[LLMMessage]) -> "Transcript":
        transcript = cls()
        for message in messages:
            transcript.append(message)
        return transcript

    @property
    def end(self) -> int:
        return self._first + len(self._entries)

    @property
    def first(self) -> int:
        return self._first

    def __getitem__(self, position: int) -> Entry:
        if position < self._first:
            raise IndexError(f"message {position + 1} is not held; the oldest is {self._first + 1}")
        return self._entries[position - self._first]

    def entries(self, start: int | None = None, end: int | None = None) -> list[Entry]:
        """Return a range; `start` None is the view's beginning."""
        start = self.state.start if start is None else start
        return self._entries[max(start - self._first, 0) : None if end is None else max(end - self._first, 0)]

    def shown(self, end: int | None = None) -> Iterator[Entry]:
        end = self.end if end is None else end
        kept, begin = self.state.frame
        for position in chain((one for one in kept if one < end), range(begin, end)):
            if position not in self.state.redelivered:
                yield self[position]

    def decisions(self, kind: type[_D], start: int = 0) -> list[tuple[int, _D]]:
        log = self.log[start:]
        return [(number, one) for number, (_, one) in enumerate(log, start) if isinstance(one, kind)]

    def pause_seconds(self, position: int) -> float:
        """Return the seconds between an entry and the one before; 0 for the first."""
        if position <= self.first:
            return 0.0
        return (self[position].added_at - self[position - 1].added_at).total_seconds()

    def task(self, user_sources: Sequence[str]) -> int | None:
        """Return the user's latest message, else the first one to the agent."""
        state = self.state
        latest = [state.spoken[source] for source in user_sources if source in state.spoken]
        return max(latest, default=state.first_spoken)

    def kept(self, user_sources: Sequence[str]) -> list[int]:
        """Return the positions that leave the view last: leading instructions and the current task."""
        kept: list[int] = []
        for position in range(self.state.start, self.end):
            if not isinstance(self[position].message, SystemMessage):
                break
            kept.append(position)
        task = self.task(user_sources)
        return kept if task is None or task in kept else [*kept, task]

    def full_tokens(self, start: int, end: int) -> int:
        """Return uncompacted tokens; unmeasured entries count 0."""
        for position in self.touched[self._summed :]:
            self._full_tokens.put(position - self._first, self[position].full_tokens)
        self._summed = len(self.touched)
        return self._full_tokens.before(end - self._first) - self._full_tokens.before(max(start - self._first, 0))

    def has_answer(self) -> bool:
        return self.state.answered > self.state.start

    def call_answered_by(self, position: int, index: int) -> FunctionCall | None:
        """Return a result's call; None for an orphan."""
        caller = self.pairing.callers.get((position, index))
        return None if caller is None else calls_of(self[caller[0]].message)[caller[1]]

    def calls_answered_by(self, entry: Entry) -> set[int]:
        callers, count = self.pairing.callers, len(results_of(entry.message))
        return {callers[entry.position, index][0] for index in range(count) if (entry.position, index) in callers}

    def append(self, message: LLMMessage, added_at: datetime | None = None, *, carries_result: bool = False) -> Entry:
        """Append a copy. An assistant's message consumes the shown entries; without any, each message does."""
        entry = Entry(
            self.end,
            copy_message(message),
            added_at or datetime.now(timezone.utc),
            carries_result=carries_result or self._is_code_output(message),
        )
        self.take(entry)
        return entry

    def take(self, entry: Entry) -> None:
        self._consume(entry.message)
        # once the agent went on, later results do not answer its calls
        self.pairing.forget_open_calls(before=self.state.consumed)
        self._entries.append(entry)
        entry.journal = self.touched
        if self._keeps_views:
            entry.unarchived = {}
        entry.touch()
        self.state.hear(entry)
        self.pairing.add(entry.position, entry.message)
        if images_of(entry.message):
            self.with_images.append(entry.position)
        if isinstance(entry.message, AssistantMessage):
            self.state.answered = self.end
            self.state.answers += 1

    def decide(self, decision: Decision) -> None:
        self.replay(self.end, decision)
        if self.on_decision is not None:
            self.on_decision(self, decision)

    def replay(self, at: int, decision: Decision) -> None:
        """Apply a decision recorded when there were `at` entries."""
        decision.apply(self)
        slot = decision.slot()
        if slot is not None:
            if (before := self._logged_at.get((decision.kind, slot))) is not None:
                self._replace_logged(before)
            self._logged_at[decision.kind, slot] = len(self.log)
            self.state.slots[decision.kind, slot] = decision
        if decision.is_view:
            self._last_view = len(self.log)
        self.log.append((at, decision.logged()))
        if (archived := decision.archived()) is not decision:
            self._shrink(len(self.log) - 1, archived)

    def withdraw(self, places: Iterable[tuple[int, str]]) -> None:
        for place in places:
            number = self.state.withdraw(place)
            if number is not None:
                self.touched.append(place[0])
                self._replace_logged(number)

    def leave_view(self, positions: Iterable[int]) -> None:
        """Drop what views no longer need of the positions that the observation log stands for now."""
        state = self.state
        left, fold = state.observation.left, state.fold
        if fold is not None and all(position in fold.kept for position in range(left, fold.upto)):
            state.fold = None
        self.pairing.forget_open_calls(before=left)  # a later result would be hidden too
        for position in positions:
            if state.is_away(position):
                self[position].drop_stored(self[position].measured)
        self.touched += state.observation.kept  # a fold may have hidden them
        state.forget_away()
        state.show_orders()
        self.withdraw([place for place in state.expanded if state.is_away(place[0])])

    def begin_at(self, position: int) -> None:
        """Start the view here; earlier messages stay without stored texts."""
        self.withdraw([*self.state.expanded])
        self.state = self.state.cleared(position)
        for entry in self.entries():
            self.state.hear(entry)
        self.pairing.forget_open_calls(before=position)
        for entry in self.entries(start=self._first, end=position):
            entry.drop_stored(entry.measured)

    def keep_views(self, position: int) -> None:
        """Keep what earlier views showed until it is archived; entries before `position` are."""
        self._keeps_views, self._archived = True, position
        for entry in self.entries(start=position):
            entry.unarchived = {} if entry.unarchived is None else entry.unarchived

    def note_archived(self, position: int, decision: int) -> None:
        """Drop texts that only the archive needed: it has the entries and decisions before these numbers."""
        for number in [number for number in self._shrinking if number < decision]:
            self.log[number] = (self.log[number][0], self._shrinking.pop(number))
        for entry in self.entries(start=self._archived, end=position):
            entry.unarchived = None
        self._archived = position

    def _replace_logged(self, number: int) -> None:
        decision = self.log[number][1]
        if (replaced := decision.replaced()) is not decision:
            self._shrink(number, replaced, was_shown=number < self._last_view)

    def _shrink(self, number: int, decision: Decision, *, was_shown: bool = True) -> None:
        if self._keeps_views and was_shown:
            self._shrinking[number] = decision
        else:
            self.log[number] = (self.log[number][0], decision)

    def _is_code_output(self, message: LLMMessage) -> bool:
        previous = self._entries[-1].message if self._entries else None
        return (
            isinstance(message, UserMessage)
            and isinstance(previous, AssistantMessage)
            and self.end - 1 == self.state.own_answer
            and source_of(message) == source_of(previous)
        )

    def _consume(self, message: LLMMessage) -> None:
        state = self.state
        if state.shown <= state.consumed:
            return
        if isinstance(message, AssistantMessage):
            state.own_answer = self.end
        if isinstance(message, AssistantMessage) or not self.has_answer():
            seen = self.entries(start=state.consumed, end=state.shown)
            state.answered_from, state.consumed = state.consumed, state.shown
            state.first_views = {part for part in state.first_views if part[0] >= state.consumed}
            state.compared = {part: base for part, base in state.compared.items() if part[0] >= state.consumed}
            state.answered_whole |= {
                (entry.position, part.address)
                for entry in seen
                if not state.is_away(entry.position)
                for part in entry.measured
                if part.is_result and part.stored and (entry.position, part.address) not in state.compacted
            }
