"""Claims: a session belongs to one process at a time, by the database's clock, and never to a process that is gone."""

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from memory_context import AgentMemory, MemoryStore
from memory_context.foundation.errors import SessionBusyError, StoreUnavailableError
from memory_context.foundation.identifiers import SessionKey
from memory_context.sessions.live.cache import SessionCache
from memory_context.sessions.live.claims import Claims
from memory_context.store import embedded
from memory_context.store.conversations import LEAST_SECONDS
from memory_context.store.items import NewItem
from memory_context.store.limits import StoreLimits
from memory_context.store.sql import Statement
from tests.conftest import Server, StartPython, database_of, needs
from tests.support.outages import hanging
from tests.support.scratch import SCRATCH
from tests.support.statements import login_of
from tests.support.waiting import PATIENT_SECONDS, seconds_waited, soon, until

from .fakes import Archive, key_of, settled, take_away

KEY = key_of("s")

HOLDER = """
import asyncio, sys
from memory_context import MemoryStore, SessionBusyError
from memory_context.sessions.live.cache import SessionCache
from tests.live_sessions.fakes import Archive, key_of

async def next_line():
    return await asyncio.to_thread(sys.stdin.readline)

async def main():
    archive = Archive()
    async with MemoryStore(URL) as store:
        cache = SessionCache(archive.make, memory_store=store)
        try:
            async with cache.hold(key_of("s")) as session:
                session.add("one")
                if IS_AT_WORK:
                    print("at work", flush=True)
                    await next_line()
            print("idle", flush=True)
        except SessionBusyError as error:
            print("lost", flush=True)
        await session.is_closed.wait()
        await cache.close()
        print(archive.lines[key_of("s")], cache.stats.handovers, flush=True)

asyncio.run(main())
"""


class Watched(Claims):
    """Claims that note which sessions others want, and which are lost."""

    def __init__(self, store: MemoryStore) -> None:
        self.wanted: list[SessionKey] = []
        self.lost: list[SessionKey] = []
        super().__init__(store.claim_rows, self.wanted.append, self.lost.append)


@pytest.fixture
async def claims(store: MemoryStore) -> AsyncIterator[Watched]:
    claims = Watched(store)
    yield claims
    await claims.close()


@pytest.fixture
async def others(database_url: str) -> AsyncIterator[Watched]:
    """Claims of what could be another process."""
    async with MemoryStore(database_url) as store:
        claims = Watched(store)
        yield claims
        await claims.close()


async def rows(store: MemoryStore) -> list[dict[str, object]]:
    """Return alice's claims."""
    statement = (
        b"SELECT *, claimed_until > now() AS is_held FROM memory_context.session_claims WHERE user_id = %(user_id)s"
    )
    (found,) = await store._database.read("alice", Statement(statement))
    return found


async def move_end(store: MemoryStore, seconds: float) -> None:
    """Move the end of alice's leases, as time does."""
    statement = b"""UPDATE memory_context.session_claims
        SET claimed_until = claimed_until + make_interval(secs => %(seconds)s::float8) WHERE user_id = %(user_id)s"""
    await store._database.write("alice", Statement(statement, {"seconds": seconds}))


async def test_confirmations_at_the_same_time_share_a_statement(store: MemoryStore, claims: Watched) -> None:
    """Each one asks in a statement that began after it was called, also those that come while one is under way."""
    held = [await claims.claim(key_of(f"s{number}"), 0) for number in range(20)]
    before = store._database.write_transactions
    first = [asyncio.ensure_future(claims.confirm(one)) for one in held[:10]]
    await asyncio.sleep(0)
    assert all(await asyncio.gather(*first, *map(claims.confirm, held[10:])))
    assert store._database.write_transactions - before <= 4  # two, and the regular renewals


async def test_a_lost_claim_among_others_is_told_apart(store: MemoryStore, claims: Watched) -> None:
    held = [await claims.claim(key_of(f"s{number}"), 0) for number in range(3)]
    await store.claim_rows.release(key_of("s1"), held[1])
    assert await asyncio.gather(*map(claims.confirm, held)) == [True, False, True]


async def test_claim_belongs_to_one_holder_until_it_is_released(claims: Watched, others: Watched) -> None:
    """The other is told which session is busy; another user's session of this name is another one."""
    claim = await claims.claim(KEY, 0)
    await others.claim(KEY._replace(user_id="bob"), 0)
    with pytest.raises(SessionBusyError, match=r"another process is at work on session 's' .* within 0.05 s"):
        await others.claim(KEY, 0.05)
    await claims.release(claim)
    await others.claim(KEY, PATIENT_SECONDS)  # what gave up waiting is passed over first
    await claims.release(claim)  # is not its any more
    with pytest.raises(SessionBusyError):
        await claims.claim(KEY, 0)


async def test_holder_hears_that_session_is_wanted_and_release_passes_it_on(
    claims: Watched, others: Watched, store: MemoryStore
) -> None:
    """Before anybody else can have it, who asked first has it; nothing is left in the end."""
    claim = await claims.claim(KEY, 0)
    waiting = asyncio.create_task(others.claim(KEY, 60))
    await until(lambda: KEY in claims.wanted)
    late = asyncio.create_task(claims.claim(KEY, 60))
    await claims.release(claim)
    passed = await soon(waiting)
    await until(lambda: KEY in others.wanted)
    assert not late.done()
    await others.release(passed)
    await claims.release(await soon(late))
    assert await rows(store) == []


@pytest.mark.parametrize("is_held", [False, True])
async def test_cancelled_claim_leaves_nothing_behind(
    claims: Watched, others: Watched, store: MemoryStore, is_held: bool
) -> None:
    """Wherever it is cancelled: neither a claim nor a wish."""
    held = await others.claim(KEY, 0) if is_held else None
    for steps in range(0, 40, 3):
        claiming = asyncio.create_task(claims.claim(KEY, 60))
        for _ in range(steps):
            await asyncio.sleep(0)
        claiming.cancel()
        (outcome,) = await asyncio.gather(claiming, return_exceptions=True)
        if isinstance(outcome, UUID):
            await claims.release(outcome)
        await claims.close()
        assert [(row["claimed_by"], row["wanted_by"]) for row in await rows(store)] == ([(held, None)] if held else [])


async def test_closing_releases_all_claims(claims: Watched, others: Watched) -> None:
    keys = [key_of(str(number)) for number in range(3)]
    for key in keys:
        await claims.claim(key, 0)
    await claims.close()
    for key in keys:
        await others.claim(key, 0)


async def test_one_statement_renews_claims_of_all_users(
    claims: Watched, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each poll; what was claimed by others meanwhile, or is gone, is lost, and only that."""
    keys = [SessionKey(user, "coder", "s") for user in ("alice", "bob", "carol", "dave")]
    held = {key: await claims.claim(key, 0) for key in keys}
    await take_away(store, keys[1])
    await store.claim_rows.release(keys[2], held[keys[2]])
    await move_end(store, -4)
    calls: list[int] = []
    renew = store.claim_rows.renew

    async def counted(claims: "list[UUID]") -> tuple[set[UUID], set[UUID]]:
        calls.append(len(claims))
        return await renew(claims)

    monkeypatch.setattr(store.claim_rows, "renew", counted)
    await until(lambda: len(claims.lost) == 2)
    assert set(claims.lost) == {keys[1], keys[2]}
    assert calls[0] == 4
    statement = b"""SELECT claimed_until > now() + interval '8 seconds' AS is_renewed
        FROM memory_context.session_claims WHERE user_id = %(user_id)s"""
    assert await store._database.read("alice", Statement(statement)) == [[{"is_renewed": True}]]


async def test_claim_whose_lease_ran_out_is_free_and_its_holder_learns_it(
    claims: Watched, others: Watched, store: MemoryStore
) -> None:
    """Not if nobody came: then it goes on."""
    claims._timer.plan = lambda seconds: None  # type: ignore[method-assign]  # a process that is stopped renews nothing
    claim = await claims.claim(KEY, 0)
    await move_end(store, -11)
    assert await claims.confirm(claim)
    await move_end(store, -11)
    taken = await others.claim(KEY, 0)
    await others.release(taken)
    assert not await claims.confirm(claim)
    assert claims.lost == [KEY]


@pytest.mark.parametrize("ahead", [86_400, -86_400])
async def test_clock_of_process_does_not_matter(
    claims: Watched, others: Watched, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    """A day off, it neither takes a session of others nor loses its own, and others do not take that."""
    claim = await claims.claim(KEY, 0)
    with monkeypatch.context() as patch:
        for name in ("time", "monotonic"):
            patch.setattr(time, name, lambda real=getattr(time, name): real() + ahead)  # noqa: B008
        with pytest.raises(SessionBusyError):
            await others.claim(KEY, 0)
        assert await claims.confirm(claim)
        await claims.release(claim)
        taken = await others.claim(KEY, PATIENT_SECONDS)
    assert await others.confirm(taken)
    with pytest.raises(SessionBusyError):
        await claims.claim(KEY, 0)


async def test_rows_that_dead_processes_left_go_with_next_claim_of_user(claims: Watched, store: MemoryStore) -> None:
    for name in ("a", "b"):
        await store.claim_rows.claim(key_of(name), UUID(int=1))
    await move_end(store, -3700)
    await claims.claim(KEY, 0)
    assert [row["session_id"] for row in await rows(store)] == ["s"]


async def test_erased_user_has_no_claims(claims: Watched, store: MemoryStore) -> None:
    await claims.claim(KEY, 0)
    await store.erase_user("alice")
    assert await rows(store) == []
    await until(lambda: claims.lost == [KEY])


async def test_login_cannot_see_claims_of_others(claims: Watched, store: MemoryStore) -> None:
    """Nor end one: it would have to guess its random id."""
    await claims.claim(KEY, 0)
    statement = Statement(b"SELECT user_id FROM memory_context.session_claims")
    assert await store._database.read("bob", statement) == [[]]
    assert await store.claim_rows.renew([UUID(int=1)]) == ({UUID(int=1)}, set())


# --- other processes


async def started(start_python: StartPython, url: str, *, is_at_work: bool = False) -> asyncio.subprocess.Process:
    """Return a process that holds the session, or keeps it live."""
    process = await start_python(f"URL, IS_AT_WORK = {url!r}, {is_at_work}\n{HOLDER}")
    assert await process.stdout.readline() == (b"at work\n" if is_at_work else b"idle\n")
    return process


@pytest.mark.thorough
async def test_idle_session_of_another_process_is_handed_over(
    store: MemoryStore, database_url: str, start_python: StartPython
) -> None:
    """It archives what was said and lets go within two polls."""
    process = await started(start_python, database_url)
    cache = SessionCache(Archive().make, memory_store=store)
    with seconds_waited() as waited:
        async with cache.hold(KEY):
            assert waited() < 2  # two polls, and what a busy machine needs
            assert await process.stdout.readline() == b"['one'] 1\n"
    out, err = await soon(process.communicate())
    assert (process.returncode, out, err) == (0, b"", b"")
    await cache.close()


@pytest.mark.thorough
async def test_sessions_of_killed_process_are_free_after_its_lease(
    claims: Watched, database_url: str, start_python: StartPython
) -> None:
    process = await started(start_python, database_url)
    process.kill()
    await process.wait()
    with pytest.raises(SessionBusyError):
        await claims.claim(KEY, 0)
    with seconds_waited() as waited:
        await claims.claim(KEY, 60)
    assert waited() < 11


@pytest.mark.thorough
@pytest.mark.parametrize("is_at_work", [False, True])
async def test_process_stopped_beyond_its_lease_loses_session_before_it_answers(
    claims: Watched, store: MemoryStore, database_url: str, start_python: StartPython, is_at_work: bool
) -> None:
    """Idle, it drops the session; at work, it may not answer."""
    process = await started(start_python, database_url, is_at_work=is_at_work)
    os.kill(process.pid, signal.SIGSTOP)
    await move_end(store, -10)
    claim = await claims.claim(KEY, 5)
    os.kill(process.pid, signal.SIGCONT)
    if is_at_work:
        process.stdin.write(b"answer\n")
        assert await soon(process.stdout.readline()) == b"lost\n"
    out, err = await soon(process.communicate())
    assert (out, err) == (b"['one'] 0\n", b"")
    assert await claims.confirm(claim)


@pytest.mark.thorough
async def test_live_session_goes_on_while_database_is_away_for_less_than_its_lease(home: Path) -> None:
    """Then it is refused, at once; when the database is back it goes on, since nobody else had it."""
    url = make_conninfo(**embedded.start(home))
    archive = Archive()
    async with MemoryStore(url) as store:
        cache = SessionCache(archive.make, memory_store=store)
        async with cache.hold(KEY) as session:
            session.add("one")
        await asyncio.to_thread(embedded.release, home)

        async def use() -> None:
            async with cache.hold(KEY) as session:
                session.add("two")

        await use()
        (held,) = cache._claims._held.values()
        held.asked_at -= LEAST_SECONDS
        with seconds_waited() as waited, pytest.raises(StoreUnavailableError):
            await use()
        assert waited() < 5
        assert cache.peek(KEY) is session
        embedded.start(home)
        async with cache.hold(KEY) as again:
            assert again is session
        await cache.close()
    assert archive.lines[KEY] == ["one", "two"]


@pytest.mark.thorough
async def test_hanging_server_holds_nobody_up(
    store: MemoryStore, claims: Watched, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claim, confirmation and release end in time; until its lease may have ended a holder goes on."""
    claim = await claims.claim(KEY, 0)
    monkeypatch.setattr(store._database, "limits", StoreLimits(transaction_seconds=0.2, opening_seconds=0.2))
    with hanging(server), seconds_waited() as waited:
        assert await claims.confirm(claim)
        claims._held[claim].asked_at -= LEAST_SECONDS
        for call in (claims.claim(key_of("t"), 0.1), claims.confirm(claim)):
            with pytest.raises(StoreUnavailableError):
                await call
        await claims.release(claim)
        assert waited() < 5
    monkeypatch.undo()
    await claims.claim(KEY, 30)


async def start_pooler(server: Server, folder: Path, database: str) -> asyncio.subprocess.Process:
    """Start PgBouncer in front of a database, in transaction mode; its socket is in the folder."""
    users = folder / "users.txt"
    users.write_text(f'"postgres" ""\n"{login_of(database)}" ""\n')
    config = folder / "pgbouncer.ini"
    config.write_text(
        f"[databases]\n{database} = host={server.params['host']} port={server.params['port']}\n"
        f"[pgbouncer]\npool_mode = transaction\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = {folder}\n"
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
async def pooled(server: Server, database_url: str) -> AsyncIterator[str]:
    """The URL of the database behind PgBouncer, which lends its connections for a transaction."""
    folder = Path(tempfile.mkdtemp(prefix="mc-pool-", dir=SCRATCH))
    process = await start_pooler(server, folder, database_of(database_url))
    yield make_conninfo(**{**conninfo_to_dict(database_url), "host": str(folder), "port": "6432"})
    process.terminate()
    await process.communicate()
    shutil.rmtree(folder)


@pytest.mark.thorough
async def test_claims_work_behind_pooler_that_lends_connections(pooled: str) -> None:
    """A session goes from one process to another and back, and its loss is noticed."""
    async with MemoryStore(pooled) as store, MemoryStore(pooled) as other_store:
        archive = Archive()
        here, there = (SessionCache(archive.make, memory_store=one) for one in (store, other_store))
        for number, cache in enumerate((here, there, here, here)):
            async with cache.hold(KEY) as session:
                assert len(session.messages) == number
                session.add(str(number))
        assert (here.stats.hits, here.stats.handovers, there.stats.handovers) == (1, 1, 1)
        await take_away(other_store, KEY)
        await soon(session.is_closed)
        await here.close()
        await there.close()


@pytest.mark.thorough
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


def test_program_may_end_without_releasing(database_url: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Its event loop too; nothing waits for it, and nothing is said."""

    async def claim() -> None:
        await Watched(MemoryStore(database_url)).claim(KEY, 0)
        await settled()

    asyncio.run(claim())
    assert capfd.readouterr().err == ""
