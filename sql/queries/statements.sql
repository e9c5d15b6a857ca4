-- User memory: statements of one line. Each block runs in a transaction that began with act_as, and names the user again.

-- name: select_statements :many
-- Statements that the reader may read, the newest first: those that hold now or held at a time, or superseded ones, too.
-- Long contents are cut, since a statement is one line.
SELECT
    {item_columns(item)}, left(content.content, 2000) AS content,
    CASE WHEN item.content_bytes <= 4000 THEN content.content_raw END AS content_raw
FROM memory_context.agent_memories AS item
JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.id = item.content_id
WHERE item.user_id = %(user_id)s
    AND {is_statement(item)}
    AND {may_read(item)}
    AND (item.valid_until IS NULL OR %(with_superseded)s OR item.valid_until > %(as_of)s::timestamptz)
    AND (%(as_of)s::timestamptz IS NULL OR {holds_since(item)} <= %(as_of)s::timestamptz)
ORDER BY {holds_since(item)} DESC, item.id DESC
LIMIT %(limit)s;

-- name: select_claims :many
-- Items of the same types that somebody else stored: a model, a tool, a file. They wait for the user's confirmation.
SELECT
    {item_columns(item)}, left(content.content, 2000) AS content,
    CASE WHEN item.content_bytes <= 4000 THEN content.content_raw END AS content_raw
FROM memory_context.agent_memories AS item
JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.id = item.content_id
WHERE item.user_id = %(user_id)s
    AND item.is_active
    AND item.memory_type IN ('user_preference', 'user_fact')
    AND item.origin NOT IN ('user_words', 'user_edit', 'application')
    AND item.valid_until IS NULL
    AND {may_read(item)}
ORDER BY item.id DESC
LIMIT %(limit)s;

-- name: lock_statements :exec
-- One writer of a user's statements at a time, before any row is locked: else two about one subject would both hold.
SELECT pg_advisory_xact_lock(hashtextextended('statements of ' || %(user_id)s, 0));

-- name: insert_statement :one
-- Store a statement, unless the same holds already ("next week" said again is another week), and the job to index it. One
-- that arrives late is superseded at once by the next about its subject.
WITH content AS (
    SELECT id FROM memory_context.agent_memory_contents
    WHERE user_id = %(user_id)s AND content_sha256 = %(content_sha256)b
), same AS (
    SELECT item.memory_key FROM memory_context.agent_memories AS item
    WHERE item.user_id = %(user_id)s
        AND NOT %(is_repeatable)s
        AND {is_statement(item)}
        AND item.content_id = (SELECT id FROM content)
        AND NOT item.is_private
        AND (
            item.valid_until IS NULL
            OR ({holds_since(item)} <= %(valid_from)s AND item.valid_until > %(valid_from)s)
        )
    LIMIT 1
), later AS (
    SELECT item.memory_key, {holds_since(item)} AS since FROM memory_context.agent_memories AS item
    WHERE item.user_id = %(user_id)s
        AND {is_statement(item)}
        AND NOT item.is_private
        AND item.content_metadata ->> 'subject' = %(subject)s
        AND {holds_since(item)} > %(valid_from)s
    ORDER BY since
    LIMIT 1
), stored AS (
    INSERT INTO memory_context.agent_memories (
        user_id, memory_key, agent_id, session_id, memory_type, source, origin, summary, content_id, content_bytes,
        token_count, tags, related_to, content_metadata, is_private, valid_from, valid_until, superseded_by
    )
    SELECT
        %(user_id)s, %(memory_key)s, '', '', %(memory_type)s, %(source)s, %(origin)s, %(summary)s, content.id,
        %(content_bytes)s, %(token_count)s, '{}', '{}', %(metadata)s, false, %(valid_from)s,
        (SELECT since FROM later), (SELECT memory_key FROM later)
    FROM content
    WHERE NOT EXISTS (SELECT FROM same)
    ON CONFLICT DO NOTHING
    RETURNING id, memory_key
), jobs AS (
    INSERT INTO memory_context.jobs (user_id, kind, id, payload)
    SELECT %(user_id)s, 'index', id, jsonb_build_object('bytes', %(content_bytes)s::bigint) FROM stored
)
SELECT
    coalesce((SELECT memory_key FROM stored), (SELECT memory_key FROM same), %(memory_key)s) AS memory_key,
    EXISTS (SELECT FROM stored) AS is_new;

-- name: update_statements_superseded :exec
-- A statement ends those about its subject that began before it, and those it names. A repetition changes nothing.
UPDATE memory_context.agent_memories AS item
SET valid_until = %(valid_from)s, superseded_by = %(memory_key)s, updated_at = now()
WHERE item.user_id = %(user_id)s
    AND item.is_active
    AND item.memory_type IN ('user_preference', 'user_fact')
    AND item.memory_key <> %(memory_key)s
    AND {holds_since(item)} <= %(valid_from)s
    AND (item.valid_until IS NULL OR item.valid_until > %(valid_from)s)
    AND (
        item.memory_key = ANY(%(supersedes)s::text[])
        OR ({is_statement(item)} AND NOT item.is_private AND item.content_metadata ->> 'subject' = %(subject)s)
    )
    AND EXISTS (
        SELECT FROM memory_context.agent_memories AS newer
        WHERE newer.user_id = %(user_id)s AND newer.memory_key = %(memory_key)s AND newer.is_active
            AND newer.valid_from = %(valid_from)s
    );

-- name: update_statement_confirmed :many
-- The user says that a statement is right: it is the user's from now on, and no agent's.
UPDATE memory_context.agent_memories AS item
SET origin = 'user_edit', agent_id = '', session_id = '', is_private = false, source = %(source)s,
    valid_from = %(valid_from)s, content_metadata = item.content_metadata || %(metadata)s, updated_at = now()
WHERE item.user_id = %(user_id)s
    AND item.memory_key = %(memory_key)s
    AND item.is_active
    AND item.memory_type IN ('user_preference', 'user_fact')
    AND item.valid_until IS NULL
RETURNING item.memory_key;

-- name: delete_unused_content :exec
-- The content of a statement that was not stored, since it holds already or was forgotten.
DELETE FROM memory_context.agent_memory_contents AS content
WHERE content.user_id = %(user_id)s
    AND content.content_sha256 = %(content_sha256)b
    AND NOT EXISTS (
        SELECT FROM memory_context.agent_memories AS item
        WHERE item.user_id = %(user_id)s AND item.content_id = content.id
    );

-- name: fetch_is_shown_before :one
-- Whether some words stood in an item or a file of the session before a message of the user. The pattern matches words with
-- anything between them; the second one stands for bytes, where only ASCII words are told apart.
SELECT EXISTS (
    SELECT FROM memory_context.agent_memories AS item
    JOIN memory_context.agent_memory_contents AS content
        ON content.user_id = %(user_id)s AND content.id = item.content_id
    WHERE item.user_id = %(user_id)s
        AND {in_session(item.session_id)}
        AND item.is_active
        AND item.origin IN ('tool', 'agent', 'import')
        AND item.memory_type <> 'conversation'
        AND CASE
            WHEN jsonb_typeof(item.content_metadata -> 'message') = 'number'
            THEN (item.content_metadata ->> 'message')::numeric <= %(position)s
            ELSE item.created_at < %(said_at)s
        END
        AND CASE
            WHEN content.content_type IS NOT NULL THEN false
            WHEN content.content IS NOT NULL THEN content.content ~* %(pattern)s
            ELSE encode(content.content_raw, 'escape') ~* %(bytes_pattern)s
        END
) OR EXISTS (
    SELECT FROM memory_context.ui_elements AS element
    WHERE element.user_id = %(user_id)s
        AND element.thread_id = %(session_id)s
        AND octet_length(element.content) <= 5000000
        AND encode(element.content, 'escape') ~* %(bytes_pattern)s
) AS is_shown;
