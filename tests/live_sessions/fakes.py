"""A small session with an archive: both remember what was done to them."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from memory_context import MemoryStore
from memory_context.foundation.errors import StoreUnavailableError
from memory_context.foundation.identifiers import SessionKey
from memory_context.store.sql import Statement
from tests.context.steps import a_turn_of_the_loop


def key_of(session_id: str) -> SessionKey:
    """Return the key of one of alice's sessions."""
    return SessionKey("alice", "coder", session_id)


@dataclass
class Archive:
    """What is durable of all sessions; two lines of one session never overwrite each other."""

    lines: dict[SessionKey, list[str]] = field(default_factory=lambda: defaultdict(list))
    branches: dict[SessionKey, list[str]] = field(default_factory=lambda: defaultdict(list))
    live: dict[SessionKey, list["FakeSession"]] = field(default_factory=lambda: defaultdict(list))
    made: list["FakeSession"] = field(default_factory=list)
    is_away: bool = False
    gate: asyncio.Event | None = None  # archiving waits for it

    def make(self, key: SessionKey) -> "FakeSession":
        """Return a new live session."""
        session = FakeSession(key, self)
        self.made.append(session)
        self.live[key].append(session)
        return session

    def everything(self, key: SessionKey) -> list[str]:
        """Return all that was archived of a session."""
        return self.lines[key] + self.branches[key]


class FakeSession:
    """Keeps messages until they are archived."""

    def __init__(self, key: SessionKey, archive: Archive) -> None:
        self.key = key
        self.calls: list[str] = []
        self.messages: list[str] = []
        self.archived = 0
        self.is_closed = asyncio.Event()
        self._archive = archive

    @property
    def is_dirty(self) -> bool:
        return self.archived < len(self.messages)

    def add(self, text: str) -> None:
        assert not self.is_closed.is_set()
        self.messages.append(text)

    async def resume(self) -> None:
        self.calls.append("resume")
        if self._archive.is_away:
            raise StoreUnavailableError("away")
        await a_turn_of_the_loop()
        self.messages = list(self._archive.lines[self.key])
        self.archived = len(self.messages)

    async def save_state(self) -> Mapping[str, Any]:
        self.calls.append("save_state")
        return {"messages": list(self.messages)}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.calls.append("load_state")
        durable = self._archive.lines[self.key]
        self.messages = max(list(state["messages"]), list(durable), key=len)
        self.archived = len(durable)

    async def archive(self) -> None:
        self.calls.append("archive")
        if self._archive.gate is not None:
            await self._archive.gate.wait()
        await a_turn_of_the_loop()
        if self._archive.is_away:
            raise StoreUnavailableError("away")
        new, durable = self.messages[self.archived :], self._archive.lines[self.key]
        if len(durable) == self.archived:
            durable += new
        else:  # somebody else went on
            self._archive.branches[self.key] += new
        self.archived = len(self.messages)

    async def close(self) -> None:
        self.calls.append("close")
        self._archive.live[self.key].remove(self)
        self.is_closed.set()


@dataclass
class States:
    """Saved states in memory."""

    kept: dict[SessionKey, Mapping[str, Any]] = field(default_factory=dict)
    is_away: bool = False
    is_closed: bool = False

    async def save(self, key: SessionKey, state: Mapping[str, Any]) -> None:
        self._check()
        self.kept[key] = state

    async def load(self, key: SessionKey) -> Mapping[str, Any] | None:
        self._check()
        return self.kept.get(key)

    async def delete(self, key: SessionKey) -> None:
        self._check()
        self.kept.pop(key, None)

    async def close(self) -> None:
        self.is_closed = True

    def _check(self) -> None:
        if self.is_away:
            raise StoreUnavailableError("states are away")


async def take_away(store: MemoryStore, key: SessionKey) -> None:
    """Have another process take a session whose lease ran out, and leave it again."""
    statement = b"""UPDATE memory_context.session_claims SET claimed_by = gen_random_uuid(), claimed_until = now()
        WHERE user_id = %(user_id)s AND session_id = %(session_id)s"""
    await store._database.write(key.user_id, Statement(statement, {"session_id": key.session_id}))


async def settled() -> None:
    """Let every task go on until it waits for something."""
    for _ in range(50):
        await a_turn_of_the_loop()
