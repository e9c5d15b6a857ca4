-- What an export and an import need beside the statements that all tables have alike (tables.sql). Each block runs in a
-- transaction that began with act_as.

-- name: set_transfer_scope :exec
-- Times of a file are in UTC. Whoever takes its pages may be slow: a pipe that is full, a person who reads.
SELECT set_config('TimeZone', 'UTC', true), set_config('idle_in_transaction_session_timeout', '0', true);

-- name: select_columns :many
-- The columns of some tables in their order; those that the database fills in are left out.
SELECT class.relname::text AS table_name, attname::text AS name, format_type(atttypid, NULL) AS type
FROM pg_class AS class
JOIN pg_attribute ON attrelid = class.oid AND attnum > 0 AND NOT attisdropped AND attidentity = '' AND attgenerated = ''
WHERE class.relnamespace = 'memory_context'::regnamespace AND class.relname = ANY(%(names)s::text[])
ORDER BY class.relname, attnum;

-- name: count_items :one
-- How many items there are; of a session those that are not forgotten.
SELECT count(*) AS rows FROM memory_context.agent_memories
WHERE user_id = %(user_id)s
    AND CASE WHEN %(session_id)s::text IS NULL THEN NOT (is_active AND memory_type = 'user_secret')
        ELSE is_active AND {in_session(session_id)} END;

-- name: select_item_page :many
-- Items in the order they were stored, tombstones included; of a session also those that its archive refers to. Secrets
-- of earlier versions stay behind.
WITH page AS (
    SELECT id, content_bytes FROM memory_context.agent_memories
    WHERE user_id = %(user_id)s
        AND id > %(after_memory_id)s
        AND NOT (is_active AND memory_type = 'user_secret')
        AND (
            %(session_id)s::text IS NULL
            OR {in_session(session_id)}
            OR memory_key IN (
                SELECT unnest(memory_keys) FROM memory_context.recent_conversation_history
                WHERE user_id = %(user_id)s AND {in_session(session_id)}
            )
        )
    ORDER BY id
    LIMIT %(limit)s
), sized AS (
    SELECT id, sum(content_bytes) OVER (ORDER BY id) - content_bytes AS bytes_before FROM page
)
SELECT
    item.id AS after_memory_id, content.content, content.content_raw, content.content_type, content.content_bytes, item.is_active,
    (
        SELECT row_to_json(picked) FROM (
            SELECT
                item.memory_key, item.agent_id, item.session_id, item.memory_type, item.source, item.summary,
                item.model_summary, item.tags, item.related_to, item.content_metadata, item.token_count, item.is_private,
                item.origin, item.shared_with, item.is_active, item.created_at, item.updated_at, item.last_used_at,
                item.valid_from, item.valid_until, item.superseded_by,
                encode(content.content_sha256, 'hex') AS content_sha256, content.content_type
        ) AS picked
    )::text AS record
FROM sized
JOIN memory_context.agent_memories AS item ON item.user_id = %(user_id)s AND item.id = sized.id
LEFT JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.id = item.content_id
WHERE sized.bytes_before < %(bytes_limit)s
ORDER BY item.id;

-- name: select_different_items :many
-- Items that were left out though nobody forgot them: their key is here for another item, or their content is here, in the same
-- place, under another key.
WITH given AS (
    SELECT one.* FROM ROWS FROM (
        jsonb_to_recordset(%(records)s::jsonb) AS (
            memory_key text, agent_id text, session_id text, memory_type text, source text, origin text, is_active boolean
        ),
        unnest(%(hashes)s::bytea[])
    ) AS one (memory_key, agent_id, session_id, memory_type, source, origin, is_active, sha256)
    WHERE one.is_active
)
SELECT given.memory_key AS name
FROM given
JOIN memory_context.agent_memories AS there
    ON there.user_id = %(user_id)s AND there.memory_key = given.memory_key AND there.is_active
JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.id = there.content_id
WHERE (content.content_sha256, there.agent_id, there.session_id, there.memory_type, there.source)
    <> (given.sha256, given.agent_id, given.session_id, given.memory_type, given.source)
UNION ALL
SELECT given.memory_key || ' (its content is here as ' || there.memory_key || ')'
FROM given
JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.content_sha256 = given.sha256
JOIN memory_context.agent_memories AS there
    ON there.user_id = %(user_id)s
    AND there.agent_id = given.agent_id
    AND there.session_id = given.session_id
    AND there.memory_type = given.memory_type
    AND there.source = given.source
    AND there.origin = given.origin
    AND there.content_id = content.id
WHERE given.memory_type <> 'conversation'
    AND NOT EXISTS (
        SELECT FROM memory_context.agent_memories AS known
        WHERE known.user_id = %(user_id)s AND known.memory_key = given.memory_key
    );

-- name: select_different_batches :many
-- Batches that were left out, in whose place is another one.
SELECT format('batch %%s / %%s / %%s', given.session_id, given.sequence, given.agent_id) AS name
FROM jsonb_to_recordset(%(records)s::jsonb) AS given (
    session_id text, kind text, agent_id text, branch text, sequence integer, batch_sha256 text, message_ids jsonb
)
JOIN memory_context.recent_conversation_history AS there
    ON there.user_id = %(user_id)s
    AND there.session_id = given.session_id
    AND there.kind = given.kind
    AND there.agent_id = given.agent_id
    AND there.branch = given.branch
    AND there.sequence = given.sequence
WHERE encode(there.batch_sha256, 'hex') IS DISTINCT FROM given.batch_sha256
    OR to_jsonb(there.message_ids) <> given.message_ids;

-- name: select_different_notes :many
-- Agents whose notes here have another text.
SELECT 'notes of ' || given.agent_id AS name
FROM jsonb_to_recordset(%(records)s::jsonb) AS given (agent_id text, notes text)
JOIN memory_context.agent_long_term_memory AS there
    ON there.user_id = %(user_id)s AND there.agent_id = given.agent_id AND there.notes <> given.notes;

-- name: insert_transferred_items :one
-- Store items as they were, in their order, with their contents, each with the job to index it. A content that is there already
-- is locked by writing the same again, so that nobody takes it away before the items come. Nothing is looked up: of a user who
-- is new the planner knows nothing, and would read all items for each page.
WITH contents AS (
    INSERT INTO memory_context.agent_memory_contents AS known (
        user_id, content, content_raw, content_bytes, content_type, content_sha256, beginning_sha256
    )
    SELECT DISTINCT ON (given.sha256)
        %(user_id)s, given.plain, given.raw, given.bytes, given.type, given.sha256,
        memory_context.beginning_sha256(given.plain, given.raw)
    FROM unnest(
        %(contents)s::text[], %(contents_raw)s::bytea[], %(sizes)s::bigint[], %(content_types)s::text[],
        %(hashes)s::bytea[]
    ) WITH ORDINALITY AS given (plain, raw, bytes, type, sha256, place)
    WHERE given.sha256 IS NOT NULL
    ORDER BY given.sha256, given.place
    ON CONFLICT ON CONSTRAINT agent_memory_contents_sha256_unique DO UPDATE SET content_bytes = known.content_bytes
    RETURNING id, content_bytes, content_sha256
), stored AS (
    INSERT INTO memory_context.agent_memories (
        user_id, memory_key, agent_id, session_id, memory_type, source, origin, summary, model_summary, tags, related_to,
        content_metadata, token_count, is_private, shared_with, is_active, created_at, updated_at, last_used_at,
        valid_from, valid_until, superseded_by, content_id, content_bytes
    )
    SELECT
        %(user_id)s, one.memory_key, one.agent_id, one.session_id, one.memory_type, one.source, one.origin, one.summary,
        one.model_summary, one.tags, one.related_to, one.content_metadata, one.token_count, one.is_private,
        coalesce(one.shared_with, '{}'), one.is_active, one.created_at, one.updated_at, one.last_used_at,
        one.valid_from, one.valid_until, one.superseded_by, contents.id, coalesce(contents.content_bytes, 0)
    FROM ROWS FROM (
        jsonb_populate_recordset(NULL::memory_context.agent_memories, %(records)s::jsonb), unnest(%(hashes)s::bytea[])
    ) WITH ORDINALITY AS one
    LEFT JOIN contents ON contents.content_sha256 = one.unnest
    ORDER BY one.ordinality
    ON CONFLICT DO NOTHING
    RETURNING id, is_active, content_bytes
), jobs AS (
    INSERT INTO memory_context.jobs (user_id, kind, id, payload)
    SELECT %(user_id)s, 'index', id, jsonb_build_object('bytes', content_bytes) FROM stored WHERE is_active
)
SELECT count(*) AS stored FROM stored;

-- name: delete_unused_contents :exec
-- Contents whose items were not stored after all, since they were known, or are forgotten here.
DELETE FROM memory_context.agent_memory_contents AS content
WHERE content.user_id = %(user_id)s
    AND content.content_sha256 = ANY(%(hashes)s::bytea[])
    AND NOT EXISTS (
        SELECT FROM memory_context.agent_memories AS item
        WHERE item.user_id = %(user_id)s AND item.content_id = content.id
    );

-- name: insert_transferred_sessions :one
-- Sessions, still without messages. One below a session that was deleted here is deleted, too.
WITH stored AS (
    INSERT INTO memory_context.agent_sessions (
        user_id, session_id, agent_id, title, summary, created_at, last_activity_at, deleted_at
    )
    SELECT
        %(user_id)s, one.session_id, one.agent_id, one.title, one.summary, one.created_at, one.last_activity_at,
        coalesce(one.deleted_at, (
            SELECT max(above.deleted_at) FROM memory_context.agent_sessions AS above
            WHERE above.user_id = %(user_id)s AND above.session_id = ANY(ARRAY(
                SELECT array_to_string(parts[1:length], '/')
                FROM string_to_array(one.session_id, '/') AS parts, generate_series(1, cardinality(parts)) AS length
            ))
        ))
    FROM jsonb_populate_recordset(NULL::memory_context.agent_sessions, %(records)s::jsonb) AS one
    ON CONFLICT DO NOTHING
    RETURNING session_id
)
SELECT count(*) AS stored FROM stored;

-- name: insert_transferred_notes_versions :one
-- Former texts of notes that are there, unless these are other notes than those the texts were of.
WITH stored AS (
    INSERT INTO memory_context.agent_long_term_memory_versions (
        user_id, agent_id, version, notes, repeats, operation, written_at, begun_at
    )
    SELECT
        %(user_id)s, one.agent_id, one.version, one.notes, one.repeats, one.operation, one.written_at, one.begun_at
    FROM jsonb_populate_recordset(NULL::memory_context.agent_long_term_memory_versions, %(records)s::jsonb) AS one
    JOIN memory_context.agent_long_term_memory AS there
        ON there.user_id = %(user_id)s
        AND there.agent_id = one.agent_id
        AND there.created_at = one.begun_at
        AND there.version > one.version
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT count(*) AS stored FROM stored;

-- name: lock_batch_sessions :exec
-- Wait for whoever is archiving in the sessions of some batches: everybody holds the session first.
SELECT FROM memory_context.agent_sessions
WHERE user_id = %(user_id)s AND session_id IN (
    SELECT given.session_id FROM jsonb_to_recordset(%(records)s::jsonb) AS given (session_id text)
)
ORDER BY session_id
FOR UPDATE;

-- name: insert_conversation_jobs :exec
-- Files of earlier versions have no messages as items: they are made from the batches. Those of sub-agents may have been private.
INSERT INTO memory_context.jobs (user_id, kind, payload)
SELECT %(user_id)s, 'conversation', jsonb_build_object(
    'session', batch.session_id, 'agent', batch.agent_id, 'branch', batch.branch, 'sequence', batch.sequence,
    'is_private', position('/' IN batch.session_id) > 0, 'origin', 'import'
)
FROM jsonb_to_recordset(%(records)s::jsonb)
    AS given (session_id text, agent_id text, branch text, sequence integer, kind text)
JOIN memory_context.recent_conversation_history AS batch
    ON batch.user_id = %(user_id)s
    AND batch.session_id = given.session_id
    AND batch.kind = 'transcript'
    AND batch.agent_id = given.agent_id
    AND batch.branch = given.branch
    AND batch.sequence = given.sequence
WHERE given.kind = 'transcript'
    AND NOT EXISTS (
        SELECT FROM memory_context.agent_memories AS item
        WHERE item.user_id = %(user_id)s
            AND item.session_id = batch.session_id
            AND item.agent_id = batch.agent_id
            AND item.memory_type = 'conversation'
            AND item.created_at BETWEEN batch.start_timestamp AND batch.end_timestamp
    )
ORDER BY batch.session_id, batch.agent_id, batch.branch, batch.sequence;

-- name: update_session_counts :exec
-- The sessions of some batches count what was said in them.
UPDATE memory_context.agent_sessions AS session
SET message_count = said.messages,
    chat_count = said.chats,
    last_activity_at = greatest(session.last_activity_at, said.archived_at)
FROM (
    SELECT
        session_id,
        coalesce(sum(message_count) FILTER (WHERE kind = 'transcript'), 0) AS messages,
        coalesce(sum(message_count) FILTER (WHERE kind = 'client'), 0) AS chats,
        max(archived_at) AS archived_at
    FROM memory_context.recent_conversation_history
    WHERE user_id = %(user_id)s AND session_id IN (
        SELECT given.session_id FROM jsonb_to_recordset(%(records)s::jsonb) AS given (session_id text)
    )
    GROUP BY session_id
) AS said
WHERE session.user_id = %(user_id)s
    AND session.session_id = said.session_id
    AND (session.message_count, session.chat_count) <> (said.messages, said.chats);
