-- Store items of contents that are there, in the order given; then tell maintenance that this user has something waiting. One
-- call, since another statement costs the transaction of a small item a tenth. After the items: who waits for the row of the
-- user then holds all of its items already, so that nobody waits for each other.
CREATE FUNCTION memory_context.store_memories(of_user text, items jsonb, OUT stored_key text, OUT is_new boolean)
RETURNS SETOF record LANGUAGE plpgsql AS $$
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
    INSERT INTO memory_context.memory_users AS waiting (user_id, pending_since)
    SELECT of_user, now() WHERE EXISTS (SELECT FROM memory_context.jobs WHERE user_id = of_user)
    ON CONFLICT ON CONSTRAINT memory_users_pkey
    DO UPDATE SET pending_since = now() WHERE waiting.pending_since IS NULL;
END
$$;
REVOKE ALL ON FUNCTION memory_context.store_memories(text, jsonb) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory_context.store_memories(text, jsonb) TO memory_context_app;
