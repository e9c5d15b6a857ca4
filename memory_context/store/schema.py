"""Migrations, and the pool's login.

Migrations go forward only, each in one transaction with its record, under one lock. Edited files are noticed. The login
is bound by row-level security, which owners bypass. It derives from the owner's by HMAC; nothing is stored. Where the
owner may not create roles, it is the only login, and row-level security is forced on it.
"""

import asyncio
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal

import psycopg
from psycopg import sql

from memory_context.foundation.errors import SchemaError, StoreUnavailableError

from .connection import Connection, DeadlineError, dedicated
from .limits import StoreLimits
from .location import OWNER_URL_ENV
from .sql import Migration, load_migrations, load_queries

__all__ = [
    "MigrationState",
    "ensure_pool_login",
    "fetch_login",
    "is_usable",
    "migrate",
    "pool_login",
    "refuse_unsafe",
    "states_of",
    "vector_advice",
]

_QUERIES = load_queries("schema")
_LOGINS = load_queries("logins")
_TRANSACTIONS = load_queries("transactions")
_OLDEST_SERVER = 15
_OLDEST_VECTOR = (0, 8)
_SOUND_VECTOR = (0, 8, 4)
_POLL_SECONDS = 0.05
_GROUP = "memory_context_app"


@dataclass(frozen=True)
class MigrationState:
    """A migration, and whether it ran here.

    Attributes:
        state: `changed`: ran with other statements; `unknown`: of a newer version; `ahead`: newer, but compatible.
        applied_at: In UTC; None if it did not run.
    """

    version: int
    name: str
    state: Literal["applied", "pending", "changed", "unknown", "ahead"]
    applied_at: datetime | None


def states_of(applied: Sequence[Mapping[str, Any]]) -> list[MigrationState]:
    """Return all known migrations in order, given the rows of applied ones."""
    known = {migration.version: migration for migration in load_migrations()}
    ran = {row["version"]: row for row in applied}
    states: list[MigrationState] = []
    for version in sorted(known.keys() | ran.keys()):
        row, migration = ran.get(version), known.get(version)
        if row is None:
            states.append(MigrationState(version, known[version].name, "pending", None))
            continue
        state = "applied"
        if migration is None:
            state = "ahead" if row["name"].startswith(f"{version:04}_pre_") else "unknown"
        elif migration.checksum != row["checksum"]:
            state = "changed"
        states.append(MigrationState(version, row["name"], state, row["applied_at"]))
    return states


async def is_usable(connection: Connection, where: str) -> bool:
    """Return whether no migration is missing; `SchemaError` if this version cannot migrate it."""
    return not await _missing(connection, where)


async def migrate(connection: Connection, params: Mapping[str, str], where: str, limits: StoreLimits) -> None:
    """Apply missing migrations, as the owner.

    Raises:
        SchemaError: The server or login is unsuitable, or the schema is of another version.
        StoreUnavailableError: A table was in use; try again.
    """
    if not await _missing(connection, where):
        return
    try:
        async with dedicated(params, limits.opening_seconds) as guard:
            guard.allow(limits.migration_seconds)
            await _begin_alone(guard)
            connection.allow(limits.migration_seconds)
            await _ensure_vector(connection)
            missing = await _missing(connection, where)
            login = await fetch_login(connection)
            has_group = login.may_create_roles or login.is_superuser or await _exists(connection, _GROUP)
            for migration in missing:
                guard.allow(limits.migration_seconds)
                connection.allow(limits.migration_seconds)
                await _apply(connection, migration if has_group else _without_group(migration), limits)
            if login.is_bound or not has_group:
                await connection.execute(_LOGINS["bind_owner"])
            else:
                await _open_vector_schema(connection)
    except psycopg.errors.LockNotAvailable as error:
        raise StoreUnavailableError(
            f"a migration did not get hold of a table within {limits.lock_seconds:.3g} s, since a transaction uses it; "
            f"nothing of it was applied: run memory-context migrate again, best when less is going on ({where})"
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise SchemaError(
            f"login {connection.info.user!r} may not bring the schema memory_context up to date "
            f"({error.diag.message_primary}): give the URL of a login that may create schemas and roles, in "
            f"{OWNER_URL_ENV}, and start once ({where})"
        ) from error


def _without_group(migration: Migration) -> Migration:
    """Return a migration for a server on which the group of logins cannot be created: its rights are the owner's."""
    scripts = migration.scripts
    for group, owner in (
        (f"CREATE ROLE {_GROUP} NOLOGIN", "NULL"),
        (f"'{_GROUP}'", "current_user"),
        (_GROUP, "CURRENT_USER"),
    ):
        scripts = tuple(script.replace(group, owner) for script in scripts)
    return replace(migration, scripts=scripts)


async def _open_vector_schema(connection: Connection) -> None:
    """Let the pool's logins use pgvector where a host has put it."""
    (found,) = await connection.fetch(_QUERIES["fetch_vector_schema"])
    if found["is_usable"]:
        return
    grant = _LOGINS.composed("grant_vector_schema", schema=sql.Identifier(found["name"]))
    with suppress(psycopg.errors.InsufficientPrivilege):  # to who may use it, but not grant it, this is a warning only
        await connection.execute(grant)
    (found,) = await connection.fetch(_QUERIES["fetch_vector_schema"])
    if not found["is_usable"]:
        raise SchemaError(
            f"the application may not use pgvector in the schema {found['name']!r}: a database administrator must run "
            f"{grant.as_string(None)}; in the database {connection.info.dbname!r}"
        )


async def _begin_alone(connection: Connection) -> None:
    """Open a transaction that excludes migrations.

    It polls, since CREATE INDEX CONCURRENTLY elsewhere waits for the end of all statements.
    """
    while True:
        await connection.execute(_TRANSACTIONS["begin_write"])
        (row,) = await connection.fetch(_QUERIES["lock_migrations"])
        if row["is_locked"]:
            return
        await connection.execute(_TRANSACTIONS["commit"])
        await asyncio.sleep(_POLL_SECONDS)


async def _apply(connection: Connection, migration: Migration, limits: StoreLimits) -> None:
    record = {"version": migration.version, "name": migration.name, "checksum": migration.checksum}
    if migration.is_transactional:
        await connection.execute(_TRANSACTIONS["begin_write"])
        waits = {"statement_timeout": "0", "lock_timeout": f"{round(1000 * limits.lock_seconds)}ms"}
        await connection.execute(_TRANSACTIONS["limit_waits"], waits)
        await connection.execute(_QUERIES["prepare_migration"])
    for script in migration.scripts:
        await connection.execute(script.encode())
    await connection.execute(_QUERIES["insert_migration"], record)
    if migration.is_transactional:
        await connection.execute(_TRANSACTIONS["commit"])


async def _missing(connection: Connection, where: str) -> list[Migration]:
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
    states = states_of(await _applied(connection))
    by_state = {state.state: state for state in states}  # the newest of each
    if "changed" in by_state:
        raise SchemaError(
            f"migration {by_state['changed'].name} is not the one this database ran: install the version of "
            f"memory_context that created it, or start with an empty database ({where})"
        )
    if "unknown" in by_state:
        raise SchemaError(
            f"the schema is at version {by_state['unknown'].version}, this memory_context knows "
            f"{load_migrations()[-1].version}: upgrade it with pip install -U memory-context ({where})"
        )
    pending = {state.version for state in states if state.state == "pending"}
    return [migration for migration in load_migrations() if migration.version in pending]


async def _ensure_vector(connection: Connection) -> None:
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


async def _applied(connection: Connection) -> Sequence[Mapping[str, Any]]:
    if not (await _fetch_server(connection))["has_schema"]:
        return []
    return await connection.fetch(_QUERIES["select_applied_migrations"])


async def _fetch_server(connection: Connection) -> Mapping[str, Any]:
    (row,) = await connection.fetch(_QUERIES["fetch_server"])
    return row


def vector_advice(version: str | None, indexes: Sequence[str]) -> str | None:
    """Return the remedy for a pgvector whose vacuum damages HNSW indexes."""
    if version is None or _version(version) >= _SOUND_VECTOR:
        return None
    rebuild = "".join(f" REINDEX INDEX CONCURRENTLY memory_context.{name};" for name in indexes)
    return (
        f"pgvector {version} could damage HNSW indexes on vacuum, so that search misses passages: install 0.8.4 or "
        f"newer, then run as the owner ALTER EXTENSION vector UPDATE;{rebuild}"
    )


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdecimal())


@dataclass(frozen=True)
class Login:
    """Rights of a login; it is bound if row-level security is forced on the owner."""

    name: str
    database: str
    is_superuser: bool
    bypasses_rls: bool
    may_create_roles: bool
    may_create_schema: bool
    has_schema: bool
    owns_schema: bool
    is_app_member: bool
    is_bound: bool

    @property
    def is_owner(self) -> bool:
        """True if it can prepare the database; the pool must not use it."""
        owns = self.owns_schema or (self.may_create_schema and not self.has_schema)
        return self.is_superuser or self.may_create_roles or owns


async def fetch_login(connection: Connection) -> Login:
    """Return the rights of this connection's login."""
    (row,) = await connection.fetch(_LOGINS["fetch_login"])
    return Login(**row)


def refuse_unsafe(login: Login, where: str) -> None:
    """Raise `SchemaError` unless row-level security binds this login."""
    if login.is_superuser or login.bypasses_rls or (login.owns_schema and not login.is_bound):
        raise SchemaError(
            f'row-level security would not hold for login {login.name!r}: run ALTER ROLE "{login.name}" NOSUPERUSER '
            f"NOBYPASSRLS; and let it own nothing in the schema memory_context, or use another login ({where})"
        )
    if not login.is_app_member and not login.owns_schema:
        raise SchemaError(
            f"login {login.name!r} may not use the schema memory_context: run GRANT memory_context_app TO "
            f'"{login.name}"; ({where})'
        )


async def ensure_pool_login(
    owner: Connection, owner_params: Mapping[str, str], where: str, migration_seconds: float
) -> dict[str, str]:
    """Return the connection parameters of the pool's login, created if missing; `SchemaError` if that fails.

    An owner who may not create it works under its own login, bound by row-level security.
    """
    rights = await fetch_login(owner)
    database = rights.database
    if rights.is_bound:
        return {**owner_params, "dbname": database}
    params = pool_login(owner, owner_params, database)
    name, password = params["user"], params.get("password")

    if not await _exists(owner, name):
        try:
            await _write_login(owner, name, password, where, migration_seconds)
        except SchemaError:
            if rights.bypasses_rls:
                raise
            await owner.rollback()
            await owner.execute(_LOGINS["bind_owner"])
            return {**owner_params, "dbname": database}
    try:
        login = await _log_in(params, owner.seconds_left)
    except psycopg.OperationalError as error:
        if _is_passing(error):
            raise
        # the owner's password was changed
        await _write_login(owner, name, password, where, migration_seconds)
        login = await _log_in_or_explain(params, where, owner.seconds_left)
    if not login.is_app_member:  # after a restore
        await _write_login(owner, name, password, where, migration_seconds)
        login = await _log_in_or_explain(params, where, owner.seconds_left)
    refuse_unsafe(login, where)
    return params


def pool_login(owner: Connection, owner_params: Mapping[str, str], database: str) -> dict[str, str]:
    """Return the parameters of the pool's login, which derive from the owner's."""
    name = "memory_context_login_" + hashlib.sha256(database.encode()).hexdigest()[:8]
    params = {**owner_params, "user": name, "dbname": database}
    params.pop("password", None)
    if secret := owner.pgconn.password:  # from the URL, PGPASSWORD or the password file
        params["password"] = hmac.new(secret, name.encode(), hashlib.sha256).hexdigest()
    return params


async def _exists(owner: Connection, name: str) -> bool:
    (row,) = await owner.fetch(_LOGINS["fetch_role_exists"], {"name": name})
    return row["exists"]


async def _log_in(params: Mapping[str, str], seconds: float) -> Login:
    async with dedicated(params, seconds) as connection:
        return await fetch_login(connection)


async def _log_in_or_explain(params: Mapping[str, str], where: str, seconds: float) -> Login:
    try:
        return await _log_in(params, seconds)
    except psycopg.OperationalError as error:
        if _is_passing(error):
            raise
        raise SchemaError(
            f"the pool's login {params['user']!r} cannot log in ({str(error).strip().splitlines()[0]}): admit it in "
            f"pg_hba.conf or in PgBouncer's user list, or give the URL of an ordinary login that is a member of "
            f"memory_context_app, and the owner's in {OWNER_URL_ENV} ({where})"
        ) from error


async def _write_login(
    owner: Connection, name: str, password: str | None, where: str, migration_seconds: float
) -> None:
    owner.allow(migration_seconds)
    verifier = None
    if password:  # hashed here: the server logs statements
        verifier = owner.pgconn.encrypt_password(password.encode(), name.encode(), b"scram-sha-256").decode()
    parts = {"login": sql.Identifier(name), "password": sql.Literal(verifier)}
    try:
        await _begin_alone(owner)
        if not await _exists(owner, name):
            await owner.execute(_LOGINS.composed("create_login", **parts))
        elif verifier:
            await owner.execute(_LOGINS.composed("update_login_password", **parts))
        await owner.execute(_LOGINS.composed("grant_app_role", **parts))
        await owner.execute(_TRANSACTIONS["commit"])
    except psycopg.errors.InsufficientPrivilege as error:
        raise SchemaError(
            f"login {owner.info.user!r} may not create the pool's login ({error.diag.message_primary}): a database "
            f"administrator must run CREATE ROLE memory_app LOGIN PASSWORD '…' IN ROLE memory_context_app; then give "
            f"the URL of memory_app, and this one in {OWNER_URL_ENV} ({where})"
        ) from error


def _is_passing(error: psycopg.OperationalError) -> bool:
    """Return whether a retry can help; a refused connection has no SQLSTATE."""
    is_late = isinstance(error, (DeadlineError, psycopg.errors.ConnectionTimeout))
    return is_late or any(words in str(error) for words in ("too many", "connection slots", "starting up"))
