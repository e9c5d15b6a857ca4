"""A database as large as a busy one: made by the superuser in SQL, in a few seconds."""

import psycopg

MODEL = "crowd/16"
DIMENSIONS = 16
WORDS = 2000

_FILL = """
INSERT INTO memory_context.memory_users (user_id) VALUES (%(user)s);
INSERT INTO memory_context.agent_memories (
    user_id, memory_key, agent_id, session_id, memory_type, source, summary, content, content_bytes, token_count,
    content_sha256, tags, content_metadata
)
SELECT %(user)s, 'k' || i, 'agent', 'session' || i %% 10, CASE i %% 2 WHEN 0 THEN 'custom' ELSE 'article' END, 'made', '',
    'text', 4, 1, sha256(convert_to(i::text, 'UTF8')), ARRAY['t' || i %% 3], '{}'
FROM generate_series(1, %(items)s) AS i;
INSERT INTO memory_context.agent_memory_chunks
SELECT %(user)s, id, number, number * 100, number * 100 + 100, number + 1, number + 1, 'text of ' || id
FROM memory_context.agent_memories, generate_series(0, %(chunks)s - 1) AS number WHERE user_id = %(user)s;
INSERT INTO memory_context.agent_memory_terms
SELECT %(user)s, term, memory_id, array_agg(chunk_number * 65536 + 256 + 80)
FROM (
    SELECT DISTINCT memory_id, chunk_number, 'w' || floor(power(%(words)s, random()))::int AS term
    FROM memory_context.agent_memory_chunks, generate_series(1, 12) AS word
    WHERE user_id = %(user)s
) AS occurrence GROUP BY term, memory_id;
INSERT INTO memory_context.agent_memory_embeddings
SELECT %(user)s, %(model)s, memory_id, chunk_number, (
    SELECT array_agg(random() - 0.5) FROM generate_series(1, %(dimensions)s + 0 * (chunk_number + memory_id))
)::real[]::halfvec
FROM memory_context.agent_memory_chunks WHERE user_id = %(user)s;
INSERT INTO memory_context.agent_memory_statistics
SELECT %(user)s, count(*) FROM memory_context.agent_memory_chunks WHERE user_id = %(user)s;
"""


def fill(url: str, users: dict[str, tuple[int, int]]) -> None:
    """Give each user so many items of so many passages, and bring the planner's statistics up to date.

    Args:
        url: The superuser's address.
        users: Number of items and of passages in each, by user.
    """
    with psycopg.connect(url, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off; SET maintenance_work_mem = '256MB'")
        for user, (items, chunks) in users.items():
            params = {
                "user": user,
                "items": items,
                "chunks": chunks,
                "words": WORDS,
                "model": MODEL,
                "dimensions": DIMENSIONS,
            }
            psycopg.ClientCursor(connection).execute(_FILL, params)
        cursor.execute("SELECT memory_context.ensure_embedding_index(%s, %s)", [MODEL, DIMENSIONS])
        cursor.execute("VACUUM ANALYZE")
