-- What stands around the blocks of the tables. Written out, since all of a transaction travels in one pipeline.

-- name: begin_write :exec
-- Open a transaction that may write.
BEGIN READ WRITE;

-- name: begin_read :exec
-- Open a transaction that may not write.
BEGIN READ ONLY;

-- name: act_as :exec
-- Become one user until the transaction ends; without this no row is visible.
SELECT memory_context.act_as(%(user_id)s);

-- name: commit :exec
-- Make it durable.
COMMIT;
