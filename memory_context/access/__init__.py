"""Who may use a server: the gate at its door, who a proxy may speak for, and bearer tokens.

Plain ASGI, so that the chat server, the MCP server and a Chainlit application share one implementation.
"""

from .gate import Gate, GateRules, Refusal
from .proxy import ProxyRefusal, TrustedProxy
from .tokens import Tokens, UsageError, is_loopback

__all__ = [
    "Gate",
    "GateRules",
    "ProxyRefusal",
    "Refusal",
    "Tokens",
    "TrustedProxy",
    "UsageError",
    "is_loopback",
]
