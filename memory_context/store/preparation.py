"""What happens before the first connection of a pool: server started, schema up to date, a safe login found."""

import asyncio
import os
from pathlib import Path
from typing import Any, cast

import psycopg
from pgvector.psycopg.halfvec import register_halfvec_info
from psycopg.adapt import AdaptersMap
from psycopg.types import TypeInfo

from memory_context.errors import SchemaError, StoreUnavailableError
from memory_context.runtime import attempt

from .connection import Connection, dedicated
from .failures import driver_errors
from .limits import StoreLimits
from .location import OWNER_URL_ENV, Location, read_url
from .logins import ensure_pool_login, fetch_login, refuse_unsafe
from .migrations import is_usable, migrate
from .sqlfiles import load_queries

__all__ = ["is_set_up", "prepare", "reach_server"]

_QUERIES = load_queries("schema")


async def prepare(
    location: Location, limits: StoreLimits, *, only_pre: bool | None = None
) -> tuple[dict[str, str], AdaptersMap]:
    """Make the database ready; return the parameters of the login that the pool uses, and how it writes vectors.

    Safe to run again, and in many processes at once. Looking at the database is bounded by `opening_seconds`, an
    embedded server's start by `start_seconds`, each migration by `migration_seconds`.

    Args:
        location: Which database.
        limits: How long to wait for it.
        only_pre: Leave `post` migrations for later. By default on a server of your own, where older versions may still
            be at work.

    Raises:
        StoreUnavailableError: The server does not answer or could not be started.
        SchemaError: A person has to do something first; says what.
    """
    where = location.describe()
    only_pre = location.url is not None if only_pre is None else only_pre
    params = await reach_server(location, limits)
    with driver_errors(where):
        if location.owner_url is not None:
            owner_params = read_url(location.owner_url)
            async with dedicated(owner_params, limits.opening_seconds) as owner:
                await migrate(owner, owner_params, where, limits, only_pre=only_pre)
        async with dedicated(params, limits.opening_seconds) as connection:
            login = await fetch_login(connection)
            if login.is_owner:
                await migrate(connection, params, where, limits, only_pre=only_pre)
                params = await ensure_pool_login(connection, params, where, limits.migration_seconds)
                return params, await _vector_adapters(connection)
            if not login.has_schema:
                raise SchemaError(
                    f"the schema memory_context is missing and login {login.name!r} may not create it: give the URL "
                    f"of a login that may, in {OWNER_URL_ENV}, and start once ({where})"
                )
            refuse_unsafe(login, where)
            if not await is_usable(connection, where):
                raise SchemaError(
                    f"the schema memory_context is older than this version and login {login.name!r} may not change "
                    f"it: give the owner's URL in {OWNER_URL_ENV} and start once ({where})"
                )
            return params, await _vector_adapters(connection)


async def _vector_adapters(connection: Connection) -> AdaptersMap:
    """Return the driver's adapters and that of this database's `halfvec`: two bytes a number instead of a text.

    Once per database: for each connection it would take a round trip.
    """
    adapters = AdaptersMap(psycopg.adapters)
    row = await (await connection.execute(_QUERIES["fetch_vector_type"])).fetchone()
    if row is not None:
        register_halfvec_info(cast(Any, adapters), TypeInfo("halfvec", row["oid"], row["array_oid"]))
    return adapters


async def reach_server(location: Location, limits: StoreLimits) -> dict[str, str]:
    """Return the parameters of the login that a location names; the embedded server is started.

    Raises:
        StoreUnavailableError: It could not be started, or not in time.
    """
    if location.url is not None:
        return read_url(location.url)
    assert location.folder is not None
    starting = await attempt(asyncio.to_thread(_start_embedded, location.folder), limits.start_seconds)
    if starting is None:  # the thread goes on: the next call finds the server running, or waits again
        raise StoreUnavailableError(
            f"the embedded Postgres in {location.folder} did not start within {limits.start_seconds:.3g} s; a new "
            "folder takes longest: try again, or give the store more start_seconds"
        )
    return starting.result()


def is_set_up(location: Location) -> bool:
    """Whether there is a server to look at: the embedded one is set up when it is first used.

    Where something else is in the way of its folder, or it cannot be written, looking at it says so.
    """
    if location.folder is None:
        return True
    nearest = next(place for place in (location.folder, *location.folder.parents) if place.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        return True
    data = location.folder / "postgres"
    return (data / "PG_VERSION").exists() or (data.exists() and (not data.is_dir() or any(data.iterdir())))


def _start_embedded(folder: Path) -> dict[str, str]:
    from .embedded import start  # nobody with a URL needs it, and Windows lacks what it needs

    return start(folder)
