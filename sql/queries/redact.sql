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
-- Keys and quotes of items that are to be forgotten, with their texts if no other item keeps them.
SELECT
    item.memory_key, item.agent_id, item.session_id, item.content_metadata ->> 'quote' AS quote, NULL::text AS content,
    coalesce(content.content_raw, convert_to(content.content, 'UTF8')) AS content_raw
FROM memory_context.agent_memories AS item
LEFT JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s
    AND content.id = item.content_id
    AND content.content_type IS NULL
    AND NOT EXISTS (
        SELECT FROM memory_context.agent_memories AS other
        WHERE other.user_id = %(user_id)s
            AND other.content_id = item.content_id
            AND other.is_active
            AND other.id <> ALL(%(memory_ids)s::bigint[])
    )
WHERE item.user_id = %(user_id)s AND item.id = ANY(%(memory_ids)s::bigint[]);

-- name: select_messages_quoting :many
-- Archived messages that hold one of some texts, but for those that are forgotten themselves.
SELECT item.id, item.content_id, item.session_id, item.agent_id, item.source, item.origin, item.is_private
FROM memory_context.agent_memories AS item
JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.id = item.content_id
WHERE item.user_id = %(user_id)s
    AND item.memory_type = 'conversation'
    AND item.id <> ALL(%(memory_ids)s::bigint[])
    AND EXISTS (SELECT FROM unnest(%(texts)s::text[]) AS quoted WHERE strpos(content.content, quoted) > 0);

-- name: select_sessions_holding :many
-- Sessions of which a batch holds one of some texts. It reads the whole archive of the user, since forgetting is rare.
SELECT DISTINCT session_id, agent_id FROM memory_context.recent_conversation_history AS batch
WHERE user_id = %(user_id)s
    AND (%(session_id)s::text IS NULL OR session_id = %(session_id)s)
    AND EXISTS (SELECT FROM unnest(%(probes)s::text[]) AS probe WHERE strpos(batch.message_batch::text, probe) > 0)
ORDER BY session_id, agent_id;

-- name: select_batches_holding :many
-- The batches of a session that hold one of some texts, and those with observations, which say it in other words.
SELECT kind, agent_id, branch, sequence, message_batch::text AS message_batch
FROM memory_context.recent_conversation_history AS batch
WHERE user_id = %(user_id)s
    AND session_id = %(session_id)s
    AND (
        EXISTS (SELECT FROM unnest(%(probes)s::text[]) AS probe WHERE strpos(batch.message_batch::text, probe) > 0)
        OR (kind = 'transcript' AND message_batch @? '$.decisions[*][1] ? (
            @.kind == "observed" || @.kind == "reflected" || @.kind == "observations_restored"
        )')
    );

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
-- Reports of consolidations that name an item, or quote it: earlier versions kept their lines.
UPDATE memory_context.consolidations AS run SET report = run.report - 'lines'
WHERE user_id = %(user_id)s
    AND run.report ? 'lines'
    AND EXISTS (SELECT FROM unnest(%(probes)s::text[]) AS probe WHERE strpos(concat(run.report, run.changes), probe) > 0);
