"""Claims by Postgres: of one process at a time, asked for and handed over, free when a process or connection dies."""

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import DictRow

from memory_context import AgentMemory
from memory_context.foundation.errors import SessionBusyError, StoreError, StoreUnavailableError
from memory_context.sessions.live.cache import SessionCache
from memory_context.sessions.live.claims import Claims, SessionKey
from memory_context.store import embedded
from memory_context.store.items import NewItem
from memory_context.store.limits import StoreLimits
from memory_context.store.memory_store import MemoryStore
from memory_context.store.pool import Connection
from memory_context.store.session_locks import AdvisoryClaims, _number_of
from memory_context.store.sql import Statement
from memory_context.testing import CLAIMS_CHECKS
from tests.conftest import Server, StartPython, database_of, needs
from tests.support.outages import hanging
from tests.support.scratch import SCRATCH
from tests.support.statements import login_of
from tests.support.waiting import seconds_waited, soon

from .fakes import Archive, key_of

pytestmark = pytest.mark.thorough

KEY = key_of("s")
Check = Callable[[Claims, Claims], Awaitable[None]]

HOLD_UNTIL_ASKED = """
import asyncio, sys
from memory_context.sessions.live.cache import SessionCache
from memory_context.sessions.live.claims import SessionKey
from memory_context.store.memory_store import MemoryStore
from tests.live_sessions.fakes import Archive

KEY = SessionKey("alice", "coder", "s")

async def main():
    archive = Archive()
    async with MemoryStore(sys.argv[1]) as store:
        cache = SessionCache(archive.make, claims=store.advisory_claims())
        async with cache.hold(KEY) as session:
            session.add("one")
        print("idle", flush=True)
        await session.is_closed.wait()
        await cache.close()
        print(archive.lines[KEY], cache.stats.handovers, flush=True)

asyncio.run(main())
"""


@pytest.fixture
async def claims(store: MemoryStore) -> AsyncIterator[AdvisoryClaims]:
    claims = store.advisory_claims()
    yield claims
    await claims.close()


@pytest.fixture
async def others(database_url: str) -> AsyncIterator[AdvisoryClaims]:
    """Claims of what could be another process."""
    async with MemoryStore(database_url) as store:
        claims = store.advisory_claims()
        yield claims
        await claims.close()


def locks(server: Server, database_url: str) -> int:
    """Return how many advisory locks there are in this database."""
    query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"
    query += " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    ((count,),) = server.execute(query, database_of(database_url))
    assert isinstance(count, int)
    return count


@pytest.mark.parametrize("check", CLAIMS_CHECKS, ids=lambda check: check.__name__)
async def test_claims_keep_the_contract(check: Check, claims: AdvisoryClaims, others: AdvisoryClaims) -> None:
    """The same for every implementation; the tests below are about this one."""
    await check(claims, others)


async def test_refused_claim_says_which_session_is_busy(claims: AdvisoryClaims, others: AdvisoryClaims) -> None:
    await claims.claim(KEY, 0)
    with pytest.raises(
        SessionBusyError, match=r"another process is at work on session 's' .* within 0.05 s; try again"
    ):
        await others.claim(KEY, 0.05)


async def test_who_is_told_that_a_session_is_free_need_not_wait(
    claims: AdvisoryClaims, others: AdvisoryClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for the next attempt, which here would come in an hour."""
    monkeypatch.setattr("memory_context.store.session_locks._RETRY_SECONDS", (3600, 3600))
    is_asked = asyncio.Event()
    claims.watch(lambda _: is_asked.set(), lambda _: None)
    await claims.claim(KEY, 0)
    waiting = asyncio.create_task(others.claim(KEY, 7200))
    await soon(is_asked)
    await claims.release(KEY)
    await soon(waiting)


async def test_many_claims_travel_together(claims: AdvisoryClaims, server: Server, database_url: str) -> None:
    """And all are given back."""
    keys = [key_of(str(number)) for number in range(200)]
    await asyncio.gather(*(claims.claim(key, 5) for key in keys))
    assert locks(server, database_url) == 200
    await asyncio.gather(*(claims.release(key) for key in keys))
    assert locks(server, database_url) == 0


async def test_a_cancelled_claim_leaves_no_lock(claims: AdvisoryClaims, server: Server, database_url: str) -> None:
    """Wherever it is cancelled, and others keep theirs."""
    kept = key_of("kept")
    await claims.claim(kept, 0)
    lost: list[SessionKey] = []
    claims.watch(lambda _: None, lost.append)
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
        await claims.claim(KEY, 5)  # after whatever is still on its way
        await claims.release(KEY)
        assert locks(server, database_url) == 1
        steps += 1
    assert lost == []


async def test_a_cancelled_wait_leaves_no_lock(
    claims: AdvisoryClaims, others: AdvisoryClaims, server: Server, database_url: str
) -> None:
    is_asked = asyncio.Event()
    claims.watch(lambda _: is_asked.set(), lambda _: None)
    await claims.claim(KEY, 0)
    waiting = asyncio.create_task(others.claim(KEY, 10))
    await soon(is_asked)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await claims.release(KEY)
    await others.claim(key_of("t"), 5)
    assert locks(server, database_url) == 1


async def test_a_lost_connection_loses_all_claims_at_once(
    claims: AdvisoryClaims, others: AdvisoryClaims, server: Server
) -> None:
    """Without anybody asking; the next claim has another connection."""
    lost: list[SessionKey] = []
    is_lost = asyncio.Event()

    def lose(key: SessionKey) -> None:
        lost.append(key)
        if len(lost) == 2:
            is_lost.set()

    claims.watch(lambda _: None, lose)
    for key in (KEY, key_of("t")):
        await claims.claim(key, 0)
    server.execute("SELECT pg_terminate_backend(pid, 5000) FROM pg_locks WHERE locktype = 'advisory'")
    await soon(is_lost)
    assert set(lost) == {KEY, key_of("t")}
    await others.claim(KEY, 1)
    await claims.claim(key_of("t"), 1)
    await claims.release(KEY)  # which is another's by now
    with pytest.raises(SessionBusyError):
        await claims.claim(KEY, 0)


async def test_claim_lost_before_its_caller_hears_of_it_is_claimed_again(
    claims: AdvisoryClaims, others: AdvisoryClaims, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks after the answer: to go on as its holder would let two processes hold one session."""
    run = claims._run
    lost_after: list[str] = []

    async def run_and_lose(connection: Connection, name: str, params: Mapping[str, Any] | None = None) -> list[DictRow]:
        rows = await run(connection, name, params)
        if name == "claim_sessions" and not lost_after:
            lost_after.append(name)
            assert rows[0]["is_mine"]
            pid = connection.pgconn.backend_pid
            assert server.execute(f"SELECT pg_terminate_backend({pid}, 5000)") == [(True,)]
            with suppress(psycopg.Error):  # the server's last words, so that the loss is noticed in the next turn
                connection.pgconn.consume_input()
        return rows

    monkeypatch.setattr(claims, "_run", run_and_lose)
    await claims.claim(KEY, 5)
    assert lost_after == ["claim_sessions"]
    with pytest.raises(SessionBusyError):
        await others.claim(KEY, 0)


async def test_wait_between_attempts_at_a_claim_is_limited(
    claims: AdvisoryClaims, others: AdvisoryClaims, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It doubles up to the limit only: without one the sixteenth attempt would come after 30 s."""
    monkeypatch.setattr("memory_context.store.session_locks._RETRY_SECONDS", (0.001, 0.002))
    asked: list[SessionKey] = []
    is_asked_often = asyncio.Event()

    def wanted(key: SessionKey) -> None:
        asked.append(key)
        if len(asked) == 16:
            is_asked_often.set()

    claims.watch(wanted, lambda _: None)
    await claims.claim(KEY, 0)
    waiting = asyncio.create_task(others.claim(KEY, 3600))
    await soon(is_asked_often)
    await claims.release(KEY)
    await waiting


async def test_seconds_for_an_answer_are_counted_from_each_question(claims: AdvisoryClaims) -> None:
    """The connection lasts, and what it was allowed before has long passed."""
    lost: list[SessionKey] = []
    claims.watch(lambda _: None, lost.append)
    await claims.claim(KEY, 0)
    assert claims._connection is not None
    claims._connection.allow(0)
    await claims.claim(key_of("t"), 0)
    assert lost == []


async def test_a_restarted_server_loses_the_claims_and_gives_new_ones(home: Path) -> None:
    """While it is down a claim says so, at once."""
    url = make_conninfo(**embedded.start(home))
    async with MemoryStore(url) as store:
        claims = store.advisory_claims()
        is_lost = asyncio.Event()
        claims.watch(lambda _: None, lambda _: is_lost.set())
        await claims.claim(KEY, 0)
        await asyncio.to_thread(embedded.release, home)
        await soon(is_lost)
        with seconds_waited() as waited, pytest.raises(StoreUnavailableError, match="does not answer"):
            await claims.claim(KEY, 10)
        assert waited() < 5
        await claims.release(KEY)
        embedded.start(home)
        await claims.claim(KEY, 0)
        await claims.close()


async def test_a_hanging_server_holds_nobody_up(
    store: MemoryStore, claims: AdvisoryClaims, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claim and release end in time; what was held is lost, as nobody can say whose it is."""
    lost: list[SessionKey] = []
    claims.watch(lambda _: None, lost.append)
    await claims.claim(KEY, 0)
    quick = StoreLimits(transaction_seconds=0.2, opening_seconds=0.2)
    monkeypatch.setattr(store._database, "limits", quick)
    with hanging(server):
        with seconds_waited() as waited, pytest.raises(StoreUnavailableError, match="does not answer"):
            await claims.claim(key_of("t"), 0.1)
        assert waited() < 2
        await claims.release(KEY)
    monkeypatch.undo()
    await claims.claim(KEY, 5)


async def test_connection_that_falls_silent_loses_its_claims_without_being_asked(
    store: MemoryStore, claims: AdvisoryClaims, server: Server
) -> None:
    """A silent connection brings no request of another process, so it is probed while it keeps claims."""
    is_lost = asyncio.Event()
    claims.watch(lambda _: None, lambda _: is_lost.set())
    store._database.limits = StoreLimits(probe_seconds=0.05)
    await claims.claim(KEY, 5)
    with hanging(server):
        store._database.limits = StoreLimits(transaction_seconds=0.5, probe_seconds=0.05)
        await soon(is_lost)
    store._database.limits = StoreLimits()
    await claims.claim(KEY, 5)


async def test_a_cache_in_another_process_hands_a_session_over(
    store: MemoryStore, database_url: str, start_python: StartPython
) -> None:
    """It archives what was said and lets go, as soon as it is asked."""
    process = await start_python(HOLD_UNTIL_ASKED.replace("sys.argv[1]", repr(database_url)))
    assert process.stdout is not None
    assert await process.stdout.readline() == b"idle\n"
    cache = SessionCache(Archive().make, claims=store.advisory_claims())
    async with cache.hold(KEY) as session:
        assert await process.stdout.readline() == b"['one'] 1\n"
        session.add("two")
    out, err = await soon(process.communicate())
    assert (process.returncode, out, err) == (0, b"", b"")
    await cache.close()


async def test_a_killed_process_lets_go(claims: AdvisoryClaims, database_url: str, start_python: StartPython) -> None:
    """The server notices by itself; no lease has to end first."""
    process = await start_python(HOLD_UNTIL_ASKED.replace("sys.argv[1]", repr(database_url)))
    assert process.stdout is not None
    assert await process.stdout.readline() == b"idle\n"
    os.kill(process.pid, signal.SIGSTOP)  # so that it cannot be asked
    with pytest.raises(SessionBusyError):
        await claims.claim(KEY, 0.1)
    os.kill(process.pid, signal.SIGKILL)
    await claims.claim(KEY, 10)


async def test_words_of_others_on_the_channel_are_ignored(
    claims: AdvisoryClaims, server: Server, database_url: str
) -> None:
    """Anybody in the database may notify."""
    await claims.claim(KEY, 0)
    for words in ("", "wanted", "wanted x", "released 5", "wanted 5", "nonsense"):
        server.execute(f"SELECT pg_notify('memory_context_sessions', '{words}')", database_of(database_url))
    await claims.claim(key_of("t"), 0)


async def test_a_request_that_comes_while_something_else_is_asked_is_heard(
    claims: AdvisoryClaims, server: Server, database_url: str
) -> None:
    """It arrives with the answer to that."""
    is_asked = asyncio.Event()
    claims.watch(lambda _: is_asked.set(), lambda _: None)
    await claims.claim(KEY, 0)
    words = f"wanted {_number_of(KEY)}"
    server.execute(f"SELECT pg_notify('memory_context_sessions', '{words}')", database_of(database_url))
    await claims.claim(key_of("t"), 0)
    await soon(is_asked)


async def start_pooler(server: Server, folder: Path, database: str, mode: str) -> asyncio.subprocess.Process:
    """Start PgBouncer in front of a database; its socket is in the folder."""
    users = folder / "users.txt"
    users.write_text(f'"postgres" ""\n"{login_of(database)}" ""\n')
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n{database} = host={server.params['host']} port={server.params['port']}\n"
        f"[pgbouncer]\npool_mode = {mode}\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = {folder}\n"
        f"auth_type = trust\nauth_file = {users}\n"
    )
    owner = os.stat(server.params["host"])  # who may enter the server's folder; PgBouncer refuses to run as root
    os.chown(folder, owner.st_uid, owner.st_gid)
    process = await asyncio.create_subprocess_exec(
        needs("pgbouncer"),
        str(config),
        stderr=asyncio.subprocess.PIPE,
        **({"user": owner.st_uid, "group": owner.st_gid, "extra_groups": []} if os.geteuid() == 0 else {}),
    )
    assert process.stderr is not None
    said = b""
    while b"process up" not in said:
        said = await soon(process.stderr.readline())
        assert said, "PgBouncer did not start"
    return process


@pytest.fixture
async def pooled(request: pytest.FixtureRequest, server: Server, database_url: str) -> AsyncIterator[str]:
    """The address of the database behind PgBouncer in a mode."""
    folder = Path(tempfile.mkdtemp(prefix="mc-pool-", dir=SCRATCH))
    process = await start_pooler(server, folder, database_of(database_url), request.param)
    yield make_conninfo(**{**conninfo_to_dict(database_url), "host": str(folder), "port": "6432"})
    process.terminate()
    await process.communicate()
    shutil.rmtree(folder)


@pytest.mark.parametrize("pooled", ["transaction"], indirect=True)
async def test_a_pooler_that_lends_connections_is_refused(pooled: str, server: Server, database_url: str) -> None:
    """With what to do instead; the store itself works there, and no lock stays behind."""
    async with MemoryStore(pooled) as store:
        claims = store.advisory_claims()
        with pytest.raises(StoreError, match="a direct address, or use RedisClaims") as caught:
            await claims.claim(KEY, 0)
        assert not isinstance(caught.value, StoreUnavailableError)
        assert locks(server, database_url) == 0
        assert await store.items.fetch_memory("alice", "k") is None
        await claims.close()


@pytest.mark.parametrize("pooled", ["transaction"], indirect=True)
async def test_searches_behind_a_pooler_that_lends_connections_leave_no_plans_on_them(pooled: str) -> None:
    """Two clients in turn on one connection of the server, which would know the statements of the other."""
    async with MemoryStore(pooled) as store, MemoryStore(pooled) as other_store:
        await store.items.insert_memories("alice", [NewItem("the invoice of May", "a summary", 3, key="k")])
        await store.flush_index()
        for _ in range(2):
            for one in (store, other_store):
                assert [hit.item.key for hit in await AgentMemory(one, "alice").search("invoice of May")] == ["k"]
        kept = Statement(b"SELECT count(*) AS statements FROM pg_prepared_statements")
        assert await store._database.read("alice", kept) == [[{"statements": 0}]]


@pytest.mark.parametrize("pooled", ["session"], indirect=True)
async def test_a_pooler_that_keeps_connections_apart_is_fine(pooled: str) -> None:
    async with MemoryStore(pooled) as store, MemoryStore(pooled) as other_store:
        claims, others = store.advisory_claims(), other_store.advisory_claims()
        is_asked = asyncio.Event()
        claims.watch(lambda _: is_asked.set(), lambda _: None)
        await claims.claim(KEY, 0)
        waiting = asyncio.create_task(others.claim(KEY, 10))
        await soon(is_asked)
        await claims.release(KEY)
        await waiting
        await claims.close()
        await others.close()


def test_a_program_may_end_without_letting_go(database_url: str) -> None:
    """Its event loop too; nothing waits for it, and nothing is said."""

    async def claim() -> None:
        await MemoryStore(database_url).advisory_claims().claim(KEY, 0)

    asyncio.run(claim())
    with psycopg.connect(database_url):
        pass
