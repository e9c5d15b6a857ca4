"""Fifty canaries stand wherever text is kept; once forgotten, none is in a dump, view, state, export, log or span."""

import json
import logging
from collections.abc import AsyncIterator, Iterator
from datetime import datetime, timezone

import pytest
from autogen_core import CancellationToken, FunctionCall
from autogen_core.models import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    UserMessage,
)
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from memory_context import AgentMemory, ContextPolicy, MemoryContext, MemoryCriteria, MemoryStore
from memory_context.sessions.live.redis import RedisStates
from memory_context.sessions.transcript.observation_decisions import (
    ObservationBuffered,
    ObservationsActivated,
    Reflected,
)
from memory_context.sessions.transcript.observations import Edit, ObservationChunk, ObservationLine
from memory_context.store.conversations import ChatMessage
from memory_context.store.items import NewItem
from memory_context.store.threads import ThreadStep
from tests.conftest import Server, database_of
from tests.support.redis_server import RedisServer, redis_server

from .steps import ALWAYS_PAYS, add_step

pytestmark = pytest.mark.fake_embedder

POLICY = ContextPolicy(cache=ALWAYS_PAYS, offload_threshold_tokens=50, store_timeout_seconds=30)
AT = datetime(2026, 1, 1, tzinfo=timezone.utc)
_ = redis_server  # a fixture
TYPES = ("custom", "article", "web_content", "database_result", "session_summary")


@pytest.fixture
async def states(store: MemoryStore, redis_server: RedisServer) -> AsyncIterator[RedisStates]:
    """Saved states in Redis, where the chat server keeps them."""
    states = RedisStates(redis_server.url)
    store.forgettings.copies.add(states)
    yield states
    await states.close()


@pytest.fixture
def spans() -> InMemorySpanExporter:
    """What OpenTelemetry is told from now on; a process has one provider."""
    if not isinstance(trace.get_tracer_provider(), TracerProvider):
        trace.set_tracer_provider(TracerProvider())
    provider, spans = trace.get_tracer_provider(), InMemorySpanExporter()
    assert isinstance(provider, TracerProvider)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return spans


def dump(server: Server, url: str) -> str:
    """Return every row of every table as text, in lower case."""
    name = database_of(url)
    tables = server.execute(
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'memory_context'::regnamespace AND relkind = 'r'", name
    )
    rows = [server.execute(f"SELECT t::text FROM memory_context.{table} AS t", name) for (table,) in tables]
    return "\n".join(str(row) for some in rows for (row,) in some).lower()


def context_of(store: MemoryStore, session: str) -> MemoryContext:
    return MemoryContext("alice", "coder", session, store, policy=POLICY)


def report(mark: str) -> str:
    lines = [f"checking harbour {number}: all well" for number in range(150)]
    lines[90] = f"Error: {mark} failed at pier_{mark}.py:12"
    return "\n".join([f"# Survey of {mark}", *lines, f"{mark} is the last word"])


def sentence(mark: str) -> str:
    return f"the {mark} locker is number 4471"


async def say(context: MemoryContext, text: str, answer: str = "Noted.") -> None:
    await context.add_message(UserMessage(content=text, source="user"))
    await context.get_messages()
    await context.add_message(AssistantMessage(content=answer, source="coder"))


async def plant_items(store: MemoryStore, marks: Iterator[str]) -> None:
    """In content, description, tags, metadata and a model's summary; a tombstone keeps key and source."""
    memory = AgentMemory(store, "alice", "coder", "items")
    for kind in TYPES:
        mark = next(marks)
        ref = await memory.store(report(mark), type=kind, description=mark, tags=[mark], metadata={"about": mark})
        await store.items.update_model_summary("alice", ref.key, f"about {mark}")
    for kind in TYPES:
        await memory.store({"short": sentence(next(marks))}, type=kind)


async def plant_statements(store: MemoryStore, marks: Iterator[str]) -> None:
    """With their quotes in the words of the user; one superseded by the next."""
    context = context_of(store, "statements")
    for number in range(5):
        text = sentence(next(marks))
        await say(context, f"Remember: {text}, please.")
        metadata = {"quote": text, "subject": "the locker"}
        item = NewItem(text, text, 9, "user_fact", metadata=metadata, origin="user_words", key=f"fact_{number}a")
        await store.statements.insert_statement("alice", item, datetime(2026, 1, 1 + number, tzinfo=timezone.utc))
    await context.close()


async def plant_results(store: MemoryStore, marks: Iterator[str]) -> MemoryContext:
    """Fresh, answered, opened again by another session, in call arguments, and in long words of the user."""
    context = context_of(store, "results")
    for _ in range(5):
        await context.add_message(UserMessage(content="Look at the harbours.", source="user"))
        await add_step(context, report(next(marks)))
        await context.get_messages()
        await context.add_message(AssistantMessage(content="It failed.", source="coder"))
    other = context_of(store, "opened")
    for item in await AgentMemory(store, "alice").query(MemoryCriteria(types=("action_result",), limit=5)):
        await say(other, f"Open {item.key}.")
    await other.close()
    for number in range(5):
        text = report(next(marks))
        await context.add_message(UserMessage(content="Write it.", source="user"))
        await context.get_messages()
        call = FunctionCall(id=f"w{number}", name="write", arguments=json.dumps({"path": "a", "text": text}))
        await context.add_message(AssistantMessage(content=[call], source="coder"))
        done = FunctionExecutionResult(content="written", name="write", call_id=call.id, is_error=False)
        await context.add_message(FunctionExecutionResultMessage(content=[done]))
        await context.get_messages()
        await context.add_message(AssistantMessage(content="Done.", source="coder"))
    for _ in range(5):
        await say(context, report(next(marks)))
    return context


async def plant_copies(store: MemoryStore, marks: Iterator[str]) -> MemoryContext:
    """Messages in titles, chats and steps of an interface; items that another session looked up."""
    memory = AgentMemory(store, "alice", "coder", "looked up")
    for number in range(10):
        text = sentence(next(marks))
        session = f"titled {number}"
        titled = context_of(store, session)
        await say(titled, text)
        titled.archiver.add_chat([ChatMessage("m", text, "user", datetime.now(timezone.utc))], 1)
        await titled.close()
        step = ThreadStep(f"step {number}", session, {}, output=text)
        await store.threads.upsert_step("alice", step, is_update=False)
    context = context_of(store, "looking")
    (tool,) = [tool for tool in context.tools() if tool.name == "retrieve_memory"]
    for number in range(5):
        ref = await memory.store(sentence(next(marks)), description="a locker")
        await context.add_message(UserMessage(content="What is it?", source="user"))
        await context.get_messages()
        call = FunctionCall(id=f"l{number}", name=tool.name, arguments=json.dumps({"memory_key": ref.key}))
        await context.add_message(AssistantMessage(content=[call], source="coder"))
        found = await tool.run_json({"memory_key": ref.key}, CancellationToken(), call.id)
        result = FunctionExecutionResult(content=found, name=tool.name, call_id=call.id, is_error=False)
        await context.add_message(FunctionExecutionResultMessage(content=[result]))
    return context


async def plant_observations(store: MemoryStore, marks: Iterator[str]) -> MemoryContext:
    """In other words: in the log, its hints, a finished chunk and a reflection, batches after the messages."""
    context = context_of(store, "observed")
    transcript = context.transcript
    for number in range(5):
        mark, calm = next(marks), transcript.end
        await add_step(context, "calm")
        if number % 2:
            await say(context, sentence(mark))
        else:
            await context.add_message(UserMessage(content="Look at the harbours.", source="user"))
            await add_step(context, report(mark))
            await context.get_messages()
            await context.add_message(AssistantMessage(content="It failed.", source="coder"))
        await context.archive()
        first, last = transcript.state.observation.observed, transcript.end
        lines = (
            ObservationLine(f"{mark} has a pier", ((first, last),), AT),
            ObservationLine("lasts", ((calm, calm + 2),), AT),
        )
        chunk = ObservationChunk(first, last, lines, current_task=f"mend {mark}", suggested_response=f"{mark}?")
        transcript.decide(ObservationBuffered(chunk))
        if number == 2:
            transcript.decide(ObservationsActivated(last, first, lead="Observed:"))
            log = transcript.state.observation
            edits = (Edit("merge", (log.lines[0].id, log.lines[2].id), f"{mark} is one of two"),)
            transcript.decide(Reflected.of(log, edits, (9, 9, 9)))
        await context.archive()
    assert [len(transcript.state.observation.chunks), len(transcript.state.observation.buffered)] == [3, 2]
    assert transcript.state.observation.generation == 1
    return context


async def plant_messages(store: MemoryStore, marks: Iterator[str]) -> None:
    """In messages that are searched as conversation, and their answers."""
    context = context_of(store, "said")
    for _ in range(5):
        await say(context, sentence(next(marks)), answer=f"I wrote down that {sentence(next(marks))}")
    await context.close()


async def search_by_tool(context: MemoryContext, mark: str) -> None:
    """AutoGen traces its tools."""
    (tool,) = [tool for tool in context.tools() if tool.name == "search_memory"]
    assert mark in await tool.run_json({"query": mark}, CancellationToken())


async def test_fifty_forgotten_canaries_are_found_nowhere(
    store: MemoryStore,
    states: RedisStates,
    spans: InMemorySpanExporter,
    server: Server,
    database_url: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, "memory_context")
    caplog.set_level(logging.CRITICAL, "autogen_core.events")  # AutoGen logs what its tools answer
    planted = [f"kestrel{number:02}q7" for number in range(65)]
    marks = iter(planted)
    await plant_items(store, marks)
    await plant_statements(store, marks)
    contexts = [await plant_results(store, marks), await plant_copies(store, marks)]
    contexts.append(await plant_observations(store, marks))
    await plant_messages(store, marks)
    left = set(marks)
    used = [mark for mark in planted if mark not in left]
    assert len(used) >= 50
    for context in contexts:
        await context.archive()
        await states.save(context.key, await context.save_state())
    await store.flush_index()
    await search_by_tool(context_of(store, "searching"), used[-1])
    await store.events.flush("alice")
    before = dump(server, database_url)
    assert [mark for mark in used if mark not in before] == []
    saved = str([await states.load(context.key) for context in contexts])
    assert sum(mark in saved for mark in used) >= 20

    memory = AgentMemory(store, "alice")
    listed: list[str] = []
    for criteria in (MemoryCriteria(limit=500), MemoryCriteria(types=("conversation",), limit=500)):
        listed += [item.key for item in await memory.query(criteria)]
    listed += [item.key for item in await memory.user_memory(with_superseded=True)]
    await store.user_stats.forget("alice", listed)

    saved = str([await states.load(context.key) for context in contexts])
    assert [mark for mark in used if mark in saved] == []
    later = context_of(store, "later")
    await say(later, "What do you know of me?")
    for context in [*contexts, later]:
        view, state = str(await context.get_messages()), json.dumps(dict(await context.save_state()))
        told = str(await context.explain()) + str(context.transcript.state.observation)
        assert [mark for mark in used if mark in view + state + told] == []
        await context.close()
    await store.flush_index()
    await store.events.flush("alice")
    exported = b"".join([piece async for piece in store.admin.export_lines("alice")]).decode().lower()
    after = dump(server, database_url)
    assert [mark for mark in used if mark in after] == []
    assert [mark for mark in used if mark in exported] == []
    told = "\n".join([caplog.text, *(str(vars(record)) for record in caplog.records)])
    assert [mark for mark in used if mark in told] == []
    traced = "\n".join(span.to_json() for span in spans.get_finished_spans())
    assert "execute_tool search_memory" in traced
    assert [mark for mark in used if mark in traced] == []
    (log,) = await context_of(store, "reader").observation.of_user()
    lines = [line.text for chunk in log.chunks for line in chunk.lines]
    assert (lines.count("lasts"), lines.count("[forgotten]")) == (5, len(lines) - 5), "other lines stay"
    for mark in used[::10]:
        assert not [hit for hit in await memory.search(mark) if mark in hit.passage]
