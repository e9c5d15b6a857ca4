"""The list of users: the one thing that maintenance reads across them, to act as each in turn."""

from collections.abc import AsyncIterator

from memory_context.escaping import unescape

from .database import Database
from .pool import Statement
from .sqlfiles import load_queries

__all__ = ["every_user"]

_QUERIES = load_queries("index")
_USERS_PER_PAGE = 500


async def every_user(database: Database) -> AsyncIterator[str]:
    """Yield all users in a fixed order, page by page; who comes meanwhile may be left out.

    Raises:
        StoreError: The database failed.
    """
    after = ""
    while True:
        params = {"after": after, "limit": _USERS_PER_PAGE}
        (rows,) = await database.read(None, Statement(_QUERIES["select_users"], params))
        for row in rows:
            yield unescape(row["user_id"])
        if len(rows) < _USERS_PER_PAGE:
            return
        after = rows[-1]["user_id"]
