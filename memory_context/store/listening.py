"""A connection outside of the pool that hears notifications, under one event loop.

A pooler in transaction mode lends a server connection for one transaction: it hears nothing, and is refused.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, ClassVar

import psycopg
from psycopg.rows import DictRow

from memory_context.foundation.errors import StoreError, StoreUnavailableError

from .connection import Connection, connect, driver_errors
from .database import Database
from .sql import load_queries

__all__ = ["ListeningConnection"]

_QUERIES = load_queries("session_locks")
_PROBES = 3
_logger = logging.getLogger("memory_context")


class ListeningConnection:
    """Opened by its first use; subclasses say what they listen to and what is lost with the connection.

    Attributes:
        listen: Name of its LISTEN statement.
        purpose: What it is for, in a warning.
        needs: What a pooler in transaction mode breaks, and the remedy.
        loss_level: Level at which its loss is logged.
    """

    listen: ClassVar[str]
    purpose: ClassVar[str]
    needs: ClassVar[str]
    loss_level: ClassVar[int] = logging.WARNING

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._backend = 0
        self._watched: int | None = None  # watched socket

    @property
    def _where(self) -> str:
        return f"({self._database.location.describe()})"

    @property
    def _pooled(self) -> str:
        return (
            "the database is reached through a pooler that lends a server connection for one transaction only (such as "
            f"PgBouncer with pool_mode=transaction), {self.needs} {self._where}"
        )

    async def _connect(self) -> Connection:
        """Open the connection, or raise StoreError; a restarted server is found."""
        _, login = await self._database.ready()
        try:
            return await self._open(login)
        except StoreUnavailableError:
            self._drop()
            await self._database.read(None)  # finds a restarted server
            _, login = await self._database.ready()
            return await self._open(login)

    async def _open(self, login: Mapping[str, str]) -> Connection:
        with driver_errors(self._database.location.describe()):
            self._connection = connection = await connect(login, self._database.limits.opening_seconds)
        connection.add_notify_handler(lambda heard: self._hear(heard.payload))
        self._backend = await self._fetch_backend(connection)
        if self._backend != connection.pgconn.backend_pid:  # behind some pooler
            await self._refuse_lending(connection, login)
        await self._run(connection, "limit_silence")
        await self._run(connection, self.listen)
        return connection

    async def _refuse_lending(self, connection: Connection, login: Mapping[str, str]) -> None:
        """Raise StoreError if other connections get the same server process."""
        for _ in range(_PROBES):
            with driver_errors(self._database.location.describe()):
                other = await connect(login, self._database.limits.opening_seconds)
            try:
                backends = {row["backend"] for row in await other.fetch(_QUERIES["fetch_backend"])}
            except psycopg.Error:
                return  # all are taken, none is lent
            finally:
                other.pgconn.finish()
            if backends == {self._backend} or await self._fetch_backend(connection) != self._backend:
                raise StoreError(self._pooled)

    async def _fetch_backend(self, connection: Connection) -> int:
        return (await self._run(connection, "fetch_backend"))[0]["backend"]

    async def _run(self, connection: Connection, name: str, params: Mapping[str, Any] | None = None) -> list[DictRow]:
        self._unwatch()
        connection.allow(self._database.limits.transaction_seconds)
        with driver_errors(self._database.location.describe()):
            rows = await connection.fetch(_QUERIES[name], params, binary=True)
        self._watched = connection.fileno()
        asyncio.get_running_loop().add_reader(self._watched, self._read, connection)
        self._read(connection)  # notifications that came with the answer
        self._note_answer()
        if self._connection is not connection:
            raise StoreUnavailableError(f"the connection to the database was lost {self._where}")
        return rows

    def _read(self, connection: Connection) -> None:
        try:
            connection.pgconn.consume_input()
            while (heard := connection.pgconn.notifies()) is not None:
                self._hear(heard.extra.decode())
        except psycopg.Error as error:
            _logger.log(self.loss_level, "the connection that %s was lost: %s %s", self.purpose, error, self._where)
            self._lose()

    def _hear(self, text: str) -> None:
        """Take a notification; anybody may notify."""
        raise NotImplementedError

    def _note_answer(self) -> None:
        """Note that the server answered."""

    def _lose(self) -> None:
        self._drop()

    def _unwatch(self) -> None:
        if self._watched is not None:
            asyncio.get_running_loop().remove_reader(self._watched)
            self._watched = None

    def _drop(self) -> None:
        self._unwatch()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.pgconn.finish()
