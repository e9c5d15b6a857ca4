-- What a user states again later is a statement of its own, with the day it was said in `valid_from`. All else stays once in a place.
-- transaction: none
DROP INDEX CONCURRENTLY IF EXISTS memory_context.agent_memories_once_in_place;
CREATE UNIQUE INDEX CONCURRENTLY agent_memories_once_in_place
    ON memory_context.agent_memories (user_id, agent_id, session_id, memory_type, source, origin, content_id)
    WHERE memory_type <> 'conversation' AND valid_from IS NULL;
DROP INDEX CONCURRENTLY IF EXISTS memory_context.agent_memories_item_unique;
