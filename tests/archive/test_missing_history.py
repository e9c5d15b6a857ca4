"""What a view says while the history of its session could not be read, and what an application can ask for."""

import asyncio
from typing import Any

import pytest
from autogen_core.models import AssistantMessage, UserMessage

from memory_context import ContextPolicy, MemoryContext, MemoryStore
from memory_context.foundation.errors import StoreUnavailableError
from memory_context.foundation.policy import ArchivePolicy
from memory_context.sessions.archive.session_archive import MISSING_HISTORY
from tests.support.outages import away

from .talking import SESSION, context_of, said_in, say, turns


@pytest.fixture
async def known(store: MemoryStore) -> MemoryStore:
    """A store whose archive has a session."""
    context = context_of(store)
    await say(context, "One.")
    await context.close()
    return store


pytestmark = pytest.mark.usefixtures("store_asked_again_at_once")


def waiting_for(store: MemoryStore, **archive: Any) -> MemoryContext:
    policy = ContextPolicy(archive=ArchivePolicy(**archive))
    return MemoryContext("alice", "coder", SESSION, store, policy=policy)


async def test_view_says_once_that_its_history_could_not_be_read(known: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """After the newest message of that time, where it stays; explain() says it too."""
    context = waiting_for(known)
    monkeypatch.setattr(known.conversations, "read", away)
    await say(context, "Two.")
    await context.add_message(UserMessage(content="Three.", source="user"))
    assert await said_in(context) == ["Two.", MISSING_HISTORY, "On Two..", "Three."]
    assert await said_in(context) == ["Two.", MISSING_HISTORY, "On Two..", "Three."]
    report = await context.explain()
    assert report.is_without_history
    assert "could not be read yet" in str(report)


async def test_note_goes_when_the_history_joins(known: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    context = waiting_for(known)
    with monkeypatch.context() as patch:
        patch.setattr(known.conversations, "read", away)
        await say(context, "Two.")
    assert await said_in(context) == turns("One.", "Two.")
    assert not (await context.explain()).is_without_history
    await context.close()
    assert await said_in(context_of(known)) == turns("One.", "Two."), "nor is it archived"


async def test_note_goes_when_there_was_no_history(store: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """The session is new after all."""
    context = waiting_for(store)
    with monkeypatch.context() as patch:
        patch.setattr(store.conversations, "read", away)
        await say(context, "One.")
    assert await said_in(context) == turns("One.")


async def test_note_survives_a_saved_state_until_the_history_joins(known: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    context = waiting_for(known)
    with monkeypatch.context() as patch:
        patch.setattr(known.conversations, "read", away)
        await say(context, "Two.")
        state = await context.save_state()
        later = waiting_for(known)
        await later.load_state(state)
        assert MISSING_HISTORY in await said_in(later)
    assert await said_in(later) == turns("One.", "Two.")


async def test_application_can_refuse_to_go_on_without_the_history(known: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """The message is not taken in, so that adding it again has it once."""
    context = waiting_for(known, require_history=True)
    message = UserMessage(content="Two.", source="user")
    with monkeypatch.context() as patch:
        patch.setattr(known.conversations, "read", away)
        with pytest.raises(StoreUnavailableError, match="add the message again"):
            await context.add_message(message)
    await context.add_message(message)
    await context.add_message(AssistantMessage(content="On Two..", source="coder"))
    assert await said_in(context) == turns("One.", "Two.")


async def test_history_that_is_late_joins_without_being_asked_for_again(
    known: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """A use of the context stops waiting; the reading goes on."""
    monkeypatch.setattr("memory_context.sessions.archive.session_archive.RESUME_SECONDS", 0.05)
    context = waiting_for(known)
    read, come = known.conversations.read, asyncio.Event()
    reads = 0

    async def late(*args: Any, **named: Any) -> Any:
        nonlocal reads
        reads += 1
        await come.wait()
        return await read(*args, **named)

    monkeypatch.setattr(known.conversations, "read", late)
    await say(context, "Two.")
    come.set()
    await context.resume()
    assert (await said_in(context), reads) == (turns("One.", "Two."), 1)


async def test_archive_that_cannot_be_understood_raises_nothing(
    known: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """An odd answer of the server counts as a history that could not be read."""

    async def odd(*_: object, **__: object) -> Any:
        raise KeyError("head")

    context = waiting_for(known)
    with monkeypatch.context() as patch:
        patch.setattr(known.conversations, "read", odd)
        await say(context, "Two.")
        assert MISSING_HISTORY in await said_in(context)
    assert await said_in(context) == turns("One.", "Two.")
    assert [record for record in caplog.records if record.exc_info] == []


async def test_last_write_stops_the_reading_of_the_history(known: MemoryStore, monkeypatch: pytest.MonkeyPatch):
    """The event loop ends, and would complain of a pending task."""
    monkeypatch.setattr("memory_context.sessions.archive.session_archive.RESUME_SECONDS", 0.05)
    context = waiting_for(known)

    async def hang(*_: object, **__: object) -> Any:
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        patch.setattr(known.conversations, "read", hang)
        await context.add_message(UserMessage(content="Two.", source="user"))
        reading = context._archive._reading
        assert reading.running() is not None
        with pytest.raises(StoreUnavailableError):
            await context._archive.write_out(is_last=True)
        assert reading.running() is None
    await context.resume()
    await context.close()
