"""The audit trail: what happened to the items of a session, complete, in order, and at no cost for the agent."""

import logging
from collections.abc import Awaitable
from typing import Any, TypeVar

import pytest
from autogen_agentchat.agents import AssistantAgent
from autogen_core import CancellationToken
from autogen_core.memory import MemoryContent
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import AssistantMessage, UserMessage

from memory_context import (
    ContextPolicy,
    MemoryContext,
    MemoryCriteria,
    MemoryStore,
    MemoryTransform,
    PostgresMemory,
    StoreUnavailableError,
)
from memory_context.foundation.messages import Address
from memory_context.memory.agent_memory import AgentMemory
from memory_context.memory.scope import AuditEvent
from memory_context.sessions.transcript.codec import load_transcript, save_transcript
from memory_context.sessions.transcript.part_decisions import PartsCompacted, PartShortened
from memory_context.sessions.transcript.transcript import Transcript
from memory_context.sessions.transcript.values import OpenedItem
from memory_context.sessions.transcript.view_decisions import ExpansionShown, ExpansionWithdrawn, ViewCleared, ViewShown
from memory_context.store.sql import Statement
from tests.context.steps import ALWAYS_PAYS, add_step

from ..agents.scripted import calls, model, report

_T = TypeVar("_T")


async def some(found: Awaitable[_T | None]) -> _T:
    """Return what is found."""
    value = await found
    assert value is not None
    return value


def survey(topic: str) -> str:
    """Survey a topic at length."""
    return report(topic)


@pytest.fixture
def context(store: MemoryStore) -> MemoryContext:
    return MemoryContext("alice", "coder", "today", memory_store=store)


async def survey_of_owls(context: MemoryContext, *more: Any) -> str:
    """Let an agent survey owls, and go on; return the key of what it read."""
    client = model(calls(("survey", {"topic": "owls"})), *more, "Done.")
    tools = [survey, *context.tools()]
    agent = AssistantAgent("coder", client, tools=tools, model_context=context, max_tool_iterations=10)
    await agent.run(task="Survey the owls.")
    (key,) = (await context.agent_memory.snapshot()).keys
    return key


def kinds(events: list[AuditEvent]) -> list[str]:
    return [event.kind for event in events]


async def test_the_trail_of_a_session_says_what_happened_when_why_and_by_whom(
    context: MemoryContext, store: MemoryStore
) -> None:
    """A real agent stores, looks up, searches; the user names a key; the session is cleared."""
    key = await survey_of_owls(context)
    plan = await context.store("Owls first, then bats.", "the plan")
    await store.flush_index()
    client = model(
        calls(
            ("retrieve_memory", {"memory_key": key, "transform": "filtered", "pattern": "finding 7:"}),
            ("search_memory", {"query": "owls finding"}),
            ("query_memory", {}),
        ),
        calls(("read_history", {})),
        "Done.",
    )
    agent = AssistantAgent("coder", client, tools=context.tools(), model_context=context, max_tool_iterations=10)
    await agent.run(task=f"Look at it again. Mind {plan}.")
    await context.retrieve(key, "first_n", n=3)
    await context.search("owls")
    await context.clear()

    whole = await context.agent_memory.audit()
    compacted = [event for event in whole if event.kind == "compacted"]
    assert all(event.keys == (key,) for event in compacted)
    said = [event for event in whole if event.kind == "stored" and event.keys[0].startswith("said_")]  # as turns end
    events = [event for event in whole if event.kind != "compacted" and event not in said]
    assert kinds(events)[:3] == ["stored", "stored", "expanded"]
    assert sorted(kinds(events)[3:6]) == ["listed", "retrieved", "searched"]
    assert kinds(events)[6:] == ["paged", "retrieved", "searched", "cleared"]
    assert events[2].keys == (plan,)
    assert all(key in event.keys for event in (events[0], *events[3:]))
    assert {(event.session_id, event.agent_id) for event in events} == {("today", "coder")}
    assert [event.at for event in events] == sorted(event.at for event in events)
    stored, _, expanded, *rest = events
    assert stored.detail.endswith(" tokens from survey, result of message 3, call call_0")
    assert expanded.detail == "named by user"
    of_agent = {event.kind: event.detail for event in rest[:4]}
    assert of_agent["retrieved"] == "retrieve_memory: filtered pattern='finding 7:'"
    assert of_agent["searched"] == "search_memory: 'owls finding'"
    assert of_agent["listed"] == "query_memory: all"
    assert of_agent["paged"].startswith("read_history: messages 1-")
    assert rest[4].detail == "retrieve: first_n n=3"
    assert rest[5].detail == "search: 'owls'"


async def test_every_read_of_an_agents_memory_is_in_the_trail_once(context: MemoryContext, store: MemoryStore) -> None:
    """Through the context or its `agent_memory` alike; a read that found nothing or failed is none."""
    memory = context.agent_memory
    key = await context.store("Owls first, then bats.", "the plan")
    await store.flush_index()
    cut = MemoryTransform.first_n(3)
    assert (await context.retrieve(key, "first_n", n=3), await context.search("owls")) == (
        (await some(memory.retrieve(key, cut))).content,
        await memory.search("owls"),
    )
    await memory.retrieve(key, reader="report")
    assert await memory.retrieve_contents([key, "none_k3f7x2"]) == {key: "Owls first, then bats."}
    assert [item.key for item in await memory.query(MemoryCriteria(types=("custom",)))] == [key]
    await memory.retrieve(key, reader=None)
    await memory.search("owls", reader=None)
    await memory.query(reader=None)
    assert await memory.retrieve("none_k3f7x2") is None
    for failing in (memory.search("owls", limit=0), context.search("owls", 0)):
        with pytest.raises(ValueError, match="limit=0 must be at least 1"):
            await failing
    _, *events = await memory.audit()
    assert {event.keys for event in events} == {(key,)}
    assert [(event.kind, event.detail) for event in events] == [
        ("retrieved", "retrieve: first_n n=3"),
        ("searched", "search: 'owls'"),
        ("retrieved", "retrieve: first_n n=3"),
        ("searched", "search: 'owls'"),
        ("retrieved", "report: full"),
        ("retrieved", "retrieve: full"),
        ("listed", "query: types=('custom',)"),
    ]


async def test_memories_shown_in_another_context_are_in_the_trail_once(store: MemoryStore) -> None:
    """Not again while the same message stands; a MemoryContext notes its own decision to show them."""
    memory = PostgresMemory("alice", "coder", memory_store=store)
    await memory.add(MemoryContent(content="The lunch is on Thursday.", mime_type="text/plain"))
    await store.flush_index()
    buffered = BufferedChatCompletionContext(10)
    own = MemoryContext("alice", "coder", "today", memory_store=store)
    for shown in (buffered, buffered, own):
        if not await shown.get_messages():
            await shown.add_message(UserMessage(content="When is the lunch?", source="user"))
        await memory.update_context(shown)
    assert "Thursday" in str(await buffered.get_messages())
    assert kinds(await memory.agent_memory.audit()) == ["stored", "searched"]
    assert kinds(await own.agent_memory.audit()) == ["recalled"]
    await memory.query("lunch")
    assert (await memory.agent_memory.audit())[-1].detail == "postgres_memory: 'lunch'"


@pytest.mark.thorough
async def test_folds_name_what_went_behind_them_once(store: MemoryStore) -> None:
    """A later fold takes the place of an earlier one, whose items are not told again."""
    policy = ContextPolicy(token_budget=2000)
    context = MemoryContext("alice", "coder", "today", memory_store=store, policy=policy)
    steps = [calls(("survey", {"topic": f"topic {number}"})) for number in range(60)]
    client = model(*steps, "Done.")
    agent = AssistantAgent("coder", client, tools=[survey], model_context=context, max_tool_iterations=100)
    await agent.run(task="Survey all of it.")
    folds = [event for event in await context.agent_memory.audit(limit=1000) if event.kind == "folded"]
    assert len(folds) == context.stats.folds > 1
    folded = [key for fold in folds for key in fold.keys]
    assert len(folded) == len(set(folded)) > 20
    assert all(fold.detail.startswith("history_") for fold in folds)


async def test_a_look_up_or_an_expansion_writes_nothing_by_itself(
    context: MemoryContext, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fifty of them are one transaction, when the trail is asked for."""
    key = await context.store(report("owls"), "a survey")
    await store.flush_index()
    writes = 0
    write = store._database.write

    async def counted(user_id: str, *statements: Statement, **kind: Any) -> Any:
        nonlocal writes
        writes += any(b"agent_memory_events" in one.query or b"last_used_at" in one.query for one in statements)
        return await write(user_id, *statements, **kind)

    monkeypatch.setattr(store._database, "write", counted)
    for number in range(1, 50):
        await context.retrieve(key, "first_n", n=number)
    await context.add_message(UserMessage(content=f"See {key}", source="user"))
    await context.get_messages()
    assert writes == 0
    assert len(await context.agent_memory.audit()) == 1 + 50
    assert writes == 1


async def test_pages_follow_each_other_in_both_directions(context: MemoryContext) -> None:
    """Nothing is missing and nothing comes twice, also where several happened at the same time."""
    drafts = [await context.store(f"text {number}", f"text {number}") for number in range(7)]
    for key in drafts:
        await context.retrieve(key)
    memory = context.agent_memory
    whole = await memory.audit()
    assert len(whole) == 14
    for newest_first in (False, True):
        pages: list[AuditEvent] = []
        while page := await memory.audit(limit=3, after=pages[-1] if pages else None, newest_first=newest_first):
            assert len(page) <= 3
            pages += page
        assert pages == (whole[::-1] if newest_first else whole)


async def test_another_session_is_asked_for_by_its_id(context: MemoryContext, store: MemoryStore) -> None:
    """None is the own one; a memory that reaches no further than its session sees no other."""
    other = MemoryContext("alice", "writer", "yesterday", memory_store=store)
    await other.store("text", "a text")
    assert await context.agent_memory.audit() == []
    assert kinds(await context.agent_memory.audit("yesterday")) == ["stored"]
    narrow = AgentMemory(store, "alice", "coder", "today", reach="session")
    assert await narrow.audit("yesterday") == []
    stranger = MemoryContext("bob", "coder", "yesterday", memory_store=store)
    assert await stranger.agent_memory.audit() == []


async def test_what_a_private_agent_does_is_not_told_to_others(context: MemoryContext, store: MemoryStore) -> None:
    """Neither what it stored nor what it looked for; it may read of itself, and of others if it may read them."""
    subagent = AgentMemory(store, "alice", "reviewer", "today", sharing="read_only")
    own = (await subagent.store("a private text", description="private")).key
    shared = await context.store("a shared text", "shared")
    subagent.trail.note("retrieved", [shared], "full")
    await context.retrieve(shared)
    assert kinds(await context.agent_memory.audit()) == ["stored", "retrieved"]
    events = await subagent.audit()
    assert [event.keys for event in events] == [(own,), (shared,), (shared,), (shared,)]
    assert [event.agent_id for event in events] == ["reviewer", "coder", "reviewer", "coder"]
    isolated = AgentMemory(store, "alice", "tester", "today", sharing="isolated")
    assert await isolated.audit() == []


async def test_nothing_is_left_of_a_user_who_is_erased(context: MemoryContext, store: MemoryStore) -> None:
    """Neither what is written nor what was still waiting."""
    key = await context.store("text", "a text")
    await context.retrieve(key)
    await context.agent_memory.audit()
    await context.retrieve(key)
    await store.erase_user("alice")
    assert await context.agent_memory.audit() == []


async def test_what_was_forgotten_is_told(context: MemoryContext) -> None:
    """When, and that it had been stored."""
    key = await context.store("a secret", "a secret")
    await context.agent_memory.forget(key)
    events = await context.agent_memory.audit()
    assert [(event.kind, event.keys) for event in events] == [("stored", (key,)), ("forgotten", (key,))]
    assert [event.detail for event in events] == ["forgotten since", ""], "not that it had 0 tokens"


async def test_a_store_that_is_down_is_felt_by_the_trail_only(context: MemoryContext) -> None:
    """Noting costs nothing and never raises; asking says that the store is away."""
    down = MemoryContext("alice", memory_store=MemoryStore("postgresql://nobody@127.0.0.1:1/nowhere"))
    down.agent_memory.trail.note("retrieved", ["k"], "full")
    with pytest.raises(StoreUnavailableError):
        await down.agent_memory.audit()
    with pytest.raises(ValueError, match="limit=0 must be at least 1"):
        await context.agent_memory.audit(limit=0)


async def test_each_decision_tells_what_it_does_to_items(context: MemoryContext) -> None:
    """And those that do nothing to items, or that nobody knows yet, tell nothing."""
    key = await survey_of_owls(context)
    transcript = context.transcript
    result = (2, Address("result", 0))
    before = len(await context.agent_memory.audit())
    opened = (OpenedItem(key, "matched", "shares 'owls'"), OpenedItem("other", "recalled", "recalled for 'owls'"))
    transcript.decide(ExpansionShown(transcript.end - 1, "text", 10, opened))
    transcript.decide(ExpansionWithdrawn(((transcript.end - 1, "turn"),), "planned"))
    transcript.decide(PartsCompacted((result,), "budget"))
    transcript.decide(PartShortened(*result, "short", 1))
    transcript.decide(ViewShown(transcript.end))
    context.agent_memory.trail.note_decision(transcript, object())
    transcript.decide(ViewCleared(transcript.end))
    events = (await context.agent_memory.audit())[before:]
    assert [(event.kind, event.keys, event.detail) for event in events] == [
        ("expanded", (key,), "matched: shares 'owls'"),
        ("recalled", ("other",), "recalled for 'owls'"),
        ("withdrawn", (key, "other"), "planned"),
        ("compacted", (key,), "budget"),
        ("shortened", (key,), "to 1 tokens"),
        ("cleared", (key,), ""),
    ]


async def test_a_decision_that_cannot_be_told_does_not_disturb_the_agent(
    context: MemoryContext, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged; the decision stands."""
    await context.add_message(UserMessage(content="Hello", source="user"))
    broken = ExpansionShown(0, "text", 1, None)  # type: ignore[arg-type]
    context.transcript.decide(broken)
    assert context.transcript.state.expanded[broken.place] is broken
    assert "a decision is missing in the audit trail: ExpansionShown" in caplog.text


def test_only_what_is_decided_now_is_observed() -> None:
    """Loading takes decisions over without telling them again."""
    transcript, seen = Transcript(), list[object]()
    transcript.on_decision = lambda _, decision: seen.append(decision)
    transcript.append(UserMessage(content="Hello", source="user"))
    transcript.append(AssistantMessage(content="Hi", source="coder"))
    decision = ViewShown(2)
    transcript.decide(decision)
    assert seen == [decision]
    loaded = load_transcript(save_transcript(transcript))
    assert loaded.log == transcript.log
    assert loaded.on_decision is None
    transcript.replay(2, ViewCleared(2))
    assert seen == [decision]


async def test_a_context_that_was_loaded_goes_on_with_its_trail(context: MemoryContext, store: MemoryStore) -> None:
    """In the same session, by another object."""
    key = await survey_of_owls(context)
    state = await context.save_state()
    loaded = MemoryContext("alice", "coder", memory_store=store)
    await loaded.load_state(state)
    await loaded.tools()[1].run_json({"memory_key": key}, CancellationToken())
    trail = await loaded.agent_memory.audit()
    assert kinds([event for event in trail if key in event.keys]) == ["stored", "compacted", "retrieved"]


async def test_log_says_what_was_stored_and_compacted_without_content(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "memory_context")
    context = MemoryContext("alice", "coder", "s", store, policy=ContextPolicy(cache=ALWAYS_PAYS))
    await context.add_message(UserMessage(content="Read it.", source="user"))
    await add_step(context, "read", "the lantern hangs in the harbour\n" * 400)
    await context.get_messages()
    await context.add_message(AssistantMessage(content="I read it.", source="coder"))
    await context.get_messages()
    said = [(one.levelname, one.getMessage()) for one in caplog.records]
    (item,) = await context.agent_memory.query()
    tokens = item.ref.token_count
    assert ("INFO", "session s of agent coder: opened") in said
    assert ("DEBUG", f"session s: stored 1 items, {tokens} tokens (offload): {item.key}") in said
    assert ("DEBUG", f"session s: compacted 1 items, {tokens} tokens (consumed): {item.key}") in said
    assert "lantern" not in caplog.text
    await context.close()
