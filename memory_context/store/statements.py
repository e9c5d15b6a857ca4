"""StatementStore: user memory, statements of one line with two times: when they hold, and when they were recorded.

stored ──same subject, newer──▶ superseded (kept, linked)        said late: superseded at once by the next newer one
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from psycopg.rows import DictRow

from memory_context.foundation.patterns import regex
from memory_context.foundation.text.tokenize import verbatim_pattern

from .database import Database
from .items import (
    ANYBODY,
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
from .notes import AgentNotes, fetch_notes
from .secret_rows import SecretName
from .sql import Statement, load_queries

__all__ = [
    "REQUEST_AND_ANSWER",
    "PastSession",
    "PastUse",
    "StatementStore",
    "UserMemory",
    "select_statements",
    "statements_from",
    "statements_of_user_memory",
    "without_claims",
]

REQUEST_AND_ANSWER = " — "
"""Stands between the last request and the last answer in a summary that no model made."""

_WORD = regex(r"\w+")
_BETWEEN = r"[\W_]+"

_QUERIES = load_queries("statements")
_ITEMS = load_queries("agent_memories")
_MEMORY = load_queries("user_memory")
_SECRETS = load_queries("secrets")
_SESSIONS, _NAMES, _PAST_SESSIONS = 5, 100, 10


@dataclass(frozen=True)
class PastSession:
    """An earlier conversation of the user in one line."""

    title: str
    last_activity_at: datetime


@dataclass(frozen=True)
class PastUse:
    """Use of the memory by sessions before this one.

    Attributes:
        has_memory: Another session stored something that the reader may read.
        messages: Median of the agent's last ten sessions; `results`: of its stored results.
    """

    has_memory: bool = False
    messages: int = 0
    results: int = 0


@dataclass(frozen=True)
class UserMemory:
    """Everything that a session shows of its user from its start.

    Attributes:
        statements: Newest first.
        sessions: At most five, newest first.
        secrets: Names only, in order.
        notes: The reading agent's own.
    """

    statements: tuple[MemoryItem, ...] = ()
    sessions: tuple[PastSession, ...] = ()
    secrets: tuple[SecretName, ...] = ()
    notes: AgentNotes = field(default_factory=AgentNotes)


def without_claims(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an item without what a file says of quotes and confirmation."""
    kept = {name: value for name, value in fields["content_metadata"].items() if name not in RESERVED_METADATA}
    metadata = kept if fields["memory_type"] in USER_TYPES else fields["content_metadata"]
    return {**fields, "content_metadata": metadata}


def select_statements(
    scope: ReadScope,
    *,
    as_of: datetime | None = None,
    with_superseded: bool = False,
    limit: int = 200,
) -> Statement:
    """Return the statement that reads user memory, newest first; `statements_from` reads its rows."""
    params = {"as_of": as_of, "with_superseded": with_superseded, "limit": limit}
    return _QUERIES("select_statements", {**params, **scope_params(scope)})


def statements_from(rows: Sequence[DictRow]) -> list[MemoryItem]:
    """Return the items of rows of `select_statements`, with their text."""
    return [item_from_row(row, content_of(row), "all of", is_whole=True) for row in rows]


def statements_of_user_memory(scope: ReadScope, *, with_superseded: bool = False) -> list[Statement]:
    """Return the statements that read all of it in one round trip, the agent's notes last."""
    session = {"session_id": scope.session_id}
    return [
        select_statements(scope, with_superseded=with_superseded),
        _MEMORY("select_last_sessions", session, limit=_SESSIONS),
        _SECRETS("select_secret_names", session, limit=_NAMES),
        fetch_notes(scope.agent_id),
    ]


def _gist(session: DictRow) -> str:
    """Return a session in one line: its summary, unless that holds the agent's last answer, which proves nothing."""
    request, is_with_answer, _ = session["summary"].partition(REQUEST_AND_ANSWER)
    return session["title"] or request if is_with_answer else session["summary"] or session["title"]


class StatementStore:
    """User memory: preferences and facts."""

    def __init__(self, database: Database, jobs: Jobs) -> None:
        self._database, self._jobs = database, jobs

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
        reading = select_statements(scope, as_of=as_of, with_superseded=with_superseded, limit=limit)
        (rows,) = await self._database.read(user_id, reading)
        return statements_from(rows)

    async def fetch_user_memory(
        self, user_id: str, *, scope: ReadScope = ANYBODY, with_superseded: bool = False, only_notes: bool = False
    ) -> UserMemory:
        """Return what a session of this reader shows of the user, or only the agent's own notes, in one round trip."""
        reading = statements_of_user_memory(scope, with_superseded=with_superseded)[-1 if only_notes else 0 :]
        *rest, notes = await self._database.read(user_id, *reading, agent_id=scope.agent_id)
        if only_notes:
            return UserMemory(notes=AgentNotes.of(notes))
        statements, sessions, secrets = rest
        return UserMemory(
            statements=tuple(one for one in statements_from(statements) if not one.is_private),
            sessions=tuple(PastSession(_gist(row), row["last_activity_at"]) for row in sessions),
            secrets=tuple(SecretName(**row) for row in secrets),
            notes=AgentNotes.of(notes),
        )

    async def select_past_use(self, user_id: str, scope: ReadScope) -> PastUse:
        """Return what earlier sessions of the user and the reading agent tell of this one."""
        of_agent = {"agent_id": scope.agent_id, "session_id": scope.session_id, "limit": _PAST_SESSIONS}
        (rows,) = await self._database.read(user_id, _MEMORY("select_past_use", {**scope_params(scope), **of_agent}))
        return PastUse(**rows[0])

    async def select_claims(self, user_id: str, *, scope: ReadScope, limit: int = 200) -> list[MemoryItem]:
        """Return items of user types without a trusted origin, newest first, with their text up to 2,000 characters."""
        (rows,) = await self._database.read(user_id, _QUERIES("select_claims", scope_params(scope), limit=limit))
        return statements_from(rows)

    async def insert_statement(
        self,
        user_id: str,
        item: NewItem,
        valid_from: datetime,
        supersedes: Sequence[str] = (),
        *,
        replaces_subject: bool = True,
        is_repeatable: bool = False,
    ) -> tuple[str, bool]:
        """Store a statement and end those it replaces, in one transaction.

        It replaces older ones with its subject (`metadata["subject"]`), unless told not to, and those named by key. The
        same statement, if it holds and is not repeatable, and one that was forgotten are not stored again.

        Returns:
            The key of the statement that holds, and whether it is new.
        """
        content, row = row_params(item)
        params = {**row, **_times(item.key, valid_from, item.metadata, supersedes, replaces_subject)}
        params["is_repeatable"] = is_repeatable
        *_, (stored,), _, _, _ = await self._database.write(
            user_id,
            _QUERIES("lock_statements", params),
            _ITEMS("upsert_content", content),
            _QUERIES("insert_statement", params),
            _QUERIES("update_statements_superseded", params),
            _QUERIES("delete_unused_content", params),
            _ITEMS("upsert_pending_user"),
            changes_user_memory=True,
        )
        if stored["is_new"]:
            self._jobs.wake(user_id)
        return stored["memory_key"], stored["is_new"]

    async def is_shown_before(self, user_id: str, session_id: str, quote: str, position: int, before: datetime) -> bool:
        """Return True if an item or file of the session holds the words of a quote, and is older than a message."""
        words = _WORD.findall(quote)
        statement = _QUERIES(
            "fetch_is_shown_before",
            session_id=session_id,
            position=position,
            said_at=before,
            pattern=verbatim_pattern(quote),
            bytes_pattern=_BETWEEN.join(word if word.isascii() else r"\S+" for word in words),
        )
        (rows,) = await self._database.read(user_id, statement, kind="batch")
        return bool(words) and rows[0]["is_shown"]

    async def update_statement_confirmed(
        self,
        user_id: str,
        memory_key: str,
        *,
        source: str,
        valid_from: datetime,
        metadata: Mapping[str, Any],
        supersedes: Sequence[str] = (),
        replaces_subject: bool = True,
    ) -> bool:
        """Make an item of a user type the user's; False if it is not there, of another type, or superseded."""
        params = {
            "source": source,
            "metadata": dict(metadata),
            **_times(memory_key, valid_from, metadata, supersedes, replaces_subject),
        }
        names = ("lock_statements", "update_statement_confirmed", "update_statements_superseded")
        _, confirmed, _ = await self._database.write(user_id, *_QUERIES.each(names, params), changes_user_memory=True)
        return bool(confirmed)


def _times(
    memory_key: str,
    valid_from: datetime,
    metadata: Mapping[str, Any],
    supersedes: Sequence[str],
    replaces_subject: bool,
) -> dict[str, Any]:
    return {
        "memory_key": memory_key,
        "valid_from": valid_from,
        "subject": metadata.get("subject") if replaces_subject else None,
        "supersedes": list(supersedes),
    }
