"""Calls of the MCP server."""

from autogen_core.models import AssistantMessage, UserMessage

from memory_context import MemoryContext, MemoryStore

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


async def talk(store: MemoryStore, session: str, question: str) -> None:
    """Archive a conversation."""
    async with MemoryContext("alice", "coder", session, memory_store=store) as context:
        await context.add_message(UserMessage(content=question, source="user"))
        await context.add_message(AssistantMessage(content="42", source="coder"))
