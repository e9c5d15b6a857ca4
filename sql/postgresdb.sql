-- The whole schema of memory_context, for people to read: made from the migrations by `make schema`, never by hand.
-- The reasons stand in sql/migrations. To make a database by hand: psql -f postgresdb.sql, as a login that may create
-- schemas, roles and extensions; the library finds it up to date.

SET check_function_bodies = false;

CREATE ROLE memory_context_app NOLOGIN;

CREATE SCHEMA memory_context;

CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public;

CREATE FUNCTION memory_context.act_as(acting_user_id text) RETURNS void
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION memory_context.act_as(acting_user_id text, acting_agent_id text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM memory_context.act_as(acting_user_id);
    PERFORM pg_catalog.set_config('memory_context.agent_id', coalesce(acting_agent_id, ''), true);
    PERFORM pg_catalog.set_config(
        'memory_context.every_agent', CASE WHEN acting_agent_id IS NULL THEN 'on' ELSE 'off' END, true
    );
END
$$;

CREATE FUNCTION memory_context.append_batch(of_user text, its_session text, its_agent text, its_branch text, its_sequence integer, its_batch jsonb, its_sha256 bytea, its_message_count integer, it_begins_anew boolean, its_memory_keys text[], its_message_ids text[], it_started timestamp with time zone, it_ended timestamp with time zone) RETURNS text
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION memory_context.append_chat(of_user text, its_session text, its_messages jsonb) RETURNS text[]
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION memory_context.beginning_sha256(content text, content_raw bytea) RETURNS bytea
    LANGUAGE sql STABLE PARALLEL SAFE
    AS $$
    SELECT sha256(coalesce(substring(content_raw FOR 2000), convert_to(left(content, 2000), 'UTF8')))
$$;

CREATE PROCEDURE memory_context.bind_owner()
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION memory_context.bm25(posting integer, document_frequency bigint, chunk_count bigint) RETURNS double precision
    LANGUAGE sql IMMUTABLE
    AS $$
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

CREATE FUNCTION memory_context.ensure_embedding_index(model text, dimensions integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
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
$_$;

CREATE PROCEDURE memory_context.fence_table(IN its_name text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE PROCEDURE memory_context.fence_table_by_agent(IN its_name text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    CALL memory_context.fence_table(its_name);
    EXECUTE format(
        'CREATE POLICY %I ON memory_context.%I AS RESTRICTIVE USING ('
        'agent_id = current_setting(''memory_context.agent_id'', true) '
        'OR current_setting(''memory_context.every_agent'', true) = ''on'')',
        its_name || '_own_agent', its_name
    );
END
$$;

CREATE FUNCTION memory_context.hidden_contents(of_user text, reader_agent text, reader_session text) RETURNS TABLE(content_id bigint)
    LANGUAGE sql STABLE
    AS $$
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

CREATE FUNCTION memory_context.hidden_items(of_user text, reader_agent text, reader_session text) RETURNS TABLE(memory_id bigint)
    LANGUAGE sql STABLE
    AS $$
    SELECT item.id FROM memory_context.agent_memories AS item
    WHERE item.user_id = of_user
        AND item.is_private AND item.is_active
        AND NOT (item.agent_id = reader_agent AND item.session_id = reader_session)
        AND NOT reader_agent = ANY(item.shared_with)
$$;

CREATE FUNCTION memory_context.list_users(after_user_id text, at_most integer) RETURNS SETOF text
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT user_id FROM memory_context.memory_users
    WHERE user_id > after_user_id ORDER BY user_id LIMIT least(at_most, 1000)
$$;

CREATE TABLE memory_context.agent_memories (
    user_id text NOT NULL COLLATE pg_catalog."C",
    id bigint NOT NULL,
    memory_key text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    memory_type text NOT NULL COLLATE pg_catalog."C",
    source text NOT NULL COLLATE pg_catalog."C",
    origin text NOT NULL COLLATE pg_catalog."C",
    summary text NOT NULL,
    model_summary text,
    content_id bigint,
    content_bytes bigint NOT NULL,
    token_count bigint NOT NULL,
    tags text[] NOT NULL,
    related_to text[] DEFAULT '{}'::text[] NOT NULL,
    content_metadata jsonb NOT NULL,
    is_private boolean DEFAULT false NOT NULL,
    shared_with text[] DEFAULT '{}'::text[] NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    last_used_at timestamp with time zone DEFAULT now() NOT NULL,
    is_active boolean DEFAULT true NOT NULL,
    valid_from timestamp with time zone,
    valid_until timestamp with time zone,
    superseded_by text COLLATE pg_catalog."C",
    CONSTRAINT agent_memories_lengths CHECK (((octet_length(user_id) <= 512) AND (octet_length(agent_id) <= 512) AND (octet_length(session_id) <= 512) AND (octet_length(source) <= 512) AND (octet_length(memory_type) <= 64) AND (octet_length(memory_key) <= 64))),
    CONSTRAINT agent_memories_one_content CHECK ((is_active = (content_id IS NOT NULL))),
    CONSTRAINT agent_memories_origins CHECK ((origin = ANY (ARRAY['user_words'::text, 'user_edit'::text, 'application'::text, 'agent'::text, 'tool'::text, 'import'::text, 'consolidation'::text]))),
    CONSTRAINT agent_memories_sizes CHECK (((content_bytes >= 0) AND (token_count >= 0))),
    CONSTRAINT agent_memories_superseded_by_length CHECK ((octet_length(superseded_by) <= 64)),
    CONSTRAINT agent_memories_user_id_named CHECK ((user_id <> ''::text))
);
COMMENT ON COLUMN memory_context.agent_memories.session_id IS 'empty when the item belongs to no session';
COMMENT ON COLUMN memory_context.agent_memories.origin IS 'whose words it holds; set by the code path that stored it';
COMMENT ON COLUMN memory_context.agent_memories.model_summary IS 'a summary of the content by a model, escaped like short columns; NULL if there is none';
COMMENT ON COLUMN memory_context.agent_memories.content_id IS 'NULL once it was forgotten';
COMMENT ON COLUMN memory_context.agent_memories.content_bytes IS 'bytes of the UTF-8 form';
COMMENT ON COLUMN memory_context.agent_memories.token_count IS 'as the agent counts that stored it';
COMMENT ON COLUMN memory_context.agent_memories.is_private IS 'read by the agent and session that stored it only';
COMMENT ON COLUMN memory_context.agent_memories.shared_with IS 'agents that read it wherever it is from';
COMMENT ON COLUMN memory_context.agent_memories.valid_from IS 'since when a statement holds; NULL means since created_at';
COMMENT ON COLUMN memory_context.agent_memories.valid_until IS 'until when it held; NULL while it holds';
COMMENT ON COLUMN memory_context.agent_memories.superseded_by IS 'the memory_key of the statement that replaced it';

CREATE FUNCTION memory_context.may_read(item memory_context.agent_memories, reader_agent text, reader_session text, within_agent text, within_session text, only_keys text[]) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
    SELECT CASE WHEN only_keys IS NOT NULL THEN item.memory_key = ANY(only_keys)
        ELSE (
                (within_agent IS NULL OR item.agent_id = within_agent)
                AND (within_session IS NULL OR item.session_id = within_session)
                AND (NOT item.is_private OR (item.agent_id = reader_agent AND item.session_id = reader_session))
            )
            OR (item.shared_with <> '{}' AND reader_agent = ANY(item.shared_with))
        END
$$;

CREATE FUNCTION memory_context.meets(item memory_context.agent_memories, types text[], sources text[], all_tags text[], created_after timestamp with time zone, created_before timestamp with time zone, of_agent text, of_session text, linked_to text, linked_keys text[]) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
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

CREATE FUNCTION memory_context.note_pending_user(of_user text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM FROM memory_context.memory_users WHERE user_id = of_user AND pending_since IS NOT NULL FOR KEY SHARE;
    IF FOUND THEN
        RETURN;
    END IF;
    INSERT INTO memory_context.memory_users AS waiting (user_id, pending_since)
    SELECT of_user, now() WHERE EXISTS (SELECT FROM memory_context.jobs WHERE user_id = of_user)
    ON CONFLICT ON CONSTRAINT memory_users_pkey
    DO UPDATE SET pending_since = now() WHERE waiting.pending_since IS NULL;
END
$$;

CREATE FUNCTION memory_context.only_user(OUT users bigint, OUT user_id text) RETURNS record
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT count(*), CASE count(*) WHEN 1 THEN min(found.user_id) END
    FROM (SELECT known.user_id FROM memory_context.memory_users AS known LIMIT 2) AS found
$$;

CREATE FUNCTION memory_context.pending_users(after_user_id text, with_failed boolean, at_most integer) RETURNS SETOF text
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
    SELECT user_id FROM memory_context.memory_users
    WHERE (pending_since IS NOT NULL OR has_failed_jobs)
        AND (pending_since IS NOT NULL OR with_failed)
        AND user_id > after_user_id
    ORDER BY user_id LIMIT least(at_most, 1000)
$$;

CREATE FUNCTION memory_context.renew_claims(claims uuid[], lease_seconds double precision, least_seconds double precision) RETURNS TABLE(claim uuid, is_lost boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
    PERFORM memory_context.see_every_user(true);
    UPDATE memory_context.session_claims SET claimed_until = now() + make_interval(secs => lease_seconds)
    WHERE claimed_by = ANY(claims) AND claimed_until < now() + make_interval(secs => least_seconds);
    RETURN QUERY
    SELECT asked, held.claimed_by IS NULL
    FROM unnest(claims) AS asked LEFT JOIN memory_context.session_claims AS held ON held.claimed_by = asked
    WHERE held.claimed_by IS NULL OR held.wanted_at > now() - interval '1 second';
    PERFORM memory_context.see_every_user(false);
END
$$;

CREATE FUNCTION memory_context.row_counts(names text[]) RETURNS TABLE(name text, row_count bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION memory_context.see_every_user(sees boolean) RETURNS void
    LANGUAGE sql
    AS $$
    SELECT pg_catalog.set_config(name, CASE WHEN sees THEN 'on' ELSE 'off' END, true)
    FROM pg_catalog.unnest(ARRAY['memory_context.every_user', 'memory_context.every_agent']) AS name
$$;

CREATE FUNCTION memory_context.sign_export(of_user text, file_sha256 bytea) RETURNS bytea
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION memory_context.store_content(of_user text, its_sha256 bytea, its_content text, its_content_raw bytea, its_bytes bigint) RETURNS void
    LANGUAGE sql
    AS $$
    SELECT memory_context.store_content(of_user, its_sha256, its_content, its_content_raw, its_bytes, NULL)
$$;

CREATE FUNCTION memory_context.store_content(of_user text, its_sha256 bytea, its_content text, its_content_raw bytea, its_bytes bigint, its_type text) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    LOOP
        INSERT INTO memory_context.agent_memory_contents (
            user_id, content, content_raw, content_bytes, content_type, content_sha256, beginning_sha256
        )
        VALUES (
            of_user, its_content, its_content_raw, its_bytes, its_type, its_sha256,
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

CREATE FUNCTION memory_context.store_counts(OUT users bigint, OUT items bigint, OUT forgotten bigint, OUT passages bigint, OUT embeddings jsonb, OUT sessions bigint, OUT batches bigint, OUT jobs jsonb) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

CREATE FUNCTION memory_context.store_memories(of_user text, items jsonb, OUT stored_key text, OUT is_new boolean) RETURNS SETOF record
    LANGUAGE plpgsql
    AS $$
DECLARE
    item jsonb;
BEGIN
    FOR item IN SELECT value FROM jsonb_array_elements(items) WITH ORDINALITY AS given (value, place) ORDER BY place LOOP
        SELECT stored.stored_key, stored.is_new FROM memory_context.store_memory(
            of_user, item ->> 'memory_key', item ->> 'agent_id', item ->> 'session_id', item ->> 'memory_type',
            item ->> 'source', item ->> 'origin', item ->> 'summary', (item -> 'content_bytes')::bigint,
            (item -> 'token_count')::bigint, decode(item ->> 'content_sha256', 'hex'),
            ARRAY(SELECT jsonb_array_elements_text(item -> 'tags')),
            ARRAY(SELECT jsonb_array_elements_text(item -> 'related_to')),
            item -> 'metadata', (item -> 'is_private')::boolean
        ) AS stored INTO stored_key, is_new;
        RETURN NEXT;
    END LOOP;
    PERFORM memory_context.note_pending_user(of_user);
END
$$;

CREATE FUNCTION memory_context.store_memory(of_user text, its_key text, its_agent text, its_session text, its_type text, its_source text, its_origin text, its_summary text, its_bytes bigint, its_tokens bigint, its_sha256 bytea, its_tags text[], its_related_to text[], its_metadata jsonb, its_is_private boolean, OUT stored_key text, OUT is_new boolean) RETURNS record
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION memory_context.touch_session(of_user text, its_session text, its_agent text, its_title text, title_is_final boolean, its_summary text) RETURNS void
    LANGUAGE plpgsql
    AS $$
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

CREATE FUNCTION memory_context.ui_thread_owner(its_thread text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
    found_user text;
BEGIN
    PERFORM memory_context.see_every_user(true);
    SELECT user_id INTO found_user FROM memory_context.ui_threads WHERE thread_id = its_thread AND deleted_at IS NULL;
    PERFORM memory_context.see_every_user(false);
    RETURN found_user;
END
$$;

CREATE TABLE memory_context.agent_long_term_memory (
    user_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    notes text NOT NULL,
    version bigint NOT NULL,
    repeats bigint NOT NULL,
    operation text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT agent_long_term_memory_agent_id_named CHECK ((agent_id <> ''::text)),
    CONSTRAINT agent_long_term_memory_lengths CHECK (((octet_length(user_id) <= 512) AND (octet_length(agent_id) <= 512) AND (octet_length(operation) <= 64) AND (octet_length(notes) <= 160000))),
    CONSTRAINT agent_long_term_memory_user_id_named CHECK ((user_id <> ''::text)),
    CONSTRAINT agent_long_term_memory_versions CHECK (((version >= 1) AND (repeats >= 0)))
);
COMMENT ON TABLE memory_context.agent_long_term_memory IS 'long-term notes, Markdown, one text for each user and agent';
COMMENT ON COLUMN memory_context.agent_long_term_memory.version IS 'how many writes there were; 0 stands for no notes yet';
COMMENT ON COLUMN memory_context.agent_long_term_memory.repeats IS 'the version whose text this is: its own, or an earlier one after an undo';
COMMENT ON COLUMN memory_context.agent_long_term_memory.operation IS 'what wrote this version';

CREATE TABLE memory_context.agent_long_term_memory_versions (
    user_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    version bigint NOT NULL,
    notes text NOT NULL,
    repeats bigint NOT NULL,
    operation text NOT NULL COLLATE pg_catalog."C",
    written_at timestamp with time zone NOT NULL,
    begun_at timestamp with time zone NOT NULL,
    CONSTRAINT agent_long_term_memory_versions_lengths CHECK (((octet_length(agent_id) <= 512) AND (octet_length(operation) <= 64) AND (octet_length(notes) <= 160000))),
    CONSTRAINT agent_long_term_memory_versions_numbers CHECK (((version >= 0) AND (repeats >= 0)))
);
COMMENT ON COLUMN memory_context.agent_long_term_memory_versions.begun_at IS 'created_at of its notes: an import adds former texts to the same notes only';

ALTER TABLE memory_context.agent_memories ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memory_context.agent_memories_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memory_context.agent_memory_chunks (
    user_id text NOT NULL COLLATE pg_catalog."C",
    content_id bigint NOT NULL,
    chunk_number integer NOT NULL,
    start_char integer NOT NULL,
    end_char integer NOT NULL,
    start_line integer NOT NULL,
    end_line integer NOT NULL,
    text text NOT NULL,
    masked_text text,
    text_sha256 bytea NOT NULL
);
COMMENT ON COLUMN memory_context.agent_memory_chunks.start_char IS 'from 0, in the original content';
COMMENT ON COLUMN memory_context.agent_memory_chunks.start_line IS 'from 1, in the original content';
COMMENT ON COLUMN memory_context.agent_memory_chunks.masked_text IS 'the text without credentials, which is embedded; NULL if there are none';
COMMENT ON COLUMN memory_context.agent_memory_chunks.text_sha256 IS 'of the text as it stands here';

CREATE TABLE memory_context.agent_memory_contents (
    user_id text NOT NULL COLLATE pg_catalog."C",
    id bigint NOT NULL,
    content text,
    content_raw bytea,
    content_bytes bigint NOT NULL,
    content_sha256 bytea NOT NULL,
    beginning_sha256 bytea NOT NULL,
    content_type text COLLATE pg_catalog."C",
    CONSTRAINT agent_memory_contents_one_form CHECK ((num_nonnulls(content, content_raw) = 1)),
    CONSTRAINT agent_memory_contents_sha256_length CHECK ((octet_length(content_sha256) = 32)),
    CONSTRAINT agent_memory_contents_size CHECK ((content_bytes >= 0)),
    CONSTRAINT agent_memory_contents_user_id_named CHECK ((user_id <> ''::text))
);
COMMENT ON TABLE memory_context.agent_memory_contents IS 'what is stored, once for each user; read only through an item within reach, and gone with the last one';
COMMENT ON COLUMN memory_context.agent_memory_contents.content IS 'the content, when Postgres text takes it as it is';
COMMENT ON COLUMN memory_context.agent_memory_contents.content_raw IS 'any other content (NUL, lone surrogates): its UTF-8 with surrogates in their three-byte form';
COMMENT ON COLUMN memory_context.agent_memory_contents.content_bytes IS 'bytes of the UTF-8 form';
COMMENT ON COLUMN memory_context.agent_memory_contents.content_sha256 IS 'of the UTF-8 form';
COMMENT ON COLUMN memory_context.agent_memory_contents.beginning_sha256 IS 'of what searches show before it is indexed';
COMMENT ON COLUMN memory_context.agent_memory_contents.content_type IS 'the MIME type of bytes that are no text, such as image/png; NULL for text';

ALTER TABLE memory_context.agent_memory_contents ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memory_context.agent_memory_contents_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memory_context.agent_memory_embeddings (
    user_id text NOT NULL COLLATE pg_catalog."C",
    embedding_model text NOT NULL COLLATE pg_catalog."C",
    content_id bigint NOT NULL,
    chunk_number integer NOT NULL,
    embedding public.halfvec NOT NULL
);

CREATE TABLE memory_context.agent_memory_events (
    user_id text NOT NULL COLLATE pg_catalog."C",
    id uuid NOT NULL,
    agent_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    is_private boolean NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    memory_keys text[] NOT NULL,
    detail text NOT NULL,
    created_at timestamp with time zone NOT NULL,
    CONSTRAINT agent_memory_events_lengths CHECK (((octet_length(user_id) <= 512) AND (octet_length(agent_id) <= 512) AND (octet_length(session_id) <= 512) AND (octet_length(kind) <= 64))),
    CONSTRAINT agent_memory_events_user_id_named CHECK ((user_id <> ''::text))
);
COMMENT ON TABLE memory_context.agent_memory_events IS 'what happened to items: look-ups, expansions, compactions; the items themselves say when they were stored';
COMMENT ON COLUMN memory_context.agent_memory_events.is_private IS 'read by that agent in that session only';
COMMENT ON COLUMN memory_context.agent_memory_events.created_at IS 'when it happened, by the clock of the server: when it was written less its age';

CREATE TABLE memory_context.agent_memory_names (
    user_id text NOT NULL COLLATE pg_catalog."C",
    term text NOT NULL COLLATE pg_catalog."C",
    content_id bigint NOT NULL,
    memory_id bigint NOT NULL,
    posting integer NOT NULL
);
COMMENT ON COLUMN memory_context.agent_memory_names.term IS 'of key, description, source and tags, if not of the first passage';
COMMENT ON COLUMN memory_context.agent_memory_names.posting IS 'one occurrence in the first passage, as in agent_memory_terms';

CREATE TABLE memory_context.agent_memory_statistics (
    user_id text NOT NULL COLLATE pg_catalog."C",
    chunk_count bigint NOT NULL
);

CREATE TABLE memory_context.agent_memory_terms (
    user_id text NOT NULL COLLATE pg_catalog."C",
    term text NOT NULL COLLATE pg_catalog."C",
    content_id bigint NOT NULL,
    postings integer[] NOT NULL,
    passages integer GENERATED ALWAYS AS (cardinality(postings)) STORED NOT NULL
);
COMMENT ON COLUMN memory_context.agent_memory_terms.postings IS 'one for each passage: its number * 65536 + occurrences (at most 255) * 256 + length code';

CREATE TABLE memory_context.agent_sessions (
    user_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    title text DEFAULT ''::text NOT NULL,
    summary text DEFAULT ''::text NOT NULL,
    message_count bigint DEFAULT 0 NOT NULL,
    chat_count bigint DEFAULT 0 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    last_activity_at timestamp with time zone DEFAULT now() NOT NULL,
    deleted_at timestamp with time zone,
    CONSTRAINT agent_sessions_counts CHECK (((message_count >= 0) AND (chat_count >= 0))),
    CONSTRAINT agent_sessions_lengths CHECK (((octet_length(user_id) <= 512) AND (octet_length(session_id) <= 512) AND (octet_length(agent_id) <= 512))),
    CONSTRAINT agent_sessions_session_id_named CHECK ((session_id <> ''::text)),
    CONSTRAINT agent_sessions_user_id_named CHECK ((user_id <> ''::text))
);
COMMENT ON COLUMN memory_context.agent_sessions.agent_id IS 'the agent that began it; other agents may archive in it too';
COMMENT ON COLUMN memory_context.agent_sessions.message_count IS 'messages in its transcripts';
COMMENT ON COLUMN memory_context.agent_sessions.chat_count IS 'chat messages, as a person sees them';
COMMENT ON COLUMN memory_context.agent_sessions.deleted_at IS 'of a tombstone: whoever still archives in it is refused';

CREATE TABLE memory_context.consolidations (
    user_id text NOT NULL COLLATE pg_catalog."C",
    id bigint NOT NULL,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    undone_at timestamp with time zone,
    changes jsonb NOT NULL,
    report jsonb NOT NULL,
    CONSTRAINT consolidations_lengths CHECK ((octet_length(user_id) <= 512)),
    CONSTRAINT consolidations_user_id_named CHECK ((user_id <> ''::text))
);
COMMENT ON COLUMN memory_context.consolidations.changes IS 'of each changed row what it was before';

ALTER TABLE memory_context.consolidations ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME memory_context.consolidations_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memory_context.installation (
    is_only boolean DEFAULT true NOT NULL,
    export_key bytea NOT NULL,
    CONSTRAINT installation_key_length CHECK ((octet_length(export_key) = 32)),
    CONSTRAINT installation_one_row CHECK (is_only)
);
COMMENT ON TABLE memory_context.installation IS 'one row, which only the owner reads';

CREATE TABLE memory_context.jobs (
    user_id text NOT NULL COLLATE pg_catalog."C",
    id bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    payload jsonb DEFAULT '{}'::jsonb NOT NULL,
    due_at timestamp with time zone DEFAULT now() NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    claim uuid,
    is_failed boolean DEFAULT false NOT NULL,
    last_error text,
    CONSTRAINT jobs_lengths CHECK (((octet_length(user_id) <= 512) AND ((octet_length(kind) >= 1) AND (octet_length(kind) <= 64)))),
    CONSTRAINT jobs_user_id_named CHECK ((user_id <> ''::text))
);
COMMENT ON COLUMN memory_context.jobs.kind IS 'index: passages and terms of an item are missing; embed: only embeddings are; others are registered by the application';
COMMENT ON COLUMN memory_context.jobs.payload IS 'what the handler needs; "bytes" bounds how many jobs one claim takes';
COMMENT ON COLUMN memory_context.jobs.due_at IS 'not before; a claim moves it to the end of its lease';
COMMENT ON COLUMN memory_context.jobs.claim IS 'of the worker that has the lease; only it may finish the job';
COMMENT ON COLUMN memory_context.jobs.is_failed IS 'a dead letter: tried too often, and not again by itself';

ALTER TABLE memory_context.jobs ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME memory_context.jobs_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memory_context.memory_users (
    user_id text NOT NULL COLLATE pg_catalog."C",
    pending_since timestamp with time zone,
    has_failed_jobs boolean DEFAULT false NOT NULL,
    CONSTRAINT memory_users_user_id_named CHECK ((user_id <> ''::text))
);
COMMENT ON COLUMN memory_context.memory_users.has_failed_jobs IS 'a job failed too often, when nothing else was left to do';

CREATE TABLE memory_context.recent_conversation_history (
    user_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    kind text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    branch text NOT NULL COLLATE pg_catalog."C",
    sequence integer NOT NULL,
    begins_anew boolean DEFAULT false NOT NULL,
    message_count integer NOT NULL,
    memory_keys text[] DEFAULT '{}'::text[] NOT NULL,
    message_ids text[] DEFAULT '{}'::text[] NOT NULL,
    start_timestamp timestamp with time zone NOT NULL,
    end_timestamp timestamp with time zone NOT NULL,
    archived_at timestamp with time zone DEFAULT now() NOT NULL,
    batch_sha256 bytea,
    message_batch jsonb NOT NULL,
    CONSTRAINT recent_conversation_history_counts CHECK (((sequence >= 0) AND (message_count >= 0))),
    CONSTRAINT recent_conversation_history_kinds CHECK ((((kind = 'transcript'::text) AND (octet_length(batch_sha256) = 32)) OR ((kind = 'client'::text) AND (batch_sha256 IS NULL) AND (agent_id = ''::text) AND (branch = ''::text) AND (NOT begins_anew)))),
    CONSTRAINT recent_conversation_history_lengths CHECK (((octet_length(user_id) <= 512) AND (octet_length(session_id) <= 512) AND (octet_length(agent_id) <= 512) AND (octet_length(branch) <= 512))),
    CONSTRAINT recent_conversation_history_user_id_named CHECK ((user_id <> ''::text))
);
COMMENT ON COLUMN memory_context.recent_conversation_history.kind IS 'transcript: the next stretch of an agent''s transcript; client: chat messages';
COMMENT ON COLUMN memory_context.recent_conversation_history.branch IS 'empty for the main line; other lines were gone on with by a process that found its number taken';
COMMENT ON COLUMN memory_context.recent_conversation_history.begins_anew IS 'everything since the beginning is in it: reading starts at the last one';
COMMENT ON COLUMN memory_context.recent_conversation_history.message_count IS 'how many messages are new with this batch';
COMMENT ON COLUMN memory_context.recent_conversation_history.memory_keys IS 'the items it refers to';
COMMENT ON COLUMN memory_context.recent_conversation_history.message_ids IS 'of chat messages their ids; of a transcript those of the chat messages whose words are in it';
COMMENT ON COLUMN memory_context.recent_conversation_history.batch_sha256 IS 'of the canonical form of message_batch, made again when it is read';
COMMENT ON COLUMN memory_context.recent_conversation_history.message_batch IS 'of a transcript its entries and decisions, of chat messages a list of them; all strings are escaped like short columns';

CREATE TABLE memory_context.schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE UNLOGGED TABLE memory_context.session_claims (
    user_id text NOT NULL COLLATE pg_catalog."C",
    agent_id text NOT NULL COLLATE pg_catalog."C",
    session_id text NOT NULL COLLATE pg_catalog."C",
    claimed_by uuid NOT NULL,
    claimed_until timestamp with time zone NOT NULL,
    wanted_by uuid,
    wanted_at timestamp with time zone,
    CONSTRAINT session_claims_lengths CHECK (((octet_length(user_id) <= 512) AND (octet_length(agent_id) <= 512) AND (octet_length(session_id) <= 512))),
    CONSTRAINT session_claims_user_id_named CHECK ((user_id <> ''::text))
)
WITH (fillfactor='50');
COMMENT ON TABLE memory_context.session_claims IS 'which process holds a live session; neither exported nor in backups of the log';
COMMENT ON COLUMN memory_context.session_claims.claimed_by IS 'made anew for each claim: while it stands here nobody else had the session';
COMMENT ON COLUMN memory_context.session_claims.claimed_until IS 'after that anybody may claim it';
COMMENT ON COLUMN memory_context.session_claims.wanted_by IS 'the claim that waits longest; a release passes the session to it';
COMMENT ON COLUMN memory_context.session_claims.wanted_at IS 'when it last asked; the holder hears of it when it renews';

CREATE TABLE memory_context.ui_elements (
    user_id text NOT NULL COLLATE pg_catalog."C",
    element_id text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    thread_id text NOT NULL COLLATE pg_catalog."C",
    step_id text NOT NULL COLLATE pg_catalog."C",
    fields jsonb NOT NULL,
    content bytea,
    CONSTRAINT ui_elements_lengths CHECK (((octet_length(element_id) <= 512) AND (octet_length(step_id) <= 512)))
);
ALTER TABLE ONLY memory_context.ui_elements ALTER COLUMN content SET STORAGE EXTERNAL;
COMMENT ON COLUMN memory_context.ui_elements.step_id IS 'empty when it belongs to the whole thread';
COMMENT ON COLUMN memory_context.ui_elements.content IS 'NULL when there is none: it lies elsewhere, or was too large';

ALTER TABLE memory_context.ui_elements ALTER COLUMN "position" ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memory_context.ui_elements_position_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memory_context.ui_steps (
    user_id text NOT NULL COLLATE pg_catalog."C",
    step_id text NOT NULL COLLATE pg_catalog."C",
    "position" bigint NOT NULL,
    thread_id text NOT NULL COLLATE pg_catalog."C",
    created_at timestamp with time zone NOT NULL,
    is_updated boolean NOT NULL,
    feedback_id text COLLATE pg_catalog."C",
    feedback_value smallint,
    feedback_comment text,
    fields jsonb NOT NULL,
    input text,
    output text,
    CONSTRAINT ui_steps_feedback_whole CHECK (((feedback_id IS NULL) = (feedback_value IS NULL))),
    CONSTRAINT ui_steps_lengths CHECK (((octet_length(step_id) <= 512) AND (octet_length(feedback_id) <= 512)))
);
COMMENT ON COLUMN memory_context.ui_steps."position" IS 'the order of what was created at the same time';
COMMENT ON COLUMN memory_context.ui_steps.is_updated IS 'whether an update has come: what comes as new afterwards is older and only fills in what is missing';
COMMENT ON COLUMN memory_context.ui_steps.fields IS 'all else that the interface keeps of it, also what is not known here';

ALTER TABLE memory_context.ui_steps ALTER COLUMN "position" ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME memory_context.ui_steps_position_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE memory_context.ui_threads (
    user_id text NOT NULL COLLATE pg_catalog."C",
    thread_id text NOT NULL COLLATE pg_catalog."C",
    name text,
    tags text[],
    metadata jsonb DEFAULT '{}'::jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    last_activity_at timestamp with time zone DEFAULT now() NOT NULL,
    deleted_at timestamp with time zone,
    CONSTRAINT ui_threads_lengths CHECK (((octet_length(user_id) <= 512) AND (octet_length(thread_id) <= 512))),
    CONSTRAINT ui_threads_thread_id_named CHECK ((thread_id <> ''::text)),
    CONSTRAINT ui_threads_user_id_named CHECK ((user_id <> ''::text))
);
COMMENT ON COLUMN memory_context.ui_threads.deleted_at IS 'of a tombstone: nothing is shown in it any more';

CREATE TABLE memory_context.ui_users (
    user_id text NOT NULL COLLATE pg_catalog."C",
    metadata jsonb NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT ui_users_lengths CHECK ((octet_length(user_id) <= 512)),
    CONSTRAINT ui_users_user_id_named CHECK ((user_id <> ''::text))
);

CREATE TABLE memory_context.user_secrets (
    user_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    session_id text DEFAULT ''::text NOT NULL COLLATE pg_catalog."C",
    key_id text COLLATE pg_catalog."C",
    nonce bytea,
    ciphertext bytea,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT user_secrets_lengths CHECK (((octet_length(user_id) <= 512) AND (octet_length(name) <= 64) AND (octet_length(session_id) <= 512) AND (octet_length(key_id) <= 64) AND (octet_length(ciphertext) <= 65536))),
    CONSTRAINT user_secrets_name_formed CHECK ((name ~ '^[A-Za-z][A-Za-z0-9_.-]*$'::text)),
    CONSTRAINT user_secrets_user_id_named CHECK ((user_id <> ''::text)),
    CONSTRAINT user_secrets_value_whole CHECK ((((key_id IS NULL) = (nonce IS NULL)) AND ((key_id IS NULL) = (ciphertext IS NULL))))
);

ALTER TABLE ONLY memory_context.agent_long_term_memory
    ADD CONSTRAINT agent_long_term_memory_pkey PRIMARY KEY (user_id, agent_id);

ALTER TABLE ONLY memory_context.agent_long_term_memory_versions
    ADD CONSTRAINT agent_long_term_memory_versions_pkey PRIMARY KEY (user_id, agent_id, version);

ALTER TABLE ONLY memory_context.agent_memories
    ADD CONSTRAINT agent_memories_key_unique UNIQUE (user_id, memory_key);

ALTER TABLE ONLY memory_context.agent_memories
    ADD CONSTRAINT agent_memories_pkey PRIMARY KEY (user_id, id);

ALTER TABLE ONLY memory_context.agent_memory_chunks
    ADD CONSTRAINT agent_memory_chunks_pkey PRIMARY KEY (user_id, content_id, chunk_number);

ALTER TABLE memory_context.agent_memory_contents
    ADD CONSTRAINT agent_memory_contents_content_type CHECK (((content_type IS NULL) OR ((content_raw IS NOT NULL) AND (octet_length(content_type) <= 255)))) NOT VALID;

ALTER TABLE ONLY memory_context.agent_memory_contents
    ADD CONSTRAINT agent_memory_contents_pkey PRIMARY KEY (user_id, id);

ALTER TABLE ONLY memory_context.agent_memory_contents
    ADD CONSTRAINT agent_memory_contents_sha256_unique UNIQUE (user_id, content_sha256);

ALTER TABLE ONLY memory_context.agent_memory_embeddings
    ADD CONSTRAINT agent_memory_embeddings_pkey PRIMARY KEY (user_id, embedding_model, content_id, chunk_number);

ALTER TABLE ONLY memory_context.agent_memory_events
    ADD CONSTRAINT agent_memory_events_pkey PRIMARY KEY (user_id, id);

ALTER TABLE ONLY memory_context.agent_memory_names
    ADD CONSTRAINT agent_memory_names_pkey PRIMARY KEY (user_id, term, content_id, memory_id) INCLUDE (posting);

ALTER TABLE ONLY memory_context.agent_memory_statistics
    ADD CONSTRAINT agent_memory_statistics_pkey PRIMARY KEY (user_id);

ALTER TABLE ONLY memory_context.agent_memory_terms
    ADD CONSTRAINT agent_memory_terms_pkey PRIMARY KEY (user_id, term, content_id) INCLUDE (passages);

ALTER TABLE ONLY memory_context.agent_sessions
    ADD CONSTRAINT agent_sessions_pkey PRIMARY KEY (user_id, session_id);

ALTER TABLE ONLY memory_context.consolidations
    ADD CONSTRAINT consolidations_pkey PRIMARY KEY (user_id, id);

ALTER TABLE ONLY memory_context.installation
    ADD CONSTRAINT installation_pkey PRIMARY KEY (is_only);

ALTER TABLE ONLY memory_context.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (user_id, id, kind);

ALTER TABLE ONLY memory_context.memory_users
    ADD CONSTRAINT memory_users_pkey PRIMARY KEY (user_id);

ALTER TABLE ONLY memory_context.recent_conversation_history
    ADD CONSTRAINT recent_conversation_history_pkey PRIMARY KEY (user_id, session_id, kind, agent_id, branch, sequence);

ALTER TABLE ONLY memory_context.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY memory_context.session_claims
    ADD CONSTRAINT session_claims_pkey PRIMARY KEY (user_id, agent_id, session_id);

ALTER TABLE ONLY memory_context.ui_elements
    ADD CONSTRAINT ui_elements_pkey PRIMARY KEY (user_id, element_id);

ALTER TABLE ONLY memory_context.ui_steps
    ADD CONSTRAINT ui_steps_pkey PRIMARY KEY (user_id, step_id);

ALTER TABLE ONLY memory_context.ui_threads
    ADD CONSTRAINT ui_threads_pkey PRIMARY KEY (user_id, thread_id);

ALTER TABLE ONLY memory_context.ui_users
    ADD CONSTRAINT ui_users_pkey PRIMARY KEY (user_id);

ALTER TABLE ONLY memory_context.user_secrets
    ADD CONSTRAINT user_secrets_pkey PRIMARY KEY (user_id, name);

CREATE INDEX agent_memories_age ON memory_context.agent_memories USING btree (user_id, created_at, id) WHERE is_active;

CREATE INDEX agent_memories_of_content ON memory_context.agent_memories USING btree (user_id, content_id);

CREATE UNIQUE INDEX agent_memories_once_in_place ON memory_context.agent_memories USING btree (user_id, agent_id, session_id, memory_type, source, origin, content_id) WHERE ((memory_type <> 'conversation'::text) AND (valid_from IS NULL));

CREATE INDEX agent_memories_private ON memory_context.agent_memories USING btree (user_id, session_id, agent_id, id) WHERE (is_private AND is_active);

CREATE INDEX agent_memories_session_order ON memory_context.agent_memories USING btree (user_id, session_id, agent_id, id);

CREATE INDEX agent_memories_shared ON memory_context.agent_memories USING btree (user_id, id) WHERE (shared_with <> '{}'::text[]);

CREATE INDEX agent_memories_statements ON memory_context.agent_memories USING btree (user_id, COALESCE(valid_from, created_at)) WHERE (is_active AND (memory_type = ANY (ARRAY['user_preference'::text, 'user_fact'::text])) AND (origin = ANY (ARRAY['user_words'::text, 'user_edit'::text, 'application'::text])));

CREATE INDEX agent_memory_events_age ON memory_context.agent_memory_events USING btree (user_id, created_at);

CREATE INDEX agent_memory_events_session_order ON memory_context.agent_memory_events USING btree (user_id, session_id, created_at, id);

CREATE INDEX agent_sessions_activity ON memory_context.agent_sessions USING btree (user_id, last_activity_at, session_id);

CREATE INDEX memory_users_pending ON memory_context.memory_users USING btree (user_id) WHERE ((pending_since IS NOT NULL) OR has_failed_jobs);

CREATE INDEX recent_conversation_history_chat ON memory_context.recent_conversation_history USING btree (user_id, session_id, end_timestamp, start_timestamp) WHERE (kind = 'client'::text);

CREATE INDEX session_claims_claimed_by ON memory_context.session_claims USING btree (claimed_by);

CREATE INDEX ui_elements_order ON memory_context.ui_elements USING btree (user_id, thread_id, "position");

CREATE INDEX ui_steps_favorites ON memory_context.ui_steps USING btree (user_id, created_at) WHERE ((fields #> '{metadata,favorite}'::text[]) = 'true'::jsonb);

CREATE INDEX ui_steps_feedback ON memory_context.ui_steps USING btree (user_id, feedback_id) WHERE (feedback_id IS NOT NULL);

CREATE INDEX ui_steps_order ON memory_context.ui_steps USING btree (user_id, thread_id, created_at, "position");

CREATE INDEX ui_threads_activity ON memory_context.ui_threads USING btree (user_id, last_activity_at, thread_id) WHERE (deleted_at IS NULL);

CREATE UNIQUE INDEX ui_threads_owner ON memory_context.ui_threads USING btree (thread_id);

CREATE INDEX user_secrets_session ON memory_context.user_secrets USING btree (user_id, session_id);

ALTER TABLE ONLY memory_context.agent_long_term_memory_versions
    ADD CONSTRAINT agent_long_term_memory_versions_notes FOREIGN KEY (user_id, agent_id) REFERENCES memory_context.agent_long_term_memory(user_id, agent_id) ON DELETE CASCADE;

ALTER TABLE ONLY memory_context.agent_memories
    ADD CONSTRAINT agent_memories_content FOREIGN KEY (user_id, content_id) REFERENCES memory_context.agent_memory_contents(user_id, id);

ALTER TABLE ONLY memory_context.agent_memory_chunks
    ADD CONSTRAINT agent_memory_chunks_content FOREIGN KEY (user_id, content_id) REFERENCES memory_context.agent_memory_contents(user_id, id) ON DELETE CASCADE;

ALTER TABLE ONLY memory_context.agent_memory_embeddings
    ADD CONSTRAINT agent_memory_embeddings_chunk FOREIGN KEY (user_id, content_id, chunk_number) REFERENCES memory_context.agent_memory_chunks(user_id, content_id, chunk_number) ON DELETE CASCADE;

ALTER TABLE ONLY memory_context.recent_conversation_history
    ADD CONSTRAINT recent_conversation_history_session FOREIGN KEY (user_id, session_id) REFERENCES memory_context.agent_sessions(user_id, session_id) ON DELETE CASCADE;

ALTER TABLE ONLY memory_context.ui_elements
    ADD CONSTRAINT ui_elements_thread FOREIGN KEY (user_id, thread_id) REFERENCES memory_context.ui_threads(user_id, thread_id) ON DELETE CASCADE;

ALTER TABLE ONLY memory_context.ui_steps
    ADD CONSTRAINT ui_steps_thread FOREIGN KEY (user_id, thread_id) REFERENCES memory_context.ui_threads(user_id, thread_id) ON DELETE CASCADE;

ALTER TABLE memory_context.agent_long_term_memory ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_long_term_memory_own_agent ON memory_context.agent_long_term_memory AS RESTRICTIVE USING (((agent_id = current_setting('memory_context.agent_id'::text, true)) OR (current_setting('memory_context.every_agent'::text, true) = 'on'::text)));
CREATE POLICY agent_long_term_memory_own_rows ON memory_context.agent_long_term_memory USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.agent_long_term_memory_versions ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_long_term_memory_versions_own_agent ON memory_context.agent_long_term_memory_versions AS RESTRICTIVE USING (((agent_id = current_setting('memory_context.agent_id'::text, true)) OR (current_setting('memory_context.every_agent'::text, true) = 'on'::text)));
CREATE POLICY agent_long_term_memory_versions_own_rows ON memory_context.agent_long_term_memory_versions USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.agent_memories ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_memories_own_rows ON memory_context.agent_memories USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.agent_memory_chunks ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_memory_chunks_own_rows ON memory_context.agent_memory_chunks USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.agent_memory_contents ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_memory_contents_own_rows ON memory_context.agent_memory_contents USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.agent_memory_embeddings ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_memory_embeddings_own_rows ON memory_context.agent_memory_embeddings USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.agent_memory_events ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_memory_events_own_rows ON memory_context.agent_memory_events USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.agent_memory_names ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_memory_names_own_rows ON memory_context.agent_memory_names USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.agent_memory_statistics ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_memory_statistics_own_rows ON memory_context.agent_memory_statistics USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.agent_memory_terms ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_memory_terms_own_rows ON memory_context.agent_memory_terms USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.agent_sessions ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_sessions_own_rows ON memory_context.agent_sessions USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.consolidations ENABLE ROW LEVEL SECURITY;
CREATE POLICY consolidations_own_rows ON memory_context.consolidations USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.installation ENABLE ROW LEVEL SECURITY;

ALTER TABLE memory_context.jobs ENABLE ROW LEVEL SECURITY;
CREATE POLICY jobs_own_rows ON memory_context.jobs USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.memory_users ENABLE ROW LEVEL SECURITY;
CREATE POLICY memory_users_own_rows ON memory_context.memory_users USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.recent_conversation_history ENABLE ROW LEVEL SECURITY;
CREATE POLICY recent_conversation_history_own_rows ON memory_context.recent_conversation_history USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.schema_migrations ENABLE ROW LEVEL SECURITY;
CREATE POLICY schema_migrations_readable ON memory_context.schema_migrations FOR SELECT USING (true);

ALTER TABLE memory_context.session_claims ENABLE ROW LEVEL SECURITY;
CREATE POLICY session_claims_own_rows ON memory_context.session_claims USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.ui_elements ENABLE ROW LEVEL SECURITY;
CREATE POLICY ui_elements_own_rows ON memory_context.ui_elements USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.ui_steps ENABLE ROW LEVEL SECURITY;
CREATE POLICY ui_steps_own_rows ON memory_context.ui_steps USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.ui_threads ENABLE ROW LEVEL SECURITY;
CREATE POLICY ui_threads_own_rows ON memory_context.ui_threads USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.ui_users ENABLE ROW LEVEL SECURITY;
CREATE POLICY ui_users_own_rows ON memory_context.ui_users USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));

ALTER TABLE memory_context.user_secrets ENABLE ROW LEVEL SECURITY;
CREATE POLICY user_secrets_own_rows ON memory_context.user_secrets USING ((user_id = current_setting('memory_context.user_id'::text, true))) WITH CHECK ((user_id = current_setting('memory_context.user_id'::text, true)));
GRANT USAGE ON SCHEMA memory_context TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.act_as(acting_user_id text) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.act_as(acting_user_id text) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.act_as(acting_user_id text, acting_agent_id text) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.act_as(acting_user_id text, acting_agent_id text) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.append_batch(of_user text, its_session text, its_agent text, its_branch text, its_sequence integer, its_batch jsonb, its_sha256 bytea, its_message_count integer, it_begins_anew boolean, its_memory_keys text[], its_message_ids text[], it_started timestamp with time zone, it_ended timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.append_batch(of_user text, its_session text, its_agent text, its_branch text, its_sequence integer, its_batch jsonb, its_sha256 bytea, its_message_count integer, it_begins_anew boolean, its_memory_keys text[], its_message_ids text[], it_started timestamp with time zone, it_ended timestamp with time zone) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.append_chat(of_user text, its_session text, its_messages jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.append_chat(of_user text, its_session text, its_messages jsonb) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.beginning_sha256(content text, content_raw bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.beginning_sha256(content text, content_raw bytea) TO memory_context_app;
REVOKE ALL ON PROCEDURE memory_context.bind_owner() FROM PUBLIC;
REVOKE ALL ON FUNCTION memory_context.bm25(posting integer, document_frequency bigint, chunk_count bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.bm25(posting integer, document_frequency bigint, chunk_count bigint) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.ensure_embedding_index(model text, dimensions integer) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.ensure_embedding_index(model text, dimensions integer) TO memory_context_app;
REVOKE ALL ON PROCEDURE memory_context.fence_table(IN its_name text) FROM PUBLIC;
REVOKE ALL ON PROCEDURE memory_context.fence_table_by_agent(IN its_name text) FROM PUBLIC;
REVOKE ALL ON FUNCTION memory_context.hidden_contents(of_user text, reader_agent text, reader_session text) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.hidden_contents(of_user text, reader_agent text, reader_session text) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.hidden_items(of_user text, reader_agent text, reader_session text) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.hidden_items(of_user text, reader_agent text, reader_session text) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.list_users(after_user_id text, at_most integer) FROM PUBLIC;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.agent_memories TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.may_read(item memory_context.agent_memories, reader_agent text, reader_session text, within_agent text, within_session text, only_keys text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.may_read(item memory_context.agent_memories, reader_agent text, reader_session text, within_agent text, within_session text, only_keys text[]) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.meets(item memory_context.agent_memories, types text[], sources text[], all_tags text[], created_after timestamp with time zone, created_before timestamp with time zone, of_agent text, of_session text, linked_to text, linked_keys text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.meets(item memory_context.agent_memories, types text[], sources text[], all_tags text[], created_after timestamp with time zone, created_before timestamp with time zone, of_agent text, of_session text, linked_to text, linked_keys text[]) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.note_pending_user(of_user text) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.note_pending_user(of_user text) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.only_user(OUT users bigint, OUT user_id text) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.only_user(OUT users bigint, OUT user_id text) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.pending_users(after_user_id text, with_failed boolean, at_most integer) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.pending_users(after_user_id text, with_failed boolean, at_most integer) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.renew_claims(claims uuid[], lease_seconds double precision, least_seconds double precision) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.renew_claims(claims uuid[], lease_seconds double precision, least_seconds double precision) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.row_counts(names text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.row_counts(names text[]) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.see_every_user(sees boolean) FROM PUBLIC;
REVOKE ALL ON FUNCTION memory_context.sign_export(of_user text, file_sha256 bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.sign_export(of_user text, file_sha256 bytea) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.store_content(of_user text, its_sha256 bytea, its_content text, its_content_raw bytea, its_bytes bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.store_content(of_user text, its_sha256 bytea, its_content text, its_content_raw bytea, its_bytes bigint) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.store_content(of_user text, its_sha256 bytea, its_content text, its_content_raw bytea, its_bytes bigint, its_type text) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.store_content(of_user text, its_sha256 bytea, its_content text, its_content_raw bytea, its_bytes bigint, its_type text) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.store_counts(OUT users bigint, OUT items bigint, OUT forgotten bigint, OUT passages bigint, OUT embeddings jsonb, OUT sessions bigint, OUT batches bigint, OUT jobs jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.store_counts(OUT users bigint, OUT items bigint, OUT forgotten bigint, OUT passages bigint, OUT embeddings jsonb, OUT sessions bigint, OUT batches bigint, OUT jobs jsonb) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.store_memories(of_user text, items jsonb, OUT stored_key text, OUT is_new boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.store_memories(of_user text, items jsonb, OUT stored_key text, OUT is_new boolean) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.store_memory(of_user text, its_key text, its_agent text, its_session text, its_type text, its_source text, its_origin text, its_summary text, its_bytes bigint, its_tokens bigint, its_sha256 bytea, its_tags text[], its_related_to text[], its_metadata jsonb, its_is_private boolean, OUT stored_key text, OUT is_new boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.store_memory(of_user text, its_key text, its_agent text, its_session text, its_type text, its_source text, its_origin text, its_summary text, its_bytes bigint, its_tokens bigint, its_sha256 bytea, its_tags text[], its_related_to text[], its_metadata jsonb, its_is_private boolean, OUT stored_key text, OUT is_new boolean) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.touch_session(of_user text, its_session text, its_agent text, its_title text, title_is_final boolean, its_summary text) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.touch_session(of_user text, its_session text, its_agent text, its_title text, title_is_final boolean, its_summary text) TO memory_context_app;
REVOKE ALL ON FUNCTION memory_context.ui_thread_owner(its_thread text) FROM PUBLIC;
GRANT ALL ON FUNCTION memory_context.ui_thread_owner(its_thread text) TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.agent_long_term_memory TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.agent_long_term_memory_versions TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.agent_memory_chunks TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.agent_memory_contents TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.agent_memory_embeddings TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.agent_memory_events TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.agent_memory_names TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.agent_memory_statistics TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.agent_memory_terms TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.agent_sessions TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.consolidations TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.jobs TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.memory_users TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.recent_conversation_history TO memory_context_app;
GRANT SELECT ON TABLE memory_context.schema_migrations TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.session_claims TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.ui_elements TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.ui_steps TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.ui_threads TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.ui_users TO memory_context_app;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE memory_context.user_secrets TO memory_context_app;

INSERT INTO memory_context.installation (export_key) VALUES (sha256(
    uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
));

INSERT INTO memory_context.schema_migrations (version, name, checksum) VALUES
    (1, '0001_initial', 'f8e38e02250ab99127982ef0ba37d0c0f9ca8b836abe5395c668a9618bfd8440'),
    (2, '0002_pre_statements', 'df1abb2470a7dcd8c9e89bb6b7728b499ca2d0a8cef886575b6468cc4db2efc7'),
    (3, '0003_pre_user_secrets', '8a0924a2e7aac4101a0a345d8d56542c17412c847a79d1e50750b5ecc1e71bdb'),
    (4, '0004_pre_said_twice', 'b88038cfdb86448fa795b57e9ce06e99614263d1cff11389376003aa3fe551d4'),
    (5, '0005_pre_conversation_jobs', 'a53552680d1e9b4d1ce3d25884fecb64c777ce728f5cf96e137f75022bd4c33e'),
    (6, '0006_pre_long_term_notes', '558851b8fb24e85371f8ee518d5c34cfa23df3022383fbf7394049f4660594ca'),
    (7, '0007_pre_consolidations', '3c6e5611d3a03335ba995f30a5810b9db622bf03386d6080d68b69cba74165fd'),
    (8, '0008_pre_store_memories', '86ec89810bc54c749749c241fba715a413f5bd8b86b4af55b46d8a0813169a43'),
    (9, '0009_pre_images', '38a6f9cb5753f608ec2768025cbe23b1ea2d8b616fe4546fab713cc854b21578'),
    (10, '0010_pre_waiting_users', '0bdca46fdf204c12ba7ae1e8c992688b2db58eaf6fa4f265cf1f309f91e70601'),
    (11, '0011_pre_hosted_databases', 'faa7afc2de1afb55d00b1cfd0b71e9e94a9f5689451c6828a20116a6eceb357a'),
    (12, '0012_pre_statements_again', '003897fbf606da66c4f7b9fb3970f4eb164b032713836eddddbe51df428a0ad8'),
    (13, '0013_pre_session_claims', '044f4e608b391b24f4e712085b2b5745c53f10e55127a859a02ad55fd39ec010');
