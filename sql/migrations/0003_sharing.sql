-- Sharing between the agents of one user, storing in one call, and erasing a user.

-- Private items are read in their own scope, that of the agent and session that stored them, and nowhere else.
ALTER TABLE memory_context.agent_memories ADD COLUMN is_private boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN memory_context.agent_memories.is_private IS 'read by the agent and session that stored it only';

-- What a search leaves out, without a look at all that is not private.
CREATE INDEX agent_memories_private ON memory_context.agent_memories (user_id, session_id, agent_id, id)
    WHERE is_private AND is_active;

-- Whether somebody may read an item: by its key, if only some keys may be read; else if it is within reach (NULL for no
-- bound) and not private to somebody else. Inlined by the planner.
CREATE FUNCTION memory_context.may_read(
    item memory_context.agent_memories, reader_agent text, reader_session text,
    within_agent text, within_session text, only_keys text[]
) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN only_keys IS NOT NULL THEN item.memory_key = ANY(only_keys)
        ELSE (within_agent IS NULL OR item.agent_id = within_agent)
            AND (within_session IS NULL OR item.session_id = within_session)
            AND (NOT item.is_private OR (item.agent_id = reader_agent AND item.session_id = reader_session))
        END
$$;

-- Store an item, and for a new one the job to index it. The same content in the same place again answers with the key it
-- already has; stored for all once, it is for all. A key of another content is a unique_violation.
-- Any conflict is waited for and nothing is done: with one constraint named, two who insert the same row at once can
-- block each other for good between the two unique indexes.
CREATE FUNCTION memory_context.store_memory(
    of_user text, its_key text, its_agent text, its_session text, its_type text, its_source text, its_summary text,
    its_content text, its_content_raw bytea, its_bytes bigint, its_tokens bigint, its_sha256 bytea, its_tags text[],
    its_related_to text[], its_metadata jsonb, its_is_private boolean, OUT stored_key text, OUT is_new boolean
) LANGUAGE plpgsql AS $$
DECLARE
    stored_id bigint;
BEGIN
    INSERT INTO memory_context.agent_memories (
        user_id, memory_key, agent_id, session_id, memory_type, source, summary, content, content_raw, content_bytes,
        token_count, content_sha256, tags, related_to, content_metadata, is_private
    ) VALUES (
        of_user, its_key, its_agent, its_session, its_type, its_source, its_summary, its_content, its_content_raw, its_bytes,
        its_tokens, its_sha256, its_tags, its_related_to, its_metadata, its_is_private
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
        AND memory.content_sha256 = its_sha256
    RETURNING memory.memory_key INTO stored_key;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the key % is taken by another content', its_key USING ERRCODE = 'unique_violation';
    END IF;
END
$$;

REVOKE ALL ON FUNCTION memory_context.store_memory(
    text, text, text, text, text, text, text, text, bytea, bigint, bigint, bytea, text[], text[], jsonb, boolean
) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory_context.store_memory(
    text, text, text, text, text, text, text, text, bytea, bigint, bigint, bytea, text[], text[], jsonb, boolean
) TO memory_context_app;

-- A user who is erased leaves nothing, the list of users included.
GRANT DELETE ON memory_context.agent_memories, memory_context.memory_users TO memory_context_app;
CREATE POLICY memory_users_own_delete ON memory_context.memory_users FOR DELETE
    USING (user_id = current_setting('memory_context.user_id', true));
