"""Long arguments of earlier calls as references, and calls that repeat such a reference in place of its text."""

import json

import pytest
from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, FunctionExecutionResult, FunctionExecutionResultMessage, UserMessage

from memory_context import CompactionPolicy, ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.references import cut_argument_in
from memory_context.sessions.transcript.part_decisions import CallRefused

from ..agents.scripted import report
from .steps import ALWAYS_PAYS

pytestmark = pytest.mark.thorough

CUTS = ContextPolicy(cache=ALWAYS_PAYS, compaction=CompactionPolicy(call_arguments=100))
KEEPS = ContextPolicy(cache=ALWAYS_PAYS)


async def _call(context: MemoryContext, name: str, *, is_error: bool = False, **arguments: str) -> None:
    await context.get_messages()
    call = FunctionCall(id=f"call_{context.transcript.end}", name=name, arguments=json.dumps(arguments))
    await context.add_message(AssistantMessage(content=[call], source=context.agent_id))
    result = FunctionExecutionResult(content="done", name=name, call_id=call.id, is_error=is_error)
    await context.add_message(FunctionExecutionResultMessage(content=[result]))


async def _arguments_in_view(context: MemoryContext) -> list[dict[str, str]]:
    view = await context.get_messages()
    calls = [call for one in view if isinstance(one, AssistantMessage) for call in one.content]
    return [json.loads(call.arguments) for call in calls if isinstance(call, FunctionCall)]


async def _mails(store: MemoryStore, policy: ContextPolicy) -> MemoryContext:
    context = MemoryContext("alice", "clerk", "s", store, policy=policy)
    context.tools()
    await context.add_message(UserMessage(content="Answer the mails.", source="user"))
    await _call(context, "send_mail", subject="Owls", body=report("owl", 40))
    await _call(context, "send_mail", subject="Bats", body=report("bat", 40), is_error=True)
    await _call(context, "send_mail", subject="Moles", body=report("mole", 40))
    await context.get_messages()
    await context.add_message(AssistantMessage(content="Sent.", source=context.agent_id))
    return context


async def test_long_argument_of_an_earlier_call_that_succeeded_becomes_a_reference(store: MemoryStore):
    """A failed call and the newest one stay; the key gives every byte, and short arguments stay readable."""
    context = await _mails(store, CUTS)
    owl, bat, mole = await _arguments_in_view(context)
    key = cut_argument_in(owl["body"])
    assert key is not None
    assert owl["subject"] == "Owls"
    assert await context.retrieve(key) == report("owl", 40)
    assert (bat["body"], mole["body"]) == (report("bat", 40), report("mole", 40))


async def test_arguments_stay_whole_by_default(store: MemoryStore):
    assert [one["body"] for one in await _arguments_in_view(await _mails(store, KEEPS))] == [
        report(topic, 40) for topic in ("owl", "bat", "mole")
    ]


async def test_newest_text_of_each_file_stays_whole(store: MemoryStore):
    context = MemoryContext("alice", "coder", "s", store, policy=CUTS)
    context.tools()
    await context.add_message(UserMessage(content="Write both files.", source="user"))
    for path, topic in (("src/a.py", "first"), ("src/b.py", "other"), ("src/a.py", "second"), ("src/c.py", "third")):
        await _call(context, "write_file", path=path, content=report(topic, 40))
    await _call(context, "run_tests")
    await context.get_messages()
    await context.add_message(AssistantMessage(content="Written.", source=context.agent_id))
    first, *newest = await _arguments_in_view(context)
    assert cut_argument_in(first["content"]) is not None
    assert [one["content"] for one in newest[:3]] == [report(topic, 40) for topic in ("other", "second", "third")]


async def test_call_that_repeats_a_shortened_argument_is_refused_with_its_key(store: MemoryStore):
    """The tool would write the reference in place of the text. The refusal is counted, also after a load."""
    context = await _mails(store, CUTS)
    sent: list[str] = []

    async def send_mail(subject: str, body: str) -> str:
        """Send a mail."""
        sent.append(body)
        return subject

    workbench = context.workbench([send_mail])
    copied = (await _arguments_in_view(context))[0]
    refused = await workbench.call_tool("send_mail", copied)
    assert refused.is_error
    assert not sent
    key = cut_argument_in(copied["body"])
    assert f'retrieve_memory(memory_key="{key}")' in refused.to_text()
    (streamed,) = [one async for one in workbench.call_tool_stream("send_mail", copied)]
    assert streamed == refused
    assert context.stats.refused_calls == 2
    assert not (await workbench.call_tool("send_mail", {"subject": "Owls", "body": report("owl", 40)})).is_error
    assert sent == [report("owl", 40)]
    again = MemoryContext("alice", "clerk", "s", store, policy=CUTS)
    await again.load_state(await context.save_state())
    assert [one.key for _, one in again.transcript.decisions(CallRefused)] == [key, key]
