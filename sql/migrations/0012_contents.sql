-- Contents: what is stored is stored once for each user, with its passages, terms and embeddings; items point to it. The
-- table of items becomes that of contents, so that no content is written again, and items get a table of their own.

DROP FUNCTION memory_context.store_memory(
    text, text, text, text, text, text, text, text, text, bytea, bigint, bigint, bytea, text[], text[], jsonb, boolean
);
DROP FUNCTION memory_context.meets(
    memory_context.agent_memories, text[], text[], text[], timestamptz, timestamptz, text, text, text, text[]
);
DROP FUNCTION memory_context.may_read(memory_context.agent_memories, text, text, text, text, text[]);

-- Nothing may be stored between the two tables.
LOCK TABLE memory_context.agent_memories, memory_context.index_jobs, memory_context.agent_memory_chunks
    IN ACCESS EXCLUSIVE MODE;

ALTER TABLE memory_context.agent_memories RENAME TO agent_memory_contents;
ALTER SEQUENCE memory_context.agent_memories_id_seq RENAME TO agent_memory_contents_id_seq;
ALTER POLICY agent_memories_own_rows ON memory_context.agent_memory_contents RENAME TO agent_memory_contents_own_rows;
ALTER TABLE memory_context.agent_memory_contents RENAME CONSTRAINT agent_memories_pkey TO agent_memory_contents_pkey;
ALTER TABLE memory_context.agent_memory_contents
    RENAME CONSTRAINT agent_memories_user_id_named TO agent_memory_contents_user_id_named;
ALTER TABLE memory_context.agent_memory_contents
    RENAME CONSTRAINT agent_memories_sha256_length TO agent_memory_contents_sha256_length;

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
    is_active boolean NOT NULL DEFAULT true
);

-- Of items with the same content the content of one stays: of the first that is indexed, or of the first.
INSERT INTO memory_context.agent_memories (
    user_id, id, memory_key, agent_id, session_id, memory_type, source, origin, summary, model_summary, content_id,
    content_bytes, token_count, tags, related_to, content_metadata, is_private, created_at, updated_at, last_used_at,
    is_active
)
OVERRIDING SYSTEM VALUE
SELECT
    old.user_id, old.id, old.memory_key, old.agent_id, old.session_id, old.memory_type, old.source, old.origin,
    old.summary, old.model_summary,
    CASE WHEN old.is_active THEN first_value(old.id) OVER (
        PARTITION BY old.user_id, old.content_sha256, old.is_active ORDER BY indexed.content_id IS NULL, old.id
    ) END,
    old.content_bytes, old.token_count, old.tags, old.related_to, old.content_metadata, old.is_private, old.created_at,
    old.updated_at, old.last_used_at, old.is_active
FROM memory_context.agent_memory_contents AS old
LEFT JOIN (
    SELECT user_id, memory_id AS content_id FROM memory_context.agent_memory_chunks WHERE chunk_number = 0
) AS indexed ON indexed.user_id = old.user_id AND indexed.content_id = old.id
ORDER BY old.user_id, old.id;
SELECT setval('memory_context.agent_memories_id_seq', coalesce(max(id), 0) + 1, false)
FROM memory_context.agent_memories;

ALTER TABLE memory_context.index_jobs DROP CONSTRAINT index_jobs_item;

-- What stood in the columns of items goes, and with them the constraints and indexes of items.
ALTER TABLE memory_context.agent_memory_contents
    DROP COLUMN memory_key, DROP COLUMN agent_id, DROP COLUMN session_id, DROP COLUMN memory_type, DROP COLUMN source,
    DROP COLUMN origin, DROP COLUMN summary, DROP COLUMN model_summary, DROP COLUMN token_count, DROP COLUMN tags,
    DROP COLUMN related_to, DROP COLUMN content_metadata, DROP COLUMN is_private, DROP COLUMN created_at,
    DROP COLUMN updated_at, DROP COLUMN last_used_at, DROP COLUMN is_active;

ALTER TABLE memory_context.agent_memory_chunks RENAME COLUMN memory_id TO content_id;
ALTER TABLE memory_context.agent_memory_chunks
    RENAME CONSTRAINT agent_memory_chunks_item TO agent_memory_chunks_content;
ALTER TABLE memory_context.agent_memory_terms RENAME COLUMN memory_id TO content_id;
ALTER TABLE memory_context.agent_memory_embeddings RENAME COLUMN memory_id TO content_id;

-- The contents that are there twice, and those of tombstones. Chunks and embeddings go with them.
CREATE TEMPORARY TABLE superfluous ON COMMIT DROP AS
SELECT user_id, id FROM memory_context.agent_memory_contents AS content
WHERE NOT EXISTS (
    SELECT FROM memory_context.agent_memories AS item
    WHERE item.user_id = content.user_id AND item.content_id = content.id
);
ANALYZE superfluous;
DELETE FROM memory_context.agent_memory_terms AS term
USING superfluous WHERE term.user_id = superfluous.user_id AND term.content_id = superfluous.id;
DELETE FROM memory_context.agent_memory_contents AS content
USING superfluous WHERE content.user_id = superfluous.user_id AND content.id = superfluous.id;
UPDATE memory_context.agent_memory_statistics AS statistic
SET chunk_count = (
    SELECT count(*) FROM memory_context.agent_memory_chunks AS chunk WHERE chunk.user_id = statistic.user_id
)
WHERE user_id IN (SELECT user_id FROM superfluous);

-- The terms of what was indexed hold the names of its item. They are made anew when the content gets another item.
ALTER TABLE memory_context.agent_memory_contents
    ADD COLUMN named_by bigint,
    ADD CONSTRAINT agent_memory_contents_sha256_unique UNIQUE (user_id, content_sha256),
    ADD CONSTRAINT agent_memory_contents_one_form CHECK (num_nonnulls(content, content_raw) = 1),
    ADD CONSTRAINT agent_memory_contents_size CHECK (content_bytes >= 0);
UPDATE memory_context.agent_memory_contents AS content
SET named_by = content.id
FROM memory_context.agent_memory_chunks AS chunk
WHERE chunk.user_id = content.user_id AND chunk.content_id = content.id AND chunk.chunk_number = 0;
COMMENT ON TABLE memory_context.agent_memory_contents IS
    'what is stored, once for each user; read only through an item within reach, and gone with the last one';
COMMENT ON COLUMN memory_context.agent_memory_contents.content IS 'the content, when Postgres text takes it as it is';
COMMENT ON COLUMN memory_context.agent_memory_contents.named_by IS
    'the item whose names its terms hold, as earlier versions indexed them; NULL if they hold none';

ALTER TABLE memory_context.agent_memories
    ADD CONSTRAINT agent_memories_pkey PRIMARY KEY (user_id, id),
    ADD CONSTRAINT agent_memories_content_unique
        UNIQUE (user_id, agent_id, session_id, memory_type, source, origin, content_id),
    ADD CONSTRAINT agent_memories_key_unique UNIQUE (user_id, memory_key),
    ADD CONSTRAINT agent_memories_content FOREIGN KEY (user_id, content_id)
        REFERENCES memory_context.agent_memory_contents (user_id, id),
    ADD CONSTRAINT agent_memories_user_id_named CHECK (user_id <> ''),
    ADD CONSTRAINT agent_memories_lengths CHECK (
        octet_length(user_id) <= 512 AND octet_length(agent_id) <= 512 AND octet_length(session_id) <= 512
        AND octet_length(source) <= 512 AND octet_length(memory_type) <= 64 AND octet_length(memory_key) <= 64
    ),
    ADD CONSTRAINT agent_memories_one_content CHECK (is_active = (content_id IS NOT NULL)),
    ADD CONSTRAINT agent_memories_sizes CHECK (content_bytes >= 0 AND token_count >= 0),
    ADD CONSTRAINT agent_memories_origins CHECK (
        origin IN ('user_words', 'user_edit', 'application', 'agent', 'tool', 'import', 'consolidation')
    );
CREATE INDEX agent_memories_of_content ON memory_context.agent_memories (user_id, content_id);
CREATE INDEX agent_memories_session_order ON memory_context.agent_memories (user_id, session_id, agent_id, id);
CREATE INDEX agent_memories_private ON memory_context.agent_memories (user_id, session_id, agent_id, id)
    WHERE is_private AND is_active;
CREATE INDEX agent_memories_shared ON memory_context.agent_memories (user_id, id) WHERE shared_with <> '{}';
CREATE INDEX agent_memories_age ON memory_context.agent_memories (user_id, created_at, id) WHERE is_active;
COMMENT ON COLUMN memory_context.agent_memories.session_id IS 'empty when the item belongs to no session';
COMMENT ON COLUMN memory_context.agent_memories.origin IS 'whose words it holds; set by the code path that stored it';
COMMENT ON COLUMN memory_context.agent_memories.model_summary IS
    'a summary of the content by a model, escaped like short columns; NULL if there is none';
COMMENT ON COLUMN memory_context.agent_memories.content_id IS 'NULL once it was forgotten';
COMMENT ON COLUMN memory_context.agent_memories.content_bytes IS 'bytes of the UTF-8 form';
COMMENT ON COLUMN memory_context.agent_memories.token_count IS 'as the agent counts that stored it';
COMMENT ON COLUMN memory_context.agent_memories.is_private IS 'read by the agent and session that stored it only';
COMMENT ON COLUMN memory_context.agent_memories.shared_with IS 'agents that read it wherever it is from';

ALTER TABLE memory_context.agent_memories ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_memories_own_rows ON memory_context.agent_memories
    USING (user_id = current_setting('memory_context.user_id', true))
    WITH CHECK (user_id = current_setting('memory_context.user_id', true));
GRANT SELECT, INSERT, UPDATE, DELETE ON memory_context.agent_memories TO memory_context_app;

ALTER TABLE memory_context.index_jobs ADD CONSTRAINT index_jobs_item FOREIGN KEY (user_id, memory_id)
    REFERENCES memory_context.agent_memories (user_id, id) ON DELETE CASCADE;

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
ALTER TABLE memory_context.agent_memory_names ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_memory_names_own_rows ON memory_context.agent_memory_names
    USING (user_id = current_setting('memory_context.user_id', true))
    WITH CHECK (user_id = current_setting('memory_context.user_id', true));
GRANT SELECT, INSERT, UPDATE, DELETE ON memory_context.agent_memory_names TO memory_context_app;

-- Items whose own index went with their content get their names from the indexer.
INSERT INTO memory_context.index_jobs (user_id, memory_id)
SELECT item.user_id, item.id
FROM memory_context.agent_memories AS item
JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = item.user_id AND content.id = item.content_id AND content.named_by <> item.id
WHERE item.memory_type <> 'user_secret'
ON CONFLICT ON CONSTRAINT index_jobs_pkey DO UPDATE SET is_text_done = false, claim = NULL, due_at = now();
UPDATE memory_context.memory_users AS waiting SET pending_since = now()
WHERE pending_since IS NULL AND EXISTS (
    SELECT FROM memory_context.index_jobs AS job WHERE job.user_id = waiting.user_id AND NOT job.is_set_aside
);

-- Since PostgreSQL 18 a NOT NULL has a name, which stays that of the former column and table.
DO $$
DECLARE
    kept record;
    its_name text;
BEGIN
    FOR kept IN
        SELECT relation.relname AS table_name, constraint_.conname AS name, attribute.attname AS column_name
        FROM pg_catalog.pg_constraint AS constraint_
        JOIN pg_catalog.pg_class AS relation ON relation.oid = constraint_.conrelid
        JOIN pg_catalog.pg_attribute AS attribute
            ON attribute.attrelid = relation.oid AND attribute.attnum = constraint_.conkey[1]
        WHERE constraint_.contype = 'n'
            AND relation.relnamespace = 'memory_context'::regnamespace
            AND relation.relname IN (
                'agent_memory_contents', 'agent_memory_chunks', 'agent_memory_terms', 'agent_memory_embeddings',
                'agent_memories'
            )
        ORDER BY relation.relname DESC -- what is called like the items' becomes the contents' first
    LOOP
        its_name := kept.table_name || '_' || kept.column_name || '_not_null';
        IF kept.name <> its_name THEN
            EXECUTE format(
                'ALTER TABLE memory_context.%I RENAME CONSTRAINT %I TO %I', kept.table_name, kept.name, its_name
            );
        END IF;
    END LOOP;
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
                    SELECT FROM memory_context.index_jobs AS job
                    WHERE job.user_id = of_user AND job.memory_id = known.id AND NOT job.is_text_done
                )
        )
$$;

-- Store a content that is not there yet; it stays at least until the transaction ends. All contents of a transaction come
-- before its items and in one order, so that nobody waits for each other.
CREATE FUNCTION memory_context.store_content(
    of_user text, its_sha256 bytea, its_content text, its_content_raw bytea, its_bytes bigint
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        INSERT INTO memory_context.agent_memory_contents (user_id, content, content_raw, content_bytes, content_sha256)
        VALUES (of_user, its_content, its_content_raw, its_bytes, its_sha256)
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
        INSERT INTO memory_context.index_jobs (user_id, memory_id) VALUES (of_user, stored_id);
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

REVOKE ALL ON FUNCTION memory_context.store_content(text, bytea, text, bytea, bigint) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory_context.store_content(text, bytea, text, bytea, bigint) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.store_memory(
    text, text, text, text, text, text, text, text, bigint, bigint, bytea, text[], text[], jsonb, boolean
) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory_context.store_memory(
    text, text, text, text, text, text, text, text, bigint, bigint, bytea, text[], text[], jsonb, boolean
) TO memory_context_app;
