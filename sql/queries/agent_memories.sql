-- Items. Each block runs in a transaction that began with act_as, and names the user again, so that one index serves it.

-- name: upsert_memory :one
-- Store an item; the same content in the same place again answers with the key it already has.
INSERT INTO memory_context.agent_memories (
    user_id, memory_key, agent_id, session_id, memory_type, source, summary,
    content, content_raw, content_bytes, token_count, content_sha256, tags, content_metadata
) VALUES (
    %(user_id)s, %(memory_key)s, %(agent_id)s, %(session_id)s, %(memory_type)s, %(source)s, %(summary)s,
    %(content)s, %(content_raw)b, %(content_bytes)s, %(token_count)s, %(content_sha256)b, %(tags)s, %(metadata)s
)
ON CONFLICT ON CONSTRAINT agent_memories_content_unique
DO UPDATE SET updated_at = now(), last_used_at = now()
RETURNING memory_key;

-- name: fetch_memory :one
-- The item behind a key, optionally only if it belongs to this agent and session.
SELECT
    memory_key, agent_id, session_id, memory_type, source, summary, content, content_raw, content_bytes,
    token_count, tags, content_metadata, created_at, updated_at, is_active
FROM memory_context.agent_memories
WHERE user_id = %(user_id)s
    AND memory_key = %(memory_key)s
    AND (%(agent_id)s::text IS NULL OR agent_id = %(agent_id)s)
    AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s);

-- name: select_contents :many
-- The contents behind many keys at once, for rendering a saved state again.
SELECT memory_key, content, content_raw
FROM memory_context.agent_memories
WHERE user_id = %(user_id)s AND memory_key = ANY(%(memory_keys)s::text[]) AND is_active;

-- name: select_keys :many
-- The newest keys of a user, or of one agent or session: what to offer for a key that does not exist.
SELECT memory_key
FROM memory_context.agent_memories
WHERE user_id = %(user_id)s
    AND is_active
    AND (%(agent_id)s::text IS NULL OR agent_id = %(agent_id)s)
    AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
ORDER BY id DESC
LIMIT %(limit)s;
