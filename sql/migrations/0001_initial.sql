-- The schema of the first release. The rules behind it:
--   * Every primary key, unique constraint and statement starts with user_id: one user's rows lie together. The one
--     exception, an index, says whose a thread is.
--   * Row-level security keeps users apart. A transaction begins with memory_context.act_as(user); without it no row
--     is visible and none can be written. The pool logs in as a member of memory_context_app, which owns nothing.
--   * Content is kept exactly, as text, or as bytes where text refuses it, and once for each user.
--   * No triggers, no domain types; constraints are named.
--   * An export writes the columns in the order they have here; an import checks types, NOT NULL and the simple conditions
--     (octet_length(x) <= n, x >= 0, x <> '') before it stores anything.

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
GRANT USAGE ON SCHEMA memory_context TO memory_context_app;

-- Give the application's login a table, of which a transaction sees and writes the rows of its user only. Every migration
-- that makes a table of users calls it; only the owner can.
CREATE PROCEDURE memory_context.fence_table(its_name text) LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    EXECUTE format('ALTER TABLE memory_context.%I ENABLE ROW LEVEL SECURITY', its_name);
    EXECUTE format(
        'CREATE POLICY %I ON memory_context.%I '
        'USING (user_id = current_setting(''memory_context.user_id'', true)) '
        'WITH CHECK (user_id = current_setting(''memory_context.user_id'', true))',
        its_name || '_own_rows', its_name
    );
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON memory_context.%I TO memory_context_app', its_name);
END
$$;

-- Which migrations ran, and the SHA-256 of the statements of each.
CREATE TABLE memory_context.schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT schema_migrations_pkey PRIMARY KEY (version)
);

ALTER TABLE memory_context.schema_migrations ENABLE ROW LEVEL SECURITY;
CREATE POLICY schema_migrations_readable ON memory_context.schema_migrations FOR SELECT USING (true);
GRANT SELECT ON memory_context.schema_migrations TO memory_context_app;

-- What is stored, once for each user, however many items have it. It is read only through an item within reach, and goes
-- with the last one. "C" collation, here and below: such columns are compared for equality only, and a new C library cannot
-- make their indexes wrong.
CREATE TABLE memory_context.agent_memory_contents (
    user_id text COLLATE "C" NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    content text,
    content_raw bytea,
    content_bytes bigint NOT NULL,
    content_sha256 bytea NOT NULL,
    beginning_sha256 bytea NOT NULL,
    CONSTRAINT agent_memory_contents_pkey PRIMARY KEY (user_id, id),
    CONSTRAINT agent_memory_contents_sha256_unique UNIQUE (user_id, content_sha256),
    CONSTRAINT agent_memory_contents_user_id_named CHECK (user_id <> ''),
    CONSTRAINT agent_memory_contents_one_form CHECK (num_nonnulls(content, content_raw) = 1),
    CONSTRAINT agent_memory_contents_size CHECK (content_bytes >= 0),
    CONSTRAINT agent_memory_contents_sha256_length CHECK (octet_length(content_sha256) = 32)
);
COMMENT ON TABLE memory_context.agent_memory_contents IS
    'what is stored, once for each user; read only through an item within reach, and gone with the last one';
COMMENT ON COLUMN memory_context.agent_memory_contents.content IS 'the content, when Postgres text takes it as it is';
COMMENT ON COLUMN memory_context.agent_memory_contents.content_raw IS
    'any other content (NUL, lone surrogates): its UTF-8 with surrogates in their three-byte form';
COMMENT ON COLUMN memory_context.agent_memory_contents.content_bytes IS 'bytes of the UTF-8 form';
COMMENT ON COLUMN memory_context.agent_memory_contents.content_sha256 IS 'of the UTF-8 form';
COMMENT ON COLUMN memory_context.agent_memory_contents.beginning_sha256 IS 'of what searches show before it is indexed';

-- The items, each of a content: which agent stored it, where, and as what. The octet limits keep every index row under the
-- 2,704 bytes of a B-tree entry.
CREATE TABLE memory_context.agent_memories (
    user_id text COLLATE "C" NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    memory_key text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    memory_type text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    origin text COLLATE "C" NOT NULL,
    summary text NOT NULL,
    model_summary text,
    content_id bigint,
    content_bytes bigint NOT NULL,
    token_count bigint NOT NULL,
    tags text[] NOT NULL,
    related_to text[] NOT NULL DEFAULT '{}',
    content_metadata jsonb NOT NULL,
    is_private boolean NOT NULL DEFAULT false,
    shared_with text[] NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    last_used_at timestamptz NOT NULL DEFAULT now(),
    is_active boolean NOT NULL DEFAULT true,
    CONSTRAINT agent_memories_pkey PRIMARY KEY (user_id, id),
    CONSTRAINT agent_memories_content_unique
        UNIQUE (user_id, agent_id, session_id, memory_type, source, origin, content_id),
    CONSTRAINT agent_memories_key_unique UNIQUE (user_id, memory_key),
    CONSTRAINT agent_memories_content FOREIGN KEY (user_id, content_id)
        REFERENCES memory_context.agent_memory_contents (user_id, id),
    CONSTRAINT agent_memories_user_id_named CHECK (user_id <> ''),
    CONSTRAINT agent_memories_lengths CHECK (
        octet_length(user_id) <= 512 AND octet_length(agent_id) <= 512 AND octet_length(session_id) <= 512
        AND octet_length(source) <= 512 AND octet_length(memory_type) <= 64 AND octet_length(memory_key) <= 64
    ),
    CONSTRAINT agent_memories_one_content CHECK (is_active = (content_id IS NOT NULL)),
    CONSTRAINT agent_memories_sizes CHECK (content_bytes >= 0 AND token_count >= 0),
    CONSTRAINT agent_memories_origins CHECK (
        origin IN ('user_words', 'user_edit', 'application', 'agent', 'tool', 'import', 'consolidation')
    )
);
-- The items of a content.
CREATE INDEX agent_memories_of_content ON memory_context.agent_memories (user_id, content_id);
-- The order of a session, in which neighbouring items support each other's ranking.
CREATE INDEX agent_memories_session_order ON memory_context.agent_memories (user_id, session_id, agent_id, id);
-- What a search leaves out, without a look at all that is not private.
CREATE INDEX agent_memories_private ON memory_context.agent_memories (user_id, session_id, agent_id, id)
    WHERE is_private AND is_active;
-- What one agent was given by another.
CREATE INDEX agent_memories_shared ON memory_context.agent_memories (user_id, id) WHERE shared_with <> '{}';
COMMENT ON COLUMN memory_context.agent_memories.session_id IS 'empty when the item belongs to no session';
COMMENT ON COLUMN memory_context.agent_memories.origin IS 'whose words it holds; set by the code path that stored it';
COMMENT ON COLUMN memory_context.agent_memories.model_summary IS
    'a summary of the content by a model, escaped like short columns; NULL if there is none';
COMMENT ON COLUMN memory_context.agent_memories.content_id IS 'NULL once it was forgotten';
COMMENT ON COLUMN memory_context.agent_memories.content_bytes IS 'bytes of the UTF-8 form';
COMMENT ON COLUMN memory_context.agent_memories.token_count IS 'as the agent counts that stored it';
COMMENT ON COLUMN memory_context.agent_memories.is_private IS 'read by the agent and session that stored it only';
COMMENT ON COLUMN memory_context.agent_memories.shared_with IS 'agents that read it wherever it is from';

CALL memory_context.fence_table('agent_memory_contents');
CALL memory_context.fence_table('agent_memories');

-- All users, and who has something waiting. Maintenance reads it by functions of the owner, then acts as each user in turn.
CREATE TABLE memory_context.memory_users (
    user_id text COLLATE "C" NOT NULL,
    pending_since timestamptz,
    has_failed_jobs boolean NOT NULL DEFAULT false,
    CONSTRAINT memory_users_pkey PRIMARY KEY (user_id),
    CONSTRAINT memory_users_user_id_named CHECK (user_id <> '')
);
COMMENT ON COLUMN memory_context.memory_users.has_failed_jobs IS
    'a job failed too often, when nothing else was left to do';
-- Who has pending or failed jobs, without a look at all who have not.
CREATE INDEX memory_users_pending ON memory_context.memory_users (user_id)
    WHERE pending_since IS NOT NULL OR has_failed_jobs;
CALL memory_context.fence_table('memory_users');

-- The outbox: work that is done later, written in the transaction that makes it necessary. Jobs of kind index and embed have
-- the id of their item, and are deleted with it.
CREATE TABLE memory_context.jobs (
    user_id text COLLATE "C" NOT NULL,
    id bigint GENERATED BY DEFAULT AS IDENTITY,
    kind text COLLATE "C" NOT NULL,
    payload jsonb NOT NULL DEFAULT '{}',
    due_at timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0,
    claim uuid,
    is_failed boolean NOT NULL DEFAULT false,
    last_error text,
    CONSTRAINT jobs_pkey PRIMARY KEY (user_id, id, kind),
    CONSTRAINT jobs_user_id_named CHECK (user_id <> ''),
    CONSTRAINT jobs_lengths CHECK (octet_length(user_id) <= 512 AND octet_length(kind) BETWEEN 1 AND 64)
);
COMMENT ON COLUMN memory_context.jobs.kind IS
    'index: passages and terms of an item are missing; embed: only embeddings are; others are registered by the application';
COMMENT ON COLUMN memory_context.jobs.payload IS 'what the handler needs; "bytes" bounds how many jobs one claim takes';
COMMENT ON COLUMN memory_context.jobs.due_at IS 'not before; a claim moves it to the end of its lease';
COMMENT ON COLUMN memory_context.jobs.claim IS 'of the worker that has the lease; only it may finish the job';
COMMENT ON COLUMN memory_context.jobs.is_failed IS 'a dead letter: tried too often, and not again by itself';

-- Passages: a content from its beginning, in pieces that follow each other. The text is escaped like short columns.
CREATE TABLE memory_context.agent_memory_chunks (
    user_id text COLLATE "C" NOT NULL,
    content_id bigint NOT NULL,
    chunk_number integer NOT NULL,
    start_char integer NOT NULL,
    end_char integer NOT NULL,
    start_line integer NOT NULL,
    end_line integer NOT NULL,
    text text NOT NULL,
    masked_text text,
    text_sha256 bytea NOT NULL,
    CONSTRAINT agent_memory_chunks_pkey PRIMARY KEY (user_id, content_id, chunk_number),
    CONSTRAINT agent_memory_chunks_content FOREIGN KEY (user_id, content_id)
        REFERENCES memory_context.agent_memory_contents (user_id, id) ON DELETE CASCADE
);
COMMENT ON COLUMN memory_context.agent_memory_chunks.start_char IS 'from 0, in the original content';
COMMENT ON COLUMN memory_context.agent_memory_chunks.start_line IS 'from 1, in the original content';
COMMENT ON COLUMN memory_context.agent_memory_chunks.masked_text IS
    'the text without credentials, which is embedded; NULL if there are none';
COMMENT ON COLUMN memory_context.agent_memory_chunks.text_sha256 IS 'of the text as it stands here';

-- Which passages of a content hold a term, and how often. Equality on text is leakproof, so that row-level security and
-- the index work together, which the operators of full-text search are not. The index alone says how frequent a term is.
-- No foreign key to the content: there are some ninety rows for a passage, and each would pay for a check. The statement
-- that deletes a content deletes its terms.
CREATE TABLE memory_context.agent_memory_terms (
    user_id text COLLATE "C" NOT NULL,
    term text COLLATE "C" NOT NULL,
    content_id bigint NOT NULL,
    postings integer[] NOT NULL,
    passages integer NOT NULL GENERATED ALWAYS AS (cardinality(postings)) STORED,
    CONSTRAINT agent_memory_terms_pkey PRIMARY KEY (user_id, term, content_id) INCLUDE (passages)
);
COMMENT ON COLUMN memory_context.agent_memory_terms.postings IS
    'one for each passage: its number * 65536 + occurrences (at most 255) * 256 + length code';

-- What an item is called, apart from its content: whoever cannot read the item does not find the content by its names.
CREATE TABLE memory_context.agent_memory_names (
    user_id text COLLATE "C" NOT NULL,
    term text COLLATE "C" NOT NULL,
    content_id bigint NOT NULL,
    memory_id bigint NOT NULL,
    posting integer NOT NULL,
    CONSTRAINT agent_memory_names_pkey PRIMARY KEY (user_id, term, content_id, memory_id) INCLUDE (posting)
);
COMMENT ON COLUMN memory_context.agent_memory_names.term IS 'of key, description, source and tags, if not of the first passage';
COMMENT ON COLUMN memory_context.agent_memory_names.posting IS 'one occurrence in the first passage, as in agent_memory_terms';

-- Embeddings, of one or several models side by side. The index of each model is made by ensure_embedding_index.
CREATE TABLE memory_context.agent_memory_embeddings (
    user_id text COLLATE "C" NOT NULL,
    embedding_model text COLLATE "C" NOT NULL,
    content_id bigint NOT NULL,
    chunk_number integer NOT NULL,
    embedding halfvec NOT NULL,
    CONSTRAINT agent_memory_embeddings_pkey PRIMARY KEY (user_id, embedding_model, content_id, chunk_number),
    CONSTRAINT agent_memory_embeddings_chunk FOREIGN KEY (user_id, content_id, chunk_number)
        REFERENCES memory_context.agent_memory_chunks (user_id, content_id, chunk_number) ON DELETE CASCADE
);

-- How many passages a user has, which the ranking needs.
CREATE TABLE memory_context.agent_memory_statistics (
    user_id text COLLATE "C" NOT NULL,
    chunk_count bigint NOT NULL,
    CONSTRAINT agent_memory_statistics_pkey PRIMARY KEY (user_id)
);

CALL memory_context.fence_table('jobs');
CALL memory_context.fence_table('agent_memory_chunks');
CALL memory_context.fence_table('agent_memory_terms');
CALL memory_context.fence_table('agent_memory_names');
CALL memory_context.fence_table('agent_memory_embeddings');
CALL memory_context.fence_table('agent_memory_statistics');

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

-- Whether an item meets criteria; NULL for one that is not set. Secrets are listed only when they are asked for by their
-- type. Inlined by the planner.
CREATE FUNCTION memory_context.meets(
    item memory_context.agent_memories, types text[], sources text[], all_tags text[],
    created_after timestamptz, created_before timestamptz, of_agent text, of_session text,
    linked_to text, linked_keys text[]
) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT item.is_active
        AND CASE WHEN types IS NULL THEN item.memory_type <> 'user_secret' ELSE item.memory_type = ANY(types) END
        AND (sources IS NULL OR item.source = ANY(sources))
        AND (all_tags IS NULL OR item.tags @> all_tags)
        AND (created_after IS NULL OR item.created_at >= created_after)
        AND (created_before IS NULL OR item.created_at < created_before)
        AND (of_agent IS NULL OR item.agent_id = of_agent)
        AND (of_session IS NULL OR item.session_id = of_session)
        AND (linked_to IS NULL OR linked_to = ANY(item.related_to) OR item.memory_key = ANY(linked_keys))
$$;

-- Whether somebody may read an item: by its key, if only some keys may be read; else if it is within reach (NULL for no
-- bound) and not private to somebody else, or was shared with the reader. Inlined by the planner.
CREATE FUNCTION memory_context.may_read(
    item memory_context.agent_memories, reader_agent text, reader_session text,
    within_agent text, within_session text, only_keys text[]
) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN only_keys IS NOT NULL THEN item.memory_key = ANY(only_keys)
        ELSE (
                (within_agent IS NULL OR item.agent_id = within_agent)
                AND (within_session IS NULL OR item.session_id = within_session)
                AND (NOT item.is_private OR (item.agent_id = reader_agent AND item.session_id = reader_session))
            )
            OR (item.shared_with <> '{}' AND reader_agent = ANY(item.shared_with))
        END
$$;

-- The items that are private to others. There are few, and none for most, so that these are left out of a search rather
-- than everything else looked up. Inlined by the planner.
CREATE FUNCTION memory_context.hidden_items(of_user text, reader_agent text, reader_session text)
RETURNS TABLE (memory_id bigint) LANGUAGE sql STABLE AS $$
    SELECT item.id FROM memory_context.agent_memories AS item
    WHERE item.user_id = of_user
        AND item.is_private AND item.is_active
        AND NOT (item.agent_id = reader_agent AND item.session_id = reader_session)
        AND NOT reader_agent = ANY(item.shared_with)
$$;

-- The contents of these items, unless another item makes them known to the reader, which is so once it is indexed: an item
-- is not found sooner for its content being there already. Inlined by the planner.
CREATE FUNCTION memory_context.hidden_contents(of_user text, reader_agent text, reader_session text)
RETURNS TABLE (content_id bigint) LANGUAGE sql STABLE AS $$
    SELECT hidden.content_id FROM memory_context.agent_memories AS hidden
    WHERE hidden.user_id = of_user
        AND hidden.is_private AND hidden.is_active
        AND NOT (hidden.agent_id = reader_agent AND hidden.session_id = reader_session)
        AND NOT reader_agent = ANY(hidden.shared_with)
        AND NOT EXISTS (
            SELECT FROM memory_context.agent_memories AS known
            WHERE known.user_id = of_user
                AND known.content_id = hidden.content_id
                AND known.memory_type <> 'user_secret'
                AND (
                    NOT known.is_private
                    OR (known.agent_id = reader_agent AND known.session_id = reader_session)
                    OR reader_agent = ANY(known.shared_with)
                )
                AND NOT EXISTS (
                    SELECT FROM memory_context.jobs AS job
                    WHERE job.user_id = of_user AND job.id = known.id AND job.kind = 'index'
                )
        )
$$;

-- The hash of the beginning of a content: of 2,000 characters, or bytes where it is kept as such.
CREATE FUNCTION memory_context.beginning_sha256(content text, content_raw bytea) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT sha256(coalesce(substring(content_raw FOR 2000), convert_to(left(content, 2000), 'UTF8')))
$$;

-- Store a content that is not there yet; it stays at least until the transaction ends. All contents of a transaction come
-- before its items and in one order, so that nobody waits for each other.
CREATE FUNCTION memory_context.store_content(
    of_user text, its_sha256 bytea, its_content text, its_content_raw bytea, its_bytes bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        INSERT INTO memory_context.agent_memory_contents (
            user_id, content, content_raw, content_bytes, content_sha256, beginning_sha256
        )
        VALUES (
            of_user, its_content, its_content_raw, its_bytes, its_sha256,
            memory_context.beginning_sha256(its_content, its_content_raw)
        )
        ON CONFLICT ON CONSTRAINT agent_memory_contents_sha256_unique DO NOTHING;
        EXIT WHEN FOUND;
        PERFORM FROM memory_context.agent_memory_contents
        WHERE user_id = of_user AND content_sha256 = its_sha256
        FOR KEY SHARE;
        EXIT WHEN FOUND; -- else somebody forgot its last item just now
    END LOOP;
END
$$;

-- Store an item of a content that is there, and for a new one the job to index it. The same content of the same origin in
-- the same place again answers with the key it already has; stored for all once, it is for all. A key of another content is
-- a unique_violation.
-- Any conflict is waited for and nothing is done: with one constraint named, two who insert the same row at once can
-- block each other for good between the two unique indexes.
CREATE FUNCTION memory_context.store_memory(
    of_user text, its_key text, its_agent text, its_session text, its_type text, its_source text, its_origin text,
    its_summary text, its_bytes bigint, its_tokens bigint, its_sha256 bytea, its_tags text[], its_related_to text[],
    its_metadata jsonb, its_is_private boolean, OUT stored_key text, OUT is_new boolean
) LANGUAGE plpgsql AS $$
DECLARE
    stored_id bigint;
    its_content_id bigint := (
        SELECT id FROM memory_context.agent_memory_contents WHERE user_id = of_user AND content_sha256 = its_sha256
    );
BEGIN
    INSERT INTO memory_context.agent_memories (
        user_id, memory_key, agent_id, session_id, memory_type, source, origin, summary, content_id, content_bytes,
        token_count, tags, related_to, content_metadata, is_private
    ) VALUES (
        of_user, its_key, its_agent, its_session, its_type, its_source, its_origin, its_summary, its_content_id,
        its_bytes, its_tokens, its_tags, its_related_to, its_metadata, its_is_private
    )
    ON CONFLICT DO NOTHING
    RETURNING id, memory_key INTO stored_id, stored_key;
    is_new := FOUND;
    IF is_new THEN
        INSERT INTO memory_context.jobs (user_id, kind, id, payload)
        VALUES (of_user, 'index', stored_id, jsonb_build_object('bytes', its_bytes));
        RETURN;
    END IF;
    UPDATE memory_context.agent_memories AS memory
    SET updated_at = now(), last_used_at = now(), is_private = memory.is_private AND its_is_private
    WHERE memory.user_id = of_user
        AND memory.agent_id = its_agent
        AND memory.session_id = its_session
        AND memory.memory_type = its_type
        AND memory.source = its_source
        AND memory.origin = its_origin
        AND memory.content_id = its_content_id
    RETURNING memory.memory_key INTO stored_key;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the key % is taken by another content', its_key USING ERRCODE = 'unique_violation';
    END IF;
END
$$;

-- What a term says about a passage that holds it: BM25 (Robertson and Zaragoza, 2009) with k1 = 1.2 and b = 0.75, against
-- a typical length of 150 terms, that of a passage of full size. In float8 throughout: numeric takes seven times as long.
CREATE FUNCTION memory_context.bm25(posting integer, document_frequency bigint, chunk_count bigint)
RETURNS float8 LANGUAGE sql IMMUTABLE AS $$
    SELECT ln(
            1::float8 + (greatest(chunk_count, document_frequency) - document_frequency + 0.5::float8)
            / (document_frequency + 0.5::float8)
        )
        * ((posting >> 8) & 255) * 2.2::float8
        / (
            ((posting >> 8) & 255)
            + 1.2::float8 * (
                0.25::float8 + 0.75::float8 * (2::float8 ^ ((posting & 255) / 16::float8) - 1::float8) / 150::float8
            )
        )
$$;

-- An index for the embeddings of one model. Runs as the owner of the tables; made before the model's first row, so that
-- it takes no time and every later row goes into it. Does nothing if it is there already. A model's name ends with its
-- dimensions, so that nobody can make another model's index with the wrong ones; there are at most sixteen.
CREATE FUNCTION memory_context.ensure_embedding_index(model text, dimensions integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    index_name text := 'agent_memory_embeddings_' || left(encode(sha256(convert_to(model, 'UTF8')), 'hex'), 16);
    vector_schema text := (
        SELECT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector'
    );
BEGIN
    IF dimensions NOT BETWEEN 1 AND 4000 OR to_regclass('memory_context.' || index_name) IS NOT NULL THEN
        RETURN;
    END IF;
    IF right(model, length('/' || dimensions)) <> '/' || dimensions OR length(model) > 200 THEN
        RAISE EXCEPTION 'embedding model % is not named <name>/<dimensions>, in at most 200 characters',
            quote_literal(left(model, 200)) USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_advisory_xact_lock(6290471330157283);
    IF (
        SELECT count(*) >= 16 FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE indrelid = 'memory_context.agent_memory_embeddings'::regclass
            AND relname ~ '^agent_memory_embeddings_[0-9a-f]{16}$' AND relname <> index_name
    ) THEN
        RAISE EXCEPTION 'no index for embedding model %: there are 16 already; as the owner, delete the embeddings of '
            'models that are no longer used, and drop their indexes on memory_context.agent_memory_embeddings',
            quote_literal(model) USING ERRCODE = 'program_limit_exceeded';
    END IF;
    EXECUTE format(
        'CREATE INDEX IF NOT EXISTS %I ON memory_context.agent_memory_embeddings '
        'USING hnsw ((embedding::%I.halfvec(%s)) %I.halfvec_cosine_ops) WHERE embedding_model = %L',
        index_name, vector_schema, dimensions, vector_schema, model
    );
END
$$;

-- The audit trail: what happened to items beside being stored, which they tell themselves. Written in batches by the
-- processes that saw it happen. The id is the process's, so that a batch which comes again after a lost answer changes
-- nothing; the order of a session is created_at, then id.
CREATE TABLE memory_context.agent_memory_events (
    user_id text COLLATE "C" NOT NULL,
    id uuid NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    is_private boolean NOT NULL,
    kind text COLLATE "C" NOT NULL,
    memory_keys text[] NOT NULL,
    detail text NOT NULL,
    created_at timestamptz NOT NULL,
    CONSTRAINT agent_memory_events_pkey PRIMARY KEY (user_id, id),
    CONSTRAINT agent_memory_events_user_id_named CHECK (user_id <> ''),
    CONSTRAINT agent_memory_events_lengths CHECK (
        octet_length(user_id) <= 512 AND octet_length(agent_id) <= 512 AND octet_length(session_id) <= 512
        AND octet_length(kind) <= 64
    )
);
COMMENT ON TABLE memory_context.agent_memory_events IS
    'what happened to items: look-ups, expansions, compactions; the items themselves say when they were stored';
COMMENT ON COLUMN memory_context.agent_memory_events.is_private IS 'read by that agent in that session only';
COMMENT ON COLUMN memory_context.agent_memory_events.created_at IS
    'when it happened, by the clock of the server: when it was written less its age';

-- A session's events in order.
CREATE INDEX agent_memory_events_session_order
    ON memory_context.agent_memory_events (user_id, session_id, created_at, id);
-- A user's oldest events, for pruning.
CREATE INDEX agent_memory_events_age ON memory_context.agent_memory_events (user_id, created_at);

CALL memory_context.fence_table('agent_memory_events');

-- Sessions and what was said in them: transcripts in batches, and the messages that people saw.

-- A user's oldest items, for pruning. By a time that never changes: one that does would make every use of an item dearer.
CREATE INDEX agent_memories_age ON memory_context.agent_memories (user_id, created_at, id) WHERE is_active;

-- A session's row is the lock of all who write to it, and stays as a tombstone when it is deleted.
CREATE TABLE memory_context.agent_sessions (
    user_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    title text NOT NULL DEFAULT '',
    summary text NOT NULL DEFAULT '',
    message_count bigint NOT NULL DEFAULT 0,
    chat_count bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT now(),
    last_activity_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz,
    CONSTRAINT agent_sessions_pkey PRIMARY KEY (user_id, session_id),
    CONSTRAINT agent_sessions_user_id_named CHECK (user_id <> ''),
    CONSTRAINT agent_sessions_session_id_named CHECK (session_id <> ''),
    CONSTRAINT agent_sessions_lengths CHECK (
        octet_length(user_id) <= 512 AND octet_length(session_id) <= 512 AND octet_length(agent_id) <= 512
    ),
    CONSTRAINT agent_sessions_counts CHECK (message_count >= 0 AND chat_count >= 0)
);
COMMENT ON COLUMN memory_context.agent_sessions.agent_id IS 'the agent that began it; other agents may archive in it too';
COMMENT ON COLUMN memory_context.agent_sessions.message_count IS 'messages in its transcripts';
COMMENT ON COLUMN memory_context.agent_sessions.chat_count IS 'chat messages, as a person sees them';
COMMENT ON COLUMN memory_context.agent_sessions.deleted_at IS 'of a tombstone: whoever still archives in it is refused';

-- A user's sessions, those used last first; and what is old, for pruning.
CREATE INDEX agent_sessions_activity ON memory_context.agent_sessions (user_id, last_activity_at, session_id);

CREATE TABLE memory_context.recent_conversation_history (
    user_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    branch text COLLATE "C" NOT NULL,
    sequence integer NOT NULL,
    begins_anew boolean NOT NULL DEFAULT false,
    message_count integer NOT NULL,
    memory_keys text[] NOT NULL DEFAULT '{}',
    message_ids text[] NOT NULL DEFAULT '{}',
    start_timestamp timestamptz NOT NULL,
    end_timestamp timestamptz NOT NULL,
    archived_at timestamptz NOT NULL DEFAULT now(),
    batch_sha256 bytea,
    message_batch jsonb NOT NULL,
    CONSTRAINT recent_conversation_history_pkey PRIMARY KEY (user_id, session_id, kind, agent_id, branch, sequence),
    CONSTRAINT recent_conversation_history_session FOREIGN KEY (user_id, session_id)
        REFERENCES memory_context.agent_sessions (user_id, session_id) ON DELETE CASCADE,
    CONSTRAINT recent_conversation_history_user_id_named CHECK (user_id <> ''),
    CONSTRAINT recent_conversation_history_lengths CHECK (
        octet_length(user_id) <= 512 AND octet_length(session_id) <= 512 AND octet_length(agent_id) <= 512
        AND octet_length(branch) <= 512
    ),
    CONSTRAINT recent_conversation_history_kinds CHECK (
        (kind = 'transcript' AND octet_length(batch_sha256) = 32)
        OR (kind = 'client' AND batch_sha256 IS NULL AND agent_id = '' AND branch = '' AND NOT begins_anew)
    ),
    CONSTRAINT recent_conversation_history_counts CHECK (sequence >= 0 AND message_count >= 0)
);
COMMENT ON COLUMN memory_context.recent_conversation_history.kind IS
    'transcript: the next stretch of an agent''s transcript; client: chat messages';
COMMENT ON COLUMN memory_context.recent_conversation_history.branch IS
    'empty for the main line; other lines were gone on with by a process that found its number taken';
COMMENT ON COLUMN memory_context.recent_conversation_history.message_batch IS
    'of a transcript its entries and decisions, of chat messages a list of them; all strings are escaped like short columns';
COMMENT ON COLUMN memory_context.recent_conversation_history.batch_sha256 IS
    'of the canonical form of message_batch, made again when it is read';
COMMENT ON COLUMN memory_context.recent_conversation_history.message_count IS 'how many messages are new with this batch';
COMMENT ON COLUMN memory_context.recent_conversation_history.begins_anew IS
    'everything since the beginning is in it: reading starts at the last one';
COMMENT ON COLUMN memory_context.recent_conversation_history.memory_keys IS 'the items it refers to';
COMMENT ON COLUMN memory_context.recent_conversation_history.message_ids IS
    'of chat messages their ids; of a transcript those of the chat messages whose words are in it';

-- A page of a session's chat messages without opening the batches that cannot hold one of them.
CREATE INDEX recent_conversation_history_chat
    ON memory_context.recent_conversation_history (user_id, session_id, end_timestamp, start_timestamp)
    WHERE kind = 'client';

CALL memory_context.fence_table('agent_sessions');
CALL memory_context.fence_table('recent_conversation_history');

-- Make a session or note that it was used, and hold its row: until the transaction ends nobody else writes to it. The
-- user of a new one is put on the list of users, whose row is locked even if it is there: whoever erases the user waits.
-- Refused if it was deleted, or the session it is a part of (`<session>/...`).
CREATE FUNCTION memory_context.touch_session(
    of_user text, its_session text, its_agent text, its_title text, title_is_final boolean, its_summary text
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    is_new boolean;
    gone_at timestamptz;
BEGIN
    INSERT INTO memory_context.agent_sessions AS session (user_id, session_id, agent_id, title, summary)
    VALUES (of_user, its_session, its_agent, coalesce(its_title, ''), coalesce(its_summary, ''))
    ON CONFLICT ON CONSTRAINT agent_sessions_pkey DO UPDATE
    SET last_activity_at = greatest(session.last_activity_at, now()),
        title = CASE WHEN title_is_final OR session.title = '' THEN coalesce(its_title, session.title) ELSE session.title END,
        summary = coalesce(its_summary, session.summary)
    WHERE session.deleted_at IS NULL
    RETURNING session.xmax = 0 INTO is_new;
    IF is_new IS NOT false THEN
        SELECT max(deleted_at) INTO gone_at FROM memory_context.agent_sessions
        WHERE user_id = of_user AND session_id = ANY(ARRAY(
            SELECT array_to_string(parts[1:length], '/')
            FROM string_to_array(its_session, '/') AS parts, generate_series(1, cardinality(parts)) AS length
        ));
        IF gone_at IS NOT NULL THEN
            RAISE EXCEPTION 'deleted on %', to_char(gone_at AT TIME ZONE 'UTC', 'YYYY-MM-DD "at" HH24:MI:SS "UTC"')
                USING ERRCODE = '23M01';
        END IF;
        INSERT INTO memory_context.memory_users AS known (user_id) VALUES (of_user)
        ON CONFLICT ON CONSTRAINT memory_users_pkey DO UPDATE SET has_failed_jobs = known.has_failed_jobs WHERE false;
    END IF;
END
$$;

-- Archive a batch of a transcript, unless its number is taken: by the same batch (known) or by another (conflict). The
-- session is held by touch_session.
CREATE FUNCTION memory_context.append_batch(
    of_user text, its_session text, its_agent text, its_branch text, its_sequence integer, its_batch jsonb,
    its_sha256 bytea, its_message_count integer, it_begins_anew boolean, its_memory_keys text[], its_message_ids text[],
    it_started timestamptz, it_ended timestamptz
) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO memory_context.recent_conversation_history (
        user_id, session_id, kind, agent_id, branch, sequence, message_batch, batch_sha256, message_count, begins_anew,
        memory_keys, message_ids, start_timestamp, end_timestamp
    ) VALUES (
        of_user, its_session, 'transcript', its_agent, its_branch, its_sequence, its_batch, its_sha256, its_message_count,
        it_begins_anew, its_memory_keys, its_message_ids, it_started, it_ended
    )
    ON CONFLICT ON CONSTRAINT recent_conversation_history_pkey DO NOTHING;
    IF FOUND THEN
        UPDATE memory_context.agent_sessions SET message_count = message_count + its_message_count
        WHERE user_id = of_user AND session_id = its_session;
        RETURN 'stored';
    END IF;
    RETURN CASE WHEN EXISTS (
        SELECT FROM memory_context.recent_conversation_history
        WHERE user_id = of_user AND session_id = its_session AND kind = 'transcript' AND agent_id = its_agent
            AND branch = its_branch AND sequence = its_sequence AND batch_sha256 = its_sha256
    ) THEN 'known' ELSE 'conflict' END;
END
$$;

-- Archive those of some chat messages that the session does not have, and return their ids. Answers that a client brought
-- and the server cannot confirm are marked is_unverified; the server's own answer with the same id takes their place. The
-- session is held by touch_session.
CREATE FUNCTION memory_context.append_chat(of_user text, its_session text, its_messages jsonb)
RETURNS text[] LANGUAGE plpgsql AS $$
DECLARE
    its_ids text[] := ARRAY(SELECT message ->> 'id' FROM jsonb_array_elements(its_messages) AS message);
    new_messages jsonb;
    new_ids text[];
    first_at timestamptz;
    last_at timestamptz;
BEGIN
    UPDATE memory_context.recent_conversation_history AS batch
    SET message_batch = (
        SELECT jsonb_agg(
            CASE WHEN own IS NULL THEN known ELSE (known - 'is_unverified') || jsonb_build_object('text', own -> 'text') END
            ORDER BY place
        )
        FROM jsonb_array_elements(batch.message_batch) WITH ORDINALITY AS said (known, place)
        LEFT JOIN jsonb_array_elements(its_messages) AS own
            ON known @> '{"is_unverified": true}' AND own ->> 'id' = known ->> 'id' AND own ->> 'sender' = 'ai'
                AND NOT own @> '{"is_unverified": true}'
    )
    WHERE user_id = of_user AND session_id = its_session AND kind = 'client' AND message_ids && its_ids
        AND message_batch @> '[{"is_unverified": true}]';
    SELECT
        jsonb_agg(message ORDER BY place), array_agg(message ->> 'id' ORDER BY place),
        min((message ->> 'timestamp')::timestamptz), max((message ->> 'timestamp')::timestamptz)
    INTO new_messages, new_ids, first_at, last_at
    FROM jsonb_array_elements(its_messages) WITH ORDINALITY AS given (message, place)
    WHERE message ->> 'id' NOT IN (
        SELECT unnest(message_ids) FROM memory_context.recent_conversation_history
        WHERE user_id = of_user AND session_id = its_session AND kind = 'client' AND message_ids && its_ids
    );
    IF new_ids IS NULL THEN
        RETURN '{}';
    END IF;
    INSERT INTO memory_context.recent_conversation_history (
        user_id, session_id, kind, agent_id, branch, sequence, message_batch, message_count, message_ids, start_timestamp,
        end_timestamp
    )
    SELECT
        of_user, its_session, 'client', '', '', coalesce(max(sequence), -1) + 1, new_messages, cardinality(new_ids),
        new_ids, first_at, last_at
    FROM memory_context.recent_conversation_history
    WHERE user_id = of_user AND session_id = its_session AND kind = 'client' AND agent_id = '' AND branch = '';
    UPDATE memory_context.agent_sessions SET chat_count = chat_count + cardinality(new_ids)
    WHERE user_id = of_user AND session_id = its_session;
    RETURN new_ids;
END
$$;

-- Threads: conversations as a user interface showed them, for its history and for going on with one. What the agent keeps
-- of the same conversation is the session of the same id.

-- Who logged in to a user interface.
CREATE TABLE memory_context.ui_users (
    user_id text COLLATE "C" NOT NULL,
    metadata jsonb NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT ui_users_pkey PRIMARY KEY (user_id),
    CONSTRAINT ui_users_user_id_named CHECK (user_id <> ''),
    CONSTRAINT ui_users_lengths CHECK (octet_length(user_id) <= 512)
);

-- A thread's row stays as a tombstone when it is deleted: what is still on its way to it then finds no place.
CREATE TABLE memory_context.ui_threads (
    user_id text COLLATE "C" NOT NULL,
    thread_id text COLLATE "C" NOT NULL,
    name text,
    tags text[],
    metadata jsonb NOT NULL DEFAULT '{}',
    created_at timestamptz NOT NULL DEFAULT now(),
    last_activity_at timestamptz NOT NULL DEFAULT now(),
    deleted_at timestamptz,
    CONSTRAINT ui_threads_pkey PRIMARY KEY (user_id, thread_id),
    CONSTRAINT ui_threads_user_id_named CHECK (user_id <> ''),
    CONSTRAINT ui_threads_thread_id_named CHECK (thread_id <> ''),
    CONSTRAINT ui_threads_lengths CHECK (octet_length(user_id) <= 512 AND octet_length(thread_id) <= 512)
);
COMMENT ON COLUMN memory_context.ui_threads.deleted_at IS 'of a tombstone: nothing is shown in it any more';

-- The one key that does not begin with the user: whose a thread is has to be found by its id, which the browser sends, and
-- the first user to come with an id keeps it.
CREATE UNIQUE INDEX ui_threads_owner ON memory_context.ui_threads (thread_id);
-- A user's threads, those used last first.
CREATE INDEX ui_threads_activity ON memory_context.ui_threads (user_id, last_activity_at, thread_id)
    WHERE deleted_at IS NULL;

-- What was shown in a thread: messages, runs, calls of tools. All text is escaped like short columns.
CREATE TABLE memory_context.ui_steps (
    user_id text COLLATE "C" NOT NULL,
    step_id text COLLATE "C" NOT NULL,
    position bigint GENERATED ALWAYS AS IDENTITY,
    thread_id text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    is_updated boolean NOT NULL,
    feedback_id text COLLATE "C",
    feedback_value smallint,
    feedback_comment text,
    fields jsonb NOT NULL,
    input text,
    output text,
    CONSTRAINT ui_steps_pkey PRIMARY KEY (user_id, step_id),
    CONSTRAINT ui_steps_thread FOREIGN KEY (user_id, thread_id)
        REFERENCES memory_context.ui_threads (user_id, thread_id) ON DELETE CASCADE,
    CONSTRAINT ui_steps_lengths CHECK (octet_length(step_id) <= 512 AND octet_length(feedback_id) <= 512),
    CONSTRAINT ui_steps_feedback_whole CHECK ((feedback_id IS NULL) = (feedback_value IS NULL))
);
COMMENT ON COLUMN memory_context.ui_steps.fields IS 'all else that the interface keeps of it, also what is not known here';
COMMENT ON COLUMN memory_context.ui_steps.is_updated IS
    'whether an update has come: what comes as new afterwards is older and only fills in what is missing';
COMMENT ON COLUMN memory_context.ui_steps.position IS 'the order of what was created at the same time';

-- A thread's steps in their order.
CREATE INDEX ui_steps_order ON memory_context.ui_steps (user_id, thread_id, created_at, position);
-- Who rated what.
CREATE INDEX ui_steps_feedback ON memory_context.ui_steps (user_id, feedback_id) WHERE feedback_id IS NOT NULL;
CREATE INDEX ui_steps_favorites ON memory_context.ui_steps (user_id, created_at)
    WHERE fields #> '{metadata,favorite}' = 'true';

-- What was shown beside a step: images, texts, files. No foreign key to the step: it may come later.
CREATE TABLE memory_context.ui_elements (
    user_id text COLLATE "C" NOT NULL,
    element_id text COLLATE "C" NOT NULL,
    position bigint GENERATED ALWAYS AS IDENTITY,
    thread_id text COLLATE "C" NOT NULL,
    step_id text COLLATE "C" NOT NULL,
    fields jsonb NOT NULL,
    content bytea,
    CONSTRAINT ui_elements_pkey PRIMARY KEY (user_id, element_id),
    CONSTRAINT ui_elements_thread FOREIGN KEY (user_id, thread_id)
        REFERENCES memory_context.ui_threads (user_id, thread_id) ON DELETE CASCADE,
    CONSTRAINT ui_elements_lengths CHECK (octet_length(element_id) <= 512 AND octet_length(step_id) <= 512)
);
COMMENT ON COLUMN memory_context.ui_elements.step_id IS 'empty when it belongs to the whole thread';
COMMENT ON COLUMN memory_context.ui_elements.content IS 'NULL when there is none: it lies elsewhere, or was too large';
-- Not compressed: most of it is already, and a part of it can then be read without the rest.
ALTER TABLE memory_context.ui_elements ALTER COLUMN content SET STORAGE EXTERNAL;

CREATE INDEX ui_elements_order ON memory_context.ui_elements (user_id, thread_id, position);

CALL memory_context.fence_table('ui_users');
CALL memory_context.fence_table('ui_threads');
CALL memory_context.fence_table('ui_steps');
CALL memory_context.fence_table('ui_elements');

-- Whose a thread is: an interface asks before it knows whether the user who wants it may have it. Runs as the owner of the
-- tables, and tells of one id its user and nothing else; what is in the thread is read as that user.
CREATE FUNCTION memory_context.ui_thread_owner(its_thread text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT user_id FROM memory_context.ui_threads WHERE thread_id = its_thread AND deleted_at IS NULL
$$;

-- All users, page by page. The application may not call it; a login that prunes or reindexes without being the owner
-- is given it by name: GRANT EXECUTE ON FUNCTION memory_context.list_users(text, integer) TO <login>;
CREATE FUNCTION memory_context.list_users(after_user_id text, at_most integer) RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT user_id FROM memory_context.memory_users
    WHERE user_id > after_user_id ORDER BY user_id LIMIT least(at_most, 1000)
$$;

-- Users with pending jobs, page by page; with those who only have failed ones, on request.
CREATE FUNCTION memory_context.pending_users(after_user_id text, with_failed boolean, at_most integer)
RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT user_id FROM memory_context.memory_users
    WHERE (pending_since IS NOT NULL OR has_failed_jobs)
        AND (pending_since IS NOT NULL OR with_failed)
        AND user_id > after_user_id
    ORDER BY user_id LIMIT least(at_most, 1000)
$$;

-- The one user of a store that has one: its id and 1. Otherwise no id, and 0 or 2, which stands for several.
CREATE FUNCTION memory_context.only_user(OUT users bigint, OUT user_id text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*), CASE count(*) WHEN 1 THEN min(found.user_id) END
    FROM (SELECT known.user_id FROM memory_context.memory_users AS known LIMIT 2) AS found
$$;

-- How much there is, of all users together.
CREATE FUNCTION memory_context.store_counts(
    OUT users bigint, OUT items bigint, OUT forgotten bigint, OUT passages bigint, OUT embeddings jsonb,
    OUT sessions bigint, OUT batches bigint, OUT jobs jsonb
)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT
        (SELECT count(*) FROM memory_context.memory_users),
        item.items, item.forgotten,
        (SELECT coalesce(sum(chunk_count), 0)::bigint FROM memory_context.agent_memory_statistics),
        (
            SELECT coalesce(jsonb_object_agg(model.embedding_model, model.embeddings), '{}') FROM (
                SELECT embedding_model, count(*) AS embeddings
                FROM memory_context.agent_memory_embeddings GROUP BY embedding_model
            ) AS model
        ),
        (SELECT count(*) FROM memory_context.agent_sessions WHERE deleted_at IS NULL),
        (SELECT count(*) FROM memory_context.recent_conversation_history),
        (
            SELECT coalesce(jsonb_object_agg(job.kind, jsonb_build_object('pending', job.pending, 'failed', job.failed)), '{}')
            FROM (
                SELECT kind, count(*) FILTER (WHERE NOT is_failed) AS pending, count(*) FILTER (WHERE is_failed) AS failed
                FROM memory_context.jobs GROUP BY kind
            ) AS job
        )
    FROM (
        SELECT count(*) AS items, count(*) FILTER (WHERE NOT is_active) AS forgotten FROM memory_context.agent_memories
    ) AS item
$$;

-- How many rows some tables have, of all users together.
CREATE FUNCTION memory_context.row_counts(names text[]) RETURNS TABLE (name text, row_count bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    FOR name IN
        SELECT relname FROM pg_class
        WHERE relnamespace = 'memory_context'::regnamespace AND relkind = 'r' AND relname = ANY(names)
    LOOP
        EXECUTE format('SELECT count(*) FROM memory_context.%I', name) INTO row_count;
        RETURN NEXT;
    END LOOP;
END
$$;

-- What is one of a kind in an installation. The key that signs its exports is made once; only the owner reads it, and no
-- other installation knows it.
CREATE TABLE memory_context.installation (
    is_only boolean NOT NULL DEFAULT true,
    export_key bytea NOT NULL,
    CONSTRAINT installation_pkey PRIMARY KEY (is_only),
    CONSTRAINT installation_one_row CHECK (is_only),
    CONSTRAINT installation_key_length CHECK (octet_length(export_key) = 32)
);
ALTER TABLE memory_context.installation ENABLE ROW LEVEL SECURITY;
COMMENT ON TABLE memory_context.installation IS 'one row, which only the owner reads';
INSERT INTO memory_context.installation (export_key) VALUES (sha256(
    uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
));

-- The signature of an export: HMAC-SHA256 (RFC 2104) of the SHA-256 of the file before its signature, and of its user.
-- Runs as the owner, who alone reads the key.
CREATE FUNCTION memory_context.sign_export(of_user text, file_sha256 bytea) RETURNS bytea
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    key bytea := (SELECT export_key FROM memory_context.installation);
    inner_key bytea := decode(repeat('36', 64), 'hex');
    outer_key bytea := decode(repeat('5c', 64), 'hex');
BEGIN
    FOR place IN 0..31 LOOP
        inner_key := set_byte(inner_key, place, get_byte(key, place) # 54);
        outer_key := set_byte(outer_key, place, get_byte(key, place) # 92);
    END LOOP;
    RETURN sha256(outer_key || sha256(inner_key || file_sha256 || convert_to(of_user, 'UTF8')));
END
$$;

-- The application calls every function but the list of users, and no procedure.
REVOKE ALL ON ALL ROUTINES IN SCHEMA memory_context FROM PUBLIC;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA memory_context TO memory_context_app;
REVOKE EXECUTE ON FUNCTION memory_context.list_users(text, integer) FROM memory_context_app;
