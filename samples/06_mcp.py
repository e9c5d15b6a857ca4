"""Two agents, two processes of the server, one memory: what one stored over MCP the other finds.

Learn: any client of the Model Context Protocol, AutoGen's `McpWorkbench` among them, gets the memory by starting
`memory-context mcp`, with the same tools that `context.tools()` gives; the memory outlives the server that wrote it; a
call that fails comes back as a sentence to act on. The files in `mcp_clients/` say the same to desktop applications.

The decisions of the models are scripted, and the database is the embedded one: no key, nothing to install. An agent
with a `MemoryContext` of its own does not need the server: it has the tools already.

Try: `memory-context mcp --transport http --token-env TOKENS` with `TOKENS="alice:<secret>"` set, and
`StreamableHttpServerParams("http://127.0.0.1:8001/mcp", headers={"Authorization": "Bearer <secret>"})` here.
"""

import os
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ToolCallExecutionEvent, ToolCallRequestEvent
from runner import needs, run

from memory_context.testing import Decision, ScriptedModel, call

with needs("mcp"):
    from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams

USER = "sample-mcp"
NOTES = """\
Deploy runbook, agreed on Monday
1. Freeze the main branch and tag the release.
2. Run the migration with the owner's login, never with the application's.
3. Roll out to one node; watch error_rate for ten minutes; roll out to the rest.
4. Rolling back is `deploy --to previous`; the migrations are forward-only."""

SCRIBE = (
    call("store_memory", content=NOTES, description="Deploy runbook, agreed on Monday", tags=["deploy"]),
    "Kept. {result}",
)
OPERATOR = (
    call("search_memory", query="which login does the migration need?"),
    call("retrieve_memory", memory_key="{key}", pattern="roll(ing)? back", ignore_case=True),
    call("retrieve_memory", memory_key="runbook"),  # there is no such key: the answer says so
    "The migration needs the owner's login; `deploy --to previous` rolls back.",
)


def server() -> StdioServerParams:
    """Return how the server is started: `memory-context mcp --user sample-mcp`, with whatever Python runs this."""
    command = ["-c", "from memory_context.surfaces.cli import main; main()", "mcp", "--user", USER]
    # the first call of all may start the embedded database, for which AutoGen's 5 s can be too short
    return StdioServerParams(command=sys.executable, args=command, env=dict(os.environ), read_timeout_seconds=30)


async def work(name: str, script: tuple[Decision, ...], task: str) -> None:
    """Run an agent whose only tools are those of a server it starts, and print what happens."""
    print(f"\n{name}, with a server of its own: {task}")
    async with McpWorkbench(server()) as workbench:
        print("  can use:", ", ".join(tool["name"] for tool in await workbench.list_tools()))
        agent = AssistantAgent(name, ScriptedModel(*script), workbench=workbench, max_tool_iterations=5)
        async for event in agent.run_stream(task=task):
            if isinstance(event, ToolCallRequestEvent):
                print(*(f"  calls {one.name}({one.arguments})" for one in event.content), sep="\n")
            elif isinstance(event, ToolCallExecutionEvent):
                for result in event.content:
                    print("  is told:" if result.is_error else "  gets:")
                    print(*(f"    {line}" for line in result.content.splitlines()), sep="\n")
        print(f"  answers: {event.messages[-1].content}")  # type: ignore[union-attr]  # the last is the run's result


async def main() -> None:
    """Let one agent store and another find."""
    await work("scribe", SCRIBE, "Keep the runbook we agreed on.")
    await work("operator", OPERATOR, "Which login does the migration need, and how do I roll back?")


if __name__ == "__main__":
    run(main())
