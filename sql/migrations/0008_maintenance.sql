-- Maintenance across users goes through functions of the owner, each of which answers one question. The application's
-- login no longer reads the list of users, and the number of embedding indexes it can make has a limit.

DROP POLICY memory_users_readable ON memory_context.memory_users;
CREATE POLICY memory_users_own_select ON memory_context.memory_users FOR SELECT
    USING (user_id = current_setting('memory_context.user_id', true));

-- All users, page by page. The application may not call it; a login that prunes or reindexes without being the owner
-- is given it by name: GRANT EXECUTE ON FUNCTION memory_context.list_users(text, integer) TO <login>;
CREATE FUNCTION memory_context.list_users(after_user_id text, at_most integer) RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT user_id FROM memory_context.memory_users
    WHERE user_id > after_user_id ORDER BY user_id LIMIT least(at_most, 1000)
$$;

-- Users with something to index, page by page; with those for whom something was only set aside, on request.
CREATE FUNCTION memory_context.pending_users(after_user_id text, with_set_aside boolean, at_most integer)
RETURNS SETOF text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT user_id FROM memory_context.memory_users
    WHERE (pending_since IS NOT NULL OR has_set_aside)
        AND (pending_since IS NOT NULL OR with_set_aside)
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
    OUT sessions bigint, OUT batches bigint, OUT jobs_pending bigint, OUT jobs_set_aside bigint
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
        job.pending, job.set_aside
    FROM
        (
            SELECT count(*) AS items, count(*) FILTER (WHERE NOT is_active) AS forgotten
            FROM memory_context.agent_memories
        ) AS item,
        (
            SELECT count(*) FILTER (WHERE NOT is_set_aside) AS pending, count(*) FILTER (WHERE is_set_aside) AS set_aside
            FROM memory_context.index_jobs
        ) AS job
$$;

-- An index for the embeddings of one model. Runs as the owner of the tables; made before the model's first row, so that
-- it takes no time and every later row goes into it. Does nothing if it is there already. A model's name ends with its
-- dimensions, so that nobody can make another model's index with the wrong ones; there are at most sixteen.
CREATE OR REPLACE FUNCTION memory_context.ensure_embedding_index(model text, dimensions integer) RETURNS void
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

REVOKE ALL ON FUNCTION
    memory_context.list_users(text, integer), memory_context.pending_users(text, boolean, integer),
    memory_context.only_user(), memory_context.store_counts()
FROM PUBLIC;
GRANT EXECUTE ON FUNCTION
    memory_context.pending_users(text, boolean, integer), memory_context.only_user(), memory_context.store_counts()
TO memory_context_app;
