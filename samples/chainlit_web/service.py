"""What the hooks work with: users, store and live chats, and whose session a hook is called for."""

from contextlib import AbstractAsyncContextManager

import chainlit as cl
from chainlit.data import get_data_layer
from chainlit.session import ws_sessions_id
from chainlit.user_session import user_sessions

from memory_context import MemoryStore, SessionKey, choose_light_model
from memory_context.sessions.live.cache import SessionCache
from memory_context.surfaces.chainlit import MemoryDataLayer

from ..code_agent import model_client_from_env
from .agents import Agents, Component, ScriptedModel
from .chats import LiveChat
from .users import Users

_COMPONENT = "component"  # kept by Chainlit with the thread

users = Users.from_env()
store = MemoryStore()
_live = model_client_from_env()
_agents = Agents(store, _live or ScriptedModel(most_seconds=2), choose_light_model(_live).client or "off")
_components: dict[SessionKey, Component | None] = {}
chats = SessionCache[LiveChat](lambda key: LiveChat(key, _agents, _components.pop(key, None)))


class ThreadLayer(MemoryDataLayer):
    """Keeps threads beside what the agents remember."""

    async def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with its memory, and the live chat on it."""
        if author := await self.get_thread_author(thread_id):
            await chats.discard(_key(author, thread_id))
        await super().delete_thread(thread_id)


def _key(user_id: str, thread_id: str) -> SessionKey:
    return SessionKey(user_id, "chat", thread_id)  # one live chat a thread, whichever agents it has


def current_key() -> SessionKey:
    """Return user and thread of the session that Chainlit calls a hook for."""
    return _key(cl.user_session.get("user").identifier, cl.context.session.thread_id)


def is_operator() -> bool:
    """Return whether that user may change who answers; asked each time, since a thread outlives a role."""
    return current_key().user_id in users.operators


def current_component() -> Component | None:
    """Return the agent that was pasted into that chat; None for the reader."""
    component = cl.user_session.get(_COMPONENT)
    return component if is_operator() and isinstance(component, dict) else None


def hold_chat() -> AbstractAsyncContextManager[LiveChat]:
    """Have that chat to oneself; raises ComponentError for its agent, MemoryContextError if it cannot be had now."""
    key = current_key()
    if chats.peek(key) is None:
        _components[key] = current_component()
    return chats.hold(key)


async def keep_component(component: Component | None) -> None:
    """Keep the agent of a chat with its thread, and in each tab that shows it: a tab writes its own when it closes."""
    for tab in [*ws_sessions_id.values()]:
        if tab.thread_id == current_key().session_id and tab.user and tab.user.identifier == current_key().user_id:
            user_sessions.setdefault(tab.id, {})[_COMPONENT] = component
    layer = get_data_layer()
    if layer is not None and cl.context.session.has_first_interaction:
        await layer.update_thread(current_key().session_id, metadata=cl.context.session.to_persistable())
