-- The first schema: the items of every user, who may reach them, and the list of applied migrations.

-- Roles belong to the whole cluster, the migration lock only to this database: another database's migration may be
-- creating the same role right now. IF NOT EXISTS of CREATE SCHEMA asks for rights even when there is nothing to do.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'memory_context') THEN
        CREATE SCHEMA memory_context;
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'memory_context_app') THEN
        BEGIN
            CREATE ROLE memory_context_app NOLOGIN;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END IF;
END
$$;

CREATE TABLE memory_context.schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT schema_migrations_pkey PRIMARY KEY (version)
);

-- "C" collation: these columns are compared for equality only, and a new C library cannot make their indexes wrong.
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
