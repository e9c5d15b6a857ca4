"""Decisions: recorded events that change the rendering of the view. A new kind is one subclass of `Decision`."""

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import TypeAdapter
from typing_extensions import Self

from .entries import Entry, PartId

if TYPE_CHECKING:
    from ..store.events import EventKind
    from .transcript import Transcript

__all__ = [
    "Arithmetic",
    "AuditLine",
    "Decided",
    "Decision",
    "EntryDecision",
    "OpenedItem",
    "audit_line",
    "decision_from_json",
    "keys_of",
]

AuditLine = tuple["EventKind", Sequence[str], str]
"""Kind of the audit event, memory keys, detail."""


@dataclass(frozen=True)
class Arithmetic:
    """Costs and savings of a change of the view with a prompt cache, in prices of an ordinary input token.

    Attributes:
        removed_tokens: How much smaller each later view is.
        rewritten_tokens: Unchanged or shortened tokens that the next call reads anew.
        expected_calls: Calls that were expected to follow.
        net: Total saving less the cost; negative if the budget left no choice.
    """

    removed_tokens: int
    rewritten_tokens: int
    expected_calls: int
    net: float


@dataclass(frozen=True)
class Decided:
    """A decision that changed the view.

    Attributes:
        what: compacted, folded, withdrawn, offered, or another word of a decision kind.
        reason: Such as `consumed`, `saves` or `budget`; `offload` or `memory` for memory tools.
        count: Number of parts, messages, expansions or memory tools.
        arithmetic: Costs and savings; None where they were not computed.
    """

    what: str
    reason: str
    count: int
    arithmetic: Arithmetic | None = None

    def __str__(self) -> str:
        """Return it in a line."""
        head = f"{self.what} {self.count} ({self.reason})"
        if self.arithmetic is None:
            return head
        a = self.arithmetic
        return (
            f"{head}: {a.removed_tokens:,} tokens less in each of {a.expected_calls:,} calls expected, "
            f"{a.rewritten_tokens:,} read anew once; net {a.net:+,.0f}"
        )


@dataclass(frozen=True)
class OpenedItem:
    """One item whose content was brought into the view.

    Attributes:
        reason: named (by the user or the agent), matched (a rare term), model (chosen by the light model), recalled
            (the request was ambiguous), added (by AutoGen's Memory protocol).
        why: The reason in a few words.
    """

    key: str
    reason: Literal["named", "matched", "model", "recalled", "added"]
    why: str


_kinds: dict[str, "type[Decision]"] = {}


class Decision:
    """One recorded event; a subclass is a frozen dataclass that overrides what concerns it.

    Attributes:
        kind: Name of the kind in saved data.
        outlives_clear: Whether a state that is saved after a clear still has it.
    """

    kind: ClassVar[str]
    outlives_clear: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" not in vars(cls):
            return  # a base of kinds
        if _kinds.setdefault(cls.kind, cls).__qualname__ != cls.__qualname__:
            raise TypeError(f"decision kind {cls.kind!r} is already defined by {_kinds[cls.kind].__qualname__}")
        _kinds[cls.kind] = cls

    # --- effect

    def apply(self, transcript: "Transcript") -> None:
        """Take effect. `TranscriptState.newest` finds a decision with a slot without this."""

    def slot(self) -> Hashable | None:
        """Return its slot; it replaces the decision before of its kind and slot, also in saved data."""
        return None

    def logged(self) -> "Decision":
        """Return the form that the log keeps."""
        return self

    def replaced(self) -> "Decision":
        """Return that form once another decision has its slot."""
        return self

    # --- saving

    def positions(self) -> tuple[int, ...]:
        """Return the positions of its entries; without any of them it is not saved."""
        return ()

    def moved(self, offset: int) -> "Decision | None":
        """Return it for entries that stand `offset` further back; None if it is decided anew."""
        return None

    def to_json(self, transcript: "Transcript", slots: Container[tuple[str, Hashable]]) -> dict[str, Any]:
        """Return its saved form; `slots` has kind and slot of each decision saved with it."""
        return {**asdict(self), "kind": self.kind}  # pyright: ignore[reportArgumentType] # subclasses are dataclasses

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the decision of a saved form."""
        return _adapter(cls).validate_python({name: value for name, value in data.items() if name != "kind"})

    # --- reports

    def items_opened(self) -> tuple[OpenedItem, ...]:
        """Return the items that it brings into the view."""
        return ()

    def keys_shown(self) -> tuple[str, ...]:
        """Return the keys that it shows to the agent."""
        return tuple(one.key for one in self.items_opened())

    def memory_keys(self) -> tuple[str, ...]:
        """Return the items that a batch with this decision refers to."""
        return tuple(one.key for one in self.items_opened())

    def audit(self, transcript: "Transcript") -> list[AuditLine]:
        """Return its audit events; called when it has taken effect."""
        return []

    def tally(self) -> dict[str, int]:
        """Return increments of fields of `ContextStats`."""
        return {}

    def decided(self, transcript: "Transcript", earlier: "Sequence[Decision]") -> Decided | None:
        """Return its line in `explain()`; `earlier` are the decisions before the last view."""
        return None

    def reasons(self) -> dict[PartId, str]:
        """Return the reason of each part it changed, for `explain()`."""
        return {}

    def changes_from(self, transcript: "Transcript") -> int | None:
        """Return the first position that a planned change renders anew."""
        return None


@dataclass(frozen=True)
class EntryDecision(Decision):
    """A decision about the entry at `position`, wherever that moves."""

    position: int

    def positions(self) -> tuple[int, ...]:
        return (self.position,)

    def moved(self, offset: int) -> Decision | None:
        return replace(self, position=self.position + offset)


@cache
def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def decision_from_json(data: Mapping[str, Any]) -> Decision:
    """Return the decision of a saved form.

    Raises:
        ValueError: The kind is unknown, or the data does not fit.
    """
    kind = _kinds.get(data["kind"])
    if kind is None:
        raise ValueError(
            f"unknown decision kind {data['kind']!r}: a newer memory_context saved it, or the module that defines it "
            "is not imported"
        )
    return kind.from_json(data)


def audit_line(kind: "EventKind", keys: Sequence[str], detail: str) -> list[AuditLine]:
    """Return an audit event, or none without keys."""
    return [(kind, keys, detail)] if keys else []


def keys_of(entries: Iterable[Entry]) -> list[str]:
    """Return the items of these entries."""
    return [ref.key for entry in entries for part in entry.measured if part.stored for ref in part.stored.refs]
