"""A database as large as a busy one: made by the superuser in SQL, in a few seconds."""

import hashlib

import psycopg
from psycopg import sql

MODEL = "crowd/8"
DIMENSIONS = 8
WORDS = 2000
TOPICS = 64
"""How many points of meaning there are; every passage is near one of them."""

# Neither triggers nor foreign keys: what comes out is right by construction, and to check it takes longer than to make.
_FILL = """
SET session_replication_role = replica;
SET synchronous_commit = off;
SET maintenance_work_mem = '512MB';
SET work_mem = '256MB';
SET jit = off;
SELECT setseed(0.5);
CREATE TEMPORARY TABLE crowd AS
SELECT * FROM unnest(%(users)s::text[], %(items)s::int[], %(chunks)s::int[]) AS crowd (user_id, items, chunks);
INSERT INTO memory_context.memory_users (user_id) SELECT user_id FROM crowd;
INSERT INTO memory_context.agent_memory_contents (user_id, content, content_bytes, content_sha256, beginning_sha256)
SELECT user_id, 'text', 4, sha256(convert_to(i::text, 'UTF8')), sha256('text')
FROM crowd, generate_series(1, items) AS i;
INSERT INTO memory_context.agent_memories (
    user_id, memory_key, agent_id, session_id, memory_type, source, origin, summary, content_id, content_bytes,
    token_count, tags, content_metadata
)
SELECT crowd.user_id, 'k' || i, 'agent', 'session' || i %% 10, CASE i %% 2 WHEN 0 THEN 'custom' ELSE 'article' END,
    'made', 'tool', '', content.id, 4, 1, ARRAY['t' || i %% 3], '{}'
FROM crowd CROSS JOIN generate_series(1, items) AS i
JOIN memory_context.agent_memory_contents AS content
    ON content.user_id = crowd.user_id AND content.content_sha256 = sha256(convert_to(i::text, 'UTF8'));
INSERT INTO memory_context.ui_threads (user_id, thread_id)
SELECT user_id, user_id || '-' || i FROM crowd, generate_series(1, least(items, 50)) AS i;
INSERT INTO memory_context.agent_memory_chunks
SELECT user_id, id, number, number * 100, number * 100 + 100, number + 1, number + 1, 'text of ' || id,
    NULL, sha256(convert_to('text of ' || id, 'UTF8'))
FROM crowd JOIN memory_context.agent_memory_contents USING (user_id), generate_series(0, chunks - 1) AS number
ORDER BY user_id, id, number;
INSERT INTO memory_context.agent_memory_terms
SELECT user_id, term, content_id, array_agg(chunk_number * 65536 + 256 + 80)
FROM (
    SELECT DISTINCT user_id, content_id, chunk_number, 'w' || floor(power(%(words)s, random()))::int AS term
    FROM memory_context.agent_memory_chunks, generate_series(1, 4) AS word
) AS occurrence GROUP BY user_id, term, content_id ORDER BY user_id, term, content_id;
CREATE TEMPORARY TABLE topics AS
SELECT topic, array_agg(random() - 0.5 ORDER BY place) AS middle
FROM generate_series(1, %(topics)s) AS topic, generate_series(1, %(dimensions)s) AS place GROUP BY topic;
INSERT INTO memory_context.agent_memory_embeddings
SELECT
    user_id, %(model)s, content_id, chunk_number,
    array_agg(value + 0.5 * (random() - 0.5) ORDER BY place)::real[]::halfvec
FROM memory_context.agent_memory_chunks
JOIN topics ON topic = 1 + (content_id * 31 + chunk_number) %% %(topics)s,
    unnest(middle) WITH ORDINALITY AS part (value, place)
GROUP BY user_id, content_id, chunk_number;
INSERT INTO memory_context.agent_memory_names
SELECT user_id, 'k' || 1 + id %% 100, content_id, id, 336 FROM memory_context.agent_memories;
INSERT INTO memory_context.agent_memory_statistics
SELECT user_id, items * chunks FROM crowd;
"""

# As `ensure_embedding_index` makes it, with less effort (16, 64), which takes five times as long.
_INDEX = """
CREATE INDEX {name} ON memory_context.agent_memory_embeddings
USING hnsw ((embedding::halfvec({dimensions})) halfvec_cosine_ops) WITH (m = 12, ef_construction = 40)
WHERE embedding_model = {model}
"""


def fill(url: str, users: dict[str, tuple[int, int]]) -> None:
    """Give each user so many items of so many passages, and bring the planner's statistics up to date.

    Args:
        url: The superuser's address of a database without rows.
        users: Number of items and of passages in each, by user.
    """
    params = {
        "users": list(users),
        "items": [items for items, _ in users.values()],
        "chunks": [chunks for _, chunks in users.values()],
        "words": WORDS,
        "model": MODEL,
        "dimensions": DIMENSIONS,
        "topics": TOPICS,
    }
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in _FILL.strip().rstrip(";").split(";\n"):
            psycopg.ClientCursor(connection).execute(statement.encode(), params)
        name = "agent_memory_embeddings_" + hashlib.sha256(MODEL.encode()).hexdigest()[:16]
        connection.execute(
            sql.SQL(_INDEX).format(
                name=sql.Identifier(name), dimensions=sql.Literal(DIMENSIONS), model=sql.Literal(MODEL)
            )
        )
        connection.execute("VACUUM ANALYZE")
