"""Items as they go into the store and come out of it, their rows, who reads them, and whose words they hold.

User memory is what people said of themselves: preferences and facts that the user or the application stored. It is
recalled as the user's own and never pruned. A model, a tool or an imported file may store the same types: such an item
is labelled as unconfirmed wherever it is shown, and pruned like any other. The code path alone sets an origin.

Secrets are refused until there is a vault: everything stored is plain text, which is searched and shown to models. Rows
of development versions stay readable by their keys, and are in no search, list or export.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, cast, get_args

from memory_context.errors import ItemDamagedError, SecretError
from memory_context.references import MemoryRef
from memory_context.utf8 import ESCAPE, from_utf8, is_plain, to_utf8

__all__ = [
    "SECRET_TYPE",
    "TRUSTED_ORIGINS",
    "USER_TYPES",
    "CallerOrigin",
    "MemoryItem",
    "NewItem",
    "Origin",
    "Reach",
    "ReadScope",
    "Whereabouts",
    "caveat",
    "checked_caller_origin",
    "checked_content",
    "content_of",
    "imported_origin",
    "is_as_stored",
    "item_from_row",
    "refuse_secret",
    "row_params",
    "scope_params",
]

Origin = Literal["user_words", "user_edit", "application", "agent", "tool", "import", "consolidation"]
"""Whose words: the user's own, as said or as edited; the application's; an agent's model's; a tool's or page's; a
file's; or made by the memory from other items."""

CallerOrigin = Literal["application", "agent", "tool", "import"]
"""What a Python call may say of what it stores: the application's own, or something it trusts less."""

TRUSTED_ORIGINS: tuple[Origin, ...] = ("user_words", "user_edit", "application")
"""What these store under a user type is user memory."""

USER_TYPES = ("user_preference", "user_fact")
"""What people said of themselves."""

SECRET_TYPE = "user_secret"

_logger = logging.getLogger("memory_context")

_DAMAGED = (
    "item {!r} is damaged in the database: its content is not what was stored. Restore it from a backup or an export, "
    "or forget it"
)


@dataclass(frozen=True)
class NewItem:
    """An item to store.

    `AgentMemory.store_all` fills in the key and the place; a caller of `MemoryStore.insert_memories` gives them.

    Attributes:
        content: Any str; kept byte for byte.
        description: One line that says what it is.
        token_count: Tokens of the content.
        type: What sort of memory it is, such as "command_output".
        source: Where it came from, such as a tool's name; at most 512 bytes, like `agent_id` and `session_id`.
        tags: Words to find it by.
        related_to: Keys of items it belongs together with.
        metadata: JSON-native data that stays with it.
        origin: Whose words it holds.
        key: Its `memory_key`, unique within the user.
        agent_id: The agent that stores it; empty for none.
        session_id: The session it is stored in; empty for none.
        is_private: Whether only its own agent and session read it. What was stored for all once stays so.
    """

    content: str = field(repr=False)
    description: str
    token_count: int
    type: str = "custom"
    source: str = ""
    tags: Sequence[str] = ()
    related_to: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    origin: Origin = "application"
    key: str = ""
    agent_id: str = ""
    session_id: str = ""
    is_private: bool = False


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
        created_at: When it was stored first, in UTC.
        is_private: Whether only the agent and session that stored it read it.
        origin: Whose words it holds.
        other_keys: Found or listed: other items within reach that have the same content, the newest first, at most 20.
        updated_at: When it was last stored again or changed, in UTC.
        content_bytes: Bytes of the content's UTF-8 form.
        is_active: False once it was forgotten; its content is then empty.
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
    updated_at: datetime | None = None
    content_bytes: int = 0
    is_active: bool = True

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


@dataclass(frozen=True)
class Whereabouts:
    """The owner of an item, and nothing of its content.

    Attributes:
        agent_id: The agent that stored it; empty for none.
        session_id: The session it was stored in; empty for none.
        is_private: Whether only that agent and session read it.
        is_active: False once it was forgotten.
        updated_at: When it was last stored or forgotten, in UTC.
    """

    agent_id: str
    session_id: str
    is_private: bool
    is_active: bool
    updated_at: datetime


def row_params(user_id: str, item: NewItem) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of `upsert_content` and those of `upsert_memory`.

    A content that the driver would escape is kept as bytes, so that the server's hashes and slices are the content's.
    """
    data = to_utf8(item.content)
    is_text = is_plain(item.content) and ESCAPE not in item.content
    same = {"user_id": user_id, "content_bytes": len(data), "content_sha256": hashlib.sha256(data).digest()}
    return {**same, "content": item.content if is_text else None, "content_raw": None if is_text else data}, {
        **same,
        "memory_key": item.key,
        "agent_id": item.agent_id,
        "session_id": item.session_id,
        "memory_type": item.type,
        "source": item.source,
        "summary": item.description,
        "token_count": item.token_count,
        "tags": list(item.tags),
        "related_to": list(item.related_to),
        "metadata": dict(item.metadata),
        "is_private": item.is_private,
        "origin": item.origin,
    }


def item_from_row(row: Mapping[str, Any], content: str = "", label: str = "", *, is_whole: bool = False) -> MemoryItem:
    """Return the item of a row, with as much of its content as was asked for."""
    return MemoryItem(
        ref=MemoryRef(row["memory_key"], row["summary"], row["token_count"]),
        content=content,
        is_whole=is_whole,
        label=label,
        type=row["memory_type"],
        source=row["source"],
        agent_id=row["agent_id"],
        session_id=row["session_id"],
        tags=tuple(row["tags"]),
        related_to=tuple(row["related_to"]),
        metadata=row["content_metadata"],
        created_at=row["created_at"],
        is_private=row["is_private"],
        origin=row["origin"],
        other_keys=tuple(row.get("other_keys", ())),
        updated_at=row["updated_at"],
        content_bytes=row["content_bytes"],
        is_active=row["is_active"],
    )


def content_of(row: Mapping[str, Any]) -> str:
    """Return the content of a row, or the beginning that was asked for; empty for a forgotten item."""
    if row["content_raw"] is not None:
        return from_utf8(bytes(row["content_raw"]))
    return row["content"] or ""


def is_as_stored(data: bytes, row: Mapping[str, Any]) -> bool:
    """Return whether a part of a content that a search shows has its row's hash; a difference is logged."""
    if row["shown_sha256"] is None or hashlib.sha256(data).digest() == bytes(row["shown_sha256"]):
        return True
    _logger.error("%s", _DAMAGED.format(row["memory_key"]))
    return False


def checked_content(memory_key: str, row: Mapping[str, Any], content_sha256: bytes) -> str:
    """Return the whole content of a row, if it is what was stored (30 us for 40 kB); else raise `ItemDamagedError`."""
    raw = row["content_raw"]
    try:
        data = to_utf8(row["content"]) if raw is None else bytes(raw)
        if hashlib.sha256(data).digest() == bytes(content_sha256):
            return content_of(row)
    except (TypeError, ValueError) as error:
        raise ItemDamagedError(_DAMAGED.format(memory_key)) from error
    raise ItemDamagedError(_DAMAGED.format(memory_key))


Reach = Literal["user", "agent", "session"]


@dataclass(frozen=True)
class ReadScope:
    """Who reads a user's items, and how far. The default reads everything that is private to none.

    Private items are read by the agent and session that stored them; only `keys` go beyond that.

    Attributes:
        agent_id: The agent that reads; empty for none.
        session_id: The session it reads in; empty for none.
        reach: Everything of the user, of this agent, or of this agent in this session.
        keys: Exactly these items instead, whoever they are private to; None for no such list.
    """

    agent_id: str = ""
    session_id: str = ""
    reach: Reach = "user"
    keys: tuple[str, ...] | None = None

    @property
    def is_narrow(self) -> bool:
        """Whether it leaves out more than what is private to others."""
        return self.reach != "user" or self.keys is not None


def scope_params(scope: ReadScope) -> dict[str, Any]:
    """Return the parameters of the statements that read items."""
    agent_id, session_id = scope.agent_id, scope.session_id
    return {
        "reader_agent": agent_id,
        "reader_session": session_id,
        "within_agent": None if scope.reach == "user" else agent_id,
        "within_session": session_id if scope.reach == "session" else None,
        "only_keys": None if scope.keys is None else list(scope.keys),
    }


_AUTHORS: dict[str, str] = {
    "agent": "kept by a model",
    "tool": "from a tool",
    "import": "imported",
    "consolidation": "made from other items",
}


def caveat(memory_type: str, origin: str) -> str:
    """Return what to say beside an item whose type claims to be the user's while its origin is not; else ""."""
    if memory_type not in USER_TYPES or origin in TRUSTED_ORIGINS:
        return ""
    return f"{_AUTHORS.get(origin, origin)}, not confirmed by the user"


def checked_caller_origin(origin: object) -> CallerOrigin:
    """Return an origin that a caller gave; `ValueError` for one that a call cannot give."""
    if origin not in get_args(CallerOrigin):
        raise ValueError(
            f"origin={origin!r}: use one of {', '.join(get_args(CallerOrigin))}; a call may lower the trust in what it "
            "stores, never raise it"
        )
    return cast(CallerOrigin, origin)


def imported_origin(fields: Mapping[str, Any], *, is_trusted: bool) -> Origin:
    """Return the origin of an item out of a file: its own if the file is trusted; else no higher than `import`.

    Args:
        fields: The item's record. Those of earlier versions have no origin; what they show of their path tells it.
        is_trusted: Whether whoever imports vouches for the file.
    """
    origin = cast("Origin | None", fields["origin"])
    if origin is None:
        metadata = fields["content_metadata"]
        if fields["source"] == "store_memory":
            origin = "agent"
        elif "message" in metadata:
            is_result = metadata.get("part") == "result" or fields["memory_type"] == "command_output"
            origin = "tool" if is_result else "agent"
        else:
            origin = "application"
    return origin if is_trusted or origin in ("agent", "tool") else "import"


def refuse_secret(memory_type: object) -> None:
    """Raise `SecretError` for the type that the store must not hold in clear; says where to keep it instead."""
    if memory_type == SECRET_TYPE:
        raise SecretError(
            f"type={SECRET_TYPE!r} is refused, since everything stored is plain text that is searched and shown to "
            "models: keep the secret outside of the memory, such as in an environment variable, and store its name only"
        )
