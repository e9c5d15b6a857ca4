"""What `doctor` tries at a store: its logins, row-level security, search path, locks, slow statements, what was left.

Nothing is changed: the row that it writes as one made-up user, and looks for as another, is rolled back.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, Literal, NamedTuple

import psycopg
from psycopg import sql

from memory_context.foundation.errors import SchemaError, StoreError

from ..connection import Connection, dedicated, driver_errors
from ..database import Database, reach_server
from ..location import OWNER_URL_ENV, read_url
from ..schema import Login, fetch_login, pool_login, refuse_unsafe
from ..sql import load_queries

__all__ = ["Finding", "examine"]

_QUERIES = load_queries("doctor")
_TRANSACTIONS = load_queries("transactions")
_LOOKING_SECONDS, _LOOK_SECONDS = 2.0, 0.5


class Finding(NamedTuple):
    """One try: subject, verdict, and the remedy unless it is `ok`."""

    name: str
    verdict: Literal["ok", "warning", "failed"]
    text: str


async def examine(database: Database) -> AsyncIterator[Finding]:
    """Yield what was tried at a database whose schema is up to date."""
    location, limits = database.location, database.limits
    params = await reach_server(location, limits)
    owner_params = params if location.owner_url is None else read_url(location.owner_url)
    with driver_errors(location.where):
        async with dedicated(owner_params, limits.batch_seconds) as owner:
            rights = await fetch_login(owner)
            try:
                async with _as_application(owner, rights, params, limits.batch_seconds) as application:
                    refuse_unsafe(login := await fetch_login(application), location.where)
                    yield Finding("roles", "ok", f"the pool logs in as {login.name!r}, which row-level security binds")
                    yield await _tried("isolation", _isolation(application))
                    yield await _tried("search path", _search_path(application))
            except (StoreError, psycopg.Error) as error:
                yield Finding("roles", "failed", str(error).strip())
            async for finding in _activity(owner):
                yield finding
            if rights.is_superuser or rights.owns_schema:
                yield await _tried("claims", _left_behind(owner))
            else:
                text = f"not seen with the login {rights.name!r}: name the owner's URL in {OWNER_URL_ENV}"
                yield Finding("claims", "ok", text)


async def _tried(name: str, check: Awaitable[Finding]) -> Finding:
    try:
        return await check
    except psycopg.Error as error:
        return Finding(name, "failed", f"the try failed: {error.diag.message_primary or error}")


@asynccontextmanager
async def _as_application(
    owner: Connection, rights: Login, params: dict[str, str], seconds: float
) -> AsyncGenerator[Connection, None]:
    """Connect as the pool does."""
    async with dedicated(params, seconds) as connection:
        login = await fetch_login(connection)
        if not login.is_owner or login.is_bound:
            yield connection
            return
    params = pool_login(owner, params, rights.database)
    try:
        application = dedicated(params, seconds)
        connection = await application.__aenter__()
    except psycopg.OperationalError as error:
        raise SchemaError(
            f"the pool's login {params['user']!r} cannot log in ({str(error).strip().splitlines()[0]}): the next use "
            "of the store makes it, or says who has to"
        ) from error
    try:
        yield connection
    finally:
        connection.pgconn.finish()


async def _isolation(application: Connection) -> Finding:
    """Write a row as one user, and look as another for rows of anybody else in each table."""
    writer, reader = (f"doctor-{uuid.uuid4()}" for _ in range(2))
    await application.execute(_TRANSACTIONS["begin_write"])
    try:
        await application.execute(_TRANSACTIONS["act_as"], {"user_id": writer, "agent_id": None})
        await application.execute(_QUERIES["insert_claim"], {"user_id": writer})
        await application.execute(_TRANSACTIONS["act_as"], {"user_id": reader, "agent_id": None})
        tables = await application.fetch(_QUERIES["select_user_tables"])
        open_tables = [table["name"] for table in tables if not table["is_fenced"]]
        for table in tables:
            query = _QUERIES.composed("fetch_foreign_row", table=sql.Identifier(table["name"])).as_bytes(None)
            (found,) = await application.fetch(query, {"user_id": reader})
            if found["is_seen"] and table["name"] not in open_tables:
                open_tables.append(table["name"])
    finally:
        await application.execute(_QUERIES["rollback"])
    if open_tables:
        names = ", ".join(open_tables)
        text = f"a user reads rows of others in {names}: stop the agents, then as the owner restore the policies there"
        return Finding("isolation", "failed", f"{text} (sql/postgresdb.sql has them)")
    return Finding("isolation", "ok", f"a user sees no row of another one in any of {len(tables)} tables")


async def _search_path(application: Connection) -> Finding:
    await application.execute(_TRANSACTIONS["begin_read"])
    try:
        await application.execute(_TRANSACTIONS["act_as"], {"user_id": "doctor", "agent_id": None})
        await application.fetch(_QUERIES["fetch_distance"])
        (found,) = await application.fetch(_QUERIES["fetch_paths"])
    finally:
        await application.execute(_QUERIES["rollback"])
    if found["unbound"]:
        names = ", ".join(found["unbound"])
        text = f"{names} would call whatever stands in their caller's path: as the owner, ALTER FUNCTION … SET "
        return Finding("search path", "failed", f"{text}search_path = pg_catalog, pg_temp")
    if found["open_schema"]:
        name = found["open_schema"]
        text = f"everybody may put functions where searches find pgvector: REVOKE CREATE ON SCHEMA {name} FROM PUBLIC"
        return Finding("search path", "warning", text)
    return Finding("search path", "ok", "searches find pgvector, and functions of the owner nothing of others")


async def _activity(owner: Connection) -> AsyncIterator[Finding]:
    """Look for some seconds at what waits and what is slow."""
    waiting: dict[int, str] = {}
    slow: dict[int, str] = {}
    ends_at = time.monotonic() + _LOOKING_SECONDS
    while time.monotonic() < ends_at:
        for row in await owner.fetch(_QUERIES["select_activity"]):
            pid, began = row["pid"], f"process {row['pid']} {{}} {row['seconds']:.0f} s"
            if row["is_waiting"]:
                holder = f"{row['holder']}, which is {row['holder_state'] or 'not shown'}"
                remedy = f"if it should not be, end it: SELECT pg_terminate_backend({row['holder']})"
                waiting[pid] = f"{began.format('waits')} for process {holder}; {remedy}"
            else:
                remedy = f"if nobody needs it, end it: SELECT pg_cancel_backend({pid})"
                slow[pid] = f"{began.format('works')} at {row['query']!r}; {remedy}"
        await asyncio.sleep(_LOOK_SECONDS)
    for text in waiting.values():
        yield Finding("locks", "warning", text)
    if not waiting:
        yield Finding("locks", "ok", "nothing waits for one")
    for schema in await owner.fetch(_QUERIES["fetch_statistics_schema"]):
        query = _QUERIES.composed("select_slow_statements", schema=sql.Identifier(schema["name"])).as_bytes(None)
        try:
            rows: list[dict[str, Any]] = await owner.fetch(query)
        except psycopg.Error:  # installed, but the server does not load it
            break
        for at, row in enumerate(rows):
            text = f"{row['mean_ms']:,.0f} ms on the average of {row['calls']:,} calls: {row['query']!r}"
            slow[-1 - at] = f"{text}; ANALYZE may help, else EXPLAIN it"
    for text in slow.values():
        yield Finding("statements", "warning", text)
    if not slow:
        yield Finding("statements", "ok", f"none took longer than a second in {_LOOKING_SECONDS:g} s")


async def _left_behind(owner: Connection) -> Finding:
    await owner.execute(_TRANSACTIONS["begin_read"])
    try:
        (found,) = await owner.fetch(_QUERIES["fetch_left_behind"])
    finally:
        await owner.execute(_QUERIES["rollback"])
    if not any(found.values()):
        return Finding("claims", "ok", "no process left a session or a job behind")
    sessions, jobs = f"{found['sessions']:,} session(s)", f"{found['jobs']:,} job(s)"
    text = f"processes ended without giving back {sessions} and {jobs}: open the sessions again for what their archive "
    return Finding("claims", "warning", f"{text}has, and run memory-context reindex for the jobs")
