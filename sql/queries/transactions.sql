-- What stands around the blocks of the tables. Written out, since all of a transaction travels in one pipeline.

-- name: begin_write :exec
-- Open a transaction that may write.
BEGIN READ WRITE;

-- name: begin_read :exec
-- Open a transaction that may not write.
BEGIN READ ONLY;

-- name: begin_snapshot :exec
-- Open a transaction that may not write and sees one moment, however long it takes.
BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY;

-- name: limit_waits :exec
-- Let the server end each statement, and each wait for a lock, that takes too long in this transaction.
SELECT set_config('statement_timeout', %(statement_timeout)s, true),
    set_config('lock_timeout', %(lock_timeout)s, true);

-- name: act_as :exec
-- Become one user until the transaction ends, and one agent of the user: '' for none, NULL for all. Without this no row is
-- visible. Nor are all rows read for those of one user, which the planner would find cheaper for a user who has a large share
-- of them.
SELECT memory_context.act_as(%(user_id)s, %(agent_id)s), set_config('enable_seqscan', 'off', true);

-- name: act_within_limits :exec
-- Both at once, for the transactions of one user: each statement costs the client as much as a small insert. A kept plan has to
-- be the general one: the server compares estimates, and these leave out that planning takes longer than the statement.
SELECT set_config('plan_cache_mode', coalesce(%(plan_cache_mode)s, current_setting('plan_cache_mode')), true),
    set_config('statement_timeout', %(statement_timeout)s, true),
    set_config('lock_timeout', %(lock_timeout)s, true),
    memory_context.act_as(%(user_id)s, %(agent_id)s), set_config('enable_seqscan', 'off', true);

-- name: fetch_server_process :one
-- The process that serves this connection just now. A pooler, which may give the next transaction to another one, tells its
-- clients a number of its own.
SELECT pg_backend_pid() AS process_id;

-- name: commit :exec
-- Make it durable.
COMMIT;
