"""Databases as earlier versions left them, to be migrated by a test."""

import psycopg

from memory_context.store.sqlfiles import load_migrations

INSERT_ITEMS = b"""
    INSERT INTO memory_context.agent_memories (
        user_id, memory_key, agent_id, session_id, memory_type, source, summary, content, content_bytes, token_count,
        content_sha256, tags, content_metadata
    )
    SELECT
        %s, 'k' || i, '', '', 'custom', '', '', 'text ' || i, 6, 1, sha256(convert_to('text ' || i, 'UTF8')), '{}', '{}'
    FROM generate_series(1, %s) AS i
"""
INSERT_MIGRATION = b"INSERT INTO memory_context.schema_migrations (version, name, checksum) VALUES (%s, %s, %s)"


def migrate_to(url: str, version: int) -> None:
    """Bring an empty database to an earlier version of the schema, as the superuser."""
    with psycopg.connect(url) as connection:
        connection.execute("CREATE EXTENSION vector")
        for migration in load_migrations():
            if migration.version <= version:
                connection.execute(migration.script.encode())
                record = (migration.version, migration.name, migration.checksum)
                connection.execute(INSERT_MIGRATION, record)


def fill_old(url: str, user: str, items: int) -> None:
    """Store items in a database of version 1 to 9."""
    with psycopg.connect(url) as connection:
        connection.execute(INSERT_ITEMS, (user, items))
