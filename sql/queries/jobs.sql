-- Jobs: work that is done later (store/jobs.py). Each block but the first runs in a transaction that began with act_as.

-- name: select_pending_users :many
-- Users with pending jobs, or with failed ones, page by page.
SELECT user_id FROM memory_context.pending_users(%(after)s, %(with_failed)s, %(limit)s) AS user_id;

-- name: insert_job :exec
-- Write a job, in the transaction that makes it necessary; upsert_pending_user comes last there.
INSERT INTO memory_context.jobs (user_id, kind, payload, due_at)
VALUES (%(user_id)s, %(kind)s, %(payload)s, now() + make_interval(secs => %(delay_seconds)s));

-- name: claim_jobs :many
-- Lease the oldest due jobs of a kind. The job of a killed worker is due again when its lease ends, and is then claimed alone;
-- one that was begun too often is failed, since it may be what kills its workers. The bytes in payloads bound a claim of several.
WITH due AS (
    SELECT id, coalesce((payload ->> 'bytes')::bigint, 0) AS bytes, claim IS NOT NULL AS was_broken_off
    FROM memory_context.jobs
    WHERE user_id = %(user_id)s AND kind = %(kind)s AND due_at <= now() AND NOT is_failed
    ORDER BY id
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
), sized AS (
    SELECT id, sum(bytes) OVER (ORDER BY id) - bytes AS bytes_before,
        row_number() OVER (ORDER BY id) = 1 OR NOT bool_or(was_broken_off) OVER () AS is_next
    FROM due
)
UPDATE memory_context.jobs AS job
SET attempts = attempts + 1,
    due_at = now() + make_interval(secs => %(lease_seconds)s),
    claim = %(claim)s,
    is_failed = attempts >= %(attempts_limit)s,
    last_error = CASE WHEN attempts >= %(attempts_limit)s THEN coalesce(last_error, 'its workers were killed') END
FROM sized
WHERE job.user_id = %(user_id)s AND job.kind = %(kind)s AND job.id = sized.id
    AND sized.is_next AND sized.bytes_before < %(bytes_limit)s
RETURNING job.id, job.payload, job.attempts, job.is_failed;

-- name: delete_jobs :exec
-- Done.
DELETE FROM memory_context.jobs
WHERE user_id = %(user_id)s AND id = ANY(%(ids)s::bigint[]) AND claim = %(claim)s;

-- name: update_jobs_failed :exec
-- Try again later, each time twice as late; after too many attempts a job is failed.
UPDATE memory_context.jobs
SET due_at = now() + make_interval(
        secs => least(%(first_wait_seconds)s::float8 * 2.0 ^ (attempts - 1), %(longest_wait_seconds)s)
    ),
    claim = NULL,
    last_error = %(error)s,
    is_failed = attempts >= %(attempts_limit)s
WHERE user_id = %(user_id)s AND id = ANY(%(ids)s::bigint[]) AND claim = %(claim)s;

-- name: update_jobs_renewed :exec
-- A worker that is still at it keeps its lease.
UPDATE memory_context.jobs SET due_at = now() + make_interval(secs => %(lease_seconds)s)
WHERE user_id = %(user_id)s AND claim = %(claim)s;

-- name: update_jobs_released :exec
-- Give back what a worker did not finish; an attempt that was only broken off does not count.
UPDATE memory_context.jobs SET due_at = now(), claim = NULL, attempts = attempts - %(attempts_not_counted)s
WHERE user_id = %(user_id)s AND claim = %(claim)s;

-- name: update_jobs_retried :many
-- Try failed jobs again, as if for the first time.
UPDATE memory_context.jobs SET is_failed = false, attempts = 0, due_at = now(), claim = NULL
WHERE user_id = %(user_id)s AND is_failed
RETURNING id;

-- name: lock_user :exec
-- Wait for transactions that store for this user, before the look at what is left.
SELECT FROM memory_context.memory_users WHERE user_id = %(user_id)s FOR UPDATE;

-- name: update_user_not_pending :exec
-- Nothing is pending for this user; failed jobs are only counted.
UPDATE memory_context.memory_users
SET pending_since = NULL,
    has_failed_jobs = EXISTS (SELECT FROM memory_context.jobs WHERE user_id = %(user_id)s)
WHERE user_id = %(user_id)s
    AND NOT EXISTS (SELECT FROM memory_context.jobs WHERE user_id = %(user_id)s AND NOT is_failed);

-- name: fetch_job_counts :one
-- The jobs of some kinds that a user has: which kinds are due now, how many are leased, to be tried again, not done, failed. By
-- the clock, since jobs that are seen may have been written after this transaction began.
SELECT
    coalesce(array_agg(DISTINCT kind) FILTER (WHERE NOT is_failed AND due_at <= clock_timestamp()), '{}') AS due_kinds,
    count(*) FILTER (WHERE NOT is_failed AND due_at > clock_timestamp() AND claim IS NOT NULL) AS claimed,
    count(*) FILTER (WHERE NOT is_failed AND due_at > clock_timestamp() AND claim IS NULL) AS waiting,
    count(*) FILTER (WHERE NOT is_failed) AS pending,
    count(*) FILTER (WHERE is_failed) AS failed,
    (extract(epoch FROM min(due_at) FILTER (WHERE NOT is_failed) - clock_timestamp()))::float8 AS due_in_seconds
FROM memory_context.jobs
WHERE user_id = %(user_id)s AND kind = ANY(%(kinds)s::text[]);

-- name: select_failed_jobs :many
-- Dead letters, and their last errors.
SELECT kind, id, payload, attempts, last_error FROM memory_context.jobs
WHERE user_id = %(user_id)s AND is_failed
ORDER BY kind, id
LIMIT %(limit)s;

-- name: delete_user_jobs :exec
-- All jobs of a user but those that index items, which go with their items.
DELETE FROM memory_context.jobs WHERE user_id = %(user_id)s AND kind NOT IN ('index', 'embed');
