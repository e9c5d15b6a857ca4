"""A live chat: the agent of one thread with its contexts, whoever looks at it.

Two tabs on one thread are two Chainlit sessions that work on the one live chat, one after the other. `service.chats`
makes a chat at first use, has it go on where its archive ends, and closes it when nobody has used it for a while.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from autogen_agentchat.base import ChatAgent
from autogen_core.models import LLMMessage

from memory_context import MemoryContext, SessionGoneError, SessionKey

from .agents import Agents, Component

if TYPE_CHECKING:
    from .turns import TurnDisplay

__all__ = ["LiveChat"]

_CLOSE_SECONDS = 5
_logger = logging.getLogger(__name__)


class LiveChat:
    """One thread, live.

    Attributes:
        key: Whose it is, and which thread.
        component: What was pasted as its agent; None for the reader.
        turn: The turn that is at work; None between turns.
    """

    def __init__(self, key: SessionKey, agents: Agents, component: Component | None = None) -> None:
        self.key = key
        self.component = component
        self.turn: TurnDisplay | None = None
        self._agents = agents
        self.built = agents.build(key, component)

    @property
    def contexts(self) -> Mapping[str, MemoryContext]:
        """The contexts of its agents, by name."""
        return self.built.contexts

    async def become(self, component: Component | None, said: Sequence[LLMMessage] = ()) -> None:
        """Go on with another agent, which is told what was said; ComponentError and StoreError leave all as it was."""
        built = self._agents.build(self.key, component)
        await self.archive()
        await self.close()
        self.component, self.built = component, built
        await self.resume()
        for context in self.contexts.values():
            if not context.transcript.end:  # an agent that answered here before has a history of its own
                for message in said:
                    await context.add_message(message)

    async def remake_agent(self) -> None:
        """Put a new agent around the same contexts: a run that was cut off may have left the old one in the middle."""
        await self._close_agent()
        self.built = self._agents.build(self.key, self.component, self.contexts)

    async def _close_agent(self) -> None:
        if isinstance(self.built.runner, ChatAgent):
            try:
                await asyncio.wait_for(self.built.runner.close(), _CLOSE_SECONDS)
            except Exception as error:
                _logger.warning("agent %s could not be closed: %s", self.built.runner.name, error)

    # the rest is called by the cache of live chats
    async def resume(self) -> None:
        """Take over what the archive has, or raise SessionGoneError after a deletion, StoreError in an outage."""
        conversations = self._agents.store.conversations
        if await conversations.deleted_at(self.key.user_id, self.key.session_id) is not None:
            raise SessionGoneError("This chat was deleted; begin a new one.")
        for context in self.contexts.values():
            await context.resume()

    async def save_state(self) -> Mapping[str, Any]:
        """Return everything, by agent."""
        return {name: await context.save_state() for name, context in self.contexts.items()}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        for name, context in self.contexts.items():
            await context.load_state(state[name])

    async def archive(self) -> None:
        """Make durable what is not."""
        for context in self.contexts.values():
            await context.archive()

    async def close(self) -> None:
        """Close the agent and its contexts."""
        await self._close_agent()
        for context in self.contexts.values():
            await context.close()

    @property
    def is_dirty(self) -> bool:
        """True if something is not archived yet."""
        return any(context.is_dirty for context in self.contexts.values())
