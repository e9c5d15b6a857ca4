"""A chat server: routes for any FastAPI application, or a whole application.

Stored messages are never lost, requests are idempotent, users reach only their own sessions, and errors say what to do.
"""

from memory_context.foundation.extras import needs

with needs("web", "the chat server"):
    from .chat import AgentBuilder, CacheBuilder, Chat, ChatLimits
    from .router import ChatRouter, CurrentUser, create_chat_router
    from .serve import create_app
    from .session import ChatSession

__all__ = [
    "AgentBuilder",
    "CacheBuilder",
    "Chat",
    "ChatLimits",
    "ChatRouter",
    "ChatSession",
    "CurrentUser",
    "create_app",
    "create_chat_router",
]
