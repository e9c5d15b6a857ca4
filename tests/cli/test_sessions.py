"""`sessions`: who said what, as people saw it and as the agent has it."""

import asyncio
import json
from datetime import datetime, timezone

import pytest

from memory_context import MemoryContext, MemoryStore
from memory_context.foundation.errors import SessionGoneError
from memory_context.foundation.identifiers import SessionKey
from memory_context.store.conversations import ChatMessage

from ..agents.scripted import report
from ..archive.talking import say
from .lived import SESSION, Command, Lived, command_of


def test_sessions_are_listed_with_title_and_counts(command: Command):
    """Of one's own."""
    status, out, _ = command("sessions")
    (row,) = out.splitlines()[2:]
    assert status == 0
    assert row.split()[:4] == [SESSION, "coder", "9", "2"]
    assert "Survey the owls." in row


def test_a_session_shows_what_people_saw(command: Command, lived: Lived):
    """Their messages in order, harmless, and what is known of the session; nothing is written."""
    status, out, _ = command("sessions", SESSION)
    assert status == 0
    assert "transcript  coder: 9 messages in 1 batch" in out
    assert f"items       {len(lived.keys) + 2}, " in out
    assert out.index("user, 2026-01-01 12:00 UTC:\nSurvey the owls.") < out.index("ai, 2026-01-01 12:01 UTC:\nDone.")
    assert r"\x1b]0;owned" in out
    assert "\x1b" not in out


def test_a_transcript_is_read_page_by_page(command: Command, lived: Lived):
    """What was stored shows its placeholder; stderr says how to go on."""
    status, out, err = command("sessions", SESSION, "--transcript", "--limit", "3")
    assert (status, err) == (0, "messages 1-3 of 9; --from 4 goes on\n")
    assert out.startswith("(1) user said:\nSurvey the owls.\n(2) coder called survey with:\n")
    assert f"[MemoryRef: {lived.keys[0]} - " in out
    pages = json.loads(command("sessions", SESSION, "--transcript", "--from", "4", "--json")[1])
    assert [message["number"] for message in pages["messages"]] == [4, 5, 6, 7, 8, 9]
    status, _, err = command("sessions", SESSION, "--transcript", "--from", "10")
    assert (status, err) == (2, "memory-context: there is no message 10: there are 1-9\n")


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["nowhere"], 1, "user 'alice' has no session 'nowhere': memory-context sessions lists them"),
        (["--delete"], 2, "go with a SESSION"),
        ([SESSION, "--from", "2"], 2, "--from goes with --transcript"),
        ([SESSION, "--transcript", "--agent", "x"], 1, "no transcript of 'x'; there are those of 'coder'"),
        (["owl", "--delete", "--yes"], 1, "has no session 'owl'"),
        (
            [SESSION, "--delete"],
            2,
            "Delete session 'owls' (Survey the owls.) with 9 messages of agents, 2 chat messages",
        ),
    ],
)
def test_sessions_reports_a_wrong_name_in_one_line(command: Command, arguments: list[str], status: int, told: str):
    """With what is near, or what goes with it; nothing is deleted without an answer."""
    found, out, err = command("sessions", *arguments)
    assert (found, out, err.count("\n")) == (status, "", 1)
    assert told in err
    assert command("sessions", SESSION)[0] == 0


def test_session_of_two_agents_requires_the_agent(capsys: pytest.CaptureFixture[str], database_url: str):
    """Each has its own transcript; the session's list names who began it."""

    async def talk() -> None:
        async with MemoryStore(database_url) as store:
            for agent in ("lead", "scout"):
                context = MemoryContext("alice", agent, "s", store)
                await say(context, f"Words for {agent}.")
                await context.close()

    asyncio.run(talk())
    command = command_of(capsys, database_url)
    for arguments in (["sessions", "s", "--transcript"], ["stats", "s"], ["sessions", "s", "--explain"]):
        status, _, err = command(*arguments)
        assert status == 2
        assert "session 's' has transcripts of several agents, give --agent: 'scout', 'lead'" in err
    assert "Words for scout." in command("sessions", "s", "--transcript", "--agent", "scout")[1]
    assert "no chat messages were archived; --transcript shows" in command("sessions", "s")[2]


def test_an_answer_that_a_client_brought_is_marked(capsys: pytest.CaptureFixture[str], database_url: str):
    """In words and in JSON; what the server said is not."""

    async def talk() -> None:
        async with MemoryStore(database_url) as store:
            at = datetime(2026, 1, 1, tzinfo=timezone.utc)
            chat = [ChatMessage("1", "Mine.", "ai", at), ChatMessage("2", "Forged.", "ai", at, is_verified=False)]
            await store.conversations.append(SessionKey("alice", "coder", "s"), chat=chat)

    asyncio.run(talk())
    command = command_of(capsys, database_url)
    told = command("sessions", "s")[1]
    assert "ai, 2026-01-01 00:00 UTC:\nMine." in told
    assert "ai, 2026-01-01 00:00 UTC, unverified: a client brought it:\nForged." in told
    shown = json.loads(command("sessions", "s", "--json")[1])
    assert [one["is_verified"] for one in shown["chat"]] == [True, False]


def test_a_deleted_session_is_gone_and_stays_so(capsys: pytest.CaptureFixture[str], database_url: str):
    """With its items and its sub-agents'; who is still at work in it is refused; another session stays."""

    async def talk(context: MemoryContext) -> None:
        await say(context, "Hello.")
        await context.archive()

    async def stay() -> tuple[MemoryContext, str]:
        store = MemoryStore(database_url)
        live, other = (MemoryContext("alice", "coder", session, store) for session in ("s", "t"))
        await talk(live)
        await talk(other)
        await live.store(report("owls"), "owls")
        await live.for_subagent("scout", "isolated").store("a roost", "a roost")
        key = await other.store("kept", "kept")
        await store.close()
        return live, key

    async def store_late() -> None:
        async with MemoryStore(database_url) as store:
            await MemoryContext("alice", "coder", "s", store).store("stored by somebody who did not know", "late")

    async def go_on(context: MemoryContext) -> None:
        with pytest.raises(SessionGoneError):
            await talk(context)
        await context.close()
        await context.memory_store.close()

    live, key = asyncio.run(stay())
    command = command_of(capsys, database_url)
    status, _, err = command("sessions", "s", "--delete", "--yes")
    assert (status, err) == (0, "session 's' is deleted, with 2 items\n")
    assert "session 's' was deleted on 20" in command("sessions", "s")[2]
    assert [one["key"] for one in json.loads(command("list", "--json")[1])] == [key]
    asyncio.run(go_on(live))
    again = command("sessions", "s", "--delete", "--yes")
    assert again[0] == 1
    assert "session 's' was deleted on 20" in again[2]
    asyncio.run(store_late())
    again = command("sessions", "s", "--delete", "--yes")
    assert (again[0], again[2]) == (0, "session 's' was deleted before; what was left of it is gone now\n")
    assert [one["key"] for one in json.loads(command("list", "--json")[1])] == [key]
