-- The index: what its jobs read and write, and embeddings of another model. A job of kind `index` has the id of its item; once
-- passages and terms are there it becomes one of kind `embed`.

-- name: select_items_to_index :many
-- Items with what they are to be found by; forgotten ones are left out. Of a content that is indexed already only the first
-- passage comes.
SELECT
    item.id AS memory_id, item.content_id, item.memory_key, item.summary, item.source, item.tags,
    CASE WHEN item.memory_type = 'conversation' THEN item.created_at END AS said_at,
    chunk.text AS first_text,
    CASE WHEN chunk.content_id IS NULL THEN left(content.content, %(characters_limit)s) END AS content,
    CASE WHEN chunk.content_id IS NULL THEN substring(content.content_raw FOR 4 * %(characters_limit)s) END AS content_raw,
    content.content_bytes, content.content_type,
    CASE WHEN chunk.content_id IS NULL
        THEN sha256(coalesce(content.content_raw, convert_to(content.content, 'UTF8'))) <> content.content_sha256 END
        AS is_damaged
FROM memory_context.agent_memories AS item
JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.id = item.content_id
LEFT JOIN memory_context.agent_memory_chunks AS chunk
    ON chunk.user_id = %(user_id)s AND chunk.content_id = item.content_id AND chunk.chunk_number = 0
WHERE item.user_id = %(user_id)s AND item.id = ANY(%(memory_ids)s::bigint[]) AND item.is_active
ORDER BY item.id;

-- name: lock_claimed :many
-- The jobs that are still this worker's; until the transaction ends nobody else can take them.
SELECT id FROM memory_context.jobs
WHERE user_id = %(user_id)s AND id = ANY(%(memory_ids)s::bigint[]) AND claim = %(claim)s
ORDER BY id
FOR UPDATE;

-- name: lock_indexed_contents :exec
-- Wait for whoever is indexing the same contents, after the jobs; who stores them again need not wait.
SELECT FROM memory_context.agent_memory_contents
WHERE user_id = %(user_id)s AND id = ANY(%(content_ids)s::bigint[])
ORDER BY id
FOR NO KEY UPDATE;

-- name: insert_terms :exec
-- Terms of contents that have none, with the passages that hold them, in the order of their index; before the passages. The
-- contents are locked, so no other worker adds theirs: ON CONFLICT would cost a third more.
INSERT INTO memory_context.agent_memory_terms (user_id, term, content_id, postings)
SELECT %(user_id)s, made.term, made.content_id, made.postings::integer[]
FROM unnest(
    %(term_memory_ids)s::bigint[], %(term_content_ids)s::bigint[], %(terms)s::text[], %(postings)s::text[]
) AS made (memory_id, content_id, term, postings)
JOIN memory_context.jobs AS job
    ON job.user_id = %(user_id)s AND job.id = made.memory_id AND job.claim = %(claim)s AND job.kind = 'index'
JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = %(user_id)s AND content.id = made.content_id
LEFT JOIN memory_context.agent_memory_chunks AS chunk
    ON chunk.user_id = %(user_id)s AND chunk.content_id = made.content_id AND chunk.chunk_number = 0
WHERE chunk.content_id IS NULL
ORDER BY made.term COLLATE "C", made.content_id;

-- name: insert_names :exec
-- What items are called, beside what their contents begin with.
INSERT INTO memory_context.agent_memory_names (user_id, term, content_id, memory_id, posting)
SELECT %(user_id)s, called.term, called.content_id, called.memory_id, called.posting
FROM unnest(%(name_memory_ids)s::bigint[], %(name_content_ids)s::bigint[], %(names)s::text[], %(name_postings)s::integer[])
    AS called (memory_id, content_id, term, posting)
JOIN memory_context.jobs AS job
    ON job.user_id = %(user_id)s AND job.id = called.memory_id AND job.claim = %(claim)s AND job.kind = 'index'
JOIN memory_context.agent_memories AS item
    ON item.user_id = %(user_id)s AND item.id = called.memory_id AND item.content_id = called.content_id
ON CONFLICT ON CONSTRAINT agent_memory_names_pkey DO NOTHING;

-- name: add_statistics :exec
-- What contents that were not indexed add to the number of the user's passages; before the passages.
INSERT INTO memory_context.agent_memory_statistics AS statistic (user_id, chunk_count)
SELECT %(user_id)s, sum(made.chunk_count)
FROM unnest(%(indexed_memory_ids)s::bigint[], %(indexed_content_ids)s::bigint[], %(chunk_counts)s::bigint[])
    AS made (memory_id, content_id, chunk_count)
JOIN memory_context.jobs AS job
    ON job.user_id = %(user_id)s AND job.id = made.memory_id AND job.claim = %(claim)s AND job.kind = 'index'
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
JOIN memory_context.jobs AS job
    ON job.user_id = %(user_id)s AND job.id = made.memory_id AND job.claim = %(claim)s AND job.kind = 'index'
ON CONFLICT ON CONSTRAINT agent_memory_chunks_pkey DO NOTHING;

-- name: update_jobs_text_done :exec
-- From here on text finds these items; embeddings are still missing.
UPDATE memory_context.jobs SET kind = 'embed'
WHERE user_id = %(user_id)s AND id = ANY(%(memory_ids)s::bigint[]) AND kind = 'index' AND claim = %(claim)s;

-- name: select_chunks_to_embed :many
-- The passages of items whose embeddings are missing; those made before an interruption are not made again.
SELECT chunk.content_id, chunk.chunk_number, coalesce(chunk.masked_text, chunk.text) AS text
FROM memory_context.agent_memory_chunks AS chunk
WHERE chunk.user_id = %(user_id)s
    AND chunk.content_id IN (
        SELECT content_id FROM memory_context.agent_memories
        WHERE user_id = %(user_id)s AND id = ANY(%(memory_ids)s::bigint[])
    )
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

-- name: select_failed_items :many
-- What could not be indexed, and why.
SELECT item.memory_key, job.last_error
FROM memory_context.jobs AS job
JOIN memory_context.agent_memories AS item ON item.user_id = %(user_id)s AND item.id = job.id
WHERE job.user_id = %(user_id)s AND job.kind IN ('index', 'embed') AND job.is_failed
ORDER BY job.id
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
