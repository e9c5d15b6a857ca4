"""A memory over the Model Context Protocol: tools, resources and a prompt, for any client that speaks it.

Promises: one server serves one user; the operations are those of `context.tools()`, with the same names, arguments and
answers; a store that is down is told in an answer, and is used again once it is back; every message is valid JSON,
whatever the texts hold.
"""

from ..extras import needs

with needs("mcp", "the MCP server"):
    from .memory import ServedMemory
    from .server import create_server

__all__ = ["ServedMemory", "create_server"]
