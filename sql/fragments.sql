-- What several statements share. `{name(word)}` in a query or fragment stands for a fragment, with this word in place of
-- the one that stands beside its name here. What runs is the whole text: the planner sees no difference.

-- fragment: may_read(item)
-- Whether the reader may read an item.
memory_context.may_read(
    item, %(reader_agent)s, %(reader_session)s, %(within_agent)s, %(within_session)s, %(only_keys)s
)

-- fragment: meets(item)
-- Whether an item meets the criteria.
(
    memory_context.meets(
        item, %(types)s, %(sources)s, %(tags)s, %(created_after)s, %(created_before)s, %(agent_id)s, %(session_id)s,
        %(related_to)s, %(related_keys)s
    )
    AND (%(conversation)s::boolean IS NULL OR (item.memory_type = 'conversation') = %(conversation)s)
)

-- fragment: is_indexed(item)
-- Whether an item's text is indexed.
item.id NOT IN (SELECT id FROM memory_context.jobs WHERE user_id = %(user_id)s AND kind = 'index')

-- fragment: has_beginning(line)
-- Whether a line has the first words of a forgotten message.
EXISTS (SELECT FROM unnest(%(beginnings)s::text[]) AS beginning WHERE strpos(line, beginning) > 0)

-- fragment: in_session(session_id)
-- Whether a row is of the session or of one of its sub-agents, whose sessions begin with its name and a slash.
(session_id = %(session_id)s OR (session_id >= %(session_id)s || '/' AND session_id < %(session_id)s || '0'))

-- fragment: item_columns(item)
-- An item, without its content.
item.id, item.memory_key, item.agent_id, item.session_id, item.memory_type, item.source, item.summary, item.token_count,
    item.content_bytes, item.tags, item.related_to, item.content_metadata, item.created_at, item.updated_at,
    item.is_active, item.is_private, item.origin, item.valid_from, item.valid_until, item.superseded_by

-- fragment: session_title(item)
-- The title of an item's session.
(
    SELECT session.title FROM memory_context.agent_sessions AS session
    WHERE session.user_id = %(user_id)s AND session.session_id = item.session_id
) AS session_title

-- fragment: other_keys(item)
-- The keys of other items with the same content that the reader may read, the newest first. OFFSET keeps the planner from
-- reading all items in the order of their ids.
ARRAY(
    SELECT memory_key FROM (
        SELECT other.id, other.memory_key FROM memory_context.agent_memories AS other
        WHERE other.user_id = %(user_id)s
            AND other.content_id = item.content_id
            AND other.id <> item.id
            AND other.memory_type <> 'user_secret'
            AND {may_read(other)}
        OFFSET 0
    ) AS other
    ORDER BY id DESC
    LIMIT 20
) AS other_keys

-- fragment: readable()
-- The items that meet the criteria and that the reader may read, once they are indexed.
readable AS MATERIALIZED (
    SELECT item.id, item.content_id FROM memory_context.agent_memories AS item
    WHERE item.user_id = %(user_id)s AND {meets(item)} AND {may_read(item)} AND {is_indexed(item)}
)

-- fragment: within_reach()
-- The same without criteria.
reachable AS MATERIALIZED (
    SELECT item.id, item.content_id FROM memory_context.agent_memories AS item
    WHERE item.user_id = %(user_id)s AND item.is_active AND item.memory_type <> 'user_secret'
        AND {may_read(item)} AND {is_indexed(item)}
)

-- fragment: nearest_of_all()
-- The passages nearest in meaning, all that count compared. OFFSET keeps the model's index out. The spread of all similarities
-- says how much one of them tells.
own AS MATERIALIZED (
    SELECT content_id, chunk_number, 1 - (embedding <=> %(embedding)b::halfvec) AS score
    FROM memory_context.agent_memory_embeddings
    WHERE user_id = %(user_id)s AND embedding_model = %(embedding_model)s AND content_id {contents}
    OFFSET 0
), spread AS MATERIALIZED (
    SELECT avg(score) AS mean, stddev_pop(score) AS deviation FROM own WHERE score <= 2
), nearest AS MATERIALIZED (
    SELECT content_id, chunk_number, score FROM own WHERE score <= 2 ORDER BY score DESC LIMIT %(nearest)s
)

-- fragment: nearest_by_index()
-- The same by the model's index, with the spread of the user's oldest and newest embeddings.
nearest AS MATERIALIZED (
    SELECT content_id, chunk_number, 1 - (embedding <=> %(embedding)b::halfvec) AS score
    FROM memory_context.agent_memory_embeddings
    WHERE user_id = %(user_id)s AND embedding_model = {model}
        AND content_id {not_hidden_contents()}
    ORDER BY embedding::halfvec({dimensions}) <=> %(embedding)b::halfvec({dimensions})
    LIMIT %(nearest)s
), spread AS MATERIALIZED (
    SELECT avg(score) AS mean, stddev_pop(score) AS deviation
    FROM (
        (
            SELECT 1 - (embedding <=> %(embedding)b::halfvec) AS score
            FROM memory_context.agent_memory_embeddings
            WHERE user_id = %(user_id)s AND embedding_model = {model} AND content_id {not_hidden_contents()}
            ORDER BY user_id, embedding_model, content_id, chunk_number
            LIMIT %(sample)s
        )
        UNION ALL
        (
            SELECT 1 - (embedding <=> %(embedding)b::halfvec)
            FROM memory_context.agent_memory_embeddings
            WHERE user_id = %(user_id)s AND embedding_model = {model} AND content_id {not_hidden_contents()}
            ORDER BY user_id DESC, embedding_model DESC, content_id DESC, chunk_number DESC
            LIMIT %(sample)s
        )
    ) AS sample
    WHERE score <= 2
)

-- fragment: is_beside(item)
-- Whether an item can stand beside another in its session, once it is indexed.
item.is_active AND item.memory_type <> 'user_secret'
    AND {meets(item)}
    AND {may_read(item)}
    AND NOT EXISTS (
        SELECT FROM memory_context.jobs AS job
        WHERE job.user_id = %(user_id)s AND job.id = item.id AND job.kind = 'index'
    )

-- fragment: known_without_hidden()
-- How many passages of the user's the reader may know of.
chunk_count - (
    SELECT count(*) FROM memory_context.agent_memory_chunks
    WHERE user_id = %(user_id)s AND content_id IN (SELECT content_id FROM hidden)
)

-- fragment: known_within_reach()
-- The same for a reader with a narrow reach, who knows of nothing else.
(
    SELECT count(*) FROM memory_context.agent_memory_chunks
    WHERE user_id = %(user_id)s AND content_id {reachable_contents()}
)

-- fragment: not_hidden_contents()
-- After a content: it is one that the reader may know of.
NOT IN (SELECT content_id FROM hidden)

-- fragment: not_hidden_items()
-- The same after an item.
NOT IN (
    SELECT memory_id FROM memory_context.hidden_items(%(user_id)s, %(reader_agent)s, %(reader_session)s)
)

-- fragment: readable_contents()
-- After a content: an item of it is readable.
IN (SELECT content_id FROM readable)

-- fragment: readable_items()
-- The same after an item.
IN (SELECT id FROM readable)

-- fragment: reachable_contents()
-- After a content: an item of it is within reach.
IN (SELECT content_id FROM reachable)

-- fragment: reachable_items()
-- The same after an item.
IN (SELECT id FROM reachable)

-- fragment: within_session(session_id)
-- Whether a row is of the session that is asked for, if one is.
(%(session_id)s::text IS NULL OR {in_session(session_id)})

-- fragment: within_thread(thread_id)
-- The same by the id of its thread, which has no sub-agents.
(%(session_id)s::text IS NULL OR thread_id = %(session_id)s)

-- fragment: within_nothing()
-- Rows that are of no session.
%(session_id)s::text IS NULL

-- fragment: has_live_parent()
-- Whether what a row belongs to is there and was not deleted.
EXISTS (
    SELECT FROM memory_context.{parent} AS parent
    WHERE parent.user_id = %(user_id)s AND parent.{session} = one.{session} AND parent.deleted_at IS NULL
)

-- fragment: is_not_deleted()
-- Whether the session was not deleted.
NOT EXISTS (
    SELECT FROM memory_context.agent_sessions
    WHERE user_id = %(user_id)s AND session_id = %(session_id)s AND deleted_at IS NOT NULL
)

-- fragment: is_live_session()
-- Whether the session is there and was not deleted.
EXISTS (
    SELECT FROM memory_context.agent_sessions
    WHERE user_id = %(user_id)s AND session_id = %(session_id)s AND deleted_at IS NULL
)

-- fragment: is_as_read()
-- Whether the session is live and its batch is what it was when it was read.
{is_live_session()} AND EXISTS (
    SELECT FROM memory_context.recent_conversation_history
    WHERE user_id = %(user_id)s
        AND session_id = %(session_id)s
        AND kind = 'transcript'
        AND agent_id = %(agent_id)s
        AND branch = %(branch)s
        AND sequence = %(sequence)s
        AND batch_sha256 = %(batch_sha256)b
)

-- fragment: takes_its_messages(session)
-- Whether all messages of a session that are searched are among the items that go with it.
NOT EXISTS (
    SELECT FROM memory_context.agent_memories AS item
    WHERE item.user_id = %(user_id)s
        AND item.session_id = session.session_id
        AND item.memory_type = 'conversation'
        AND item.is_active
        AND item.id <> ALL(%(memory_ids)s::bigint[])
)

-- fragment: is_old(session)
-- Whether nobody archived in a session, or in one above it, since a time.
session.last_activity_at < %(cutoff)s
        AND (session.deleted_at IS NULL OR session.deleted_at < %(cutoff)s)
        AND (position('/' IN session.session_id) = 0 OR NOT EXISTS (
            SELECT FROM memory_context.agent_sessions AS above
            WHERE above.user_id = %(user_id)s
                AND above.last_activity_at >= %(cutoff)s
                AND above.deleted_at IS NULL
                AND starts_with(session.session_id, above.session_id || '/')
        ))

-- fragment: forget_prunable()
-- After the ids of items that are locked and to be forgotten: it also takes away their names and jobs.
no_jobs AS (
    DELETE FROM memory_context.jobs
    WHERE user_id = %(user_id)s AND kind IN ('index', 'embed') AND id IN (SELECT id FROM prunable)
), no_names AS (
    DELETE FROM memory_context.agent_memory_names
    WHERE user_id = %(user_id)s AND memory_id IN (SELECT id FROM prunable)
)
UPDATE memory_context.agent_memories
{set_forgotten()}
WHERE user_id = %(user_id)s AND id IN (SELECT id FROM prunable)
RETURNING id

-- fragment: set_forgotten()
-- What makes an item a tombstone.
SET content_id = NULL, content_bytes = 0, token_count = 0, summary = '', tags = '{}', related_to = '{}',
    content_metadata = '{}', is_active = false, shared_with = '{}', model_summary = NULL, valid_from = NULL,
    valid_until = NULL, superseded_by = NULL, updated_at = now()

-- fragment: active_sessions()
-- Sessions that were used since the time up to which is pruned, and the keys that their archives refer to.
active AS MATERIALIZED (
    SELECT session_id FROM memory_context.agent_sessions
    WHERE user_id = %(user_id)s AND last_activity_at >= %(cutoff)s AND deleted_at IS NULL
), referred AS MATERIALIZED (
    SELECT unnest(batch.memory_keys) AS memory_key
    FROM active
    JOIN memory_context.recent_conversation_history AS batch
        ON batch.user_id = %(user_id)s AND batch.session_id = active.session_id AND batch.kind = 'transcript'
)

-- fragment: is_of_no_active_session(item)
-- Whether no active session has an item: as its own, as a sub-agent's, or in what was archived of it.
item.session_id NOT IN (SELECT session_id FROM active)
        AND (
            position('/' IN item.session_id) = 0
            OR NOT EXISTS (SELECT FROM active WHERE starts_with(item.session_id, active.session_id || '/'))
        )
        AND item.memory_key NOT IN (SELECT memory_key FROM referred)

-- fragment: is_statement(item)
-- Whether an item is user memory: a user type with a trusted origin.
item.is_active AND item.memory_type IN ('user_preference', 'user_fact')
    AND item.origin IN ('user_words', 'user_edit', 'application')

-- fragment: holds_since(item)
-- Since when a statement holds.
coalesce(item.valid_from, item.created_at)

-- fragment: last_line(session)
-- The line of an agent whose last message is the newest: lines that differ were written by several processes, and one that
-- holds all messages of another also has later ones.
(
    SELECT branch FROM memory_context.recent_conversation_history
    WHERE user_id = %(user_id)s
        AND session_id = session.session_id
        AND kind = 'transcript'
        AND agent_id = session.agent_id
    GROUP BY branch
    ORDER BY max(end_timestamp) DESC, branch = '' DESC, max(archived_at) DESC
    LIMIT 1
)
