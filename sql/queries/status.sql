-- How things stand, for whoever looks after the store.

-- name: fetch_counts :one
-- How much there is, of all users together.
SELECT users, items, forgotten, passages, embeddings, sessions, batches, jobs
FROM memory_context.store_counts();

-- name: select_row_counts :many
-- How many rows each of some tables has, of all users together.
SELECT name, row_count FROM memory_context.row_counts(%(names)s);
