"""What views show instead of half surrogates."""

import json

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    SystemMessage,
    UserMessage,
)
from hypothesis import given
from hypothesis import strategies as st

from memory_context import AgentMemory, MemoryContext, MemoryStore
from memory_context.foundation.light_model.model import LightModel
from memory_context.foundation.messages import message_to_json, sendable_message
from memory_context.foundation.utf8 import sayable_json, strings_in
from memory_context.testing import ScriptedModel, call

from .histories import body_of, check_sendable

HALF = "\ud83d"
_TEXT = st.text(st.sampled_from('ab\\"\n{}é😀\ud83d\ude00\udce9'))
_JSON = st.recursive(_TEXT, lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner), max_leaves=5)


@given(value=_JSON, is_ascii=st.booleans())
def test_arguments_stay_json_and_spell_only_halves(value: object, is_ascii: bool):
    """Escaped or raw, as keys and values, between backslashes; a pair of escapes is one character and stays."""
    arguments = json.dumps(value, ensure_ascii=is_ascii)
    shown = json.loads(sayable_json(arguments))
    json.dumps(shown, ensure_ascii=False).encode()
    read: object = json.loads(arguments)
    assert [one.encode("utf-8", "backslashreplace").decode() for one in strings_in(read)] == [*strings_in(shown)] or (
        len([*strings_in(shown)]) < len([*strings_in(read)])  # two keys became equal
    )


@given(text=_TEXT)
def test_arguments_that_are_no_json_can_be_sent(text: str):
    """Models write such, too."""
    sayable_json(text).encode()


@pytest.mark.parametrize(
    "message",
    [
        SystemMessage(content=HALF),
        UserMessage(content=f"caf{HALF}", source="user"),
        UserMessage(content=["a", HALF], source=f"user{HALF}"),
        AssistantMessage(content=HALF, thought=HALF, source=f"a{HALF}"),
        AssistantMessage(
            content=[FunctionCall(HALF, json.dumps({HALF: HALF}), f"tool{HALF}")], thought=HALF, source="a"
        ),
        FunctionExecutionResultMessage(
            content=[FunctionExecutionResult(content=HALF, name=f"tool{HALF}", call_id=HALF, is_error=False)]
        ),
    ],
)
def test_message_with_halves_anywhere_can_be_sent_and_is_not_changed(
    message: SystemMessage | UserMessage | AssistantMessage | FunctionExecutionResultMessage,
):
    """Names and ids get no backslash, which providers refuse."""
    before = message_to_json(message)
    shown = sendable_message(message)
    body = body_of([shown])
    assert b"d83d" in body
    assert message_to_json(message) == before
    assert sendable_message(shown) is shown


async def list_files() -> str:
    """List files."""
    return f"caf{HALF} menu.txt"


async def test_session_with_halves_everywhere_goes_on_and_resumes(store: MemoryStore):
    """A tool's result, the user's words, an argument, an answer, an item opened for the view and a statement."""
    await AgentMemory(store, "alice").remember(f"The user likes {HALF} in titles.")
    await AgentMemory(store, "alice", "coder").store(f"A note on {HALF}", description=f"note {HALF}", type="custom")
    context = MemoryContext("alice", "coder", "s", store)
    model = ScriptedModel(call("list_files"), call("no_such_tool", name=HALF), f"Here {HALF}.", "Good.", "Fine.")
    agent = AssistantAgent(
        "coder", model, tools=[list_files, *context.tools()], model_context=context, max_tool_iterations=3
    )
    for task in (f"List {HALF} files", "And?", "Thanks"):
        await agent.run(task=task)
    for request in model.views:
        check_sendable(request)
    assert len(model.views) == 5
    assert b"The user likes" in body_of(model.views[-1])
    await context.close()
    again = MemoryContext("alice", "coder", "s", store)
    await again.add_message(UserMessage(content="Go on", source="user"))
    check_sendable(await again.get_messages())
    assert next(text for entry in again.transcript.entries() for _, text in entry.texts if HALF in text) == (
        f"List {HALF} files"
    )
    json.dumps(str(await again.build_context()), ensure_ascii=False).encode()
    await again.close()


async def test_light_model_gets_no_half_surrogates():
    """Prompts quote what users and tools said."""
    model = ScriptedModel("a title")
    await LightModel(model).complete([SystemMessage(content="Name it"), UserMessage(content=HALF, source="user")])
    check_sendable(model.views[0])
