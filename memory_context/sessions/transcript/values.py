"""Values that decisions leave in the state of a transcript."""

from dataclasses import dataclass, field
from typing import Literal

from memory_context.foundation.light_model.usage import LightModelBill
from memory_context.foundation.messages import Address
from memory_context.foundation.references import MemoryRef

__all__ = [
    "Arithmetic",
    "BilledLightModel",
    "ChosenBy",
    "ConnectorSubjects",
    "Expansion",
    "Fold",
    "MaskedPart",
    "OfferedHead",
    "OpenedItem",
    "ShortenedPart",
    "StandingOrder",
    "ToolsReason",
]

ChosenBy = Literal["compactor", "model", "age", "newer"]
"""The chooser of a result's compacted text."""

ToolsReason = Literal["", "always", "offload", "fold", "memory", "past", "asked"]


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
class OpenedItem:
    """One item whose content was brought into the view.

    `reason`: `named` by user or agent, `matched` by a rare term, `model` for the light model, `recalled` for an
    ambiguous request, `added` by AutoGen's Memory.
    """

    key: str
    reason: Literal["named", "matched", "model", "recalled", "added"]
    why: str


@dataclass(frozen=True)
class Fold:
    """One placeholder shows entries before `upto`, except `kept`."""

    upto: int
    kept: tuple[int, ...]
    ref: MemoryRef
    text: str
    tokens: int
    arithmetic: Arithmetic | None = None


@dataclass(frozen=True)
class Expansion:
    """Stored content that was brought back after the message at `position`.

    Attributes:
        text: Empty in the log once withdrawn; `tokens` remains.
        origin: A turn, AutoGen's Memory, or the notice that the session's history could not be read yet.
        owner: The memory. A message has one expansion per origin and owner.
    """

    position: int
    text: str
    tokens: int
    opened: tuple[OpenedItem, ...]
    origin: Literal["turn", "memory", "history"] = "turn"
    owner: str = ""

    @property
    def place(self) -> tuple[int, str]:
        return self.position, f"{self.origin} {self.owner}".strip()


@dataclass(frozen=True)
class ShortenedPart:
    """A part that is shown as this text to fit the budget."""

    position: int
    address: Address
    text: str
    tokens: int


@dataclass(frozen=True)
class MaskedPart:
    """A result whose shown text has its credentials masked.

    Attributes:
        characters: Length of that text; in another one masks are decided anew.
        masks: Start and end of each credential, and what stands for it.
        tokens: Of the masked text.
    """

    position: int
    address: Address
    characters: int
    masks: tuple[tuple[int, int, str], ...]
    tokens: int

    def masked(self, shown: str) -> str:
        """Return the text with masks."""
        pieces: list[str] = []
        done = 0
        for start, end, mask in self.masks:
            pieces += (shown[done:start], mask)
            done = end
        return "".join([*pieces, shown[done:]])


@dataclass(frozen=True)
class OfferedHead:
    """The prompt in front of the view, as far as known.

    Attributes:
        memory_tools: Their names; once offered, they stay.
        reason: `always`, since the user has `memory`, for references after an `offload`, or for messages behind a
            `fold` or observations, too; else empty.
        instructions_tokens: Those about the memory in the system message.
        system_tokens: The rest of the system message.
    """

    memory_tools: tuple[str, ...] = ()
    reason: ToolsReason = ""
    memory_tools_tokens: int = 0
    instructions_tokens: int = 0
    own_tools_tokens: int = 0
    system_tokens: int = 0

    @property
    def own_tokens(self) -> int:
        return self.own_tools_tokens + self.system_tokens

    @property
    def tokens(self) -> int:
        return self.memory_tools_tokens + self.instructions_tokens + self.own_tokens


@dataclass(frozen=True)
class BilledLightModel:
    """The calls of the light model for a session."""

    bill: LightModelBill


@dataclass(frozen=True)
class StandingOrder:
    """One rule, correction, preference or decision of the user, verbatim. `position`: of the message that said it."""

    position: int
    text: str
    tokens: int


@dataclass
class ConnectorSubjects:
    """The observations of subjects in the view, by position.

    Attributes:
        newest: Position of the newest observation of each name.
        superseded: Older observations with the newer ones, as long as views may show more than a line of them.
        unchanged: Observations with the newest lines that say that they still hold.
        names: Connector and subject of an observation; `digests`: of its text.
    """

    newest: dict[str, int] = field(default_factory=dict[str, int])
    superseded: dict[int, int] = field(default_factory=dict[int, int])
    unchanged: dict[int, int] = field(default_factory=dict[int, int])
    names: dict[int, str] = field(default_factory=dict[int, str])
    digests: dict[int, str] = field(default_factory=dict[int, str])

    def is_newest(self, position: int) -> bool:
        name = self.names.get(position)
        return name is not None and self.newest[name] == position
