"""A database in which people and agents have lived, and what a command prints about it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone

import pytest
from autogen_core.models import UserMessage

from memory_context import ContextStats, MemoryContext, MemoryStore, ViewReport
from memory_context.memory.agent_memory import AgentMemory
from memory_context.store.conversations import ChatMessage
from memory_context.surfaces.cli import execute

from ..agents.scripted import report
from ..archive.talking import say
from ..conftest import Server
from ..context.steps import add_step

SESSION = "owls"
HOSTILE = "\x1b]0;owned\x07\x1b[2J red \u202e\r\nlone \ud800, NUL \x00, \x9b2J\n"
"""What would change a terminal's title and clear it, and what UTF-8 has no form for."""


@dataclass(frozen=True)
class Lived:
    """What is in the database.

    Attributes:
        url: Its address.
        keys: The items of alice's session, the oldest first.
        hostile: The key of an item whose content and description command terminals.
        private: The key of an item that only alice's sub-agent reads.
        forgotten: The key of one that was forgotten.
        stats: What the context of the session counted.
        report: What it says of its last view.
    """

    url: str
    keys: list[str]
    hostile: str
    private: str
    forgotten: str
    stats: ContextStats
    report: ViewReport


@contextmanager
def a_database(server: Server, template: str, name: str) -> Iterator[str]:
    """Give the address of a database with the schema and no rows, for as long as it is needed."""
    server.execute("CREATE DATABASE {name} TEMPLATE {template}", name=name, template=template)
    yield server.url(name)
    server.execute("DROP DATABASE {name} WITH (FORCE)", name=name)


def live(url: str) -> Lived:
    """Fill a database: a session of alice with large results, a chat, a sub-agent; and one item of bob."""
    return asyncio.run(_live(url))


async def _survey(topic: str) -> str:
    """Return what is known of a topic."""
    return report(topic)


async def _live(url: str) -> Lived:
    async with MemoryStore(url) as store:
        context = MemoryContext("alice", "coder", SESSION, store)
        context.workbench([_survey])
        context.note_agent(system_message="Be kind.")
        await context.add_message(UserMessage(content="Survey the owls.", source="user"))
        for topic, lines in (("owls", 300), ("bats", 900), ("moths", 300)):
            await add_step(context, report(topic, lines))
        await context.get_messages()
        await say(context, "And which was the highest of them?")
        view = await context.explain()
        keys = [item.key for item in reversed(await context.agent_memory.query(reader=None))]
        await context.retrieve(keys[0], "filtered", pattern="finding 37")
        chat = [
            ChatMessage(f"m{number}", text, sender, datetime(2026, 1, 1, 12, number, tzinfo=timezone.utc))
            for number, (sender, text) in enumerate([("user", "Survey the owls."), ("ai", f"Done.\n{HOSTILE}")])
        ]
        context.archiver.add_chat(chat, context.transcript.end)
        scout = AgentMemory(store, "alice", "scout", f"{SESSION}/scout", sharing="isolated")
        private = await scout.store("the hidden roost of barn owls", description="a roost", source="scouting")
        memory = AgentMemory(store, "alice", "coder", SESSION)
        hostile = await memory.store(HOSTILE, description=HOSTILE, source="shell\x1b[2J", tags=["red"])
        gone = await memory.store("soon gone", description="soon gone", source="brief")
        await memory.forget(gone.key)
        await AgentMemory(store, "bob").store("bob's own", description="bob's own", source="bob")
        await context.close()
        await store.flush_index()  # no job is left for the commands
        return Lived(url, keys, hostile.key, private.key, gone.key, context.stats, view)


Command = Callable[..., tuple[int, str, str]]


def command_of(capsys: pytest.CaptureFixture[str], url: str, user: str | None = "alice") -> Command:
    """Return a function that runs a command line on a database and returns exit code, stdout and stderr."""

    def command(*arguments: str) -> tuple[int, str, str]:
        whose = [] if user is None else ["--user", user]
        status = execute([*arguments, "--url", url, *whose])
        out, err = capsys.readouterr()
        return status, out, err

    return command
