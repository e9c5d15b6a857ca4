-- Retention: what nobody used for a while goes. Each block runs in a transaction that began with act_as.

-- name: select_old_items :many
-- A page of a user's items of some types that were neither stored nor used since a time, the oldest first. Of user memory
-- what the user did not say and the application did not store.
SELECT id, content_id, created_at FROM memory_context.agent_memories
WHERE user_id = %(user_id)s
    AND is_active
    AND created_at < %(cutoff)s
    AND (created_at, id) > (coalesce(%(after_at)s::timestamptz, '-infinity'), %(after_memory_id)s)
    AND updated_at < %(cutoff)s
    AND last_used_at < %(cutoff)s
    AND (
        memory_type = ANY(%(types)s::text[])
        OR (memory_type = ANY(%(claimed_types)s::text[]) AND origin <> ALL(%(trusted_origins)s::text[]))
    )
ORDER BY created_at, id
LIMIT %(limit)s;

-- name: update_memories_pruned :many
-- Forget those of some items that are still old and that no active session has: as its own, as a sub-agent's, or in what
-- was archived of it. They are locked already, so that none is used meanwhile; hence one statement, which also takes away
-- their names and jobs. Their contents go in the next one, where no other item has them.
WITH {active_sessions()}, prunable AS (
    SELECT item.id FROM memory_context.agent_memories AS item
    WHERE item.user_id = %(user_id)s
        AND item.id = ANY(%(memory_ids)s::bigint[])
        AND item.is_active
        AND item.updated_at < %(cutoff)s
        AND item.last_used_at < %(cutoff)s
        AND {is_of_no_active_session(item)}
), {forget_prunable()};

-- name: count_prunable :one
-- What pruning would take of a user: the same conditions, nothing locked or changed.
WITH {active_sessions()}, item AS (
    SELECT count(*) AS items, coalesce(sum(item.content_bytes), 0)::bigint AS content_bytes
    FROM memory_context.agent_memories AS item
    WHERE item.user_id = %(user_id)s
        AND item.is_active
        AND item.created_at < %(cutoff)s
        AND item.updated_at < %(cutoff)s
        AND item.last_used_at < %(cutoff)s
        AND (
            item.memory_type = ANY(%(types)s::text[])
            OR (item.memory_type = ANY(%(claimed_types)s::text[]) AND item.origin <> ALL(%(trusted_origins)s::text[]))
        )
        AND {is_of_no_active_session(item)}
)
SELECT
    item.items, item.content_bytes,
    (
        SELECT count(*) FROM memory_context.agent_sessions AS session
        WHERE session.user_id = %(user_id)s AND session.last_activity_at < %(cutoff)s AND session.deleted_at IS NULL
            AND (position('/' IN session.session_id) = 0 OR NOT EXISTS (
                SELECT FROM active WHERE starts_with(session.session_id, active.session_id || '/')
            ))
    ) AS sessions
FROM item;

-- name: select_old_sessions :many
-- A page of sessions that nobody archived in since a time, with their messages that are items. Those of sub-agents stay
-- while a session above them is active.
WITH old AS (
    SELECT session.session_id FROM memory_context.agent_sessions AS session
    WHERE session.user_id = %(user_id)s AND session.session_id > %(after_session_id)s AND {is_old(session)}
    ORDER BY session.session_id
    LIMIT %(limit)s
)
SELECT
    old.session_id,
    coalesce(array_agg(item.id) FILTER (WHERE item.id IS NOT NULL), '{}') AS memory_ids,
    coalesce(array_agg(item.content_id) FILTER (WHERE item.id IS NOT NULL), '{}') AS content_ids
FROM old
LEFT JOIN memory_context.agent_memories AS item
    ON item.user_id = %(user_id)s AND item.session_id = old.session_id AND item.memory_type = 'conversation' AND item.is_active
GROUP BY old.session_id
ORDER BY old.session_id;

-- name: delete_old_sessions :many
-- Those of some sessions that are still old, with their archive; one stays in which somebody is archiving just now.
DELETE FROM memory_context.agent_sessions
WHERE user_id = %(user_id)s AND session_id IN (
    SELECT session.session_id FROM memory_context.agent_sessions AS session
    WHERE session.user_id = %(user_id)s
        AND session.session_id = ANY(%(session_ids)s::text[])
        AND {is_old(session)}
        AND {takes_its_messages(session)}
    ORDER BY session.session_id
    FOR UPDATE SKIP LOCKED
)
RETURNING deleted_at;

-- name: update_messages_pruned :many
-- Forget the messages of sessions that were just deleted.
WITH prunable AS (
    SELECT item.id FROM memory_context.agent_memories AS item
    WHERE item.user_id = %(user_id)s
        AND item.id = ANY(%(memory_ids)s::bigint[])
        AND item.is_active
        AND NOT EXISTS (
            SELECT FROM memory_context.agent_sessions AS session
            WHERE session.user_id = %(user_id)s AND session.session_id = item.session_id
        )
), {forget_prunable()};

-- name: delete_old_threads :many
-- A batch of threads in which nothing was shown since a time, with all that was. One stays in which something is kept just
-- now. In no order: by thread_id the planner would walk through the threads of all users.
DELETE FROM memory_context.ui_threads
WHERE user_id = %(user_id)s AND thread_id IN (
    SELECT thread_id FROM memory_context.ui_threads
    WHERE user_id = %(user_id)s
        AND last_activity_at < %(cutoff)s
        AND (deleted_at IS NULL OR deleted_at < %(cutoff)s)
    LIMIT %(limit)s
    FOR UPDATE SKIP LOCKED
)
RETURNING thread_id;
