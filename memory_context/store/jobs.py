"""Jobs: deferred work, enqueued in the transaction that requires it.

    pending ──claim──▶ leased ──handler returns──▶ deleted
       ▲                 │ it raises: due later, each time twice as late
       └─────────────────┴──▶ failed, with its last error, after 16 attempts   (lease over: pending again)

Only a lease's holder finishes or fails a job.
"""

import asyncio
import logging
import math
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memory_context.foundation.errors import MemoryContextError, StoreError, StoreUnavailableError
from memory_context.foundation.runtime.background import Background, PerLoop, Timer, begin, outages_of
from memory_context.foundation.telemetry import JOBS, gauge

from .database import Database, every_user
from .sql import Statement, load_queries

__all__ = [
    "Claim",
    "FailedJob",
    "Job",
    "JobKind",
    "JobReport",
    "Jobs",
    "NewJob",
    "enqueue",
]

_QUERIES = load_queries("jobs")
_ITEMS = load_queries("agent_memories")
_logger = logging.getLogger("memory_context")

ATTEMPTS_LIMIT = 16  # five hours: an embedder that is away for less needs nobody
LEASE_SECONDS = 180.0
FIRST_WAIT_SECONDS = 2.0
LONGEST_WAIT_SECONDS = 3600.0
BATCH_BYTES = 8_000_000  # of `bytes` in payloads; some 8,000 passages, indexed within 20 s
_GATHER_SECONDS = 0.2  # jobs written meanwhile share a batch; a pass costs as much as indexing five items
_RETRY_SECONDS = 30.0
_POLL_SECONDS = 0.05
_RELEASE_SECONDS = 4.0  # else its jobs wait for minutes; on a busy machine a new connection takes more than one
_USERS_PER_PAGE = 1000
_TOPIC = "background jobs"


@dataclass(frozen=True)
class Job:
    """A claimed job; `attempts` counts this claim."""

    id: int
    payload: Mapping[str, Any]
    attempts: int


@dataclass(frozen=True)
class NewJob:
    """A job to write."""

    kind: str
    payload: Mapping[str, Any]
    delay_seconds: float = 0.0


@dataclass(frozen=True)
class FailedJob:
    """A dead letter: not retried automatically."""

    kind: str
    id: int
    payload: Mapping[str, Any]
    attempts: int
    error: str


@dataclass(frozen=True)
class JobReport:
    """Jobs left by a flush; failed ones are not retried."""

    pending: int = 0
    failed: int = 0


@dataclass(frozen=True)
class JobKind:
    """A kind of job.

    Attributes:
        name: At most 64 bytes.
        handle: Idempotent. Open jobs finish when it returns, fail when it raises; `StoreUnavailableError` frees them.
        batch_jobs: Jobs per claim; those of a worker that vanished are claimed one by one, in case one killed it.
    """

    name: str
    handle: Callable[["Claim"], Awaitable[None]]
    batch_jobs: int = 1


def enqueue(*jobs: NewJob) -> list[Statement]:
    """Return the statements that write jobs; put them last in the transaction."""
    inserts = [
        _QUERIES("insert_job", kind=job.kind, payload=dict(job.payload), delay_seconds=job.delay_seconds)
        for job in jobs
    ]
    return [*inserts, _ITEMS("upsert_pending_user")] if inserts else []


@dataclass
class Claim:
    """The lease of some jobs; `shared` passes values to a user's next claims."""

    database: Database
    user_id: str
    kind: JobKind
    shared: dict[str, Any]
    id: str = field(default_factory=lambda: str(uuid.uuid4()))
    jobs: Sequence[Job] = ()
    _open: set[int] = field(default_factory=set[int])
    _ends: float = 0.0

    @property
    def params(self) -> dict[str, Any]:
        return {"claim": self.id}

    async def take(self) -> int:
        """Claim due jobs; return how many left the queue, dead letters included."""
        self._ends = time.monotonic() + LEASE_SECONDS
        rows = await self._write(
            "claim_jobs",
            kind=self.kind.name,
            limit=self.kind.batch_jobs,
            bytes_limit=BATCH_BYTES,
            attempts_limit=ATTEMPTS_LIMIT,
            lease_seconds=LEASE_SECONDS,
        )
        taken = sorted((row for row in rows if not row["is_failed"]), key=lambda row: row["id"])
        self.jobs = [Job(row["id"], row["payload"], row["attempts"]) for row in taken]
        self._open = {job.id for job in self.jobs}
        return len(rows)

    async def keep(self, seconds: float) -> None:
        now = time.monotonic()
        if self._ends - now < seconds:
            await self._write("update_jobs_renewed", lease_seconds=LEASE_SECONDS)
            self._ends = now + LEASE_SECONDS

    async def finish(self, ids: Collection[int], *results: Statement) -> None:
        """Finish jobs, in one transaction with their last results."""
        if ids:
            done = _QUERIES("delete_jobs", self.params, ids=list(ids))
            await self.database.write(self.user_id, done, *results, kind="batch")  # who forgets locks jobs first
            self._open -= set(ids)

    async def fail(self, ids: Collection[int], error: Exception) -> None:
        """Retry jobs later with exponential backoff, up to the limit."""
        await self._write(
            "update_jobs_failed",
            ids=list(ids),
            error=f"{type(error).__name__}: {error}"[:1000],
            first_wait_seconds=FIRST_WAIT_SECONDS,
            longest_wait_seconds=LONGEST_WAIT_SECONDS,
            attempts_limit=ATTEMPTS_LIMIT,
        )
        self._open -= set(ids)

    async def work(self) -> None:
        try:
            await self.kind.handle(self)
        except StoreUnavailableError:
            raise
        except Exception as error:
            _logger.warning("%d jobs of kind %s are tried again later: %s", len(self._open), self.kind.name, error)
            await self.fail(self._open, error)
        else:
            await self.finish(self._open)

    async def _write(self, name: str, **params: Any) -> list[dict[str, Any]]:
        (rows,) = await self.database.write(self.user_id, _QUERIES(name, self.params, **params), kind="batch")
        return rows


class Jobs:
    """The jobs of one database, done in the background."""

    def __init__(self, database: Database) -> None:
        self._database, self._outages = database, outages_of(database)
        self._kinds: dict[str, JobKind] = {}
        self._due = PerLoop(lambda: _DueUsers(self._look_after), _DueUsers.adopt)
        self._broken_off: dict[str, tuple[str, int]] = {}  # by claim: its user, and the attempts that do not count
        self._catching_up = Background[None]("memory_context jobs that are waited for")
        self._left: dict[str, Mapping[str, int]] = {}  # by user, as this process saw it last
        gauge(JOBS, self.jobs_left, "memory_context.job.state")

    def register(self, kind: JobKind) -> None:
        """Do jobs of this kind; others are left alone."""
        self._kinds[kind.name] = kind

    def wake(self, user_id: str) -> None:
        """Schedule this user soon; does no I/O."""
        self._due.here().put(user_id, _GATHER_SECONDS)

    async def wake_all(self) -> None:
        async for user_id in self._pending_users(with_failed=False):
            self.wake(user_id)

    async def flush(
        self, kinds: Sequence[str] | None = None, progress: Callable[[int], None] | None = None
    ) -> JobReport:
        """Do all users' due jobs and wait for those of other workers; `progress` gets each batch's number."""
        pending = failed = 0
        async for user_id in self._pending_users(with_failed=True):
            counts = await self._finish(user_id, kinds, progress)
            pending += counts["waiting"]
            failed += counts["failed"]
        return JobReport(pending, failed)

    async def catch_up(self, user_id: str, kinds: Sequence[str], seconds: float) -> bool:
        """Do a user's due jobs of these kinds now, and wait for it at most so long.

        Returns:
            False if it takes longer, and then goes on, or if it failed and is tried again later.
        """
        ends_at = time.monotonic() + seconds

        async def work() -> None:
            await self._finish(user_id, kinds, ends_at=ends_at)

        if (running := self._catching_up.running(user_id)) is not None:  # its last look may be older than a job
            await asyncio.wait([running], timeout=seconds)
        task = self._catching_up.start(work, user_id)
        await asyncio.wait([task], timeout=max(ends_at - time.monotonic(), 0.0))
        return task.done() and not task.cancelled() and task.exception() is None

    async def failures(self, user_id: str, limit: int = 50) -> list[FailedJob]:
        (rows,) = await self._database.read(user_id, _QUERIES("select_failed_jobs", limit=limit))
        return [FailedJob(row["kind"], row["id"], row["payload"], row["attempts"], row["last_error"]) for row in rows]

    async def retry_failed(self, user_id: str | None = None) -> int:
        """Retry failed jobs of a user, or of all users; return how many."""
        if user_id is None:
            return sum([await self.retry_failed(one) async for one in every_user(self._database)])
        steps = _QUERIES("update_jobs_retried"), _ITEMS("upsert_pending_user")
        rows, _ = await self._database.write(user_id, *steps, kind="batch")
        self.wake(user_id)
        return len(rows)

    async def stop(self) -> None:
        """Stop this event loop's background and release its claims."""
        await self._catching_up.stop(math.inf)
        await self._due.here().stop()
        try:
            await asyncio.wait_for(self._release(), _RELEASE_SECONDS)
        except (StoreError, asyncio.TimeoutError) as error:
            _logger.debug("what was claimed is free when its lease ends: %s", error)

    # --- the background

    async def _look_after(self, user_id: str) -> float | None:
        """Return the seconds until more is due; None if nothing is left."""
        try:
            counts, _ = await self._drain(user_id)
            due_in_seconds = counts["due_in_seconds"]
            self._outages.worked(_TOPIC)
            return None if due_in_seconds is None else max(due_in_seconds, _GATHER_SECONDS)
        except MemoryContextError as error:  # nothing is lost
            self._outages.failed(_TOPIC, "background jobs go on later: %s", error, level=logging.INFO)
        except Exception:  # other users' jobs go on
            _logger.exception("background jobs go on later")
        return _RETRY_SECONDS

    async def _finish(
        self,
        user_id: str,
        kinds: Sequence[str] | None,
        progress: Callable[[int], None] | None = None,
        ends_at: float = math.inf,
    ) -> dict[str, Any]:
        """Do what is due, and wait until `ends_at` for what other workers hold; return the counts of what is left."""
        while True:
            counts, done = await self._drain(user_id, kinds, progress)
            if not (counts["due_kinds"] or (counts["claimed"] and time.monotonic() < ends_at)):
                return counts
            await asyncio.sleep(0 if done else _POLL_SECONDS)

    async def _drain(
        self, user_id: str, kinds: Sequence[str] | None = None, progress: Callable[[int], None] | None = None
    ) -> tuple[dict[str, Any], int]:
        """Do what is due now; return the counts of what is left then, and the number of jobs done."""
        await self._release()
        shared: dict[str, Any] = {}
        total = 0
        counts = _QUERIES("fetch_job_counts", kinds=list(kinds or self._kinds))
        ((left,),) = await self._database.read(user_id, counts, kind="batch")
        for kind in [self._kinds[name] for name in kinds or self._kinds if name in left["due_kinds"]]:
            while done := await self._do_batch(Claim(self._database, user_id, kind, shared)):
                total += done
                if progress is not None:
                    progress(done)
                if done < kind.batch_jobs:  # the next look at what is due sees what a claim left
                    break
        steps = _QUERIES("lock_user"), _QUERIES("update_user_not_pending"), counts
        *_, (left,) = await self._database.write(user_id, *steps, kind="batch")
        if kinds is None:
            self._note_left(user_id, left)
        return left, total

    def _note_left(self, user_id: str, left: Mapping[str, int]) -> None:
        if left["pending"] or left["failed"]:
            self._left[user_id] = {"waiting": left["pending"], "dead": left["failed"]}
        else:
            self._left.pop(user_id, None)

    def jobs_left(self) -> dict[str, int]:
        users = list(self._left.values())
        return {state: sum(user[state] for user in users) for state in ("waiting", "dead")}

    async def look(self, most_users: int = 100) -> None:
        """Count the jobs of so many users with any, for the metrics of this process."""
        params = {"after": "", "limit": most_users, "with_failed": True}
        (rows,) = await self._database.read(None, _QUERIES("select_pending_users", params), kind="batch")
        counts, seen = _QUERIES("fetch_job_counts", kinds=list(self._kinds)), dict[str, Mapping[str, int]]()
        for user_id in [row["user_id"] for row in rows]:
            ((seen[user_id],),) = await self._database.read(user_id, counts, kind="batch")
        self._left.clear()
        for user_id, left in seen.items():
            self._note_left(user_id, left)

    async def _do_batch(self, claim: Claim) -> int:
        taking = begin(claim.take())
        try:
            await asyncio.wait([taking])
            if claim.jobs:
                await claim.work()
            return taking.result()
        except BaseException as error:  # an outage counts as an attempt, a cancellation does not
            try:
                await asyncio.wait([taking], timeout=_RELEASE_SECONDS)  # if sent, it may arrive after a release
            finally:  # also if it is cancelled again
                self._broken_off[claim.id] = (claim.user_id, int(not isinstance(error, Exception)))
            self._due.here().put(claim.user_id, _RETRY_SECONDS)
            raise

    async def _release(self) -> None:
        """Release claims of interrupted batches, else their jobs would wait for the end of the lease."""
        for claim, (user_id, not_counted) in list(self._broken_off.items()):
            params = {"claim": claim, "attempts_not_counted": not_counted}
            await self._database.write(user_id, _QUERIES("update_jobs_released", params), kind="batch")
            self._broken_off.pop(claim, None)

    async def _pending_users(self, *, with_failed: bool) -> AsyncIterator[str]:
        after = ""
        while True:
            params = {"after": after, "limit": _USERS_PER_PAGE, "with_failed": with_failed}
            (rows,) = await self._database.read(None, _QUERIES("select_pending_users", params), kind="batch")
            for row in rows:
                yield row["user_id"]
            if len(rows) < _USERS_PER_PAGE:
                return
            after = rows[-1]["user_id"]


class _DueUsers:
    """Looks after the users of one event loop, one at a time, when they are due.

    A user may be due long after the last task of a program ended, so a timer waits, not a task.
    """

    def __init__(self, look_after: Callable[[str], Awaitable[float | None]]) -> None:
        self._look_after = look_after  # returns the seconds until it is due again
        self._due: dict[str, float] = {}  # monotonic clock
        self._task = Background[None]("memory_context jobs")
        self._timer = Timer(lambda: self._task.start(self._work))

    def put(self, user_id: str, seconds: float) -> None:
        due = time.monotonic() + seconds
        self._due[user_id] = min(due, self._due.get(user_id, due))
        if self._task.running() is None:  # else its end plans the timer
            self._timer.plan(seconds)

    def adopt(self, ended: "_DueUsers") -> None:
        """Take over from a closed event loop."""
        for user_id in ended._due:
            self.put(user_id, 0)

    async def stop(self) -> None:
        await self._task.stop(math.inf)
        self._timer.cancel()

    async def _work(self) -> None:
        while users := [user_id for user_id, due in self._due.items() if due <= time.monotonic()]:
            for user_id in users:
                self._due.pop(user_id, None)
                if (seconds := await self._look_after(user_id)) is not None:
                    self.put(user_id, seconds)
        if self._due:
            self._timer.plan(min(self._due.values()) - time.monotonic())
