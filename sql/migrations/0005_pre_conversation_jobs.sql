-- What was archived before is made searchable too. Sub-agents may have been private: theirs is found by themselves only.
INSERT INTO memory_context.jobs (user_id, kind, payload)
SELECT user_id, 'conversation', jsonb_build_object(
    'session', session_id, 'agent', agent_id, 'branch', branch, 'sequence', sequence,
    'is_private', position('/' IN session_id) > 0
)
FROM memory_context.recent_conversation_history
WHERE kind = 'transcript'
ORDER BY user_id, session_id, agent_id, branch, sequence;
UPDATE memory_context.memory_users SET pending_since = now()
WHERE pending_since IS NULL AND user_id IN (SELECT user_id FROM memory_context.jobs WHERE kind = 'conversation');
