"""Claims and states in a real Redis: shared by processes, exact, and never the reason that anything hangs."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from autogen_core.models import UserMessage

from memory_context import AgentMemory, MemoryContext, MemoryStore
from memory_context.foundation.errors import SessionBusyError, StoreUnavailableError
from memory_context.sessions.live import redis as claims_module
from memory_context.sessions.live.cache import SessionCache
from memory_context.sessions.live.claims import Claims, SessionKey
from memory_context.sessions.live.redis import RedisClaims, RedisStates, name_of
from memory_context.testing import CLAIMS_CHECKS
from tests.conftest import StartPython
from tests.support.redis_server import RedisServer, redis_server
from tests.support.waiting import PATIENT_SECONDS, soon, until

from .fakes import Archive, key_of

KEY = key_of("s")
_ = redis_server  # a fixture
Check = Callable[[Claims, Claims], Awaitable[None]]

HOLD_UNTIL_ASKED = """
import asyncio
from memory_context.sessions.live.cache import SessionCache
from memory_context.sessions.live.claims import SessionKey
from memory_context.sessions.live.redis import RedisClaims, RedisStates
from memory_context.sessions.live.redis import name_of
from tests.live_sessions.fakes import Archive

KEY = SessionKey("alice", "coder", "s")

async def main():
    archive = Archive()
    cache = SessionCache(archive.make, claims=RedisClaims(URL, lease_seconds=LEASE), states=RedisStates(URL))
    async with cache.hold(KEY) as session:
        session.add("one")
    print("idle", flush=True)
    await session.is_closed.wait()
    await cache.close()
    print(archive.lines[KEY], cache.stats.handovers, flush=True)

asyncio.run(main())
"""


@pytest.fixture
async def claims(redis_server: RedisServer) -> AsyncIterator[RedisClaims]:
    claims = RedisClaims(redis_server.url)
    yield claims
    await claims.close()


@pytest.fixture
async def others(redis_server: RedisServer) -> AsyncIterator[RedisClaims]:
    """Claims of what could be another process."""
    claims = RedisClaims(redis_server.url)
    yield claims
    await claims.close()


@pytest.fixture
async def states(redis_server: RedisServer) -> AsyncIterator[RedisStates]:
    states = RedisStates(redis_server.url)
    yield states
    await states.close()


def script_for(server: RedisServer, lease_seconds: float) -> str:
    """Return a process that holds a session until it is asked."""
    return HOLD_UNTIL_ASKED.replace("URL", repr(server.url)).replace("LEASE", str(lease_seconds))


@pytest.mark.parametrize("check", CLAIMS_CHECKS, ids=lambda check: check.__name__)
async def test_claims_keep_the_contract(check: Check, claims: RedisClaims, others: RedisClaims) -> None:
    """The same for every implementation; the tests below are about this one."""
    await check(claims, others)


async def test_refused_claim_says_which_session_is_busy(claims: RedisClaims, others: RedisClaims) -> None:
    await claims.claim(KEY, 0)
    with pytest.raises(
        SessionBusyError, match=r"another process is at work on session 's' .* within 0.05 s; try again"
    ):
        await others.claim(KEY, 0.05)


async def test_who_is_told_that_a_session_is_free_need_not_wait(
    claims: RedisClaims, others: RedisClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for the next attempt, which here would come in an hour."""
    await claims.claim(key_of("t"), 0)
    is_asked = asyncio.Event()
    claims.watch(lambda _: is_asked.set(), lambda _: None)
    with pytest.raises(SessionBusyError):  # until both hear each other
        await others.claim(key_of("t"), 0.3)
    await soon(is_asked)
    monkeypatch.setattr("memory_context.sessions.live.redis._RETRY_SECONDS", (3600, 3600))
    await claims.claim(KEY, 0)
    is_asked.clear()
    waiting = asyncio.create_task(others.claim(KEY, 7200))
    await soon(is_asked)
    await claims.release(KEY)
    await soon(waiting)


async def test_wait_between_attempts_at_a_claim_is_limited(
    claims: RedisClaims, others: RedisClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It doubles up to the limit only: without one the sixteenth attempt would come after 30 s."""
    monkeypatch.setattr("memory_context.sessions.live.redis._RETRY_SECONDS", (0.001, 0.002))
    asked: list[str] = []
    is_asked_often = asyncio.Event()
    run = others._server.run

    async def counting(script: str, keys: Sequence[str], *arguments: str) -> Any:
        asked.append(script)
        if len(asked) == 16:
            is_asked_often.set()
        return await run(script, keys, *arguments)

    await claims.claim(KEY, 0)
    monkeypatch.setattr(others._server, "run", counting)
    waiting = asyncio.create_task(others.claim(KEY, 3600))
    await soon(is_asked_often)
    await claims.release(KEY)
    await waiting


async def test_a_cancelled_claim_leaves_nothing(claims: RedisClaims, others: RedisClaims) -> None:
    """Wherever it is cancelled: whoever claims next has the session, and has it alone."""
    await claims.claim(key_of("t"), 0)
    client = claims._server.client
    finished = steps = 0
    while finished < 3:
        claim = asyncio.create_task(claims.claim(KEY, 5))
        for _ in range(steps):
            await asyncio.sleep(0)
        claim.cancel()
        (outcome,) = await asyncio.gather(claim, return_exceptions=True)
        if outcome is None:
            finished += 1
            await claims.release(KEY)
        if steps % 2:
            await claims.claim(KEY, 5)
            with pytest.raises(SessionBusyError):
                await others.claim(KEY, 0)
            await claims.release(KEY)
        else:  # nobody asked, and it is given back all the same
            await claims._returning.wait()
        assert len(await client.keys("*:claim:*")) == 1
        steps += 1


async def test_claims_are_renewed(redis_server: RedisServer, others: RedisClaims) -> None:
    """They get the whole lease again before it ends; let go at the end, they are free."""
    claims = RedisClaims(redis_server.url, lease_seconds=6)
    lost: list[SessionKey] = []
    claims.watch(lambda _: None, lost.append)
    await claims.claim(KEY, 0)
    client = claims._server.client
    (name,) = await client.keys("*:claim:*")
    await client.pexpire(name, 5_000)

    async def is_renewed() -> bool:
        return await client.pttl(name) > 5_000

    await until(is_renewed)
    with pytest.raises(SessionBusyError):
        await others.claim(KEY, 0)
    assert lost == []
    await claims.close()
    await others.claim(KEY, 0)


async def test_claims_that_cannot_be_renewed_are_lost(redis_server: RedisServer) -> None:
    """Before anybody else can have them."""
    claims = RedisClaims(redis_server.url, lease_seconds=3)
    is_lost = asyncio.Event()
    claims.watch(lambda _: None, lambda _: is_lost.set())
    await claims.claim(KEY, 0)
    with redis_server.hanging():
        await soon(is_lost, 3)
        await claims.release(KEY)
    await claims.claim(KEY, 5)
    await claims.close()


async def test_only_claims_that_another_has_by_now_are_lost(
    claims: RedisClaims, others: RedisClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it stands among those that are renewed together."""
    monkeypatch.setattr("memory_context.sessions.live.redis._RENEWED_AT_ONCE", 2)
    keys = [key_of(str(number)) for number in range(5)]
    lost: list[SessionKey] = []
    claims.watch(lambda _: None, lost.append)
    for key in keys:
        await claims.claim(key, 0)
    for key in (keys[1], keys[2]):
        await claims._server.client.delete(claims._key(name_of(key)))
        await others.claim(key, 0)
    await claims._renew()
    assert lost == [keys[1], keys[2]]
    for key in (keys[0], keys[3], keys[4]):
        with pytest.raises(SessionBusyError):
            await others.claim(key, 0)
    await claims.release(keys[1])  # which is another's by now
    with pytest.raises(SessionBusyError):
        await claims.claim(keys[1], 0)


async def test_process_that_was_held_up_longer_than_its_leases_takes_its_claims_for_lost(claims: RedisClaims) -> None:
    """Without asking: another process may have had a session meanwhile, and have let go of it again."""
    lost: list[SessionKey] = []
    claims.watch(lambda _: None, lost.append)
    await claims.claim(KEY, 0)
    claims._renewed_at -= 0.7 * claims._lease_seconds
    await claims._renew()
    assert lost == []
    claims._renewed_at -= 0.9 * claims._lease_seconds
    await claims._renew()
    assert lost == [KEY]
    await claims.claim(KEY, 0)


async def test_a_restarted_redis_loses_the_claims_at_once(redis_server: RedisServer) -> None:
    """It has forgotten them; the holder learns it when it is back, long before a third of the lease."""
    claims, others = RedisClaims(redis_server.url, lease_seconds=60), RedisClaims(redis_server.url)
    is_lost, is_asked = asyncio.Event(), asyncio.Event()
    claims.watch(lambda _: is_asked.set(), lambda _: is_lost.set())
    await claims.claim(KEY, 0)
    asking = asyncio.create_task(others.claim(KEY, 10))
    await soon(is_asked)  # so it listens
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await others.close()
    await redis_server.stop()
    await redis_server.start()
    await soon(is_lost)
    await claims.claim(KEY, 5)
    await claims.close()


async def test_a_redis_that_hangs_or_is_gone_holds_nobody_up(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything ends, with what to do, though Redis never answers."""
    before = RedisStates(redis_server.url)
    await before.save(KEY, {})
    monkeypatch.setattr("memory_context.sessions.live.redis._ANSWER_SECONDS", 0.1)
    claims, states = RedisClaims(redis_server.url, lease_seconds=0.5), RedisStates(redis_server.url)
    states._server.answer_seconds = 0.1
    for operation in (lambda: claims.claim(KEY, 0), lambda: states.load(KEY)):  # so that both are connected
        await answered(operation)

    async def try_everything() -> None:
        for operation in (
            claims.claim(key_of("t"), 0),
            states.save(KEY, {}),
            states.load(KEY),
            states.delete(KEY),
        ):
            with pytest.raises(StoreUnavailableError, match=r"Redis does not answer.*redis\.sock"):
                await soon(operation)

    with redis_server.hanging():
        await try_everything()
    assert await answered(lambda: states.load(KEY)) == {}
    await redis_server.stop()
    await try_everything()
    for operation in (claims.release(KEY), claims.close(), states.close(), before.close()):
        await soon(operation)


async def answered(operation: Callable[[], Awaitable[Any]]) -> Any:
    """Return the result of an operation that a busy machine may not answer in its short time."""
    deadline = time.monotonic() + PATIENT_SECONDS
    while True:
        try:
            return await operation()
        except StoreUnavailableError:
            assert time.monotonic() < deadline


async def test_a_cache_in_another_process_hands_a_session_over(
    redis_server: RedisServer, start_python: StartPython
) -> None:
    """With its state: what was said and is not archived is known here."""
    process = await start_python(script_for(redis_server, 30))
    assert process.stdout is not None
    assert await process.stdout.readline() == b"idle\n"
    archive = Archive()
    cache = SessionCache(archive.make, claims=RedisClaims(redis_server.url), states=RedisStates(redis_server.url))
    async with cache.hold(KEY) as session:
        assert session.messages == ["one"]
        assert await process.stdout.readline() == b"[] 1\n"
    out, err = await soon(process.communicate())
    assert (process.returncode, out, err) == (0, b"", b"")
    await cache.close()
    assert archive.lines[KEY] == ["one"]


async def test_the_sessions_of_a_killed_process_are_free_after_their_lease(
    redis_server: RedisServer, start_python: StartPython
) -> None:
    """And go on with what the last hold ended with."""
    process = await start_python(script_for(redis_server, 2))
    assert process.stdout is not None
    assert await process.stdout.readline() == b"idle\n"
    process.kill()
    await process.wait()
    cache = SessionCache(
        Archive().make, claims=RedisClaims(redis_server.url, lease_seconds=2), states=RedisStates(redis_server.url)
    )
    async with cache.hold(KEY) as session:
        assert session.messages == ["one"]
    await cache.close()


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
    await context.add_message(UserMessage(content="my locker is number 4471 at the kestrel pier", source="user"))
    ref = await AgentMemory(store, "alice", "coder", "s").store("number 4471 at the kestrel pier")
    await states.save(context.key, await context.save_state())
    await context.close()
    await AgentMemory(store, "alice", "coder", "s").forget(ref.key)
    state = str(await states.load(context.key))
    assert "my locker is [forgotten]" in state
    assert "kestrel" not in state
    (name,) = await states._server.client.keys("*")
    assert 0 < await states._server.client.ttl(name) <= 1000
    await states.close()


async def test_a_state_is_kept_for_a_time(redis_server: RedisServer) -> None:
    """After that the archive has the session."""
    states = RedisStates(redis_server.url, keep_seconds=1000)
    await states.save(KEY, {"a": "b" * 1000})
    client = states._server.client
    (name,) = await client.keys("*")
    assert name.startswith(b"memory_context:state:")
    assert b"alice" not in name
    assert 990 < await client.ttl(name) <= 1000
    assert await client.strlen(name) < 100
    await states.close()


async def test_a_state_that_cannot_be_read_is_none(states: RedisStates, caplog: pytest.LogCaptureFixture) -> None:
    """The session then comes from the archive, instead of not at all."""
    await states.save(KEY, {})
    client = states._server.client
    (name,) = await client.keys("*")
    await client.set(name, b"nonsense")
    assert await states.load(KEY) is None
    assert "cannot be read" in caplog.text


def test_without_redis_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_context.sessions.live.redis.find_spec", lambda name: None)
    for make in (RedisClaims, RedisStates):
        with pytest.raises(ImportError, match=rf"{make.__name__} needs .* pip install 'memory-context\[redis\]'"):
            make("redis://localhost")


def test_an_address_that_is_none_is_refused_without_showing_it() -> None:
    """Nor does any other text show a password."""
    for url in ("http://localhost", "localhost:6379", "redis://user:pass/word@localhost"):
        with pytest.raises(ValueError, match="cannot be read") as caught:
            RedisClaims(url)
        assert "word" not in str(caught.value).replace("password", "")
    claims = RedisClaims("redis://user:secret@localhost:1/0?password=other")
    assert claims._server.place == "redis://localhost:1/0"


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


async def test_process_paused_for_longer_than_its_lease_while_it_claims_holds_nothing(
    claims: RedisClaims, others: RedisClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis granted the claim, the lease ended, and another process took the session before the answer was read."""
    paused_for = [0.0]
    monkeypatch.setattr(claims_module, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + paused_for[0]))
    run, is_first = claims._server.run, True

    async def pause_after_the_answer(script: str, *arguments: Any) -> Any:
        nonlocal is_first
        answer = await run(script, *arguments)
        if is_first:
            is_first = False
            await claims._server.client.delete(claims._key(name_of(KEY)))  # as Redis does when the lease ends
            await others.claim(KEY, 0)
            paused_for[0] = claims._lease_seconds + 1
        return answer

    monkeypatch.setattr(claims._server, "run", pause_after_the_answer)
    with pytest.raises(SessionBusyError):
        await claims.claim(KEY, 0)
    assert not claims._held
    await others.release(KEY)
    await claims.claim(KEY, 5)  # as soon as it is free


async def test_process_paused_while_it_claims_has_a_whole_lease_if_nobody_came(
    claims: RedisClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused_for = [0.0]
    monkeypatch.setattr(claims_module, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + paused_for[0]))
    run, asked = claims._server.run, 0

    async def pause_after_the_first_answer(script: str, *arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        answer = await run(script, *arguments)
        paused_for[0] = claims._lease_seconds + 1
        return answer

    monkeypatch.setattr(claims._server, "run", pause_after_the_first_answer)
    await claims.claim(KEY, 0)
    assert asked == 2
    assert claims._renewed_at >= claims._lease_seconds + 1
