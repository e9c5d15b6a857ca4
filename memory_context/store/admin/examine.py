"""The checks of `doctor` at a store: its logins, row-level security, search path, locks, slow statements, leftovers.

Nothing is changed: the row that it writes as one made-up user, and looks for as another, is rolled back.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import Literal, NamedTuple

import psycopg
from psycopg import sql
from psycopg.rows import DictRow

from memory_context.foundation.errors import StoreError

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
                async for finding in _as_application(owner, rights, params, limits.batch_seconds, location.where):
                    yield finding
            except (StoreError, psycopg.Error) as error:
                remedy = "the next use of the store mends it, or says who has to"
                yield Finding("roles", "failed", f"{str(error).strip()}; {remedy}")
            for finding in [*await _activity(owner), await _tried("claims", _left_behind(owner, rights))]:
                yield finding


async def _tried(name: str, check: Awaitable[Finding]) -> Finding:
    try:
        return await check
    except psycopg.Error as error:
        return Finding(name, "failed", f"the try failed: {error.diag.message_primary or error}")


async def _as_application(
    owner: Connection, rights: Login, params: dict[str, str], seconds: float, where: str
) -> AsyncIterator[Finding]:
    """Log in as the pool does: as the address says, unless that is an owner whom no policy binds."""
    async with dedicated(params, seconds) as connection:
        login = await fetch_login(connection)
    if login.is_owner and not login.is_bound:
        params = pool_login(owner, params, rights.database)
    async with dedicated(params, seconds) as application:
        refuse_unsafe(login := await fetch_login(application), where)
        yield Finding("roles", "ok", f"the pool logs in as {login.name!r}, which row-level security binds")
        yield await _tried("isolation", _isolation(application))
        yield await _tried("search path", _search_path(application))


async def _isolation(application: Connection) -> Finding:
    """Write a row as one user, and look as another for rows of anybody else in each table."""
    writer, reader = (f"doctor-{uuid.uuid4()}" for _ in range(2))
    async with _rolled_back(application, "begin_write", writer):
        await application.execute(_QUERIES["insert_claim"], {"user_id": writer})
        await application.execute(_TRANSACTIONS["act_as"], {"user_id": reader, "agent_id": None})
        tables = await application.fetch(_QUERIES["select_user_tables"])
        open_tables = [table["name"] for table in tables if not table["is_fenced"]]
        for name in (table["name"] for table in tables if table["is_fenced"]):
            query = _QUERIES.composed("fetch_foreign_row", table=sql.Identifier(name)).as_bytes(None)
            (found,) = await application.fetch(query, {"user_id": reader})
            open_tables += [name] * found["is_seen"]
    if not open_tables:
        return Finding("isolation", "ok", f"a user sees no row of another one in any of {len(tables)} tables")
    names = ", ".join(open_tables)
    text = f"a user reads rows of others in {names}: stop the agents, then as the owner restore the policies there"
    return Finding("isolation", "failed", f"{text} (sql/postgresdb.sql has them)")


@asynccontextmanager
async def _rolled_back(connection: Connection, begin: str, user_id: str) -> AsyncGenerator[None, None]:
    """Act as a user in a transaction of which nothing stays."""
    await connection.execute(_TRANSACTIONS[begin])
    try:
        await connection.execute(_TRANSACTIONS["act_as"], {"user_id": user_id, "agent_id": None})
        yield
    finally:
        await connection.execute(_QUERIES["rollback"])


async def _search_path(application: Connection) -> Finding:
    async with _rolled_back(application, "begin_read", "doctor"):
        await application.fetch(_QUERIES["fetch_distance"])
        (found,) = await application.fetch(_QUERIES["fetch_paths"])
    if found["unbound"]:
        names = ", ".join(found["unbound"])
        text = f"{names} would call whatever stands in their caller's path: as the owner, ALTER FUNCTION … SET "
        return Finding("search path", "failed", f"{text}search_path = pg_catalog, pg_temp")
    if found["open_schema"]:
        name = found["open_schema"]
        text = f"everybody may put functions where searches find pgvector: REVOKE CREATE ON SCHEMA {name} FROM PUBLIC"
        return Finding("search path", "warning", text)
    return Finding("search path", "ok", "searches find pgvector, and functions of the owner nothing of others")


async def _activity(owner: Connection) -> list[Finding]:
    """Look for some seconds at what waits and what is slow."""
    seen: dict[tuple[int, bool], DictRow] = {}
    ends_at = time.monotonic() + _LOOKING_SECONDS
    while time.monotonic() < ends_at:
        seen |= {(row["pid"], row["is_waiting"]): row for row in await owner.fetch(_QUERIES["select_activity"])}
        await asyncio.sleep(_LOOK_SECONDS)
    found = [_seen(row) for row in seen.values()] + await _averages(owner)
    if all(one.name != "locks" for one in found):
        found.insert(0, Finding("locks", "ok", "nothing waits for one"))
    if all(one.name != "statements" for one in found):
        found.append(Finding("statements", "ok", f"none took longer than a second in {_LOOKING_SECONDS:g} s"))
    return found


def _seen(row: DictRow) -> Finding:
    """Return the finding on a process that waits, or works for long."""
    pid, holder, seconds = row["pid"], row["holder"], f"{row['seconds']:.0f} s"
    if row["is_waiting"]:
        text = f"process {pid} waits {seconds} for process {holder}, which is {row['holder_state'] or 'not shown'}"
        remedy = f"if it should not be, end it: SELECT pg_terminate_backend({holder})"
        return Finding("locks", "warning", f"{text}; {remedy}")
    remedy = f"if nobody needs it, end it: SELECT pg_cancel_backend({pid})"
    return Finding("statements", "warning", f"process {pid} works {seconds} at {row['query']!r}; {remedy}")


async def _averages(owner: Connection) -> list[Finding]:
    """Return what the server's own statistics call slow, where somebody has installed them and they are loaded."""
    found: list[Finding] = []
    for schema in await owner.fetch(_QUERIES["fetch_statistics_schema"]):
        query = _QUERIES.composed("select_slow_statements", schema=sql.Identifier(schema["name"])).as_bytes(None)
        with suppress(psycopg.Error):
            for row in await owner.fetch(query):
                text = f"{row['mean_ms']:,.0f} ms on the average of {row['calls']:,} calls: {row['query']!r}; "
                found.append(Finding("statements", "warning", f"{text}ANALYZE may help, else EXPLAIN it"))
    return found


async def _left_behind(owner: Connection, rights: Login) -> Finding:
    if not (rights.is_superuser or rights.owns_schema):
        text = f"not seen with the login {rights.name!r}: name the owner's URL in {OWNER_URL_ENV}"
        return Finding("claims", "ok", text)
    async with _rolled_back(owner, "begin_read", "doctor"):
        (found,) = await owner.fetch(_QUERIES["fetch_left_behind"])
    if not any(found.values()):
        return Finding("claims", "ok", "no process left a session or a job behind")
    sessions, jobs = f"{found['sessions']:,} session(s)", f"{found['jobs']:,} job(s)"
    text = f"processes ended without giving back {sessions} and {jobs}: open the sessions again for what their archive "
    return Finding("claims", "warning", f"{text}has, and run memory-context reindex for the jobs")
