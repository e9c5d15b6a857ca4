-- Long-term notes. Each block runs in a transaction that began with act_as(user, agent): other agents' notes are not visible.

-- name: fetch_notes :one
-- The notes of an agent; no row if none were ever written.
SELECT notes, version, operation, updated_at
FROM memory_context.agent_long_term_memory
WHERE user_id = %(user_id)s AND agent_id = %(agent_id)s;

-- name: select_notes_agents :many
-- Which agents of a user have notes, without their text, the last changed first.
SELECT agent_id, char_length(notes) AS characters, version, updated_at
FROM memory_context.agent_long_term_memory
WHERE user_id = %(user_id)s AND notes <> ''
ORDER BY updated_at DESC, agent_id;

-- name: select_notes_versions :many
-- The notes in force and the former texts that are kept, the newest first.
SELECT version, notes, repeats, operation, updated_at AS written_at
FROM memory_context.agent_long_term_memory
WHERE user_id = %(user_id)s AND agent_id = %(agent_id)s
UNION ALL
SELECT version, notes, repeats, operation, written_at
FROM memory_context.agent_long_term_memory_versions
WHERE user_id = %(user_id)s AND agent_id = %(agent_id)s
ORDER BY version DESC;

-- name: upsert_notes :one
-- Write notes if the version they are based on (0: none yet) is in force. The text before is kept, with the last ones
-- before it and before what an undo repeats. Those who listen are told which notes changed, by a hash.
WITH former AS (
    SELECT version, notes, repeats, operation, updated_at
    FROM memory_context.agent_long_term_memory
    WHERE user_id = %(user_id)s AND agent_id = %(agent_id)s AND version = %(based_on)s
    FOR UPDATE
), written AS (
    INSERT INTO memory_context.agent_long_term_memory AS there (user_id, agent_id, notes, version, repeats, operation)
    SELECT
        %(user_id)s, %(agent_id)s, %(notes)s, %(based_on)s::bigint + 1,
        coalesce(%(repeats)s::bigint, %(based_on)s::bigint + 1), %(operation)s
    WHERE %(based_on)s::bigint = 0 OR EXISTS (SELECT FROM former)
    ON CONFLICT ON CONSTRAINT agent_long_term_memory_pkey DO UPDATE
    SET notes = excluded.notes,
        version = excluded.version,
        repeats = excluded.repeats,
        operation = excluded.operation,
        updated_at = now()
    WHERE there.version = %(based_on)s::bigint
    RETURNING version, repeats, created_at, updated_at
), kept AS (
    INSERT INTO memory_context.agent_long_term_memory_versions (
        user_id, agent_id, version, notes, repeats, operation, written_at, begun_at
    )
    SELECT
        %(user_id)s, %(agent_id)s, coalesce(former.version, 0), coalesce(former.notes, ''), coalesce(former.repeats, 0),
        coalesce(former.operation, ''), coalesce(former.updated_at, written.created_at), written.created_at
    FROM written LEFT JOIN former ON true
    WHERE NOT %(is_erased)s::boolean
), dropped AS (
    DELETE FROM memory_context.agent_long_term_memory_versions AS one
    USING written
    WHERE one.user_id = %(user_id)s
        AND one.agent_id = %(agent_id)s
        AND (
            %(is_erased)s::boolean
            OR (
                one.version < written.version - %(kept_versions)s::bigint
                AND one.version NOT BETWEEN written.repeats - %(kept_versions)s::bigint AND written.repeats - 1
            )
        )
)
SELECT version, updated_at FROM written;
