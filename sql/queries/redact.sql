-- Forgetting in what was archived (store/redact.py). Each block runs in a transaction that began with act_as.

-- name: select_derived_ids :many
-- Items that were made from some items: they go with them.
SELECT derived.id, derived.content_id FROM memory_context.agent_memories AS derived
WHERE derived.user_id = %(user_id)s
    AND derived.origin = 'consolidation'
    AND derived.is_active
    AND derived.id <> ALL(%(memory_ids)s::bigint[])
    AND derived.related_to && ARRAY(
        SELECT memory_key FROM memory_context.agent_memories
        WHERE user_id = %(user_id)s AND id = ANY(%(memory_ids)s::bigint[])
    );

-- name: select_traces :many
-- Items that are to be forgotten, with the texts of messages and statements.
SELECT
    item.memory_key, item.memory_type, item.agent_id, item.session_id, content.content, content.content_raw
FROM memory_context.agent_memories AS item
LEFT JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s
    AND content.id = item.content_id
    AND item.memory_type IN ('conversation', 'user_preference', 'user_fact')
WHERE item.user_id = %(user_id)s AND item.id = ANY(%(memory_ids)s::bigint[]);

-- name: select_sessions_holding :many
-- Sessions of forgotten messages, and those of which a batch names a key or shows a title. It reads the whole archive of
-- the user, since forgetting is rare.
SELECT DISTINCT session_id, agent_id FROM memory_context.recent_conversation_history AS batch
WHERE user_id = %(user_id)s
    AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
    AND (
        session_id = ANY(%(session_ids)s::text[])
        OR EXISTS (SELECT FROM unnest(%(probes)s::text[]) AS probe WHERE strpos(batch.message_batch::text, probe) > 0)
    )
ORDER BY session_id, agent_id;

-- name: select_session_batches :many
-- The batches of a session: what derives from a forgotten item may stand in later ones.
SELECT kind, agent_id, branch, sequence, message_batch::text AS message_batch
FROM memory_context.recent_conversation_history
WHERE user_id = %(user_id)s AND session_id = %(session_id)s
ORDER BY kind, agent_id, branch, sequence;

-- name: update_batch_redacted :many
-- Replace a batch, unless it changed since it was read.
UPDATE memory_context.recent_conversation_history
SET message_batch = %(redacted)s::jsonb, batch_sha256 = %(redacted_sha256)b
WHERE user_id = %(user_id)s
    AND session_id = %(session_id)s
    AND kind = %(kind)s
    AND agent_id = %(agent_id)s
    AND branch = %(branch)s
    AND sequence = %(sequence)s
    AND message_batch = %(message_batch)s::jsonb
RETURNING sequence;

-- name: update_events_forgotten :exec
-- Details of the audit trail say why an item was opened, at times in its words.
UPDATE memory_context.agent_memory_events SET detail = ''
WHERE user_id = %(user_id)s AND memory_keys && %(memory_keys)s::text[] AND detail <> '';

-- name: update_reports_forgotten :exec
-- Reports of consolidations that name an item: earlier versions kept their lines.
UPDATE memory_context.consolidations AS run SET report = run.report - 'lines'
WHERE user_id = %(user_id)s
    AND run.report ? 'lines'
    AND EXISTS (SELECT FROM unnest(%(memory_keys)s::text[]) AS key WHERE strpos(concat(run.report, run.changes), key) > 0);

-- name: update_titles_forgotten :exec
-- A title and a summary begin with the first words of messages.
UPDATE memory_context.agent_sessions AS session SET
    title = CASE WHEN {has_beginning(session.title)} THEN %(forgotten)s ELSE title END,
    summary = CASE WHEN {has_beginning(session.summary)} THEN %(forgotten)s ELSE summary END
WHERE user_id = %(user_id)s
    AND session_id = %(session_id)s
    AND ({has_beginning(session.title)} OR {has_beginning(session.summary)});

-- name: update_names_forgotten :exec
-- So does the name of an interface's thread.
UPDATE memory_context.ui_threads AS thread SET name = %(forgotten)s
WHERE user_id = %(user_id)s AND thread_id = %(session_id)s AND {has_beginning(thread.name)};

-- name: update_steps_forgotten :exec
-- Steps of an interface's thread that are a forgotten message.
UPDATE memory_context.ui_steps SET
    input = CASE WHEN input = ANY(%(said)s::text[]) THEN %(forgotten)s ELSE input END,
    output = CASE WHEN output = ANY(%(said)s::text[]) THEN %(forgotten)s ELSE output END
WHERE user_id = %(user_id)s
    AND thread_id = %(session_id)s
    AND (input = ANY(%(said)s::text[]) OR output = ANY(%(said)s::text[]));
