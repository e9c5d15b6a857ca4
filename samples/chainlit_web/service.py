"""What the hooks work with: the users, the store, the live chats, and whose session a hook is called for."""

import chainlit as cl
from chainlit.data import get_data_layer
from chainlit.session import WebsocketSession, ws_sessions_id
from chainlit.user_session import user_sessions

from memory_context import MemoryStore, choose_light_model

from ..code_agent import model_client_from_env
from .agents import Agents
from .chats import Chats
from .plans import Plan
from .script import ScriptedModel
from .users import Users

__all__ = ["chats", "current_plan", "current_thread", "current_user", "is_operator", "keep_plan", "store", "users"]

_PLAN = "plan"

users = Users.from_env()
store = MemoryStore()
_live = model_client_from_env()
chats = Chats(Agents(store, _live or ScriptedModel(most_seconds=2), choose_light_model(_live).client or "off"))


def current_user() -> str:
    """Return who is logged in, in the session that Chainlit calls a hook for."""
    user = cl.user_session.get("user")
    if user is None:
        raise PermissionError("nobody is logged in")
    return user.identifier


def current_thread() -> str:
    """Return the thread of that session, which is the session of its agents' memory."""
    return cl.context.session.thread_id


def is_operator() -> bool:
    """Return whether who is logged in may change who answers."""
    return users.is_operator(current_user())


def current_plan() -> Plan:
    """Return what the chat of that session is made of."""
    return Plan.of(cl.user_session.get(_PLAN), is_operator=is_operator())


async def keep_plan(plan: Plan) -> None:
    """Keep a plan with the thread, and in every tab that shows it: each tab writes what it knows when it is closed."""
    kept = plan.kept()
    for session in [*ws_sessions_id.values()]:
        if _shows(session):
            user_sessions.setdefault(session.id, {})[_PLAN] = kept
            session.chat_settings = dict(kept["settings"])
    layer = get_data_layer()
    if layer is not None and cl.context.session.has_first_interaction:
        await layer.update_thread(current_thread(), metadata=cl.context.session.to_persistable())


def _shows(session: WebsocketSession) -> bool:
    return (
        session.thread_id == current_thread() and session.user is not None and session.user.identifier == current_user()
    )
