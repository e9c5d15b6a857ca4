"""What an item is before and after it is stored."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ..references import MemoryRef
from ..store import Origin, caveat

if TYPE_CHECKING:
    from ..store import StoredMemory

__all__ = [
    "KNOWN_TYPES",
    "MAX_CONTENT_BYTES",
    "TYPE_LIMIT_CHARACTERS",
    "Draft",
    "MemoryItem",
    "MemoryType",
    "item_of",
]

MAX_CONTENT_BYTES = 256 * 1024 * 1024
"""The largest content an item takes, in UTF-8: Postgres takes 1 GB, less what a query needs around it."""

KNOWN_TYPES = (
    "action_result",
    "web_content",
    "database_result",
    "command_output",
    "user_preference",
    "user_fact",
    "session_summary",
    "article",
    "custom",
)
"""The types that have a meaning here; any other word is an application's own."""
TYPE_LIMIT_CHARACTERS = 64
MemoryType = str
"""A word of up to 64 characters: one of `KNOWN_TYPES`, or an application's own, which is kept until it is forgotten."""


@dataclass(frozen=True)
class Draft:
    """An item to be stored.

    Attributes:
        content: What is stored, byte for byte.
        description: One line that says what it is.
        token_count: Tokens of the content.
        type: What sort of memory it is.
        source: Where it came from, such as a tool's name; the key is made from it.
        tags: Words to find it by.
        related_to: Keys of items it belongs together with.
        metadata: JSON-native data that stays with it.
        origin: Whose words it holds.
    """

    content: str
    description: str
    token_count: int
    type: MemoryType = "custom"
    source: str = ""
    tags: tuple[str, ...] = ()
    related_to: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    origin: Origin = "application"


@dataclass(frozen=True)
class MemoryItem:
    """One stored memory, cut as asked.

    Attributes:
        ref: Its reference.
        content: The content, or the cut that was asked for; empty in a listing.
        is_whole: Whether `content` is all of it.
        label: What the cut shows, such as `lines 120-180 of`, or `all of`; empty in a listing.
        type: What sort of memory it is.
        source: Where it came from.
        agent_id: The agent that stored it.
        session_id: The session it was stored in.
        tags: Words to find it by.
        related_to: Keys of items it belongs together with.
        metadata: JSON-native data that stays with it.
        created_at: When it was stored first.
        is_private: Whether only the agent and session that stored it read it.
        origin: Whose words it holds.
        other_keys: Found or listed: other items within reach that have the same content, the newest first.
    """

    ref: MemoryRef
    content: str
    is_whole: bool
    label: str
    type: str
    source: str
    agent_id: str
    session_id: str
    tags: tuple[str, ...]
    related_to: tuple[str, ...]
    metadata: Mapping[str, Any]
    created_at: datetime
    is_private: bool = False
    origin: Origin = "application"
    other_keys: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<MemoryItem {self.key!r} {self.type} from {self.source!r}, {self.ref.token_count:,} tokens>"

    @property
    def key(self) -> str:
        """Its memory_key."""
        return self.ref.key

    @property
    def caveat(self) -> str:
        """What to say beside it, if its type says that it is the user's own and nothing bears that out; else ""."""
        return caveat(self.type, self.origin)


def item_of(stored: "StoredMemory", content: str, is_whole: bool, label: str) -> MemoryItem:
    """Return a stored item with as much of its content as was asked for."""
    return MemoryItem(
        ref=MemoryRef(stored.memory_key, stored.summary, stored.token_count),
        content=content,
        is_whole=is_whole,
        label=label,
        type=stored.memory_type,
        source=stored.source,
        agent_id=stored.agent_id,
        session_id=stored.session_id,
        tags=tuple(stored.tags),
        related_to=tuple(stored.related_to),
        metadata=stored.metadata,
        created_at=stored.created_at,
        is_private=stored.is_private,
        origin=stored.origin,
        other_keys=stored.other_keys,
    )
