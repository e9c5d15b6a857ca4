"""Long-term notes: one text for each user and agent, written conditionally, with its former texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .database import EVERY_AGENT, Database
from .sql import Statement, load_queries

__all__ = [
    "KEPT_VERSIONS",
    "AgentNotes",
    "NotesExtent",
    "NotesStore",
    "NotesVersion",
    "fetch_notes",
]

KEPT_VERSIONS = 20
"""Former texts that can be undone to."""

_QUERIES = load_queries("notes")
_USERS = load_queries("threads")


@dataclass(frozen=True)
class AgentNotes:
    """The notes of one agent about one user; version 0 means that none were written yet."""

    text: str = ""
    version: int = 0
    operation: str = ""
    updated_at: datetime | None = None

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> "AgentNotes":
        """Return the notes in the rows of `fetch_notes`."""
        return cls(rows[0]["notes"], rows[0]["version"], rows[0]["operation"], rows[0]["updated_at"]) if rows else cls()


@dataclass(frozen=True)
class NotesVersion:
    """One version of notes.

    Attributes:
        repeats: The version whose text it is: its own, or an earlier one after an undo.
        operation: The operation that wrote it; empty for version 0.
    """

    version: int
    text: str
    repeats: int
    operation: str
    written_at: datetime


@dataclass(frozen=True)
class NotesExtent:
    """An agent with notes about a user."""

    agent_id: str
    characters: int
    version: int
    updated_at: datetime


def fetch_notes(agent_id: str) -> Statement:
    """Return the statement that reads notes, for a transaction that acts as this agent; `AgentNotes.of` its rows."""
    return _QUERIES("fetch_notes", agent_id=agent_id)


class NotesStore:
    """The notes of all users. An agent's transactions see its own notes only."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def fetch(self, user_id: str, agent_id: str) -> AgentNotes:
        (rows,) = await self._database.read(user_id, fetch_notes(agent_id), agent_id=agent_id)
        return AgentNotes.of(rows)

    async def write(
        self,
        user_id: str,
        agent_id: str,
        text: str,
        operation: str,
        based_on: int,
        *,
        repeats: int | None = None,
        is_erased: bool = False,
    ) -> tuple[bool, AgentNotes]:
        """Write notes if version `based_on` is in force; return whether they were, and the notes in force now.

        Args:
            repeats: The version whose text an undo restores.
            is_erased: Delete the former texts, too.
        """
        params = {
            "agent_id": agent_id,
            "notes": text,
            "operation": operation,
            "based_on": based_on,
            "repeats": repeats,
            "is_erased": is_erased,
            "kept_versions": KEPT_VERSIONS,
        }
        steps = (_USERS("insert_known_user", params), _QUERIES("upsert_notes", params))
        _, written, rows = await self._database.write(user_id, *steps, fetch_notes(agent_id), agent_id=agent_id)
        self._database.user_memory_changes[user_id] += bool(written)
        return bool(written), AgentNotes.of(rows)

    async def versions(self, user_id: str, agent_id: str) -> list[NotesVersion]:
        """Return the notes in force and the former texts that are kept, newest first."""
        versions = _QUERIES("select_notes_versions", agent_id=agent_id)
        (rows,) = await self._database.read(user_id, versions, agent_id=agent_id)
        return [NotesVersion(text=row.pop("notes"), **row) for row in rows]

    async def agents(self, user_id: str) -> list[NotesExtent]:
        """Return the user's agents that have notes, last changed first."""
        agents = _QUERIES("select_notes_agents")
        (rows,) = await self._database.read(user_id, agents, agent_id=EVERY_AGENT)
        return [NotesExtent(**row) for row in rows]
