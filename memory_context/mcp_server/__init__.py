"""A memory over the Model Context Protocol: tools, resources and a prompt, for any client.

One server serves one user, with the tools of `context.tools()`. While the store is down, answers say so.
"""

from ..extras import needs

with needs("mcp", "the MCP server"):
    from .memory import ServedMemory
    from .server import create_server

__all__ = ["ServedMemory", "create_server"]
