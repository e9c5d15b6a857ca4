"""Items, their rows, read scopes, criteria and origins.

User memory is a user type with a trusted origin; it is never pruned. Secrets are refused: everything is plain text.
"""

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Literal, cast, get_args

from memory_context.foundation.errors import ItemDamagedError, SecretError
from memory_context.foundation.references import MemoryRef, describe_image, one_line
from memory_context.foundation.utf8 import ESCAPE, from_utf8, is_plain, to_utf8

__all__ = [
    "ANYBODY",
    "CONVERSATION_JOB",
    "CONVERSATION_TYPE",
    "RESERVED_METADATA",
    "SECRET_TYPE",
    "TRUSTED_ORIGINS",
    "USER_TYPES",
    "CallerOrigin",
    "MemoryCriteria",
    "MemoryItem",
    "MemoryOrder",
    "NewItem",
    "Origin",
    "Reach",
    "ReadScope",
    "Whereabouts",
    "caveat",
    "checked_caller_origin",
    "checked_content",
    "content_of",
    "criteria_params",
    "imported_origin",
    "is_as_stored",
    "item_from_row",
    "refuse_secret",
    "row_params",
    "scope_params",
    "titled_once",
]

_logger = logging.getLogger("memory_context")

Origin = Literal["user_words", "user_edit", "application", "agent", "tool", "import", "consolidation"]
"""Author: user (said or edited), application, agent's model, tool or page, file, or derived from items."""

CallerOrigin = Literal["application", "agent", "tool", "import"]
"""Origins that a Python call may give: the application's or less trusted ones."""

TRUSTED_ORIGINS: tuple[Origin, ...] = ("user_words", "user_edit", "application")
"""Origins that make a user type user memory."""

USER_TYPES = ("user_preference", "user_fact")
"""Types for statements of users about themselves."""

SECRET_TYPE = "user_secret"

RESERVED_METADATA = frozenset(("quote", "quoted_session", "quoted_at", "confirmed_by", "confirmed_at", "subject"))
"""Metadata of user types that only the code path sets, never a caller."""

CONVERSATION_JOB = "conversation"
"""Makes items of archived messages."""

CONVERSATION_TYPE = "conversation"
"""Archived messages: derived, so nobody stores this type, and listed only on request."""

_TITLE_CHARACTERS = 60
_HEAD_BYTES = 64

_DAMAGED = (
    "item {!r} is damaged in the database: its content is not what was stored. Restore it from a backup or an export, "
    "or forget it"
)


@dataclass(frozen=True)
class NewItem:
    """An item to store; `AgentMemory.store_all` fills in `key`, `agent_id` and `session_id`.

    Attributes:
        content: Any str; kept byte for byte. Of an image, its description.
        data: The bytes of an image, in place of the text; `content_type` is their MIME type then.
        source: Such as a tool's name; at most 512 bytes, like `agent_id` and `session_id`.
        related_to: Keys of linked items.
        metadata: JSON-native data.
        is_private: Only its agent and session read it; a public item stays public.
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
    data: bytes | None = field(default=None, repr=False)
    content_type: str = ""


@dataclass(frozen=True)
class MemoryItem:
    """One stored memory, cut as asked; times are in UTC.

    Attributes:
        content: The content or cut; empty in a listing or once forgotten. Of an image, its description.
        label: Description of the cut, such as `lines 120-180 of`.
        created_at: First storing; `updated_at` is the last storing or change.
        other_keys: At most 20 readable items with the same content, newest first; only if found or listed.
        content_bytes: Size in UTF-8, or of an image.
        is_active: False once forgotten.
        valid_from: Since when a statement of the user holds; None means since `created_at`.
        valid_until: Until when it held; None while it holds.
        superseded_by: Key of the newer statement about the same subject.
        session_title: Only if found by a search.
        data: The bytes of an image, if it was retrieved; None for texts.
        content_type: MIME type of an image; "" for texts.
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
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    superseded_by: str | None = None
    session_title: str = ""
    data: bytes | None = field(default=None, repr=False)
    content_type: str = ""

    def __repr__(self) -> str:
        return f"<MemoryItem {self.key!r} {self.type} from {self.source!r}, {self.ref.token_count:,} tokens>"

    @property
    def key(self) -> str:
        return self.ref.key

    @property
    def is_claim(self) -> bool:
        """True for a preference or fact of the user that neither the user nor the application vouches for."""
        return self.type in USER_TYPES and self.origin not in TRUSTED_ORIGINS

    @property
    def caveat(self) -> str:
        """Warning for user memory that is unconfirmed or superseded, and for messages from a file."""
        said = [caveat(self.type, self.origin)]
        if self.superseded_by:
            said.append(f"no longer holds: superseded by {self.superseded_by}")
        return "; ".join(filter(None, said))

    @property
    def place(self) -> str:
        """The session of a message, for a line about it; "" for other items."""
        if self.type != CONVERSATION_TYPE:
            return ""
        title = one_line(self.session_title, _TITLE_CHARACTERS)
        return f"said in session {self.session_id}{f' ({title})' if title else ''}"

    @property
    def headline(self) -> str:
        """The reference, for a line above `content`: a whole message is not described by its own beginning."""
        is_whole_message = self.type == CONVERSATION_TYPE and self.is_whole and self.content
        return self.ref.headline() if is_whole_message else self.ref.render()


def titled_once(items: Iterable[MemoryItem]) -> list[MemoryItem]:
    """Return items to show together: only the first of a session names its title."""
    seen: set[str] = set()
    titled: list[MemoryItem] = []
    for item in items:
        titled.append(replace(item, session_title="") if item.session_id in seen else item)
        seen.add(item.session_id)
    return titled


@dataclass(frozen=True)
class Whereabouts:
    """The owner of an item, without its content."""

    agent_id: str
    session_id: str
    is_private: bool
    is_active: bool
    updated_at: datetime


def row_params(item: NewItem) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of `upsert_content`, and the columns of an item.

    Content that needs escaping is kept as bytes, so server-side hashes stay correct.
    """
    data = to_utf8(item.content) if item.data is None else item.data
    is_text = item.data is None and is_plain(item.content) and ESCAPE not in item.content
    same = {"content_bytes": len(data), "content_sha256": hashlib.sha256(data).digest()}
    return {**same, "data": data, "is_text": is_text, "content_type": item.content_type or None}, {
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
    """Return the item of a row."""
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
        valid_from=row["valid_from"],
        valid_until=row["valid_until"],
        superseded_by=row["superseded_by"],
        session_title=row.get("session_title") or "",
        content_type=row.get("content_type") or "",
    )


def content_of(row: Mapping[str, Any]) -> str:
    """Return the content in a row, whole or cut; empty if forgotten. Of an image, its description."""
    if row["content_raw"] is not None and row.get("content_type"):
        return describe_image(bytes(row["content_raw"][:_HEAD_BYTES]), row["content_type"], row["content_bytes"])
    if row["content_raw"] is not None:
        return from_utf8(bytes(row["content_raw"]))
    return row["content"] or ""


def is_as_stored(data: bytes, row: Mapping[str, Any]) -> bool:
    """Return whether a shown part has its row's hash; log differences."""
    if row["shown_sha256"] is None or hashlib.sha256(data).digest() == bytes(row["shown_sha256"]):
        return True
    _logger.error("%s", _DAMAGED.format(row["memory_key"]))
    return False


def checked_content(memory_key: str, row: Mapping[str, Any], content_sha256: bytes) -> str:
    """Return a row's whole content; `ItemDamagedError` if its hash differs."""
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
    """Reader and reach; private items need their agent and session.

    Attributes:
        reach: All of the user, this agent, or this agent in this session.
        keys: Exactly these items instead, even others' private ones.
    """

    agent_id: str = ""
    session_id: str = ""
    reach: Reach = "user"
    keys: tuple[str, ...] | None = None

    @property
    def is_narrow(self) -> bool:
        """True if it excludes more than private items."""
        return self.reach != "user" or self.keys is not None


ANYBODY = ReadScope()
"""Reads everything of a user but private items."""


def scope_params(scope: ReadScope) -> dict[str, Any]:
    """Return the parameters of reading statements."""
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
    """Return the warning for a user type without a trusted origin, and for imported messages; else ""."""
    if memory_type == CONVERSATION_TYPE and origin == "import":
        return _AUTHORS[origin]
    if memory_type not in USER_TYPES or origin in TRUSTED_ORIGINS:
        return ""
    return f"{_AUTHORS.get(origin, origin)}, not confirmed by the user"


def checked_caller_origin(origin: object) -> CallerOrigin:
    """Return the origin; `ValueError` for one no call may give."""
    if origin not in get_args(CallerOrigin):
        raise ValueError(
            f"origin={origin!r}: use one of {', '.join(get_args(CallerOrigin))}; a call may lower the trust in what it "
            "stores, never raise it"
        )
    return cast(CallerOrigin, origin)


def imported_origin(fields: Mapping[str, Any]) -> Origin:
    """Return an imported item's origin: a file can be written by anybody, so at most `import`.

    Old records without one are judged by source and metadata.
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
    return origin if origin in ("agent", "tool") else "import"


def refuse_secret(memory_type: object) -> None:
    """Raise `SecretError` for secrets."""
    if memory_type == SECRET_TYPE:
        raise SecretError(
            f"type={SECRET_TYPE!r} is refused, since everything stored is plain text that is searched and shown to "
            "models: keep the secret outside of the memory, such as in an environment variable, and store its name only"
        )


MemoryOrder = Literal["created", "used", "size"]


@dataclass(frozen=True)
class MemoryCriteria:
    """Conditions an item has to meet; `ValueError` for unusable ones. The last four apply to listing only.

    Attributes:
        types: Any of these, like `sources`.
        tags: All of these.
        created_after: First stored, or said, at or after this time, with a timezone.
        related_to: Linked with this key, in either direction.
        conversation: Archived messages only, or all but these; None for both in a search, and for all but these in a
            listing that names no types.
        order_by: `created` (newest first), `used` (last stored again or read) or `size` (most tokens).
        oldest_first: Reverses any order.
    """

    types: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    created_after: datetime | None = None
    created_before: datetime | None = None
    agent_id: str | None = None
    session_id: str | None = None
    related_to: str | None = None
    conversation: bool | None = None
    order_by: MemoryOrder = "created"
    oldest_first: bool = False
    limit: int = 50
    offset: int = 0

    def __post_init__(self) -> None:
        for name in ("types", "sources", "tags"):
            given: Any = getattr(self, name)
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise ValueError(f"{name}={given!r}: use a sequence of str")
            values = tuple(cast(Iterable[Any], given))
            if not all(isinstance(value, str) for value in values):
                raise ValueError(f"{name}={values!r}: use a sequence of str")
            object.__setattr__(self, name, values)
        for name in ("created_after", "created_before"):
            time: Any = getattr(self, name)
            if time is not None and not isinstance(time, datetime):
                raise ValueError(f"{name}={time!r} is no datetime: use datetime(…, tzinfo=timezone.utc)")
            if time is not None and time.tzinfo is None:
                raise ValueError(f"{name}={time!r} has no time zone: use datetime(…, tzinfo=timezone.utc)")
        if self.order_by not in get_args(MemoryOrder):
            raise ValueError(f"order_by={self.order_by!r}: use one of {', '.join(get_args(MemoryOrder))}")
        counts: tuple[Any, Any] = (self.limit, self.offset)
        if not all(isinstance(count, int) for count in counts) or self.limit < 1 or self.offset < 0:
            raise ValueError(f"limit={self.limit!r} must be at least 1, offset={self.offset!r} at least 0")

    def __str__(self) -> str:
        values = ((field.name, getattr(self, field.name), field.default) for field in fields(self))
        return " ".join(f"{name}={value!r}" for name, value, default in values if value != default) or "all"

    @property
    def is_filter(self) -> bool:
        """True if it excludes anything."""
        filters = (self.types, self.sources, self.tags, self.created_after, self.created_before)
        others = (self.agent_id, self.session_id, self.related_to, self.conversation)
        return any(filters) or any(value is not None for value in others)

    @property
    def for_listing(self) -> "MemoryCriteria":
        """The same without messages, unless they are asked for."""
        return self if self.types or self.conversation is not None else replace(self, conversation=False)


def criteria_params(criteria: MemoryCriteria, related_keys: list[str]) -> dict[str, Any]:
    """Return filter parameters."""

    return {
        "types": list(criteria.types) or None,
        "sources": list(criteria.sources) or None,
        "tags": list(criteria.tags) or None,
        "created_after": criteria.created_after,
        "created_before": criteria.created_before,
        "agent_id": criteria.agent_id,
        "session_id": criteria.session_id,
        "related_to": criteria.related_to,
        "related_keys": related_keys,
        "conversation": criteria.conversation,
    }
