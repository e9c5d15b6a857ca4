-- What a model said of an item's content, beside the content: the transform `summary` returns it.
ALTER TABLE memory_context.agent_memories ADD COLUMN model_summary text;
COMMENT ON COLUMN memory_context.agent_memories.model_summary IS
    'a summary of the content by a model, escaped like short columns; NULL if there is none';
