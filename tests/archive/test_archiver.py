"""Batches: few, in time, stored once, and written before a process goes."""

import asyncio
import json
import logging
import signal
from typing import Any

import pytest
from autogen_core.models import AssistantMessage, UserMessage

from memory_context import ExpansionPolicy, MemoryContext, MemoryStore
from memory_context.foundation.errors import SessionGoneError, StoreUnavailableError
from memory_context.foundation.policy import ArchivePolicy, ContextPolicy
from memory_context.foundation.runtime.background import Timer
from memory_context.sessions.archive import archiver
from tests.support.contexts import archived, instructions
from tests.support.rows import transcript_rows
from tests.support.waiting import soon

from ..agents.scripted import report
from ..conftest import Server, StartPython
from ..context.lights import Light
from ..context.steps import a_turn_of_the_loop, add_step
from .talking import SESSION, context_of, said_in, say, turns

# --- how often


async def test_one_transaction_for_many_messages(
    store: MemoryStore, server: Server, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    """Not one for a message: turns that follow each other at once share a row."""
    monkeypatch.setattr(archiver, "_ANSWERED_SECONDS", 3600)
    context = context_of(store, None)
    await say(context, *(f"Message {i}" for i in range(15)))
    assert store.conversations.write_transactions == 0
    await context.close()
    assert store.conversations.write_transactions == context.stats.archive_transactions == 1
    assert transcript_rows(server, database_url, "sequence, message_count, start_timestamp <= end_timestamp") == [
        (0, 30, True)
    ]


@pytest.mark.batches_turns
async def test_turn_is_archived_when_it_has_ended(store: MemoryStore):
    """By the default policy: in one transaction, with its steps, and not before the answer."""
    context = context_of(store)
    for number in range(1, 4):
        await context.add_message(UserMessage(content=f"Task {number}.", source="user"))
        for step in range(3):
            await context.get_messages()
            await add_step(context, f"result {step}")
        await context.get_messages()
        assert store.conversations.write_transactions == number - 1
        await context.add_message(AssistantMessage(content="Done.", source="coder"))
        await archived(store, SESSION, 8 * number)
        await context.archiver.wait()
        assert store.conversations.write_transactions == number


@pytest.mark.batches_turns
async def test_turn_that_ends_with_results_is_archived(store: MemoryStore):
    """AutoGen's agents end so by default: their summary of the results is no message of the context."""
    context = context_of(store)
    await context.add_message(UserMessage(content="Read it.", source="user"))
    await add_step(context, "It says: forty-two.")
    await archived(store, SESSION, 3)
    await context.archiver.wait()  # the row is there before the writer has its answer
    assert store.conversations.write_transactions == 1


@pytest.mark.batches_turns
async def test_message_is_archived_without_waiting_for_a_light_model(store: MemoryStore):
    """It names the session, which takes its time; the title follows."""
    light = Light()
    light.release.clear()
    context = MemoryContext("alice", "coder", SESSION, store, model_client=light)
    await context.add_message(UserMessage(content="Where do owls sleep?", source="user"))
    await context.add_message(AssistantMessage(content="In trees.", source="coder"))
    await archived(store, SESSION, 2)
    light.release.set()
    await context.close()


async def test_every_so_many_messages_a_batch(
    store: MemoryStore, server: Server, database_url: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(archiver, "_BATCH_MESSAGES", 6)
    context = context_of(store, None)
    for number in range(1, 4):
        await say(context, "One.", "Two.", "Three.")
        await archived(store, context.session_id, 6 * number)
    assert transcript_rows(server, database_url, "sequence, message_count") == [(0, 6), (1, 6), (2, 6)]


async def test_every_so_many_seconds_a_batch(store: MemoryStore):
    context = context_of(store, None, batch_seconds=0.01)
    await say(context, "One.")
    await archived(store, context.session_id, 2)


async def test_nothing_new_is_no_batch(store: MemoryStore, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    context = context_of(store)
    await say(context, "One.")
    for _ in range(3):
        await context.archive()
    await context.close()
    assert store.conversations.write_transactions == 1
    assert caplog.text.count(f"session {SESSION}: archived 2 messages, batch 0") == 1


async def test_archive_leaves_no_timer_once_it_has_nothing_to_write(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
):
    """Neither after a batch, nor for a session that is gone, nor after a close that could not write."""
    loop, planned = asyncio.get_running_loop(), list[asyncio.TimerHandle]()
    call_later = loop.call_later

    def plan(delay: float, callback: Any, *args: Any) -> asyncio.TimerHandle:
        handle = call_later(delay, callback, *args)
        timer = getattr(callback, "__self__", None)
        if isinstance(timer, Timer) and timer is not store.jobs._due.here()._timer:  # jobs are due later
            planned.append(handle)
        return handle

    async def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(loop, "call_later", plan)
    context = context_of(store)
    await say(context, "One.")
    assert planned
    assert not any(timer.cancelled() for timer in planned)
    await context.archive()
    assert all(timer.cancelled() for timer in planned)
    await say(context, "Two.")
    assert not all(timer.cancelled() for timer in planned)
    context.archiver.abandon()
    assert all(timer.cancelled() for timer in planned)
    other = context_of(store, None)
    await say(other, "Three.")
    monkeypatch.setattr(store.conversations, "append", away)
    await other.close()
    assert len(planned) > 3, "no retry was planned"
    assert all(timer.cancelled() for timer in planned)


async def test_large_results_are_archived_as_references(store: MemoryStore, server: Server, database_url: str):
    context = context_of(store)
    await add_step(context, report("owls"))
    await context.close()
    ((batch, keys),) = transcript_rows(server, database_url, "message_batch::text, memory_keys")
    assert "owls finding 200" not in str(batch)
    assert len(str(batch)) < 6000
    assert await store.items.fetch_contents("alice", list(keys)) == {keys[0]: report("owls")}


async def test_archive_keeps_any_text(store: MemoryStore):
    odd = "NUL \x00, half a pair \ud800, an escape \x1a0000, \r\n, \u2028 and 🦉"
    context = context_of(store)
    await context.add_message(UserMessage(content=odd, source="user"))
    await context.close()
    resumed = context_of(store)
    assert await said_in(resumed) == [odd.replace("\ud800", "\\ud800")], "a view spells it"
    assert resumed.transcript[0].message.content == odd


# --- once


async def test_a_batch_whose_answer_was_lost_is_stored_once(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, server: Server, database_url: str
):
    """It comes again as it was, and what was said meanwhile behind it."""
    append = store.conversations.append

    async def cut_off(*args: Any, **named: Any) -> Any:
        await append(*args, **named)
        raise StoreUnavailableError("the connection was lost at COMMIT")

    context = context_of(store)
    await say(context, "One.")
    monkeypatch.setattr(store.conversations, "append", cut_off)
    with pytest.raises(StoreUnavailableError):
        await context.archive()
    monkeypatch.setattr(store.conversations, "append", append)
    await say(context, "Two.")
    await context.archive()
    assert transcript_rows(server, database_url, "sequence, branch, message_count") == [(0, "", 2), (1, "", 2)]
    assert await said_in(context_of(store)) == turns("One.", "Two.")


async def test_unwritten_batches_wait_for_the_store(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """The agent goes on; the next try has everything."""
    monkeypatch.setattr(archiver, "_BATCH_MESSAGES", 2)
    monkeypatch.setattr(archiver, "_RETRY_SECONDS", 0.01)
    append = store.conversations.append

    async def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(store.conversations, "append", away)
    context = context_of(store, None)
    await say(context, "One.", "Two.", "Three.")
    with pytest.raises(StoreUnavailableError):
        await context.archive()
    monkeypatch.setattr(store.conversations, "append", append)
    await archived(store, context.session_id, 6)
    assert await said_in(context_of(store, context.session_id)) == turns("One.", "Two.", "Three.")
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_close_without_the_store_says_what_is_lost(caplog: pytest.LogCaptureFixture):
    context = MemoryContext("alice", memory_store=MemoryStore("postgresql://alice@127.0.0.1:1/nowhere"))
    await say(context, "One.")
    await context.close()
    assert f"session {context.session_id} is not archived" in caplog.text


async def test_a_deleted_session_is_archived_no_more(store: MemoryStore, server: Server, database_url: str):
    context = context_of(store)
    await say(context, "One.")
    await context.archive()
    assert await store.conversations.delete_session("alice", SESSION)
    await say(context, "Two.")
    with pytest.raises(SessionGoneError):
        await context.archive()
    assert not context.archiver.is_dirty
    await context.close()
    assert transcript_rows(server, database_url, "sequence") == []


async def test_a_cancelled_archive_goes_on_in_the_background(store: MemoryStore):
    context = context_of(store)
    await say(context, "One.")
    archiving = asyncio.create_task(context.archive())
    await a_turn_of_the_loop()
    archiving.cancel()
    await asyncio.wait([archiving])
    await archived(store, SESSION, 2)
    assert await said_in(context_of(store)) == turns("One.")


async def test_a_context_that_is_dropped_is_archived_all_the_same(store: MemoryStore):
    """Nobody closed it; as long as the loop runs, what it had is written."""
    await say(context_of(store, batch_seconds=0.01), "One.")
    await archived(store, SESSION, 2)
    assert await said_in(context_of(store)) == turns("One.")


# --- the end of a process

TALK = """
import asyncio, os, sys
from autogen_core.models import AssistantMessage, UserMessage
from memory_context import MemoryContext, MemoryStore
from memory_context.sessions.archive import archiver
from tests.agents.scripted import report
from tests.archive.talking import say
from tests.context.steps import add_step

archiver._ANSWERED_SECONDS = archiver._RESULTS_SECONDS = 3600  # what the process says is not archived by itself

async def main():
    async with MemoryStore(os.environ["TEST_URL"]) as store:
        context = MemoryContext("alice", "coder", "one-session", store)
        await say(context, "One.")
        if "archive" in os.environ["HOW"]:
            await context.archive()
        await say(context, "Two.")
        await add_step(context, report("owls"))
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_sigterm_archives_what_is_buffered(start_python: StartPython, store: MemoryStore, database_url: str):
    """The process ends by the signal, as it would without us, and nothing is lost."""
    process = await start_python(TALK, TEST_URL=database_url, HOW="")
    assert await process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGTERM)
    _, errors = await soon(process.communicate())
    assert (process.returncode, errors) == (-signal.SIGTERM, b"")
    resumed = context_of(store)
    assert (await said_in(resumed))[:4] == turns("One.", "Two.")
    assert resumed.resume_report.is_complete


async def test_sigkill_loses_what_came_after_the_last_batch_and_says_so(
    start_python: StartPython, store: MemoryStore, database_url: str
):
    process = await start_python(TALK, TEST_URL=database_url, HOW="archive")
    assert await process.stdout.readline() == b"ready\n"
    process.kill()
    await process.wait()
    resumed = context_of(store)
    assert await said_in(resumed) == turns("One.")
    (key,) = resumed.resume_report.later_keys
    assert await resumed.retrieve(key) == report("owls"), "what it had stored is there"
    assert f"items stored after it, whose messages are missing: {key}" in str(resumed.resume_report)


async def test_a_program_that_handles_sigterm_keeps_its_handler(store: MemoryStore):
    def mine(*_: object) -> None:
        """Do nothing."""

    before = signal.signal(signal.SIGTERM, mine)
    try:
        context = context_of(store)
        await say(context, "One.")
        assert signal.getsignal(signal.SIGTERM) is mine
        await context.close()
    finally:
        signal.signal(signal.SIGTERM, before)


# --- what a session is called


async def test_a_session_is_called_by_the_users_first_words(store: MemoryStore):
    context = context_of(store)
    await say(context, "Why do owls\nturn their heads? " + "Tell me more. " * 20, "Thanks.")
    await context.close()
    session = await store.conversations.session("alice", SESSION)
    assert session is not None
    assert session.title.startswith("Why do owls turn their heads? Tell me more.")
    assert len(session.title) <= 80
    assert (session.agent_id, session.message_count) == ("coder", 4)
    assert session.summary == "Thanks. — On Thanks.."


@pytest.mark.parametrize(
    ("answer", "title"),
    [
        ('{"title": " \\"How owls see.\\" "}', "How owls see"),
        (json.dumps({"title": "many words " * 100}), None),
        ("no JSON", "Why do owls turn?"),
        (RuntimeError("no model today"), "Why do owls turn?"),
    ],
)
async def test_a_light_model_names_it_better(store: MemoryStore, answer: Any, title: str | None):
    """Once, in the background; what it says is one short line, or the user's words stay."""
    light = Light()
    light.title = answer
    context = MemoryContext("alice", "coder", SESSION, store, model_client=light)
    await say(context, "Why do owls turn?")
    await context.archive()
    while not light.title_prompts:
        await a_turn_of_the_loop()
    for text in ("Two.", "Three."):
        await say(context, text)
        await context.archive()
    await context.close()
    session = await store.conversations.session("alice", SESSION)
    assert session is not None
    assert session.title == title if title else len(session.title) <= 80
    assert len(light.title_prompts) == 1
    assert "Why do owls turn?" in light.title_prompts[0]


async def test_a_session_that_has_a_title_keeps_it(store: MemoryStore):
    for text in ("First words.", "Other words."):
        context = context_of(store)
        await context.clear()
        await say(context, text)
        await context.close()
    session = await store.conversations.session("alice", SESSION)
    assert session is not None
    assert session.title == "First words."


def test_settings_are_checked():
    for wrong in ({"batch_seconds": 0}, {"unknown": 1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ContextPolicy(archive=ArchivePolicy(**wrong))


@pytest.mark.parametrize("is_alone", [False, True], ids=["chat", "one request"])
@pytest.mark.thorough
async def test_a_batch_takes_as_many_instructions_at_1500_messages_as_at_100(
    store: MemoryStore, is_alone: bool, monkeypatch: pytest.MonkeyPatch
):
    """In a chat, and when an agent works on after its one request."""
    monkeypatch.setattr(archiver, "_BATCH_MESSAGES", 100_000)
    monkeypatch.setattr(store.jobs, "wake", lambda user_id: None)
    took: list[int] = []
    for count in (100, 1500):
        policy = ContextPolicy(expansion=ExpansionPolicy(enabled=False))  # nothing runs beside the batch
        context = MemoryContext("alice", "coder", f"s{count}", store, policy=policy)

        async def go_on(to: int, context: MemoryContext = context) -> None:
            while (number := context.transcript.end) < to:
                is_request = number % 2 == 0 and not (number and is_alone)
                words = f"message {number}"
                message = UserMessage if is_request else AssistantMessage
                await context.add_message(message(content=words, source="user" if is_request else "coder"))
                context.archiver.mark_delivered([f"m{number}"], number)

        await go_on(count)
        await context.archive()
        await go_on(count + 10)
        took.append(await instructions(context.archive()))
        await context.close()
    assert took[1] < 1.3 * took[0], took
