-- What happened to items. Each block runs in a transaction that began with act_as, and names the user again.

-- name: insert_events :exec
-- Write a batch of events. They come with their age in seconds, so that all times are by the clock of the server.
-- A batch that comes again after a lost answer changes nothing.
INSERT INTO memory_context.agent_memory_events (
    user_id, id, agent_id, session_id, is_private, kind, memory_keys, detail, created_at
)
SELECT
    %(user_id)s, event.id, event.agent_id, event.session_id, event.is_private, event.kind,
    string_to_array(event.memory_keys, ' '), event.detail, now() - make_interval(secs => event.age_seconds)
FROM unnest(
    %(event_ids)s::uuid[], %(event_agent_ids)s::text[], %(event_session_ids)s::text[], %(event_are_private)s::boolean[],
    %(event_kinds)s::text[], %(event_keys)s::text[], %(event_details)s::text[], %(event_ages_seconds)s::float8[]
) AS event (id, agent_id, session_id, is_private, kind, memory_keys, detail, age_seconds)
ON CONFLICT ON CONSTRAINT agent_memory_events_pkey DO NOTHING;

-- name: update_last_used :exec
-- Note when items were last used, all of a batch at once. An item that another transaction holds is left out rather than
-- waited for: whoever holds it stores it again, which counts as use, or forgets it.
UPDATE memory_context.agent_memories AS item
SET last_used_at = greatest(item.last_used_at, now() - make_interval(secs => used.age_seconds))
FROM (
    SELECT memory.id, used.age_seconds
    FROM unnest(%(used_keys)s::text[], %(used_ages_seconds)s::float8[]) AS used (memory_key, age_seconds)
    JOIN memory_context.agent_memories AS memory
        ON memory.user_id = %(user_id)s AND memory.memory_key = used.memory_key AND memory.is_active
    FOR UPDATE OF memory SKIP LOCKED
) AS used
WHERE item.user_id = %(user_id)s AND item.id = used.id;

-- name: select_events :many
-- A page of what happened to the items of a session, as far as the reader may read it.
-- That they were stored and forgotten the items tell themselves.
SELECT happened.*
FROM (
    SELECT
        item.created_at AS happened_at, 'item ' || lpad(item.id::text, 20, '0') AS event_id, 'stored' AS kind,
        item.agent_id, item.session_id, ARRAY[item.memory_key] AS memory_keys, '' AS detail, item.source,
        item.token_count, item.content_metadata, NOT item.is_active AS is_forgotten
    FROM memory_context.agent_memories AS item
    WHERE item.user_id = %(user_id)s
        AND item.session_id = %(session_id)s
        AND {may_read(item)}
    UNION ALL
    SELECT
        item.updated_at, 'item ' || lpad(item.id::text, 20, '0') || ' gone', 'forgotten', item.agent_id, item.session_id,
        ARRAY[item.memory_key], '', item.source, item.token_count, NULL, true
    FROM memory_context.agent_memories AS item
    WHERE item.user_id = %(user_id)s
        AND item.session_id = %(session_id)s
        AND NOT item.is_active
        AND {may_read(item)}
    UNION ALL
    SELECT
        event.created_at, event.id::text, event.kind, event.agent_id, event.session_id, event.memory_keys, event.detail,
        '', 0, NULL, false
    FROM memory_context.agent_memory_events AS event
    WHERE event.user_id = %(user_id)s
        AND event.session_id = %(session_id)s
        AND CASE WHEN %(only_keys)s::text[] IS NOT NULL THEN event.memory_keys && %(only_keys)s::text[]
            ELSE (%(within_agent)s::text IS NULL OR event.agent_id IN (%(within_agent)s, ''))
                AND (%(within_session)s::text IS NULL OR event.session_id = %(within_session)s)
                AND (
                    NOT event.is_private
                    OR (event.agent_id = %(reader_agent)s AND event.session_id = %(reader_session)s)
                )
            END
) AS happened
WHERE CASE
    WHEN %(after_at)s::timestamptz IS NULL THEN true
    WHEN %(newest_first)s THEN (happened_at, event_id COLLATE "C") < (%(after_at)s::timestamptz, %(after_id)s)
    ELSE (happened_at, event_id COLLATE "C") > (%(after_at)s::timestamptz, %(after_id)s)
END
ORDER BY
    CASE WHEN NOT %(newest_first)s THEN happened_at END, CASE WHEN NOT %(newest_first)s THEN event_id COLLATE "C" END,
    happened_at DESC, event_id COLLATE "C" DESC
LIMIT %(limit)s;
