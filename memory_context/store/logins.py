"""The pool's login, bound by row-level security, which owners bypass. It derives from the owner's by HMAC; nothing is
stored.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import psycopg
from psycopg import sql
from typing_extensions import LiteralString

from memory_context.errors import SchemaError

from .connection import Connection, DeadlineError, dedicated
from .location import OWNER_URL_ENV
from .schema import begin_alone
from .sql import load_queries

__all__ = ["Login", "ensure_pool_login", "fetch_login", "refuse_unsafe"]

_QUERIES = load_queries("logins")
_TRANSACTIONS = load_queries("transactions")


@dataclass(frozen=True)
class Login:
    """Rights of a login."""

    name: str
    database: str
    is_superuser: bool
    bypasses_rls: bool
    may_create_roles: bool
    may_create_schema: bool
    has_schema: bool
    owns_schema: bool
    is_app_member: bool

    @property
    def is_owner(self) -> bool:
        """True if it can prepare the database; the pool must not use it."""
        owns = self.owns_schema or (self.may_create_schema and not self.has_schema)
        return self.is_superuser or self.may_create_roles or owns


async def fetch_login(connection: Connection) -> Login:
    """Return the rights of this connection's login."""
    row = await (await connection.execute(_QUERIES["fetch_login"])).fetchone()
    assert row is not None  # everyone is in pg_roles
    return Login(**row)


def refuse_unsafe(login: Login, where: str) -> None:
    """Raise `SchemaError` unless row-level security binds this login."""
    if login.is_superuser or login.bypasses_rls or login.owns_schema:
        raise SchemaError(
            f'row-level security would not hold for login {login.name!r}: run ALTER ROLE "{login.name}" NOSUPERUSER '
            f"NOBYPASSRLS; and let it own nothing in the schema memory_context, or use another login ({where})"
        )
    if not login.is_app_member:
        raise SchemaError(
            f"login {login.name!r} may not use the schema memory_context: run GRANT memory_context_app TO "
            f'"{login.name}"; ({where})'
        )


async def ensure_pool_login(
    owner: Connection, owner_params: Mapping[str, str], where: str, migration_seconds: float
) -> dict[str, str]:
    """Return the connection parameters of the pool's login, created if missing; `SchemaError` if that fails."""
    database = (await fetch_login(owner)).database
    name = "memory_context_login_" + hashlib.sha256(database.encode()).hexdigest()[:8]
    secret = owner.pgconn.password  # from the URL, PGPASSWORD or the password file
    password = hmac.new(secret, name.encode(), hashlib.sha256).hexdigest() if secret else None
    params = {**owner_params, "user": name, "dbname": database}
    params.pop("password", None)
    if password:
        params["password"] = password

    if not await _exists(owner, name):
        await _write_login(owner, name, password, where, migration_seconds)
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


async def _exists(owner: Connection, name: str) -> bool:
    row = await (await owner.execute(_QUERIES["fetch_role_exists"], {"name": name})).fetchone()
    return row is not None and row["exists"]


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
        await begin_alone(owner)
        if not await _exists(owner, name):
            await owner.execute(_compose("create_login", parts))
        elif verifier:
            await owner.execute(_compose("update_login_password", parts))
        await owner.execute(_compose("grant_app_role", parts))
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


def _compose(name: str, parts: Mapping[str, sql.Composable]) -> sql.Composed:
    return sql.SQL(cast("LiteralString", _QUERIES[name].decode())).format(**parts)
