"""Administration of a whole store. Reading the status neither migrates nor sets up a server."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Container, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import DictRow

from ..connection import driver_errors
from ..database import Database, is_set_up, prepare, reach_server
from ..pool import ConnectionPool
from ..schema import MigrationState, states_of, vector_advice
from ..sql import Statement, load_migrations, load_queries
from ..tables import TABLES

if TYPE_CHECKING:
    from ..transfer.importer import ImportReport
    from .examine import Finding

__all__ = ["StoreAdmin", "StoreStatus"]

_SCHEMA = load_queries("schema")
_TRANSACTIONS = load_queries("transactions")
_STATUS = load_queries("status")


@dataclass(frozen=True)
class StoreStatus:
    """State of a store; None for values that the schema cannot provide.

    Attributes:
        is_set_up: False if the embedded server never ran.
        schema_version: The last migration, without `ahead` ones; 0 for none.
        table_bytes: With indexes, the largest first.
        rows: By record, tombstones included, like `items`.
        embeddings: By model.
        jobs: `pending` and `failed` jobs by kind.
    """

    where: str
    is_embedded: bool
    is_set_up: bool = True
    server_version: str | None = None
    vector_version: str | None = None
    vector_advice: str | None = None
    schema_version: int = 0
    known_schema_version: int = 0
    pending_migrations: tuple[str, ...] = ()
    database_bytes: int | None = None
    table_bytes: Mapping[str, int] = field(default_factory=dict[str, int])
    rows: Mapping[str, int] | None = None
    users: int | None = None
    items: int | None = None
    forgotten: int | None = None
    passages: int | None = None
    embeddings: Mapping[str, int] | None = None
    sessions: int | None = None
    batches: int | None = None
    jobs_pending: int | None = None
    jobs_failed: int | None = None
    jobs: Mapping[str, Mapping[str, int]] | None = None


class StoreAdmin:
    """Operations on a whole database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def status(self) -> StoreStatus:
        """Return the state, without side effects."""
        location, known = self._database.location, load_migrations()
        same: dict[str, Any] = {
            "where": location.where,
            "is_embedded": location.url is None,
            "known_schema_version": known[-1].version,
        }
        if not is_set_up(location):
            return StoreStatus(**same, is_set_up=False, pending_migrations=tuple(one.name for one in known))
        async with self._looking() as ask:
            names = ("fetch_server", "fetch_database", "select_table_sizes", "select_vector_indexes")
            (server,), (database,), tables, indexes = await ask(*_SCHEMA.each(names, {}))
            states = await _states(ask)
            sizes: dict[str, int] = {row["name"]: row["total_bytes"] for row in tables}
            return StoreStatus(
                **same,
                server_version=database["server_version"].split()[0],
                vector_version=server["vector_version"],
                vector_advice=vector_advice(server["vector_version"], [row["name"] for row in indexes]),
                schema_version=max((one.version for one in states if one.state not in ("pending", "ahead")), default=0),
                pending_migrations=tuple(one.name for one in states if one.state == "pending"),
                database_bytes=database["database_bytes"],
                table_bytes=sizes,
                **await _counts(ask, sizes),
            )

    def examine(self) -> "AsyncIterator[Finding]":
        """Yield what was tried at a store whose schema is up to date; it takes some seconds and changes nothing."""
        from .examine import examine

        return examine(self._database)

    async def stop(self) -> int | None:
        """Stop the embedded server; return its process id, if it ran.

        Raises:
            StoreUnavailableError: Other processes use it.
        """
        folder = self._database.location.folder
        if folder is None:
            raise ValueError(f"{self._database.location.where} is no embedded server: stop it where it runs")
        from ..embedded import stop

        return await asyncio.to_thread(stop, folder)

    async def migrations(self) -> list[MigrationState]:
        if not is_set_up(self._database.location):
            return states_of([])
        async with self._looking() as ask:
            return await _states(ask)

    async def migrate(self) -> list[str]:
        """Apply migrations; return their names. The previous version goes on working.

        Raises:
            SchemaError: A person has to act first.
            StoreUnavailableError: The server did not answer, or a table was in use.
        """
        pending = [one.name for one in await self.migrations() if one.state == "pending"]
        await prepare(self._database.location, self._database.limits)
        states = {one.name: one.state for one in await self.migrations()}
        return [name for name in pending if states[name] == "applied"]

    async def vector_advice(self) -> str | None:
        """Return the remedy for an unsound pgvector."""
        async with self._looking() as ask:
            (server,), indexes = await ask(_SCHEMA("fetch_server"), _SCHEMA("select_vector_indexes"))
        return vector_advice(server["vector_version"], [row["name"] for row in indexes])

    def export_lines(
        self, user_id: str, session_id: str | None = None, *, progress: Callable[[int, int | None], None] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield a snapshot of a user's rows as pieces of a JSON Lines file; nothing for an unknown user.

        Close the generator if you stop early: it holds a connection. After a `StoreError` the file is incomplete.

        Args:
            session_id: Only this session, its sub-agents' and referenced items; then `progress` gets no total.
        """
        from ..transfer.exporter import export_lines

        return export_lines(self._database, user_id, session_id, progress)

    async def import_lines(self, lines: Iterable[bytes], user_id: str | None = None) -> "ImportReport":
        """Import an exported file; return counts of its records.

        Existing rows are never changed, so an import can be repeated. User memory waits for the user's confirmation.
        Do not continue its sessions before it ends.

        Args:
            user_id: None for the user in the file.

        Raises:
            TransferError: A line is damaged, or the file is cut off; pages before it stay.
        """
        from ..transfer.importer import import_lines

        return await import_lines(self._database, lines, user_id)

    @asynccontextmanager
    async def _looking(self) -> AsyncGenerator["_Ask", None]:
        """Yield a function that runs statements in one round trip, without migrating."""
        location, limits = self._database.location, self._database.limits
        params = await reach_server(location, limits)
        pool = ConnectionPool(1, limits.slot_seconds)

        async def ask(*statements: Statement, seconds: float = limits.batch_seconds) -> list[list[DictRow]]:
            waits = _TRANSACTIONS(
                "limit_waits",
                statement_timeout=f"{round(1000 * seconds)}ms",
                lock_timeout=f"{round(1000 * limits.lock_seconds)}ms",
            )
            everything = [_TRANSACTIONS("begin_read"), waits, *statements, _TRANSACTIONS("commit")]
            return (await pool.run(params, everything, seconds))[2:-1]

        try:
            with driver_errors(location.where):
                await ask(_SCHEMA("fetch_server"), seconds=limits.transaction_seconds)
                yield ask
        finally:
            pool.close()


_Ask = Callable[..., Awaitable[list[list[DictRow]]]]


async def _states(ask: _Ask) -> list[MigrationState]:
    ((server,),) = await ask(_SCHEMA("fetch_server"))
    if not server["has_schema"]:
        return states_of([])
    (rows,) = await ask(_SCHEMA("select_applied_migrations"))
    return states_of(rows)


async def _counts(ask: _Ask, tables: Container[str]) -> dict[str, Any]:
    if "memory_users" not in tables:
        return {}
    names = {table.name: table.record for table in TABLES}
    counting = _STATUS("fetch_counts"), _STATUS("select_row_counts", names=list(names))
    try:
        (counts,), found = await ask(*counting)
    except (psycopg.errors.UndefinedFunction, psycopg.errors.UndefinedColumn):  # another version's schema
        return {}
    row_counts = {row["name"]: row["row_count"] for row in found}
    jobs = {f"jobs_{state}": sum(one[state] for one in counts["jobs"].values()) for state in ("pending", "failed")}
    rows = {record: row_counts[name] for name, record in names.items() if name in row_counts}
    return {**counts, **jobs, "rows": rows}
