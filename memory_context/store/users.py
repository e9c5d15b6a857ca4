"""The list of users, which maintenance reads across them, to act as each in turn.

The application's login may not read it. It is asked for as the owner where the location names one, else as whatever
login there is, which may have been given the right to call `list_users`.
"""

from collections.abc import AsyncIterator

import psycopg

from memory_context.errors import StoreError
from memory_context.escaping import unescape

from .connection import dedicated
from .database import Database
from .failures import driver_errors
from .location import OWNER_URL_ENV, read_url
from .pool import Statement
from .preparation import reach_server
from .sqlfiles import load_queries

__all__ = ["every_user", "only_user"]

_QUERIES = load_queries("users")
_USERS_PER_PAGE = 500


async def every_user(database: Database) -> AsyncIterator[str]:
    """Yield all users in a fixed order, page by page; who comes meanwhile may be left out.

    Raises:
        StoreError: The database failed, or no login that it was given may list the users; says what to do.
    """
    await database.ready()
    location = database.location
    limits = database.limits
    params = await reach_server(location, limits) if location.owner_url is None else read_url(location.owner_url)
    after = ""
    while True:
        with driver_errors(location.describe()):
            async with dedicated(params, limits.transaction_seconds) as connection:
                page = {"after": after, "limit": _USERS_PER_PAGE}
                try:
                    rows = await (await connection.execute(_QUERIES["select_users"], page)).fetchall()
                except psycopg.errors.InsufficientPrivilege as error:
                    raise StoreError(_may_not_list(connection.info.user, location.describe())) from error
        for row in rows:
            yield unescape(row["user_id"])
        if len(rows) < _USERS_PER_PAGE:
            return
        after = rows[-1]["user_id"]


async def only_user(database: Database) -> tuple[int, str | None]:
    """Return 0 and None, 1 and the only user, or 2 and None if there are several.

    Raises:
        StoreError: The database failed.
    """
    ((found,),) = await database.read(None, Statement(_QUERIES["fetch_only_user"]))
    return found["users"], None if found["user_id"] is None else unescape(found["user_id"])


def _may_not_list(login: str, where: str) -> str:
    return (
        f"login {login!r} may not list the users, which maintenance of all of them needs: name the owner's URL in "
        f'{OWNER_URL_ENV}, or run GRANT EXECUTE ON FUNCTION memory_context.list_users(text, integer) TO "{login}"; '
        f"({where})"
    )
