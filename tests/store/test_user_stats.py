"""What is counted of a user, or of one session: nothing of another session, agent or user."""

from datetime import datetime, timedelta, timezone

import pytest

from memory_context import MemoryStore
from memory_context.foundation.identifiers import SessionKey
from memory_context.store.conversations import ChatMessage
from memory_context.store.events import NewEvent
from memory_context.store.items import NewItem
from tests.support.conversations import START, batch

USER, SESSION, AGENT = "alice", "one", "coder"


@pytest.fixture
async def lived(store: MemoryStore) -> MemoryStore:
    """Two sessions of one user and one of another, in which items were stored, used and forgotten."""
    for user, session, agent, tokens in (
        (USER, SESSION, AGENT, 1),
        (USER, f"{SESSION}/sub", AGENT, 10),
        (USER, "two", "critic", 100),
        ("bob", SESSION, AGENT, 1000),
    ):
        for kept in (True, False):
            key = f"{session}_{kept}\x00"
            content = f"{user} {key}"
            await store.items.insert_memories(
                user,
                [
                    NewItem(
                        content,
                        "",
                        tokens,
                        "note\x00",
                        "tool\x00",
                        key=key,
                        agent_id=agent,
                        session_id=session,
                        is_private=kept,
                    )
                ],
            )
            if not kept:
                await store.user_stats.forget(user, [key])
        store.events.add(user, NewEvent("retrieved", (f"{session}_True\x00",), "", agent, session))
        message = ChatMessage("m", "hello", "user", START)
        for number in range(2):
            await store.conversations.append(SessionKey(user, agent, session), batch=batch(number), chat=[message])
    await store.conversations.append(SessionKey(USER, "critic", SESSION), batch=batch(0, message_count=7), branch="b")
    await store.events.flush()
    return store


async def test_inventory_of_a_session_counts_that_session_only(lived: MemoryStore) -> None:
    """And its sub-agents' sessions where a deletion takes them too."""
    stats = lived.user_stats
    (kind,) = await stats.kinds(USER, session_id=SESSION)
    assert (kind.memory_type, kind.source, kind.items, kind.tokens, kind.private_items) == (
        "note\x00",
        "tool\x00",
        1,
        1,
        1,
    )
    assert kind.content_bytes == len(f"{USER} {SESSION}_True\x00".encode())
    extent = await stats.session_extent(USER, SESSION)
    assert (extent.subagent_sessions, extent.items, extent.tokens) == (1, 2, 11)
    lines = {(one.agent_id, one.branch): one for one in await stats.transcripts(USER, SESSION)}
    assert {name: (one.batches, one.messages) for name, one in lines.items()} == {
        (AGENT, ""): (2, 4),
        ("critic", "b"): (1, 7),
    }
    assert all(datetime.now(timezone.utc) - one.archived_at < timedelta(minutes=5) for one in lines.values())
    assert await stats.event_counts(SessionKey(USER, AGENT, SESSION)) == {"retrieved": 1}
    assert await stats.event_counts(SessionKey(USER, "critic", SESSION)) == {}


async def test_inventory_of_a_user_counts_all_sessions_of_that_user(lived: MemoryStore) -> None:
    """What only one agent reads is the user's too."""
    stats = lived.user_stats
    (kind,) = await stats.kinds(USER)
    assert (kind.items, kind.tokens, kind.private_items) == (3, 111, 3)
    extent = await stats.extent(USER)
    assert (extent.sessions, extent.messages, extent.chats) == (3, 19, 3)
    assert set((await stats.scope(USER)).keys) == {f"{one}_True\x00" for one in (SESSION, f"{SESSION}/sub", "two")}
    assert (await stats.scope("carol")).keys is None
    assert await stats.only_user() == (2, None)
