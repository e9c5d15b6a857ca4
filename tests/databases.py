"""Databases with the schema and no rows, used by one test after another.

Copying one and dropping it costs ten times as much CPU as emptying it, and most tests leave nothing but rows. So a
database is emptied, of indexes of embeddings too, and used again, unless its test changed anything else: the schema,
privileges, roles, settings, statistics, or its size. Such a database is dropped, and so is one that somebody is still
connected to. The connection that empties it stays open, since beginning one costs more than its work; so does one of
the store of a test, for the store of the next.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count

import psycopg
from psycopg import sql
from psycopg.adapt import AdaptersMap

from memory_context.foundation.embeddings.embedder import Embedder
from memory_context.store.connection import Connection
from memory_context.store.memory_store import MemoryStore
from memory_context.store.pool import ConnectionPool

__all__ = ["Databases"]

_MOST_BYTES = 4_000_000  # of its tables, beside those of the template: a larger one would slow the next tests down
_WAIT_SECONDS = 1.0  # for the server processes of connections that were closed

_CATALOGS = (
    *("pg_attrdef", "pg_attribute", "pg_class", "pg_constraint", "pg_default_acl", "pg_event_trigger", "pg_extension"),
    *("pg_index", "pg_largeobject_metadata", "pg_namespace", "pg_policy", "pg_proc", "pg_rewrite", "pg_sequence"),
    *("pg_statistic", "pg_statistic_ext", "pg_trigger", "pg_type"),
)
_KEPT_TABLES = ("memory_context.schema_migrations", "memory_context.installation")

_CHANGES = ", ".join(
    f"(SELECT concat(count(*), ' ', max(xmin::text::bigint)) FROM {name})" for name in (*_CATALOGS, *_KEPT_TABLES)
)
_STATE = f"""
SELECT
    ARRAY[
        {_CHANGES},
        (SELECT concat(datacl, datconnlimit, datallowconn) FROM pg_database WHERE datname = current_database())
    ],
    ARRAY[  -- each new database has another login of the library's
        (SELECT string_agg(concat(one.*), ' ') FROM pg_roles AS one WHERE rolname !~ '^memory_context_login_'),
        (
            SELECT concat(count(*)) FROM pg_roles
            WHERE rolname ~ '^memory_context_login_' AND (rolsuper OR rolbypassrls OR NOT rolcanlogin)
        ),
        (SELECT concat(count(*), max(xmin::text::bigint)) FROM pg_db_role_setting)
    ],
    (
        SELECT sum(pg_total_relation_size(oid)) FROM pg_class
        WHERE relkind = 'r' AND relnamespace = 'memory_context'::regnamespace
    )
"""
_INDEXES = """
SELECT relname FROM pg_class
WHERE relkind = 'i' AND relnamespace = 'memory_context'::regnamespace
ORDER BY relname
"""
_OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND pid NOT IN (pg_backend_pid(), %s) AND backend_type = 'client backend'
"""


@dataclass(frozen=True)
class _Opened:
    """What a store leaves to the next one of its database."""

    login: dict[str, str]
    adapters: AdaptersMap
    connection: Connection


class _LastingPool(ConnectionPool):
    """A pool that leaves one of its connections open."""

    left: Connection | None = None

    def begin_with(self, connection: Connection) -> None:
        self._open.add(connection)
        self._idle.append((time.monotonic(), connection))

    def close(self) -> None:
        if self.left is None and (connection := self._take_idle()):
            self._open.discard(connection)
            self.left = connection
        super().close()


class Databases:
    """The databases of one test process.

    Args:
        execute: Runs a statement as the superuser; `{name}` in it stands for an identifier.
        url: Returns the superuser's address of a database.
        template: Name of the database they are copies of.
    """

    def __init__(self, execute: Callable[..., object], url: Callable[[str], str], template: str) -> None:
        self._execute, self._url, self._template = execute, url, template
        self._numbers = count(1)
        self._idle: list[str] = []
        self._connections: dict[str, psycopg.Connection] = {}
        self._opened: dict[str, _Opened] = {}
        with psycopg.connect(url(template), autocommit=True) as connection:
            self._state, self._roles, self._bytes = _state_of(connection)
            self._indexes = _indexes_of(connection)
            tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'memory_context' ORDER BY 1"
            names = [f"memory_context.{name}" for (name,) in connection.execute(tables).fetchall()]
        deletions = [sql.SQL(f"DELETE FROM {name};") for name in names if name not in _KEPT_TABLES]
        self._emptying = sql.Composed(deletions)

    def take(self) -> str:
        """Return the name of a database with no rows."""
        if self._idle:
            return self._idle.pop()
        name = f"test_{next(self._numbers)}"
        # as files, which is the fastest while nothing is synced
        copy = "CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY"
        self._execute(copy, name=name, template=self._template)
        return name

    def give_back(self, name: str) -> None:
        """Have it used again if that can be."""
        if self._was_emptied(name):
            self._idle.append(name)
        else:
            self._drop(name)

    @asynccontextmanager
    async def store(self, name: str, embedder: Embedder | None) -> AsyncIterator[MemoryStore]:
        """Open a store of a database; it begins with what the one before found out, and with its connection."""
        store = MemoryStore(self._url(name), embedder)
        pool = _LastingPool(8, store.limits.slot_seconds)
        store._database._pools[asyncio.get_running_loop()] = pool
        if opened := self._opened.pop(name, None):
            store._database._login, store._database._adapters = opened.login, opened.adapters
            pool.begin_with(opened.connection)
        async with store:
            yield store
        if (login := store._database._login) and pool.left:
            self._opened[name] = _Opened(login, pool.adapters, pool.left)
        elif pool.left:
            pool.left.pgconn.finish()

    def close(self) -> None:
        """Drop all."""
        while self._idle:
            self._drop(self._idle.pop())

    def _drop(self, name: str) -> None:
        if connection := self._connections.pop(name, None):
            connection.close()
        if opened := self._opened.pop(name, None):
            opened.connection.pgconn.finish()
        self._execute("DROP DATABASE IF EXISTS {name} WITH (FORCE)", name=name)

    def _was_emptied(self, name: str) -> bool:
        try:
            connection = self._connection(name)
            opened = self._opened.get(name)
            if not _is_alone(connection, opened.connection.info.backend_pid if opened else 0):
                return False
            for index in _indexes_of(connection) - self._indexes:
                connection.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier("memory_context", index)))
            state, roles, size = _state_of(connection)
            roles_before, self._roles = self._roles, roles
            if state == self._state and roles == roles_before and size < self._bytes + _MOST_BYTES:
                connection.execute(self._emptying)
                return True
        except psycopg.Error:  # its test may have dropped it, closed it for others, or ended the connection
            pass
        return False

    def _connection(self, name: str) -> psycopg.Connection:
        if name not in self._connections:
            # rows are deleted without a look at foreign keys
            options = "-c session_replication_role=replica"
            self._connections[name] = psycopg.connect(self._url(name), autocommit=True, options=options)
        return self._connections[name]


def _state_of(connection: psycopg.Connection) -> tuple[object, object, int]:
    row = connection.execute(_STATE, prepare=True).fetchone()
    assert row is not None
    return row[0], row[1], int(row[2])


def _indexes_of(connection: psycopg.Connection) -> set[str]:
    return {name for (name,) in connection.execute(_INDEXES, prepare=True).fetchall()}


def _is_alone(connection: psycopg.Connection, known: int) -> bool:
    """Whether nobody else is connected, or stays so, but for one known server process."""
    deadline = time.monotonic() + _WAIT_SECONDS
    while connection.execute(_OTHERS, [known], prepare=True).fetchone() != (0,):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)  # the server tells nobody when a process of it has ended
    return True
