"""with_secrets for the workbench of an MCP server, and a tool that streams."""

import json
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken, FunctionCall, Image
from autogen_core.models import CreateResult, RequestUsage
from autogen_core.tools import (
    BaseStreamTool,
    ImageResultContent,
    StaticWorkbench,
    TextResultContent,
    ToolResult,
    ToolSchema,
    Workbench,
)
from autogen_ext.models.replay import ReplayChatCompletionClient
from autogen_ext.tools.mcp import McpWorkbench, StdioServerParams
from PIL import Image as Picture
from pydantic import BaseModel

from memory_context import MemoryContext, MemoryStore
from memory_context.recall.tools.secret_tool import SecretWorkbench

VALUE = "tk-5f9a!Zq81/with+signs"
TOKEN = "{{secret:API_TOKEN}}"
HOSTS = ["api.example.com"]

SERVER = """
from mcp.server.fastmcp import FastMCP

server = FastMCP("pages")


@server.tool()
def fetch(url: str, headers: dict[str, str]) -> str:
    \"\"\"Fetch a page.\"\"\"
    secret = headers.get("Authorization", "")
    if "fail" in url:
        raise RuntimeError(f"401 for {secret!r}, that is {secret[:8]}")
    return f"{len(secret)} characters sent: {secret}"


server.run()
"""


@pytest.fixture
async def context(store: MemoryStore, key: str) -> MemoryContext:
    context = MemoryContext("alice", "coder", "s", store)
    await context.agent_memory.secrets.set("API_TOKEN", VALUE)
    return context


@pytest.fixture
async def pages(context: MemoryContext, tmp_path: Path) -> AsyncIterator[Workbench]:
    """An MCP server's workbench that may send the token to one host."""
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    params = StdioServerParams(command=sys.executable, args=[str(script)], read_timeout_seconds=60)
    allow = {"API_TOKEN": ["fetch.headers.Authorization"]}
    async with context.with_secrets(McpWorkbench(params), allow, HOSTS) as workbench:
        yield workbench


@pytest.mark.thorough
async def test_mcp_tool_gets_the_value_and_its_result_and_error_hold_the_name(pages: Workbench) -> None:
    (schema,) = await pages.list_tools()
    headers = {"Authorization": TOKEN}
    found = await pages.call_tool(schema["name"], {"url": "https://api.example.com/1", "headers": headers})
    assert (found.is_error, found.to_text()) == (False, f"{len(VALUE)} characters sent: {TOKEN}")
    failed = await pages.call_tool("fetch", {"url": "https://api.example.com/fail", "headers": headers})
    assert failed.is_error
    assert TOKEN in failed.to_text()
    assert not [VALUE[at : at + 6] for at in range(len(VALUE) - 5) if VALUE[at : at + 6] in failed.to_text()]
    for arguments, says in [
        ({"url": TOKEN, "headers": {}}, "may stand only in fetch.headers.Authorization, not in fetch.url"),
        ({"url": "https://evil.example/", "headers": headers}, "names another host"),
        ({"url": "/1", "headers": {"X": "[credential****]"}}, "was masked and is not kept"),
        ({"url": "/1", "headers": {"Authorization": "{{secret:detected-a1}}"}}, "is not given to fetch"),
    ]:
        refused = await pages.call_tool("fetch", arguments)
        assert refused.is_error
        assert says in refused.to_text()


@pytest.mark.thorough
async def test_agent_calls_a_wrapped_workbench_and_learns_names_only(context: MemoryContext, pages: Workbench) -> None:
    arguments = json.dumps({"url": "https://api.example.com/1", "headers": {"Authorization": TOKEN}})
    call = CreateResult(
        finish_reason="function_calls",
        content=[FunctionCall("1", arguments, "fetch")],
        usage=RequestUsage(0, 0),
        cached=False,
    )
    client = ReplayChatCompletionClient(
        [call, "done"],
        model_info={
            "vision": False,
            "function_calling": True,
            "json_output": False,
            "family": "x",
            "structured_output": False,
        },
    )
    agent = AssistantAgent("coder", client, workbench=pages, model_context=context, max_tool_iterations=3)
    said = str(await agent.run(task="fetch it")) + str(await context.get_messages())
    assert f"characters sent: {TOKEN}" in said
    assert VALUE not in said


class Broken(Workbench):
    """Raises, or answers with an image."""

    def __init__(self, error: str = "") -> None:
        self.error = error

    async def list_tools(self) -> list[ToolSchema]:
        return []

    async def call_tool(
        self,
        name: str,
        arguments: Any = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        if self.error:
            raise RuntimeError(f"{self.error} {arguments}")
        picture = ImageResultContent(content=Image(Picture.new("RGB", (1, 1))))
        return ToolResult(name=name, result=[picture, TextResultContent(content=str(arguments))])

    async def start(self) -> None: ...
    async def stop(self) -> None: ...
    async def reset(self) -> None: ...
    async def save_state(self) -> dict[str, Any]:
        return {"open": 1}

    async def load_state(self, state: Any) -> None:
        self.error = state["error"]


async def test_workbench_that_raises_gives_an_error_result_without_the_value(context: MemoryContext) -> None:
    workbench = context.with_secrets(Broken(), {"API_TOKEN": ["*.token"]})
    assert await workbench.save_state() == {"open": 1}
    result = await workbench.call_tool("any", {"token": TOKEN})
    assert (result.result[0].type, VALUE in result.to_text("")) == ("ImageResultContent", False)
    await workbench.load_state({"error": "broken by"})
    failed = await workbench.call_tool("any", {"token": TOKEN})
    assert (failed.is_error, failed.to_text()) == (True, f"RuntimeError: broken by {{'token': '{TOKEN}'}}")


async def test_static_workbench_is_refused_because_it_logs_arguments(context: MemoryContext) -> None:
    with pytest.raises(ValueError, match="one by one"):
        context.with_secrets(StaticWorkbench([]), {"API_TOKEN": ["f.x"]})


def test_dumped_workbench_names_its_rules_and_no_value(context: MemoryContext, tmp_path: Path) -> None:
    inner = McpWorkbench(StdioServerParams(command="server"))
    dumped = context.with_secrets(inner, {"API_TOKEN": ["fetch.url"]}, HOSTS).dump_component()
    assert VALUE not in dumped.model_dump_json()
    assert SecretWorkbench.load_component(dumped).dump_component() == dumped


class Question(BaseModel):
    token: str


class Talk(BaseStreamTool[Question, Any, Question]):
    """Returns its arguments."""

    def __init__(self) -> None:
        super().__init__(Question, Question, "talk", "Talk.")

    async def run(self, args: Question, cancellation_token: CancellationToken) -> Question:
        return args

    async def run_stream(self, args: Question, cancellation_token: CancellationToken) -> AsyncGenerator[Any, None]:
        yield args


async def test_streaming_tool_answers_without_streaming(context: MemoryContext) -> None:
    tool = context.with_secrets(Talk(), {"API_TOKEN": ["token"]})
    answer = await tool.run_json({"token": TOKEN}, CancellationToken())
    assert TOKEN in answer
    assert VALUE not in answer
