-- What is done alike to the tables of users' rows. Names in braces come from the registry (store/tables.py), which puts in
-- a statement of its own where a table needs one. Each block runs in a transaction that began with act_as, and names the
-- user again. Whether a session is asked for: its own rows and, where the table has them, those of its sub-agents.

-- name: select_page :many
-- A page of rows as the lines of an export. It ends where its rows, as they are stored, have enough bytes: to measure their
-- text, all would be unpacked. Each row tells its place (after_…), from which the next page goes on.
WITH page AS (
    SELECT {order}, {bytes} AS bytes
    FROM memory_context.{table} AS one
    WHERE user_id = %(user_id)s AND ({order}) > ({after}) AND {within} AND {has_live_parent}
    ORDER BY {order}
    LIMIT %(limit)s
), sized AS (
    SELECT {order}, sum(bytes) OVER (ORDER BY {order}) - bytes AS bytes_before FROM page
)
SELECT {places}, (SELECT row_to_json(picked) FROM (SELECT {columns}) AS picked)::text AS record
FROM sized JOIN memory_context.{table} AS one ON one.user_id = %(user_id)s AND {is_same_place}
WHERE sized.bytes_before < %(packed_bytes_limit)s
ORDER BY {one_order};

-- name: count_rows :one
-- How many rows there are.
SELECT count(*) AS rows FROM memory_context.{table} AS one WHERE user_id = %(user_id)s AND {within};

-- name: insert_rows :one
-- Store rows as they were, in their order, unless they are there or what they belong to is not.
WITH stored AS (
    INSERT INTO memory_context.{table} (user_id, {names})
    SELECT %(user_id)s, {values}
    FROM ROWS FROM (
        jsonb_populate_recordset(NULL::memory_context.{table}, %(records)s::jsonb), jsonb_array_elements(%(records)s::jsonb)
    ) WITH ORDINALITY AS one
    WHERE {has_live_parent}
    ORDER BY one.ordinality
    ON CONFLICT DO NOTHING
    RETURNING 1
)
SELECT count(*) AS stored FROM stored;

-- name: delete_rows :one
-- A batch of rows.
WITH gone AS (
    DELETE FROM memory_context.{table}
    WHERE user_id = %(user_id)s AND ctid = ANY(ARRAY(
        SELECT ctid FROM memory_context.{table} AS one
        WHERE user_id = %(user_id)s AND {within}
        LIMIT {batch_rows}
    ))
    RETURNING 1
)
SELECT count(*) AS rows FROM gone;

-- name: delete_all_rows :exec
-- All rows of a user, tombstones included, and what belongs to them.
DELETE FROM memory_context.{table} WHERE user_id = %(user_id)s;

-- name: count_old_rows :one
-- How many rows there are from before a time.
SELECT count(*) AS rows FROM memory_context.{table} WHERE user_id = %(user_id)s AND {age} < %(cutoff)s;

-- name: delete_old_rows :many
-- A batch of rows from before a time, the oldest first.
DELETE FROM memory_context.{table}
WHERE user_id = %(user_id)s AND ctid = ANY(ARRAY(
    SELECT ctid FROM memory_context.{table}
    WHERE user_id = %(user_id)s AND {age} < %(cutoff)s
    ORDER BY {age}
    LIMIT {batch_rows}
))
RETURNING true AS is_gone;
