-- How things stand, for whoever looks after the store.

-- name: fetch_counts :one
-- How much there is, of all users together.
SELECT users, items, forgotten, passages, embeddings, sessions, batches, jobs_pending, jobs_set_aside
FROM memory_context.store_counts();

-- name: select_row_counts :many
-- How many rows each of some tables has, of all users together.
SELECT name, row_count FROM memory_context.row_counts(%(names)s);

-- name: update_jobs_retried :many
-- Let the index try again what it gave up, as if for the first time.
UPDATE memory_context.index_jobs
SET is_set_aside = false, attempts = 0, due_at = now(), claim = NULL
WHERE user_id = %(user_id)s AND is_set_aside
RETURNING memory_id;
