-- Items. Each block runs in a transaction that began with act_as, and names the user again, so that one index serves it.

-- name: lock_order :exec
-- Wait for other transactions that store several items of this user: each stores in an order of its own.
SELECT pg_advisory_xact_lock(hashtextextended(%(user_id)s, 7240917));

-- name: upsert_content :exec
-- Store a content that is not there yet. It travels as bytes, which the driver neither reads nor changes.
SELECT memory_context.store_content(
    %(user_id)s, %(content_sha256)b,
    CASE WHEN %(is_text)s::boolean THEN convert_from(%(data)b::bytea, 'UTF8') END,
    CASE WHEN NOT %(is_text)s::boolean THEN %(data)b::bytea END,
    %(content_bytes)s, %(content_type)s::text
);

-- name: upsert_memories :many
-- Store items of contents that are there, and for new ones the jobs to index them. This is all that follows the contents.
SELECT stored_key AS memory_key, is_new FROM memory_context.store_memories(%(user_id)s, %(items)s::jsonb);

-- name: upsert_pending_user :exec
-- Tell maintenance that this user has something waiting. After the items: who waits for the row of the user then holds all
-- of its items already, so that nobody waits for each other.
SELECT memory_context.note_pending_user(%(user_id)s);

-- name: select_own_ids :many
-- Items of exactly this agent and session, or one of them: what may be forgotten there. User memory, if it is asked for,
-- too. Of messages only one that is named, and those with the same text as what goes.
WITH own AS MATERIALIZED (
    SELECT item.id, item.content_id, item.memory_type, item.memory_key FROM memory_context.agent_memories AS item
    WHERE item.user_id = %(user_id)s
        AND (
            (item.agent_id = %(agent_id)s AND item.session_id = %(session_id)s)
            OR (%(with_statements)s AND NOT item.is_private AND {is_statement(item)})
        )
        AND item.is_active
), named AS (
    SELECT id, content_id, memory_type FROM own
    WHERE CASE WHEN %(memory_key)s::text IS NULL THEN memory_type <> 'conversation' ELSE memory_key = %(memory_key)s END
)
SELECT id, content_id FROM named
UNION
SELECT own.id, own.content_id FROM own JOIN named ON named.content_id = own.content_id
WHERE 'conversation' IN (own.memory_type, named.memory_type);

-- name: lock_jobs :exec
-- Wait for whoever is indexing these items, before anything else of them is locked: the indexer locks in this order too.
SELECT FROM memory_context.jobs
WHERE user_id = %(user_id)s AND id = ANY(%(memory_ids)s::bigint[]) AND kind IN ('index', 'embed')
ORDER BY id
FOR UPDATE;

-- name: lock_contents :exec
-- Wait for whoever is storing or indexing these contents; until the transaction ends nobody else gives them an item.
SELECT FROM memory_context.agent_memory_contents
WHERE user_id = %(user_id)s AND id = ANY(%(content_ids)s::bigint[])
ORDER BY id
FOR UPDATE;

-- name: update_memories_forgotten :many
-- Erase what they said and leave a tombstone.
UPDATE memory_context.agent_memories
{set_forgotten()}
WHERE user_id = %(user_id)s AND id = ANY(%(memory_ids)s::bigint[]) AND is_active
RETURNING memory_key;

-- name: delete_orphaned_contents :many
-- Those of some contents that no item has any more, with all they are found by. One statement, since what is orphaned is
-- looked up once. It reads all terms of the user, since forgetting is rare and searching is not.
WITH orphaned AS MATERIALIZED (
    SELECT content.id FROM memory_context.agent_memory_contents AS content
    WHERE content.user_id = %(user_id)s
        AND content.id = ANY(%(content_ids)s::bigint[])
        AND NOT EXISTS (
            SELECT FROM memory_context.agent_memories AS item
            WHERE item.user_id = %(user_id)s AND item.content_id = content.id
        )
), no_terms AS (
    DELETE FROM memory_context.agent_memory_terms
    WHERE user_id = %(user_id)s AND content_id IN (SELECT id FROM orphaned)
), no_chunks AS (
    DELETE FROM memory_context.agent_memory_chunks
    WHERE user_id = %(user_id)s AND content_id IN (SELECT id FROM orphaned)
    RETURNING content_id
), no_count AS (
    UPDATE memory_context.agent_memory_statistics
    SET chunk_count = chunk_count - (SELECT count(*) FROM no_chunks)
    WHERE user_id = %(user_id)s AND EXISTS (SELECT FROM no_chunks)
)
DELETE FROM memory_context.agent_memory_contents
WHERE user_id = %(user_id)s AND id IN (SELECT id FROM orphaned)
RETURNING content_bytes;

-- name: delete_names :exec
-- The names of items; reads all names of the user.
DELETE FROM memory_context.agent_memory_names
WHERE user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s::bigint[]);

-- name: delete_index_jobs :exec
-- What was to be indexed of them.
DELETE FROM memory_context.jobs
WHERE user_id = %(user_id)s AND id = ANY(%(memory_ids)s::bigint[]) AND kind IN ('index', 'embed');

-- name: select_ids :many
-- A batch of the items of a user, forgotten ones included: what is to be erased.
SELECT id, content_id FROM memory_context.agent_memories WHERE user_id = %(user_id)s LIMIT %(limit)s;

-- name: lock_memories :exec
-- Wait for whoever is changing these items.
SELECT FROM memory_context.agent_memories
WHERE user_id = %(user_id)s AND id = ANY(%(memory_ids)s::bigint[])
ORDER BY id
FOR UPDATE;

-- name: delete_memories :many
-- Erase items without a tombstone; after everything they are found by.
DELETE FROM memory_context.agent_memories
WHERE user_id = %(user_id)s AND id = ANY(%(memory_ids)s::bigint[])
RETURNING is_active;

-- name: delete_statistics :exec
-- The number of passages of a user who has no items.
DELETE FROM memory_context.agent_memory_statistics
WHERE user_id = %(user_id)s
    AND NOT EXISTS (SELECT FROM memory_context.agent_memories WHERE user_id = %(user_id)s);

-- name: delete_user :exec
-- Out of the list of users, unless there are items, sessions or threads. After lock_user: what others were storing
-- meanwhile is seen.
DELETE FROM memory_context.memory_users
WHERE user_id = %(user_id)s
    AND NOT EXISTS (SELECT FROM memory_context.agent_memories WHERE user_id = %(user_id)s)
    AND NOT EXISTS (SELECT FROM memory_context.agent_sessions WHERE user_id = %(user_id)s)
    AND NOT EXISTS (SELECT FROM memory_context.ui_threads WHERE user_id = %(user_id)s)
    AND NOT EXISTS (SELECT FROM memory_context.ui_users WHERE user_id = %(user_id)s);

-- name: fetch_memory :one
-- The item behind a key, if the reader may read it. Its content comes as bytes, which are decoded in a thread.
SELECT
    item.memory_key, item.agent_id, item.session_id, item.memory_type, item.source, item.summary,
    NULL::text AS content, coalesce(content.content_raw, convert_to(content.content, 'UTF8')) AS content_raw,
    item.content_bytes, item.token_count, item.tags, item.related_to, item.content_metadata, item.created_at,
    item.updated_at, item.is_active, item.is_private, item.origin, item.valid_from, item.valid_until, item.superseded_by,
    content.content_sha256, content.content_type
FROM memory_context.agent_memories AS item
LEFT JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.id = item.content_id
WHERE item.user_id = %(user_id)s
    AND item.memory_key = %(memory_key)s
    AND {may_read(item)};

-- name: fetch_whereabouts :one
-- Whose the item behind a key is, also for those who may not read it: to say whom to ask, never what is in it.
SELECT agent_id, session_id, is_private, is_active, updated_at
FROM memory_context.agent_memories
WHERE user_id = %(user_id)s AND memory_key = %(memory_key)s;

-- name: select_contents :many
-- The contents behind many keys at once, of those that the reader may read: for rendering a saved state again.
SELECT
    item.memory_key, NULL::text AS content,
    coalesce(content.content_raw, convert_to(content.content, 'UTF8')) AS content_raw, content.content_sha256,
    content.content_bytes, content.content_type
FROM memory_context.agent_memories AS item
JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.id = item.content_id
WHERE item.user_id = %(user_id)s
    AND item.memory_key = ANY(%(memory_keys)s::text[])
    AND item.is_active
    AND item.memory_type <> 'user_secret'
    AND {may_read(item)};

-- name: select_keys :many
-- The keys of what the reader may read, the newest first: what to offer for a key that does not exist, and snapshots.
SELECT item.memory_key
FROM memory_context.agent_memories AS item
WHERE item.user_id = %(user_id)s
    AND item.is_active
    AND item.memory_type <> 'user_secret'
    AND (%(with_conversation)s::boolean OR item.memory_type <> 'conversation')
    AND {may_read(item)}
ORDER BY item.id DESC
LIMIT %(limit)s;

-- name: select_memories :many
-- Items that meet criteria and that the reader may read, without their content. Of those with the same content the newest,
-- which names the others.
SELECT
    {item_columns(item)}, NULL::text AS content, NULL::bytea AS content_raw,
    {other_keys(item)}
FROM memory_context.agent_memories AS item
WHERE item.user_id = %(user_id)s
    AND {meets(item)}
    AND {may_read(item)}
    AND NOT EXISTS (
        SELECT FROM memory_context.agent_memories AS newer
        WHERE newer.user_id = %(user_id)s
            AND newer.content_id = item.content_id
            AND newer.id > item.id
            AND {meets(newer)}
            AND {may_read(newer)}
    )
ORDER BY
    CASE WHEN %(oldest_first)s::boolean AND %(order_by)s::text = 'size' THEN item.token_count END,
    CASE WHEN %(oldest_first)s::boolean AND %(order_by)s::text = 'used' THEN item.last_used_at END,
    CASE WHEN %(oldest_first)s::boolean THEN item.id END,
    CASE WHEN %(order_by)s::text = 'size' THEN item.token_count END DESC,
    CASE WHEN %(order_by)s::text = 'used' THEN item.last_used_at END DESC,
    item.id DESC
LIMIT %(limit)s OFFSET %(offset)s;

-- name: fetch_model_summary :one
-- What a model said of an item, if there is that and the reader may read the item.
SELECT item.model_summary
FROM memory_context.agent_memories AS item
WHERE item.user_id = %(user_id)s
    AND item.memory_key = %(memory_key)s
    AND item.is_active
    AND item.model_summary IS NOT NULL
    AND {may_read(item)};

-- name: update_model_summary :many
-- Keep what a model said of an item, and its description if one is given; of one that was forgotten meanwhile, nothing.
UPDATE memory_context.agent_memories
SET model_summary = %(model_summary)s, summary = coalesce(nullif(%(summary)s, ''), summary)
WHERE user_id = %(user_id)s AND memory_key = %(memory_key)s AND is_active
RETURNING memory_key;

-- name: update_shared_with :many
-- Let an agent read an item of exactly this agent and session.
UPDATE memory_context.agent_memories
SET shared_with = CASE
    WHEN %(with_agent)s::text = ANY(shared_with) THEN shared_with
    ELSE shared_with || %(with_agent)s::text
END
WHERE user_id = %(user_id)s
    AND memory_key = %(memory_key)s
    AND agent_id = %(agent_id)s
    AND session_id = %(session_id)s
    AND is_active
RETURNING memory_key;
