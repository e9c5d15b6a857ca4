"""How the store stands: the server, its schema, what is in it; looked at without changing anything.

Promises: nothing is migrated, no login is made, and an embedded server that was never started is not set up; a schema
that is older or newer than this version is looked at as far as it goes, and what it cannot tell is None.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.rows import DictRow

from ..connection import driver_errors
from ..database import is_set_up, reach_server
from ..limits import StoreLimits
from ..location import Location
from ..pool import ConnectionPool, Statement
from ..schema import MigrationState, states_of, vector_advice
from ..sql import load_migrations, load_queries

if TYPE_CHECKING:
    from ..embedded import KeeperState

__all__ = ["StoreStatus", "fetch_status", "fetch_vector_advice", "migration_states"]

_SCHEMA = load_queries("schema")
_TRANSACTIONS = load_queries("transactions")
_STATUS = load_queries("status")


@dataclass(frozen=True)
class StoreStatus:
    """How the store stands. What the schema cannot tell is None.

    Attributes:
        where: The place, without secrets.
        is_embedded: Whether it is the embedded server.
        is_set_up: False if that was never started in this folder; there is nothing then.
        server_version: Of Postgres.
        keeper: What keeps the embedded server, and until when; None for a server of your own.
        vector_version: Of pgvector; None if it is not installed.
        vector_advice: How to upgrade a pgvector that could damage indexes, and which to rebuild; None if it is sound.
        schema_version: The last migration that ran here, but for those of a newer version that change nothing for this
            one; 0 for none.
        known_schema_version: The last migration of this version of memory_context.
        is_superseded: Whether the schema is of a development version, which this one does not bring up to date.
        pending_migrations: Names of those that did not run yet.
        database_bytes: Size of the whole database.
        table_bytes: Size of each table with its indexes, the largest first.
        rows: Rows that are not derived from others, by what they are called in an export, tombstones included.
        users: How many.
        items: Items, those included that were forgotten.
        forgotten: Items that are tombstones.
        passages: Passages that search knows.
        embeddings: Embeddings, by model.
        sessions: Sessions that were not deleted.
        batches: What was archived of them, in batches.
        jobs_pending: Jobs that are to be done, such as items to be indexed.
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


async def migration_states(location: Location, limits: StoreLimits) -> list[MigrationState]:
    """Return all migrations that this version or the database knows, in order.

    Raises:
        StoreError: The database failed.
    """
    if not is_set_up(location):
        return states_of([])
    async with _looking(location, limits) as ask:
        return states_of(await _applied(ask))


async def fetch_status(location: Location, limits: StoreLimits) -> StoreStatus:
    """Return how the store stands.

    Raises:
        StoreError: The database failed.
    """
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


async def fetch_vector_advice(location: Location, limits: StoreLimits) -> str | None:
    """Return what to do about a pgvector that could damage indexes; None if it is sound.

    Raises:
        StoreError: The database failed.
    """
    async with _looking(location, limits) as ask:
        (server,), indexes = await ask(Statement(_SCHEMA["fetch_server"]), Statement(_SCHEMA["select_vector_indexes"]))
    return vector_advice(server["vector_version"], [row["name"] for row in indexes])


_Ask = Callable[..., Awaitable[list[list[DictRow]]]]


@asynccontextmanager
async def _looking(location: Location, limits: StoreLimits) -> AsyncGenerator[_Ask, None]:
    """Yield a function that runs statements in one round trip, as whatever login there is.

    The first look is bounded like any call; counting, which reads all rows of a user, like a batch.
    """
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
    from ..tables import TABLES  # with the models of an export's lines, which take long to load

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
