"""What a server serves: the memory of one user, reached without a conversation of one's own.

An agent's tools belong to a context, which has a transcript and a session. A server has neither: `ServedMemory` gives
its tools a host all the same, with nothing said so far, or with the transcript of a session that was archived.
"""

import asyncio
import getpass

from ..access import UsageError
from ..archive.resume import load_session
from ..errors import ItemNotFoundError
from ..identifiers import SessionKey, checked_identifier
from ..memory import AgentMemory
from ..policy import ContextPolicy
from ..references import one_line
from ..store import MemoryStore, SessionInfo
from ..tokens import TokenCounter, default_token_counter
from ..transcript import Transcript

__all__ = ["MemoryHost", "ServedMemory"]


class MemoryHost:
    """What a memory tool needs to answer: a memory, a transcript, and limits.

    Args:
        agent_memory: The items that are stored and read.
        transcript: What was said.
    """

    def __init__(self, agent_memory: AgentMemory, transcript: Transcript) -> None:
        self.user_id = agent_memory.user_id
        self.agent_id = agent_memory.agent_id
        self.session_id = self.template_id = agent_memory.session_id
        self.policy = ContextPolicy()
        self.token_counter: TokenCounter = default_token_counter()
        self.agent_memory = agent_memory
        self.transcript = transcript


class ServedMemory:
    """The memory of one user, for a server.

    Making one does no I/O; each method opens the store if that has not been done, and raises `StoreError` if it cannot.

    Args:
        store: Where it is.
        user_id: Whose; None for the only user there is, and as long as there is none for the one of the login name.
        agent_id: The agent that items are stored as.
        session_id: The session they are stored in, and the one that is read if none is named; "" for none.

    Raises:
        ValueError: One of the ids is none.
    """

    def __init__(
        self, store: MemoryStore, user_id: str | None = None, *, agent_id: str = "mcp", session_id: str = ""
    ) -> None:
        self.store = store
        self.agent_id = checked_identifier("agent_id", agent_id)
        self.session_id = session_id and checked_identifier("session_id", session_id)
        self._user_id = None if user_id is None else checked_identifier("user_id", user_id)
        self._looking = asyncio.Lock()

    async def user_id(self) -> str:
        """Return whose memory it is, always the same.

        Raises:
            UsageError: Nobody was named, and there are several users.
        """
        async with self._looking:
            if self._user_id is None:
                self._user_id = await _only_user(self.store)
        return self._user_id

    async def memory(self, session_id: str | None = None) -> AgentMemory:
        """Return the items, as they are stored and read in a session; None for the server's own."""
        session = self.session_id if session_id is None else session_id
        return AgentMemory(self.store, await self.user_id(), self.agent_id, session)

    async def host(self) -> MemoryHost:
        """Return a host in which nothing was said so far."""
        return MemoryHost(await self.memory(), Transcript())

    async def sessions(self, limit: int) -> list[SessionInfo]:
        """Return the sessions that were used last."""
        return await self.store.conversations.sessions(await self.user_id(), limit=limit)

    async def session_host(self, session_id: str, agent_id: str | None = None) -> MemoryHost:
        """Return a host with what was archived of a session.

        Args:
            session_id: Which one.
            agent_id: Whose transcript; None for the agent that began it.

        Raises:
            ItemNotFoundError: The user has no such session.
        """
        user_id, conversations = await self.user_id(), self.store.conversations
        info = await conversations.session(user_id, session_id)
        if info is None:
            raise ItemNotFoundError(f"no session {one_line(session_id, 80)!r} in this memory")
        resumed = await load_session(conversations, SessionKey(user_id, agent_id or info.agent_id, session_id))
        return MemoryHost(await self.memory(session_id), resumed.transcript)


async def _only_user(store: MemoryStore) -> str:
    found, name = await store.user_stats.only_user()
    if found > 1:
        raise UsageError(
            f"{store.describe()} has several users and the server was not told whom to serve: "
            "start it with --user NAME, or with MEMORY_CONTEXT_USER set"
        )
    return name or _login_name()


def _login_name() -> str:
    try:
        return checked_identifier("user_id", getpass.getuser())
    except (OSError, KeyError, ImportError, ValueError):  # a container's user may have no name
        return "default"
