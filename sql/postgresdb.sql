-- The whole schema of memory_context, for people to read. What runs are the migrations; a test proves that they add up
-- to this. To make it by hand: psql -f postgresdb.sql, as a login that may create schemas, roles and extensions.
--
-- The rules behind it:
--   * Every primary key, unique constraint and statement starts with user_id: one user's rows lie together.
--   * Row-level security keeps users apart. A transaction begins with memory_context.act_as(user); without it no row
--     is visible and none can be written. The pool logs in as a member of memory_context_app, which owns nothing.
--   * Content is kept exactly: as text, or as bytes where text refuses it.
--   * No triggers, no domain types; constraints are named.

CREATE EXTENSION IF NOT EXISTS vector;

CREATE ROLE memory_context_app NOLOGIN;

CREATE SCHEMA memory_context;

-- Which migrations ran, and the SHA-256 of each file.
CREATE TABLE memory_context.schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT schema_migrations_pkey PRIMARY KEY (version)
);

-- The items. "C" collation: these columns are compared for equality only, and a new C library cannot make their indexes wrong.
-- The octet limits keep every index row under the 2,704 bytes of a B-tree entry.
CREATE TABLE memory_context.agent_memories (
    user_id text COLLATE "C" NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    memory_key text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    memory_type text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    summary text NOT NULL,
    content text,
    content_raw bytea,
    content_bytes bigint NOT NULL,
    token_count bigint NOT NULL,
    content_sha256 bytea NOT NULL,
    tags text[] NOT NULL,
    content_metadata jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz NOT NULL DEFAULT now(),
    is_active boolean NOT NULL DEFAULT true,
    CONSTRAINT agent_memories_pkey PRIMARY KEY (user_id, id),
    CONSTRAINT agent_memories_content_unique
        UNIQUE (user_id, agent_id, session_id, memory_type, source, content_sha256),
    CONSTRAINT agent_memories_key_unique UNIQUE (user_id, memory_key),
    CONSTRAINT agent_memories_user_id_named CHECK (user_id <> ''),
    CONSTRAINT agent_memories_lengths CHECK (
        octet_length(user_id) <= 512 AND octet_length(agent_id) <= 512 AND octet_length(session_id) <= 512
        AND octet_length(source) <= 512 AND octet_length(memory_type) <= 64 AND octet_length(memory_key) <= 64
    ),
    CONSTRAINT agent_memories_one_content CHECK (NOT is_active OR num_nonnulls(content, content_raw) = 1),
    CONSTRAINT agent_memories_sizes CHECK (content_bytes >= 0 AND token_count >= 0),
    CONSTRAINT agent_memories_sha256_length CHECK (octet_length(content_sha256) = 32)
);
COMMENT ON COLUMN memory_context.agent_memories.session_id IS 'empty when the item belongs to no session';
COMMENT ON COLUMN memory_context.agent_memories.content IS 'the content, when Postgres text takes it as it is';
COMMENT ON COLUMN memory_context.agent_memories.content_raw IS
    'any other content (NUL, lone surrogates): its UTF-8 with surrogates in their three-byte form';
COMMENT ON COLUMN memory_context.agent_memories.content_bytes IS 'bytes of the UTF-8 form';
COMMENT ON COLUMN memory_context.agent_memories.content_sha256 IS 'of the UTF-8 form';

ALTER TABLE memory_context.agent_memories ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_memories_own_rows ON memory_context.agent_memories
    USING (user_id = current_setting('memory_context.user_id', true))
    WITH CHECK (user_id = current_setting('memory_context.user_id', true));

ALTER TABLE memory_context.schema_migrations ENABLE ROW LEVEL SECURITY;
CREATE POLICY schema_migrations_readable ON memory_context.schema_migrations FOR SELECT USING (true);

-- Every transaction begins with this. Local settings end with the transaction, so behind PgBouncer nothing leaks to
-- the next client of the connection.
CREATE FUNCTION memory_context.act_as(acting_user_id text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF acting_user_id IS NULL OR acting_user_id = '' THEN
        RAISE EXCEPTION 'act_as needs a user id' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_catalog.set_config('memory_context.user_id', acting_user_id, true);
    PERFORM pg_catalog.set_config('hnsw.iterative_scan', 'strict_order', true);
END
$$;

REVOKE ALL ON FUNCTION memory_context.act_as(text) FROM PUBLIC;
GRANT USAGE ON SCHEMA memory_context TO memory_context_app;
GRANT EXECUTE ON FUNCTION memory_context.act_as(text) TO memory_context_app;
GRANT SELECT, INSERT, UPDATE ON memory_context.agent_memories TO memory_context_app;
GRANT SELECT ON memory_context.schema_migrations TO memory_context_app;
