"""A store as a whole: how it is, its schema, and taking data out and in.

The status is looked at without changing anything: nothing is migrated, no login is made, and an embedded server that
was never started is not set up. What an older or newer schema cannot tell is None.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import DictRow

from memory_context.errors import SchemaError

from ..connection import driver_errors
from ..database import Database, is_set_up, prepare, reach_server
from ..limits import StoreLimits
from ..location import Location
from ..pool import ConnectionPool, Statement
from ..schema import MigrationState, states_of, vector_advice
from ..sql import Part, load_migrations, load_queries, part_of
from ..tables import TABLES

if TYPE_CHECKING:
    from ..embedded import KeeperState
    from ..transfer import ImportReport, ReadLines

__all__ = ["StoreAdmin", "StoreStatus"]

_SCHEMA = load_queries("schema")
_TRANSACTIONS = load_queries("transactions")
_STATUS = load_queries("status")


@dataclass(frozen=True)
class StoreStatus:
    """State of a store; None for what the schema cannot tell.

    Attributes:
        where: The place, without secrets.
        is_embedded: Whether it is the embedded server.
        is_set_up: False if that was never started in this folder; there is nothing then.
        server_version: Of Postgres.
        keeper: What keeps the embedded server, and until when; None for a server of your own.
        vector_version: Of pgvector; None if it is not installed.
        vector_advice: How to upgrade a pgvector that could damage indexes, and which to rebuild; None if it is sound.
        schema_version: The last migration here, without newer ones beside which this version works; 0 for none.
        known_schema_version: The last migration of this version of memory_context.
        is_superseded: Whether the schema is of a development version, which this one does not bring up to date.
        pending_migrations: Names of migrations to come.
        database_bytes: Size of the whole database.
        table_bytes: Size of each table with its indexes, the largest first.
        rows: Rows of the tables in the registry, by record, tombstones included.
        users: Number of users.
        items: Items, tombstones included.
        forgotten: Tombstones.
        passages: Passages in the index.
        embeddings: Embeddings, by model.
        sessions: Sessions that were not deleted.
        batches: Archived batches.
        jobs_pending: Jobs to be done, such as items to be indexed.
        jobs_failed: Jobs that failed too often.
        jobs: How many are `pending` and `failed` of each kind.
    """

    where: str
    is_embedded: bool
    is_set_up: bool = True
    server_version: str | None = None
    keeper: "KeeperState | None" = None
    vector_version: str | None = None
    vector_advice: str | None = None
    schema_version: int = 0
    known_schema_version: int = 0
    is_superseded: bool = False
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
    """Operations on one database as a whole; they raise `StoreError` if the database fails.

    Args:
        database: Which one.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def status(self) -> StoreStatus:
        """Return the state of the store; nothing is migrated or set up for it."""
        return await _fetch_status(self._database.location, self._database.limits)

    async def stop(self) -> int | None:
        """Stop the embedded server and its keeper; return its process number, None if none ran.

        Raises:
            ValueError: The store is on a server of your own.
            StoreUnavailableError: Other processes use the server.
        """
        folder = self._database.location.folder
        if folder is None:
            raise ValueError(f"{self._database.location.describe()} is no embedded server: stop it where it runs")
        from ..embedded import stop

        return await asyncio.to_thread(stop, folder)

    async def migrations(self) -> list[MigrationState]:
        """Return all migrations that this version or the database knows, in order; none is applied."""
        return await _migration_states(self._database.location, self._database.limits)

    async def migrate(self, part: Part | None = None) -> list[str]:
        """Bring the schema up to this version; return the names of what was applied.

        The first use of a store does so too, but leaves the `post` part alone on a server of your own.

        Args:
            part: `pre`: only what the version before this one works with; run it before this version is deployed.
                `post`: the rest, once this version runs everywhere. None for all, with nobody at work.

        Raises:
            SchemaError: A person has to do something first; says what.
            StoreUnavailableError: The server does not answer or could not be started, or a table was in use.
        """
        pending = [one.name for one in await self.migrations() if one.state == "pending"]
        if part == "post" and (early := [name for name in pending if part_of(name) != "post"]):
            raise SchemaError(
                f"{early[0]} comes first: run memory-context migrate --pre before you deploy this version"
            )
        await prepare(self._database.location, self._database.limits, only_pre=part == "pre")
        states = {one.name: one.state for one in await self.migrations()}
        return [name for name in pending if states[name] == "applied"]

    async def vector_advice(self) -> str | None:
        """Return what to do about a pgvector that could damage indexes; None if it is recent enough."""
        return await _fetch_vector_advice(self._database.location, self._database.limits)

    def export_lines(
        self, user_id: str, session_id: str | None = None, *, progress: Callable[[int, int | None], None] | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield all rows of a user that are not derived, as the pieces of a file; nothing for an unknown user.

        They show one moment. JSON Lines: a header, a line a row, a last line without which the file is cut off. Close
        the generator if you do not read it to its end.

        Args:
            user_id: Whose.
            session_id: Only this session and those of its sub-agents, with the items that they refer to; None for all.
            progress: Called with the rows done and the rows there are; None for a session.

        Raises:
            StoreError: The database failed; what was yielded until then is no whole file.
        """
        from ..transfer import export_lines

        return export_lines(self._database, user_id, session_id, progress)

    async def import_lines(
        self, read: "ReadLines", user_id: str | None = None, *, only_check: bool = False, trust_origins: bool = False
    ) -> "ImportReport":
        """Import a file that `export_lines` wrote; return what became of its records.

        Rows that are there are never changed, so an interrupted import can be repeated. Rows come page by page: do not
        go on with a session before all of it is there.

        Args:
            read: Reads the file from its beginning, line by line; called up to four times, at last to store it.
            user_id: Whose it shall be; None for the user in the file.
            only_check: Report what importing it would do, and store nothing.
            trust_origins: Keep the origins in the file, as is done anyway for a file that this installation signed for
                the same user. Otherwise words of the user or the application count as imported.

        Raises:
            SecretError: An item is of type user_secret; nothing was stored.
            TransferError: A line is damaged, or the store has something else in its place: nothing was stored.
            ConflictError: Somebody stored something else meanwhile; what was stored until then stays.
            StoreError: The database failed; what was stored until then stays.
        """
        from ..transfer import import_lines

        return await import_lines(self._database, read, user_id, only_check=only_check, trust_origins=trust_origins)


async def _migration_states(location: Location, limits: StoreLimits) -> list[MigrationState]:
    if not is_set_up(location):
        return states_of([])
    async with _looking(location, limits) as ask:
        return states_of(await _applied(ask))


async def _fetch_status(location: Location, limits: StoreLimits) -> StoreStatus:
    known = load_migrations()
    same: dict[str, Any] = {
        "where": location.describe(),
        "is_embedded": location.url is None,
        "known_schema_version": known[-1].version,
    }
    if not is_set_up(location):
        return StoreStatus(**same, is_set_up=False, pending_migrations=tuple(one.name for one in known))
    async with _looking(location, limits) as ask:
        names = ("fetch_server", "fetch_database", "select_table_sizes", "select_vector_indexes")
        (server,), (database,), tables, indexes = await ask(*(Statement(_SCHEMA[name]) for name in names))
        states = states_of(await _applied(ask))
        sizes: dict[str, int] = {row["name"]: row["total_bytes"] for row in tables}
        return StoreStatus(
            **same,
            server_version=database["server_version"].split()[0],
            keeper=await _keeper(location),
            vector_version=server["vector_version"],
            vector_advice=vector_advice(server["vector_version"], [row["name"] for row in indexes]),
            schema_version=max((one.version for one in states if one.state not in ("pending", "ahead")), default=0),
            is_superseded=any(one.state == "superseded" for one in states),
            pending_migrations=tuple(one.name for one in states if one.state == "pending"),
            database_bytes=database["database_bytes"],
            table_bytes=sizes,
            **await _counts(ask, sizes),
        )


async def _fetch_vector_advice(location: Location, limits: StoreLimits) -> str | None:
    async with _looking(location, limits) as ask:
        (server,), indexes = await ask(Statement(_SCHEMA["fetch_server"]), Statement(_SCHEMA["select_vector_indexes"]))
    return vector_advice(server["vector_version"], [row["name"] for row in indexes])


_Ask = Callable[..., Awaitable[list[list[DictRow]]]]


@asynccontextmanager
async def _looking(location: Location, limits: StoreLimits) -> AsyncGenerator[_Ask, None]:
    """Yield a function that runs statements in one round trip, as whatever login there is."""
    params = await reach_server(location, limits)
    pool = ConnectionPool(1, limits.slot_seconds)

    async def ask(*statements: Statement, seconds: float = limits.batch_seconds) -> list[list[DictRow]]:
        waits = {
            "statement_timeout": f"{round(1000 * seconds)}ms",
            "lock_timeout": f"{round(1000 * limits.lock_seconds)}ms",
        }
        begin = Statement(_TRANSACTIONS["begin_read"]), Statement(_TRANSACTIONS["limit_waits"], waits)
        _, _, *rows, _ = await pool.run(params, [*begin, *statements, Statement(_TRANSACTIONS["commit"])], seconds)
        return rows

    try:
        with driver_errors(location.describe()):
            await ask(Statement(_SCHEMA["fetch_server"]), seconds=limits.transaction_seconds)
            yield ask
    finally:
        pool.close()


async def _keeper(location: Location) -> "KeeperState | None":
    if location.folder is None:
        return None
    from ..embedded import keeper_state

    return await asyncio.to_thread(keeper_state, location.folder)


async def _applied(ask: _Ask) -> list[DictRow]:
    ((server,),) = await ask(Statement(_SCHEMA["fetch_server"]))
    if not server["has_schema"]:
        return []
    (rows,) = await ask(Statement(_SCHEMA["select_applied_migrations"]))
    return rows


async def _counts(ask: _Ask, tables: Container[str]) -> dict[str, Any]:
    """Return what all users have together, as far as the schema tells."""
    if "memory_users" not in tables:
        return {}
    names = {table.name: table.record for table in TABLES}
    counting = Statement(_STATUS["fetch_counts"]), Statement(_STATUS["select_row_counts"], {"names": list(names)})
    try:
        (counts,), found = await ask(*counting)
    except (psycopg.errors.UndefinedFunction, psycopg.errors.UndefinedColumn):  # another version's schema
        return {}
    row_counts = {row["name"]: row["row_count"] for row in found}
    jobs = {f"jobs_{state}": sum(one[state] for one in counts["jobs"].values()) for state in ("pending", "failed")}
    rows = {record: row_counts[name] for name, record in names.items() if name in row_counts}
    return {**counts, **jobs, "rows": rows}
