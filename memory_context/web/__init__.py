"""A chat server: routes for any FastAPI application, or a whole one.

Promises: a message that was reported as stored is never lost; the same request twice is answered once; a client that
goes away harms nothing but its own answer; nobody reaches another user's sessions; errors are problems (RFC 9457).
"""

from ..extras import needs

with needs("web", "the chat server"):
    from .app import create_app
    from .chat import AgentBuilder, Chat
    from .limits import ChatLimits
    from .problems import Problem
    from .router import ChatRouter, CurrentUser, create_chat_router
    from .schemas import (
        Archived,
        ArchiveRequest,
        ChatAnswer,
        ChatMessage,
        ChatRequest,
        ChatStep,
        MessagePage,
        SessionEntry,
        SessionPage,
    )
    from .session import ChatSession

__all__ = [
    "AgentBuilder",
    "ArchiveRequest",
    "Archived",
    "Chat",
    "ChatAnswer",
    "ChatLimits",
    "ChatMessage",
    "ChatRequest",
    "ChatRouter",
    "ChatSession",
    "ChatStep",
    "CurrentUser",
    "MessagePage",
    "Problem",
    "SessionEntry",
    "SessionPage",
    "create_app",
    "create_chat_router",
]
