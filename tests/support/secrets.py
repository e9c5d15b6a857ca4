"""A secret in clear, as earlier versions stored it."""

IN_CLEAR = """
WITH content AS (
    INSERT INTO memory_context.agent_memory_contents (
        user_id, content, content_bytes, content_sha256, beginning_sha256
    )
    SELECT 'alice', text, 30, sha256(text::bytea), sha256(text::bytea) FROM (VALUES (%s)) AS secret (text)
    RETURNING id
)
INSERT INTO memory_context.agent_memories (
    user_id, memory_key, agent_id, session_id, memory_type, source, origin, summary, content_id, content_bytes,
    token_count, tags, content_metadata
)
SELECT
    'alice', 'safe_k3f7x2', '', '', 'user_secret', 'notes', 'application', 'zebra of the safe', id, 30, 7, '{zebra}',
    '{"zebra": 1}'
FROM content
"""
