-- What runs on a connection that lasts: claims of sessions as advisory locks, and notifications. A claim is a hash; no id
-- of anybody is in here.

-- name: listen_claims :exec
-- Hear who asks for a session, and that one was let go.
LISTEN memory_context_sessions;

-- name: listen_user_memory :exec
-- Hear whose statements, notes or secrets change: a hash, and which process wrote.
LISTEN memory_context_user_memory;

-- name: limit_silence :exec
-- Have the server close this connection, and free its locks, within 25 s after the other end has vanished.
SELECT set_config('tcp_keepalives_idle', '10', false),
    set_config('tcp_keepalives_interval', '5', false),
    set_config('tcp_keepalives_count', '3', false),
    set_config('tcp_user_timeout', '10000', false);

-- name: fetch_backend :one
-- Which process of the server serves this connection: behind a pooler that lends connections out, not always the same.
SELECT pg_backend_pid() AS backend;

-- name: claim_sessions :many
-- Take those locks that are free, and ask for the others. Materialized: each lock is tried once.
WITH tried AS MATERIALIZED (
    SELECT claim, pg_try_advisory_lock(claim) AS is_mine FROM unnest(%(claims)s::bigint[]) AS claim
)
SELECT
    claim, is_mine, pg_backend_pid() AS backend,
    CASE WHEN NOT is_mine THEN pg_notify('memory_context_sessions', 'wanted ' || claim) IS NULL END AS is_asked_for
FROM tried;

-- name: release_sessions :many
-- Let go of locks, and tell those who asked for one. False for a lock that this connection did not have.
WITH freed AS MATERIALIZED (
    SELECT claim, pg_advisory_unlock(claim) AS was_mine FROM unnest(%(claims)s::bigint[]) AS claim
)
SELECT
    claim, was_mine,
    CASE WHEN claim = ANY(%(wanted)s::bigint[])
        THEN pg_notify('memory_context_sessions', 'released ' || claim) IS NULL
    END AS is_told
FROM freed;
