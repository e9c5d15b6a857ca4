-- Tell maintenance that a user has something waiting. A user who is known to wait is only held in place, which other
-- transactions that store for this user may do at the same time; an upsert would have them wait for each other.
CREATE FUNCTION memory_context.note_pending_user(of_user text) RETURNS void LANGUAGE plpgsql AS $$
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
REVOKE ALL ON FUNCTION memory_context.note_pending_user(text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory_context.note_pending_user(text) TO memory_context_app;

CREATE OR REPLACE FUNCTION memory_context.store_memories(
    of_user text, items jsonb, OUT stored_key text, OUT is_new boolean
) RETURNS SETOF record LANGUAGE plpgsql AS $$
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
