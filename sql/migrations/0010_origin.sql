-- Origin: whose words an item holds, set by the code path that stored it. What was stored before is labelled by the traces
-- of its path, and where these leave a doubt as an agent's: a result of a tool names its call, what the tool store_memory
-- stored has that source. The most frequent one is the default at first, so that few rows are written.

ALTER TABLE memory_context.agent_memories ADD COLUMN origin text COLLATE "C" NOT NULL DEFAULT 'tool';

UPDATE memory_context.agent_memories
SET origin = CASE
    WHEN source = 'store_memory' OR content_metadata ? 'message' THEN 'agent'
    ELSE 'application'
END
WHERE source = 'store_memory'
    OR NOT content_metadata ? 'message'
    OR NOT (content_metadata ->> 'part' IS NOT DISTINCT FROM 'result' OR memory_type = 'command_output');

ALTER TABLE memory_context.agent_memories
    ALTER COLUMN origin DROP DEFAULT,
    ADD CONSTRAINT agent_memories_origins CHECK (
        origin IN ('user_words', 'user_edit', 'application', 'agent', 'tool', 'import', 'consolidation')
    ),
    DROP CONSTRAINT agent_memories_content_unique,
    ADD CONSTRAINT agent_memories_content_unique
        UNIQUE (user_id, agent_id, session_id, memory_type, source, content_sha256, origin);
COMMENT ON COLUMN memory_context.agent_memories.origin IS 'whose words it holds; set by the code path that stored it';

DROP FUNCTION memory_context.store_memory(
    text, text, text, text, text, text, text, text, bytea, bigint, bigint, bytea, text[], text[], jsonb, boolean
);

-- Store an item, and for a new one the job to index it. The same content of the same origin in the same place again answers
-- with the key it already has; stored for all once, it is for all. A key of another content is a unique_violation.
-- Any conflict is waited for and nothing is done: with one constraint named, two who insert the same row at once can
-- block each other for good between the two unique indexes.
CREATE FUNCTION memory_context.store_memory(
    of_user text, its_key text, its_agent text, its_session text, its_type text, its_source text, its_origin text,
    its_summary text, its_content text, its_content_raw bytea, its_bytes bigint, its_tokens bigint, its_sha256 bytea,
    its_tags text[], its_related_to text[], its_metadata jsonb, its_is_private boolean,
    OUT stored_key text, OUT is_new boolean
) LANGUAGE plpgsql AS $$
DECLARE
    stored_id bigint;
BEGIN
    INSERT INTO memory_context.agent_memories (
        user_id, memory_key, agent_id, session_id, memory_type, source, origin, summary, content, content_raw,
        content_bytes, token_count, content_sha256, tags, related_to, content_metadata, is_private
    ) VALUES (
        of_user, its_key, its_agent, its_session, its_type, its_source, its_origin, its_summary, its_content,
        its_content_raw, its_bytes, its_tokens, its_sha256, its_tags, its_related_to, its_metadata, its_is_private
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
        AND memory.origin = its_origin
    RETURNING memory.memory_key INTO stored_key;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the key % is taken by another content', its_key USING ERRCODE = 'unique_violation';
    END IF;
END
$$;

REVOKE ALL ON FUNCTION memory_context.store_memory(
    text, text, text, text, text, text, text, text, text, bytea, bigint, bigint, bytea, text[], text[], jsonb, boolean
) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION memory_context.store_memory(
    text, text, text, text, text, text, text, text, text, bytea, bigint, bigint, bytea, text[], text[], jsonb, boolean
) TO memory_context_app;
