"""Items as they go into the store and come out of it, and their form as rows.

Promise: whatever the strings hold, a row made here is one that Postgres takes, and reading it gives the same strings.
Content that `text` takes is stored as it is; any other as bytes; the short columns and the metadata are escaped.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from psycopg.types.json import Jsonb

from memory_context.errors import ItemDamagedError
from memory_context.escaping import escape, escape_json, from_utf8, is_plain, to_utf8, unescape, unescape_json

from .provenance import Origin

__all__ = [
    "NewMemory",
    "StoredMemory",
    "Whereabouts",
    "checked_content",
    "content_of",
    "is_as_stored",
    "memory_from_row",
    "row_for",
    "whereabouts_from_row",
]


_logger = logging.getLogger("memory_context")

_DAMAGED = (
    "item {!r} is damaged in the database: its content is not what was stored. Restore it from a backup or an export, "
    "or forget it"
)


@dataclass(frozen=True)
class NewMemory:
    """An item to store.

    Attributes:
        memory_key: Its key, unique within the user.
        content: Any str.
        summary: What it is, for people and models.
        token_count: Tokens of the whole content.
        memory_type: Such as "command_output".
        source: Where it came from, such as a tool's name; at most 512 bytes, like `agent_id` and `session_id`.
        agent_id: Whose item; empty when it belongs to no agent.
        session_id: Of which session; empty when it belongs to none.
        tags: Words to find it by.
        related_to: Keys of items it belongs together with.
        metadata: JSON-native values.
        is_private: Whether only its own agent and session read it. What was stored for all once stays so.
        origin: Whose words it holds.
    """

    memory_key: str
    content: str = field(repr=False)
    summary: str
    token_count: int
    memory_type: str
    source: str = ""
    agent_id: str = ""
    session_id: str = ""
    tags: Sequence[str] = ()
    related_to: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    is_private: bool = False
    origin: Origin = "application"


@dataclass(frozen=True)
class StoredMemory(NewMemory):
    """An item that was stored.

    Attributes:
        content_bytes: Bytes of the content's UTF-8 form.
        created_at: When it was first stored, in UTC.
        updated_at: When it was last stored again or changed, in UTC.
        is_active: False once it was forgotten; its content is then empty.
        other_keys: In lists and searches: the reader's other items with the same content, the newest first, at most 20.
    """

    content_bytes: int = field(kw_only=True)
    created_at: datetime = field(kw_only=True)
    updated_at: datetime = field(kw_only=True)
    is_active: bool = field(kw_only=True)
    other_keys: tuple[str, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True)
class Whereabouts:
    """Whose an item is, and nothing of what is in it.

    Attributes:
        agent_id: The agent that stored it; empty for none.
        session_id: The session it was stored in; empty for none.
        is_private: Whether only that agent and session read it.
        is_active: False once it was forgotten.
        updated_at: When it was stored last or forgotten, in UTC.
    """

    agent_id: str
    session_id: str
    is_private: bool
    is_active: bool
    updated_at: datetime


def row_for(user_id: str, memory: NewMemory) -> dict[str, Any]:
    """Return the parameters of `upsert_memory`."""
    data = to_utf8(memory.content)
    plain = is_plain(memory.content)
    return {
        "user_id": escape(user_id),
        "memory_key": escape(memory.memory_key),
        "agent_id": escape(memory.agent_id),
        "session_id": escape(memory.session_id),
        "memory_type": escape(memory.memory_type),
        "source": escape(memory.source),
        "summary": escape(memory.summary),
        "content": memory.content if plain else None,
        "content_raw": None if plain else data,
        "content_bytes": len(data),
        "token_count": memory.token_count,
        "content_sha256": hashlib.sha256(data).digest(),
        "tags": [escape(tag) for tag in memory.tags],
        "related_to": [escape(key) for key in memory.related_to],
        "metadata": Jsonb(escape_json(dict(memory.metadata))),
        "is_private": memory.is_private,
        "origin": memory.origin,
    }


def memory_from_row(row: Mapping[str, Any]) -> StoredMemory:
    """Return the item of a row; its content is empty where the row has none."""
    return StoredMemory(
        memory_key=unescape(row["memory_key"]),
        content=content_of(row),
        summary=unescape(row["summary"]),
        token_count=row["token_count"],
        memory_type=unescape(row["memory_type"]),
        source=unescape(row["source"]),
        agent_id=unescape(row["agent_id"]),
        session_id=unescape(row["session_id"]),
        tags=tuple(unescape(tag) for tag in row["tags"]),
        related_to=tuple(unescape(key) for key in row["related_to"]),
        metadata=unescape_json(row["content_metadata"]),
        is_private=row["is_private"],
        origin=row["origin"],
        content_bytes=row["content_bytes"],
        created_at=row["created_at"].astimezone(timezone.utc),
        updated_at=row["updated_at"].astimezone(timezone.utc),
        is_active=row["is_active"],
        other_keys=tuple(unescape(key) for key in row.get("other_keys", ())),
    )


def whereabouts_from_row(row: Mapping[str, Any]) -> Whereabouts:
    """Return whose the item of a row is."""
    return Whereabouts(
        agent_id=unescape(row["agent_id"]),
        session_id=unescape(row["session_id"]),
        is_private=row["is_private"],
        is_active=row["is_active"],
        updated_at=row["updated_at"].astimezone(timezone.utc),
    )


def content_of(row: Mapping[str, Any]) -> str:
    """Return the content of a row, or the beginning of it that was asked for; empty for a forgotten item."""
    if row["content_raw"] is not None:
        return from_utf8(bytes(row["content_raw"]))
    return row["content"] or ""


def is_as_stored(data: bytes, row: Mapping[str, Any]) -> bool:
    """Whether a part of a content that a search shows has the hash of its row.

    A difference is logged with the item's name: the search goes on without it.
    """
    if row["shown_sha256"] is None or hashlib.sha256(data).digest() == bytes(row["shown_sha256"]):
        return True
    _logger.error("%s", _DAMAGED.format(unescape(row["memory_key"])))
    return False


def checked_content(memory_key: str, row: Mapping[str, Any], content_sha256: bytes) -> str:
    """Return the whole content of a row, if it is what was stored (30 us for 40 kB).

    Raises:
        ItemDamagedError: It is not.
    """
    raw = row["content_raw"]
    try:
        data = to_utf8(row["content"]) if raw is None else bytes(raw)
        if hashlib.sha256(data).digest() == bytes(content_sha256):
            return content_of(row)
    except (TypeError, ValueError) as error:
        raise ItemDamagedError(_DAMAGED.format(memory_key)) from error
    raise ItemDamagedError(_DAMAGED.format(memory_key))
