-- Bringing a database up to date. Run once per process, before the pool opens.

-- name: fetch_server :one
-- What this server has: refuse early, with the remedy, what cannot work.
-- Reads the tables: to_regclass answers from a cache that does not hear of what another process committed while this
-- one waited for the lock.
SELECT
    current_setting('server_version_num')::integer AS server_version,
    current_setting('server_encoding') AS encoding,
    (SELECT extversion FROM pg_extension WHERE extname = 'vector') AS vector_version,
    EXISTS (
        SELECT FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE nspname = 'memory_context' AND relname = 'schema_migrations'
    ) AS has_schema;

-- name: fetch_vector_type :one
-- The type of embeddings, wherever pgvector is: extensions give their types numbers of their own in each database.
SELECT pg_type.oid, typarray AS array_oid
FROM pg_type JOIN pg_extension ON extnamespace = typnamespace
WHERE extname = 'vector' AND typname = 'halfvec';

-- name: prepare_migration :exec
-- Let a migration find pgvector's types in any schema. An owner that row-level security binds sees the rows of all users.
SELECT set_config('search_path', 'pg_catalog, ' || quote_ident(nspname), true),
    set_config('memory_context.every_user', 'on', true), set_config('memory_context.every_agent', 'on', true)
FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
WHERE extname = 'vector';

-- name: fetch_vector_schema :one
-- Where pgvector is, and whether the application's logins may use that schema.
SELECT nspname::text AS name, has_schema_privilege('memory_context_app', pg_namespace.oid, 'USAGE') AS is_usable
FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
WHERE extname = 'vector';

-- name: fetch_database :one
-- What a person asks first about a database: which server it is, and how large it has become.
SELECT current_setting('server_version') AS server_version, pg_database_size(current_database()) AS database_bytes;

-- name: select_table_sizes :many
-- The tables there are, with their indexes and what is stored beside them.
SELECT relname::text AS name, pg_total_relation_size(pg_class.oid) AS total_bytes
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = 'memory_context' AND relkind = 'r'
ORDER BY total_bytes DESC, relname;

-- name: select_vector_indexes :many
-- The indexes of embeddings, one for each model.
SELECT relname::text AS name
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace JOIN pg_am ON pg_am.oid = relam
WHERE nspname = 'memory_context' AND amname = 'hnsw'
ORDER BY relname;

-- name: select_applied_migrations :many
-- The migrations this database has seen.
SELECT version, name, checksum, applied_at FROM memory_context.schema_migrations ORDER BY version;

-- name: lock_migrations :one
-- One migrating process per database; the number says nothing, it only has to be ours. Ends with the transaction, which
-- may be idle for as long as the migrations take.
SELECT
    pg_try_advisory_xact_lock(6290471330157282) AS is_locked,
    set_config('idle_in_transaction_session_timeout', '0', true) AS idle_timeout;

-- name: create_vector_extension :exec
-- Asked for only when it is missing, since even IF NOT EXISTS may need rights.
CREATE EXTENSION IF NOT EXISTS vector;

-- name: insert_migration :exec
-- Remember a migration.
INSERT INTO memory_context.schema_migrations (version, name, checksum) VALUES (%(version)s, %(name)s, %(checksum)s);
