-- Everything of a user that is not derived, as the lines of a file, and back. Each block runs in a transaction that began
-- with act_as. A page ends where its rows have enough bytes; each row tells its place (after_…), from which the next page
-- goes on. Whether a session is asked for: its own rows and those of its sub-agents (`<session>/...`).

-- name: set_transfer_scope :exec
-- Times of a file are in UTC. Whoever takes its pages may be slow: a pipe that is full, a person who reads.
SELECT set_config('TimeZone', 'UTC', true), set_config('idle_in_transaction_session_timeout', '0', true);

-- name: fetch_transfer_counts :one
-- How many rows of a user there are to export.
SELECT
    (
        SELECT count(*) FROM memory_context.agent_memories
        WHERE user_id = %(user_id)s AND NOT (is_active AND memory_type = 'user_secret')
    )
    + (SELECT count(*) FROM memory_context.agent_sessions WHERE user_id = %(user_id)s)
    + (SELECT count(*) FROM memory_context.recent_conversation_history WHERE user_id = %(user_id)s)
    + (SELECT count(*) FROM memory_context.agent_memory_events WHERE user_id = %(user_id)s)
    + (SELECT count(*) FROM memory_context.ui_users WHERE user_id = %(user_id)s)
    + (SELECT count(*) FROM memory_context.ui_threads WHERE user_id = %(user_id)s)
    + (SELECT count(*) FROM memory_context.ui_steps WHERE user_id = %(user_id)s)
    + (SELECT count(*) FROM memory_context.ui_elements WHERE user_id = %(user_id)s) AS records;

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
            OR session_id = %(session_id)s
            OR (session_id >= %(session_id)s || '/' AND session_id < %(session_id)s || '0')
            OR memory_key IN (
                SELECT unnest(memory_keys) FROM memory_context.recent_conversation_history
                WHERE user_id = %(user_id)s
                    AND {in_session(session_id)}
            )
        )
    ORDER BY id
    LIMIT %(limit)s
), sized AS (
    SELECT id, sum(content_bytes) OVER (ORDER BY id) - content_bytes AS bytes_before FROM page
)
SELECT
    item.id AS after_memory_id, content.content, content.content_raw, item.is_active,
    (
        SELECT row_to_json(picked) FROM (
            SELECT
                item.memory_key, item.agent_id, item.session_id, item.memory_type, item.source, item.summary,
                item.model_summary, item.tags, item.related_to, item.content_metadata, item.token_count, item.is_private,
                item.origin, item.shared_with, item.is_active, item.created_at, item.updated_at, item.last_used_at,
                encode(content.content_sha256, 'hex') AS content_sha256
        ) AS picked
    )::text AS record
FROM sized
JOIN memory_context.agent_memories AS item ON item.user_id = %(user_id)s AND item.id = sized.id
LEFT JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.id = item.content_id
WHERE sized.bytes_before < %(bytes_limit)s
ORDER BY item.id;

-- name: select_session_page :many
-- Sessions, tombstones included. How many messages each has its batches say.
SELECT
    session.session_id AS after_session_id,
    (
        SELECT row_to_json(picked) FROM (
            SELECT
                session.session_id, session.agent_id, session.title, session.summary, session.created_at,
                session.last_activity_at, session.deleted_at
        ) AS picked
    )::text AS record
FROM memory_context.agent_sessions AS session
WHERE session.user_id = %(user_id)s
    AND session.session_id > %(after_session_id)s
    AND (%(session_id)s::text IS NULL OR {in_session(session.session_id)})
ORDER BY session.session_id
LIMIT %(limit)s;

-- name: select_batch_page :many
-- What was said in sessions, both kinds. By the size as stored, compressed: to measure its text, all of a page would be
-- unpacked for each of its rows.
WITH page AS (
    SELECT session_id, kind, agent_id, branch, sequence, pg_column_size(message_batch) AS bytes
    FROM memory_context.recent_conversation_history AS batch
    WHERE user_id = %(user_id)s
        AND NOT EXISTS (
            SELECT FROM memory_context.agent_sessions AS session
            WHERE session.user_id = %(user_id)s
                AND session.session_id = batch.session_id
                AND session.deleted_at IS NOT NULL
        )
        AND (session_id, kind, agent_id, branch, sequence)
            > (%(after_session_id)s, %(after_kind)s, %(after_agent_id)s, %(after_branch)s, %(after_sequence)s)
        AND (%(session_id)s::text IS NULL OR {in_session(session_id)})
    ORDER BY session_id, kind, agent_id, branch, sequence
    LIMIT %(limit)s
), sized AS (
    SELECT
        session_id, kind, agent_id, branch, sequence,
        sum(bytes) OVER (ORDER BY session_id, kind, agent_id, branch, sequence) - bytes AS bytes_before
    FROM page
)
SELECT
    batch.session_id AS after_session_id, batch.kind AS after_kind, batch.agent_id AS after_agent_id,
    batch.branch AS after_branch, batch.sequence AS after_sequence,
    (
        SELECT row_to_json(picked) FROM (
            SELECT
                batch.session_id, batch.kind, batch.agent_id, batch.branch, batch.sequence, batch.begins_anew,
                batch.message_count, batch.memory_keys, batch.message_ids, batch.start_timestamp, batch.end_timestamp,
                batch.archived_at, encode(batch.batch_sha256, 'hex') AS batch_sha256, batch.message_batch
        ) AS picked
    )::text AS record
FROM sized
JOIN memory_context.recent_conversation_history AS batch
    ON batch.user_id = %(user_id)s
    AND batch.session_id = sized.session_id
    AND batch.kind = sized.kind
    AND batch.agent_id = sized.agent_id
    AND batch.branch = sized.branch
    AND batch.sequence = sized.sequence
WHERE sized.bytes_before < %(packed_bytes_limit)s
ORDER BY batch.session_id, batch.kind, batch.agent_id, batch.branch, batch.sequence;

-- name: select_event_page :many
-- What happened to items, by id: their time is in them.
SELECT
    event.id::text AS after_event_id,
    (
        SELECT row_to_json(picked) FROM (
            SELECT
                event.id, event.agent_id, event.session_id, event.is_private, event.kind, event.memory_keys, event.detail,
                event.created_at
        ) AS picked
    )::text AS record
FROM memory_context.agent_memory_events AS event
WHERE event.user_id = %(user_id)s
    AND event.id > %(after_event_id)s::uuid
    AND (%(session_id)s::text IS NULL OR {in_session(event.session_id)})
ORDER BY event.id
LIMIT %(limit)s;

-- name: select_ui_user_page :many
-- What a user interface keeps of the user; with one session it stays behind.
SELECT
    ui.user_id AS after_ui_user,
    (SELECT row_to_json(picked) FROM (SELECT ui.metadata, ui.created_at) AS picked)::text AS record
FROM memory_context.ui_users AS ui
WHERE ui.user_id = %(user_id)s AND ui.user_id > %(after_ui_user)s AND %(session_id)s::text IS NULL;

-- name: select_thread_page :many
-- Threads, tombstones included.
SELECT
    thread.thread_id AS after_thread_id,
    (
        SELECT row_to_json(picked) FROM (
            SELECT
                thread.thread_id, thread.name, thread.tags, thread.metadata, thread.created_at, thread.last_activity_at,
                thread.deleted_at
        ) AS picked
    )::text AS record
FROM memory_context.ui_threads AS thread
WHERE thread.user_id = %(user_id)s
    AND thread.thread_id > %(after_thread_id)s
    AND (%(session_id)s::text IS NULL OR thread.thread_id = %(session_id)s)
ORDER BY thread.thread_id
LIMIT %(limit)s;

-- name: select_step_page :many
-- What was shown in threads, in its order.
WITH page AS (
    SELECT
        step_id, thread_id, created_at, position,
        pg_column_size(fields) + coalesce(octet_length(input), 0) + coalesce(octet_length(output), 0) AS bytes
    FROM memory_context.ui_steps AS shown
    WHERE user_id = %(user_id)s
        AND NOT EXISTS (
            SELECT FROM memory_context.ui_threads AS thread
            WHERE thread.user_id = %(user_id)s
                AND thread.thread_id = shown.thread_id
                AND thread.deleted_at IS NOT NULL
        )
        AND (thread_id, created_at, position)
            > (%(after_thread_id)s, %(after_created_at)s::timestamptz, %(after_position)s)
        AND (%(session_id)s::text IS NULL OR thread_id = %(session_id)s)
    ORDER BY thread_id, created_at, position
    LIMIT %(limit)s
), sized AS (
    SELECT step_id, sum(bytes) OVER (ORDER BY thread_id, created_at, position) - bytes AS bytes_before FROM page
)
SELECT
    step.thread_id AS after_thread_id, step.created_at::text AS after_created_at, step.position AS after_position,
    (
        SELECT row_to_json(picked) FROM (
            SELECT
                step.step_id, step.thread_id, step.created_at, step.is_updated, step.feedback_id, step.feedback_value,
                step.feedback_comment, step.fields, step.input, step.output
        ) AS picked
    )::text AS record
FROM sized JOIN memory_context.ui_steps AS step ON step.user_id = %(user_id)s AND step.step_id = sized.step_id
WHERE sized.bytes_before < %(bytes_limit)s
ORDER BY step.thread_id, step.created_at, step.position;

-- name: select_element_page :many
-- What was shown beside steps, in its order.
WITH page AS (
    SELECT element_id, thread_id, position, pg_column_size(fields) + coalesce(octet_length(content), 0) AS bytes
    FROM memory_context.ui_elements AS shown
    WHERE user_id = %(user_id)s
        AND NOT EXISTS (
            SELECT FROM memory_context.ui_threads AS thread
            WHERE thread.user_id = %(user_id)s
                AND thread.thread_id = shown.thread_id
                AND thread.deleted_at IS NOT NULL
        )
        AND (thread_id, position) > (%(after_thread_id)s, %(after_position)s)
        AND (%(session_id)s::text IS NULL OR thread_id = %(session_id)s)
    ORDER BY thread_id, position
    LIMIT %(limit)s
), sized AS (
    SELECT element_id, sum(bytes) OVER (ORDER BY thread_id, position) - bytes AS bytes_before FROM page
)
SELECT
    element.thread_id AS after_thread_id, element.position AS after_position,
    (
        SELECT row_to_json(picked) FROM (
            SELECT
                element.element_id, element.thread_id, element.step_id, element.fields,
                encode(element.content, 'base64') AS content
        ) AS picked
    )::text AS record
FROM sized
JOIN memory_context.ui_elements AS element
    ON element.user_id = %(user_id)s AND element.element_id = sized.element_id
WHERE sized.bytes_before < %(bytes_limit)s
ORDER BY element.thread_id, element.position;

-- name: compare_items :many
-- What of some items stands in the way of storing them: the key is known (the same item), kept (one of the two was
-- forgotten) or taken by another item; or the same content stands in the same place under another key.
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%(records)s::jsonb) AS given (
        place bigint, memory_key text, agent_id text, session_id text, memory_type text, source text, origin text,
        content_sha256 text, is_active boolean
    )
)
SELECT
    given.place,
    CASE
        WHEN there.is_active <> given.is_active THEN 'kept'
        WHEN NOT there.is_active THEN 'known'
        WHEN content.content_sha256 = decode(given.content_sha256, 'hex')
            AND there.agent_id = given.agent_id
            AND there.session_id = given.session_id
            AND there.memory_type = given.memory_type
            AND there.source = given.source
        THEN 'known'
        ELSE 'taken'
    END AS outcome,
    '' AS other_key
FROM given
JOIN memory_context.agent_memories AS there
    ON there.user_id = %(user_id)s AND there.memory_key = given.memory_key
LEFT JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.id = there.content_id
UNION ALL
SELECT given.place, 'elsewhere', there.memory_key
FROM given
JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.content_sha256 = decode(given.content_sha256, 'hex')
JOIN memory_context.agent_memories AS there
    ON there.user_id = %(user_id)s
    AND there.agent_id = given.agent_id
    AND there.session_id = given.session_id
    AND there.memory_type = given.memory_type
    AND there.source = given.source
    AND there.origin = given.origin
    AND there.content_id = content.id
    AND there.memory_key <> given.memory_key
    AND given.is_active;

-- name: compare_sessions :many
-- Which of some sessions are known; kept, those that one side has deleted.
SELECT
    given.place,
    CASE WHEN (there.deleted_at IS NULL) = (given.deleted_at IS NULL) THEN 'known' ELSE 'kept' END AS outcome
FROM jsonb_to_recordset(%(records)s::jsonb) AS given (place bigint, session_id text, deleted_at timestamptz)
JOIN memory_context.agent_sessions AS there ON there.user_id = %(user_id)s AND there.session_id = given.session_id;

-- name: compare_batches :many
-- Which of some batches are known, and whose number is taken by another; kept, if the session was deleted here.
WITH given AS (
    SELECT * FROM jsonb_to_recordset(%(records)s::jsonb) AS given (
        place bigint, session_id text, kind text, agent_id text, branch text, sequence integer, batch_sha256 text,
        message_ids text[]
    )
)
SELECT
    given.place,
    CASE
        WHEN there.batch_sha256 IS NOT DISTINCT FROM decode(given.batch_sha256, 'hex')
            AND there.message_ids = given.message_ids
        THEN 'known'
        ELSE 'taken'
    END AS outcome
FROM given
JOIN memory_context.recent_conversation_history AS there
    ON there.user_id = %(user_id)s
    AND there.session_id = given.session_id
    AND there.kind = given.kind
    AND there.agent_id = given.agent_id
    AND there.branch = given.branch
    AND there.sequence = given.sequence
UNION ALL
SELECT given.place, 'kept'
FROM given
JOIN memory_context.agent_sessions AS session
    ON session.user_id = %(user_id)s AND session.session_id = given.session_id AND session.deleted_at IS NOT NULL;

-- name: compare_events :many
-- Which of some events are known.
SELECT given.place, 'known' AS outcome
FROM jsonb_to_recordset(%(records)s::jsonb) AS given (place bigint, id uuid)
JOIN memory_context.agent_memory_events AS there ON there.user_id = %(user_id)s AND there.id = given.id;

-- name: compare_ui_users :many
-- Whether a user interface keeps something of the user already.
SELECT given.place, 'known' AS outcome
FROM jsonb_to_recordset(%(records)s::jsonb) AS given (place bigint)
JOIN memory_context.ui_users AS there ON there.user_id = %(user_id)s;

-- name: compare_threads :many
-- Which of some threads are known; kept, those that one side has deleted, or that another user has.
SELECT
    given.place,
    CASE
        WHEN there.user_id IS NULL OR (there.deleted_at IS NULL) <> (given.deleted_at IS NULL) THEN 'kept'
        ELSE 'known'
    END AS outcome
FROM jsonb_to_recordset(%(records)s::jsonb) AS given (place bigint, thread_id text, deleted_at timestamptz)
LEFT JOIN memory_context.ui_threads AS there
    ON there.user_id = %(user_id)s AND there.thread_id = given.thread_id
WHERE there.user_id IS NOT NULL OR memory_context.ui_thread_owner(given.thread_id) IS NOT NULL;

-- name: compare_steps :many
-- Which of some steps are known; kept, if their thread was deleted here, or another user has it.
SELECT given.place, CASE WHEN there.step_id IS NULL THEN 'kept' ELSE 'known' END AS outcome
FROM jsonb_to_recordset(%(records)s::jsonb) AS given (place bigint, step_id text, thread_id text)
LEFT JOIN memory_context.ui_steps AS there ON there.user_id = %(user_id)s AND there.step_id = given.step_id
LEFT JOIN memory_context.ui_threads AS thread
    ON thread.user_id = %(user_id)s AND thread.thread_id = given.thread_id
WHERE there.step_id IS NOT NULL
    OR thread.deleted_at IS NOT NULL
    OR memory_context.ui_thread_owner(given.thread_id) <> %(user_id)s;

-- name: compare_elements :many
-- Which of some elements are known; kept, if their thread was deleted here, or another user has it.
SELECT given.place, CASE WHEN there.element_id IS NULL THEN 'kept' ELSE 'known' END AS outcome
FROM jsonb_to_recordset(%(records)s::jsonb) AS given (place bigint, element_id text, thread_id text)
LEFT JOIN memory_context.ui_elements AS there
    ON there.user_id = %(user_id)s AND there.element_id = given.element_id
LEFT JOIN memory_context.ui_threads AS thread
    ON thread.user_id = %(user_id)s AND thread.thread_id = given.thread_id
WHERE there.element_id IS NOT NULL
    OR thread.deleted_at IS NOT NULL
    OR memory_context.ui_thread_owner(given.thread_id) <> %(user_id)s;

-- name: insert_transferred_contents :exec
-- Contents of items that are to be stored. What is there already is locked by writing the same again, so that nobody takes
-- it away before the items come.
INSERT INTO memory_context.agent_memory_contents AS known (
    user_id, content, content_raw, content_bytes, content_sha256, beginning_sha256
)
SELECT DISTINCT ON (given.content_sha256)
    %(user_id)s, content.plain, content.raw, content.bytes, decode(given.content_sha256, 'hex'),
    memory_context.beginning_sha256(content.plain, content.raw)
FROM jsonb_to_recordset(%(records)s::jsonb) AS given (place bigint, content_sha256 text)
JOIN unnest(%(contents)s::text[], %(contents_raw)s::bytea[], %(sizes)s::bigint[])
    WITH ORDINALITY AS content (plain, raw, bytes, place) ON content.place = given.place
WHERE given.content_sha256 IS NOT NULL
ORDER BY given.content_sha256, given.place
ON CONFLICT ON CONSTRAINT agent_memory_contents_sha256_unique DO UPDATE SET content_bytes = known.content_bytes;

-- name: insert_transferred_items :one
-- Store items as they were, in their order, each with the job to index it.
WITH stored AS (
    INSERT INTO memory_context.agent_memories (
        user_id, memory_key, agent_id, session_id, memory_type, source, origin, summary, model_summary, tags, related_to,
        content_metadata, token_count, is_private, shared_with, is_active, created_at, updated_at, last_used_at,
        content_id, content_bytes
    )
    SELECT
        %(user_id)s, given.memory_key, given.agent_id, given.session_id, given.memory_type, given.source, given.origin,
        given.summary, given.model_summary, given.tags, given.related_to, given.content_metadata, given.token_count,
        given.is_private, coalesce(given.shared_with, '{}'), given.is_active, given.created_at, given.updated_at,
        given.last_used_at, content.id, coalesce(content.content_bytes, 0)
    FROM jsonb_to_recordset(%(records)s::jsonb) AS given (
        place bigint, memory_key text, agent_id text, session_id text, memory_type text, source text, origin text,
        summary text, model_summary text, tags text[], related_to text[], content_metadata jsonb, token_count bigint,
        is_private boolean, shared_with text[], is_active boolean, created_at timestamptz, updated_at timestamptz,
        last_used_at timestamptz, content_sha256 text
    )
    LEFT JOIN memory_context.agent_memory_contents AS content
        ON content.user_id = %(user_id)s AND content.content_sha256 = decode(given.content_sha256, 'hex')
    ORDER BY given.place
    ON CONFLICT DO NOTHING
    RETURNING id, is_active
), jobs AS (
    INSERT INTO memory_context.index_jobs (user_id, memory_id) SELECT %(user_id)s, id FROM stored WHERE is_active
)
SELECT count(*) AS stored FROM stored;

-- name: delete_unused_contents :exec
-- Contents whose items were not stored after all, since they were known, or are forgotten here.
DELETE FROM memory_context.agent_memory_contents AS content
WHERE content.user_id = %(user_id)s
    AND content.content_sha256 IN (
        SELECT decode(given.content_sha256, 'hex')
        FROM jsonb_to_recordset(%(records)s::jsonb) AS given (content_sha256 text)
    )
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
        %(user_id)s, given.session_id, given.agent_id, given.title, given.summary, given.created_at,
        given.last_activity_at,
        coalesce(given.deleted_at, (
            SELECT max(above.deleted_at) FROM memory_context.agent_sessions AS above
            WHERE above.user_id = %(user_id)s AND above.session_id = ANY(ARRAY(
                SELECT array_to_string(parts[1:length], '/')
                FROM string_to_array(given.session_id, '/') AS parts, generate_series(1, cardinality(parts)) AS length
            ))
        ))
    FROM jsonb_to_recordset(%(records)s::jsonb) AS given (
        session_id text, agent_id text, title text, summary text, created_at timestamptz, last_activity_at timestamptz,
        deleted_at timestamptz
    )
    ON CONFLICT DO NOTHING
    RETURNING session_id
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

-- name: insert_transferred_batches :one
-- What was said, into sessions that are there and not deleted; they count it.
WITH stored AS (
    INSERT INTO memory_context.recent_conversation_history (
        user_id, session_id, kind, agent_id, branch, sequence, message_batch, batch_sha256, message_count, begins_anew,
        memory_keys, message_ids, start_timestamp, end_timestamp, archived_at
    )
    SELECT
        %(user_id)s, given.session_id, given.kind, given.agent_id, given.branch, given.sequence, given.message_batch,
        decode(given.batch_sha256, 'hex'), given.message_count, given.begins_anew, given.memory_keys, given.message_ids,
        given.start_timestamp, given.end_timestamp, given.archived_at
    FROM jsonb_to_recordset(%(records)s::jsonb) AS given (
        session_id text, kind text, agent_id text, branch text, sequence integer, message_batch jsonb, batch_sha256 text,
        message_count integer, begins_anew boolean, memory_keys text[], message_ids text[], start_timestamp timestamptz,
        end_timestamp timestamptz, archived_at timestamptz
    )
    JOIN memory_context.agent_sessions AS session
        ON session.user_id = %(user_id)s AND session.session_id = given.session_id AND session.deleted_at IS NULL
    ON CONFLICT DO NOTHING
    RETURNING session_id, kind, message_count, archived_at
), summed AS (
    SELECT
        session_id,
        coalesce(sum(message_count) FILTER (WHERE kind = 'transcript'), 0) AS messages,
        coalesce(sum(message_count) FILTER (WHERE kind = 'client'), 0) AS chats,
        max(archived_at) AS archived_at
    FROM stored GROUP BY session_id
), counted AS (
    UPDATE memory_context.agent_sessions AS session
    SET message_count = session.message_count + summed.messages,
        chat_count = session.chat_count + summed.chats,
        last_activity_at = greatest(session.last_activity_at, summed.archived_at)
    FROM summed
    WHERE session.user_id = %(user_id)s AND session.session_id = summed.session_id
)
SELECT count(*) AS stored FROM stored;

-- name: insert_transferred_events :one
-- What happened to items, as it was.
WITH stored AS (
    INSERT INTO memory_context.agent_memory_events (
        user_id, id, agent_id, session_id, is_private, kind, memory_keys, detail, created_at
    )
    SELECT
        %(user_id)s, given.id, given.agent_id, given.session_id, given.is_private, given.kind, given.memory_keys,
        given.detail, given.created_at
    FROM jsonb_to_recordset(%(records)s::jsonb) AS given (
        id uuid, agent_id text, session_id text, is_private boolean, kind text, memory_keys text[], detail text,
        created_at timestamptz
    )
    ON CONFLICT DO NOTHING
    RETURNING id
)
SELECT count(*) AS stored FROM stored;

-- name: insert_transferred_ui_users :one
-- What a user interface kept of the user.
WITH stored AS (
    INSERT INTO memory_context.ui_users (user_id, metadata, created_at)
    SELECT %(user_id)s, given.metadata, given.created_at
    FROM jsonb_to_recordset(%(records)s::jsonb) AS given (metadata jsonb, created_at timestamptz)
    ON CONFLICT DO NOTHING
    RETURNING user_id
)
SELECT count(*) AS stored FROM stored;

-- name: insert_transferred_threads :one
-- Threads, but those that another user has.
WITH stored AS (
    INSERT INTO memory_context.ui_threads (
        user_id, thread_id, name, tags, metadata, created_at, last_activity_at, deleted_at
    )
    SELECT
        %(user_id)s, given.thread_id, given.name, given.tags, given.metadata, given.created_at, given.last_activity_at,
        given.deleted_at
    FROM jsonb_to_recordset(%(records)s::jsonb) AS given (
        thread_id text, name text, tags text[], metadata jsonb, created_at timestamptz, last_activity_at timestamptz,
        deleted_at timestamptz
    )
    ON CONFLICT DO NOTHING
    RETURNING thread_id
)
SELECT count(*) AS stored FROM stored;

-- name: insert_transferred_steps :one
-- What was shown, in its order, in threads that are the user's and not deleted.
WITH stored AS (
    INSERT INTO memory_context.ui_steps (
        user_id, step_id, thread_id, created_at, is_updated, feedback_id, feedback_value, feedback_comment, fields, input,
        output
    )
    SELECT
        %(user_id)s, given.step_id, given.thread_id, given.created_at, given.is_updated, given.feedback_id,
        given.feedback_value, given.feedback_comment, given.fields, given.input, given.output
    FROM jsonb_array_elements(%(records)s::jsonb) WITH ORDINALITY AS line (fields, place)
    CROSS JOIN jsonb_to_record(line.fields) AS given (
        step_id text, thread_id text, created_at timestamptz, is_updated boolean, feedback_id text,
        feedback_value smallint, feedback_comment text, fields jsonb, input text, output text
    )
    JOIN memory_context.ui_threads AS thread
        ON thread.user_id = %(user_id)s AND thread.thread_id = given.thread_id AND thread.deleted_at IS NULL
    ORDER BY line.place
    ON CONFLICT DO NOTHING
    RETURNING step_id
)
SELECT count(*) AS stored FROM stored;

-- name: insert_transferred_elements :one
-- What was shown beside steps, in its order, in threads that are the user's and not deleted.
WITH stored AS (
    INSERT INTO memory_context.ui_elements (user_id, element_id, thread_id, step_id, fields, content)
    SELECT
        %(user_id)s, given.element_id, given.thread_id, given.step_id, given.fields, decode(given.content, 'base64')
    FROM jsonb_array_elements(%(records)s::jsonb) WITH ORDINALITY AS line (fields, place)
    CROSS JOIN jsonb_to_record(line.fields) AS given (
        element_id text, thread_id text, step_id text, fields jsonb, content text
    )
    JOIN memory_context.ui_threads AS thread
        ON thread.user_id = %(user_id)s AND thread.thread_id = given.thread_id AND thread.deleted_at IS NULL
    ORDER BY line.place
    ON CONFLICT DO NOTHING
    RETURNING element_id
)
SELECT count(*) AS stored FROM stored;

-- name: upsert_transferred_user :exec
-- Put the user on the list of users, and wait for whoever is erasing the user.
INSERT INTO memory_context.memory_users AS known (user_id) VALUES (%(user_id)s)
ON CONFLICT ON CONSTRAINT memory_users_pkey DO UPDATE SET has_set_aside = known.has_set_aside WHERE false;

-- name: fetch_export_signature :one
-- The signature by this installation of a file of this user, of which this is the SHA-256.
SELECT memory_context.sign_export(%(user_id)s, %(file_sha256)s) AS signature;
