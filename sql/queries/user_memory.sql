-- What a session shows of its user from its start, beside the statements; all of it travels in one round trip.

-- name: select_last_sessions :many
-- The named sessions before this one, those used last first; not those of sub-agents.
SELECT title, summary, last_activity_at
FROM memory_context.agent_sessions
WHERE user_id = %(user_id)s
    AND deleted_at IS NULL
    AND session_id <> split_part(%(session_id)s, '/', 1)
    AND position('/' IN session_id) = 0
    AND (title <> '' OR summary <> '')
ORDER BY last_activity_at DESC, session_id DESC
LIMIT %(limit)s;

-- name: fetch_has_memory :one
-- Whether other sessions of the user stored something. Two ranges of an index end at their first row, however many items this
-- session has.
SELECT EXISTS (
    SELECT FROM memory_context.agent_memories AS item
    WHERE item.user_id = %(user_id)s AND item.session_id < %(session_id)s AND item.is_active AND {may_read(item)}
) OR EXISTS (
    SELECT FROM memory_context.agent_memories AS item
    WHERE item.user_id = %(user_id)s AND item.session_id > %(session_id)s AND item.is_active AND {may_read(item)}
) AS has_memory;
