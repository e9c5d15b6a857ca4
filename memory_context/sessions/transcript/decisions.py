"""Decisions: recorded events that change the view."""

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import TypeAdapter
from typing_extensions import Self

from .entries import Entry, PartId

if TYPE_CHECKING:
    from memory_context.store.events import EventKind

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
    """Costs and savings of a change, in prices of an ordinary input token.

    Attributes:
        removed_tokens: Reduction of each later view.
        rewritten_tokens: Tokens that the next call reads anew.
        net: Negative if the budget left no choice.
    """

    removed_tokens: int
    rewritten_tokens: int
    expected_calls: int
    net: float


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


@dataclass(frozen=True)
class OpenedItem:
    """One item whose content was brought into the view.

    `reason`: `named` by user or agent, `matched` by a rare term, `model` for the light model, `recalled` for an
    ambiguous request, `added` by AutoGen's Memory.
    """

    key: str
    reason: Literal["named", "matched", "model", "recalled", "added"]
    why: str


_kinds: dict[str, "type[Decision]"] = {}


class Decision:
    """One recorded event; subclasses are frozen dataclasses.

    Attributes:
        kind: Name in saved data.
        outlives_clear: True if a state saved after a clear still contains it.
        stands_in_views: False if no view depends on it: of those in one slot, the newest says everything.
    """

    kind: ClassVar[str]
    outlives_clear: ClassVar[bool] = False
    stands_in_views: ClassVar[bool] = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" not in vars(cls):
            return  # abstract
        if _kinds.setdefault(cls.kind, cls).__qualname__ != cls.__qualname__:
            raise TypeError(f"decision kind {cls.kind!r} is already defined by {_kinds[cls.kind].__qualname__}")
        _kinds[cls.kind] = cls

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

    def positions(self) -> tuple[int, ...]:
        """Return its entries' positions; without any of them it is not saved."""
        return ()

    def moved(self, offset: int) -> "Decision | None":
        """Return it with shifted positions; None: decided anew."""
        return None

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

    def audit(self, transcript: "Transcript") -> list[AuditLine]:
        """Return its audit events, after `apply`."""
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

    def moved(self, offset: int) -> Decision | None:
        return replace(self, position=self.position + offset)


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


def audit_line(kind: "EventKind", keys: Sequence[str], detail: str) -> list[AuditLine]:
    """Return an audit event, or none without keys."""
    return [(kind, keys, detail)] if keys else []


def keys_of(entries: Iterable[Entry]) -> list[str]:
    """Return the keys of these entries."""
    return [ref.key for entry in entries for part in entry.measured if part.stored for ref in part.stored.refs]
