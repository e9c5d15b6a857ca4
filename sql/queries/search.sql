-- Search: one statement returns the passages that score best by terms and meaning, with their texts and neighbours. Every
-- condition is an equality that an index serves under row-level security. Passages are of contents, and a content counts as far
-- as an item makes it known to the reader: hidden contents are left out of a search over everything; a narrow one reads those
-- of its items. Braces without parentheses: which of them count (`passages.ranking_statement`).

-- name: fetch_size :one
-- How many passages the user has, and how many embeddings about the index of a model holds.
SELECT
    coalesce((SELECT chunk_count FROM memory_context.agent_memory_statistics WHERE user_id = %(user_id)s), 0) AS own,
    coalesce((
        SELECT reltuples::float8 FROM pg_class
        WHERE oid = to_regclass(
            'memory_context.agent_memory_embeddings_'
            || left(encode(sha256(convert_to(%(embedding_model)s::text, 'UTF8')), 'hex'), 16)
        )
    ), 'Infinity') AS indexed;

-- name: select_related_keys :many
-- What an item was linked to when it was stored, if the reader may read it.
SELECT unnest(item.related_to) AS memory_key FROM memory_context.agent_memories AS item
WHERE item.user_id = %(user_id)s
    AND item.memory_key = %(memory_key)s
    AND {may_read(item)};

-- name: set_nearest_scope :exec
-- How far the approximate search looks, for this transaction, which sorts no passages that an index has in order.
SELECT set_config('hnsw.ef_search', %(ef_search)s::text, true), set_config('enable_sort', 'off', true);

-- name: select_candidates :many
-- The best passage of each of the items that score best by terms (BM25, k1 = 1.2, b = 0.75) and by evidence of meaning
-- (`QueryProfile.evidence`), and, of the first, the messages or items before and after them in the session: all with their texts
-- and items. What was forgotten, is not indexed, or the reader may not read, stands nowhere. Each row tells how frequent the
-- terms are in what the reader may know, the spread of meaning, and whether text waits to be indexed that is not put off; one row
-- without a passage if none is found. Only the rarest terms find. LATERAL with OFFSET fixes the plan: a row at a time by its
-- index, also for a user whom the planner has no statistics of. Occurrences are term number * 256 + count. Names find the first
-- passage, unless it holds them itself (a posting without occurrences), and come with each passage of their content. The row of
-- an item is read once and carried along.
WITH hidden AS MATERIALIZED (
    SELECT content_id FROM memory_context.hidden_contents(%(user_id)s, %(reader_agent)s, %(reader_session)s)
), {readable}{nearest}, known AS MATERIALIZED (
    SELECT
        coalesce((
            SELECT {known_count} FROM memory_context.agent_memory_statistics WHERE user_id = %(user_id)s
        ), 0) AS passages,
        EXISTS (
            SELECT FROM memory_context.jobs
            WHERE user_id = %(user_id)s AND kind = 'index' AND NOT is_failed AND (claim IS NOT NULL OR due_at <= now())
        ) AS is_pending
), counted AS MATERIALIZED (
    SELECT given.*, coalesce((
        SELECT sum(passages) FROM memory_context.agent_memory_terms
        WHERE user_id = %(user_id)s AND term = given.term AND content_id {known_contents}
    ), 0) + (
        SELECT count(DISTINCT content_id) FROM memory_context.agent_memory_names
        WHERE user_id = %(user_id)s AND term = given.term AND posting >= 256 AND memory_id {known_items}
    ) AS frequency
    FROM unnest(%(terms)s::text[], %(emphases)s::float8[]) WITH ORDINALITY AS given (term, emphasis, number)
), wanted AS MATERIALIZED (
    SELECT
        term, number::integer,
        emphasis * ln(1 + (greatest(passages, frequency) - frequency + 0.5::float8) / (frequency + 0.5::float8)) AS weight,
        row_number() OVER rarest = 1 OR sum(frequency) OVER rarest <= %(postings_limit)s AS finds
    FROM counted CROSS JOIN known
    WHERE frequency > 0
    WINDOW rarest AS (ORDER BY frequency, term COLLATE "C" ROWS UNBOUNDED PRECEDING)
), named AS MATERIALIZED (
    SELECT named.content_id, wanted.number, wanted.weight, max(named.posting) AS posting
    FROM wanted
    CROSS JOIN LATERAL (
        SELECT content_id, memory_id, posting FROM memory_context.agent_memory_names
        WHERE user_id = %(user_id)s AND term = wanted.term
        OFFSET 0
    ) AS named
    WHERE wanted.finds AND named.memory_id {items}
    GROUP BY named.content_id, wanted.number, wanted.weight
), posted AS MATERIALIZED (
    SELECT found.content_id, wanted.number, wanted.weight, unnest(found.postings) AS posting
    FROM wanted
    CROSS JOIN LATERAL (
        SELECT content_id, postings FROM memory_context.agent_memory_terms
        WHERE user_id = %(user_id)s AND term = wanted.term
        OFFSET 0
    ) AS found
    WHERE wanted.finds AND found.content_id {contents}
    UNION ALL
    SELECT * FROM named WHERE posting >= 256
), scored AS (
    SELECT
        content_id, posting >> 16 AS chunk_number,
        weight * 2.2::float8 * ((posting >> 8) & 255) / (
            ((posting >> 8) & 255)
            + 1.2::float8 * (0.25::float8 + 0.75::float8 * (2::float8 ^ ((posting & 255) / 16::float8) - 1) / 120)
        ) AS score
    FROM posted
    UNION ALL
    SELECT
        content_id, chunk_number, CASE WHEN deviation > 0 AND score > mean THEN
            passages / (passages + 10::float8) * ((score - mean) / deviation) ^ 2 / 2
        ELSE 0 END
    FROM nearest CROSS JOIN spread CROSS JOIN known
), best AS (
    SELECT content_id, chunk_number, sum(score) AS score FROM scored GROUP BY content_id, chunk_number
), chosen AS MATERIALIZED (
    SELECT
        content_id, chunks[1] AS chunk_number, scores[2:3] AS others,
        row_number() OVER (ORDER BY scores[1] DESC, content_id DESC) AS standing
    FROM (
        SELECT
            content_id, array_agg(chunk_number ORDER BY score DESC, chunk_number) AS chunks,
            array_agg(score ORDER BY score DESC, chunk_number) AS scores
        FROM best
        GROUP BY content_id
        ORDER BY max(score) DESC, content_id DESC
        LIMIT %(limit)s
    ) AS item
), beside AS MATERIALIZED (
    SELECT
        chosen.*, item.item, before.item AS before_item, before.content_id AS before_id,
        before.chunk_number AS before_number, after.item AS after_item, after.content_id AS after_id
    FROM chosen
    CROSS JOIN LATERAL (
        SELECT * FROM (
            SELECT item.id, item.session_id, item.agent_id, item.memory_type, item
            FROM memory_context.agent_memories AS item
            WHERE item.user_id = %(user_id)s
                AND item.content_id = chosen.content_id
                AND {meets(item)}
                AND {may_read(item)}
            OFFSET 0
        ) AS item
        ORDER BY id DESC
        LIMIT 1
    ) AS item
    LEFT JOIN LATERAL (
        SELECT previous AS item, previous.content_id, (
            SELECT max(chunk.chunk_number) FROM memory_context.agent_memory_chunks AS chunk
            WHERE chunk.user_id = %(user_id)s AND chunk.content_id = previous.content_id
        ) AS chunk_number
        FROM memory_context.agent_memories AS previous
        WHERE chosen.standing <= %(with_neighbours)s
            AND chosen.chunk_number = 0
            AND item.session_id <> ''
            AND previous.user_id = %(user_id)s
            AND previous.session_id = item.session_id
            AND previous.agent_id = item.agent_id
            AND previous.id < item.id
            AND (previous.memory_type = 'conversation') = (item.memory_type = 'conversation')
            AND {is_beside(previous)}
        ORDER BY previous.id DESC
        LIMIT 1
    ) AS before ON true
    LEFT JOIN LATERAL (
        SELECT next AS item, next.content_id
        FROM memory_context.agent_memories AS next
        WHERE chosen.standing <= %(with_neighbours)s
            AND item.session_id <> ''
            AND next.user_id = %(user_id)s
            AND next.session_id = item.session_id
            AND next.agent_id = item.agent_id
            AND next.id > item.id
            AND (next.memory_type = 'conversation') = (item.memory_type = 'conversation')
            AND {is_beside(next)}
            AND NOT EXISTS (
                SELECT FROM memory_context.agent_memory_chunks AS following
                WHERE following.user_id = %(user_id)s AND following.content_id = chosen.content_id
                    AND following.chunk_number = chosen.chunk_number + 1
            )
        ORDER BY next.id
        LIMIT 1
    ) AS after ON true
), pool AS MATERIALIZED (
    SELECT DISTINCT ON (content_id, chunk_number) *
    FROM (
        SELECT content_id, chunk_number, item, standing, others, before_id, before_number, after_id FROM beside
        UNION ALL
        SELECT before_id, before_number, before_item, NULL, NULL, NULL, NULL, NULL FROM beside
        WHERE before_number IS NOT NULL
        UNION ALL
        SELECT after_id, 0, after_item, NULL, NULL, NULL, NULL, NULL FROM beside
        WHERE after_id IS NOT NULL
    ) AS passage
    ORDER BY content_id, chunk_number, standing, (item).id DESC
), held AS (
    SELECT content_id, number, posting FROM posted
    UNION ALL
    SELECT given.content_id, wanted.number, unnest(frequent.postings)
    FROM wanted
    CROSS JOIN (SELECT DISTINCT content_id FROM pool) AS given
    CROSS JOIN LATERAL (
        SELECT postings FROM memory_context.agent_memory_terms
        WHERE user_id = %(user_id)s AND term = wanted.term AND content_id = given.content_id
        OFFSET 0
    ) AS frequent
    WHERE NOT wanted.finds
), said AS (
    SELECT content_id, posting >> 16 AS chunk_number, array_agg(number * 256 + ((posting >> 8) & 255)) AS occurrences
    FROM held
    WHERE (content_id, posting >> 16) IN (SELECT content_id, chunk_number FROM pool)
    GROUP BY content_id, posting >> 16
), called AS (
    SELECT content_id, array_agg(number) AS names FROM named
    WHERE content_id IN (SELECT content_id FROM pool)
    GROUP BY content_id
)
SELECT
    pool.content_id, pool.chunk_number, called.names, said.occurrences, near.score, chunk.start_char, chunk.end_char,
    pool.before_id, pool.before_number, pool.after_id, pool.standing, pool.others,
    known.passages AS known_count, known.is_pending, (SELECT count(*) FROM nearest) AS nearest_count,
    (SELECT array_agg(frequency ORDER BY number) FROM counted) AS frequencies, spread.mean, spread.deviation,
    chunk.start_line, chunk.end_line, chunk.text, chunk.shown_sha256,
    {item_columns(item)},
    {session_title(item)},
    {other_keys(item)}
FROM known
CROSS JOIN spread
LEFT JOIN (
    pool
    CROSS JOIN LATERAL (
        SELECT text, text_sha256 AS shown_sha256, start_char, end_char, start_line, end_line
        FROM memory_context.agent_memory_chunks
        WHERE user_id = %(user_id)s AND content_id = pool.content_id AND chunk_number = pool.chunk_number
        OFFSET 0
    ) AS chunk
    CROSS JOIN LATERAL (SELECT (pool.item).*) AS item
) ON true
LEFT JOIN LATERAL (
    SELECT 1 - (embedding <=> %(embedding)b::halfvec) AS score FROM memory_context.agent_memory_embeddings
    WHERE user_id = %(user_id)s
        AND embedding_model = %(embedding_model)s
        AND content_id = pool.content_id
        AND chunk_number = pool.chunk_number
    OFFSET 0
) AS near ON true
LEFT JOIN said ON said.content_id = pool.content_id AND said.chunk_number = pool.chunk_number
LEFT JOIN called ON called.content_id = pool.content_id;
