-- Threads as a user interface shows them. Each block but one runs in a transaction that began with act_as, and names the
-- user again.

-- name: fetch_thread_owner :one
-- Whose a thread is; asked before it is known as whom to act.
SELECT memory_context.ui_thread_owner(%(thread_id)s) AS user_id;

-- name: fetch_ui_user :one
-- What is known of a user who logged in.
SELECT metadata, created_at FROM memory_context.ui_users WHERE user_id = %(user_id)s;

-- name: upsert_ui_user :one
-- Note who logged in, and what is known of them now.
INSERT INTO memory_context.ui_users AS known (user_id, metadata)
VALUES (%(user_id)s, %(metadata)s::jsonb)
ON CONFLICT ON CONSTRAINT ui_users_pkey DO UPDATE SET metadata = EXCLUDED.metadata
RETURNING metadata, created_at;

-- name: insert_known_user :exec
-- Put a user on the list of users. The row is locked even if it is there: whoever erases the user waits.
INSERT INTO memory_context.memory_users AS known (user_id)
VALUES (%(user_id)s)
ON CONFLICT ON CONSTRAINT memory_users_pkey DO UPDATE SET has_failed_jobs = known.has_failed_jobs WHERE false;

-- name: insert_thread :exec
-- Make a thread, unless somebody has one of this id, and put the user of a new one on the list of users. Any conflict is
-- waited for and nothing is done: with one of the two keys named, two who come at once could block each other.
WITH made AS (
    INSERT INTO memory_context.ui_threads (user_id, thread_id)
    VALUES (%(user_id)s, %(thread_id)s)
    ON CONFLICT DO NOTHING
    RETURNING user_id
)
INSERT INTO memory_context.memory_users AS known (user_id)
SELECT user_id FROM made
ON CONFLICT ON CONSTRAINT memory_users_pkey DO UPDATE SET has_failed_jobs = known.has_failed_jobs WHERE false;

-- name: update_thread :many
-- Change what is given of a thread; of its metadata, key by key. Nothing if it is somebody else's or was deleted.
UPDATE memory_context.ui_threads
SET name = coalesce(%(name)s, name),
    tags = coalesce(%(tags)s, tags),
    metadata = (metadata || %(metadata)s::jsonb) - %(removed_keys)s::text[]
WHERE user_id = %(user_id)s AND thread_id = %(thread_id)s AND deleted_at IS NULL
RETURNING thread_id;

-- name: fetch_thread :one
-- A thread that was not deleted.
SELECT thread_id, name, tags, metadata, created_at, last_activity_at
FROM memory_context.ui_threads
WHERE user_id = %(user_id)s AND thread_id = %(thread_id)s AND deleted_at IS NULL;

-- name: select_threads :many
-- A page of a user's threads, those used last first: all of them, or those with some text in their name or in a step, or
-- with a rated step.
SELECT thread_id, name, tags, metadata, created_at, last_activity_at
FROM memory_context.ui_threads AS thread
WHERE user_id = %(user_id)s
    AND deleted_at IS NULL
    AND (last_activity_at, thread_id) < (coalesce(%(before_at)s::timestamptz, 'infinity'), %(before_id)s)
    AND (
        %(pattern)s::text IS NULL
        OR name ILIKE %(pattern)s
        OR EXISTS (
            SELECT FROM memory_context.ui_steps AS step
            WHERE step.user_id = %(user_id)s
                AND step.thread_id = thread.thread_id
                AND (step.output ILIKE %(pattern)s OR step.input ILIKE %(pattern)s)
        )
    )
    AND (
        %(feedback_value)s::smallint IS NULL
        OR thread_id IN (
            SELECT step.thread_id FROM memory_context.ui_steps AS step
            WHERE step.user_id = %(user_id)s
                AND step.feedback_id IS NOT NULL
                AND step.feedback_value = %(feedback_value)s
        )
    )
ORDER BY last_activity_at DESC, thread_id DESC
LIMIT %(limit)s;

-- name: update_thread_deleted :many
-- Leave a tombstone of a thread. It comes before the deletions: what was being written to it is seen by them then, and
-- what comes later finds the tombstone.
UPDATE memory_context.ui_threads
SET deleted_at = now(), name = NULL, tags = NULL, metadata = '{}'
WHERE user_id = %(user_id)s AND thread_id = %(session_id)s AND deleted_at IS NULL
RETURNING thread_id;

-- name: upsert_step :many
-- Keep a step of a thread of this user that was not deleted; else nothing. An update counts more than what it updates,
-- whichever comes first. The thread's row is held by it, and moves to the front of its user's list.
WITH thread AS (
    UPDATE memory_context.ui_threads
    SET last_activity_at = greatest(last_activity_at, now())
    WHERE user_id = %(user_id)s AND thread_id = %(thread_id)s AND deleted_at IS NULL
    RETURNING user_id, thread_id
)
INSERT INTO memory_context.ui_steps AS step (
    user_id, thread_id, step_id, input, output, fields, is_updated, created_at
)
SELECT
    user_id, thread_id, %(step_id)s, %(input)s, %(output)s, %(fields)s::jsonb, %(is_update)s,
    coalesce(%(created_at)s::timestamptz, now())
FROM thread
ON CONFLICT ON CONSTRAINT ui_steps_pkey DO UPDATE
SET input = CASE WHEN step.is_updated AND NOT EXCLUDED.is_updated
        THEN coalesce(nullif(step.input, ''), EXCLUDED.input) ELSE coalesce(EXCLUDED.input, step.input) END,
    output = CASE WHEN step.is_updated AND NOT EXCLUDED.is_updated
        THEN coalesce(nullif(step.output, ''), EXCLUDED.output) ELSE coalesce(EXCLUDED.output, step.output) END,
    fields = CASE WHEN step.is_updated AND NOT EXCLUDED.is_updated
        THEN EXCLUDED.fields || step.fields ELSE step.fields || EXCLUDED.fields END,
    is_updated = step.is_updated OR EXCLUDED.is_updated,
    created_at = coalesce(%(created_at)s::timestamptz, step.created_at)
WHERE step.thread_id = EXCLUDED.thread_id
RETURNING step_id;

-- name: select_steps :many
-- What was shown in a thread, in its order.
SELECT
    step_id, thread_id, input, output, fields, created_at, feedback_id, feedback_value, feedback_comment
FROM memory_context.ui_steps
WHERE user_id = %(user_id)s AND thread_id = %(thread_id)s
ORDER BY created_at, position;

-- name: select_favorite_steps :many
-- The steps that a user marked, the newest first.
SELECT
    step_id, thread_id, input, output, fields, created_at, feedback_id, feedback_value, feedback_comment
FROM memory_context.ui_steps
WHERE user_id = %(user_id)s
    AND fields #> '{metadata,favorite}' = 'true'
    AND thread_id NOT IN (
        SELECT thread_id FROM memory_context.ui_threads WHERE user_id = %(user_id)s AND deleted_at IS NOT NULL
    )
ORDER BY created_at DESC, position DESC
LIMIT %(limit)s;

-- name: delete_step :exec
-- A step, with what was shown beside it and how it was rated.
WITH gone AS (
    DELETE FROM memory_context.ui_steps
    WHERE user_id = %(user_id)s AND step_id = %(step_id)s
    RETURNING thread_id
)
DELETE FROM memory_context.ui_elements AS element
USING gone
WHERE element.user_id = %(user_id)s AND element.thread_id = gone.thread_id AND element.step_id = %(step_id)s;

-- name: update_feedback :many
-- Rate a step; the rating keeps its id. Nothing if the step is not this user's.
UPDATE memory_context.ui_steps
SET feedback_id = coalesce(%(feedback_id)s, feedback_id, %(new_feedback_id)s),
    feedback_value = %(feedback_value)s,
    feedback_comment = %(feedback_comment)s
WHERE user_id = %(user_id)s AND step_id = %(step_id)s
RETURNING feedback_id;

-- name: delete_feedback :many
-- Take a rating back.
UPDATE memory_context.ui_steps
SET feedback_id = NULL, feedback_value = NULL, feedback_comment = NULL
WHERE user_id = %(user_id)s AND feedback_id = %(feedback_id)s
RETURNING step_id;

-- name: upsert_element :many
-- Keep an element of a thread of this user that was not deleted; else nothing. Its content may stay as it was.
WITH thread AS (
    SELECT user_id, thread_id FROM memory_context.ui_threads
    WHERE user_id = %(user_id)s AND thread_id = %(thread_id)s AND deleted_at IS NULL
    FOR NO KEY UPDATE
)
INSERT INTO memory_context.ui_elements AS element (user_id, thread_id, element_id, step_id, fields, content)
SELECT user_id, thread_id, %(element_id)s, %(step_id)s, %(fields)s::jsonb, %(content)b::bytea
FROM thread
ON CONFLICT ON CONSTRAINT ui_elements_pkey DO UPDATE
SET step_id = EXCLUDED.step_id,
    fields = element.fields || EXCLUDED.fields,
    content = CASE WHEN %(keeps_content)s THEN coalesce(EXCLUDED.content, element.content) ELSE EXCLUDED.content END
WHERE element.thread_id = EXCLUDED.thread_id
RETURNING element_id;

-- name: select_elements :many
-- What was shown beside the steps of a thread, without the content.
SELECT element_id, thread_id, step_id, fields, content IS NOT NULL AS has_content
FROM memory_context.ui_elements
WHERE user_id = %(user_id)s AND thread_id = %(thread_id)s
ORDER BY position;

-- name: fetch_element :one
-- An element without its content.
SELECT element_id, thread_id, step_id, fields, content IS NOT NULL AS has_content
FROM memory_context.ui_elements
WHERE user_id = %(user_id)s AND thread_id = %(thread_id)s AND element_id = %(element_id)s;

-- name: fetch_element_content :one
-- What an element shows: so many bytes from one on, or to the end. They are read without the rest.
SELECT
    fields,
    octet_length(content) AS size_bytes,
    substring(content FROM %(start)s::integer + 1 FOR coalesce(%(length)s::integer, octet_length(content))) AS content
FROM memory_context.ui_elements
WHERE user_id = %(user_id)s AND thread_id = %(thread_id)s AND element_id = %(element_id)s AND content IS NOT NULL;

-- name: delete_element :exec
-- An element, of whatever thread of this user.
DELETE FROM memory_context.ui_elements WHERE user_id = %(user_id)s AND element_id = %(element_id)s;
