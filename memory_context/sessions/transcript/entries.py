"""Messages of a transcript with their measured parts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from autogen_core import Image
from autogen_core.models import LLMMessage, UserMessage

from memory_context.foundation.messages import Address, image_at, results_of, source_of, text_at, texts_of, with_texts
from memory_context.foundation.references import MemoryRef

__all__ = ["MESSAGE_OVERHEAD_TOKENS", "Entry", "Part", "PartId", "StoredPart"]

MESSAGE_OVERHEAD_TOKENS = 4

PartId = tuple[int, Address]
"""A part of the transcript: the position of its entry and its address in the message."""


@dataclass(frozen=True)
class StoredPart:
    """References and texts of a part whose content is committed.

    Attributes:
        refs: Several for a call's arguments, none for a memory tool's answer.
        compacted: Text once answered, with the placeholder.
        excerpt: First view of a part too long to be shown whole; None once answered.
        excerpt_tokens: Tokens of the first view, also of headline and whole content.
        headline: Line with the key above a whole part; empty once answered.
    """

    refs: tuple[MemoryRef, ...]
    compacted: str
    compacted_tokens: int
    excerpt: str | None = None
    excerpt_tokens: int = 0
    headline: str = ""

    def below_headline(self, text: str) -> str:
        return f"{self.headline}\n{text}" if self.headline else text

    def without_first_view(self) -> "StoredPart":
        return replace(self, excerpt=None, headline="")

    @property
    def facts_tokens(self) -> int:
        """Estimated tokens of `compacted` without its first line."""
        share = 1 - len(self.compacted.partition("\n")[0]) / len(self.compacted)
        return int(self.compacted_tokens * share)


@dataclass
class Part:
    """One measured text or image of a message.

    Attributes:
        overhead_tokens: Tokens of names and ids, never shortened.
        is_result: True if it is a tool result or code output.
        stored: Set once committed.
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
        message: A private copy; texts of parts in `dropped` are only in the store.
        carries_result: True if its text is code output or what a connector observed.
        parts: None until measured; a function of the message, not a decision.
        full_tokens: Uncompacted tokens; 0 until measured.
        journal: The transcript's `touched`.
        unarchived: Dropped texts that no store has, until the archive has them; None once it has the entry.
    """

    position: int
    message: LLMMessage
    added_at: datetime
    carries_result: bool = False
    parts: list[Part] | None = None
    dropped: set[Address] = field(default_factory=set[Address])
    full_tokens: int = 0
    journal: list[int] | None = field(default=None, repr=False)
    unarchived: dict[Address, str] | None = field(default=None, repr=False)
    _by_address: dict[Address, Part] = field(default_factory=dict[Address, Part])

    @property
    def measured(self) -> list[Part]:
        return self.parts or []

    @property
    def is_told(self) -> bool:
        """True if a person or another agent says it."""
        return isinstance(self.message, UserMessage) and not self.carries_result

    def measure(self, parts: list[Part]) -> None:
        self.parts = parts
        self._by_address = {part.address: part for part in parts}
        self.full_tokens = MESSAGE_OVERHEAD_TOKENS + sum(part.tokens + part.overhead_tokens for part in parts)
        self.touch()

    def touch(self) -> None:
        """Have the entry rendered anew."""
        if self.journal is not None:
            self.journal.append(self.position)

    def part(self, address: Address) -> Part:
        return self._by_address[address]

    def tool_of(self, address: Address) -> str:
        """Return a result's tool, or code output's source."""
        if address.kind != "result":
            return source_of(self.message) or "code"
        return results_of(self.message)[address.index].name or "tool"

    def text(self, address: Address) -> str | None:
        """Return a part's text; None for an image, or if only the store has it."""
        return None if address in self.dropped or address.kind == "image" else text_at(self.message, address)

    def image(self, address: Address) -> Image | None:
        """Return a part's image; None if only the store has it, or it is a text."""
        is_held = address.kind == "image" and address not in self.dropped
        return image_at(self.message, address) if is_held else None

    @property
    def unstored_images(self) -> list[tuple[Part, Image]]:
        parts = [part for part in self.measured if part.stored is None and part.address.kind == "image"]
        return [(part, image) for part in parts if (image := self.image(part.address)) is not None]

    @property
    def words(self) -> str:
        """The texts, without calls and results."""
        return "\n".join(text for address, text in texts_of(self.message) if address.kind == "text")

    @property
    def texts(self) -> list[tuple[Address, str]]:
        """The texts of the message, without the places of images that only the store has."""
        images = {address.index for address in self.dropped if address.kind == "image"}
        return [one for one in texts_of(self.message) if one[0].kind != "text" or one[0].index not in images]

    def drop_texts(self, addresses: Iterable[Address]) -> None:
        gone = set(addresses) - self.dropped
        if gone:
            self.message = with_texts(self.message, dict.fromkeys(gone, ""))
            self.dropped |= gone

    def drop_stored(self, parts: Iterable[Part]) -> None:
        self.touch()
        stored = [part for part in parts if part.stored]
        if self.unarchived is not None:
            texts = {part.address: self.text(part.address) for part in stored if part.stored and not part.stored.refs}
            self.unarchived |= {address: text for address, text in texts.items() if text is not None}
        # only long strings of arguments are stored, not their formatting
        self.drop_texts(part.address for part in stored if part.address.kind != "arguments")
        for part in stored:
            part.stored = part.stored and part.stored.without_first_view()

    def restore_texts(self, texts: Mapping[Address, str | Image]) -> None:
        """Take back texts and images from the store."""
        self.message = with_texts(self.message, texts)
        self.dropped -= set(texts)
        self.touch()
