"""Where Chainlit keeps its threads: in the store of the agents' memory, so that a thread and its memory go together."""

from memory_context import MemoryStore
from memory_context.surfaces.chainlit import MemoryDataLayer

from .chats import Chats

__all__ = ["ThreadLayer"]


class ThreadLayer(MemoryDataLayer):
    """A data layer that lets go of a live chat before its thread is deleted.

    Args:
        memory_store: Where threads are; it stays open.
        chats: The live chats.
    """

    def __init__(self, memory_store: MemoryStore, chats: Chats) -> None:
        super().__init__(memory_store)
        self._chats = chats

    async def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with its memory; a chat that is live on it archives nothing any more."""
        author = await self.get_thread_author(thread_id)
        if author:
            await self._chats.discard(author, thread_id)
        await super().delete_thread(thread_id)
