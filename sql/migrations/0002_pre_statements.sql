-- Statements of a user have two times: when they hold (valid_from, valid_until), and when they were recorded (created_at).
-- A newer statement about the same subject supersedes; the older one stays and names it.
ALTER TABLE memory_context.agent_memories
    ADD COLUMN valid_from timestamptz,
    ADD COLUMN valid_until timestamptz,
    ADD COLUMN superseded_by text COLLATE "C",
    ADD CONSTRAINT agent_memories_superseded_by_length CHECK (octet_length(superseded_by) <= 64);
COMMENT ON COLUMN memory_context.agent_memories.valid_from IS 'since when a statement holds; NULL means since created_at';
COMMENT ON COLUMN memory_context.agent_memories.valid_until IS 'until when it held; NULL while it holds';
COMMENT ON COLUMN memory_context.agent_memories.superseded_by IS 'the memory_key of the statement that replaced it';

-- User memory: the few rows of a user that every session reads at its start.
CREATE INDEX agent_memories_statements ON memory_context.agent_memories (user_id, (coalesce(valid_from, created_at)))
    WHERE is_active
        AND memory_type IN ('user_preference', 'user_fact')
        AND origin IN ('user_words', 'user_edit', 'application');
