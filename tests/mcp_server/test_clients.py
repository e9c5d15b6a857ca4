"""Other people's clients: AutoGen's workbench, the MCP Inspector's command line, and whatever a desktop starts."""

import asyncio
import json
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.messages import ToolCallExecutionEvent
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, FunctionExecutionResultMessage, LLMMessage
from autogen_ext.models.replay import ReplayChatCompletionClient
from autogen_ext.tools.mcp import McpWorkbench, StreamableHttpServerParams
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from memory_context import MemoryStore
from memory_context.foundation.references import MemoryRef
from tests.agents.scripted import MODEL_INFO, calls
from tests.conftest import REPOSITORY, needs
from tests.support.mcp import INITIALIZE
from tests.support.waiting import soon

from .conftest import listening, said

pytestmark = pytest.mark.thorough

SNIPPETS = sorted((REPOSITORY / "samples" / "mcp_clients").glob("*.json"))


class Reader(ReplayChatCompletionClient):
    """Calls what it was told to; `KEY` stands for the key in the last result."""

    async def create(self, messages: list[LLMMessage], **settings: Any) -> CreateResult:  # type: ignore[override]
        result = await super().create(messages, **settings)
        if isinstance(result.content, list) and isinstance(messages[-1], FunctionExecutionResultMessage):
            _, _, found = messages[-1].content[0].content.partition("[MemoryRef: ")
            for call in result.content:
                assert isinstance(call, FunctionCall)
                call.arguments = call.arguments.replace("KEY", found.partition(" ")[0])
        return result


@pytest.mark.filterwarnings("ignore:Use `streamable_http_client`:DeprecationWarning")  # AutoGen's, of the SDK's
async def test_autogen_agent_uses_memory_through_mcp_workbench(store: MemoryStore):
    """The tools as an AutoGen agent sees them; an error comes as one."""
    script = [
        calls(("store_memory", {"content": "The pump needs 4.2 bar.", "description": "pressure of the pump"})),
        calls(("search_memory", {"query": "pump pressure"})),
        calls(("retrieve_memory", {"memory_key": "KEY", "transform": "filtered", "pattern": "bar"})),
        calls(("retrieve_memory", {"memory_key": "pump"})),
        "4.2 bar",
    ]
    async with listening(store) as url, McpWorkbench(StreamableHttpServerParams(url=f"{url}/mcp")) as workbench:
        agent = AssistantAgent(
            "operator", Reader(script, model_info=MODEL_INFO), workbench=workbench, max_tool_iterations=10
        )
        run = await agent.run(task="Which pressure does the pump need?")
    results = [one for event in run.messages if isinstance(event, ToolCallExecutionEvent) for one in event.content]
    assert [result.is_error for result in results] == [False, False, False, True]
    ref = MemoryRef.parse(results[0].content.removeprefix("Stored. "))
    assert ref is not None
    assert ref.render() in results[1].content
    assert results[2].content.startswith("1: The pump needs 4.2 bar.")
    assert "no item 'pump'" in results[3].content


async def inspect(*arguments: str) -> dict[str, Any]:
    """Run the Inspector's command line and return what it prints."""
    program = needs("mcp-inspector", REPOSITORY / ".venv" / "inspector" / "node_modules" / ".bin")
    process = await asyncio.create_subprocess_exec(
        program, "--cli", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await soon(process.communicate())
    assert process.returncode == 0, err.decode()
    return json.loads(out)


async def test_mcp_inspector_accepts_every_answer(store: MemoryStore):
    """It validates each answer against the protocol's schema."""
    async with listening(store, {"one": "alice"}) as url:

        async def ask(method: str, *arguments: str) -> dict[str, Any]:
            head = ("--header", "Authorization: Bearer one")
            return await inspect(f"{url}/mcp", "--transport", "http", "--method", method, *arguments, *head)

        asked = {"content": "The lake is deep.", "description": "the lake"}
        tool = [part for name, value in asked.items() for part in ("--tool-arg", f"{name}={value}")]
        kept = await ask("tools/call", "--tool-name", "store_memory", *tool)
        key = kept["structuredContent"]["memory_key"]
        tools = await ask("tools/list")
        read = await ask("resources/read", "--uri", f"memory://{key}")
        prompt = await ask("prompts/get", "--prompt-name", "use_memory", "--prompt-args", "about=lakes")
    assert len(tools["tools"]) == 6
    assert read["contents"][0]["text"] == "The lake is deep."
    assert prompt["messages"][0]["content"]["text"].endswith("lakes")


def test_desktop_client_snippets_name_the_command():
    """Each is JSON with one server in it: the command that the next tests start, or the address of one over HTTP."""
    assert len(SNIPPETS) >= 6
    for path in SNIPPETS:
        settings = json.loads(path.read_text(encoding="utf-8"))
        (servers,) = (settings[name] for name in ("mcpServers", "servers", "context_servers") if name in settings)
        (server,) = servers.values()
        if path.stem.endswith("_http"):
            assert server["url"] == "http://127.0.0.1:8001/mcp"
            assert server["headers"]["Authorization"].startswith("Bearer ${")
        else:
            assert [server["command"], *server["args"]] == ["memory-context", "mcp", "--user", "alice"]


async def test_stdio_server_starts_while_database_is_down(tmp_path: Path):
    """As the snippet says; each answer tells it, and the server stays. Nothing that is printed holds a password."""
    settings = json.loads((REPOSITORY / "samples" / "mcp_clients" / "claude_desktop_config.json").read_text())
    entry = settings["mcpServers"]["memory"]
    start = StdioServerParameters(
        command=str(Path(sys.executable).parent / entry["command"]),
        args=entry["args"],
        env={**os.environ, "MEMORY_CONTEXT_URL": "postgresql://u:secret@127.0.0.1:1/x"},
        cwd=tmp_path,
    )
    with (tmp_path / "log").open("w+") as log:
        async with stdio_client(start, errlog=log) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            for _ in range(2):
                result = await client.call_tool("query_memory", {})
                assert result.isError
                assert "does not answer" in said(result)
        log.seek(0)
        printed = log.read()
    assert "going on without the store" in printed
    assert "secret" not in printed


async def test_initialize_is_answered_while_database_is_being_set_up_and_first_call_waits(database_url: str):
    """The store is opened beside the protocol; the SDK's client lists tools, and its first call gets the answer."""
    waits = """
import asyncio, os
from memory_context import MemoryStore

opened = MemoryStore.open

async def open_late(self):
    while not os.path.exists("GO"):
        await asyncio.sleep(0.05)
    await opened(self)

MemoryStore.open = open_late
from memory_context.surfaces.cli import main
main()
"""
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["-c", waits, "mcp", "--url", database_url, "--user", "alice"]
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
        start = StdioServerParameters(command=sys.executable, args=arguments, env=environment, cwd=folder)
        async with stdio_client(start) as (read, write), ClientSession(read, write) as client:
            await soon(client.initialize())
            assert len((await soon(client.list_tools())).tools) == 6
            first = asyncio.ensure_future(client.call_tool("query_memory", {}))
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(first), 0.2)
            (Path(folder) / "GO").touch()
            assert said(await soon(first)) == "Nothing is stored that meets this."


@pytest.mark.parametrize("ending", ["end of input", "SIGTERM"])
async def test_stdio_server_ends_with_its_client_or_by_signal(database_url: str, ending: str):
    """By a signal although its input is open."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", "from memory_context.surfaces.cli import main; main()",
        "mcp", "--url", database_url, "--user", "alice",
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
        assert json.loads(await soon(process.stdout.readline()))["result"]["serverInfo"]["name"] == "memory_context"
        if ending == "SIGTERM":
            process.send_signal(signal.SIGTERM)
        else:
            process.stdin.close()
        assert await soon(process.wait()) in (0, -signal.SIGTERM, 128 + signal.SIGTERM)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
