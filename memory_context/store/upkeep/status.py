"""How the store stands: the server, its schema, what is in it; looked at without changing anything.

Promises: nothing is migrated, no login is made, and an embedded server that was never started is not set up; a schema
that is older or newer than this version is looked at as far as it goes, and what it cannot tell is None.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal

import psycopg
from psycopg.rows import DictRow

from ..failures import driver_errors
from ..location import Location
from ..pool import ConnectionPool, Statement
from ..preparation import is_set_up, reach_server
from ..sqlfiles import load_migrations, load_queries

__all__ = ["MigrationState", "StoreStatus", "fetch_status", "migration_states"]

_SCHEMA = load_queries("schema")
_STATUS = load_queries("status")
_INDEX = load_queries("index")
_TRANSACTIONS = load_queries("transactions")

_USERS_PER_PAGE = 500
_COUNTS = {  # what counts the rows of one user, by the table it needs
    "agent_memories": "count_memories",
    "agent_memory_statistics": "count_passages",
    "agent_memory_embeddings": "count_embeddings",
    "index_jobs": "count_jobs",
    "agent_sessions": "count_sessions",
    "recent_conversation_history": "count_batches",
}
_COUNTED = {
    "count_memories": ("items", "forgotten"),
    "count_passages": ("passages",),
    "count_embeddings": (),
    "count_jobs": ("jobs_pending", "jobs_set_aside"),
    "count_sessions": ("sessions",),
    "count_batches": ("batches",),
}


@dataclass(frozen=True)
class MigrationState:
    """A migration, and whether it ran here.

    Attributes:
        version: Its number.
        name: The name of its file.
        state: `applied`; `pending`, not yet; `changed`, with a file that is not this version's; `unknown`, of a newer
            version.
        applied_at: When, in UTC; None if it did not.
    """

    version: int
    name: str
    state: Literal["applied", "pending", "changed", "unknown"]
    applied_at: datetime | None


@dataclass(frozen=True)
class StoreStatus:
    """How the store stands. What the schema cannot tell is None.

    Attributes:
        where: The place, without secrets.
        is_embedded: Whether it is the embedded server.
        is_set_up: False if that was never started in this folder; there is nothing then.
        server_version: Of Postgres.
        vector_version: Of pgvector; None if it is not installed.
        schema_version: The last migration that ran here; 0 for none.
        known_schema_version: The last migration of this version of memory_context.
        pending_migrations: Names of those that did not run yet.
        database_bytes: Size of the whole database.
        table_bytes: Size of each table with its indexes, the largest first.
        users: How many.
        items: Items, those included that were forgotten.
        forgotten: Items that are tombstones.
        passages: Passages that search knows.
        embeddings: Embeddings, by model.
        sessions: Sessions that were not deleted.
        batches: What was archived of them, in batches.
        jobs_pending: Items that are to be indexed.
        jobs_set_aside: Items that could not be indexed, after several attempts.
    """

    where: str
    is_embedded: bool
    is_set_up: bool = True
    server_version: str | None = None
    vector_version: str | None = None
    schema_version: int = 0
    known_schema_version: int = 0
    pending_migrations: tuple[str, ...] = ()
    database_bytes: int | None = None
    table_bytes: Mapping[str, int] = field(default_factory=dict[str, int])
    users: int | None = None
    items: int | None = None
    forgotten: int | None = None
    passages: int | None = None
    embeddings: Mapping[str, int] | None = None
    sessions: int | None = None
    batches: int | None = None
    jobs_pending: int | None = None
    jobs_set_aside: int | None = None


async def migration_states(location: Location) -> list[MigrationState]:
    """Return all migrations that this version or the database knows, in order.

    Raises:
        StoreError: The database failed.
    """
    if not is_set_up(location):
        return _states([])
    async with _looking(location) as ask:
        return _states(await _applied(ask))


async def fetch_status(location: Location, progress: Callable[[int], None] | None) -> StoreStatus:
    """Return how the store stands; `progress` is told how many users were counted so far.

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
    async with _looking(location) as ask:
        (server,), (database,), tables = await ask(
            *(Statement(_SCHEMA[name]) for name in ("fetch_server", "fetch_database", "select_table_sizes"))
        )
        states = _states(await _applied(ask))
        sizes: dict[str, int] = {row["name"]: row["total_bytes"] for row in tables}
        counts: dict[str, Any] = {}
        with suppress(psycopg.errors.UndefinedColumn, psycopg.errors.UndefinedFunction):  # another version's tables
            counts = await _count(ask, sizes, progress)
        return StoreStatus(
            **same,
            server_version=database["server_version"].split()[0],
            vector_version=server["vector_version"],
            schema_version=max((one.version for one in states if one.state != "pending"), default=0),
            pending_migrations=tuple(one.name for one in states if one.state == "pending"),
            database_bytes=database["database_bytes"],
            table_bytes=sizes,
            **counts,
        )


_Ask = Callable[..., Awaitable[list[list[DictRow]]]]


@asynccontextmanager
async def _looking(location: Location) -> AsyncGenerator[_Ask, None]:
    """Yield a function that runs statements in one round trip, as whatever login there is."""
    params = await reach_server(location)
    pool = ConnectionPool(1)
    try:
        with driver_errors(location.describe()):
            yield lambda *statements: pool.run(params, statements)
    finally:
        pool.close()


async def _applied(ask: _Ask) -> list[DictRow]:
    ((server,),) = await ask(Statement(_SCHEMA["fetch_server"]))
    if not server["has_schema"]:
        return []
    (rows,) = await ask(Statement(_SCHEMA["select_applied_migrations"]))
    return rows


def _states(applied: list[DictRow]) -> list[MigrationState]:
    ran = {row["version"]: row for row in applied}
    states: list[MigrationState] = []
    for migration in load_migrations():
        row = ran.pop(migration.version, None)
        if row is None:
            states.append(MigrationState(migration.version, migration.name, "pending", None))
            continue
        state = "applied" if row["checksum"] == migration.checksum else "changed"
        states.append(MigrationState(migration.version, row["name"], state, _utc(row["applied_at"])))
    newer = [MigrationState(row["version"], row["name"], "unknown", _utc(row["applied_at"])) for row in ran.values()]
    return sorted(states + newer, key=lambda one: one.version)


def _utc(time: datetime) -> datetime:
    return time.astimezone(timezone.utc)


async def _count(ask: _Ask, tables: Container[str], progress: Callable[[int], None] | None) -> dict[str, Any]:
    """Return what all users have together, each counted as that user; of what is counted in tables that are there."""
    if "memory_users" not in tables:
        return {}
    blocks = [block for table, block in _COUNTS.items() if table in tables]
    sums: Counter[str] = Counter({"users": 0})
    models: Counter[str] = Counter()
    after = ""
    while True:
        (rows,) = await ask(Statement(_INDEX["select_users"], {"after": after, "limit": _USERS_PER_PAGE}))
        for row in rows:
            params = {"user_id": row["user_id"]}
            counting = [Statement(_STATUS[block], params) for block in blocks]
            begin = Statement(_TRANSACTIONS["begin_read"]), Statement(_TRANSACTIONS["act_as"], params)
            _, _, *counted, _ = await ask(*begin, *counting, Statement(_TRANSACTIONS["commit"]))
            for block, found in zip(blocks, counted, strict=True):
                if block == "count_embeddings":
                    models.update({one["embedding_model"]: one["embeddings"] for one in found})
                else:
                    sums.update(found[0])
            sums["users"] += 1
            if progress is not None:
                progress(sums["users"])
        if len(rows) < _USERS_PER_PAGE:
            break
        after = rows[-1]["user_id"]
    names = {"users", *(name for block in blocks for name in _COUNTED[block])}
    embeddings = {"embeddings": dict(models)} if "count_embeddings" in blocks else {}
    return {name: sums[name] for name in names} | embeddings
