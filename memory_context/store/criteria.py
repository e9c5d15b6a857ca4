"""The filter of items, for listing and searching alike."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Literal, cast, get_args

__all__ = ["MemoryCriteria", "MemoryOrder", "criteria_params"]

MemoryOrder = Literal["created", "used", "size"]


@dataclass(frozen=True)
class MemoryCriteria:
    """What an item has to be; whatever is not set does not count.

    Attributes:
        types: One of these memory types.
        sources: One of these sources, such as tool names.
        tags: All of these tags.
        created_after: Stored first at this time or later; a datetime with a time zone.
        created_before: Stored first before this time; a datetime with a time zone.
        agent_id: Stored by this agent.
        session_id: Stored in this session.
        related_to: Linked with the item of this key, in either direction.
        order_by: Listing only: by when they were stored first (created), last stored again or read (used), or by their
            tokens (size); the newest, last used or largest come first.
        oldest_first: Listing only: the other way round; the oldest, longest unused or smallest come first.
        limit: Listing only: how many at most.
        offset: Listing only: how many to leave out at the beginning.

    Raises:
        ValueError: A str where several values are meant, what is no time or has no zone, an unknown order, a limit or
            offset that is no count.
    """

    types: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    created_after: datetime | None = None
    created_before: datetime | None = None
    agent_id: str | None = None
    session_id: str | None = None
    related_to: str | None = None
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
        """Return the criteria that are set, such as `types=('custom',) limit=5`; `all` for none."""
        values = ((field.name, getattr(self, field.name), field.default) for field in fields(self))
        return " ".join(f"{name}={value!r}" for name, value, default in values if value != default) or "all"

    @property
    def is_filter(self) -> bool:
        """Whether it leaves anything out."""
        filters = (self.types, self.sources, self.tags, self.created_after, self.created_before)
        return any(filters) or any(value is not None for value in (self.agent_id, self.session_id, self.related_to))


def criteria_params(criteria: MemoryCriteria, related_keys: list[str]) -> dict[str, Any]:
    """Return the parameters of the statements that filter.

    Args:
        criteria: What is asked for.
        related_keys: The keys that the item of `criteria.related_to` was linked to when it was stored.
    """

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
    }
