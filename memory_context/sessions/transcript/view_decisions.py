"""Decisions about messages and added texts: orders of the user, states of connectors, recalled and learned memory."""

from bisect import bisect_left
from collections.abc import Container, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from autogen_core import Image
from pydantic import TypeAdapter
from typing_extensions import Self

from memory_context.foundation.handlers import ContextEvent
from memory_context.foundation.light_model.usage import LightModelBill
from memory_context.foundation.references import defused
from memory_context.foundation.tokens import TokenCounter

from .transcript import Decided, Decision, EntryDecision, Transcript, audit_line, keys_of
from .values import Arithmetic, BilledLightModel, Expansion, Fold, OfferedHead, OpenedItem, StandingOrder

__all__ = [
    "ConnectorCompared",
    "ConnectorStateShown",
    "ExpansionShown",
    "ExpansionWithdrawn",
    "Forked",
    "HistoryFolded",
    "LightModelBilled",
    "MessageRedelivered",
    "Offered",
    "OrderStated",
    "PricesSet",
    "Rewound",
    "SubjectObserved",
    "UserMemoryChanged",
    "UserMemoryLoaded",
    "ViewCleared",
    "ViewShown",
    "subject_line",
]


@dataclass(frozen=True)
class SubjectObserved(EntryDecision):
    """A connector observed a state of a subject.

    Attributes:
        name: Connector and subject, with a space between.
        digest: Of the text, by which an equal one is known.
        supersedes: Position of the older observation that this one makes obsolete.
        same_as: Position of an equal observation, for which this message is a line.
    """

    kind = "subject"
    name: str
    digest: str
    supersedes: int | None = None
    same_as: int | None = None

    def apply(self, transcript: Transcript) -> None:
        if self.position < transcript.state.start:
            return
        subjects = transcript.state.subjects
        if self.same_as is not None:
            subjects.unchanged[self.same_as] = self.position
            return
        subjects.newest[self.name] = self.position
        subjects.names[self.position], subjects.digests[self.position] = self.name, self.digest
        if self.supersedes is not None and self.supersedes >= transcript.state.start:
            subjects.superseded[self.supersedes] = self.position


@dataclass(frozen=True)
class ConnectorCompared(Decision):
    """The state that a connector compares with, as JSON; an empty one makes it look at everything anew."""

    kind, outlives_clear, stands_in_views = "connector_compared", True, False
    connector_id: str
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def slot(self) -> str:
        return self.connector_id

    def replaced(self) -> Decision:
        return ConnectorCompared(self.connector_id)

    def to_json(self, transcript: Transcript, slots: Container[tuple[str, Hashable]]) -> dict[str, Any]:
        return {"kind": self.kind, "connector_id": self.connector_id, "state": self.state}


def subject_line(transcript: Transcript, name: str, what: str, position: int) -> str:
    """Return a line such as `[web page https://…: newer state at step 12]`."""
    step = bisect_left(transcript.pairing.asking, position)
    return f"[{name}: {what} {f'step {step}' if step else 'the start'}]"


@dataclass(frozen=True)
class OrderStated(EntryDecision):
    """A message states orders, or takes earlier ones back.

    It changes no view by itself: a fold or an activation of observations takes what stands then (`show_orders`).

    Attributes:
        ended: Orders that hold no longer.
    """

    kind = "ordered"
    stated: tuple[StandingOrder, ...] = ()
    ended: tuple[StandingOrder, ...] = ()

    def apply(self, transcript: Transcript) -> None:
        state = transcript.state
        gone = {(one.position, one.text) for one in self.ended} | {(one.position, one.text) for one in self.stated}
        kept = [one for one in state.orders if (one.position, one.text) not in gone]
        state.orders = sorted([*kept, *self.stated], key=lambda one: one.position)


_BILL: TypeAdapter[LightModelBill] = TypeAdapter(LightModelBill)


@dataclass(frozen=True)
class ViewShown(Decision):
    """A view up to `upto` (exclusive) was handed out: what it takes, in tokens, and what it was.

    Views of one `upto` are one model call, of which the last counts: AutoGen asks for one before its Memory is read.
    Prices (`PricesSet`) and the prompt in front (`Offered`) are decisions of their own, recorded when they change.

    Attributes:
        tokens: Of its messages, with images; 0 in a record of earlier versions, which has no figures.
        stable_tokens: Of leading messages that the view before had, too; 0 if its prompt cache has expired.
        raw_tokens: Of keeping everything.
        kept_tokens: Tokens of the last 20, the first 5 and the last 15 messages; empty up to 20 messages.
        is_cold: The prompt cache has expired.
        is_joined: User messages in a row were handed out as one.
        digest: Of the messages as they were handed out, before joins.
    """

    kind, outlives_clear = "shown", True
    upto: int
    tokens: int = 0
    stable_tokens: int = 0
    raw_tokens: int = 0
    kept_tokens: tuple[int, ...] = ()
    is_cold: bool = False
    is_joined: bool = False
    digest: str = ""

    def apply(self, transcript: Transcript) -> None:
        transcript.state.shown = max(self.upto, transcript.state.shown)  # one from before a clear shows nothing now
        transcript.state.unseen.clear()

    @property
    def is_view(self) -> bool:
        return True

    def to_json(self, transcript: Transcript, slots: Container[tuple[str, Hashable]]) -> dict[str, Any]:
        figures = {name: value for name, value in vars(self).items() if value}
        return {"kind": self.kind, "upto": self.upto, **figures}


@dataclass(frozen=True)
class PricesSet(Decision):
    """The prices of calls from now on, as in `CachePolicy`; `reserved_tokens` stand in front of each view."""

    kind, outlives_clear = "prices", True
    cached_price_ratio: float
    write_price_ratio: float
    least_prefix_tokens: int
    reserved_tokens: int = 0

    def apply(self, transcript: Transcript) -> None:  # no slot: costs of calls need each one
        transcript.state.slots[self.kind, ""] = self


@dataclass(frozen=True)
class ViewCleared(EntryDecision):
    """The view begins after this position."""

    kind = "cleared"

    def apply(self, transcript: Transcript) -> None:
        transcript.begin_at(self.position)

    def audit(self, transcript: Transcript) -> list[ContextEvent]:
        before = transcript.decisions(ViewCleared)[:-1]
        start = before[-1][1].position if before else transcript.first
        return audit_line("cleared", keys_of(transcript.entries(start, self.position)), "")


@dataclass(frozen=True)
class Rewound(Decision):
    """The session was taken back to before a position: what came after it is in no view, but its calls were paid.

    Attributes:
        messages: Number of messages that left.
        calls: The model calls after the position.
    """

    kind, outlives_clear = "rewound", True
    position: int
    messages: int
    calls: tuple[ViewShown, ...] = ()

    def decided(self, transcript: Transcript, earlier: Sequence[Decision]) -> Decided:
        return Decided("rewound", "asked", self.messages)


@dataclass(frozen=True)
class Forked(Decision):
    """The session begins with the history of another one, as its model was about to read it; earlier calls are on that
    one's bill.

    Attributes:
        session_id: The other session; `call` is the number of its call.
    """

    kind, outlives_clear = "forked", True
    session_id: str
    call: int

    def decided(self, transcript: Transcript, earlier: Sequence[Decision]) -> Decided:
        return Decided("forked", f"call {self.call} of {self.session_id}", transcript.end)


@dataclass(frozen=True)
class MessageRedelivered(EntryDecision):
    """An unanswered message came again after a failed run; views show the copy at `again_at` (None: no effect)."""

    kind = "redelivered"
    again_at: int | None = None

    def apply(self, transcript: Transcript) -> None:
        if self.again_at is None:
            return
        state = transcript.state
        state.redelivered.add(self.position)
        if state.first_spoken == self.position:
            later = (entry for entry in transcript.entries(start=self.position + 1) if entry.is_told)
            state.first_spoken = next((e.position for e in later if e.position not in state.redelivered), None)
        transcript.touched.append(self.position)
        # the copy gets new expansions
        transcript.withdraw([place for place in state.expanded if place[0] == self.position])


@dataclass(frozen=True)
class HistoryFolded(Fold, Decision):
    """A fold that replaces the previous one."""

    kind = "folded"

    @property
    def is_planned(self) -> bool:
        return True

    def apply(self, transcript: Transcript) -> None:
        state = transcript.state
        transcript.pairing.forget_open_calls(before=self.upto)  # a later result would be folded too
        for position in state.fold_behind(self):
            transcript[position].drop_stored(transcript[position].measured)
        state.show_orders()
        transcript.touched += self.kept  # the previous fold may have hidden them
        transcript.withdraw([place for place in state.expanded if state.is_away(place[0])])

    @property
    def rewrites_prefix(self) -> bool:
        return True

    def changes_from(self, transcript: Transcript) -> int:
        return transcript.state.start

    def keys_shown(self) -> tuple[str, ...]:
        return (self.ref.key,)

    def audit(self, transcript: Transcript) -> list[ContextEvent]:
        start, kept = transcript.state.history_start, tuple[int, ...]()
        for _, before in transcript.decisions(HistoryFolded)[:-1][-1:]:
            start, kept = max(before.upto, start), before.kept
        positions = [p for p in (*kept, *range(start, self.upto)) if p >= transcript.state.start and p not in self.kept]
        entries = [transcript[position] for position in positions]
        tokens = sum(entry.full_tokens for entry in entries)
        return [
            ContextEvent("folded", tuple(keys_of(entries)), f"{self.ref.key}: {self.ref.description}", tokens, "budget")
        ]

    def tally(self) -> dict[str, int]:
        return {"folds": 1}

    def decided(self, transcript: Transcript, earlier: Sequence[Decision]) -> Decided:
        count = self.upto - transcript.state.history_start - len(self.kept)
        return Decided("folded", "budget", count, self.arithmetic)


@dataclass(frozen=True)
class ExpansionShown(Expansion, EntryDecision):
    """Stored content was brought back."""

    kind = "expanded"

    def apply(self, transcript: Transcript) -> None:
        if self.position >= transcript.state.start and not transcript.state.is_away(self.position):
            transcript.state.expand(self, len(transcript.log))
            transcript.touched.append(self.position)

    def replaced(self) -> Decision:
        return replace(self, text="")

    def items_opened(self) -> tuple[OpenedItem, ...]:
        return self.opened

    def audit(self, transcript: Transcript) -> list[ContextEvent]:
        by_reason: dict[str, list[OpenedItem]] = {}
        for opened in self.opened:
            by_reason.setdefault(opened.reason, []).append(opened)
        lines: list[ContextEvent] = []
        for reason, some in by_reason.items():
            why = "; ".join(dict.fromkeys(one.why for one in some))
            detail = why if why.startswith(reason) else f"{reason}: {why}"
            tokens = 0 if lines else self.tokens  # one text shows all
            kind = "recalled" if reason == "recalled" else "expanded"
            lines.append(ContextEvent(kind, tuple(one.key for one in some), detail, tokens, reason))
        return lines

    def tally(self) -> dict[str, int]:
        reasons = [one.reason for one in self.opened]
        return {"expansions": len(reasons) - reasons.count("recalled"), "recalls": int("recalled" in reasons)}


@dataclass(frozen=True)
class ExpansionWithdrawn(Decision):
    """Expansions are no longer shown."""

    kind = "withdrawn"
    places: tuple[tuple[int, str], ...]
    reason: Literal["planned", "budget", "replaced"]
    arithmetic: Arithmetic | None = None

    @property
    def is_planned(self) -> bool:
        return self.reason != "replaced"

    def apply(self, transcript: Transcript) -> None:
        transcript.withdraw(self.places)

    def positions(self) -> tuple[int, ...]:
        return tuple(position for position, _ in self.places)

    def changes_from(self, transcript: Transcript) -> int | None:
        return min(self.positions(), default=None)

    def audit(self, transcript: Transcript) -> list[ContextEvent]:
        shown = {one.place: one for _, one in transcript.decisions(ExpansionShown)}  # newest per place
        keys = [opened.key for place in self.places if place in shown for opened in shown[place].opened]
        return audit_line("withdrawn", keys, self.reason)

    def tally(self) -> dict[str, int]:
        return {"compactions": 1}

    def decided(self, transcript: Transcript, earlier: Sequence[Decision]) -> Decided:
        return Decided("withdrawn", self.reason, len(self.places), self.arithmetic)


@dataclass(frozen=True)
class Offered(OfferedHead, Decision):
    """The prompt in front of the view changed."""

    kind, outlives_clear = "offered", True

    def apply(self, transcript: Transcript) -> None:  # no slot: costs of calls need each one
        transcript.state.slots[self.kind, ""] = self
        transcript.state.reads_much |= self.reason == "past"

    def decided(self, transcript: Transcript, earlier: Sequence[Decision]) -> Decided | None:
        before = next((one.memory_tools for one in reversed(earlier) if isinstance(one, Offered)), ())
        return Decided("offered", self.reason, len(self.memory_tools)) if self.memory_tools != before else None


@dataclass(frozen=True)
class UserMemoryLoaded(Decision):
    """The user's memory as the session shows it from now on, the same bytes to its end.

    Attributes:
        keys: Of the statements, in the order of their lines.
        upto: Unix time of the newest change known then.
        notes_version: Version of the agent's notes.
        place: `tail` for a memory that came after the first view, until the next planned compaction.
    """

    kind, outlives_clear = "user_memory", True
    text: str
    tokens: int
    keys: tuple[str, ...] = ()
    upto: float = 0.0
    notes_version: int = 0
    place: Literal["head", "tail"] = "head"

    def slot(self) -> str:
        return ""

    def memory_keys(self) -> tuple[str, ...]:
        return self.keys

    def audit(self, transcript: Transcript) -> list[ContextEvent]:
        is_first = len(transcript.decisions(UserMemoryLoaded)) == 1
        line = ContextEvent("recalled", self.keys, "user memory", self.tokens, "user memory")
        return [line] if is_first and self.keys else []

    def decided(self, transcript: Transcript, earlier: Sequence[Decision]) -> Decided:
        is_moved = any(isinstance(one, UserMemoryLoaded) for one in earlier)
        reason = "moved to the head" if is_moved else "session start" if self.place == "head" else "late"
        return Decided("user memory", reason, len(self.keys))


@dataclass(frozen=True)
class UserMemoryChanged(Decision):
    """Changes of the user's memory since the session loaded it, shown in the tail; an empty text shows none."""

    kind, outlives_clear = "user_memory_news", True
    text: str
    tokens: int
    keys: tuple[str, ...] = ()

    def slot(self) -> str:
        return ""

    def memory_keys(self) -> tuple[str, ...]:
        return self.keys

    def audit(self, transcript: Transcript) -> list[ContextEvent]:
        line = ContextEvent("recalled", self.keys, "changed user memory", self.tokens, "user memory")
        return [line] if self.keys else []


@dataclass(frozen=True)
class ConnectorStateShown(Decision):
    """The present state of what a connector watches; without text and images it shows none.

    Attributes:
        images: Not saved; the state is captured anew when a session goes on.
    """

    kind = "connector_state"
    connector_id: str
    text: str = ""
    tokens: int = 0
    images: tuple[Image, ...] = ()

    @classmethod
    def of(cls, connector_id: str, elements: Sequence[str | Image], counter: TokenCounter) -> Self:
        texts = [one for one in elements if isinstance(one, str)]
        images = tuple(one for one in elements if isinstance(one, Image))
        if not elements:
            return cls(connector_id)
        body = "\n".join(map(defused, texts))
        text = f'<connector_state id="{connector_id}">\n{body}\n</connector_state>'
        return cls(connector_id, text, counter.count(text), images)

    def slot(self) -> str:
        return self.connector_id

    def logged(self) -> Decision:
        return replace(self, images=()) if self.images else self

    def replaced(self) -> Decision:
        return replace(self, text="")

    def to_json(self, transcript: Transcript, slots: Container[tuple[str, Hashable]]) -> dict[str, Any]:
        return {"kind": self.kind, "connector_id": self.connector_id, "text": self.text, "tokens": self.tokens}


@dataclass(frozen=True)
class LightModelBilled(BilledLightModel, Decision):
    """The light model's calls so far."""

    kind, outlives_clear, stands_in_views = "light_model", True, False

    def slot(self) -> str:
        return ""

    def to_json(self, transcript: Transcript, slots: Container[tuple[str, Hashable]]) -> dict[str, Any]:
        return {**asdict(self.bill), "kind": self.kind}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(_BILL.validate_python(data))
