"""The chats that are live: one agent and its contexts for each thread in the process, whoever looks at it.

Two tabs on one thread are two Chainlit sessions; both work on the one live chat made here, one after the other. A chat
is made at first use, goes on where its archive ends, and leaves when nobody has used it for a while.

Promises: whatever was said is archived before a chat leaves, changes its settings, or changes its agent; a run that
was stopped leaves contexts that can go on.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any, NamedTuple

from autogen_agentchat.base import ChatAgent
from autogen_core.models import AssistantMessage, UserMessage
from pydantic import TypeAdapter

from memory_context import LightModelBill, MemoryContext, SessionGoneError, SessionKey
from memory_context.sessions.live.cache import SessionCache

from .agents import Agents
from .plans import Plan
from .ui_hook import BuiltAgent

__all__ = ["Chats", "LiveChat", "Said", "Totals"]

_IDLE_SECONDS = 300
_BILLS: TypeAdapter[dict[str, LightModelBill]] = TypeAdapter(dict[str, LightModelBill])
_logger = logging.getLogger(__name__)


class Said(NamedTuple):
    """Something that a person read or wrote before."""

    is_user: bool
    text: str


class Totals(NamedTuple):
    """What the models of a chat saw since it became live, and what they would have seen of everything."""

    calls: int = 0
    seen_tokens: int = 0
    raw_tokens: int = 0
    cost: float = 0
    raw_cost: float = 0

    def since(self, before: "Totals") -> dict[str, float]:
        """Return what was added since."""
        return {name: round(getattr(self, name) - getattr(before, name), 1) for name in self._fields}


class LiveChat:
    """One thread, live.

    Attributes:
        key: Whose it is.
        plan: What it is made of.
        built: The agent that answers, with its contexts.
        turns: What the newest turns came to, for all tabs; None until somebody has looked in the archive.
        bills: The light model's calls by agent, as the meter showed them: also of agents that answer no more.
    """

    def __init__(self, key: SessionKey, agents: Agents, plan: Plan) -> None:
        self.key = key
        self.turns: list[dict[str, float]] | None = None
        self.bills: dict[str, LightModelBill] = {}
        self.plan = plan
        self._agents = agents
        self.built = agents.build(plan, key.user_id, key.session_id)

    @property
    def contexts(self) -> Mapping[str, MemoryContext]:
        """The contexts of its agents, by name."""
        return self.built.contexts

    @property
    def totals(self) -> Totals:
        """What its models saw so far."""
        stats = [context.stats for context in self.contexts.values()]
        return Totals(
            sum(one.views for one in stats),
            sum(one.view_tokens_total for one in stats),
            sum(one.raw_tokens_total for one in stats),
            sum(one.cost for one in stats),
            sum(one.raw_cost for one in stats),
        )

    def meter(self) -> dict[str, Any]:
        """Return the props of `public/elements/TokenMeter.jsx`."""
        self.bills |= {name: context.stats.light_model for name, context in self.contexts.items()}
        total = sum(self.bills.values(), LightModelBill())
        return {
            "turns": self.turns,
            "bills": {name: asdict(bill) for name, bill in self.bills.items()},
            "light_model": str(total) if total.total.calls else "",
        }

    def go_on_from(self, meter: Mapping[str, Any]) -> None:
        """Take over what the newest meter of the archived thread shows; {} if there is none."""
        self.turns = [*meter.get("turns", [])]
        self.bills = _BILLS.validate_python(meter.get("bills", {}))

    async def become(self, plan: Plan, said: Sequence[Said] = ()) -> None:
        """Go on by another plan: with other settings, or another agent, who is told what was said before.

        Raises:
            ComponentError: What was pasted cannot be used; the chat stays as it was.
            StoreError: The chat cannot be archived now; it stays as it was.
        """
        built = self._agents.build(plan, self.key.user_id, self.key.session_id)
        try:
            await self.archive()
        except BaseException:
            await _close(built)
            raise
        await self.close()
        self.plan, self.built = plan, built
        await self.resume()
        for name, context in self.contexts.items():
            if not context.transcript.end:
                for one in said:
                    await context.add_message(
                        UserMessage(content=one.text, source="user")
                        if one.is_user
                        else AssistantMessage(content=one.text, source=name)
                    )

    async def remake_agent(self) -> None:
        """Have a new agent around the same contexts: one whose run was cut off may be in the middle of something."""
        await _close_agent(self.built)
        self.built = self._agents.build(self.plan, self.key.user_id, self.key.session_id, self.contexts)

    # --- as the cache sees it

    async def resume(self) -> None:
        """Take over what the archive has.

        Raises:
            SessionGoneError: The thread was deleted.
            StoreError: It cannot be read now.
        """
        conversations = self._agents.memory_store.conversations
        if await conversations.deleted_at(self.key.user_id, self.key.session_id) is not None:
            raise SessionGoneError("this chat was deleted")
        for context in self.contexts.values():
            await context.resume()

    async def save_state(self) -> Mapping[str, Any]:
        """Return everything, by agent."""
        return {name: await context.save_state() for name, context in self.contexts.items()}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        for name, context in self.contexts.items():
            if name in state:
                await context.load_state(state[name])

    async def archive(self) -> None:
        """Make durable what is not."""
        for context in self.contexts.values():
            await context.archive()

    async def close(self) -> None:
        """Let go of what is open."""
        await _close(self.built)

    @property
    def is_dirty(self) -> bool:
        """Whether something is not archived yet."""
        return any(context.is_dirty for context in self.contexts.values())


class Chats:
    """The live chats of a process.

    Args:
        agents: Makes their agents.
    """

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self._plans: dict[SessionKey, Plan] = {}
        self._cache = SessionCache[LiveChat](self._make, idle_seconds=_IDLE_SECONDS)

    @asynccontextmanager
    async def hold(self, user_id: str, thread_id: str, plan: Plan) -> AsyncIterator[LiveChat]:
        """Have a chat to oneself; who comes meanwhile waits.

        Args:
            user_id: Whose it is.
            thread_id: The thread.
            plan: What it is made of, if it is not live.

        Raises:
            ComponentError: What was pasted cannot be used.
            SessionBusyError: It did not become free in time.
            SessionGoneError: The thread was deleted.
            StoreError: Its archive cannot be read now.
        """
        key = _key(user_id, thread_id)
        self._plans[key] = plan
        try:
            async with self._cache.hold(key) as chat:
                yield chat
        finally:
            if self._plans.get(key) is plan:  # another tab, which waits for its turn, may have said another
                del self._plans[key]

    def peek(self, user_id: str, thread_id: str) -> LiveChat | None:
        """Return a chat that is live, without waiting for it: to look at, not to change."""
        return self._cache.peek(_key(user_id, thread_id))

    async def archive(self, user_id: str, thread_id: str) -> None:
        """Make durable what a chat knows, if it is live; what cannot be stored now is with its next batch."""
        chat = self.peek(user_id, thread_id)
        if chat is not None and chat.is_dirty:
            try:
                await chat.archive()
            except Exception as error:
                _logger.warning("thread %s is archived later: %s", thread_id, error)

    async def discard(self, user_id: str, thread_id: str) -> None:
        """Drop a chat whose thread was deleted."""
        chat = self.peek(user_id, thread_id)
        for context in chat.contexts.values() if chat else ():
            context.archiver.abandon()
        await self._cache.discard(_key(user_id, thread_id))

    async def close(self) -> None:
        """Archive and close every chat."""
        await self._cache.close()

    def _make(self, key: SessionKey) -> LiveChat:
        return LiveChat(key, self._agents, self._plans.get(key, Plan()))  # the default, if who asked has gone meanwhile


def _key(user_id: str, thread_id: str) -> SessionKey:
    return SessionKey(user_id, "chat", thread_id)  # one seat a thread, whichever agents sit on it


async def _close(built: BuiltAgent) -> None:
    await _close_agent(built)
    for context in built.contexts.values():
        await context.close()


async def _close_agent(built: BuiltAgent) -> None:
    if isinstance(built.runner, ChatAgent):
        try:
            await asyncio.wait_for(built.runner.close(), 5)
        except Exception as error:
            _logger.warning("agent %s could not be closed: %s", built.runner.name, error)
