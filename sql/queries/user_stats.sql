-- What there is, for whoever looks after the store. Each block runs in a transaction that began with act_as, and names
-- the user again. What is private to an agent counts here: it is private to that agent, not to the user.

-- name: select_keys_beside_private :many
-- The keys of all items of a user, if any of them is private: a reader of these keys reads everything. The index of what
-- is private tells at once that nothing is.
SELECT memory_key
FROM memory_context.agent_memories
WHERE user_id = %(user_id)s
    AND is_active
    AND EXISTS (
        SELECT FROM memory_context.agent_memories AS hidden
        WHERE hidden.user_id = %(user_id)s AND hidden.is_private AND hidden.is_active
    );

-- name: select_keys_beginning :many
-- The keys of a user's items that begin with a text, forgotten ones left out.
SELECT memory_key FROM memory_context.agent_memories
WHERE user_id = %(user_id)s AND is_active AND starts_with(memory_key, %(beginning)s)
ORDER BY memory_key
LIMIT %(limit)s;

-- name: select_sessions_beginning :many
-- The ids of a user's sessions that begin with a text, deleted ones left out.
SELECT session_id FROM memory_context.agent_sessions
WHERE user_id = %(user_id)s AND deleted_at IS NULL AND starts_with(session_id, %(beginning)s)
ORDER BY session_id
LIMIT %(limit)s;

-- name: select_ids_of_contents :many
-- The items behind keys and all others with the same content, as far as they are not forgotten.
SELECT id, content_id, memory_key FROM memory_context.agent_memories
WHERE user_id = %(user_id)s
    AND content_id IN (
        SELECT content_id FROM memory_context.agent_memories
        WHERE user_id = %(user_id)s AND memory_key = ANY(%(memory_keys)s::text[]) AND is_active
    );

-- name: select_forgettable :many
-- What forgetting keys takes if an agent asks for it: the items behind them that it may read, and all others with the same
-- content. It writes what it stored in this session and, if it shares, what is private to nobody.
SELECT
    item.id, item.content_id, item.memory_key, item.memory_type, item.summary, item.token_count, item.content_bytes,
    item.updated_at, may.is_readable,
    may.is_readable AND (
        (item.agent_id = %(reader_agent)s AND item.session_id = %(reader_session)s)
        OR (%(is_shared)s::boolean AND NOT item.is_private)
    ) AS is_writable
FROM memory_context.agent_memories AS item
CROSS JOIN LATERAL (
    SELECT {may_read(item)} AS is_readable
) AS may
WHERE item.user_id = %(user_id)s
    AND item.content_id IN (
        SELECT named.content_id FROM memory_context.agent_memories AS named
        WHERE named.user_id = %(user_id)s
            AND named.memory_key = ANY(%(memory_keys)s::text[])
            AND named.is_active
            AND {may_read(named)}
    )
ORDER BY item.id;

-- name: sum_items_by_kind :many
-- How much is stored of each type and source, of one session or of all, without messages; what takes most first.
SELECT
    memory_type, source, count(*) AS items, sum(content_bytes)::bigint AS content_bytes, sum(token_count)::bigint AS tokens,
    count(*) FILTER (WHERE is_private) AS private_items
FROM memory_context.agent_memories
WHERE user_id = %(user_id)s
    AND is_active
    AND memory_type <> 'conversation'
    AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
GROUP BY memory_type, source
ORDER BY tokens DESC, memory_type, source;

-- name: fetch_user_extent :one
-- How many sessions a user has that were not deleted, and how much was said in them.
SELECT
    count(*) AS sessions, coalesce(sum(message_count), 0)::bigint AS messages, coalesce(sum(chat_count), 0)::bigint AS chats
FROM memory_context.agent_sessions
WHERE user_id = %(user_id)s AND deleted_at IS NULL;

-- name: fetch_session_extent :one
-- What would go with a session: those of its sub-agents, whose ids begin with its id and a slash, and their items.
SELECT
    (
        SELECT count(*) FROM memory_context.agent_sessions
        WHERE user_id = %(user_id)s
            AND session_id > %(session_id)s || '/' AND session_id < %(session_id)s || '0'
            AND deleted_at IS NULL
    ) AS subagent_sessions,
    count(*) AS items,
    coalesce(sum(token_count), 0)::bigint AS tokens
FROM memory_context.agent_memories
WHERE user_id = %(user_id)s
    AND {in_session(session_id)}
    AND memory_type <> 'conversation'
    AND is_active;

-- name: select_transcripts :many
-- Whose transcripts a session has, with the lines of each: the one that was archived in last, first.
SELECT
    agent_id, branch, count(*) AS batches, sum(message_count)::bigint AS messages, max(archived_at) AS archived_at
FROM memory_context.recent_conversation_history
WHERE user_id = %(user_id)s AND session_id = %(session_id)s AND kind = 'transcript'
GROUP BY agent_id, branch
ORDER BY archived_at DESC, agent_id, branch;

-- name: count_events :many
-- How often each thing happened to items in a session, by the doing of one agent.
SELECT kind, count(*) AS events
FROM memory_context.agent_memory_events
WHERE user_id = %(user_id)s AND session_id = %(session_id)s AND agent_id = %(agent_id)s
GROUP BY kind
ORDER BY kind;

-- name: select_item_events :many
-- What happened to one item, in any session, the newest first; that it was stored and forgotten its row tells.
SELECT created_at AS at, kind, agent_id, session_id, detail
FROM memory_context.agent_memory_events
WHERE user_id = %(user_id)s AND %(memory_key)s = ANY(memory_keys)
ORDER BY created_at DESC
LIMIT %(limit)s;

-- name: select_item_sessions :many
-- The transcripts that refer to some items, the one that was archived in last, first.
SELECT batch.session_id, batch.agent_id, max(session.title) AS title, max(batch.archived_at) AS archived_at
FROM memory_context.recent_conversation_history AS batch
JOIN memory_context.agent_sessions AS session
    ON session.user_id = %(user_id)s AND session.session_id = batch.session_id AND session.deleted_at IS NULL
WHERE batch.user_id = %(user_id)s AND batch.kind = 'transcript' AND batch.memory_keys && %(memory_keys)s::text[]
GROUP BY batch.session_id, batch.agent_id
ORDER BY archived_at DESC, session_id, agent_id
LIMIT %(limit)s;

-- name: sum_jobs_by_kind :many
-- The jobs of each kind that a user has: waiting, at work, failed.
SELECT
    kind,
    count(*) FILTER (WHERE NOT is_failed AND claim IS NULL) AS waiting,
    count(*) FILTER (WHERE NOT is_failed AND claim IS NOT NULL) AS at_work,
    count(*) FILTER (WHERE is_failed) AS failed
FROM memory_context.jobs
WHERE user_id = %(user_id)s
GROUP BY kind
ORDER BY kind;
