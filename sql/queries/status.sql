-- How things stand with one user, for whoever looks after the store. Each block runs in a transaction that began with
-- act_as; each needs one table only, so that an older schema answers what it can.

-- name: count_memories :one
-- Items, and those of them that were forgotten.
SELECT count(*) AS items, count(*) FILTER (WHERE NOT is_active) AS forgotten
FROM memory_context.agent_memories WHERE user_id = %(user_id)s;

-- name: count_passages :one
-- Passages: the sum that the ranking keeps.
SELECT coalesce(sum(chunk_count), 0)::bigint AS passages
FROM memory_context.agent_memory_statistics WHERE user_id = %(user_id)s;

-- name: count_embeddings :many
-- Embeddings of each model.
SELECT embedding_model, count(*) AS embeddings
FROM memory_context.agent_memory_embeddings WHERE user_id = %(user_id)s GROUP BY embedding_model;

-- name: count_jobs :one
-- What the index still has to do, and what it gave up.
SELECT
    count(*) FILTER (WHERE NOT is_set_aside) AS jobs_pending,
    count(*) FILTER (WHERE is_set_aside) AS jobs_set_aside
FROM memory_context.index_jobs WHERE user_id = %(user_id)s;

-- name: count_sessions :one
-- Sessions that were not deleted.
SELECT count(*) AS sessions
FROM memory_context.agent_sessions WHERE user_id = %(user_id)s AND deleted_at IS NULL;

-- name: count_batches :one
-- What was archived of them, in batches.
SELECT count(*) AS batches FROM memory_context.recent_conversation_history WHERE user_id = %(user_id)s;

-- name: update_jobs_retried :many
-- Let the index try again what it gave up, as if for the first time.
UPDATE memory_context.index_jobs
SET is_set_aside = false, attempts = 0, due_at = now(), claim = NULL
WHERE user_id = %(user_id)s AND is_set_aside
RETURNING memory_id;
