"""The memory of one user as a server sees it: whose it is, its sessions, and a host for the tools."""

import asyncio
import getpass
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from memory_context.foundation.errors import ItemNotFoundError, StoreUnavailableError
from memory_context.foundation.identifiers import checked_identifier
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.references import one_line
from memory_context.foundation.runtime.background import Background
from memory_context.foundation.tokens import TokenCounter, default_token_counter
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.items import MemoryItem
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.store.conversations import SessionInfo
from memory_context.store.limits import within
from memory_context.store.memory_store import MemoryStore

from ..access.gate import UsageError

__all__ = ["MemoryHost", "ServedMemory"]

_Answer = TypeVar("_Answer")

_READY_SHARE = 0.8  # of a call's time; the rest is for the call itself


class MemoryHost:
    """A host for memory tools outside of a conversation, so without a transcript."""

    def __init__(self, agent_memory: AgentMemory) -> None:
        self.user_id = agent_memory.user_id
        self.agent_id = agent_memory.agent_id
        self.session_id = self.template_id = agent_memory.session_id
        self.policy = ContextPolicy()
        self.token_counter: TokenCounter = default_token_counter()
        self.agent_memory = agent_memory
        self.transcript = Transcript()

    async def open_image(self, item: MemoryItem) -> bool:
        """The server returns it as a content of its own."""
        return True

    def note_tools(self, names: Iterable[str], *, are_late: bool = False) -> None:
        """The client offers the tools; no view depends on them."""


class ServedMemory:
    """The memory of one user. Methods open the store if necessary, and raise StoreError if it is unavailable.

    Args:
        user_id: None for the only user, or the login name in an empty store.
        session_id: Default session to store in and to read; "" for none.

    Raises:
        ValueError: An id is malformed.
    """

    def __init__(
        self, store: MemoryStore, user_id: str | None = None, *, agent_id: str = "mcp", session_id: str = ""
    ) -> None:
        self.store = store
        self.agent_id = checked_identifier("agent_id", agent_id)
        self.session_id = session_id and checked_identifier("session_id", session_id)
        self._user_id = None if user_id is None else checked_identifier("user_id", user_id)
        self._lock = asyncio.Lock()
        self._own: AgentMemory | None = None
        self._opening = Background[None]("memory_context opening")
        self._is_ready = False

    async def ready(self) -> None:
        """Wait most of a call's time for a store that is being set up, which goes on behind a call that gave up.

        A store that was ready once is not waited for again. Raises StoreError if it is unavailable.
        """
        if self._is_ready:
            return
        seconds = _READY_SHARE * self.store.limits.call_seconds
        try:
            await self._opening.result(self.store.open, seconds)
        except asyncio.TimeoutError:
            raise StoreUnavailableError(
                f"{self.store.describe()} is still starting, or does not answer: this goes on; try again in "
                f"{seconds:.0f} s, and if it stays so, run memory-context doctor"
            ) from None
        self._is_ready = True

    async def in_time(self, answer: Callable[[], Coroutine[Any, Any, _Answer]]) -> _Answer:
        """Return the answer of a call within `call_seconds`, of which a store that is being set up may take most."""

        async def when_ready() -> _Answer:
            await self.ready()
            return await answer()

        return await within(self.store.limits.call_seconds, when_ready())

    async def user_id(self) -> str:
        """Return the user, always the same; raise UsageError if several could be meant."""
        async with self._lock:
            if self._user_id is None:
                self._user_id = await _only_user(self.store)
        return self._user_id

    async def memory(self, session_id: str | None = None) -> AgentMemory:
        """Return a session's items; None for the server's session, always the same: it knows which notes were read."""
        if session_id is not None:
            return AgentMemory(self.store, await self.user_id(), self.agent_id, session_id)
        if self._own is None:
            self._own = AgentMemory(self.store, await self.user_id(), self.agent_id, self.session_id)
        return self._own

    async def host(self) -> MemoryHost:
        return MemoryHost(await self.memory())

    async def sessions(self, limit: int) -> list[SessionInfo]:
        """Return sessions, most recently used first."""
        return await self.store.conversations.sessions(await self.user_id(), limit=limit)

    async def session(self, session_id: str) -> SessionInfo:
        """Return a session, or raise ItemNotFoundError."""
        info = await self.store.conversations.session(await self.user_id(), session_id)
        if info is None:
            raise ItemNotFoundError(f"no session {one_line(session_id, 80)!r} in this memory")
        return info


async def _only_user(store: MemoryStore) -> str:
    count, name = await store.user_stats.only_user()
    if count > 1:
        raise UsageError(
            f"{store.describe()} has several users and the server was not told whom to serve: "
            "start it with --user NAME, or with MEMORY_CONTEXT_USER set"
        )
    if name:
        return name
    try:
        return checked_identifier("user_id", getpass.getuser())
    except (OSError, KeyError, ImportError, ValueError):  # a container's user may be nameless
        return "default"
