"""The history of a Chainlit application in the database of its agents' memory: no second store, no second user.

A Chainlit user's identifier is the memory's user id, and a thread's id is the id of its session. So what is stored of a
user is in one place, `erase_user` erases all of it, and deleting a thread deletes what the agent keeps of it.

    @cl.data_layer
    def data_layer():
        return MemoryDataLayer()

Promises: a user writes to the own threads only, whatever ids the browser sends; a database that is away costs history,
not the chat; every str comes back identical; fields that only a newer Chainlit knows are kept.
Needs the extra: `pip install 'memory-context[chainlit]'`.
"""

from ..extras import needs

with needs("chainlit", "MemoryDataLayer"):
    from .data_layer import MemoryDataLayer
    from .elements import mount_elements

__all__ = ["MemoryDataLayer", "mount_elements"]
