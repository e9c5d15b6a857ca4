"""Recall: messages behind observations, and the logs of all of the user's sessions."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from autogen_core import CancellationToken
from autogen_core.models import UserMessage

from memory_context import MemoryContext, MemoryStore, create_recall_tool
from memory_context.recall.tools.history import RecallTool
from memory_context.recall.tools.prompt_head import tool_tokens
from memory_context.sessions.transcript.observation_decisions import (
    ObservationBuffered,
    ObservationsActivated,
    Reflected,
)
from memory_context.sessions.transcript.observations import Edit, ObservationChunk, ObservationLine
from tests.observation.observed import Observer, fill
from tests.observation.observed import context_of as observing
from tests.support.contexts import answer, ask, context_of

AT = datetime(2026, 11, 20, 14, 5, tzinfo=timezone.utc)


def line(text: str, first: int, minutes: int = 0, last: int | None = None) -> ObservationLine:
    return ObservationLine(text, ((first, last or first + 1),), AT + timedelta(minutes=minutes))


def observe(context: MemoryContext, *lines: ObservationLine, is_active: bool = True) -> None:
    """Record a chunk of all messages so far, with these lines."""
    transcript = context.transcript
    first, last = transcript.state.observation.observed, transcript.end
    transcript.decide(ObservationBuffered(ObservationChunk(first, last, lines)))
    if is_active:
        transcript.decide(ObservationsActivated(last, first, lead="Observations:"))
    assert transcript.state.observation.observed == last


async def session(store: MemoryStore, topic: str, **more: Any) -> MemoryContext:
    context = context_of(store, **more)
    await ask(context, f"Tell me about {topic}.")
    await answer(context, f"{topic} is deep.")
    return context


async def run(tool: RecallTool, **arguments: Any) -> str:
    return await tool.run_json(arguments, CancellationToken())


async def test_logs_of_all_sessions_are_joined_and_attributed(store: MemoryStore) -> None:
    for number, topic in enumerate(("the harbour", "the canal")):
        context = await session(store, topic)
        observe(
            context, line(f"User asked about {topic}", 0, 10 * number), line(f"{topic} is deep", 1, 10 * number + 1)
        )
        await context.close()
    context = context_of(store)
    logs = await context.observation.of_user()
    assert [log.session.title for log in logs] == ["Tell me about the canal.", "Tell me about the harbour."]
    assert [one.text for one in logs[1].chunks[0].lines] == ["User asked about the harbour", "the harbour is deep"]
    (tool,) = [one for one in context.tools() if one.name == "read_history"]
    text = (await tool.answer({"session_id": "*"})).text
    canal, harbour = text.index("the canal is deep"), text.index("the harbour is deep")
    assert canal < harbour
    assert f"Session Tell me about the canal., session_id={logs[0].session.session_id!r}, agent 'coder'" in text
    assert "- 14:15 ! the canal" not in text
    assert "(2)" in text
    first = (await tool.answer({"session_id": "*", "limit": 1})).text
    assert "the canal is deep" in first
    assert first.endswith("[Older ones left out: 3. Next: read_history(session_id='*', query=…).]")


async def test_logs_of_others_of_sub_agents_and_of_private_sessions_are_not_joined(store: MemoryStore) -> None:
    private = (await session(store, "the vault")).for_subagent("helper", "isolated", session_id="hidden")
    helper = private.for_subagent("other")
    other = MemoryContext("bob", "coder", None, store)
    for context in (private, helper, other):
        await ask(context, "Tell me the code.")
        observe(context, line("the code is 4471", 0))
        await context.close()
    await store.flush_index()
    context = context_of(store)
    assert await context.observation.of_user() == []
    observe_own = await session(store, "the pier")
    observe(observe_own, line("the pier is long", 0))
    await observe_own.close()
    assert [log.session.title for log in await context.observation.of_user()] == ["Tell me about the pier."]
    assert await context.for_subagent("reader", "isolated").observation.of_user() == []


async def test_log_of_a_session_is_what_its_decisions_made_of_it(store: MemoryStore) -> None:
    """Reflections, clears and unjoined chunks included; read without the messages."""
    context = await session(store, "the harbour")
    observe(context, line("forgotten by a clear", 0))
    await context.archive()
    await context.clear()
    for number in range(3):
        await ask(context, f"Message {number}.")
        observe(context, line(f"observation {number}", context.transcript.end - 1), is_active=number < 2)
        await answer(context)
        await context.archive()
    ids = [one.id for one in context.transcript.state.observation.lines]
    context.transcript.decide(Reflected(1, (Edit("merge", tuple(ids), "both observations"),), (5,)))
    own = context.transcript.state.observation
    await context.close()
    (log,) = await context_of(store).observation.of_user()
    assert list(log.chunks) == [*own.chunks, *own.buffered]
    assert [one.text for chunk in log.chunks for one in chunk.lines] == ["both observations", "observation 2"]


async def test_recall_tool_reads_this_session_within_its_limit(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_context.recall.tools.history._RECALL_TOKENS", 600)
    context = await session(store, "the harbour")
    for number in range(40):
        await context.add_message(UserMessage(content=f"note {number}: " + "many words " * 60, source="user"))
    other = await session(store, "the canal")
    await other.archive()
    await store.flush_index()
    tool = create_recall_tool(context)
    assert tool.name == "read_history"
    text = await run(tool, first_message=3)
    assert context.token_counter.count(text) <= 600
    assert "Next: read_history(first_message=" in text
    for arguments in ({"session_id": other.session_id}, {"session_id": "*"}):
        result = await tool.answer(arguments)
        assert result.failed
        assert result.text == "Only this session can be read here: leave out session_id."
    assert (await tool.answer({"first_message": 2, "limit": 1})).data == {"first_message": 2, "last_message": 2}
    assert (await tool.answer({"nonsense": 1})).failed


async def test_recall_tool_leaves_the_opening_of_keys_to_the_context(store: MemoryStore) -> None:
    """It opens no keys, so those that the agent names are expanded; its tokens are in the bill."""
    context = await session(store, "the harbour")
    create_recall_tool(context)
    assert not context._session.expander.agent_has_tools
    await context.get_messages()
    assert context.transcript.state.offered.memory_tools == ("read_history",)
    assert context.transcript.state.offered.memory_tools_tokens > 0
    context.tools()
    assert context._session.expander.agent_has_tools


async def test_recall_tool_is_a_component(store: MemoryStore, caplog: pytest.LogCaptureFixture) -> None:
    context = await session(store, "the harbour")
    dumped = create_recall_tool(context).dump_component()
    assert "Tell me about the harbour." in await run(RecallTool.load_component(dumped), first_message=1)
    dumped.config["recall"] = {"scope": "user", "limit_tokens": 700}  # as version 0.2 wrote it
    assert "Tell me about the harbour." in await run(RecallTool.load_component(dumped), first_message=1)
    assert "observation.recall was withdrawn" in caplog.text


async def test_recall_tool_takes_at_most_90_tokens_of_each_call(store: MemoryStore) -> None:
    context = context_of(store)
    assert tool_tokens([create_recall_tool(context).schema], context.token_counter) <= 90


async def test_export_and_import_carry_the_log(store: MemoryStore) -> None:
    context = await session(store, "the harbour")
    observe(context, line("the harbour is deep", 1))
    await context.close()
    whole = b"".join([piece async for piece in store.admin.export_lines("alice")])
    await store.admin.import_lines(whole.splitlines(keepends=True), "carol")
    (log,) = await MemoryContext("carol", "coder", None, store).observation.of_user()
    (own,) = await context_of(store).observation.of_user()
    assert log.chunks == own.chunks
    await store.erase_user("carol")
    assert await MemoryContext("carol", "coder", None, store).observation.of_user() == []


@pytest.mark.parametrize("has_tool", [False, True])
async def test_log_says_how_to_read_messages_if_the_agent_can(has_tool: bool) -> None:
    context = observing(Observer())
    if has_tool:
        create_recall_tool(context)
    await fill(context)
    assert context.transcript.state.observation.chunks
    assert context.observation.has_recall == has_tool
    assert ("read_history(" in context.observation.slot_content) == has_tool


async def test_edits_of_a_reflection_name_the_messages_they_rest_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forgetting finds their texts by these."""
    monkeypatch.setattr("memory_context.compaction.observation.reflector._REFLECTION_SHARE", 0.1)
    context = observing(Observer())
    await fill(context, 40)
    edits = [edit for _, one in context.transcript.decisions(Reflected) for edit in one.edits]
    assert edits
    end = context.transcript.end
    assert all(0 <= first < last <= end for edit in edits for first, last in edit.ranges)
    assert all(edit.ranges for edit in edits)
