"""Export files and the records in them."""

import hashlib
import json
from typing import Any

import psycopg
from psycopg import sql

from memory_context.foundation.utf8 import escape, to_utf8

Json = dict[str, Any]


def written(lines: list[Json], header: Json | None = None) -> bytes:
    """Return records as a file, with an end that counts them."""
    at = "2026-01-01T00:00:00Z"
    whole = {"format": "memory-context", "version": 1, "library": "0", "schema_version": 6, "session": None}
    counts = {kind: sum(line["record"] == kind for line in lines) for kind in {line["record"] for line in lines}}
    all_lines = [header or {**whole, "user": "alice", "exported_at": at}, *lines, {"record": "end", "records": counts}]
    return b"".join(json.dumps(line).encode() + b"\n" for line in all_lines)


AT = "2026-01-01T00:00:00.000001+00:00"


def item(key: str, text: str, **others: Any) -> Json:
    """Return the record of an item."""
    no_text: Json = dict.fromkeys(("agent_id", "session_id", "source", "summary"), "")
    return {
        "record": "item",
        "memory_key": key,
        "memory_type": "custom",
        "model_summary": None,
        "tags": [],
        "related_to": [],
        "content_metadata": {},
        "token_count": 1,
        "is_private": False,
        "is_active": True,
        "content_sha256": hashlib.sha256(to_utf8(text)).hexdigest(),
        "content": escape(text),
        **dict.fromkeys(("created_at", "updated_at", "last_used_at"), AT),
        **no_text,
        **others,
    }


MANY = """
WITH contents AS (
    INSERT INTO memory_context.agent_memory_contents (
        user_id, content, content_bytes, content_sha256, beginning_sha256
    )
    SELECT {user}, text, octet_length(text), sha256(text::bytea), memory_context.beginning_sha256(text, NULL)
    FROM generate_series(1, {items}) AS i, LATERAL (SELECT 'text ' || i || repeat(' and more', 50)) AS made (text)
    RETURNING id, content, content_bytes
)
INSERT INTO memory_context.agent_memories (
    user_id, memory_key, agent_id, session_id, memory_type, source, origin, summary, content_id, content_bytes,
    token_count, tags, content_metadata
)
SELECT
    {user}, 'k' || split_part(content, ' ', 2), '', '', 'custom', '', 'tool', '', id, content_bytes, 1, '{{}}', '{{}}'
FROM contents
"""


def many(url: str, user: str, items: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(sql.SQL(MANY).format(user=user, items=items))
