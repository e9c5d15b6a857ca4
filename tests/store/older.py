"""Databases as earlier versions left them, to be migrated by a test."""

import psycopg

from memory_context.store.sqlfiles import load_migrations

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
