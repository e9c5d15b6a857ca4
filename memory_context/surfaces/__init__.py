"""For people and programs: the command line, the chat server, the MCP server, Chainlit's data layer."""
