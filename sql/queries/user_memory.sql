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

-- name: select_past_use :one
-- What earlier sessions tell of this one: whether other sessions of the user stored something, and the median numbers of
-- messages and of stored results in the agent's last ones. A result under the threshold is not stored. Two ranges of an index
-- end at their first row, however many items this session has.
WITH past AS (
    SELECT session.message_count, (
        SELECT count(*) FROM memory_context.agent_memories AS item
        WHERE item.user_id = %(user_id)s
            AND item.session_id = session.session_id
            AND item.agent_id = %(agent_id)s
            AND item.origin = 'tool'
    ) AS results
    FROM memory_context.agent_sessions AS session
    WHERE session.user_id = %(user_id)s
        AND session.agent_id = %(agent_id)s
        AND session.session_id <> %(session_id)s
        AND session.deleted_at IS NULL
    ORDER BY session.last_activity_at DESC, session.session_id DESC
    LIMIT %(limit)s
)
SELECT
    EXISTS (
        SELECT FROM memory_context.agent_memories AS item
        WHERE item.user_id = %(user_id)s AND item.session_id < %(session_id)s AND item.is_active AND {may_read(item)}
    ) OR EXISTS (
        SELECT FROM memory_context.agent_memories AS item
        WHERE item.user_id = %(user_id)s AND item.session_id > %(session_id)s AND item.is_active AND {may_read(item)}
    ) AS has_memory,
    coalesce(percentile_disc(0.5) WITHIN GROUP (ORDER BY past.message_count), 0) AS messages,
    coalesce(percentile_disc(0.5) WITHIN GROUP (ORDER BY past.results), 0) AS results
FROM past;
