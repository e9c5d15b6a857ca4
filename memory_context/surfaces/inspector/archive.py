"""The archived sessions of users, as the inspector reads them; a session of somebody else does not exist."""

from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException

from memory_context.foundation.identifiers import SessionKey
from memory_context.sessions.archive.resume import whole_history
from memory_context.store.conversations import Archived, SessionInfo
from memory_context.store.memory_store import MemoryStore

__all__ = ["ArchivedSessions", "Transcribed"]


@dataclass(frozen=True)
class Transcribed:
    """The transcript of one agent in a session, as archived.

    Attributes:
        agents: All that have a transcript in the session, the one that wrote last first.
        saved: Its events, for the functions of `view.calls`.
        remarks: Sentences on what is not shown.
    """

    key: SessionKey
    agents: list[str]
    archived: Archived
    saved: dict[str, Any]
    remarks: list[str]


class ArchivedSessions:
    """Reads sessions; raises HTTPException 404 for those that the user does not have."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    async def info(self, user_id: str, session_id: str) -> SessionInfo:
        info = await self._store.conversations.session(user_id, session_id)
        if info is None:
            raise HTTPException(404, f"there is no session {session_id!r}")
        return info

    async def agents(self, user_id: str, session_id: str) -> list[str]:
        """Return the agents with a transcript, the one that wrote last first."""
        transcripts = await self._store.user_stats.transcripts(user_id, session_id)
        return list(dict.fromkeys(one.agent_id for one in transcripts))

    async def read(self, user_id: str, session_id: str, agent: str = "") -> Transcribed:
        """Return the transcript of an agent; "" for the one that wrote last."""
        await self.info(user_id, session_id)
        agents = await self.agents(user_id, session_id)
        if not agents or agent not in ("", *agents):
            raise HTTPException(404, f"session {session_id!r} has no transcript{f' of {agent!r}' if agent else ''}")
        key = SessionKey(user_id, agent or agents[0], session_id)
        archived = await self._store.conversations.read(key)
        try:
            saved, unread = whole_history(archived)
        except ValueError as error:
            raise HTTPException(422, f"a newer version archived this session: {error}") from None
        lost = [f"batch {one} is damaged or missing, and nothing from there on is shown" for one in unread[:1]]
        others = [f"line {one!r} of another process is not shown" for one in archived.branches]
        return Transcribed(key, agents, archived, saved, lost + others)
