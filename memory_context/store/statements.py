"""StatementStore: user memory, statements of one line with two times: when they hold, and when they were recorded.

stored ──same subject, newer──▶ superseded (kept, linked)        said late: superseded at once by the next newer one
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from psycopg.rows import DictRow

from .database import Database
from .items import (
    RESERVED_METADATA,
    USER_TYPES,
    MemoryItem,
    NewItem,
    ReadScope,
    content_of,
    item_from_row,
    row_params,
    scope_params,
)
from .jobs import Jobs
from .pool import Statement
from .sql import load_queries

__all__ = ["StatementStore", "select_statements", "statements_from", "without_claims"]

_WORD = re.compile(r"\w+")
_BETWEEN = r"[\W_]+"

_QUERIES = load_queries("statements")
_ITEMS = load_queries("agent_memories")


def without_claims(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an item without what an untrusted file says of quotes, confirmation and validity."""
    kept = {name: value for name, value in fields["content_metadata"].items() if name not in RESERVED_METADATA}
    metadata = kept if fields["memory_type"] in USER_TYPES else fields["content_metadata"]
    return {**fields, "content_metadata": metadata, "valid_from": None, "valid_until": None, "superseded_by": None}


def select_statements(
    user_id: str,
    scope: ReadScope,
    *,
    as_of: datetime | None = None,
    with_superseded: bool = False,
    limit: int = 200,
) -> Statement:
    """Return the statement that reads user memory, newest first; `statements_from` reads its rows."""
    params = {"as_of": as_of, "with_superseded": with_superseded, "limit": limit}
    return Statement(_QUERIES["select_statements"], {"user_id": user_id, **params, **scope_params(scope)})


def statements_from(rows: Sequence[DictRow]) -> list[MemoryItem]:
    """Return the items of rows of `select_statements`, with their text."""
    return [item_from_row(row, content_of(row), "all of", is_whole=True) for row in rows]


class StatementStore:
    """The methods of `MemoryStore` for user memory."""

    _database: Database
    _jobs: Jobs

    async def select_statements(
        self,
        user_id: str,
        *,
        scope: ReadScope,
        as_of: datetime | None = None,
        with_superseded: bool = False,
        limit: int = 200,
    ) -> list[MemoryItem]:
        """Return statements that hold now or held `as_of` a time, newest first; superseded ones only if asked for."""
        reading = select_statements(user_id, scope, as_of=as_of, with_superseded=with_superseded, limit=limit)
        (rows,) = await self._database.read(user_id, reading)
        return statements_from(rows)

    async def select_claims(self, user_id: str, *, scope: ReadScope, limit: int = 200) -> list[MemoryItem]:
        """Return items of user types without a trusted origin, newest first, with their text up to 2,000 characters."""
        params = {"user_id": user_id, "limit": limit, **scope_params(scope)}
        (rows,) = await self._database.read(user_id, Statement(_QUERIES["select_claims"], params))
        return statements_from(rows)

    async def insert_statement(
        self, user_id: str, item: NewItem, valid_from: datetime, supersedes: Sequence[str] = ()
    ) -> tuple[str, bool]:
        """Store a statement and end those it replaces, in one transaction.

        It replaces older ones with its subject (`metadata["subject"]`) and those named by key. The same statement, if
        it holds, and one that was forgotten are not stored again.

        Returns:
            The key of the statement that holds, and whether it is new.
        """
        content, row = row_params(user_id, item)
        params = {**row, **_times(item.key, valid_from, item.metadata, supersedes)}
        *_, (stored,), _, _, _ = await self._database.write(
            user_id,
            Statement(_QUERIES["lock_statements"], params),
            Statement(_ITEMS["upsert_content"], content),
            Statement(_QUERIES["insert_statement"], params),
            Statement(_QUERIES["update_statements_superseded"], params),
            Statement(_QUERIES["delete_unused_content"], params),
            Statement(_ITEMS["upsert_pending_user"], {"user_id": user_id}),
        )
        if stored["is_new"]:
            self._jobs.wake(user_id)
            self._database.user_memory_changes[user_id] += 1
        return stored["memory_key"], stored["is_new"]

    async def is_shown_before(self, user_id: str, session_id: str, quote: str, position: int, before: datetime) -> bool:
        """Return True if an item or file of the session holds the words of a quote, and is older than a message."""
        words = _WORD.findall(quote)
        params = {
            "user_id": user_id,
            "session_id": session_id,
            "position": position,
            "said_at": before,
            "pattern": rf"\m{_BETWEEN.join(words)}\M",
            "bytes_pattern": _BETWEEN.join(word if word.isascii() else r"\S+" for word in words),
        }
        statement = Statement(_QUERIES["fetch_is_shown_before"], params)
        (rows,) = await self._database.read(user_id, statement, kind="batch")
        return bool(words) and rows[0]["is_shown"]

    async def update_statement_confirmed(
        self, user_id: str, memory_key: str, *, source: str, valid_from: datetime, metadata: Mapping[str, Any]
    ) -> bool:
        """Make an item of a user type the user's; False if it is not there, of another type, or superseded."""
        params = {
            "user_id": user_id,
            "source": source,
            "metadata": dict(metadata),
            **_times(memory_key, valid_from, metadata, ()),
        }
        names = ("lock_statements", "update_statement_confirmed", "update_statements_superseded")
        _, confirmed, _ = await self._database.write(user_id, *(Statement(_QUERIES[name], params) for name in names))
        self._database.user_memory_changes[user_id] += 1
        return bool(confirmed)


def _times(
    memory_key: str, valid_from: datetime, metadata: Mapping[str, Any], supersedes: Sequence[str]
) -> dict[str, Any]:
    return {
        "memory_key": memory_key,
        "valid_from": valid_from,
        "subject": metadata.get("subject"),
        "supersedes": list(supersedes),
    }
