"""Bringing the schema to this version, and refusing one that this version does not know.

Promises: migrations only go forward, each in one transaction with its own record, under a lock that ends with it, so
that any number of processes may start at once; a file that changed after it ran is noticed; what a person has to do
is said in the `SchemaError`.
"""

from collections.abc import Sequence
from typing import Any

import psycopg

from memory_context.errors import SchemaError

from .connection import Connection
from .location import OWNER_URL_ENV
from .sqlfiles import load_migrations, load_queries

__all__ = ["is_current", "migrate", "vector_advice"]

_QUERIES = load_queries("schema")
_TRANSACTIONS = load_queries("transactions")
_OLDEST_SERVER = 15
_OLDEST_VECTOR = (0, 8)
_SOUND_VECTOR = (0, 8, 4)


async def migrate(connection: Connection, where: str, seconds: float) -> None:
    """Apply what is missing; only a look when nothing is.

    Args:
        connection: A connection of the owner.
        where: The place, for messages.
        seconds: How long one migration may take, with waiting for another process that migrates.

    Raises:
        SchemaError: The server lacks something, the login lacks rights, or the schema is newer than this version.
    """
    if await is_current(connection, where):
        return
    try:
        connection.allow(seconds)
        await _ensure_vector(connection)
        for migration in load_migrations():
            connection.allow(seconds)
            await connection.execute(_TRANSACTIONS["begin_write"])
            await connection.execute(_QUERIES["lock_migrations"])
            if migration.version not in await _applied(connection):  # another process may have been faster
                await connection.execute(migration.script.encode())
                record = {"version": migration.version, "name": migration.name, "checksum": migration.checksum}
                await connection.execute(_QUERIES["insert_migration"], record)
            await connection.execute(_TRANSACTIONS["commit"])
    except psycopg.errors.InsufficientPrivilege as error:
        raise SchemaError(
            f"login {connection.info.user!r} may not bring the schema memory_context up to date "
            f"({error.diag.message_primary}): give the URL of a login that may create schemas and roles, in "
            f"{OWNER_URL_ENV}, and start once ({where})"
        ) from error


async def is_current(connection: Connection, where: str) -> bool:
    """Whether all migrations have run here.

    Raises:
        SchemaError: The server cannot hold the schema, a migration's file changed, or the schema is too new.
    """
    server = await _fetch_server(connection)
    if server["server_version"] < _OLDEST_SERVER * 10_000:
        found = server["server_version"] // 10_000
        raise SchemaError(f"Postgres {_OLDEST_SERVER} or newer is needed, this server is {found}: upgrade it ({where})")
    if server["encoding"] != "UTF8":
        raise SchemaError(f"the database's encoding is {server['encoding']}: create it with ENCODING 'UTF8' ({where})")
    if server["vector_version"] is not None and _version(server["vector_version"]) < _OLDEST_VECTOR:
        raise SchemaError(
            f"pgvector 0.8 or newer is needed, this database has {server['vector_version']}: install a newer one and "
            f"run ALTER EXTENSION vector UPDATE ({where})"
        )
    if not server["has_schema"]:
        return False
    applied, known = await _applied(connection), load_migrations()
    if too_new := sorted(set(applied) - {migration.version for migration in known}):
        raise SchemaError(
            f"the schema is at version {too_new[-1]}, this memory_context knows {known[-1].version}: "
            f"upgrade it with pip install -U memory-context ({where})"
        )
    for migration in known:
        if applied.get(migration.version, migration.checksum) != migration.checksum:
            raise SchemaError(
                f"migration {migration.name} is not the one this database ran: install the version of memory_context "
                f"that created it, or start with an empty database ({where})"
            )
    return len(applied) == len(known)


async def _ensure_vector(connection: Connection) -> None:
    await connection.execute(_TRANSACTIONS["begin_write"])
    await connection.execute(_QUERIES["lock_migrations"])
    if (await _fetch_server(connection))["vector_version"] is None:
        try:
            await connection.execute(_QUERIES["create_vector_extension"])
        except psycopg.errors.InsufficientPrivilege as error:
            raise SchemaError(
                f"login {connection.info.user!r} may not install pgvector: a database administrator must run "
                f"CREATE EXTENSION vector; in the database {connection.info.dbname!r}"
            ) from error
        except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported) as error:
            raise SchemaError(
                "this server does not have pgvector: install it (such as the package postgresql-17-pgvector), "
                "then start again"
            ) from error
    await connection.execute(_TRANSACTIONS["commit"])


async def _applied(connection: Connection) -> dict[int, str]:
    if not (await _fetch_server(connection))["has_schema"]:
        return {}
    rows = await (await connection.execute(_QUERIES["select_applied_migrations"])).fetchall()
    return {row["version"]: row["checksum"] for row in rows}


async def _fetch_server(connection: Connection) -> dict[str, Any]:
    row = await (await connection.execute(_QUERIES["fetch_server"])).fetchone()
    assert row is not None  # it has exactly one row
    return row


def vector_advice(version: str | None, indexes: Sequence[str]) -> str | None:
    """Return what to do about a pgvector whose vacuum could damage HNSW indexes; None if it is recent enough.

    Args:
        version: Of the extension; None if it is not installed.
        indexes: The HNSW indexes in the schema.
    """
    if version is None or _version(version) >= _SOUND_VECTOR:
        return None
    rebuild = "".join(f" REINDEX INDEX CONCURRENTLY memory_context.{name};" for name in indexes)
    return (
        f"pgvector {version} could damage HNSW indexes on vacuum, so that search misses passages: install 0.8.4 or "
        f"newer, then run as the owner ALTER EXTENSION vector UPDATE;{rebuild}"
    )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdecimal())
