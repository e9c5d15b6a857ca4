-- Secrets: what was stored as type user_secret is found by nothing any more. The rows stay, so that the application can
-- read them by their keys and forget them; new ones are refused before they come here.

UPDATE memory_context.agent_memory_statistics AS statistic
SET chunk_count = statistic.chunk_count - gone.chunk_count
FROM (
    SELECT chunk.user_id, count(*) AS chunk_count
    FROM memory_context.agent_memory_chunks AS chunk
    JOIN memory_context.agent_memories AS item ON item.user_id = chunk.user_id AND item.id = chunk.memory_id
    WHERE item.memory_type = 'user_secret'
    GROUP BY chunk.user_id
) AS gone
WHERE statistic.user_id = gone.user_id;

DELETE FROM memory_context.index_jobs AS job
USING memory_context.agent_memories AS item
WHERE item.user_id = job.user_id AND item.id = job.memory_id AND item.memory_type = 'user_secret';

DELETE FROM memory_context.agent_memory_terms AS term
USING memory_context.agent_memories AS item
WHERE item.user_id = term.user_id AND item.id = term.memory_id AND item.memory_type = 'user_secret';

-- Their embeddings go with them.
DELETE FROM memory_context.agent_memory_chunks AS chunk
USING memory_context.agent_memories AS item
WHERE item.user_id = chunk.user_id AND item.id = chunk.memory_id AND item.memory_type = 'user_secret';

-- Secrets are listed only when they are asked for by their type.
CREATE OR REPLACE FUNCTION memory_context.meets(
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
