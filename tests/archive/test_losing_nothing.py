"""What was said is in the session once, whatever happens beside it: outages, cancellations, loads, clears."""

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from autogen_core import CancellationToken
from autogen_core.models import AssistantMessage, UserMessage

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.compaction import offloader
from memory_context.foundation.errors import StoreUnavailableError
from memory_context.foundation.identifiers import SessionKey
from memory_context.store.conversations import ChatMessage
from memory_context.store.limits import StoreLimits
from tests.support.contexts import archived
from tests.support.rows import alter, transcript_rows

from ..agents.scripted import report
from ..conftest import Server
from ..context.lights import Light
from ..context.steps import ALWAYS_PAYS, a_turn_of_the_loop, add_step
from .talking import SESSION, context_of, said_in, say, turns


async def away(*_: object, **__: object) -> Any:
    """Answer as a store that cannot be reached."""
    raise StoreUnavailableError("away")


async def hang(*_: object, **__: object) -> Any:
    """Answer never."""
    await asyncio.Event().wait()


class Held:
    """A call that is held up until it is let go on."""

    def __init__(self, call: Callable[..., Any]) -> None:
        self._call = call
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, *args: Any, **named: Any) -> Any:
        self.reached.set()
        await self.go_on.wait()
        return await self._call(*args, **named)


def cut_off(append: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call whose answer is lost."""

    async def append_and_fail(*args: Any, **named: Any) -> Any:
        await append(*args, **named)
        raise StoreUnavailableError("the connection was lost at COMMIT")

    return append_and_fail


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """What is patched for a part of a test only."""
    with monkeypatch.context() as patch:
        yield patch


async def saved(context: MemoryContext) -> Any:
    return json.loads(json.dumps(await context.save_state()))


async def known(store: MemoryStore) -> None:
    """Have a session that the archive knows."""
    context = context_of(store)
    await say(context, "One.")
    await context.close()


# --- without the history


async def test_close_archives_messages_that_joined_the_history_late(store: MemoryStore, patch: pytest.MonkeyPatch):
    """Nothing has to be said after it."""
    await known(store)
    context = context_of(store)
    patch.setattr(store.conversations, "read", away)
    await say(context, "Two.")
    patch.undo()
    await context.resume()
    await context.close()
    assert await said_in(context_of(store)) == turns("One.", "Two.")


async def test_clear_without_the_history_also_clears_the_history(store: MemoryStore, patch: pytest.MonkeyPatch):
    await known(store)
    context = context_of(store)
    patch.setattr(store.conversations, "read", away)
    await say(context, "Two.")
    await context.clear()
    await say(context, "Three.")
    patch.undo()
    await context.resume()
    assert await said_in(context) == turns("Three.")
    await context.close()
    assert await said_in(context_of(store)) == turns("Three.")


async def test_clear_before_the_first_message_clears_a_history_that_joins_later(
    store: MemoryStore, patch: pytest.MonkeyPatch
):
    """The archive keeps the decision, although nothing else was said."""
    await known(store)
    context = context_of(store)
    patch.setattr(store.conversations, "read", away)
    await context.clear()
    patch.undo()
    await context.resume()
    assert await said_in(context) == []
    await context.close()
    assert await said_in(context_of(store)) == []


async def test_a_state_that_was_saved_without_the_history_does_not_replace_it(
    store: MemoryStore, patch: pytest.MonkeyPatch
):
    """It is read when the state is loaded, and what the state has comes behind it, once."""
    await known(store)
    context = context_of(store)
    patch.setattr(store.conversations, "read", away)
    await say(context, "Two.")
    state = await saved(context)
    patch.undo()
    for _ in range(2):
        later = context_of(store)
        await later.load_state(state)
        assert await said_in(later) == turns("One.", "Two.")
        await later.close()
        assert await said_in(context_of(store)) == turns("One.", "Two.")


async def test_chat_messages_that_came_before_the_history_stay_delivered(store: MemoryStore, patch: pytest.MonkeyPatch):
    """Or they would be put into the context once more."""
    await known(store)
    for session_id in (SESSION, "a new one"):
        context = context_of(store, session_id)
        patch.setattr(store.conversations, "read", away)
        message = ChatMessage("m1", "Hello", "user", datetime.now(timezone.utc))
        context.archiver.add_chat([message], context.transcript.end)
        await context.add_message(UserMessage(content="Hello", source="user"))
        patch.undo()
        await context.resume()
        assert context.archiver.cursor.delivered["m1"] == context.transcript.end - 1
        await context.close()
        resumed = context_of(store, session_id)
        await resumed.resume()
        assert "m1" in resumed.archiver.delivered


async def test_a_view_that_is_being_made_when_the_history_comes_has_it(store: MemoryStore, patch: pytest.MonkeyPatch):
    await known(store)
    context = context_of(store)
    patch.setattr(store.conversations, "read", away)
    await say(context, "Two.")
    patch.undo()
    counting = Held(offloader.count_off_loop)
    patch.setattr(offloader, "count_off_loop", counting)
    adding = asyncio.create_task(context.add_message(AssistantMessage(content="Also.", source="coder")))
    looking = asyncio.create_task(context.get_messages())
    await counting.reached.wait()
    resuming = asyncio.create_task(context.resume())
    while context.resume_report.outcome == "pending":
        await a_turn_of_the_loop()
    counting.go_on.set()
    await asyncio.gather(adding, looking, resuming)
    assert len(looking.result()) == 5
    tokens = (await context.explain()).tokens
    assert await context.get_messages() == looking.result()
    assert tokens == (await context.explain()).tokens, "what was not measured counted nothing"


@pytest.mark.usefixtures("store_asked_again_at_once")
async def test_a_state_that_is_being_saved_when_the_history_comes_is_whole(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, patch: pytest.MonkeyPatch
):
    await known(store)
    monkeypatch.setattr("memory_context.sessions.archive.session_archive.RESUME_SECONDS", 0.05)
    context = MemoryContext("alice", "coder", SESSION, store)
    patch.setattr(store.conversations, "read", away)
    await say(context, "Two.")
    patch.undo()
    reading = Held(store.conversations.read)
    patch.setattr(store.conversations, "read", reading)
    archiving = asyncio.create_task(context.archive())
    await reading.reached.wait()
    saving = asyncio.create_task(saved(context))
    await asyncio.wait([archiving])  # it waited for the history, in vain
    reading.go_on.set()
    later = context_of(store)
    await later.load_state(await saving)
    assert await said_in(later) == turns("One.", "Two.")


async def test_a_look_up_made_without_the_history_keeps_its_reference(store: MemoryStore, patch: pytest.MonkeyPatch):
    """It was compacted before the history came, so that its text is in the store only."""
    await known(store)
    context = MemoryContext("alice", "coder", SESSION, store, policy=ContextPolicy(cache=ALWAYS_PAYS))
    key = await context.store(report("owls"), "owls")
    patch.setattr(store.conversations, "read", away)
    await say(context, "Two.")
    arguments = json.dumps({"memory_key": key})
    found = await context.tools()[1].run_json(json.loads(arguments), CancellationToken())
    await add_step(context, found, name="retrieve_memory", arguments=arguments)
    await say(context, "Three.")
    (placeholder,) = [text for text in await said_in(context) if f"[MemoryRef: {key}" in text]
    patch.undo()
    await context.resume()
    view = await said_in(context)
    assert placeholder in view
    assert "" not in view


# --- clears


@pytest.mark.parametrize("is_archived", [True, False])
async def test_a_clear_is_in_a_state_and_then_in_the_archive(
    store: MemoryStore, server: Server, database_url: str, is_archived: bool
):
    """And so is what was said before it, if that was not archived yet."""
    context = context_of(store)
    await say(context, "One.")
    if is_archived:
        await context.archive()
    await say(context, "Cleared.")
    await context.clear()
    await say(context, "Two.")
    later = context_of(store)
    await later.load_state(await saved(context))
    assert await said_in(later) == turns("Two.")
    await say(later, "Three.")
    await later.close()
    resumed = context_of(store)
    assert await said_in(resumed) == turns("Two.", "Three.")
    assert resumed.resume_report.is_complete
    assert "Cleared." in str(transcript_rows(server, database_url, "message_batch"))


async def test_a_clear_is_newer_than_what_it_cleared(store: MemoryStore, patch: pytest.MonkeyPatch):
    """Also if the state does not know that this was archived."""
    context = context_of(store)
    await say(context, "One.")
    patch.setattr(store.conversations, "append", cut_off(store.conversations.append))
    with pytest.raises(StoreUnavailableError):
        await context.archive()
    patch.undo()
    await context.clear()
    later = context_of(store)
    await later.load_state(await saved(context))
    assert await said_in(later) == []


async def test_messages_cleared_before_a_session_begins_anew_are_archived(
    store: MemoryStore, server: Server, database_url: str
):
    await known(store)
    context = MemoryContext("alice", "coder", SESSION, store, resume=False)
    await say(context, "Cleared.")
    await context.clear()
    await say(context, "Two.")
    await context.close()
    assert "Cleared." in str(transcript_rows(server, database_url, "message_batch"))
    assert await said_in(context_of(store)) == turns("Two.")


# --- batches


async def test_no_batch_has_a_message_that_is_not_measured(store: MemoryStore, patch: pytest.MonkeyPatch):
    """What is told of its parts in later batches could not be read."""
    context = context_of(store)
    await say(context, "One.")
    append = store.conversations.append
    patch.setattr(store.conversations, "append", cut_off(append))
    with pytest.raises(StoreUnavailableError):
        await context.archive()
    appending, counting = Held(append), Held(offloader.count_off_loop)
    patch.setattr(store.conversations, "append", appending)
    patch.setattr(offloader, "count_off_loop", counting)
    archiving = asyncio.create_task(context.archive())
    await appending.reached.wait()
    adding = asyncio.create_task(context.add_message(UserMessage(content=report("owls"), source="user")))
    await counting.reached.wait()
    appending.go_on.set()
    while store.conversations.write_transactions < 2:
        await a_turn_of_the_loop()
    await asyncio.wait([archiving], timeout=0.1)
    counting.go_on.set()
    await asyncio.gather(adding, archiving)
    await context.close()
    resumed = context_of(store)
    assert (await resumed.resume()).outcome == "resumed"
    assert await said_in(resumed) == [*turns("One."), report("owls")]


async def test_a_message_whose_adding_was_cancelled_is_archived(store: MemoryStore, patch: pytest.MonkeyPatch):
    """It is in the transcript, and nobody may say anything after it."""
    context = context_of(store, None, batch_seconds=0.01)
    counting = Held(offloader.count_off_loop)
    patch.setattr(offloader, "count_off_loop", counting)
    adding = asyncio.create_task(context.add_message(UserMessage(content="One.", source="user")))
    await counting.reached.wait()
    adding.cancel()
    await asyncio.wait([adding])
    patch.undo()
    session_id = context.session_id
    del context, adding, counting
    await archived(store, session_id, 1)
    assert await said_in(context_of(store, session_id)) == ["One."]


async def test_many_who_archive_at_once_write_once(store: MemoryStore, patch: pytest.MonkeyPatch):
    """Also when the first of them fails."""
    context = context_of(store)
    await say(context, "One.")
    append, calls = store.conversations.append, 0

    async def fail_first(*args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        await a_turn_of_the_loop()
        return await (away if calls == 1 else append)(*args, **named)

    patch.setattr(store.conversations, "append", fail_first)
    done = await asyncio.gather(*(context.archive() for _ in range(5)), return_exceptions=True)
    assert sum(isinstance(one, StoreUnavailableError) for one in done) == 1
    assert (calls, store.conversations.write_transactions) == (2, 1)


async def test_a_chat_message_alone_does_not_mend_an_archive(store: MemoryStore, server: Server, database_url: str):
    """What begins anew does so with the next batch of the transcript."""
    context = context_of(store)
    for text in ("One.", "Two.", "Three."):
        await say(context, text)
        await context.archive()
    alter(server, database_url, "DELETE FROM memory_context.recent_conversation_history WHERE sequence = 1")
    resumed = context_of(store)
    await resumed.resume()
    message = ChatMessage("m1", "Hello", "user", datetime.now(timezone.utc))
    resumed.archiver.add_chat([message], resumed.transcript.end)
    await resumed.archive()
    await say(resumed, "Four.")
    await resumed.close()
    again = context_of(store)
    assert (await again.resume()).is_complete
    assert (await said_in(again))[-2:] == turns("Four.")


# --- loads


async def test_messages_before_a_load_are_archived(store: MemoryStore, server: Server, database_url: str):
    context = context_of(store)
    await say(context, "One.")
    state = await saved(context)
    await say(context, "Wrong way.")
    await context.load_state(state)
    await say(context, "Right way.")
    await context.close()
    assert "Wrong way." in str(transcript_rows(server, database_url, "message_batch"))
    assert await said_in(context_of(store)) == turns("One.", "Right way.")


async def test_a_state_that_is_loaded_while_a_batch_is_written_goes_on_behind_it(
    store: MemoryStore, patch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    context = context_of(store)
    await say(context, "One.")
    await context.archive()
    state = await saved(context)
    await say(context, "Wrong way.")
    appending = Held(store.conversations.append)
    patch.setattr(store.conversations, "append", appending)
    archiving = asyncio.create_task(context.archive())
    await appending.reached.wait()
    loading = asyncio.create_task(context.load_state(state))
    await asyncio.wait([loading], timeout=0.1)
    appending.go_on.set()
    await asyncio.gather(loading, archiving)
    await say(context, "Right way.")
    await context.close()
    assert caplog.text == ""
    assert await said_in(context_of(store)) == turns("One.", "Right way.")


async def test_a_state_that_is_loaded_after_an_answer_was_lost_goes_on_behind_it(
    store: MemoryStore, patch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """What may have been written is asked for."""
    context = context_of(store)
    await say(context, "One.")
    state = await saved(context)
    await say(context, "Wrong way.")
    patch.setattr(store.conversations, "append", cut_off(store.conversations.append))
    with pytest.raises(StoreUnavailableError):
        await context.archive()
    patch.setattr(store.conversations, "append", away)
    patch.setattr(store.conversations, "read", away)
    await context.load_state(state)
    patch.undo()
    await say(context, "Right way.")
    await context.close()
    assert "continued elsewhere" not in caplog.text
    assert await said_in(context_of(store)) == turns("One.", "Right way.")


async def test_without_an_archive_a_load_reads_none(store: MemoryStore, patch: pytest.MonkeyPatch):
    await known(store)
    context = context_of(store, enabled=False)
    await say(context, "Two.")
    state = await saved(context)
    patch.setattr(store.conversations, "read", None)
    for _ in range(2):
        await context.load_state(state)
    assert await said_in(context) == turns("Two.")


# --- a store that hangs, and the end


@pytest.mark.usefixtures("store_asked_again_at_once")
async def test_a_store_that_hangs_is_asked_again(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, patch: pytest.MonkeyPatch
):
    """On a connection that answers no more nobody waits for ever."""
    await known(store)
    monkeypatch.setattr("memory_context.sessions.archive.session_archive.RESUME_SECONDS", 0.05)
    context = MemoryContext("alice", "coder", SESSION, store)
    patch.setattr(store._database, "limits", StoreLimits(call_seconds=0.1))
    for name in ("read", "append"):
        patch.setattr(store.conversations, name, hang)
    await say(context, "Two.")
    with pytest.raises(StoreUnavailableError, match=r"did not answer within 0\.1 s"):
        await context.resume()
    patch.undo()
    await context.resume()
    patch.setattr(store._database, "limits", StoreLimits(call_seconds=0.1))
    patch.setattr(store.conversations, "append", hang)
    with pytest.raises(StoreUnavailableError, match=r"did not answer within 0\.1 s"):
        await context.archive()
    patch.undo()
    await context.archive()
    assert await said_in(context_of(store)) == turns("One.", "Two.")


async def test_a_closed_context_does_nothing_any_more(
    store: MemoryStore, patch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    patch.setattr(store.conversations, "append", hang)
    patch.setattr("memory_context.context.context._CLOSE_SECONDS", 0.05)
    context = context_of(store, None)
    await say(context, "One.")
    await context.close()
    assert "is not archived: not done in 0.1 s" in caplog.text
    assert context.archiver._flusher._timers.here()._planned is None  # pyright: ignore[reportPrivateUsage]


# --- titles


async def test_a_title_that_comes_late_is_archived_once(store: MemoryStore):
    """Without anything more being said; what the user calls the session afterwards stays."""
    light = Light()
    light.title = '{"title": "How owls see"}'
    context = MemoryContext("alice", "coder", SESSION, store, model_client=light)
    await say(context, "Why do owls turn?")
    await context.archive()
    await context.close()
    session = await store.conversations.session("alice", SESSION)
    assert session is not None
    assert session.title == "How owls see"
    await store.conversations.append(SessionKey("alice", "coder", SESSION), title="Owls", title_is_final=True)
    await say(context, "And bats?")
    await context.close()
    session = await store.conversations.session("alice", SESSION)
    assert session is not None
    assert session.title == "Owls"


async def test_a_session_that_is_known_is_named_no_more(store: MemoryStore):
    """One call of the model for a session, not for each process that goes on with it."""
    await known(store)
    light = Light()
    light.title = '{"title": "How owls see"}'
    context = MemoryContext("alice", "coder", SESSION, store, model_client=light)
    await say(context, "Two.")
    await context.archive()
    await context.close()
    assert light.title_prompts == []


async def test_a_title_stays_with_its_session(store: MemoryStore):
    """A context that goes on with another session does not name it as the one before."""
    await known(store)
    other = context_of(store)
    await other.resume()
    state = await saved(other)
    light = Light()
    light.title = '{"title": "How owls see"}'
    context = MemoryContext("alice", "coder", "owls", store, model_client=light)
    await say(context, "Why do owls turn?")
    await context.archive()
    while not context.is_dirty:
        await a_turn_of_the_loop()
    await context.load_state(state)
    await say(context, "Two.")
    await context.close()
    titles = {one.session_id: one.title for one in await store.conversations.sessions("alice")}
    assert titles == {SESSION: "One.", "owls": "How owls see"}


async def test_archive_that_waits_when_its_context_closes_fails_and_is_not_cancelled(
    store: MemoryStore, patch: pytest.MonkeyPatch
):
    """A cancellation that nobody asked for would end the caller's task without a word."""
    context = context_of(store)
    await say(context, "One.")
    patch.setattr(store.conversations, "append", hang)
    patch.setattr("memory_context.context.context._CLOSE_SECONDS", 0.01)
    archiving = asyncio.create_task(context.archive())
    await a_turn_of_the_loop()
    await context.close()
    (outcome,) = await asyncio.gather(archiving, return_exceptions=True)
    assert isinstance(outcome, StoreUnavailableError)
    assert "was closed while it was being archived" in str(outcome)
    patch.undo()
    await context.archive()
    assert await said_in(context_of(store)) == turns("One.")
