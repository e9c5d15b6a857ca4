"""Archived messages are items: found by search until their session goes, derived, private where their session is."""

import json
import re
from datetime import datetime, timedelta, timezone
from random import Random

import pytest
from autogen_core import FunctionCall
from autogen_core.models import AssistantMessage, FunctionExecutionResult, FunctionExecutionResultMessage, UserMessage

from memory_context import AgentMemory, MemoryContext, MemoryCriteria, MemoryItem, MemoryStore
from memory_context.sessions.transcript import transcript
from memory_context.store.search.hits import SearchHit
from memory_context.store.search.postings import written_date
from tests.conftest import Server, database_of

from .talking import context_of, say

SAID = MemoryCriteria(conversation=True, limit=1000, oldest_first=True)


async def archived(*contexts: MemoryContext) -> None:
    for context in contexts:
        await context.close()
    await contexts[0].memory_store.flush_index()


async def said(store: MemoryStore, user: str = "alice", **scope: str) -> list[MemoryItem]:
    return await AgentMemory(store, user, **scope).query(SAID)  # type: ignore[arg-type]


async def found(store: MemoryStore, query: str, criteria: MemoryCriteria | None = None) -> list[SearchHit]:
    return await AgentMemory(store, "alice").search(query, 10, criteria)


async def texts(store: MemoryStore) -> list[str]:
    contents = await AgentMemory(store, "alice").retrieve_contents([item.key for item in await said(store)])
    return list(contents.values())


async def test_messages_of_person_and_agent_are_items_in_order(store: MemoryStore):
    context = context_of(store, None)
    await say(context, "My database is Orders at db1.", "Deploy on Friday.")
    await archived(context)
    items = await said(store)
    assert [(item.source, item.origin, item.metadata["position"]) for item in items] == [
        ("user", "user_words", 1), ("coder", "agent", 2), ("user", "user_words", 3), ("coder", "agent", 4),
    ]  # fmt: skip
    assert {item.session_id for item in items} == {context.session_id}
    assert [item.created_at for item in items] == [entry.added_at for entry in context.transcript.entries(0)]


async def test_results_calls_code_output_and_own_notices_are_not_said(store: MemoryStore):
    context = context_of(store, None)
    call = FunctionCall("c1", '{"command": "ls"}', "shell")
    result = FunctionExecutionResult(content="README.md", name="shell", call_id="c1")
    await context.add_message(UserMessage(content="What is there?", source="user"))
    await context.add_message(AssistantMessage(content=[call], source="coder", thought="I list the files."))
    await context.add_message(FunctionExecutionResultMessage(content=[result]))
    await context.add_message(UserMessage(content="a notice", source="memory"))
    await context.get_messages()
    await context.add_message(AssistantMessage(content="There is a README.", source="coder"))
    await context.add_message(UserMessage(content="exit code 0", source="coder"))  # as CodeExecutorAgent does
    await archived(context)
    assert [item.ref.description for item in await said(store)] == ["What is there?", "There is a README."]


async def test_equal_messages_have_one_content_and_a_date_each(store: MemoryStore, server: Server, database_url: str):
    context = context_of(store, None)
    for _ in range(20):
        await context.add_message(UserMessage(content="The ferry leaves at nine.", source="user"))
        await context.get_messages()
        await context.add_message(AssistantMessage(content="Done.", source="coder"))
    await archived(context)
    count = "SELECT count(*), count(DISTINCT created_at), count(DISTINCT content_id) FROM memory_context.agent_memories"
    assert server.execute(count, database_of(database_url)) == [(40, 40, 2)]
    (hit, *_) = await found(store, "when does the ferry leave")
    entries = context.transcript.entries(0)
    assert (hit.item.created_at, len(hit.item.other_keys)) == (entries[-2].added_at, 19)


async def test_an_offloaded_message_is_stored_once(store: MemoryStore, server: Server, database_url: str):
    text = " ".join(f"word{number}" for number in range(2000))
    context = context_of(store, None)
    await context.add_message(UserMessage(content=text, source="user"))
    await context.get_messages()
    await context.add_message(AssistantMessage(content="Read.", source="coder"))
    await archived(context)
    items = await said(store)
    assert (await AgentMemory(store, "alice").retrieve(items[0].key)).content == text  # type: ignore[union-attr]
    assert server.execute("SELECT count(*) FROM memory_context.agent_memory_contents", database_of(database_url)) == [
        (2,)
    ]
    assert [hit.item.type for hit in await found(store, "word1234") if hit.is_relevant] == ["conversation"]
    # whoever forgets the item forgets the message
    (item,) = await context.agent_memory.query()
    assert await context.agent_memory.forget(item.key)
    assert not any(hit.is_relevant for hit in await found(store, "word1234"))


async def test_batches_that_repeat_messages_store_none_twice(store: MemoryStore):
    """A batch that begins anew, a branch after a conflict, a job that is done again."""
    first, second = context_of(store), context_of(store)
    await say(first, "One.")
    await first.archive()
    await say(second, "Two.")
    await second.get_messages()  # its history is there
    await say(first, "Three.")
    await first.archive()
    await second.archive()
    await archived(first, second)
    said_texts = await texts(store)
    assert sorted(said_texts) == sorted(["One.", "On One..", "Two.", "On Two..", "Three.", "On Three.."])


async def test_redelivered_messages_are_said_once(store: MemoryStore):
    context = context_of(store, None)
    message = UserMessage(content="Fetch it again.", source="user")
    await context.add_message(message)
    await context.get_messages()
    await context.add_message(message)
    await archived(context)
    assert await texts(store) == ["Fetch it again."]


async def test_listings_counts_and_pruning_leave_messages_alone(store: MemoryStore):
    context = context_of(store, None)
    await say(context, "Look at the Orders database.")
    await archived(context)
    memory = AgentMemory(store, "alice")
    assert await memory.query() == []
    assert len(await memory.query(MemoryCriteria(types=("conversation",)))) == 2
    await store.prune(timedelta(microseconds=1))
    assert len(await said(store)) == 2
    await store.prune(timedelta(microseconds=1), conversations=True)
    assert await found(store, "Orders") == []
    with pytest.raises(ValueError, match="never pruned"):
        await store.prune(timedelta(days=1), types=["conversation"])


async def test_a_deleted_session_is_not_found_and_stays_so(store: MemoryStore, server: Server, database_url: str):
    context, other = context_of(store, None), context_of(store, None)
    await say(context, "Look at the Orders database.")
    await say(other, "Look at the Parts database.")
    await context.archive()
    await archived(other)
    await store.conversations.delete_session("alice", context.session_id)
    await store.flush_index()
    assert [hit.passage for hit in await found(store, "Orders database")] == [
        "Look at the Parts database.", "On Look at the Parts database..",
    ]  # fmt: skip
    left = server.execute("SELECT content FROM memory_context.agent_memory_contents", database_of(database_url))
    assert sorted(row[0] for row in left) == ["Look at the Parts database.", "On Look at the Parts database.."]  # type: ignore[type-var]


async def test_messages_of_a_private_session_are_private(store: MemoryStore):
    context = context_of(store, None)
    isolated = context.for_subagent("helper", "isolated")
    await isolated.add_message(UserMessage(content="The password hint is zebra.", source="coder"))
    await archived(isolated)
    assert await found(store, "zebra") == []
    assert len(await isolated.search("zebra")) == 1
    assert await AgentMemory(store, "bob").search("zebra") == []


async def test_criteria_choose_messages_items_sessions_and_times(store: MemoryStore):
    one, two = context_of(store, None), context_of(store, None)
    await say(one, "The harbour opens at six.")
    await one.archive()
    between = datetime.now(timezone.utc)
    await say(two, "The harbour opens at seven.")
    await archived(one, two)
    await AgentMemory(store, "alice").store("The harbour has nine piers.", description="harbour")

    async def seen(**criteria: object) -> list[str]:
        hits = await found(store, "harbour opens", MemoryCriteria(**criteria))  # type: ignore[arg-type]
        return sorted(hit.passage for hit in hits if not hit.passage.startswith("On "))

    six, seven, piers = "The harbour opens at six.", "The harbour opens at seven.", "The harbour has nine piers."
    assert await seen() == sorted([six, seven, piers])
    assert await seen(conversation=True) == sorted([six, seven])
    assert await seen(conversation=False) == [piers]
    assert await seen(session_id=one.session_id) == [six]
    assert await seen(created_after=between, conversation=True) == [seven]
    assert await seen(created_before=between) == [six]


async def test_a_hit_says_who_said_it_when_and_where_and_opens_with_its_neighbours(store: MemoryStore):
    context = context_of(store, None)
    for text in ("Good morning.", "My database is Orders at db1.", "Where is lunch?"):
        await context.add_message(UserMessage(content=text, source="user"))
        await context.add_message(AssistantMessage(content=f"Noted, {len(text)} letters.", source="coder"))
    await archived(context)
    (hit, *_) = await found(store, "database Orders", MemoryCriteria(conversation=True))
    assert (hit.is_conversation, hit.item.source, hit.session_title) == (True, "user", "Good morning.")
    assert hit.item.place == f"said in session {context.session_id} (Good morning.)"
    around = await AgentMemory(store, "alice").read_conversation(hit.item.key, before=1, limit=3)
    assert [(item.metadata["position"], item.content) for item in around] == [
        (2, "Noted, 13 letters."), (3, "My database is Orders at db1."), (4, "Noted, 29 letters."),
    ]  # fmt: skip
    later = await AgentMemory(store, "alice").read_conversation(session_id=context.session_id, first_message=5)
    assert [item.content for item in later] == ["Where is lunch?", "Noted, 15 letters."]
    assert await AgentMemory(store, "bob").read_conversation(hit.item.key) == []
    assert await AgentMemory(store, "bob").read_conversation(session_id=context.session_id) == []


class _Clock(datetime):
    at = datetime(2023, 5, 8, tzinfo=timezone.utc)

    @classmethod
    def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
        return cls.at


@pytest.mark.parametrize("query", ["What did we say on 21 June 2023?", "the run in June", "notes of 2023-06-21"])
async def test_a_message_is_found_by_the_day_on_which_it_was_said(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, query: str
):
    """The messages say the same but for their last word, which no query holds."""
    monkeypatch.setattr(transcript, "datetime", _Clock)
    days = [(5, 8, "Ann"), (6, 21, "Ben"), (10, 13, "Eve")]
    for month, day, name in days:
        monkeypatch.setattr(_Clock, "at", datetime(2023, month, day, 12, tzinfo=timezone.utc))
        context = context_of(store, None)
        await context.add_message(UserMessage(content=f"I went for a run with {name}", source="user"))
        await archived(context)
    hits = await found(store, query, MemoryCriteria(conversation=True))
    assert (hits[0].item.created_at.month, hits[0].item.created_at.day, hits[0].is_relevant) == (6, 21, True)
    if "21" in query:
        assert [hit.is_relevant for hit in hits if hit.item.created_at.month == 5] == [False]


def test_the_day_of_a_message_is_that_of_utc():
    evening = datetime(2023, 5, 8, 23, 30, tzinfo=timezone(timedelta(hours=-5)))
    assert written_date(evening) == "9 May 2023 2023-05-09"


async def test_tools_return_messages_and_read_around_them_in_another_session(store: MemoryStore):
    context = context_of(store, None)
    await say(context, "Good morning.", "My database is Orders at db1.")
    await archived(context)
    other = context_of(store, None)
    tools = {tool.name: tool for tool in other.tools()}
    answer = await tools["search_memory"].answer({"query": "database Orders"})
    assert answer.data["hits"][0]["session_title"] == "Good morning."
    numbers = re.findall(rf"said in session {context.session_id}(?: \(Good morning\.\))?, message (\d)", answer.text)
    assert sorted(numbers) == ["3", "4"]
    assert "read_history(session_id=…, first_message=…)" in answer.text
    page = await tools["read_history"].answer({"session_id": context.session_id})
    assert page.text.startswith(f"Of session {context.session_id} (Good morning.), ")
    assert "(1) user said:\nGood morning." in page.text
    assert "(4) coder answered:\n" in page.text
    assert page.text.endswith("[messages 1-4 of 4. That is all.]")
    page = await tools["read_history"].answer({"session_id": context.session_id, "first_message": 3})
    assert page.data == {"first_message": 3, "last_message": 4, "session_id": context.session_id}
    assert (await tools["read_history"].answer({"session_id": "nothing"})).failed
    isolated = {tool.name: tool for tool in other.for_subagent("helper", "isolated").tools()}
    assert (await isolated["read_history"].answer({"session_id": context.session_id})).failed
    assert (await isolated["search_memory"].answer({"query": "database Orders"})).data.get("hits", []) == []


async def test_search_shows_whole_messages_once_and_the_title_of_their_session_once(store: MemoryStore):
    """The text of a message is not its own description, too."""
    context = context_of(store, None)
    await say(context, *(f"The lighthouse of harbour {number} blinks {number} times." for number in range(8)))
    await archived(context)
    reader = context_of(store, None)
    (tool,) = [one for one in reader.tools() if one.name == "search_memory"]
    answer = (await tool.answer({"query": "lighthouse of the harbour", "limit": 16})).text
    for number in range(8):
        said = f"The lighthouse of harbour {number} blinks {number} times."
        assert len([line for line in answer.splitlines() if line == said]) == 1
        assert f" - {said}" not in answer
    assert answer.count(f"said in session {context.session_id}") >= 8
    assert answer.count(f"said in session {context.session_id} (") == 1
    assert "lines" not in answer.split("To read on")[0]
    assert reader.token_counter.count(answer) <= 2000


async def test_recall_reaches_what_was_said_in_another_session(store: MemoryStore):
    context = context_of(store, None)
    await say(context, "Good morning.", "The database of the orders runs at db1.", "Thanks, that is all.")
    await archived(context)
    other = context_of(store, None)
    await other.add_message(UserMessage(content="Connect to the database of the orders like last time.", source="user"))
    view = "\n".join(str(message.content) for message in await other.get_messages())
    assert "The database of the orders runs at db1." in view
    assert re.search(rf"\(recalled; from \w+, [\d: -]+ UTC, said in session {context.session_id} \(Good morning", view)


async def test_a_superseded_statement_is_left_out(store: MemoryStore):
    memory = AgentMemory(store, "alice")
    older = await memory.remember("My database is Orders.", type="user_fact")
    newer = await memory.remember("My database is Parts.", type="user_fact")
    await store.flush_index()
    assert [hit.item.key for hit in await found(store, "Which database is mine?")] == [newer.key]
    item = await memory.retrieve(older.key)
    assert item is not None
    assert item.caveat == f"no longer holds: superseded by {newer.key}"


async def test_an_import_brings_messages_with_their_privacy_and_tombstones(store: MemoryStore):
    context = context_of(store, None)
    private = context.for_subagent("helper", "isolated")
    await say(context, "My database is Orders.")
    await private.add_message(UserMessage(content="The password hint is zebra.", source="coder"))
    await archived(context, private)
    (answer,) = [item.key for item in await said(store) if item.source == "coder"]
    assert await AgentMemory(store, "alice", "coder", context.session_id).forget(answer)
    lines = b"".join([piece async for piece in store.admin.export_lines("alice")]).splitlines(keepends=True)
    await store.admin.import_lines(lines, "bob")
    await store.flush_index()
    (item,) = await said(store, "bob")
    assert (item.source, item.origin, item.caveat) == ("user", "import", "imported")
    assert item.created_at == context.transcript.entries(0)[0].added_at
    of_helper = AgentMemory(store, "bob", "helper", private.session_id)
    assert [hit.passage for hit in await of_helper.search("zebra")][:1] == ["The password hint is zebra."]


async def test_a_file_without_messages_has_them_made_again(store: MemoryStore):
    context = context_of(store, None)
    await say(context, "My database is Orders.")
    await archived(context)
    whole = b"".join([piece async for piece in store.admin.export_lines("alice")]).splitlines(keepends=True)
    lines = [line for line in whole if b'"record":"item"' not in line]
    end = json.loads(lines[-1])
    end["records"].pop("item")
    lines[-1] = json.dumps(end).encode() + b"\n"
    await store.admin.import_lines(lines, "bob")
    await store.flush_index()
    assert [(item.ref.description, item.origin) for item in await said(store, "bob")] == [
        ("My database is Orders.", "import"), ("On My database is Orders..", "import"),
    ]  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.thorough
async def test_every_message_is_found_until_its_session_is_deleted(store: MemoryStore, seed: int):
    """Over sessions of several agents that are continued, archived in between, and deleted in any order."""
    random = Random(seed)
    contexts = [context_of(store, f"s{number}", agent_id=f"agent{number % 2}") for number in range(4)]
    messages: dict[str, list[tuple[str, str]]] = {context.session_id: [] for context in contexts}
    for number in range(24):
        context = random.choice(contexts)
        mark, sender = f"marker{seed}x{number:02}", random.choice(["user", context.agent_id])
        if sender == "user":
            await context.add_message(UserMessage(content=f"I keep {mark} in the shed.", source=sender))
        else:
            await context.get_messages()
            await context.add_message(AssistantMessage(content=f"So {mark} it is.", source=sender))
        messages[context.session_id].append((mark, sender))
        if random.random() < 0.2:
            await context.archive()
    await archived(*contexts)
    gone: set[str] = set()
    for session in random.sample(sorted(messages), 3):
        for of_session, marks in messages.items():
            for mark, sender in marks:
                hits = [hit for hit in await found(store, mark) if mark in hit.passage]
                assert [(hit.item.session_id, hit.item.source) for hit in hits] == (
                    [] if of_session in gone else [(of_session, sender)]
                )
        await store.conversations.delete_session("alice", session)
        gone.add(session)
