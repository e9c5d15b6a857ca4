"""Consolidation: equal statements become one, and the light model writes articles of what recurs."""

import asyncio
import json
from datetime import datetime, timedelta, timezone

import pytest
from autogen_core.models import AssistantMessage, UserMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

from memory_context import AgentMemory, MemoryContext, MemoryCriteria, MemoryStore
from memory_context.foundation.errors import StoreUnavailableError
from memory_context.foundation.references import memory_key_for
from memory_context.store.admin.articles import Said, recurring_topics
from memory_context.store.admin.daily import DailyConsolidation
from memory_context.store.items import NewItem
from tests.agents.scripted import model
from tests.conftest import Server
from tests.context.steps import a_turn_of_the_loop
from tests.support.rows import alter

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
    yes = model('{"same": true}', '{"same": true}')
    report = await store.consolidate("alice", model_client=yes)
    assert report is not None
    assert report.merged == 0
    assert await holding(store) == before


async def test_model_judges_statements_that_differ_in_other_words(store: MemoryStore) -> None:
    await remember(store, "answers should be short and clear", "answers should be brief and clear")
    report = await store.consolidate("alice", model_client=model('{"same": true}'))
    assert report is not None
    assert (report.merged, report.model_calls) == (1, 1)
    assert report.model_tokens > 20
    assert await holding(store) == ["answers should be brief and clear"]


async def test_model_is_not_asked_beyond_its_budget(store: MemoryStore) -> None:
    await remember(store, "answers should be short and clear", "answers should be brief and clear")
    client = model('{"same": true}')
    report = await store.consolidate("alice", model_client=client, budget_tokens=10)
    assert report is not None
    assert (report.merged, report.model_calls, report.is_cut) == (0, 0, True)
    assert not client.create_calls


async def test_model_that_fails_leaves_the_rules(store: MemoryStore) -> None:
    await remember(store, "I prefer tabs", "prefer tabs", "answers: short, clear", "answers: brief, clear")
    report = await store.consolidate("alice", model_client=model("no JSON", "no JSON"))
    assert report is not None
    assert report.merged == 1


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


def said(session: int, text: str, *, is_answer: bool = False) -> Said:
    day = START + timedelta(days=session)
    return Said(f"said_{session}{'a' * is_answer}", f"s{session}", f"Day {session}", text, day, is_answer)


def test_topic_has_one_sentence_of_each_conversation_with_its_source() -> None:
    spoken = [
        said(0, "Look at the table Orders."),
        said(0, "It is late. The table Orders has 5 rows.", is_answer=True),
        said(1, "Check Orders again, please."),
        said(2, "Drop it. Is Orders gone?"),
    ]
    (topic,) = recurring_topics(spoken)
    assert topic.name == "Orders"
    assert topic.sources == ("said_2", "said_1", "said_0a")
    assert topic.quotes.split("\n") == [
        "- 2026-01-03, Day 2: Is Orders gone? (said_2)",
        "- 2026-01-02, Day 1: Check Orders again, please. (said_1)",
        "- 2026-01-01, Day 0: The table Orders has 5 rows. (said_0a)",
    ]


def test_equal_sentences_are_one_source() -> None:
    """A starter question that is clicked three times, and its equal answers, are no topic."""
    spoken = [said(day, "How is the vault Guarded against Mallory?") for day in range(3)]
    spoken += [said(day, "It is Guarded by Exact Counts.", is_answer=True) for day in range(3)]
    assert recurring_topics(spoken) == []


def test_names_of_two_conversations_and_beginnings_of_sentences_are_no_topic() -> None:
    assert recurring_topics([said(0, "Please fix Orders"), said(1, "Please. Orders"), said(2, "Please go")]) == []


def test_name_in_most_of_many_conversations_is_no_topic() -> None:
    assert recurring_topics([said(day, f"ask model {day} about Orders") for day in range(9)]) == []


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
    store._daily.begin(0)
    while len(await holding(store)) > 1:
        await a_turn_of_the_loop()
    planned: list[float] = []
    failing = DailyConsolidation(fail)
    monkeypatch.setattr(failing._timer, "plan", planned.append)
    await failing._check()
    assert planned == [3600.0]


async def fail() -> int:
    raise StoreUnavailableError("away")


def writer(text: str, *, is_topic: bool = True) -> ReplayChatCompletionClient:
    answer = json.dumps({"is_topic": is_topic, "text": text})
    return model(*[answer] * 12)


async def test_article_rests_on_archived_conversations_and_is_found(store: MemoryStore) -> None:
    """A session more renews it; the older one says which replaced it."""
    for number, text in enumerate(("Look at the table Orders.", "Is Orders slow?", "Index Orders.")):
        await talk(store, f"s{number}", text, f"I looked at Orders, step {number}.")
    report = await store.consolidate("alice", model_client=writer("Orders was looked at in step 2."))
    assert report is not None
    assert report.articles == 1
    (hit,) = await AgentMemory(store, "alice").search("Orders", criteria=MemoryCriteria(types=("article",)))
    assert "Orders: Orders was looked at in step 2." in hit.passage
    assert "I looked at Orders, step 1." in hit.passage
    assert len(hit.item.related_to) == 3
    assert hit.item.origin == "consolidation"
    again = await store.consolidate("alice", model_client=writer("Orders was looked at in step 2."))
    assert again is not None
    assert (again.articles, again.model_calls) == (0, 0)
    await talk(store, "s3", "Drop Orders.", "I dropped Orders.")
    renewed = await store.consolidate("alice", model_client=writer("I dropped Orders."))
    assert renewed is not None
    assert renewed.articles == 1


@pytest.mark.parametrize(
    "client",
    [None, writer("Orders", is_topic=False), writer("Orders has 4711 rows in Frankfurt."), model(*["no JSON"] * 12)],
    ids=["no model", "not a topic", "unsupported", "no answer"],
)
async def test_without_a_supported_answer_of_the_model_there_is_no_article(
    store: MemoryStore, client: ReplayChatCompletionClient | None
) -> None:
    for number, text in enumerate(("Look at the table Orders.", "Is Orders slow?", "Index Orders.")):
        await talk(store, f"s{number}", text, f"I looked at Orders, step {number}.")
    report = await store.consolidate("alice", model_client=client)
    assert report is not None
    assert report.articles == 0


async def test_article_goes_when_one_of_its_messages_is_forgotten(store: MemoryStore) -> None:
    for number in range(3):
        await talk(store, f"s{number}", f"The locker of Orders is {number}4471.", "Noted.")
    await store.consolidate("alice", model_client=writer("The locker of Orders is 24471."))
    (item,) = await AgentMemory(store, "alice").query(MemoryCriteria(types=("article",)))
    await store.user_stats.forget("alice", item.related_to[:1])
    assert await AgentMemory(store, "alice").query(MemoryCriteria(types=("article",))) == []


async def talk(store: MemoryStore, session: str, request: str, answer: str) -> None:
    context = MemoryContext("alice", "coder", session, store)
    await context.add_message(UserMessage(content=request, source="user"))
    await context.get_messages()
    await context.add_message(AssistantMessage(content=answer, source="coder"))
    await context.close()


async def test_unused_items_past_the_retention_of_their_type_are_forgotten(
    store: MemoryStore, server: Server, database_url: str
) -> None:
    memory = AgentMemory(store, "alice")
    for kind in ("web_content", "custom"):
        await memory.store(f"a text of {kind}", type=kind)
    old = "created_at = now() - interval '99 days', updated_at = created_at, last_used_at = now() - interval '99 days'"
    alter(server, database_url, f"UPDATE memory_context.agent_memories SET {old}")
    alter(server, database_url, "UPDATE memory_context.agent_memories SET updated_at = created_at")
    report = await store.consolidate("alice", retention={"web_content": timedelta(days=90)})
    assert report is not None
    assert (report.pruned, str(report)) == (1, "1 items past their retention forgotten")
    assert [item.type for item in await memory.query(MemoryCriteria())] == ["custom"]
    with pytest.raises(ValueError, match="user_fact"):
        await store.consolidate("alice", retention={"user_fact": timedelta(days=1)})
