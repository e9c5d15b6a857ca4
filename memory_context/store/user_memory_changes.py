"""Counts the changes of users' memory in this process, and tells other processes of them."""

import hashlib
import os
import uuid
from collections import Counter

from memory_context.foundation.utf8 import to_utf8

from .sql import Statement, load_queries

__all__ = ["UserMemoryChanges", "channel_key"]

_QUERIES = load_queries("user_memory")


def channel_key(user_id: str, agent_id: str = "") -> str:
    """Return the hash that names a user's memory, or an agent's notes, in notifications, which any login can hear."""
    return hashlib.sha256(to_utf8(f"memory_context\0{user_id}\0{agent_id}")).hexdigest()[:32]


class UserMemoryChanges(Counter[str]):
    """The number of changes by user.

    Attributes:
        writer: This store in this process, which need not hear of its own writes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.writer = f"{os.getpid()}-{uuid.uuid4().hex}"

    def notice(self, user_id: str, agent_id: str = "") -> str:
        """Return the notification of a change of statements and secrets, or of an agent's notes."""
        return f"{channel_key(user_id, agent_id)} {self.writer}"

    def told(self, user_id: str) -> Statement:
        """Return the statement that tells of a change of statements or secrets once its transaction has committed."""
        return _QUERIES("notify_user_memory", changed=self.notice(user_id))
