"""Batches of an archive."""

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from memory_context.store.conversations import NewBatch

START = datetime(2024, 5, 1, 12, tzinfo=timezone.utc)


def batch(sequence: int, body: Mapping[str, Any] | None = None, **others: Any) -> NewBatch:
    given: dict[str, Any] = {
        "message_count": 2, "begins_anew": sequence == 0, "memory_keys": (), "chat_ids": (), "started_at": START,
        "ended_at": START + timedelta(minutes=sequence),
    }  # fmt: skip
    return NewBatch(sequence, {"number": sequence} if body is None else body, **{**given, **others})
