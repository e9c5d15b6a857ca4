-- What `doctor` tries. Whatever is written here is rolled back.

-- name: rollback :exec
-- Nothing stays.
ROLLBACK;

-- name: insert_claim :exec
-- A row of the acting user, in a table without a sequence that a rolled back number would leave a gap in.
INSERT INTO memory_context.session_claims (user_id, agent_id, session_id, claimed_by, claimed_until)
VALUES (%(user_id)s, '', '', gen_random_uuid(), now());

-- name: select_user_tables :many
-- The tables with users' rows, and whether row-level security is on.
SELECT relname::text AS name, relrowsecurity AS is_fenced
FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
WHERE relnamespace = 'memory_context'::regnamespace AND relkind = 'r' AND attname = 'user_id'
ORDER BY relname;

-- name: fetch_foreign_row :one
-- Whether the acting user sees a row of somebody else.
SELECT EXISTS (SELECT FROM memory_context.{table} WHERE user_id <> %(user_id)s) AS is_seen;

-- name: fetch_distance :one
-- What search needs of pgvector, found by the path that acting as a user sets.
SELECT '[1,2]'::halfvec(2) <=> '[1,2]'::halfvec(2) AS distance;

-- name: fetch_paths :one
-- What could call functions of others: those with the owner's rights that look names up wherever their caller says; and
-- pgvector's schema, if everybody may put functions into it.
SELECT
    ARRAY(
        SELECT proname::text FROM pg_proc
        WHERE pronamespace = 'memory_context'::regnamespace AND prosecdef
            AND NOT EXISTS (SELECT FROM unnest(proconfig) AS setting WHERE setting LIKE 'search\_path=%%')
        ORDER BY proname
    ) AS unbound,
    (
        SELECT nspname::text FROM pg_namespace JOIN pg_extension ON extnamespace = pg_namespace.oid, aclexplode(nspacl) AS given
        WHERE extname = 'vector' AND grantee = 0 AND privilege_type = 'CREATE'
    ) AS open_schema;

-- name: select_activity :many
-- What works for a second, or waits for a lock. Of other logins only a superuser or member of pg_monitor sees it.
SELECT client.pid, wait_event_type = 'Lock' AS is_waiting, left(regexp_replace(query, '\s+', ' ', 'g'), 60) AS query,
    extract(epoch FROM clock_timestamp() - query_start)::float8 AS seconds, holder.pid AS holder, holder.state AS holder_state
FROM pg_stat_activity AS client
LEFT JOIN LATERAL (
    SELECT other.pid, other.state FROM pg_stat_activity AS other WHERE other.pid = ANY(pg_blocking_pids(client.pid)) LIMIT 1
) AS holder ON wait_event_type = 'Lock'
WHERE datname = current_database() AND backend_type = 'client backend' AND client.state = 'active'
    AND client.pid <> pg_backend_pid() AND query_start < clock_timestamp() - interval '1 second';

-- name: fetch_statistics_schema :one
-- Where the statistics of statements are, if somebody has installed them.
SELECT nspname::text AS name FROM pg_namespace JOIN pg_extension ON extnamespace = pg_namespace.oid
WHERE extname = 'pg_stat_statements';

-- name: select_slow_statements :many
-- The statements that took longest together, of those that are slow on the average.
SELECT calls, mean_exec_time AS mean_ms, left(regexp_replace(query, '\s+', ' ', 'g'), 60) AS query
FROM {schema}.pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND calls >= 10 AND mean_exec_time >= 250
ORDER BY total_exec_time DESC
LIMIT 3;

-- name: fetch_left_behind :one
-- Sessions and jobs of processes that ended without giving them back; by their owner.
SELECT
    (SELECT count(*) FROM memory_context.session_claims WHERE claimed_until < now() - interval '10 seconds') AS sessions,
    (SELECT count(*) FROM memory_context.jobs WHERE claim IS NOT NULL AND NOT is_failed AND due_at < now()) AS jobs
FROM memory_context.see_every_user(true);
