"""Hears of statements, notes and secrets that other processes change, so that running sessions read them again.

quiet ──watch──▶ listening ──connection lost, pooler──▶ quiet: each turn reads again
"""

import logging

from memory_context.foundation.errors import MemoryContextError
from memory_context.foundation.runtime.background import Background, Breaker

from .database import Database
from .listening import ListeningConnection
from .user_memory_changes import channel_key

__all__ = ["UserMemoryFeed"]

_RETRY_SECONDS = 30.0
_logger = logging.getLogger("memory_context")


class UserMemoryFeed(ListeningConnection):
    """The users' memory in the sessions of one event loop, on a connection of its own."""

    listen = "listen_user_memory"
    purpose = "hears of changed user memory"
    needs = "which notifications do not reach: changed user memory is seen a turn later"
    loss_level = logging.INFO

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._users: dict[str, str] = {}  # by channel key
        self._breaker = Breaker(_RETRY_SECONDS)
        self._work = Background[None]("memory_context user memory feed")

    def watch(self, user_id: str, agent_id: str) -> None:
        """Count the changes that others make from now on; while nothing is heard, each call counts as one."""
        self._users |= {channel_key(user_id): user_id, channel_key(user_id, agent_id): user_id}
        if self._connection is not None:
            return
        if self._breaker.is_open:
            self._database.user_memory_changes[user_id] += 1
        else:
            self._work.start(self._listen)

    async def stop(self) -> None:
        await self._work.stop()
        self._drop()

    async def _listen(self) -> None:
        try:
            await self._connect()
        except MemoryContextError as error:
            self._drop()
            self._breaker.failed()
            _logger.debug("changed user memory is seen a turn later: %s", error)
        except BaseException:
            self._drop()
            raise
        else:
            self._breaker.worked()
            self._database.user_memory_changes.update({*self._users.values()})  # may have changed before

    def _hear(self, text: str) -> None:
        key, _, writer = text.partition(" ")
        if key in self._users and writer != self._database.user_memory_changes.writer:
            self._database.user_memory_changes[self._users[key]] += 1
