"""Who is at work: Chainlit tells a data layer the id of what it wants, and rarely for whom.

A chat has its user in Chainlit's session. A request over HTTP has not, but Chainlit has looked its user up a moment
ago, in the same task, to see who is logged in: that is remembered here. Its routes of feedback check nothing else. A
script says so itself, by `get_user`.
"""

from contextvars import ContextVar

from chainlit.context import ChainlitContextException, get_context
from chainlit.session import HTTPSession, WebsocketSession

__all__ = ["acting_user", "chat_session", "remember_acting"]

_acting: ContextVar[str | None] = ContextVar("memory_context_chainlit_user", default=None)


def chat_session() -> HTTPSession | WebsocketSession | None:
    """Return the session of the chat that this is done in; None outside of one."""
    try:
        return get_context().session
    except ChainlitContextException:
        return None


def acting_user() -> str | None:
    """Return whom this is done for; None if nobody is known."""
    session = chat_session()
    if session is not None:
        return session.user.identifier if session.user else None
    return _acting.get()


def remember_acting(user_id: str) -> None:
    """Remember, for what this task does next, who is logged in."""
    _acting.set(user_id)
