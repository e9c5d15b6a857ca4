"""A kind of job is a name, a handler and its registration; leases, backoff, dead letters, status and erasing follow."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from memory_context.foundation.errors import StoreError, StoreUnavailableError
from memory_context.foundation.telemetry import prometheus_text
from memory_context.store import jobs
from memory_context.store.items import NewItem
from memory_context.store.jobs import Claim, FailedJob, JobKind, JobReport, NewJob, enqueue
from memory_context.store.memory_store import MemoryStore
from memory_context.store.sql import Statement, load_queries
from tests.conftest import Server, database_of
from tests.support.waiting import soon

MAKE_DUE = "UPDATE memory_context.jobs SET due_at = now(), claim = NULL WHERE NOT is_failed"


class Lessons:
    """A kind of job of this module, which notes what it was told; `fails` and `blocks` say on which payloads."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.claims: list[Claim] = []
        self.fails: set[str] = set()
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Event()
        self.kind = JobKind("learn", self.handle)

    async def handle(self, claim: Claim) -> None:
        self.claims.append(claim)
        self.begun.set()
        await self.gate.wait()
        for job in claim.jobs:
            if job.payload["session"] in self.fails:
                raise ValueError(f"nothing to learn from {job.payload['session']}")
            self.done.append(job.payload["session"])


@pytest.fixture
def lessons() -> Lessons:
    return Lessons()


@pytest.fixture
def store(index_when_flushed: None, store: MemoryStore, lessons: Lessons) -> MemoryStore:
    """An open store that knows the kind; jobs run when they are flushed."""
    store.jobs.register(lessons.kind)
    return store


async def learn(store: MemoryStore, *sessions: str, user: str = "alice", delay_seconds: float = 0.0) -> None:
    for session in sessions:
        await store._database.write(user, *enqueue(NewJob("learn", {"session": session}, delay_seconds)))


def rows(server: Server, url: str, columns: str = "payload ->> 'session'") -> list[tuple[Any, ...]]:
    return list(server.execute(f"SELECT {columns} FROM memory_context.jobs ORDER BY id", database_of(url)))


async def test_job_is_written_in_the_transaction_that_enqueues_it(
    store: MemoryStore, server: Server, database_url: str, lessons: Lessons
) -> None:
    """With it or not at all; payloads may hold any str."""
    item = Statement(load_queries("threads")["insert_known_user"], {"user_id": "alice"})
    await store._database.write("alice", item, *enqueue(NewJob("learn", {"session": "s\x00\ud800"})))
    with pytest.raises(StoreError):
        await store._database.write("alice", *enqueue(NewJob("learn", {"session": "t"})), Statement(b"SELECT 1 / 0"))
    assert len(rows(server, database_url)) == 1
    assert await store.jobs.flush() == JobReport(0, 0)
    assert lessons.done == ["s\x00\ud800"]
    assert rows(server, database_url) == []


async def test_job_runs_in_the_background_once_its_user_is_woken(database_url: str, lessons: Lessons) -> None:
    async with MemoryStore(database_url) as store:
        store.jobs.register(lessons.kind)
        await learn(store, "s")
        store.jobs.wake("alice")
        await soon(lessons.begun.wait())
    assert lessons.done == ["s"]


async def test_job_that_is_due_later_is_done_by_the_background(database_url: str, lessons: Lessons) -> None:
    """Nobody wakes its user again."""
    async with MemoryStore(database_url) as store:
        store.jobs.register(lessons.kind)
        await learn(store, "later", delay_seconds=2 * jobs._GATHER_SECONDS)
        store.jobs.wake("alice")
        await soon(lessons.begun.wait())
    assert lessons.done == ["later"]


async def test_jobs_written_during_a_pass_of_the_background_wait_for_the_next(
    store: MemoryStore, lessons: Lessons
) -> None:
    """So that they share a batch, however fast they come; a flush goes on until nothing is due."""
    store.jobs.register(replace(lessons.kind, batch_jobs=5))
    await learn(store, "a")
    lessons.gate.clear()
    look = asyncio.create_task(store.jobs._look_after("alice"))
    await soon(lessons.begun.wait())
    await learn(store, "b", "c")
    lessons.gate.set()
    assert await look == jobs._GATHER_SECONDS
    assert [len(claim.jobs) for claim in lessons.claims] == [1]
    assert await store.jobs.flush() == JobReport(0, 0)
    assert [len(claim.jobs) for claim in lessons.claims] == [1, 2]


async def test_job_is_done_by_exactly_one_of_two_workers(
    store: MemoryStore, database_url: str, lessons: Lessons
) -> None:
    others = Lessons()
    async with MemoryStore(database_url) as other:
        other.jobs.register(others.kind)
        await learn(store, *(f"s{number}" for number in range(20)))
        assert await asyncio.gather(store.jobs.flush(), other.jobs.flush()) == [JobReport(0, 0)] * 2
    assert sorted(lessons.done + others.done) == sorted(f"s{number}" for number in range(20))


async def test_job_of_a_worker_that_vanished_is_claimed_again_when_its_lease_ends(
    store: MemoryStore, server: Server, database_url: str, lessons: Lessons
) -> None:
    """The worker that comes back too late finishes nothing of the new holder's."""
    await learn(store, "s")
    lost = Claim(store._database, "alice", lessons.kind, {})
    assert await lost.take() == 1
    assert await Claim(store._database, "alice", lessons.kind, {}).take() == 0
    server.execute("UPDATE memory_context.jobs SET due_at = now()", database_of(database_url))
    lessons.gate.clear()
    flush = asyncio.create_task(store.jobs.flush())
    await soon(lessons.begun.wait())
    await lost.finish([lost.jobs[0].id])
    await lost.fail([lost.jobs[0].id], ValueError("late"))
    assert rows(server, database_url, "attempts, last_error, claim IS NULL") == [(2, None, False)]
    lessons.gate.set()
    assert await flush == JobReport(0, 0)
    assert lessons.done == ["s"]


async def test_lease_is_renewed_when_it_could_end_too_soon(
    store: MemoryStore, server: Server, database_url: str, lessons: Lessons
) -> None:
    await learn(store, "s")
    claim = Claim(store._database, "alice", lessons.kind, {})
    await claim.take()
    for seconds, least in ((jobs.LEASE_SECONDS - 60, 0.0), (jobs.LEASE_SECONDS + 60, jobs.LEASE_SECONDS - 10)):
        server.execute("UPDATE memory_context.jobs SET due_at = now() + interval '1 s'", database_of(database_url))
        await claim.keep(seconds)
        ((left,),) = rows(server, database_url, "extract(epoch FROM due_at - now())::float8")
        assert (left > 1) == (least > 0)
        assert left > least


async def test_failing_job_waits_twice_as_long_each_time_and_becomes_a_dead_letter(
    store: MemoryStore,
    server: Server,
    database_url: str,
    lessons: Lessons,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With its last error, and not tried again until somebody asks for it; the other jobs are done."""
    monkeypatch.setattr(jobs, "FIRST_WAIT_SECONDS", 200.0)
    monkeypatch.setattr(jobs, "ATTEMPTS_LIMIT", 3)
    lessons.fails = {"bad"}
    await learn(store, "bad", "good")
    waits: list[float] = []
    for _ in range(2):
        with caplog.at_level(logging.WARNING, "memory_context"):
            assert await store.jobs.flush() == JobReport(1, 0)
        ((wait, error),) = rows(server, database_url, "extract(epoch FROM due_at - now())::float8, last_error")
        waits.append(wait)
        assert error == "ValueError: nothing to learn from bad"
        server.execute(MAKE_DUE, database_of(database_url))
    assert 0 < waits[0] <= 200 < waits[1] <= 400
    assert "jobs of kind learn are tried again later: nothing to learn from bad" in caplog.text
    assert await store.jobs.flush() == await store.jobs.flush() == JobReport(0, 1)
    assert lessons.done == ["good"]
    (failed,) = await store.jobs.failures("alice")
    assert replace(failed, id=0) == FailedJob(
        "learn", 0, {"session": "bad"}, 3, "ValueError: nothing to learn from bad"
    )
    assert await store.jobs.failures("bob") == []
    lessons.fails = set()
    assert await store.jobs.retry_failed() == 1
    assert await store.jobs.flush() == JobReport(0, 0)
    assert lessons.done == ["good", "bad"]


async def test_job_that_kills_its_workers_is_claimed_alone_and_fails_in_the_end(
    store: MemoryStore, server: Server, database_url: str, lessons: Lessons, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that is never finished stands for a killed worker."""
    monkeypatch.setattr(jobs, "ATTEMPTS_LIMIT", 3)
    kind = replace(lessons.kind, batch_jobs=5)
    await learn(store, *"abc")
    sizes: list[int] = []
    for _ in range(4):
        claim = Claim(store._database, "alice", kind, {})
        await claim.take()
        sizes.append(len(claim.jobs))
        server.execute("UPDATE memory_context.jobs SET due_at = now() WHERE NOT is_failed", database_of(database_url))
    assert sizes == [3, 1, 1, 0]
    failed = await store.jobs.failures("alice")
    assert [(one.payload["session"], one.error) for one in failed] == [("a", "its workers were killed")]


async def test_job_is_not_done_before_it_is_due(store: MemoryStore, lessons: Lessons) -> None:
    await learn(store, "later", delay_seconds=3600)
    await learn(store, "now")
    assert await store.jobs.flush() == JobReport(1, 0)
    assert lessons.done == ["now"]


async def test_bytes_in_payloads_bound_a_claim(
    store: MemoryStore, lessons: Lessons, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One job is always claimed."""
    monkeypatch.setattr(jobs, "BATCH_BYTES", 100)
    store.jobs.register(replace(lessons.kind, batch_jobs=9))
    for size in (60, 60, 300, 10, 10):
        payload = {"session": f"of {size}", "bytes": size}
        await store._database.write("alice", *enqueue(NewJob("learn", payload)))
    await store.jobs.flush()
    assert [[job.payload["bytes"] for job in claim.jobs] for claim in lessons.claims] == [[60, 60], [300], [10, 10]]


async def test_job_of_an_unknown_kind_is_left_to_processes_that_know_it(
    store: MemoryStore, database_url: str, lessons: Lessons
) -> None:
    """And keeps nobody busy: what is known is done, and the user stays on the list of those with pending jobs."""
    async with MemoryStore(database_url) as old:
        await learn(old, "s")
        await old.items.insert_memories("alice", [NewItem("content", "", 1, key="k")])
        assert await soon(old.jobs.flush()) == JobReport(0, 0)
        assert await old.jobs._look_after("alice") is None
    assert await store.jobs.flush() == JobReport(0, 0)
    assert lessons.done == ["s"]


async def test_flush_of_the_index_leaves_other_kinds_alone(store: MemoryStore, lessons: Lessons) -> None:
    await learn(store, "s")
    await store.items.insert_memories("alice", [NewItem("content", "", 1, key="k")])
    assert await store.flush_index() == JobReport(0, 0)
    assert lessons.done == []


async def test_job_is_given_back_when_the_store_is_away_or_its_worker_is_cancelled(
    store: MemoryStore, server: Server, database_url: str, lessons: Lessons, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An outage counts as an attempt, being cancelled does not; neither is the handler's error."""
    await learn(store, "s")
    lessons.gate.clear()
    flush = asyncio.create_task(store.jobs.flush())
    await soon(lessons.begun.wait())
    flush.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flush
    lessons.gate.set()

    async def away(claim: Claim) -> None:
        raise StoreUnavailableError("away")

    store.jobs.register(replace(lessons.kind, handle=away))
    with pytest.raises(StoreUnavailableError):
        await store.jobs.flush()
    store.jobs.register(lessons.kind)
    assert await store.jobs.flush() == JobReport(0, 0)
    assert [job.attempts for claim in lessons.claims for job in claim.jobs] == [1, 2]
    assert rows(server, database_url) == []


async def test_job_is_given_back_by_a_store_that_closes_while_it_is_claimed(
    store: MemoryStore, server: Server, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was sent to the server is done there, later than the client hears of it, and after what it sends next."""
    await learn(store, "s")
    take, is_sent, may_arrive, arrived = Claim.take, asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def arriving(claim: Claim) -> int:
        try:
            await may_arrive.wait()
            return await take(claim)
        finally:
            arrived.set()

    async def late(claim: Claim) -> int:
        on_the_way = asyncio.create_task(arriving(claim))
        is_sent.set()
        return await asyncio.shield(on_the_way)

    monkeypatch.setattr(Claim, "take", late)
    flushing = asyncio.create_task(store.jobs.flush())
    await is_sent.wait()
    flushing.cancel()
    asyncio.get_running_loop().call_later(0.1, may_arrive.set)
    with pytest.raises(asyncio.CancelledError):
        await flushing
    await store.jobs.stop()
    await arrived.wait()
    assert rows(server, database_url, "claim, attempts") == [(None, 0)]


async def test_status_counts_jobs_by_kind(
    store: MemoryStore, lessons: Lessons, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "ATTEMPTS_LIMIT", 1)
    lessons.fails = {"bad"}
    await learn(store, "bad")
    await store.jobs.flush()
    await learn(store, "s", user="bob")
    await store.items.insert_memories("bob", [NewItem("content", "", 1, key="k")])
    status = await store.admin.status()
    assert status.jobs == {"learn": {"pending": 1, "failed": 1}, "index": {"pending": 1, "failed": 0}}
    assert (status.jobs_pending, status.jobs_failed) == (2, 1)


async def test_look_counts_jobs_of_all_users_for_the_metrics(store: MemoryStore, lessons: Lessons) -> None:
    """Also those that another process wrote; done ones are gone."""
    await learn(store, "a", "b")
    await learn(store, "c", user="bob", delay_seconds=3600)

    await store.jobs.look()
    assert store.jobs.jobs_left() == {"waiting": 3, "dead": 0}
    assert 'memory_context_jobs{memory_context_job_state="waiting"}' in prometheus_text()
    await store.jobs.flush(["learn"])
    await store.jobs.look()
    assert store.jobs.jobs_left() == {"waiting": 1, "dead": 0}


async def exported(store: MemoryStore) -> Sequence[bytes]:
    return b"".join([piece async for piece in store.admin.export_lines("alice")]).splitlines(keepends=True)


async def test_jobs_are_neither_exported_nor_left_behind_by_an_erased_user(
    store: MemoryStore, server: Server, database_url: str
) -> None:
    """An import makes the jobs that index its items."""
    await learn(store, "s")
    await store.items.insert_memories("alice", [NewItem("content", "", 1, key="k")])
    lines = await exported(store)
    assert not any(b"learn" in line for line in lines)
    await store.admin.import_lines(lines, "bob")
    await store.erase_user("alice")
    assert rows(server, database_url, "user_id, kind") == [("bob", "index")]
    users = server.execute("SELECT user_id FROM memory_context.memory_users", database_of(database_url))
    assert list(users) == [("bob",)]
