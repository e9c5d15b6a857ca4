"""Rows of the database: read, altered and counted."""

from typing import Any

from tests.conftest import Server, database_of


def row_counts(server: Server, url: str, user: str) -> dict[str, int]:
    """Return how many rows each table with a user has of this one."""
    name = database_of(url)
    tables = server.execute(
        """SELECT relname::text FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
        WHERE relnamespace = 'memory_context'::regnamespace AND relkind IN ('r', 'p') AND attname = 'user_id'""",
        name,
    )
    count = "SELECT count(*) FROM memory_context.{} WHERE user_id = '{}'"
    return {str(table): server.execute(count.format(table, user), name)[0][0] for (table,) in tables}  # type: ignore[misc]


def alter(server: Server, database_url: str, statement: str) -> None:
    server.execute(statement, database_of(database_url))


def make_newer(server: Server, url: str) -> None:
    """Let a database have seen a migration of a version to come."""
    server.execute(
        "INSERT INTO memory_context.schema_migrations (version, name, checksum) VALUES (99, '0099_later', 'x')",
        database_of(url),
    )


Row = tuple[Any, ...]


def transcript_rows(server: Server, database_url: str, columns: str) -> list[Row]:
    """Return columns of the archived transcripts, in order."""
    return server.execute(
        f"SELECT {columns} FROM memory_context.recent_conversation_history WHERE kind = 'transcript' ORDER BY sequence",
        database_of(database_url),
    )
