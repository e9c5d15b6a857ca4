"""Saved states in a real Redis: shared by processes, exact, and never the reason that anything hangs."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator

import pytest
from autogen_core.models import UserMessage

from memory_context import AgentMemory, MemoryContext, MemoryCriteria, MemoryStore
from memory_context.foundation.errors import StoreUnavailableError
from memory_context.sessions.live.cache import SessionCache
from memory_context.sessions.live.redis import RedisStates
from tests.conftest import StartPython
from tests.support.redis_server import RedisServer, redis_server
from tests.support.waiting import soon

from .fakes import Archive, key_of

KEY = key_of("s")
_ = redis_server  # a fixture

HOLD_UNTIL_ASKED = """
import asyncio
from memory_context import MemoryStore
from memory_context.sessions.live.cache import SessionCache
from memory_context.sessions.live.redis import RedisStates
from tests.live_sessions.fakes import Archive, key_of

async def main():
    archive = Archive()
    async with MemoryStore(STORE) as store:
        cache = SessionCache(archive.make, memory_store=store, states=RedisStates(REDIS))
        async with cache.hold(key_of("s")) as session:
            session.add("one")
        print("idle", flush=True)
        await session.is_closed.wait()
        await cache.close()
        print(archive.lines[key_of("s")], cache.stats.handovers, flush=True)

asyncio.run(main())
"""


@pytest.fixture
async def states(redis_server: RedisServer) -> AsyncIterator[RedisStates]:
    states = RedisStates(redis_server.url)
    yield states
    await states.close()


async def test_a_state_comes_back_exactly(states: RedisStates) -> None:
    """Whatever strings are in it; until it is deleted."""
    state = {
        "\x00 \x1a \ud800": ["\ud83d\ude00", "😀", "\ud83d" + "\ude00", "a\r\nb\x00", 1.5, None, True, {"": []}],
        "long": "words " * 100_000,
    }
    assert await states.load(KEY) is None
    await states.save(KEY, state)
    assert await states.load(KEY) == state
    assert await states.load(key_of("t")) is None
    await states.delete(KEY)
    assert await states.load(KEY) is None


async def test_forgotten_content_is_erased_from_saved_states(redis_server: RedisServer, store: MemoryStore) -> None:
    """Also those of sessions that no process holds; their lifetime goes on, and a newer state is not replaced."""
    states = RedisStates(redis_server.url, keep_seconds=1000)
    store.forgettings.copies.add(states)
    context = MemoryContext("alice", "coder", "s", store)
    await context.add_message(UserMessage(content="my locker is at the kestrel pier", source="user"))
    await states.save(context.key, await context.save_state())
    await context.close()
    await store.flush_index()
    (item,) = await AgentMemory(store, "alice").query(MemoryCriteria(types=("conversation",)))
    await store.user_stats.forget("alice", [item.key])
    state = str(await states.load(context.key))
    assert ("[forgotten]" in state, "kestrel" in state) == (True, False)
    (name,) = await states._redis.keys("*")
    assert 0 < await states._redis.ttl(name) <= 1000
    await states.close()


async def test_a_state_is_kept_for_a_time(redis_server: RedisServer) -> None:
    """After that the archive has the session."""
    states = RedisStates(redis_server.url, keep_seconds=1000)
    await states.save(KEY, {"a": "b" * 1000})
    client = states._redis
    (name,) = await client.keys("*")
    assert name.startswith(b"memory_context:state:")
    assert b"alice" not in name
    assert 990 < await client.ttl(name) <= 1000
    assert await client.strlen(name) < 100
    await states.close()


async def test_a_state_that_cannot_be_read_is_none(states: RedisStates, caplog: pytest.LogCaptureFixture) -> None:
    """The session then comes from the archive, instead of not at all."""
    await states.save(KEY, {})
    client = states._redis
    (name,) = await client.keys("*")
    await client.set(name, b"nonsense")
    assert await states.load(KEY) is None
    assert "cannot be read" in caplog.text


async def test_redis_that_hangs_or_is_gone_holds_nobody_up(
    redis_server: RedisServer, states: RedisStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything ends, with what to do, though Redis never answers."""
    await states.save(KEY, {})
    monkeypatch.setattr("memory_context.sessions.live.redis._ANSWER_SECONDS", 0.1)
    impatient = RedisStates(redis_server.url)

    async def try_everything() -> None:
        for operation in (impatient.save(KEY, {}), impatient.load(KEY), impatient.delete(KEY)):
            with pytest.raises(StoreUnavailableError, match=r"Redis does not answer.*redis\.sock"):
                await soon(operation)

    with redis_server.hanging():
        await try_everything()
    monkeypatch.undo()
    assert await states.load(KEY) == {}
    await redis_server.stop()
    await try_everything()
    await soon(impatient.close())


@pytest.mark.thorough
@pytest.mark.parametrize("is_killed", [False, True])
async def test_session_of_another_process_goes_on_with_its_state(
    redis_server: RedisServer, store: MemoryStore, database_url: str, start_python: StartPython, is_killed: bool
) -> None:
    """What was said and is not archived is known here, whether it was handed over or its process was killed."""
    process = await start_python(f"STORE, REDIS = {database_url!r}, {redis_server.url!r}\n{HOLD_UNTIL_ASKED}")
    assert await process.stdout.readline() == b"idle\n"
    archive = Archive()
    cache = SessionCache(archive.make, memory_store=store, states=RedisStates(redis_server.url), wait_seconds=60)
    if is_killed:
        os.kill(process.pid, signal.SIGKILL)
    async with cache.hold(KEY) as session:
        assert session.messages == ["one"]
    out, err = await soon(process.communicate())
    assert (out, err) == (b"" if is_killed else b"[] 1\n", b"")
    await cache.close()
    assert archive.lines[KEY] == ["one"]


def test_without_redis_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_context.sessions.live.redis.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"RedisStates needs .* pip install 'memory-context\[redis\]'"):
        RedisStates("redis://localhost")


def test_address_that_is_not_one_is_refused_without_showing_it() -> None:
    """Nor does any other text show a password."""
    for url in ("http://localhost", "localhost:6379", "redis://user:pass/word@localhost"):
        with pytest.raises(ValueError, match="cannot be read") as caught:
            RedisStates(url)
        assert "word" not in str(caught.value).replace("password", "")
    assert RedisStates("redis://user:secret@localhost:1/0?password=other")._place == "redis://localhost:1/0"


async def test_a_connection_that_fails_is_not_tried_again_within_one_question():
    """Each question has one attempt, so that its answer comes within the limit for one."""
    attempts = 0

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1")
    states = RedisStates(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with server:
        with pytest.raises(StoreUnavailableError):
            await states.load(KEY)
        assert attempts == 1
    await states.close()
