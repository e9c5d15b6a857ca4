"""A memory over the Model Context Protocol: tools, resources and a prompt for one user; errors become sentences."""

from memory_context.foundation.extras import needs

with needs("mcp", "the MCP server"):
    from .memory import ServedMemory
    from .server import create_server

__all__ = ["ServedMemory", "create_server"]
