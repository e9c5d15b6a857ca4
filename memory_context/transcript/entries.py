"""What a transcript holds: entries (messages with their measured parts) and decisions.

A decision is a recorded event that changes how the view is rendered. Decisions are values, taken once and kept: the
same entries and decisions always render the same bytes, in this process and after a load in another.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from autogen_core.models import LLMMessage

from ..light_model import LightModelBill
from ..messages import Address, results_of, source_of, text_at, with_texts
from ..references import MemoryRef

__all__ = [
    "Arithmetic",
    "ChosenBy",
    "CompactedTextChosen",
    "Decision",
    "Entry",
    "ExpansionShown",
    "ExpansionWithdrawn",
    "HistoryFolded",
    "MessageRedelivered",
    "Offered",
    "OpenedItem",
    "Part",
    "PartId",
    "PartOffloaded",
    "PartShortened",
    "PartsCompacted",
    "RepeatFound",
    "StoredPart",
    "ViewCleared",
    "ViewShown",
]

MESSAGE_OVERHEAD_TOKENS = 4

PartId = tuple[int, Address]
"""A part of the transcript: the position of its entry and its address in the message."""


@dataclass(frozen=True)
class StoredPart:
    """What the process keeps of a part whose content is committed.

    Attributes:
        refs: The items it went to: one, or one for each long string of a call's arguments; none for the answer of a
            memory tool, whose content is stored already.
        compacted: What is shown once the part is consumed, placeholder included.
        excerpt: What is shown first when the part is too long to be shown in full; None if it is not, or no more.
        excerpt_tokens: What that takes, or took; of a part shown whole below a headline, what both take.
        headline: The line above a part that is shown whole, which names its key; empty for none, or no more.
    """

    refs: tuple[MemoryRef, ...]
    compacted: str
    compacted_tokens: int
    excerpt: str | None = None
    excerpt_tokens: int = 0
    headline: str = ""

    def below_headline(self, text: str) -> str:
        """Return a text as it is shown whole: below the headline, if there is one."""
        return f"{self.headline}\n{text}" if self.headline else text

    @property
    def facts_tokens(self) -> int:
        """About what the lines below the first one of `compacted` take."""
        share = 1 - len(self.compacted.partition("\n")[0]) / len(self.compacted)
        return int(self.compacted_tokens * share)


@dataclass
class Part:
    """One measured text (or image) of a message.

    Attributes:
        tokens: Tokens of the whole of it; stays when the text is dropped.
        overhead_tokens: Tokens of names and ids beside it, which are never shortened.
        is_result: Whether it is a tool result (or code output), which is compacted once consumed.
        stored: What is kept once the content is committed; None before.
    """

    address: Address
    tokens: int
    overhead_tokens: int = 0
    is_result: bool = False
    stored: StoredPart | None = None


@dataclass(eq=False)
class Entry:
    """One message of the transcript.

    Attributes:
        position: Its place, from 0, for ever.
        message: A private copy; the texts of parts in `dropped` are blank.
        added_at: When it came, in UTC.
        carries_result: Whether its text is the output of code that the message before it asked to run.
        parts: Its texts, measured; None until then. Measuring is a function of the message, not a decision.
        full_tokens: Tokens of the message as it came; 0 until measured.
        dropped: Parts whose text is only in the store now.
        journal: Where the transcript notes which entries are to be rendered anew; None until it has taken the entry.
    """

    position: int
    message: LLMMessage
    added_at: datetime
    carries_result: bool = False
    parts: list[Part] | None = None
    dropped: set[Address] = field(default_factory=set[Address])
    full_tokens: int = 0
    journal: list[int] | None = field(default=None, repr=False)
    _by_address: dict[Address, Part] = field(default_factory=dict[Address, Part])

    @property
    def measured(self) -> list[Part]:
        """The parts; empty while not measured."""
        return self.parts or []

    def measure(self, parts: list[Part]) -> None:
        """Take the measured parts."""
        self.parts = parts
        self._by_address = {part.address: part for part in parts}
        self.full_tokens = MESSAGE_OVERHEAD_TOKENS + sum(part.tokens + part.overhead_tokens for part in parts)
        self.touch()

    def touch(self) -> None:
        """Have the entry rendered anew: how it is shown has changed."""
        if self.journal is not None:
            self.journal.append(self.position)

    def part(self, address: Address) -> Part:
        """Return the part at an address of this message."""
        return self._by_address[address]

    def tool_of(self, address: Address) -> str:
        """Return the name of the tool that a result came from, or the source of the output of code."""
        if address.kind != "result":
            return source_of(self.message) or "code"
        return results_of(self.message)[address.index].name or "tool"

    def text(self, address: Address) -> str | None:
        """Return what a part says; None if only the store has it."""
        return None if address in self.dropped else text_at(self.message, address)

    def drop_texts(self, addresses: Iterable[Address]) -> None:
        """Forget texts that the view no longer shows and the store has."""
        gone = set(addresses) - self.dropped
        if gone:
            self.message = with_texts(self.message, dict.fromkeys(gone, ""))
            self.dropped |= gone

    def restore_texts(self, texts: dict[Address, str]) -> None:
        """Take texts back that were dropped, as they came from the store."""
        self.message = with_texts(self.message, texts)
        self.dropped -= set(texts)
        self.touch()


@dataclass(frozen=True)
class PartOffloaded:
    """The content of a part is committed. In the log `stored` has no excerpt; the entry's part has it while fresh."""

    position: int
    address: Address
    stored: StoredPart
    kind: Literal["offloaded"] = "offloaded"


@dataclass(frozen=True)
class ViewShown:
    """A view was handed out that reached to `upto` (exclusive)."""

    upto: int
    kind: Literal["shown"] = "shown"


@dataclass(frozen=True)
class Arithmetic:
    """What a change of the view costs with a prompt cache, in prices of an ordinary input token.

    Attributes:
        removed_tokens: How much smaller each later view is.
        rewritten_tokens: What the next call reads anew although it has not changed, or only became shorter.
        expected_calls: How many calls were expected to follow.
        net: What is saved in all, less what it costs; negative if the budget left no choice.
    """

    removed_tokens: int
    rewritten_tokens: int
    expected_calls: int
    net: float


@dataclass(frozen=True)
class PartsCompacted:
    """These parts are shown compacted from now on.

    `reason` is `consumed` for results that were answered just now, which rewrites nothing cached; `saves` where going
    further back pays; `aged` where the oldest facts make room; `budget` for a view that was too large; `unavailable`
    for results that a load could not fetch. (`late` was recorded by earlier versions.)
    """

    parts: tuple[PartId, ...]
    reason: Literal["consumed", "saves", "aged", "late", "budget", "unavailable"]
    arithmetic: Arithmetic | None = None
    kind: Literal["compacted"] = "compacted"

    @property
    def is_planned(self) -> bool:
        """Whether it changes more than what came last."""
        return self.reason != "consumed"


ChosenBy = Literal["compactor", "model", "age"]


@dataclass(frozen=True)
class CompactedTextChosen:
    """What a part is compacted to: chosen when it was answered, summarised by a model later, or less of it with age.

    It shows with a compaction, never by itself. A `description` is what the item is called from now on.
    """

    position: int
    address: Address
    text: str
    tokens: int
    by: ChosenBy = "compactor"
    description: str = ""
    kind: Literal["retained"] = "retained"


@dataclass(frozen=True)
class HistoryFolded:
    """Entries before `upto`, except `kept`, are shown as one placeholder. Replaces the fold before it."""

    upto: int
    kept: tuple[int, ...]
    ref: MemoryRef
    text: str
    tokens: int
    arithmetic: Arithmetic | None = None
    kind: Literal["folded"] = "folded"


@dataclass(frozen=True)
class PartShortened:
    """A part is shown as this shorter text, because not even the newest step fitted the budget whole."""

    position: int
    address: Address
    text: str
    tokens: int
    kind: Literal["shortened"] = "shortened"


@dataclass(frozen=True)
class ViewCleared:
    """The view begins after this position."""

    position: int
    kind: Literal["cleared"] = "cleared"


@dataclass(frozen=True)
class MessageRedelivered:
    """The unanswered message at `position` came again after a failed run; views show the copy at `again_at` instead.

    Earlier versions added no copy and recorded `again_at=None`, which changes nothing.
    """

    position: int
    again_at: int | None = None
    kind: Literal["redelivered"] = "redelivered"


@dataclass(frozen=True)
class OpenedItem:
    """One item of an expansion.

    Attributes:
        key: The item.
        reason: Named (by the user or the agent), matched (a rare term), model (chosen by the light model), recalled
            (the request was ambiguous), added (by AutoGen's Memory protocol).
        why: The reason in a few words.
    """

    key: str
    reason: Literal["named", "matched", "model", "recalled", "added"]
    why: str


@dataclass(frozen=True)
class ExpansionShown:
    """Stored content was brought back into the view, after the message at `position`.

    Attributes:
        text: What is shown; empty once it is withdrawn.
        tokens: What that takes, or took.
        opened: The items in it, and why.
        origin: Who brought it: the turn's decision, AutoGen's Memory protocol, or the session, which says that its
            history could not be read yet.
        owner: Of several memories behind that protocol: which one. One of each origin and owner stands after a message.
    """

    position: int
    text: str
    tokens: int
    opened: tuple[OpenedItem, ...]
    origin: Literal["turn", "memory", "history"] = "turn"
    owner: str = ""
    kind: Literal["expanded"] = "expanded"

    @property
    def place(self) -> tuple[int, str]:
        """What tells it from other expansions in force."""
        return self.position, f"{self.origin} {self.owner}".strip()


@dataclass(frozen=True)
class ExpansionWithdrawn:
    """Expansions are no longer shown; their items stay where they are. `places` are those of `Expanded`."""

    places: tuple[tuple[int, str], ...]
    reason: Literal["planned", "budget", "replaced"]
    arithmetic: Arithmetic | None = None
    kind: Literal["withdrawn"] = "withdrawn"


@dataclass(frozen=True)
class RepeatFound:
    """A large text repeats what is stored, and is no item itself: it stays in the transcript.

    Attributes:
        keys: The items it repeats, as far as they are known.
    """

    position: int
    address: Address
    keys: tuple[str, ...]
    kind: Literal["repeated"] = "repeated"


@dataclass(frozen=True)
class Offered:
    """What stands before the view in each model call from now on, as far as it is known; in tokens.

    Attributes:
        memory_tools: Names of the memory tools that the model is offered; once offered, they stay.
        reason: Why: the agent has them `always`, or its workbench offers them since the first `offload`, or since the
            user has `memory`; empty as long as they are not offered.
        memory_tools_tokens: The schemas of the memory tools.
        instructions_tokens: What the system message says of the memory.
        own_tools_tokens: The schemas of the agent's own tools.
        system_tokens: The rest of the system message.
    """

    memory_tools: tuple[str, ...] = ()
    reason: Literal["", "always", "offload", "memory"] = ""
    memory_tools_tokens: int = 0
    instructions_tokens: int = 0
    own_tools_tokens: int = 0
    system_tokens: int = 0
    kind: Literal["offered"] = "offered"

    @property
    def own_tokens(self) -> int:
        """What the agent would send with any other context, too."""
        return self.own_tools_tokens + self.system_tokens

    @property
    def tokens(self) -> int:
        """All of it."""
        return self.memory_tools_tokens + self.instructions_tokens + self.own_tokens


Decision = (
    PartOffloaded
    | ViewShown
    | CompactedTextChosen
    | PartsCompacted
    | HistoryFolded
    | PartShortened
    | ExpansionShown
    | ExpansionWithdrawn
    | ViewCleared
    | MessageRedelivered
    | RepeatFound
    | Offered
    | LightModelBill
)
