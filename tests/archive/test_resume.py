"""A session goes on where it ended: in another context, another process, with or without a saved state."""

import json
import logging
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import pytest
from autogen_agentchat.agents import AssistantAgent, CodeExecutorAgent
from autogen_core.models import FunctionExecutionResultMessage, UserMessage
from autogen_ext.code_executors.local import LocalCommandLineCodeExecutor

from memory_context import MemoryContext, MemoryStore
from memory_context.foundation.errors import ItemNotFoundError, StoreUnavailableError
from memory_context.foundation.identifiers import SessionKey
from memory_context.sessions.archive.resume import ResumeReport
from memory_context.sessions.archive.session_archive import MISSING_HISTORY
from memory_context.store.conversations import ConversationArchive
from tests.support.rows import alter, transcript_rows

from ..agents.scripted import calls, model, report, seen, text_of
from ..conftest import Server
from ..context.steps import add_step
from .talking import SESSION, context_of, said_in, say, turns


async def lived(store: MemoryStore) -> MemoryContext:
    """Return a context with large results, look-ups and an expansion in its session."""
    context = context_of(store)
    await context.add_message(UserMessage(content="Survey the owls.", source="user"))
    for topic in ("owls", "bats", "moths"):
        await add_step(context, report(topic))
    await context.get_messages()
    await say(context, "And which was the 37th of the bats?", "Thanks.")
    return context


# --- the same session again


async def test_a_resumed_session_shows_the_same_view(store: MemoryStore):
    """Byte for byte, placeholders and facts included; its items are found by the keys in it."""
    context = await lived(store)
    before = await context.get_messages()
    await context.close()
    resumed = context_of(store)
    assert await resumed.get_messages() == before
    assert resumed.resume_report.outcome == "resumed"
    assert resumed.resume_report.is_complete
    assert resumed.resume_report.messages == len(before)
    key = next(iter(resumed.transcript[2].measured)).stored.refs[0].key
    assert await resumed.retrieve(key) == report("owls")


async def test_a_resumed_session_goes_on_as_one_that_never_ended(store: MemoryStore):
    """What is said next renders the same, and the archive goes on behind what it has."""
    context = await lived(store)
    await context.archive()
    resumed = context_of(store)
    await resumed.resume()
    for one in (context, resumed):
        await add_step(one, report("newts"))
        await say(one, "Well?")
    assert await resumed.get_messages() == await context.get_messages()
    await resumed.close()
    assert await said_in(context_of(store)) == await said_in(resumed)


async def test_resume_opens_references_of_unanswered_requests(store: MemoryStore):
    """The process went between the request and the first view of it."""
    context = await lived(store)
    key = context.transcript[2].measured[0].stored.refs[0].key
    await context.archive()
    await context.add_message(UserMessage(content=f"What is in {key}?", source="user"))
    await context.archive()
    resumed = context_of(store)
    view = await said_in(resumed)
    assert view == await said_in(context)
    assert "Opened from memory." in view[-1]


async def test_a_session_nobody_knows_is_new(store: MemoryStore):
    context = context_of(store)
    assert context.resume_report.outcome == "pending"
    assert (await context.resume()).outcome == "new"
    assert str(context.resume_report) == "a new session"
    killed = ResumeReport("new", later_keys=("k_1", "k_2"))
    assert str(killed) == "2 items of a session of which no message was archived: k_1, k_2"


async def test_a_context_without_a_session_id_reads_nothing(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """Nothing can be there: not even the database is asked."""
    monkeypatch.setattr(ConversationArchive, "read", None)
    context = context_of(store, None)
    await say(context, "Hello")
    assert context.resume_report.outcome == "new"


async def test_first_use_takes_two_round_trips(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """One for the archive, one for the texts that the view still shows whole."""
    context = context_of(store)
    await context.add_message(UserMessage(content="Survey.", source="user"))
    await add_step(context, report("owls"))
    await context.close()
    trips = 0
    is_ours = ContextVar("is_ours", default=False)  # not the indexer's, who is at work on what was stored
    run = store.conversations._database._transaction  # pyright: ignore[reportPrivateUsage]

    async def counted(*args: Any) -> Any:
        nonlocal trips
        trips += is_ours.get()
        return await run(*args)

    monkeypatch.setattr(store.conversations._database, "_transaction", counted)  # pyright: ignore[reportPrivateUsage]
    is_ours.set(True)
    assert report("owls") in (await said_in(context_of(store)))[-1]
    assert trips == 2


async def test_a_cleared_session_resumes_after_the_clear(store: MemoryStore, server: Server, database_url: str):
    """The view stays empty; what was said before stays in the archive."""
    context = context_of(store)
    await say(context, "Forget this.")
    await context.archive()
    await context.clear()
    await context.close()
    assert await said_in(context_of(store)) == []
    context = context_of(store)
    await say(context, "Begin again.")
    await context.close()
    resumed = context_of(store)
    assert await said_in(resumed) == turns("Begin again.")
    assert resumed.transcript.first == 2, "what was cleared is not held"
    assert "Forget this." in str(transcript_rows(server, database_url, "message_batch"))


async def test_initial_messages_come_once(store: MemoryStore):
    """They belong to the session that began with them; a resumed one has them already."""
    first: list[Any] = [UserMessage(content="We are in Rome.", source="user")]
    for text in ("One.", "Two."):
        context = MemoryContext("alice", "coder", SESSION, store, initial_messages=list(first))
        await say(context, text)
        await context.close()
    assert await said_in(context_of(store)) == ["We are in Rome.", *turns("One.", "Two.")]


async def test_a_context_that_was_never_used_archives_nothing(store: MemoryStore, server: Server, database_url: str):
    async with MemoryContext(
        "alice", memory_store=store, initial_messages=[UserMessage(content="Hello", source="user")]
    ):
        pass
    assert transcript_rows(server, database_url, "sequence") == []


async def test_agents_of_one_session_keep_apart(store: MemoryStore):
    for agent in ("coder", "critic"):
        context = context_of(store, agent_id=agent)
        await say(context, f"I am the {agent}.")
        await context.close()
    assert await said_in(context_of(store, agent_id="critic")) == turns("I am the critic.")


async def test_sub_agents_begin_anew_and_are_archived(store: MemoryStore):
    """What a sub-agent did before is in the archive, and not in front of the next one."""
    parent = context_of(store)
    for text in ("First task.", "Second task."):
        child = parent.for_subagent("helper")
        await say(child, text)
        await child.close()
    resumed = context_of(store, f"{SESSION}/helper", agent_id="helper")
    assert await said_in(resumed) == turns("Second task.")
    archived = await store.conversations.read(SessionKey("alice", "helper", f"{SESSION}/helper"))
    assert (archived.head, archived.batches[0].begins_anew) == (1, True)


async def test_without_an_archive_nothing_is_kept(store: MemoryStore, server: Server, database_url: str):
    context = context_of(store, enabled=False)
    await say(context, "Hello")
    await context.close()
    assert transcript_rows(server, database_url, "sequence") == []
    assert (context.resume_report.outcome, await said_in(context_of(store, enabled=False))) == ("off", [])


# --- real agents


async def test_an_assistant_resumes_with_its_tools(store: MemoryStore):
    """A process that is started anew needs the session's id only: no state was saved."""

    async def survey(topic: str) -> str:
        """Survey a topic."""
        return report(topic)

    async with MemoryContext("alice", "coder", SESSION, store) as context:
        agent = AssistantAgent(
            "coder",
            model(calls(("survey", {"topic": "owls"})), "Surveyed."),
            tools=[survey, *context.tools()],
            model_context=context,
            max_tool_iterations=3,
        )
        await agent.run(task="Survey the owls.")
    async with MemoryContext("alice", "coder", SESSION, store) as context:
        client = model("Owls.")
        agent = AssistantAgent("coder", client, tools=context.tools(), model_context=context)
        await agent.run(task="What did you survey?")
        assert "Survey the owls." in text_of(seen(client))
        assert "[MemoryRef: survey_" in text_of(seen(client))


@pytest.mark.filterwarnings("ignore:No approval function set", "ignore:Using LocalCommandLineCodeExecutor")
async def test_an_agent_that_saves_no_context_resumes_too(store: MemoryStore, tmp_path: Any):
    """CodeExecutorAgent's own state leaves its context out."""
    async with LocalCommandLineCodeExecutor(work_dir=tmp_path, timeout=30) as executor:
        async with MemoryContext("alice", "runner", SESSION, store) as context:
            agent = CodeExecutorAgent(
                "runner",
                executor,
                model_client=model("```sh\necho forty-two\n```", "It says 42."),
                model_context=context,
            )
            await agent.run(task="Run it.")
            state = await agent.save_state()
        async with MemoryContext("alice", "runner", SESSION, store) as context:
            client = model("As I said.")
            agent = CodeExecutorAgent("runner", executor, model_client=client, model_context=context)
            await agent.load_state(state)
            await agent.run(task="What did it say?")
            assert "forty-two" in text_of(seen(client))


# --- beside saved states


async def test_the_newer_of_state_and_archive_counts(store: MemoryStore):
    """A process that was killed after its last save goes on from what was archived since."""
    context = context_of(store)
    await say(context, "One.")
    await context.archive()
    state = json.loads(json.dumps(await context.save_state()))
    await say(context, "Two.")
    newer = json.loads(json.dumps(await context.save_state()))
    await context.archive()

    later = context_of(store)
    await later.load_state(state)
    assert (await said_in(later), later.resume_report.outcome) == (turns("One.", "Two."), "resumed")

    await say(context, "Three.")
    newest = json.loads(json.dumps(await context.save_state()))
    later = context_of(store)
    await later.load_state(newest)
    assert (await said_in(later), later.resume_report.outcome) == (turns("One.", "Two.", "Three."), "state")
    await later.load_state(newer)
    assert await said_in(later) == turns("One.", "Two."), "a context that is in use goes back"


async def test_messages_that_only_a_state_has_are_archived_once(store: MemoryStore):
    context = context_of(store)
    await say(context, "One.")
    await context.archive()
    await say(context, "Two.")
    state = await context.save_state()  # and the process is gone
    later = context_of(store)
    await later.load_state(state)
    await say(later, "Three.")
    await later.close()
    assert await said_in(context_of(store)) == turns("One.", "Two.", "Three.")
    session = await store.conversations.session("alice", SESSION)
    assert session is not None
    assert session.message_count == 6


async def test_a_session_that_went_back_resumes_there(store: MemoryStore, server: Server, database_url: str):
    """What was said on the way that was left stays in the archive."""
    context = context_of(store)
    await say(context, "One.")
    state = await context.save_state()
    await say(context, "Wrong way.")
    await context.archive()
    await context.load_state(state)
    await say(context, "Right way.")
    await context.close()
    resumed = context_of(store)
    assert await said_in(resumed) == turns("One.", "Right way.")
    assert resumed.resume_report.is_complete
    assert "Wrong way." in str(transcript_rows(server, database_url, "message_batch"))


async def test_the_state_of_another_context_begins_the_session_anew(store: MemoryStore):
    """AutoGen's own contexts know of no archive."""
    context = context_of(store)
    await say(context, "Before.")
    await context.close()
    later = context_of(store)
    await later.load_state({"messages": [UserMessage(content="From elsewhere.", source="user").model_dump()]})
    await later.close()
    assert await said_in(context_of(store)) == ["From elsewhere."]


async def test_a_state_of_another_database_does_not_go_on_behind_the_archive_of_this_one(
    store: MemoryStore, server: Server, database_url: str
):
    """As after a backup was restored: both have a first batch, of different messages."""
    elsewhere = context_of(store)
    for text in ("One.", "Two."):
        await say(elsewhere, text)
    await elsewhere.archive()
    state = await elsewhere.save_state()
    await elsewhere.close()
    alter(server, database_url, "DELETE FROM memory_context.recent_conversation_history")
    here = context_of(store)
    await say(here, "What this database has.")
    await here.close()
    loaded = context_of(store)
    await loaded.load_state(state)
    await say(loaded, "Three.")
    await loaded.close()
    again = context_of(store)
    assert await said_in(again) == [*turns("One."), *turns("Two."), *turns("Three.")]
    assert (await again.resume()).branches


# --- what is missing


async def test_a_missing_batch_is_told_and_the_rest_is_there(store: MemoryStore, server: Server, database_url: str):
    context = context_of(store)
    for text in ("One.", "Two.", "Three."):
        await say(context, text)
        await add_step(context, report(text))
        await context.get_messages()
        await context.archive()
    alter(server, database_url, "DELETE FROM memory_context.recent_conversation_history WHERE sequence = 1")
    resumed = context_of(store)
    found = await resumed.resume()
    assert (found.missing_batches, found.missing_messages, found.is_complete) == ((1,), 4, False)
    assert "batches 1 are missing, with 4 messages" in str(found)
    said = await said_in(resumed)
    assert said[:2] == turns("One.")
    assert any("4 messages of this session are missing here" in text for text in said)
    assert "Three." in said
    keys = [
        ref.key
        for entry in resumed.transcript.entries()
        for part in entry.measured
        if part.stored
        for ref in part.stored.refs
    ]
    assert [await resumed.retrieve(key) for key in keys] == [report("One."), report("Three.")]
    await say(resumed, "Four.")
    await resumed.close()
    again = context_of(store)
    assert (await again.resume()).is_complete, "it began anew with what there was"
    assert (await said_in(again))[-2:] == turns("Four.")


async def test_a_batch_that_was_changed_is_told(store: MemoryStore, server: Server, database_url: str):
    context = context_of(store)
    await say(context, "One.")
    await context.close()
    alter(
        server,
        database_url,
        "UPDATE memory_context.recent_conversation_history SET message_batch = "
        "replace(message_batch::text, 'One.', 'Won.')::jsonb",
    )
    resumed = context_of(store)
    assert (await resumed.resume()).damaged_batches == (0,)
    assert "are not what was written" in str(resumed.resume_report)
    assert await said_in(resumed) == turns("Won."), "it is shown, and told"


async def test_a_batch_that_cannot_be_read_is_left_out(store: MemoryStore, server: Server, database_url: str):
    context = context_of(store)
    for text in ("One.", "Two."):
        await say(context, text)
        await context.archive()
    alter(
        server,
        database_url,
        "UPDATE memory_context.recent_conversation_history SET message_batch = jsonb_build_object('entries', 7) "
        "WHERE sequence = 0",
    )
    resumed = context_of(store)
    assert (await resumed.resume()).damaged_batches == (0,)
    assert (await said_in(resumed))[-2:] == turns("Two.")


async def test_archive_of_a_newer_version_is_left_alone(
    store: MemoryStore, server: Server, database_url: str, caplog: pytest.LogCaptureFixture
):
    """This one goes on beside it, and does not write over it."""
    context = context_of(store)
    await say(context, "One.")
    monkey = context.transcript
    assert monkey.end == 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("memory_context.sessions.transcript.codec.STATE_VERSION", 99)
        await context.close()
    older = context_of(store)
    assert (await older.resume()).outcome == "unreadable"
    await say(older, "Beside.")
    await older.close()
    found = await store.conversations.read(SessionKey("alice", "coder", SESSION))
    assert (found.head, len(found.branches)) == (0, 1)


async def test_two_processes_on_one_session_lose_nothing(store: MemoryStore, caplog: pytest.LogCaptureFixture):
    """The line with the newest message is resumed, also if it was archived late; the other is named and stays."""
    one, other = context_of(store), context_of(store)
    await say(one, "Mine.")
    await say(other, "Yours.")
    await one.close()
    with caplog.at_level(logging.WARNING, "memory_context"):
        await other.close()
    assert "was continued elsewhere at the same time" in caplog.text
    resumed = context_of(store)
    assert (await resumed.resume()).branches == ("",)
    assert "the first line" in str(resumed.resume_report)
    assert await said_in(resumed) == turns("Yours.")
    beside = await store.conversations.read(SessionKey("alice", "coder", SESSION), branch="")
    assert "Mine." in json.dumps(beside.batches[0].body)
    await say(resumed, "Go on.")
    await resumed.close()
    again = context_of(store)
    assert await said_in(again) == turns("Yours.", "Go on.")
    assert again.resume_report.branches == ("",), "the branch went on"


# --- a store that is away


async def test_messages_without_the_history_join_it_later(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """The agent goes on; nothing is archived over what is there."""
    before = context_of(store)
    await say(before, "One.")
    await before.close()

    async def away(*_: object, **__: object) -> object:
        raise StoreUnavailableError("away")

    context = context_of(store)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "memory_context"):
        patch.setattr(store.conversations, "read", away)
        await say(context, "Two.")
        assert await said_in(context) == ["Two.", MISSING_HISTORY, "On Two.."]
        with pytest.raises(StoreUnavailableError):
            await context.archive()
    assert caplog.text.count("going on without the history") == 1
    await context.resume()
    await say(context, "Three.")
    assert await said_in(context) == turns("One.", "Two.", "Three.")
    await context.close()
    assert await said_in(context_of(store)) == turns("One.", "Two.", "Three.")


async def test_results_that_came_without_the_history_are_stored_when_it_is_there(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    context = context_of(store)
    read = store.conversations.read

    async def away(*_: object, **__: object) -> object:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(store.conversations, "read", away)
    await context.add_message(UserMessage(content="Survey.", source="user"))
    await add_step(context, report("owls"))
    assert context.stats.offloads == 0
    monkeypatch.setattr(store.conversations, "read", read)
    await context.resume()
    await say(context, "Well?")
    results = [one for one in await context.get_messages() if isinstance(one, FunctionExecutionResultMessage)]
    assert len(results) == 1
    assert context.stats.offloads == 1


async def test_context_left_behind_by_its_state_writes_nothing(store: MemoryStore, caplog: pytest.LogCaptureFixture):
    """A state is taken over by another context, and the one it is from is closed afterwards: nothing is doubled."""
    one, other = context_of(store), context_of(store)
    await say(one, "One.")
    await other.load_state(await one.save_state())
    await say(other, "Two.")
    await other.close()
    with caplog.at_level(logging.WARNING, "memory_context"):
        await one.close()
    assert caplog.text == ""
    resumed = context_of(store)
    assert (await resumed.resume()).branches == ()
    assert await said_in(resumed) == turns("One.", "Two.")


async def test_context_for_each_request_is_dropped_after_its_state_was_saved(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
):
    """AutoGen's pattern for web applications: load the state, one turn, save the state; nobody closes a context."""
    state: dict[str, Any] | None = None
    asked = [f"Question {number}." for number in range(5)]
    for text in asked:
        context = context_of(store, None)
        if state is not None:
            await context.load_state(state)
        await say(context, text)
        state = json.loads(json.dumps(await context.save_state()))
        assert not context._archive.archiver.is_dirty, "nothing is left for a context that is dropped"
    await store.unwritten.write_out()
    assert state is not None
    assert caplog.text == ""
    resumed = context_of(store, state["session_id"])
    assert (await resumed.resume()).is_complete
    assert await said_in(resumed) == turns(*asked)


async def test_prefix_that_is_archived_late_is_known(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """The store was away as the states were saved: of the contexts that are written later, the last has all."""
    append = store.conversations.append
    contexts: list[MemoryContext] = []

    async def away(*_: object, **__: object) -> object:
        raise StoreUnavailableError("away")

    for order in ([0, 1, 2], [2, 1, 0], [1, 2, 0]):
        state: Mapping[str, Any] | None = None
        with monkeypatch.context() as patch:
            patch.setattr(store.conversations, "append", away)
            contexts = [context_of(store, f"order {order}") for _ in order]
            for number, context in enumerate(contexts):
                if state is not None:
                    await context.load_state(state)
                await say(context, f"{number}.")
                state = await context.save_state()
        assert store.conversations.append == append
        caplog.clear()
        for number in order:
            await contexts[number].archive()
        assert caplog.text == ""
        resumed = context_of(store, f"order {order}")
        assert (await resumed.resume()).is_complete
        assert (await said_in(resumed))[-6:] == turns("0.", "1.", "2.")  # earlier orders are earlier conversations


async def test_line_begun_from_an_earlier_state_is_not_replaced_by_what_it_left(store: MemoryStore):
    """The context of a request that was given up writes later than the one that went back."""
    first = context_of(store)
    await say(first, "One.")
    state = await first.save_state()
    given_up = context_of(store)
    await given_up.load_state(state)
    await say(given_up, "Wrong way.")
    other = context_of(store)
    await other.load_state(state)
    await say(other, "Right way.")
    right = await other.save_state()
    await given_up.close()
    resumed = context_of(store)
    assert len((await resumed.resume()).branches) == 1, "the line that was given up is named"
    assert await said_in(resumed) == turns("One.", "Right way.")
    loaded = context_of(store)
    await loaded.load_state(right)
    await say(loaded, "On.")
    await loaded.save_state()
    again = context_of(store)
    assert await said_in(again) == turns("One.", "Right way.", "On.")


async def test_snapshot_stays_in_force_when_the_history_joins(store: MemoryStore):
    """The memory of a session is one object, so what applications set on it outlives the first use."""
    before = context_of(store)
    await say(before, "One.")
    kept = await before.store("The boat is called Wanderer.", "name of the boat")
    snapshot = await before.agent_memory.snapshot()
    later = await before.store("The cat is called Tom.", "name of the cat")
    await before.close()
    context = context_of(store)
    agent_memory = context.agent_memory
    await agent_memory.restore(snapshot)
    assert await said_in(context) == turns("One.")
    assert context.agent_memory is agent_memory
    assert await context.retrieve(kept) == "The boat is called Wanderer."
    with pytest.raises(ItemNotFoundError):
        await context.retrieve(later)
    await context.close()


async def test_isolated_agent_loads_another_session_with_its_contents(store: MemoryStore):
    """Texts are restored by the memory of that session: the one before could not read its private items."""
    before = MemoryContext("alice", "coder", "one", store, sharing="isolated")
    text = "\n".join(f"line {number} of a long text of the user" for number in range(150))
    await before.add_message(UserMessage(content=text, source="user"))
    view = await before.get_messages()
    assert before.stats.offloads == 1
    state = json.loads(json.dumps(await before.save_state()))
    await before.close()
    context = MemoryContext("alice", "coder", "two", store, sharing="isolated")
    await context.load_state(state)
    assert context.session_id == "one"
    assert await context.get_messages() == view
    await context.close()
