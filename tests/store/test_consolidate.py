"""Consolidation: equal statements become one, and the light model writes articles and summaries."""

import asyncio
import json
from collections.abc import Awaitable, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from autogen_core.models import AssistantMessage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

from memory_context import AgentMemory, MemoryContext, MemoryCriteria, MemoryStore
from memory_context.foundation.errors import StoreUnavailableError
from memory_context.foundation.references import memory_key_for
from memory_context.store.items import NewItem
from tests.agents.scripted import model
from tests.conftest import Server, database_of
from tests.context.steps import a_turn_of_the_loop
from tests.support.rows import alter
from tests.support.waiting import soon

pytestmark = pytest.mark.fake_embedder

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


async def remember(store: MemoryStore, *statements: str, user: str = "alice") -> list[str]:
    """Store statements of one user, a day apart; return their keys."""
    keys: list[str] = []
    for day, text in enumerate(statements):
        key = memory_key_for("fact", (user, str(day)), text)
        item = NewItem(text, text, 5, "user_fact", key=key)
        await store.statements.insert_statement(user, item, START + timedelta(days=day))
        keys.append(key)
    return keys


async def holding(store: MemoryStore, as_of: datetime | None = None) -> list[str]:
    return sorted(item.content for item in await AgentMemory(store, "alice").user_memory(as_of=as_of))


async def test_statements_that_say_the_same_become_one_that_holds_since_the_first(store: MemoryStore) -> None:
    first, second = await remember(store, "I prefer tabs", "prefer tabs.")
    report = await store.consolidate("alice")
    assert report is not None
    assert report.merged == 1
    assert await holding(store) == ["prefer tabs."]
    assert await holding(store, as_of=START + timedelta(hours=1)) == ["prefer tabs."]
    kept = await AgentMemory(store, "alice").retrieve(second)
    assert kept is not None
    assert kept.related_to == (first,)
    merged = await AgentMemory(store, "alice").retrieve(first)
    assert merged is not None
    assert merged.content == "I prefer tabs"


@pytest.mark.parametrize(
    "statements",
    [
        ("the staging port is 5432", "the staging port is 5433"),
        ("I use emojis in code", "I never use emojis in code"),
        ("I am in Oslo next month.", "I am in Oslo next month"),
        ("deploy from /srv/a please", "deploy from /srv/b please"),
        ("Ann reviews releases", "Bob reviews releases"),
    ],
)
async def test_statements_that_differ_in_a_fact_stay(store: MemoryStore, statements: tuple[str, str]) -> None:
    await remember(store, *statements)
    before = await holding(store)
    report = await store.consolidate("alice")
    assert report is not None
    assert report.merged == 0
    assert await holding(store) == before


async def test_model_is_not_asked_beyond_its_budget(store: MemoryStore) -> None:
    await talk_of_orders(store)
    client = writer("Orders was looked at in step 2.")
    report = await store.consolidate("alice", model_client=client, budget_tokens=10)
    assert report is not None
    assert (report.articles, report.model_calls, report.is_cut) == (0, 0, True)
    assert not client.create_calls


async def test_second_run_changes_nothing(store: MemoryStore) -> None:
    await remember(store, "I prefer tabs", "prefer tabs.")
    assert (await store.consolidate("alice")).run_id is not None  # type: ignore[union-attr]
    assert (await store.consolidate("alice")).run_id is None  # type: ignore[union-attr]


async def test_users_and_isolated_agents_are_not_mixed(store: MemoryStore) -> None:
    await remember(store, "I prefer tabs")
    await remember(store, "prefer tabs", user="bob")
    report = await store.consolidate("alice")
    assert report is not None
    assert report.merged == 0


async def test_concurrent_runs_merge_once(store: MemoryStore) -> None:
    await remember(store, "I prefer tabs", "prefer tabs.", "I prefer tabs!")
    reports = await asyncio.gather(*(store.consolidate("alice") for _ in range(4)))
    done = [one for one in reports if one is not None]
    assert sum(one.merged for one in done) == 2
    assert await holding(store) == ["I prefer tabs!"]


async def test_killed_run_is_repeated_when_its_lease_ends(
    store: MemoryStore, server: Server, database_url: str
) -> None:
    await remember(store, "I prefer tabs", "prefer tabs.")
    alter(
        server,
        database_url,
        "INSERT INTO memory_context.jobs (user_id, kind, claim, due_at, attempts) "
        "VALUES ('alice', 'consolidate', '00000000-0000-0000-0000-000000000000', now() + interval '1 hour', 1)",
    )
    assert await store.consolidate("alice") is None
    alter(server, database_url, "UPDATE memory_context.jobs SET due_at = now() WHERE kind = 'consolidate'")
    report = await store.consolidate("alice")
    assert report is not None
    assert report.merged == 1


async def test_only_users_with_something_new_are_consolidated(store: MemoryStore) -> None:
    await remember(store, "I prefer tabs", "prefer tabs.")
    assert await store.consolidate_due() == 1
    assert await store.consolidate_due() == 0
    await remember(store, "my editor is vim")
    assert await store.consolidate_due() == 0
    assert await store.consolidate_due(every=timedelta(0)) == 1


async def test_consolidation_is_forgotten_with_its_sources(store: MemoryStore) -> None:
    item = NewItem("the locker number is 4471", "a note", 5, key="note_a2")
    await store.items.insert_memories("alice", [item])
    made = NewItem(
        "- the locker number is 4471 (note_a2)", "an article", 9, "article", related_to=["note_a2"], key="art_a3"
    )
    await store.items.insert_memories("alice", [NewItem(**{**vars(made), "origin": "consolidation"})])
    assert await store.user_stats.forget("alice", ["note_a2"]) == ["note_a2", "art_a3"]
    assert await AgentMemory(store, "alice").query(MemoryCriteria()) == []


async def test_daily_consolidation_runs_in_the_background_and_survives_errors(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed check is logged once; the next one comes in an hour."""
    await remember(store, "I prefer tabs", "prefer tabs.")
    store.consolidate_daily()
    store._next_consolidation.plan(0)
    while len(await holding(store)) > 1:
        await a_turn_of_the_loop()
    planned: list[float] = []
    monkeypatch.setattr(store, "consolidate_due", fail)
    monkeypatch.setattr(store._next_consolidation, "plan", planned.append)
    await store._consolidate_safely()
    assert planned == [3600.0]


async def fail() -> int:
    raise StoreUnavailableError("away")


def writer(text: str, sources: Sequence[int] = range(1, 13), topic: str = "Orders") -> ReplayChatCompletionClient:
    """Return a model that writes one article, and is no help elsewhere."""
    return model(*[json.dumps({"articles": [{"topic": topic, "text": text, "sources": [*sources]}]})] * 12)


async def talk_of_orders(store: MemoryStore) -> None:
    for number, text in enumerate(("Look at the table Orders.", "Is Orders slow?", "Index Orders.")):
        await talk(store, f"s{number}", text, f"I looked at Orders, step {number}.")


async def test_article_rests_on_archived_conversations_and_is_found(store: MemoryStore) -> None:
    """It is written by one call, and only if something was said since; the next one ends it."""
    await talk_of_orders(store)
    report = await store.consolidate("alice", model_client=writer("Orders was looked at in step 2."))
    assert report is not None
    assert (report.articles, report.model_calls) == (1, 1)
    (hit,) = await AgentMemory(store, "alice").search("Orders", criteria=MemoryCriteria(types=("article",)))
    assert "Orders: Orders was looked at in step 2." in hit.passage
    assert "agent: I looked at Orders, step 1. (" in hit.passage
    assert len(hit.item.related_to) == 6
    assert hit.item.origin == "consolidation"
    again = await store.consolidate("alice", model_client=writer("Orders was looked at in step 2."))
    assert again is not None
    assert (again.articles, again.model_calls) == (0, 0)
    await talk(store, "s3", "Drop Orders.", "I dropped Orders.")
    client = writer("I dropped Orders.")
    renewed = await store.consolidate("alice", model_client=client)
    assert renewed is not None
    assert renewed.articles == 1
    assert "<known topics>\nOrders\n</known topics>" in str(client.create_calls[0]["messages"][-1].content)
    memory = AgentMemory(store, "alice")
    articles = await memory.query(MemoryCriteria(types=("article",)))
    (held,) = [await memory.retrieve(one.key) for one in articles if one.valid_until is None]
    assert held is not None
    assert held.content.startswith("Orders: I dropped Orders.\n- ")


@pytest.mark.parametrize(
    "client",
    [
        None,
        model(*['{"articles": []}'] * 12),
        writer("Orders has 4711 rows in Frankfurt."),
        writer("Orders was looked at in step 2.", topic="Mallory"),
        writer("Orders was looked at in step 2.", sources=[1, 2]),
        writer("Orders was looked at in step 2.", sources=[0, -1, 99]),
        model(*["no JSON"] * 12),
    ],
    ids=["no model", "no topic", "unsupported", "other name", "one conversation", "no source", "no answer"],
)
async def test_without_a_supported_answer_of_the_model_there_is_no_article(
    store: MemoryStore, client: ReplayChatCompletionClient | None
) -> None:
    await talk_of_orders(store)
    report = await store.consolidate("alice", model_client=client)
    assert report is not None
    assert report.articles == 0


@pytest.mark.parametrize(
    ("answer", "summary"),
    [
        ('{"summary": "Orders was indexed."}', "Orders was indexed."),
        ('{"summary": "Frankfurt was indexed."}', ""),
        ("no JSON", ""),
        (None, ""),
    ],
)
async def test_quiet_session_is_summarised_only_by_a_model(
    store: MemoryStore, server: Server, database_url: str, answer: str | None, summary: str
) -> None:
    await talk(store, "s", "Index Orders.", "Orders was indexed.")
    await store.jobs.flush()
    old = "UPDATE memory_context.agent_sessions SET summary = '', last_activity_at = now() - interval '2 days'"
    alter(server, database_url, old)
    client = None if answer is None else model('{"articles": []}', *[answer] * 3)
    report = await store.consolidate("alice", model_client=client)
    assert report is not None
    assert report.summaries == bool(summary)
    rows = server.execute("SELECT summary FROM memory_context.agent_sessions", database_of(database_url))
    assert rows == [(summary,)]


async def test_article_goes_when_one_of_its_messages_is_forgotten(store: MemoryStore) -> None:
    for number in range(3):
        await talk(store, f"s{number}", f"The locker of Orders is {number}4471.", "Noted.")
    await store.consolidate("alice", model_client=writer("The locker of Orders is 24471."))
    (item,) = await AgentMemory(store, "alice").query(MemoryCriteria(types=("article",)))
    await store.user_stats.forget("alice", item.related_to[:1])
    assert await AgentMemory(store, "alice").query(MemoryCriteria(types=("article",))) == []


async def test_reads_of_a_consolidation_have_the_time_of_a_batch(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They weigh all statements and what was said lately: those of a call would end after 5 s."""
    await talk_of_orders(store)
    read, kinds = store._database.read, set[str]()

    def noted(*given: Any, kind: str = "call") -> Awaitable[Any]:
        kinds.add(kind)
        return read(*given, kind=kind)  # type: ignore[arg-type]

    monkeypatch.setattr(store._database, "read", noted)
    report = await store.consolidate("alice", model_client=writer("Orders was looked at in step 2."))
    assert report is not None
    assert report.articles == 1
    assert kinds == {"batch"}


async def talk(store: MemoryStore, session: str, request: str, answer: str) -> None:
    context = MemoryContext("alice", "coder", session, store)
    await context.add_message(UserMessage(content=request, source="user"))
    await context.get_messages()
    await context.add_message(AssistantMessage(content=answer, source="coder"))
    await context.close()


async def test_a_store_that_is_closed_while_it_consolidates_plans_no_more(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def wait() -> int:
        begun.set()
        await asyncio.Event().wait()
        return 0

    monkeypatch.setattr(store, "consolidate_due", wait)
    store._next_consolidation.plan(0)
    await soon(begun.wait())
    await store.close()
    assert store._next_consolidation._planned is None
