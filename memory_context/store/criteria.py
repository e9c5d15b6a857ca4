"""The filter for listing and searching items."""

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any, Literal, cast, get_args

__all__ = ["MemoryCriteria", "MemoryOrder", "criteria_params"]

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
