-- Consolidation of a user's memory (store/admin/consolidate.py). Each block runs in a transaction that began with act_as.

-- name: insert_job_once :exec
-- One job of its kind for a user: whoever has its lease consolidates.
INSERT INTO memory_context.jobs (user_id, kind)
SELECT %(user_id)s, %(kind)s
WHERE NOT EXISTS (SELECT FROM memory_context.jobs WHERE user_id = %(user_id)s AND kind = %(kind)s AND NOT is_failed);

-- name: fetch_last_run :one
-- When a user's memory was consolidated last, and whether anything was stored or said since.
SELECT
    (SELECT max(started_at) FROM memory_context.consolidations WHERE user_id = %(user_id)s) AS last_at,
    greatest(
        (SELECT max(created_at) FROM memory_context.agent_memories WHERE user_id = %(user_id)s),
        (SELECT max(last_activity_at) FROM memory_context.agent_sessions WHERE user_id = %(user_id)s)
    ) AS changed_at;

-- name: select_current_statements :many
-- Statements that hold, with their text, the most trusted and newest first.
SELECT
    item.memory_key, item.memory_type, item.origin, item.related_to, {holds_since(item)} AS since,
    left(content.content, 2000) AS content, NULL::bytea AS content_raw
FROM memory_context.agent_memories AS item
JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.id = item.content_id
WHERE item.user_id = %(user_id)s
    AND {is_statement(item)}
    AND NOT item.is_private
    AND item.valid_until IS NULL
ORDER BY array_position(ARRAY['user_edit', 'user_words', 'application'], item.origin), since DESC, item.id DESC
LIMIT %(limit)s;

-- name: update_statements_merged :many
-- End statements that say the same as another, from the beginning: it holds in their place.
UPDATE memory_context.agent_memories AS item
SET valid_until = {holds_since(item)}, superseded_by = %(kept_key)s, updated_at = now()
WHERE user_id = %(user_id)s AND memory_key = ANY(%(memory_keys)s::text[]) AND is_active AND valid_until IS NULL
RETURNING memory_key;

-- name: update_statement_kept :exec
-- A statement takes over since when others with its meaning held, and links them.
UPDATE memory_context.agent_memories
SET valid_from = %(valid_from)s, related_to = %(related_to)s
WHERE user_id = %(user_id)s AND memory_key = %(kept_key)s AND is_active;

-- name: select_recently_said :many
-- The newest messages that all agents may read, with the title of their session.
SELECT
    item.memory_key, item.session_id, item.origin, item.created_at, session.title,
    left(content.content, 4000) AS content, NULL::bytea AS content_raw
FROM memory_context.agent_memories AS item
JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.id = item.content_id
JOIN memory_context.agent_sessions AS session
    ON session.user_id = %(user_id)s AND session.session_id = item.session_id
WHERE item.user_id = %(user_id)s
    AND item.memory_type = 'conversation'
    AND item.is_active
    AND NOT item.is_private
    AND session.deleted_at IS NULL
ORDER BY item.id DESC
LIMIT %(limit)s;

-- name: select_article_topics :many
-- Topics of articles that hold, the newest first.
SELECT content_metadata ->> 'topic' AS topic FROM memory_context.agent_memories
WHERE user_id = %(user_id)s
    AND memory_type = 'article'
    AND origin = 'consolidation'
    AND content_metadata ->> 'topic' <> ''
    AND is_active
    AND valid_until IS NULL
ORDER BY id DESC
LIMIT 50;

-- name: update_articles_superseded :many
-- A newer article about a topic replaces the older one.
UPDATE memory_context.agent_memories AS item
SET valid_until = now(), superseded_by = %(memory_key)s, updated_at = now()
WHERE user_id = %(user_id)s
    AND memory_type = 'article'
    AND origin = 'consolidation'
    AND content_metadata ->> 'topic' = %(topic)s
    AND memory_key <> %(memory_key)s
    AND is_active
    AND valid_until IS NULL
RETURNING memory_key;

-- name: select_unsummarised_sessions :many
-- Sessions without activity since a time that have no summary yet.
SELECT session_id FROM memory_context.agent_sessions
WHERE user_id = %(user_id)s AND deleted_at IS NULL AND summary = '' AND last_activity_at < %(cutoff)s
ORDER BY last_activity_at DESC, session_id
LIMIT %(limit)s;

-- name: update_session_summary :many
-- Summarise a session that has no summary.
UPDATE memory_context.agent_sessions SET summary = %(summary)s
WHERE user_id = %(user_id)s AND session_id = %(session_id)s AND deleted_at IS NULL AND summary = ''
RETURNING session_id;

-- name: insert_consolidation :one
-- Note that a run changed something. Earlier versions also kept what each changed row was before.
INSERT INTO memory_context.consolidations (user_id, changes, report)
VALUES (%(user_id)s, '{}', %(report)s)
RETURNING id;
