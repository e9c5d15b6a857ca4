"""The history of a Chainlit application in the database of its agents' memory.

A Chainlit user's identifier is the memory's user id, and a thread's id is its session's. Without the database the chat
goes on and history is lost. Needs the extra `memory-context[chainlit]`.

    @cl.data_layer
    def data_layer():
        return MemoryDataLayer()
"""

from ..extras import needs

with needs("chainlit", "MemoryDataLayer"):
    from .data_layer import MemoryDataLayer
    from .elements import mount_elements

__all__ = ["MemoryDataLayer", "mount_elements"]
