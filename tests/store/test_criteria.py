"""Criteria: listings in each order, and what cannot be asked for is refused with what can."""

from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest

from memory_context import AgentMemory, MemoryCriteria, MemoryStore
from memory_context.store.items import MemoryOrder
from tests.conftest import Server, database_of

NOW = datetime.now(timezone.utc)


async def test_listings_come_in_the_order_asked_for(store: MemoryStore, server: Server, database_url: str) -> None:
    """Both ways round; items that are alike in it come newest first, or oldest."""
    memory = AgentMemory(store, "alice")
    keys = [(await memory.store(text)).key for text in ("a b c d", "a", "a b c d e f g h", "a b c d.")]
    for key, hours in zip(keys, (1, 4, 2, 3), strict=True):
        server.execute(
            f"UPDATE memory_context.agent_memories SET last_used_at = now() - interval '{hours} hours' "
            f"WHERE memory_key = '{key}'",
            database_of(database_url),
        )
    first, small, large, fourth = keys
    orders: dict[MemoryOrder, list[str]] = {
        "created": [fourth, large, small, first],
        "used": [first, large, fourth, small],
        "size": [large, fourth, first, small],
    }
    assert [item.key for item in await memory.query()] == orders["created"]
    for order, expected in orders.items():
        listed = [item.key for item in await memory.query(MemoryCriteria(order_by=order))]
        assert listed == expected, order
        turned = await memory.query(MemoryCriteria(order_by=order, oldest_first=True))
        assert [item.key for item in turned] == expected[::-1], order
        page = await memory.query(MemoryCriteria(order_by=order, limit=2, offset=1))
        assert [item.key for item in page] == expected[1:3], order


async def test_ties_are_broken_by_age(store: MemoryStore) -> None:
    """So that pages follow each other without gap or overlap."""
    memory = AgentMemory(store, "alice")
    keys = [(await memory.store(f"word {n}")).key for n in range(6)]
    for is_turned, expected in ((False, keys[::-1]), (True, keys)):
        pages = [
            await memory.query(MemoryCriteria(order_by="size", oldest_first=is_turned, limit=2, offset=offset))
            for offset in (0, 2, 4)
        ]
        assert [item.key for page in pages for item in page] == expected


@pytest.mark.parametrize(
    ("asked", "remedy"),
    [
        ({"created_after": "now"}, r"created_after='now' is no datetime: use datetime\(…, tzinfo=timezone.utc\)"),
        ({"created_before": 1.5}, "created_before=1.5 is no datetime"),
        ({"created_before": date(2026, 1, 1)}, "is no datetime"),
        ({"created_after": datetime(2026, 1, 1)}, "has no time zone"),
        ({"types": "custom"}, "types='custom': use a sequence of str"),
        ({"tags": None}, "tags=None: use a sequence of str"),
        ({"sources": [1]}, r"sources=\(1,\): use a sequence of str"),
        ({"order_by": "newest"}, "order_by='newest': use one of created, used, size"),
        ({"limit": 0}, "limit=0 must be at least 1"),
        ({"limit": "5"}, "limit='5' must be at least 1"),
        ({"offset": -1}, "offset=-1 at least 0"),
        ({"offset": None}, "offset=None at least 0"),
    ],
)
def test_what_cannot_be_asked_for_is_refused(asked: dict[str, Any], remedy: str) -> None:
    """As a ValueError that shows what was given."""
    with pytest.raises(ValueError, match=remedy):
        MemoryCriteria(**asked)


def test_times_of_any_zone_and_sequences_of_any_kind_are_taken() -> None:
    """Lists and generators become tuples."""
    zoned = MemoryCriteria(created_after=NOW.astimezone(timezone(timedelta(hours=9))), types=["custom"])  # type: ignore[arg-type]
    assert zoned.types == ("custom",)
    assert MemoryCriteria(tags=(tag for tag in "ab")).tags == ("a", "b")  # type: ignore[arg-type]
