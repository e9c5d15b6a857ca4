"""What was said in sessions, read from the messages that are items: privacy is that of the items."""

from ..references import KEY_PATTERN
from ..store import MemoryItem, MemoryStore, ReadScope
from ..transforms import FULL
from .audit import AuditTrail

__all__ = ["ConversationReader"]


class ConversationReader:
    """The method of `AgentMemory` that reads what was said."""

    memory_store: MemoryStore
    user_id: str
    session_id: str
    trail: AuditTrail

    @property
    def scope(self) -> ReadScope:
        """Items that this object reads."""
        raise NotImplementedError

    async def read_conversation(
        self,
        memory_key: str | None = None,
        *,
        session_id: str | None = None,
        first_message: int = 1,
        before: int = 3,
        limit: int = 20,
        reader: str | None = "read_conversation",
    ) -> list[MemoryItem]:
        """Return what was said around a message, or in a session, in order; empty if this scope has nothing of it.

        Args:
            memory_key: Of a found message; its session is read from `before` messages ahead of it.
            session_id: Read from `first_message` (from 1) on, without a key; None for the own session.
        """
        if memory_key is not None and not KEY_PATTERN.fullmatch(memory_key):
            return []
        said = await self.memory_store.conversations.messages(
            self.user_id,
            memory_key=memory_key,
            session_id=self.session_id if session_id is None else session_id,
            first=first_message,
            before=before,
            limit=limit,
            scope=self.scope,
        )
        self.trail.note_read("retrieved", [item.key for item in said], reader, FULL)
        return said
