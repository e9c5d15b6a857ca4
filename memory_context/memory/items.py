"""What an item is before and after it is stored."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from ..references import KEY_PATTERN, MemoryRef, memory_key_for, one_line
from ..store import NewMemory, Origin, caveat, refuse_secret
from ..utf8 import to_utf8

__all__ = [
    "KNOWN_TYPES",
    "MAX_CONTENT_BYTES",
    "SUFFIX_LENGTHS",
    "TYPE_LIMIT_CHARACTERS",
    "Draft",
    "MemoryItem",
    "MemoryType",
    "as_json",
    "check_draft",
    "is_too_large",
    "item_of",
    "new_memories",
]

if TYPE_CHECKING:
    from ..store import StoredMemory


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


SUFFIX_LENGTHS = (6, 10, 20)
"""Characters of a key's suffix, tried in order. When all are taken, as by forgotten items, a random key follows."""

_TYPE = re.compile(r"\w[\w.-]*")


def _is_type(memory_type: Any) -> bool:
    if not isinstance(memory_type, str) or not _TYPE.fullmatch(memory_type):
        return False
    return len(to_utf8(memory_type)) <= TYPE_LIMIT_CHARACTERS  # of a row, in bytes


def is_too_large(text: str) -> bool:
    """Whether a content is larger than an item takes."""
    return len(text) * 4 > MAX_CONTENT_BYTES and len(to_utf8(text)) > MAX_CONTENT_BYTES


def as_json(name: str, value: Any) -> str:
    """Return a value as JSON says it.

    Raises:
        ValueError: It cannot; the text names what was given.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"cannot store {name} of type {type(value).__name__}: JSON cannot say it ({error})") from error


def check_draft(memory_type: str, source: Any, tags: Any, related_to: Any, metadata: Any) -> None:
    """Refuse what a row would not give back as it was.

    Raises:
        SecretError: The type is that of secrets.
        ValueError: Says what is wrong and what to send.
    """
    refuse_secret(memory_type)
    if memory_type not in KNOWN_TYPES and not _is_type(memory_type):
        raise ValueError(
            f"type={memory_type!r}: use one of {', '.join(KNOWN_TYPES)}, or a word of your own of up to "
            f"{TYPE_LIMIT_CHARACTERS} letters, digits, _, - and ."
        )
    if source is not None and not isinstance(source, str):
        raise ValueError(f"source={source!r}: use a str, such as the name of a tool")
    if isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError(f"tags={tags!r}: use a sequence of str")
    if isinstance(related_to, str) or not all(
        isinstance(key, str) and KEY_PATTERN.fullmatch(key) for key in related_to
    ):
        raise ValueError(f"related_to={related_to!r}: use a sequence of memory keys")
    if metadata is not None and json.loads(as_json("metadata", dict(metadata))) != dict(metadata):
        raise ValueError(f"metadata={metadata!r}: use what JSON gives back as it was, so str keys and no tuples")


def new_memories(
    drafts: Sequence[Draft], agent_id: str, session_id: str, is_private: bool, suffix_length: int | None
) -> list[NewMemory]:
    """Return the rows of drafts, with their keys; a suffix length of None makes random keys."""
    salt = () if suffix_length else (uuid4().hex,)
    return [
        NewMemory(
            memory_key=memory_key_for(
                draft.source,
                (agent_id, session_id, draft.type, *salt),
                draft.content,
                suffix_length or SUFFIX_LENGTHS[-1],
            ),
            content=draft.content,
            summary=one_line(draft.description),
            token_count=draft.token_count,
            memory_type=draft.type,
            source=one_line(draft.source, 100),
            agent_id=agent_id,
            session_id=session_id,
            tags=draft.tags,
            related_to=draft.related_to,
            metadata=draft.metadata,
            is_private=is_private,
            origin=draft.origin,
        )
        for draft in drafts
    ]
