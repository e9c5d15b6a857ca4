-- Databases as hosts hand them out: pgvector in any schema, and an owner who may create no roles.

-- Every transaction begins with this. Local settings end with the transaction, so behind PgBouncer nothing leaks to
-- the next client of the connection. Hosts put pgvector into a schema of their own, and set search paths by role and by
-- database: the path of a transaction has its types and operators, whatever the login's is.
CREATE OR REPLACE FUNCTION memory_context.act_as(acting_user_id text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF acting_user_id IS NULL OR acting_user_id = '' THEN
        RAISE EXCEPTION 'act_as needs a user id' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM pg_catalog.set_config('memory_context.user_id', acting_user_id, true);
    PERFORM pg_catalog.set_config('hnsw.iterative_scan', 'strict_order', true);
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, ' || pg_catalog.quote_ident(nspname), true)
    FROM pg_catalog.pg_extension JOIN pg_catalog.pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'vector';
END
$$;

-- Where the owner is the only login there can be, row-level security has to bind it, too. What the functions below tell of all
-- users, and what migrations change, they see by a setting, which no other statement makes. The list of users holds no content,
-- so it is left to the owner. Called again after migrations, for new tables.
CREATE PROCEDURE memory_context.bind_owner() LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    its_name text;
BEGIN
    FOR its_name IN
        SELECT tablename FROM pg_policies
        WHERE schemaname = 'memory_context' AND policyname = tablename || '_own_rows' AND tablename <> 'memory_users'
    LOOP
        EXECUTE format('ALTER TABLE memory_context.%I FORCE ROW LEVEL SECURITY', its_name);
        EXECUTE format('DROP POLICY IF EXISTS %I ON memory_context.%I', its_name || '_every_user', its_name);
        EXECUTE format(
            'CREATE POLICY %I ON memory_context.%I USING (current_setting(''memory_context.every_user'', true) = ''on'') '
            'WITH CHECK (current_setting(''memory_context.every_user'', true) = ''on'')',
            its_name || '_every_user', its_name
        );
    END LOOP;
    GRANT EXECUTE ON FUNCTION memory_context.list_users(text, integer) TO CURRENT_USER;
END
$$;
REVOKE ALL ON PROCEDURE memory_context.bind_owner() FROM PUBLIC;

-- See the rows of all users, or no longer. Called by functions of the owner, which end what they begin.
CREATE FUNCTION memory_context.see_every_user(sees boolean) RETURNS void LANGUAGE sql AS $$
    SELECT pg_catalog.set_config(name, CASE WHEN sees THEN 'on' ELSE 'off' END, true)
    FROM pg_catalog.unnest(ARRAY['memory_context.every_user', 'memory_context.every_agent']) AS name
$$;
REVOKE ALL ON FUNCTION memory_context.see_every_user(boolean) FROM PUBLIC;

CREATE OR REPLACE FUNCTION memory_context.ui_thread_owner(its_thread text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found_user text;
BEGIN
    PERFORM memory_context.see_every_user(true);
    SELECT user_id INTO found_user FROM memory_context.ui_threads WHERE thread_id = its_thread AND deleted_at IS NULL;
    PERFORM memory_context.see_every_user(false);
    RETURN found_user;
END
$$;

CREATE OR REPLACE FUNCTION memory_context.row_counts(names text[]) RETURNS TABLE (name text, row_count bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM memory_context.see_every_user(true);
    FOR name IN
        SELECT relname FROM pg_class
        WHERE relnamespace = 'memory_context'::regnamespace AND relkind = 'r' AND relname = ANY(names)
    LOOP
        EXECUTE format('SELECT count(*) FROM memory_context.%I', name) INTO row_count;
        RETURN NEXT;
    END LOOP;
    PERFORM memory_context.see_every_user(false);
END
$$;

CREATE OR REPLACE FUNCTION memory_context.store_counts(
    OUT users bigint, OUT items bigint, OUT forgotten bigint, OUT passages bigint, OUT embeddings jsonb,
    OUT sessions bigint, OUT batches bigint, OUT jobs jsonb
)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM memory_context.see_every_user(true);
    SELECT count(*) INTO users FROM memory_context.memory_users;
    SELECT count(*), count(*) FILTER (WHERE NOT is_active) INTO items, forgotten FROM memory_context.agent_memories;
    SELECT coalesce(sum(chunk_count), 0)::bigint INTO passages FROM memory_context.agent_memory_statistics;
    SELECT coalesce(jsonb_object_agg(model.embedding_model, model.embeddings), '{}') INTO embeddings FROM (
        SELECT embedding_model, count(*) AS embeddings FROM memory_context.agent_memory_embeddings GROUP BY embedding_model
    ) AS model;
    SELECT count(*) INTO sessions FROM memory_context.agent_sessions WHERE deleted_at IS NULL;
    SELECT count(*) INTO batches FROM memory_context.recent_conversation_history;
    SELECT coalesce(jsonb_object_agg(job.kind, jsonb_build_object('pending', job.pending, 'failed', job.failed)), '{}')
    INTO jobs FROM (
        SELECT kind, count(*) FILTER (WHERE NOT is_failed) AS pending, count(*) FILTER (WHERE is_failed) AS failed
        FROM memory_context.jobs GROUP BY kind
    ) AS job;
    PERFORM memory_context.see_every_user(false);
END
$$;
