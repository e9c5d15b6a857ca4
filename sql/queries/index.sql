-- The index: claiming jobs, writing what they make, and embeddings of another model.

-- name: select_pending_users :many
-- Users with something waiting, or only set aside, page by page.
SELECT user_id FROM memory_context.pending_users(%(after)s, %(with_set_aside)s, %(limit)s) AS user_id;

-- name: claim_jobs :many
-- Take the lease of the oldest due jobs. What a worker that was killed had claimed is due again when its lease ends; a job
-- that was begun too often without an end is set aside, since it may be what kills its workers. While one is due that was
-- begun before, they are taken one by one: it shall not take others with it. Of large items fewer are taken, at least one. Of a
-- content that is indexed already only the first passage comes.
WITH due AS (
    SELECT memory_id FROM memory_context.index_jobs
    WHERE user_id = %(user_id)s AND due_at <= now() AND NOT is_set_aside
    ORDER BY memory_id
    LIMIT CASE WHEN EXISTS (
        SELECT FROM memory_context.index_jobs
        WHERE user_id = %(user_id)s AND due_at <= now() AND NOT is_set_aside AND NOT is_text_done AND attempts > 1
    ) THEN 1 ELSE %(limit)s END
    FOR UPDATE SKIP LOCKED
), sized AS (
    SELECT
        due.memory_id, content.id AS content_id, is_known,
        sum(CASE WHEN is_known THEN 0 ELSE item.content_bytes END) OVER (ORDER BY due.memory_id)
            - CASE WHEN is_known THEN 0 ELSE item.content_bytes END AS bytes_before
    FROM due
    JOIN memory_context.agent_memories AS item ON item.user_id = %(user_id)s AND item.id = due.memory_id
    LEFT JOIN memory_context.agent_memory_contents AS content
        ON content.user_id = %(user_id)s AND content.id = item.content_id
    CROSS JOIN LATERAL (
        SELECT EXISTS (
            SELECT FROM memory_context.agent_memory_chunks AS chunk
            WHERE chunk.user_id = %(user_id)s AND chunk.content_id = content.id AND chunk.chunk_number = 0
        ) AS is_known
    ) AS known
), claimed AS (
    UPDATE memory_context.index_jobs AS job
    SET attempts = attempts + 1,
        due_at = now() + make_interval(secs => %(lease_seconds)s),
        claim = %(claim)s,
        is_set_aside = attempts >= %(attempts_limit)s AND NOT is_text_done,
        last_error = CASE WHEN attempts >= %(attempts_limit)s THEN coalesce(last_error, 'its workers were killed') END
    FROM sized
    WHERE job.user_id = %(user_id)s AND job.memory_id = sized.memory_id AND sized.bytes_before < %(bytes_limit)s
    RETURNING job.memory_id, job.is_text_done, job.attempts, job.is_set_aside, sized.content_id, sized.is_known
)
SELECT
    claimed.memory_id, claimed.is_text_done, claimed.attempts, claimed.content_id, claimed.is_known,
    CASE WHEN NOT claimed.is_text_done AND NOT claimed.is_known THEN left(content.content, %(characters_limit)s) END
        AS content,
    CASE WHEN NOT claimed.is_text_done AND NOT claimed.is_known
        THEN substring(content.content_raw FOR 4 * %(characters_limit)s) END AS content_raw,
    CASE WHEN NOT claimed.is_text_done AND NOT claimed.is_known
        THEN sha256(coalesce(content.content_raw, convert_to(content.content, 'UTF8'))) <> content.content_sha256 END
        AS is_damaged,
    chunk.text AS first_text,
    item.memory_key, item.summary, item.source, item.tags, item.is_active
FROM claimed
JOIN memory_context.agent_memories AS item ON item.user_id = %(user_id)s AND item.id = claimed.memory_id
LEFT JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.id = item.content_id
LEFT JOIN memory_context.agent_memory_chunks AS chunk
    ON chunk.user_id = %(user_id)s AND chunk.content_id = claimed.content_id AND chunk.chunk_number = 0
    AND claimed.is_known AND NOT claimed.is_text_done
WHERE NOT claimed.is_set_aside
ORDER BY claimed.memory_id;

-- name: lock_claimed :many
-- The jobs that are still this worker's; until the transaction ends nobody else can take them.
SELECT memory_id FROM memory_context.index_jobs
WHERE user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s::bigint[]) AND claim = %(claim)s
ORDER BY memory_id
FOR UPDATE;

-- name: lock_indexed_contents :exec
-- Wait for whoever is indexing the same contents, after the jobs; who stores them again need not wait.
SELECT FROM memory_context.agent_memory_contents
WHERE user_id = %(user_id)s AND id = ANY(%(content_ids)s::bigint[])
ORDER BY id
FOR NO KEY UPDATE;

-- name: insert_terms :exec
-- Terms of contents that have none, with the passages that hold them, in the order of their index; before the passages.
INSERT INTO memory_context.agent_memory_terms (user_id, term, content_id, postings)
SELECT %(user_id)s, made.term, made.content_id, made.postings::integer[]
FROM unnest(
    %(term_memory_ids)s::bigint[], %(term_content_ids)s::bigint[], %(terms)s::text[], %(postings)s::text[]
) AS made (memory_id, content_id, term, postings)
JOIN memory_context.index_jobs AS job
    ON job.user_id = %(user_id)s AND job.memory_id = made.memory_id AND job.claim = %(claim)s AND NOT job.is_text_done
JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.id = made.content_id
LEFT JOIN memory_context.agent_memory_chunks AS chunk
    ON chunk.user_id = %(user_id)s AND chunk.content_id = made.content_id AND chunk.chunk_number = 0
WHERE chunk.content_id IS NULL
ORDER BY made.term COLLATE "C", made.content_id
ON CONFLICT ON CONSTRAINT agent_memory_terms_pkey DO NOTHING;

-- name: insert_names :exec
-- What items are called, beside what their contents begin with.
INSERT INTO memory_context.agent_memory_names (user_id, term, content_id, memory_id, posting)
SELECT %(user_id)s, called.term, called.content_id, called.memory_id, called.posting
FROM unnest(%(name_memory_ids)s::bigint[], %(name_content_ids)s::bigint[], %(names)s::text[], %(name_postings)s::integer[])
    AS called (memory_id, content_id, term, posting)
JOIN memory_context.index_jobs AS job
    ON job.user_id = %(user_id)s AND job.memory_id = called.memory_id AND job.claim = %(claim)s AND NOT job.is_text_done
JOIN memory_context.agent_memories AS item
    ON item.user_id = %(user_id)s AND item.id = called.memory_id AND item.content_id = called.content_id
ON CONFLICT ON CONSTRAINT agent_memory_names_pkey DO NOTHING;

-- name: add_statistics :exec
-- What contents that were not indexed add to the number of the user's passages; before the passages.
INSERT INTO memory_context.agent_memory_statistics AS statistic (user_id, chunk_count)
SELECT %(user_id)s, sum(made.chunk_count)
FROM unnest(%(indexed_memory_ids)s::bigint[], %(indexed_content_ids)s::bigint[], %(chunk_counts)s::bigint[])
    AS made (memory_id, content_id, chunk_count)
JOIN memory_context.index_jobs AS job
    ON job.user_id = %(user_id)s AND job.memory_id = made.memory_id AND job.claim = %(claim)s AND NOT job.is_text_done
LEFT JOIN memory_context.agent_memory_chunks AS chunk
    ON chunk.user_id = %(user_id)s AND chunk.content_id = made.content_id AND chunk.chunk_number = 0
WHERE chunk.content_id IS NULL
HAVING count(*) > 0
ON CONFLICT ON CONSTRAINT agent_memory_statistics_pkey DO UPDATE
SET chunk_count = statistic.chunk_count + excluded.chunk_count;

-- name: insert_chunks :exec
-- Passages of contents that have none.
INSERT INTO memory_context.agent_memory_chunks (
    user_id, content_id, chunk_number, start_char, end_char, start_line, end_line, text, masked_text, text_sha256
)
SELECT
    %(user_id)s, made.content_id, made.chunk_number, made.start_char, made.end_char, made.start_line, made.end_line,
    made.text, nullif(made.masked_text, ''), sha256(convert_to(made.text, 'UTF8'))
FROM unnest(
    %(chunk_memory_ids)s::bigint[], %(chunk_content_ids)s::bigint[], %(chunk_numbers)s::integer[],
    %(start_chars)s::integer[], %(end_chars)s::integer[], %(start_lines)s::integer[], %(end_lines)s::integer[],
    %(texts)s::text[], %(masked_texts)s::text[]
) AS made (memory_id, content_id, chunk_number, start_char, end_char, start_line, end_line, text, masked_text)
JOIN memory_context.index_jobs AS job
    ON job.user_id = %(user_id)s AND job.memory_id = made.memory_id AND job.claim = %(claim)s AND NOT job.is_text_done
ON CONFLICT ON CONSTRAINT agent_memory_chunks_pkey DO NOTHING;

-- name: update_jobs_text_done :exec
-- From here on text finds these items; embeddings are still missing.
UPDATE memory_context.index_jobs SET is_text_done = true
WHERE user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s::bigint[]) AND claim = %(claim)s;

-- name: select_chunks_to_embed :many
-- The passages of contents whose embeddings are missing; those made before an interruption are not made again.
SELECT chunk.content_id, chunk.chunk_number, coalesce(chunk.masked_text, chunk.text) AS text
FROM memory_context.agent_memory_chunks AS chunk
WHERE chunk.user_id = %(user_id)s
    AND chunk.content_id = ANY(%(content_ids)s::bigint[])
    AND NOT EXISTS (
        SELECT FROM memory_context.agent_memory_embeddings AS embedded
        WHERE embedded.user_id = %(user_id)s
            AND embedded.embedding_model = %(embedding_model)s
            AND embedded.content_id = chunk.content_id
            AND embedded.chunk_number = chunk.chunk_number
    )
ORDER BY chunk.content_id, chunk.chunk_number;

-- name: insert_embeddings :exec
-- Embeddings of one model; passages that were erased meanwhile, or are being erased, are left out.
INSERT INTO memory_context.agent_memory_embeddings (user_id, embedding_model, content_id, chunk_number, embedding)
SELECT %(user_id)s, %(embedding_model)s, made.content_id, made.chunk_number, made.embedding
FROM unnest(%(chunk_content_ids)s::bigint[], %(chunk_numbers)s::integer[], %(embeddings)b::halfvec[])
    AS made (content_id, chunk_number, embedding)
JOIN memory_context.agent_memory_chunks AS chunk
    ON chunk.user_id = %(user_id)s AND chunk.content_id = made.content_id AND chunk.chunk_number = made.chunk_number
FOR KEY SHARE OF chunk
ON CONFLICT ON CONSTRAINT agent_memory_embeddings_pkey DO NOTHING;

-- name: delete_jobs :exec
-- Done.
DELETE FROM memory_context.index_jobs
WHERE user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s::bigint[]) AND claim = %(claim)s;

-- name: update_jobs_failed :exec
-- Try again later, each time twice as late; set aside what failed too often.
UPDATE memory_context.index_jobs
SET due_at = now() + make_interval(secs => least(2.0 ^ least(attempts, 30), %(longest_wait_seconds)s)),
    claim = NULL,
    last_error = %(error)s,
    is_set_aside = attempts >= %(attempts_limit)s AND NOT is_text_done
WHERE user_id = %(user_id)s AND memory_id = ANY(%(memory_ids)s::bigint[]) AND claim = %(claim)s;

-- name: update_jobs_renewed :exec
-- A worker that is still at it keeps its lease.
UPDATE memory_context.index_jobs SET due_at = now() + make_interval(secs => %(lease_seconds)s)
WHERE user_id = %(user_id)s AND claim = %(claim)s;

-- name: update_jobs_released :exec
-- Give back what a worker did not finish; an attempt that was only broken off does not count.
UPDATE memory_context.index_jobs SET due_at = now(), claim = NULL, attempts = attempts - %(attempts_not_counted)s
WHERE user_id = %(user_id)s AND claim = %(claim)s;

-- name: lock_user :exec
-- Wait for those who are storing for this user, before the look at what is left.
SELECT FROM memory_context.memory_users WHERE user_id = %(user_id)s FOR UPDATE;

-- name: update_user_not_pending :exec
-- Nothing waits for this user; what was set aside is only counted.
UPDATE memory_context.memory_users
SET pending_since = NULL,
    has_set_aside = EXISTS (SELECT FROM memory_context.index_jobs WHERE user_id = %(user_id)s)
WHERE user_id = %(user_id)s
    AND NOT EXISTS (SELECT FROM memory_context.index_jobs WHERE user_id = %(user_id)s AND NOT is_set_aside);

-- name: fetch_job_counts :one
-- How much waits for this user: due now, in somebody's hands, to be tried again, set aside.
SELECT
    count(*) FILTER (WHERE NOT is_set_aside AND due_at <= now()) AS due,
    count(*) FILTER (WHERE NOT is_set_aside AND due_at > now() AND claim IS NOT NULL) AS claimed,
    count(*) FILTER (WHERE NOT is_set_aside AND due_at > now() AND claim IS NULL) AS waiting,
    count(*) FILTER (WHERE is_set_aside) AS set_aside,
    (extract(epoch FROM min(due_at) FILTER (WHERE NOT is_set_aside) - now()))::float8 AS due_in_seconds
FROM memory_context.index_jobs
WHERE user_id = %(user_id)s;

-- name: select_set_aside :many
-- What could not be indexed, and why.
SELECT item.memory_key, job.last_error, job.attempts
FROM memory_context.index_jobs AS job
JOIN memory_context.agent_memories AS item ON item.user_id = %(user_id)s AND item.id = job.memory_id
WHERE job.user_id = %(user_id)s AND job.is_set_aside
ORDER BY job.memory_id
LIMIT %(limit)s;

-- name: ensure_embedding_index :exec
-- Before the first embedding of a model is written.
SELECT memory_context.ensure_embedding_index(%(embedding_model)s, %(dimensions)s);

-- name: select_chunks_without_embedding :many
-- The next passages that a model has not embedded; the index of jobs does what is not chunked yet.
SELECT chunk.content_id, chunk.chunk_number, coalesce(chunk.masked_text, chunk.text) AS text
FROM memory_context.agent_memory_chunks AS chunk
WHERE chunk.user_id = %(user_id)s
    AND (chunk.content_id, chunk.chunk_number) > (%(after_content_id)s, %(after_chunk_number)s)
    AND NOT EXISTS (
        SELECT FROM memory_context.agent_memory_embeddings AS embedded
        WHERE embedded.user_id = %(user_id)s
            AND embedded.embedding_model = %(embedding_model)s
            AND embedded.content_id = chunk.content_id
            AND embedded.chunk_number = chunk.chunk_number
    )
ORDER BY chunk.content_id, chunk.chunk_number
LIMIT %(limit)s;

-- name: fetch_embedding_counts :one
-- How many passages a user has, and how many of them a model has embedded.
SELECT
    (SELECT count(*) FROM memory_context.agent_memory_chunks WHERE user_id = %(user_id)s) AS chunks,
    (
        SELECT count(*) FROM memory_context.agent_memory_embeddings
        WHERE user_id = %(user_id)s AND embedding_model = %(embedding_model)s
    ) AS embedded;
