"""Of which type results are stored, and what their metadata says of the call."""

import json
from typing import Any

import pytest
from autogen_core.models import UserMessage

from memory_context import MemoryContext, MemoryCriteria, MemoryStore
from memory_context.compaction.packing import result_type

from ..agents.scripted import report
from .steps import add_step


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("run_shell", {}, "command_output"),
        ("BashTool", {"input": "ls"}, "command_output"),
        ("run", {"command": "npm install"}, "command_output"),
        ("execute_sql", {"statement": "x"}, "database_result"),
        ("ask", {"q": "SELECT * FROM t"}, "database_result"),
        ("fetch_page", {}, "web_content"),
        ("load", {"url": "https://example.org"}, "web_content"),
        ("web_search", {"q": "owls"}, "web_content"),
        ("read_pdf_page", {"path": "a.pdf"}, "web_content"),
        ("read_file", {"path": "select.py"}, "action_result"),
        ("survey", {}, "action_result"),
        ("survey", [1], "action_result"),
        ("", {"n": 1}, "action_result"),
    ],
)
def test_a_results_type_follows_its_tool_and_its_arguments(tool: str, arguments: Any, expected: str):
    """Shells, rows, pages; anything else is the result of an action."""
    assert result_type(tool, json.dumps(arguments)) == expected


def test_arguments_that_are_no_json_leave_the_name_to_tell():
    assert result_type("shell", "{broken") == "command_output"


async def test_a_result_names_the_tool_the_arguments_and_the_time_of_its_call(store: MemoryStore):
    """With credentials masked; the time is from the call's message to the result's."""
    context = MemoryContext("alice", "coder", None, store)
    await context.add_message(UserMessage(content="Survey the owls.", source="user"))
    secret = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3
    await add_step(
        context, report("owls", 100), name="run_shell", arguments=json.dumps({"command": f"curl -H {secret}"})
    )
    (item,) = await context.agent_memory.query(MemoryCriteria(types=("command_output",)))
    assert item.metadata["tool"] == "run_shell"
    assert '"command": "curl -H' in item.metadata["arguments"]
    assert secret not in item.metadata["arguments"]
    assert 0 <= item.metadata["duration_seconds"] < 60
    assert item.metadata["call_id"]


async def test_an_applications_own_types_and_links_are_taken(store: MemoryStore):
    """Any word of up to 64 characters; what is none is refused with what is."""
    context = MemoryContext("alice", "coder", None, store)
    first = await context.store("Invoice 4711", "an invoice", "rechnung.v2")
    second = await context.store("Paid.", "a receipt", "receipt", related_to=[first])
    (found,) = await context.agent_memory.query(MemoryCriteria(types=("rechnung.v2",)))
    assert found.key == first
    assert [item.key for item in await context.agent_memory.query(MemoryCriteria(related_to=first))] == [second]
    for wrong in ("", "two words", "x" * 65, "ä" * 40):
        with pytest.raises(ValueError, match="or a word of your own of up to 64"):
            await context.store("x", "x", wrong)
