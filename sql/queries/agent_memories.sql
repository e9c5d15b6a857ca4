-- Items. Each block runs in a transaction that began with act_as, and names the user again, so that one index serves it.

-- name: upsert_memory :one
-- Store an item, and for a new one the job to index it.
-- The same content in the same place again answers with the key it already has.
WITH item AS (
    INSERT INTO memory_context.agent_memories AS memory (
        user_id, memory_key, agent_id, session_id, memory_type, source, summary, content, content_raw, content_bytes,
        token_count, content_sha256, tags, related_to, content_metadata
    ) VALUES (
        %(user_id)s, %(memory_key)s, %(agent_id)s, %(session_id)s, %(memory_type)s, %(source)s, %(summary)s, %(content)s,
        %(content_raw)b, %(content_bytes)s, %(token_count)s, %(content_sha256)b, %(tags)s, %(related_to)s, %(metadata)s
    )
    ON CONFLICT ON CONSTRAINT agent_memories_content_unique
    DO UPDATE SET updated_at = now(), last_used_at = now()
    RETURNING memory.id, memory.memory_key, memory.xmax = 0 AS is_new
), job AS (
    INSERT INTO memory_context.index_jobs (user_id, memory_id) SELECT %(user_id)s, id FROM item WHERE is_new
)
SELECT memory_key, is_new FROM item;

-- name: upsert_pending_user :exec
-- Tell maintenance that this user has something waiting. After the items: who waits for this row then holds all of its
-- items already, so that nobody waits for each other.
INSERT INTO memory_context.memory_users AS waiting (user_id, pending_since)
SELECT %(user_id)s, now() WHERE EXISTS (SELECT FROM memory_context.index_jobs WHERE user_id = %(user_id)s)
ON CONFLICT ON CONSTRAINT memory_users_pkey
DO UPDATE SET pending_since = now() WHERE waiting.pending_since IS NULL;

-- name: select_own_ids :many
-- Items of exactly this agent and session, or one of them: what may be forgotten there.
SELECT id FROM memory_context.agent_memories
WHERE user_id = %(user_id)s
    AND agent_id = %(agent_id)s
    AND session_id = %(session_id)s
    AND is_active
    AND (%(memory_key)s::text IS NULL OR memory_key = %(memory_key)s)
FOR UPDATE;

-- name: lock_jobs :exec
-- Wait for whoever is indexing these items, before anything else of them is locked: the indexer locks in this order too.
SELECT FROM memory_context.index_jobs
WHERE user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s::bigint[])
ORDER BY memory_id
FOR UPDATE;

-- name: update_memories_forgotten :many
-- Erase what they said and leave a tombstone. Its hash is no longer that of the content, which may be stored again.
UPDATE memory_context.agent_memories
SET content = NULL, content_raw = NULL, content_bytes = 0, token_count = 0, summary = '', tags = '{}', related_to = '{}',
    content_metadata = '{}', content_sha256 = sha256(convert_to('forgotten ' || id, 'UTF8')), is_active = false,
    updated_at = now()
WHERE user_id = %(user_id)s AND id = ANY(%(memory_ids)s::bigint[]) AND is_active
RETURNING memory_key;

-- name: subtract_statistics :exec
-- Take the passages of items out of their number; runs before they are deleted.
UPDATE memory_context.agent_memory_statistics AS statistic
SET chunk_count = statistic.chunk_count - gone.chunk_count
FROM (
    SELECT count(*) AS chunk_count FROM memory_context.agent_memory_chunks
    WHERE user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s::bigint[])
) AS gone
WHERE statistic.user_id = %(user_id)s;

-- name: delete_chunks :exec
-- The passages of items, and with them their embeddings.
DELETE FROM memory_context.agent_memory_chunks
WHERE user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s::bigint[]);

-- name: delete_terms :exec
-- The terms of items; reads all terms of the user, since forgetting is rare and searching is not.
DELETE FROM memory_context.agent_memory_terms
WHERE user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s::bigint[]);

-- name: delete_index_jobs :exec
-- What was to be indexed of them.
DELETE FROM memory_context.index_jobs
WHERE user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s::bigint[]);

-- name: fetch_memory :one
-- The item behind a key, optionally only if it belongs to this agent and session.
SELECT
    memory_key, agent_id, session_id, memory_type, source, summary, content, content_raw, content_bytes,
    token_count, tags, related_to, content_metadata, created_at, updated_at, is_active
FROM memory_context.agent_memories
WHERE user_id = %(user_id)s
    AND memory_key = %(memory_key)s
    AND (%(agent_id)s::text IS NULL OR agent_id = %(agent_id)s)
    AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s);

-- name: select_contents :many
-- The contents behind many keys at once, for rendering a saved state again; optionally of this agent and session only.
SELECT memory_key, content, content_raw
FROM memory_context.agent_memories
WHERE user_id = %(user_id)s
    AND memory_key = ANY(%(memory_keys)s::text[])
    AND is_active
    AND (%(agent_id)s::text IS NULL OR agent_id = %(agent_id)s)
    AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s);

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

-- name: select_memories :many
-- Items that meet criteria, without their content.
SELECT
    item.id, item.memory_key, item.agent_id, item.session_id, item.memory_type, item.source, item.summary, item.token_count,
    item.content_bytes, item.content_sha256, item.tags, item.related_to, item.content_metadata, item.created_at,
    item.updated_at, item.is_active,
    NULL::text AS content, NULL::bytea AS content_raw
FROM memory_context.agent_memories AS item
WHERE item.user_id = %(user_id)s
    AND memory_context.meets(
        item, %(types)s, %(sources)s, %(tags)s, %(created_after)s, %(created_before)s, %(agent_id)s, %(session_id)s,
        %(related_to)s, %(related_keys)s
    )
ORDER BY CASE WHEN %(oldest_first)s THEN item.id END, item.id DESC
LIMIT %(limit)s OFFSET %(offset)s;
