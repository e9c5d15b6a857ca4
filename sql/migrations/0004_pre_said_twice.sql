-- A message that is said again is an item of its own: it has a time and a place of its own. All else stays once in a place.
-- transaction: none
DROP INDEX CONCURRENTLY IF EXISTS memory_context.agent_memories_item_unique;
CREATE UNIQUE INDEX CONCURRENTLY agent_memories_item_unique
    ON memory_context.agent_memories (user_id, agent_id, session_id, memory_type, source, origin, content_id)
    WHERE memory_type <> 'conversation';
ALTER TABLE memory_context.agent_memories DROP CONSTRAINT IF EXISTS agent_memories_content_unique;
