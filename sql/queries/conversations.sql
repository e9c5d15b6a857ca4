-- Sessions and what was said in them. Each block runs in a transaction that began with act_as, and names the user again.

-- name: touch_session :exec
-- Make a session or note its use, and hold its row; one that was deleted is refused.
-- So is a known one without a row, by a session id of NULL: its user was erased, and nothing of it is written again.
SELECT memory_context.touch_session(
    %(user_id)s,
    CASE WHEN NOT %(is_known)s OR EXISTS (
        SELECT FROM memory_context.agent_sessions WHERE user_id = %(user_id)s AND session_id = %(session_id)s
    ) THEN %(session_id)s END,
    %(agent_id)s, %(title)s, %(title_is_final)s, %(summary)s
);

-- name: append_batch :one
-- Archive a batch of a transcript; says whether it was stored, known, or met another under its number.
SELECT memory_context.append_batch(
    %(user_id)s, %(session_id)s, %(agent_id)s, %(branch)s, %(sequence)s, %(message_batch)s::jsonb, %(batch_sha256)b,
    %(message_count)s, %(begins_anew)s, %(memory_keys)s, %(message_ids)s, %(started_at)s, %(ended_at)s
) AS outcome;

-- name: append_chat :one
-- Archive chat messages that the session does not have yet; says which those were. The server's own answers take the place
-- of unverified ones with the same ids.
SELECT memory_context.append_chat(%(user_id)s, %(session_id)s, %(messages)s::jsonb) AS stored_ids;

-- name: fetch_head :one
-- The highest number of an agent's batches in a session.
SELECT coalesce(max(sequence), -1) AS head
FROM memory_context.recent_conversation_history
WHERE user_id = %(user_id)s
    AND session_id = %(session_id)s
    AND kind = 'transcript'
    AND agent_id = %(agent_id)s
    AND branch = %(branch)s;

-- name: select_forgotten_keys :many
-- Which of some items were forgotten; the keys stand in lines, since a session has thousands of them.
SELECT memory_key AS key FROM memory_context.agent_memories
WHERE user_id = %(user_id)s AND memory_key = ANY(string_to_array(%(memory_keys)s, E'\n')) AND NOT is_active;

-- name: select_batches :many
-- A line of an agent in a session, from the last batch that begins anew; without a branch, the line written last.
WITH line AS MATERIALIZED (
    SELECT session_id, agent_id, coalesce(%(branch)s::text, {last_line(wanted)}, '') AS branch
    FROM (SELECT %(session_id)s::text AS session_id, %(agent_id)s::text AS agent_id) AS wanted
)
SELECT
    line.branch, sequence, message_batch::text AS message_batch, batch_sha256, message_count, begins_anew, memory_keys,
    message_ids, start_timestamp, end_timestamp, archived_at
FROM line
JOIN memory_context.recent_conversation_history AS batch
    ON batch.user_id = %(user_id)s
    AND batch.session_id = line.session_id
    AND batch.kind = 'transcript'
    AND batch.agent_id = line.agent_id
    AND batch.branch = line.branch
    AND batch.sequence >= coalesce((
        SELECT max(sequence) FROM memory_context.recent_conversation_history
        WHERE user_id = %(user_id)s
            AND session_id = line.session_id
            AND kind = 'transcript'
            AND agent_id = line.agent_id
            AND branch = line.branch
            AND begins_anew
    ), 0)
ORDER BY sequence;

-- name: fetch_said_batch :one
-- A batch of a session that was not deleted, for what was said in it.
SELECT batch.message_batch::text AS message_batch, batch.batch_sha256
FROM memory_context.recent_conversation_history AS batch
WHERE batch.user_id = %(user_id)s
    AND batch.session_id = %(session_id)s
    AND batch.kind = 'transcript'
    AND batch.agent_id = %(agent_id)s
    AND batch.branch = %(branch)s
    AND batch.sequence = %(sequence)s
    AND {is_live_session()};

-- name: select_batch_items :many
-- The items of a batch whose contents are there.
SELECT item.memory_key, item.summary, item.token_count, item.content_bytes, content.content_sha256
FROM memory_context.recent_conversation_history AS batch
CROSS JOIN unnest(batch.memory_keys) AS named (memory_key)
JOIN memory_context.agent_memories AS item
    ON item.user_id = %(user_id)s AND item.memory_key = named.memory_key
JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.id = item.content_id
WHERE batch.user_id = %(user_id)s
    AND batch.session_id = %(session_id)s
    AND batch.kind = 'transcript'
    AND batch.agent_id = %(agent_id)s
    AND batch.branch = %(branch)s
    AND batch.sequence = %(sequence)s;

-- name: lock_live_session :exec
-- Who deletes the session waits until its messages are items, and then takes them too; who archives in it does not.
SELECT FROM memory_context.agent_sessions
WHERE user_id = %(user_id)s AND session_id = %(session_id)s
FOR KEY SHARE;

-- name: fetch_batch_sha256 :one
-- Whether a batch was rewritten since it was read.
SELECT batch_sha256 FROM memory_context.recent_conversation_history
WHERE user_id = %(user_id)s
    AND session_id = %(session_id)s
    AND kind = 'transcript'
    AND agent_id = %(agent_id)s
    AND branch = %(branch)s
    AND sequence = %(sequence)s;

-- name: upsert_said_contents :exec
-- Store texts of messages that are not there yet: nothing of a deleted session, or of a batch that was rewritten. They are
-- in the order in which all writers lock.
SELECT count(memory_context.store_content(
    %(user_id)s, decode(given.sha256, 'hex'), given.content, decode(given.raw, 'hex'), given.bytes
))
FROM (
    SELECT * FROM jsonb_to_recordset(%(contents)s::jsonb) AS one (sha256 text, content text, raw text, bytes bigint)
    ORDER BY sha256
) AS given
WHERE {is_as_read()};

-- name: insert_said :exec
-- Messages as items, with the jobs to index them; those that are known, or were forgotten, stay.
WITH stored AS (
    INSERT INTO memory_context.agent_memories (
        user_id, memory_key, agent_id, session_id, memory_type, source, origin, summary, content_id, content_bytes,
        token_count, tags, content_metadata, is_private, created_at
    )
    SELECT
        %(user_id)s, said.memory_key, %(agent_id)s, %(session_id)s, said.memory_type, said.source, said.origin, said.summary,
        content.id, content.content_bytes, said.token_count, '{}', said.metadata, said.is_private, said.said_at
    FROM jsonb_to_recordset(%(messages)s::jsonb) AS said (
        place integer, memory_key text, memory_type text, source text, origin text, summary text, sha256 text,
        token_count bigint, metadata jsonb, is_private boolean, said_at timestamptz
    )
    JOIN memory_context.agent_memory_contents AS content
        ON content.user_id = %(user_id)s AND content.content_sha256 = decode(said.sha256, 'hex')
    WHERE {is_as_read()}
    ORDER BY said.place
    ON CONFLICT DO NOTHING
    RETURNING id, content_bytes
)
INSERT INTO memory_context.jobs (user_id, kind, id, payload)
SELECT %(user_id)s, 'index', id, jsonb_build_object('bytes', content_bytes) FROM stored;

-- name: select_branches :many
-- The lines that an agent has in a session.
SELECT DISTINCT branch FROM memory_context.recent_conversation_history
WHERE user_id = %(user_id)s AND session_id = %(session_id)s AND kind = 'transcript' AND agent_id = %(agent_id)s
ORDER BY branch;

-- name: select_later_items :many
-- The items that an agent stored of a session's messages after its last batch, of any line: their messages are missing.
SELECT memory_key, content_metadata -> 'message' AS message
FROM memory_context.agent_memories
WHERE user_id = %(user_id)s
    AND session_id = %(session_id)s
    AND agent_id = %(agent_id)s
    AND is_active
    AND jsonb_typeof(content_metadata -> 'message') = 'number'
    AND {is_not_deleted()}
    AND created_at > coalesce((
        SELECT max(archived_at) FROM memory_context.recent_conversation_history
        WHERE user_id = %(user_id)s AND session_id = %(session_id)s AND kind = 'transcript' AND agent_id = %(agent_id)s
    ), '-infinity')
ORDER BY id
LIMIT 100;

-- name: fetch_session :one
-- What is known of a session that was not deleted.
SELECT session_id, agent_id, title, summary, message_count, chat_count, created_at, last_activity_at
FROM memory_context.agent_sessions
WHERE user_id = %(user_id)s AND session_id = %(session_id)s AND deleted_at IS NULL;

-- name: fetch_deletion :one
-- When a session was deleted.
SELECT deleted_at FROM memory_context.agent_sessions
WHERE user_id = %(user_id)s AND session_id = %(session_id)s AND deleted_at IS NOT NULL;

-- name: select_sessions :many
-- A page of a user's sessions, those used last first: with all words in id, title or summary, of an agent, used since.
SELECT session_id, agent_id, title, summary, message_count, chat_count, created_at, last_activity_at
FROM memory_context.agent_sessions
WHERE user_id = %(user_id)s
    AND deleted_at IS NULL
    AND (chat_count > 0 OR NOT %(only_chats)s)
    AND (%(agent)s = '' OR agent_id = %(agent)s)
    AND last_activity_at >= coalesce(%(since)s::timestamptz, '-infinity')
    AND NOT EXISTS (
        SELECT FROM unnest(%(words)s::text[]) AS word
        WHERE position(lower(word) IN lower(concat_ws(' ', session_id, title, summary))) = 0
    )
    AND (last_activity_at, session_id) < (coalesce(%(before_at)s::timestamptz, 'infinity'), %(before_id)s)
ORDER BY last_activity_at DESC, session_id DESC
LIMIT %(limit)s;

-- name: select_log_decisions :many
-- Sessions with decisions of some kinds, those used last first, and these decisions in order. Batches are opened in the
-- database only; sessions of sub-agents and private ones are left out.
SELECT
    session.session_id, session.agent_id, session.title, session.summary, session.message_count, session.chat_count,
    session.created_at, session.last_activity_at, log.decisions::text AS decisions
FROM memory_context.agent_sessions AS session
CROSS JOIN LATERAL (SELECT {last_line(session)} AS branch) AS line
CROSS JOIN LATERAL (
    SELECT jsonb_agg(one.decision -> 1 ORDER BY batch.sequence, one.place) AS decisions
    FROM memory_context.recent_conversation_history AS batch
    CROSS JOIN LATERAL jsonb_array_elements(batch.message_batch -> 'decisions') WITH ORDINALITY AS one (decision, place)
    WHERE batch.user_id = %(user_id)s
        AND batch.session_id = session.session_id
        AND batch.kind = 'transcript'
        AND batch.agent_id = session.agent_id
        AND batch.branch = line.branch
        AND one.decision -> 1 ->> 'kind' = ANY(%(kinds)s::text[])
        AND batch.sequence >= coalesce((
            SELECT max(sequence) FROM memory_context.recent_conversation_history
            WHERE user_id = %(user_id)s
                AND session_id = session.session_id
                AND kind = 'transcript'
                AND agent_id = session.agent_id
                AND branch = line.branch
                AND begins_anew
        ), 0)
) AS log
WHERE session.user_id = %(user_id)s
    AND session.deleted_at IS NULL
    AND session.session_id <> %(session_id)s
    AND position('/' IN session.session_id) = 0
    AND log.decisions IS NOT NULL
    AND NOT EXISTS (
        SELECT FROM memory_context.agent_memories
        WHERE user_id = %(user_id)s AND session_id = session.session_id AND is_private
    )
ORDER BY session.last_activity_at DESC, session.session_id DESC
LIMIT %(limit)s;

-- name: select_chat_page :many
-- The newest chat messages of a session before a place. Batches that end before it, taken from the newest on until they
-- hold a page, say how far back that can reach (any such number of them does); a batch that ended earlier is not opened.
WITH reach AS MATERIALIZED (
    SELECT coalesce((
        SELECT back_to
        FROM (
            SELECT sum(message_count) OVER newest AS messages, min(start_timestamp) OVER newest AS back_to
            FROM memory_context.recent_conversation_history
            WHERE user_id = %(user_id)s
                AND session_id = %(session_id)s
                AND kind = 'client'
                AND end_timestamp < coalesce(%(before_at)s::timestamptz, 'infinity')
            WINDOW newest AS (ORDER BY end_timestamp DESC, start_timestamp DESC ROWS UNBOUNDED PRECEDING)
        ) AS taken
        WHERE messages >= %(limit)s
        LIMIT 1
    ), '-infinity') AS back_to
)
SELECT
    message ->> 'id' AS id, message ->> 'text' AS text, message ->> 'sender' AS sender, message ->> 'timestamp' AS sent_at,
    message @> '{"is_unverified": true}' AS is_unverified
FROM reach
JOIN memory_context.recent_conversation_history AS batch
    ON batch.user_id = %(user_id)s
    AND batch.session_id = %(session_id)s
    AND batch.kind = 'client'
    AND batch.start_timestamp <= coalesce(%(before_at)s::timestamptz, 'infinity')
    AND batch.end_timestamp >= reach.back_to
CROSS JOIN jsonb_array_elements(batch.message_batch) AS message
WHERE {is_not_deleted()}
    AND ((message ->> 'timestamp')::timestamptz, message ->> 'id' COLLATE "C")
    < (coalesce(%(before_at)s::timestamptz, 'infinity'), %(before_id)s)
ORDER BY (message ->> 'timestamp')::timestamptz DESC, message ->> 'id' COLLATE "C" DESC
LIMIT %(limit)s;

-- name: select_known_chat_ids :many
-- Which of some chat messages a session has.
SELECT known.id
FROM memory_context.recent_conversation_history AS batch
CROSS JOIN unnest(batch.message_ids) AS known (id)
WHERE batch.user_id = %(user_id)s
    AND batch.session_id = %(session_id)s
    AND batch.kind = 'client'
    AND batch.message_ids && %(message_ids)s::text[]
    AND known.id = ANY(%(message_ids)s::text[])
    AND {is_not_deleted()};

-- name: select_session_item_ids :many
-- A batch of the items of a session and of its sub-agents, whose sessions begin with its name and a slash.
SELECT id, content_id FROM memory_context.agent_memories
WHERE user_id = %(user_id)s
    AND {in_session(session_id)}
    AND is_active
LIMIT %(limit)s;

-- name: select_messages :many
-- Messages of a session that are items. They are read around a given message, or from a number on, as the agent heard them
-- that heard the given one or that began the session. Of long texts only the beginning.
WITH place AS (
    SELECT item.session_id, item.agent_id, (item.content_metadata ->> 'position')::bigint - %(messages_before)s AS first
    FROM memory_context.agent_memories AS item
    WHERE item.user_id = %(user_id)s
        AND item.memory_key = %(memory_key)s
        AND item.memory_type = 'conversation'
        AND {may_read(item)}
    UNION ALL
    SELECT session_id, agent_id, %(first)s::bigint FROM memory_context.agent_sessions
    WHERE user_id = %(user_id)s AND session_id = %(session_id)s AND deleted_at IS NULL AND %(memory_key)s::text IS NULL
)
SELECT
    {item_columns(item)},
    {session_title(item)},
    left(content.content, %(characters_limit)s) AS content,
    substring(content.content_raw FOR %(characters_limit)s) AS content_raw
FROM place
JOIN memory_context.agent_memories AS item
    ON item.user_id = %(user_id)s
    AND item.session_id = place.session_id
    AND item.agent_id = place.agent_id
    AND item.memory_type = 'conversation'
    AND item.is_active
    AND (item.content_metadata ->> 'position')::bigint >= place.first
    AND {may_read(item)}
JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.id = item.content_id
ORDER BY item.created_at, item.id
LIMIT %(limit)s;

-- name: select_said_ids :many
-- The messages of a session and of its sub-agents that are items.
SELECT id, content_id FROM memory_context.agent_memories
WHERE user_id = %(user_id)s
    AND {in_session(session_id)}
    AND memory_type = 'conversation'
    AND is_active;

-- name: insert_session_deleted :exec
-- A tombstone for a session that has items and was not archived yet.
INSERT INTO memory_context.agent_sessions (user_id, session_id, agent_id)
SELECT %(user_id)s, %(session_id)s, ''
WHERE EXISTS (
    SELECT FROM memory_context.agent_memories
    WHERE user_id = %(user_id)s
        AND {in_session(session_id)}
        AND is_active
)
ON CONFLICT ON CONSTRAINT agent_sessions_pkey DO NOTHING;

-- name: lock_session :exec
-- Wait for those who are archiving in a session or in those of its sub-agents.
SELECT FROM memory_context.agent_sessions
WHERE user_id = %(user_id)s
    AND {in_session(session_id)}
ORDER BY session_id
FOR UPDATE;

-- name: update_session_deleted :many
-- Leave a tombstone of a session, and of those of its sub-agents; locked in order, since rows may be newer than the lock. One
-- waits whose messages became items after those to forget were read.
WITH locked AS MATERIALIZED (
    SELECT session_id FROM memory_context.agent_sessions AS session
    WHERE user_id = %(user_id)s
        AND {in_session(session_id)}
        AND deleted_at IS NULL
        AND {takes_its_messages(session)}
    ORDER BY session_id
    FOR UPDATE
)
UPDATE memory_context.agent_sessions AS session
SET deleted_at = now(), title = '', summary = '', message_count = 0, chat_count = 0
FROM locked
WHERE session.user_id = %(user_id)s AND session.session_id = locked.session_id
RETURNING session.session_id;

-- name: lock_sessions :exec
-- Wait for those who are archiving in any session of a user who is erased.
SELECT FROM memory_context.agent_sessions WHERE user_id = %(user_id)s ORDER BY session_id FOR UPDATE;
