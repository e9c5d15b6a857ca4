-- Search. First the best passages by terms and by meaning, then both scores of these and of their neighbours, at last the
-- texts of what is shown. Every condition is an equality that an index serves under row-level security.

-- name: fetch_statistics :one
-- How many passages the user has.
SELECT chunk_count FROM memory_context.agent_memory_statistics
WHERE user_id = %(user_id)s;

-- name: select_frequencies :many
-- In how many of the user's passages each term occurs; the index alone says it.
SELECT term, sum(passages)::bigint AS document_frequency
FROM memory_context.agent_memory_terms
WHERE user_id = %(user_id)s AND term = ANY(%(terms)s::text[])
GROUP BY term;

-- name: select_related_keys :many
-- What an item was linked to when it was stored, if the reader may read it.
SELECT unnest(item.related_to) AS memory_key FROM memory_context.agent_memories AS item
WHERE item.user_id = %(user_id)s
    AND item.memory_key = %(memory_key)s
    AND memory_context.may_read(
        item, %(reader_agent)s, %(reader_session)s, %(within_agent)s, %(within_session)s, %(only_keys)s
    );

-- name: rank_by_terms :many
-- The passages that say most about the terms, by BM25; of each item only the best, so that no large one crowds out others.
-- Without what is private to others; there is little of it, and none for most, so that it is left out rather than
-- everything else looked up.
WITH scored AS (
    SELECT
        found.memory_id,
        posting >> 16 AS chunk_number,
        sum(memory_context.bm25(posting, known.document_frequency, %(chunk_count)s)) AS score
    FROM unnest(%(terms)s::text[], %(document_frequencies)s::bigint[]) AS known (term, document_frequency)
    JOIN memory_context.agent_memory_terms AS found ON found.user_id = %(user_id)s AND found.term = known.term
    CROSS JOIN unnest(found.postings) AS posting
    WHERE found.memory_id NOT IN (
        SELECT id FROM memory_context.agent_memories
        WHERE user_id = %(user_id)s
            AND is_private AND is_active
            AND NOT (agent_id = %(reader_agent)s AND session_id = %(reader_session)s)
    )
    GROUP BY found.memory_id, posting >> 16
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY memory_id ORDER BY score DESC, chunk_number) AS place FROM scored
)
SELECT memory_id, chunk_number, score FROM ranked
WHERE place <= %(per_item)s
ORDER BY score DESC, memory_id DESC, chunk_number
LIMIT %(limit)s;

-- name: rank_by_terms_filtered :many
-- The same among the items that meet criteria; the frequencies stay those of the whole memory.
WITH scored AS (
    SELECT
        found.memory_id,
        posting >> 16 AS chunk_number,
        sum(memory_context.bm25(posting, known.document_frequency, %(chunk_count)s)) AS score
    FROM unnest(%(terms)s::text[], %(document_frequencies)s::bigint[]) AS known (term, document_frequency)
    JOIN memory_context.agent_memory_terms AS found ON found.user_id = %(user_id)s AND found.term = known.term
    JOIN memory_context.agent_memories AS item
        ON item.user_id = %(user_id)s
        AND item.id = found.memory_id
        AND memory_context.meets(
            item, %(types)s, %(sources)s, %(tags)s, %(created_after)s, %(created_before)s, %(agent_id)s, %(session_id)s,
            %(related_to)s, %(related_keys)s
        )
        AND memory_context.may_read(
            item, %(reader_agent)s, %(reader_session)s, %(within_agent)s, %(within_session)s, %(only_keys)s
        )
    CROSS JOIN unnest(found.postings) AS posting
    GROUP BY found.memory_id, posting >> 16
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY memory_id ORDER BY score DESC, chunk_number) AS place FROM scored
)
SELECT memory_id, chunk_number, score FROM ranked
WHERE place <= %(per_item)s
ORDER BY score DESC, memory_id DESC, chunk_number
LIMIT %(limit)s;

-- name: rank_by_embedding_exact :many
-- The passages nearest in meaning, all of the user's compared: right, and fast enough up to some ten thousand. Of each
-- item only the nearest, among more than one item has; to number all takes longer than to compare them. OFFSET keeps
-- the model's index out; the vectors themselves are not carried along.
WITH own AS (
    SELECT memory_id, chunk_number, embedding <=> %(embedding)s::halfvec AS distance
    FROM memory_context.agent_memory_embeddings
    WHERE user_id = %(user_id)s AND embedding_model = %(embedding_model)s
        AND memory_id NOT IN (
            SELECT id FROM memory_context.agent_memories
            WHERE user_id = %(user_id)s
                AND is_private AND is_active
                AND NOT (agent_id = %(reader_agent)s AND session_id = %(reader_session)s)
        )
    OFFSET 0
), near AS (
    SELECT * FROM own ORDER BY distance LIMIT 20 * %(limit)s
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY memory_id ORDER BY distance) AS place FROM near
)
SELECT memory_id, chunk_number, 1 - distance AS score FROM ranked
WHERE place <= %(per_item)s
ORDER BY distance
LIMIT %(limit)s;

-- name: rank_by_embedding_filtered :many
-- The same among the items that meet criteria.
WITH own AS (
    SELECT found.memory_id, found.chunk_number, found.embedding <=> %(embedding)s::halfvec AS distance
    FROM memory_context.agent_memories AS item
    JOIN memory_context.agent_memory_embeddings AS found
        ON found.user_id = %(user_id)s
        AND found.embedding_model = %(embedding_model)s
        AND found.memory_id = item.id
    WHERE item.user_id = %(user_id)s
        AND memory_context.meets(
            item, %(types)s, %(sources)s, %(tags)s, %(created_after)s, %(created_before)s, %(agent_id)s, %(session_id)s,
            %(related_to)s, %(related_keys)s
        )
        AND memory_context.may_read(
            item, %(reader_agent)s, %(reader_session)s, %(within_agent)s, %(within_session)s, %(only_keys)s
        )
    OFFSET 0
), near AS (
    SELECT * FROM own ORDER BY distance LIMIT 20 * %(limit)s
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY memory_id ORDER BY distance) AS place FROM near
)
SELECT memory_id, chunk_number, 1 - distance AS score FROM ranked
WHERE place <= %(per_item)s
ORDER BY distance
LIMIT %(limit)s;

-- name: set_nearest_scope :exec
-- How far the approximate search looks, for this transaction; to sort all of a user's passages is not what it is for.
SELECT set_config('hnsw.ef_search', %(ef_search)s::text, true), set_config('enable_sort', 'off', true);

-- name: rank_by_embedding_nearest :many
-- The same by the model's index, for a user with many passages. Braces: the index is for one model and its dimensions.
SELECT memory_id, chunk_number, 1 - (embedding <=> %(embedding)s::halfvec) AS score
FROM memory_context.agent_memory_embeddings
WHERE user_id = %(user_id)s AND embedding_model = {embedding_model}
    AND memory_id NOT IN (
        SELECT id FROM memory_context.agent_memories
        WHERE user_id = %(user_id)s
            AND is_private AND is_active
            AND NOT (agent_id = %(reader_agent)s AND session_id = %(reader_session)s)
    )
ORDER BY embedding::halfvec({dimensions}) <=> %(embedding)s::halfvec({dimensions})
LIMIT %(limit)s;

-- name: select_neighbours :many
-- What stands before and after passages: in the item, and for its first and last passage in the item beside it in the
-- session; what was forgotten, or the reader may not read, stands nowhere.
WITH chosen AS (
    SELECT DISTINCT chunk.memory_id, chunk.chunk_number
    FROM unnest(%(memory_ids)s::bigint[], %(chunk_numbers)s::integer[]) AS given (memory_id, chunk_number)
    JOIN memory_context.agent_memory_chunks AS chunk
        ON chunk.user_id = %(user_id)s
        AND chunk.memory_id = given.memory_id
        AND chunk.chunk_number = given.chunk_number
)
SELECT
    chosen.memory_id, chosen.chunk_number,
    CASE WHEN chosen.chunk_number > 0 THEN chosen.memory_id ELSE before.memory_id END AS before_id,
    CASE WHEN chosen.chunk_number > 0 THEN chosen.chunk_number - 1 ELSE before.chunk_number END AS before_number,
    coalesce(following.memory_id, after.memory_id) AS after_id,
    coalesce(following.chunk_number, 0) AS after_number
FROM chosen
JOIN memory_context.agent_memories AS item
    ON item.user_id = %(user_id)s
    AND item.id = chosen.memory_id
    AND item.is_active
    AND memory_context.may_read(
        item, %(reader_agent)s, %(reader_session)s, %(within_agent)s, %(within_session)s, %(only_keys)s
    )
LEFT JOIN memory_context.agent_memory_chunks AS following
    ON following.user_id = %(user_id)s
    AND following.memory_id = chosen.memory_id
    AND following.chunk_number = chosen.chunk_number + 1
LEFT JOIN LATERAL (
    SELECT previous.id AS memory_id, (
        SELECT max(chunk.chunk_number) FROM memory_context.agent_memory_chunks AS chunk
        WHERE chunk.user_id = %(user_id)s AND chunk.memory_id = previous.id
    ) AS chunk_number
    FROM memory_context.agent_memories AS previous
    WHERE previous.user_id = %(user_id)s
        AND previous.session_id = item.session_id AND item.session_id <> ''
        AND previous.agent_id = item.agent_id
        AND previous.id < item.id
        AND previous.is_active
        AND memory_context.may_read(
            previous, %(reader_agent)s, %(reader_session)s, %(within_agent)s, %(within_session)s, %(only_keys)s
        )
    ORDER BY previous.id DESC
    LIMIT 1
) AS before ON chosen.chunk_number = 0
LEFT JOIN LATERAL (
    SELECT next.id AS memory_id
    FROM memory_context.agent_memories AS next
    WHERE next.user_id = %(user_id)s
        AND next.session_id = item.session_id AND item.session_id <> ''
        AND next.agent_id = item.agent_id
        AND next.id > item.id
        AND next.is_active
        AND memory_context.may_read(
            next, %(reader_agent)s, %(reader_session)s, %(within_agent)s, %(within_session)s, %(only_keys)s
        )
    ORDER BY next.id
    LIMIT 1
) AS after ON following.memory_id IS NULL;

-- name: select_scores_by_terms :many
-- BM25 of the passages of given items.
SELECT
    found.memory_id,
    posting >> 16 AS chunk_number,
    sum(memory_context.bm25(posting, known.document_frequency, %(chunk_count)s)) AS score
FROM unnest(%(terms)s::text[], %(document_frequencies)s::bigint[]) AS known (term, document_frequency)
JOIN memory_context.agent_memory_terms AS found
    ON found.user_id = %(user_id)s AND found.term = known.term AND found.memory_id = ANY(%(item_ids)s::bigint[])
CROSS JOIN unnest(found.postings) AS posting
GROUP BY found.memory_id, posting >> 16;

-- name: select_scores_by_embedding :many
-- Length of given passages, and how near they are; null without an embedding or when nothing is to be compared.
SELECT
    chunk.memory_id, chunk.chunk_number, chunk.end_char - chunk.start_char AS length,
    1 - (embedded.embedding <=> %(embedding)s::halfvec) AS score
FROM unnest(%(memory_ids)s::bigint[], %(chunk_numbers)s::integer[]) AS given (memory_id, chunk_number)
JOIN memory_context.agent_memory_chunks AS chunk
    ON chunk.user_id = %(user_id)s AND chunk.memory_id = given.memory_id AND chunk.chunk_number = given.chunk_number
LEFT JOIN memory_context.agent_memory_embeddings AS embedded
    ON embedded.user_id = %(user_id)s
    AND embedded.embedding_model = %(embedding_model)s
    AND embedded.memory_id = given.memory_id
    AND embedded.chunk_number = given.chunk_number;

-- name: select_passages :many
-- Text and span of passages, with the items they are of, as far as the reader may read them.
SELECT
    item.id, item.memory_key, item.agent_id, item.session_id, item.memory_type, item.source, item.summary, item.token_count,
    item.content_bytes, item.content_sha256, item.tags, item.related_to, item.content_metadata, item.created_at,
    item.updated_at, item.is_active, item.is_private, item.origin,
    NULL::text AS content, NULL::bytea AS content_raw,
    chunk.chunk_number, chunk.start_char, chunk.end_char, chunk.start_line, chunk.end_line, chunk.text
FROM unnest(%(memory_ids)s::bigint[], %(chunk_numbers)s::integer[]) AS given (memory_id, chunk_number)
JOIN memory_context.agent_memory_chunks AS chunk
    ON chunk.user_id = %(user_id)s AND chunk.memory_id = given.memory_id AND chunk.chunk_number = given.chunk_number
JOIN memory_context.agent_memories AS item
    ON item.user_id = %(user_id)s
    AND item.id = chunk.memory_id
    AND item.is_active
    AND memory_context.may_read(
        item, %(reader_agent)s, %(reader_session)s, %(within_agent)s, %(within_session)s, %(only_keys)s
    );

-- name: select_unindexed :many
-- The newest items whose text is not indexed yet, those first whose names match a pattern, and the beginning of each.
-- Chosen first, so that no content is read only to be sorted.
WITH chosen AS (
    SELECT
        item.id,
        concat_ws(' ', item.memory_key, item.summary, item.source, array_to_string(item.tags, ' '))
            ILIKE ANY(%(patterns)s::text[]) AS is_named
    FROM memory_context.index_jobs AS job
    JOIN memory_context.agent_memories AS item
        ON item.user_id = %(user_id)s AND item.id = job.memory_id
        AND memory_context.meets(
            item, %(types)s, %(sources)s, %(tags)s, %(created_after)s, %(created_before)s, %(agent_id)s, %(session_id)s,
            %(related_to)s, %(related_keys)s
        )
        AND memory_context.may_read(
            item, %(reader_agent)s, %(reader_session)s, %(within_agent)s, %(within_session)s, %(only_keys)s
        )
    WHERE job.user_id = %(user_id)s AND NOT job.is_text_done
    ORDER BY is_named DESC, item.id DESC
    LIMIT %(limit)s
)
SELECT
    item.id, item.memory_key, item.agent_id, item.session_id, item.memory_type, item.source, item.summary, item.token_count,
    item.content_bytes, item.content_sha256, item.tags, item.related_to, item.content_metadata, item.created_at,
    item.updated_at, item.is_active, item.is_private, item.origin,
    left(item.content, %(characters_limit)s) AS content,
    substring(item.content_raw FOR %(characters_limit)s) AS content_raw
FROM chosen
JOIN memory_context.agent_memories AS item ON item.user_id = %(user_id)s AND item.id = chosen.id
ORDER BY chosen.is_named DESC, chosen.id DESC;
