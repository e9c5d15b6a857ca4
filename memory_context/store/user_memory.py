"""Reads what a session shows of its user from its start: one transaction, one round trip."""

from dataclasses import dataclass, field
from datetime import datetime

from .database import Database
from .items import MemoryItem, ReadScope
from .notes import AgentNotes, fetch_notes
from .pool import Statement
from .secret_rows import SecretName
from .sql import load_queries
from .statements import select_statements, statements_from

__all__ = ["PastSession", "UserMemory", "read_user_memory", "statements_of_user_memory"]

_QUERIES = load_queries("user_memory")
_SECRETS = load_queries("secrets")
_SESSIONS, _NAMES = 5, 100


@dataclass(frozen=True)
class PastSession:
    """An earlier conversation of the user in one line."""

    title: str
    last_activity_at: datetime


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


def statements_of_user_memory(user_id: str, scope: ReadScope, *, with_superseded: bool = False) -> list[Statement]:
    """Return the statements that read all of it."""
    params = {"user_id": user_id, "session_id": scope.session_id}
    return [
        select_statements(user_id, scope, with_superseded=with_superseded),
        Statement(_QUERIES["select_last_sessions"], {**params, "limit": _SESSIONS}),
        Statement(_SECRETS["select_secret_names"], {**params, "limit": _NAMES}),
        fetch_notes(user_id, scope.agent_id),
    ]


async def read_user_memory(
    database: Database,
    user_id: str,
    scope: ReadScope,
    *,
    with_superseded: bool = False,
    only_notes: bool = False,
) -> UserMemory:
    """Return what this reader may see, or raise StoreError. With `only_notes` the rest is left out."""
    reading = statements_of_user_memory(user_id, scope, with_superseded=with_superseded)
    *rest, notes = await database.read(user_id, *(reading[-1:] if only_notes else reading), agent_id=scope.agent_id)
    if only_notes:
        return UserMemory(notes=AgentNotes.of(notes))
    statements, sessions, secrets = rest
    return UserMemory(
        statements=tuple(one for one in statements_from(statements) if not one.is_private),
        sessions=tuple(PastSession(row["summary"] or row["title"], row["last_activity_at"]) for row in sessions),
        secrets=tuple(SecretName(**row) for row in secrets),
        notes=AgentNotes.of(notes),
    )
