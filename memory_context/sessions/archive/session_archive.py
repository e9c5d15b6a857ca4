"""One session of one agent: loaded at first use, archived from then on.

pending ─▶ loaded: the archive was read, a state was loaded, or there is nothing to read
   └── the store is away: messages are taken in without the history, which joins them later
"""

import asyncio
import logging
import os
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from weakref import WeakMethod

from memory_context.foundation.errors import StoreError, StoreUnavailableError
from memory_context.foundation.light_model.guards import LightModelGuards
from memory_context.foundation.light_model.usage import LightModelBill
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.runtime import background
from memory_context.foundation.runtime.background import Background, Breaker, OutageLog, begin
from memory_context.foundation.tokens import TokenCounter
from memory_context.store.limits import within
from memory_context.store.memory_store import MemoryStore

from ..transcript.codec import save_transcript
from ..transcript.transcript import Transcript
from ..transcript.view_decisions import ExpansionShown, ExpansionWithdrawn, LightModelBilled
from .archiver import Archiver
from .cursor import BatchJob, known_items, traces_of
from .resume import (
    ResumedSession,
    ResumeReport,
    load_session,
    redacted_session,
    rewound_session,
    whole_history,
)
from .titles import Titles

__all__ = ["MISSING_HISTORY", "RESUME_SECONDS", "SessionArchive"]

_logger = logging.getLogger("memory_context")

RESUME_SECONDS = 5.0
"""The longest that a step waits for the history of a known session; then the view says that it is missing."""
_AGAIN_SECONDS = 5.0  # between background attempts to load
_LEAST_SECONDS = 0.1  # minimum for archiving

MISSING_HISTORY = (
    "[Earlier messages of this conversation could not be read yet. They may exist: do not answer as if nothing had "
    "been said before.]"
)
"""Shown in the view while the history is unread; without it the model would assume a new conversation."""


class SessionArchive:
    """Loads and archives the session of a context.

    The store keeps it, and it keeps its context, until all is archived: programs drop contexts without closing them.
    `on_load` takes over an archived session.
    """

    write_order = 1
    extra_seconds = 0.0

    def __init__(
        self,
        store: MemoryStore,
        policy: ContextPolicy,
        on_load: Callable[[ResumedSession], Awaitable[None]],
        prepare: Callable[[], Awaitable[bool]],
        light_models: LightModelGuards,
        batch_jobs: Sequence[BatchJob] = (),
    ) -> None:
        self.report = ResumeReport()
        self._buffers = store.unwritten
        self._conversations = conversations = store.conversations
        self._policy = policy
        self._prepare = WeakMethod(prepare)
        self._kept: object = None  # the context, while it is dirty
        self._rewinding: asyncio.Future[int] | None = None
        self._process_id = os.getpid()
        self._on_load = WeakMethod(on_load)
        self._reading = Background[None]("memory_context resume")
        self._breaker = Breaker(background.STORE_RETRY_SECONDS)
        self._again = Breaker(_AGAIN_SECONDS)
        self._outages = OutageLog()
        self._light_models = light_models
        light_models.notify(self.record_light_model)
        self._titles = Titles(policy.user_sources, light_models.titles)
        keep = self._keep_until_archived
        self.archiver = Archiver(conversations, policy.archive, prepare, self._titles, keep, batch_jobs)

    def attach(self, session: ResumedSession) -> None:
        self.report = session.report
        self._breaker.worked()
        self.archiver.attach(session)
        self.record_light_model()

    @property
    def is_pending(self) -> bool:
        return self.report.outcome == "pending"

    async def ensure_loaded(self) -> bool:
        """Return True if the history is loaded. Never raises because of the store."""
        if self.is_pending and not self._breaker.is_open:
            await self._load_safely()
        elif self.is_pending and not self._again.is_open:
            self._start_loading()
        return not self.is_pending

    def rewind(
        self, to: Callable[[Transcript], int | None], go_back: Callable[[ResumedSession], Awaitable[None]]
    ) -> Awaitable[int]:
        """Begin to take the session back; steps wait until it is there. Return the number of messages that leave."""
        self._rewinding = begin(self._rewind(to, go_back))
        return self._rewinding

    async def _rewind(
        self, to: Callable[[Transcript], int | None], go_back: Callable[[ResumedSession], Awaitable[None]]
    ) -> int:
        prepare = self._prepare()
        if prepare is None or not await prepare():
            raise StoreUnavailableError("the history of the session could not be read yet: take it back in a moment")
        transcript = self.archiver.transcript
        position = to(transcript)
        if position is None or position == transcript.end:
            return 0
        if not transcript.state.start <= position < transcript.end:
            raise ValueError(f"no message {position} to go back to: use {transcript.state.start} to {transcript.end}")
        saved = save_transcript(transcript, with_cleared=True)
        if self._policy.archive.enabled:  # which has the texts of all decisions
            with suppress(StoreError, ValueError):
                await self.flush()
                at = self.archiver.cursor.batch
                archived = await self._conversations.read(self.archiver.key, branch=at.branch if at else None)
                found, unread = whole_history(archived)
                if not unread and found["first_position"] <= position:  # else this process knows more
                    saved = found
        session = ResumedSession(self.archiver.key, transcript, self.archiver.cursor, self.report)
        await go_back(rewound_session(session, saved, position))
        self.archiver.schedule_flush()
        if self._policy.archive.enabled:  # now: who resumes the session next must not get what left
            with suppress(StoreError):
                await self.flush()
        return transcript.end - position

    async def _load_safely(self) -> None:
        seconds = RESUME_SECONDS
        try:
            await asyncio.wait_for(self.resume(), seconds)
        except (StoreError, asyncio.TimeoutError) as error:
            self._breaker.failed()
            self._outages.failed(
                "reading the history of the session",
                "going on without the history of the session, which is added when the store is there: %s",
                str(error) or f"it did not answer in {seconds:g} s",
            )

    async def resume(self) -> ResumeReport:
        """Read unread history, or raise StoreError."""
        while self.is_pending:
            self._start_loading()
            await self._reading.result(self._load)
        return self.report

    def _start_loading(self) -> None:
        self._reading.start(self._load)
        self._again.failed()

    async def _load(self) -> None:
        async def load() -> None:
            found = await load_session(self._conversations, self.archiver.key)
            if (on_load := self._on_load()) is not None:
                await on_load(found)

        await within(self._conversations.limits.call_seconds, load())

    async def wait_for_rewind(self) -> None:
        if self._rewinding is not None and not self._rewinding.done():
            await asyncio.wait([self._rewinding])

    async def require_history(self) -> None:
        """Raise StoreUnavailableError if required history is unreadable."""
        await self.wait_for_rewind()
        if self._policy.archive.require_history and not await self.ensure_loaded():
            raise StoreUnavailableError(
                f"the earlier messages of session {self.archiver.key.session_id!r} could not be read yet, and "
                "archive.require_history refuses to go on without them: add the message again in a moment"
            )

    def note_missing_history(self, counter: TokenCounter) -> None:
        transcript = self.archiver.transcript
        noted = [one for one in transcript.state.expanded.values() if one.origin == "history"]
        if self.is_pending and not noted and transcript.end > transcript.state.start:
            tokens = counter.count(MISSING_HISTORY)
            transcript.decide(ExpansionShown(transcript.end - 1, MISSING_HISTORY, tokens, (), "history"))
        if noted and not self.is_pending:
            transcript.decide(ExpansionWithdrawn(tuple(one.place for one in noted), "replaced"))

    async def newest(self, saved: ResumedSession, *, may_be_archived: bool) -> ResumedSession:
        """Return the saved session, or the archived one if newer. Never raises."""
        if not self._policy.archive.enabled:
            return replace(saved, report=replace(saved.report, outcome="state"))
        if saved.report.outcome == "pending":
            return saved
        try:
            loading = load_session(self._conversations, saved.key)
            found = await asyncio.wait_for(loading, RESUME_SECONDS)
        except (StoreError, asyncio.TimeoutError) as error:
            _logger.warning("going on with the saved state, whatever was archived since: %s", str(error) or "no answer")
            return saved
        if may_be_archived and found.is_newer_than(saved):
            return replace(found, cursor=replace(found.cursor, chat=saved.cursor.chat))
        return replace(saved, cursor=found.cursor_for(saved))

    async def hand_over(self) -> None:
        """Archive the rest before a state is saved: who loads it takes the session over, often from a dropped context.

        What the store does not take in time is written later, by this context. Never raises.
        """
        if self.archiver.is_store_away or self.is_pending:
            return
        work = self.archiver.flush() if self.archiver.is_dirty else self.archiver.look_for_forgotten()
        with suppress(StoreError, asyncio.TimeoutError):
            await asyncio.wait_for(work, self._policy.store_timeout_seconds)

    async def without_forgotten(self, session: ResumedSession) -> ResumedSession:
        """Return a saved session without what was forgotten since, as far as the store tells in time."""
        known = known_items(session.transcript, session.key)
        try:
            asked = self._conversations.forgotten_keys(session.key.user_id, known)
            forgotten = await asyncio.wait_for(asked, RESUME_SECONDS)
        except (StoreError, asyncio.TimeoutError):
            return session
        return redacted_session(session, traces_of(session.transcript, session.key, known, forgotten)) or session

    def to_state(self) -> dict[str, Any]:
        transcript, cursor = self.archiver.transcript, self.archiver.cursor
        with_cleared = self._policy.archive.enabled and not cursor.has_cleared(transcript)
        return {
            "transcript": save_transcript(transcript, with_cleared=with_cleared),
            "archive": cursor.to_state(transcript, with_cleared=with_cleared),
            "is_without_history": self.is_pending,
        }

    @property
    def light_model_bill(self) -> LightModelBill:
        return self._light_models.bill(self.archiver.transcript.state.light_model)

    def record_light_model(self) -> None:
        """Record light model calls once the history, with earlier sums, is loaded."""
        if self._light_models.has_news and not self.is_pending:
            bill = self.light_model_bill
            self._light_models.take_recorded()
            self.archiver.transcript.decide(LightModelBilled(bill))
            self.archiver.schedule_flush()

    @property
    def unwritten(self) -> str:
        archiver = self.archiver
        if not archiver.is_dirty:
            return ""
        key, messages = archiver.key, max(archiver.unarchived_messages, len(archiver.chat))
        lost = f"{messages:,} messages" if messages else "decisions about its view"
        return f"session {key.session_id!r} of agent {key.agent_id!r}: {lost}"

    async def write_out(self, *, is_last: bool) -> None:
        """Archive the rest; `is_last` leaves no task, since the event loop ends."""
        try:
            await self.flush()
        finally:
            if is_last:
                await self._reading.stop()
                await self.archiver.stop()

    async def flush(self) -> None:
        """Archive the rest, or raise StoreError; the write outlives the timeout."""
        self._breaker.worked()  # read despite recent failures
        await within(self._conversations.limits.call_seconds, self.archiver.flush())

    async def leave(self, seconds: float) -> None:
        """Archive the rest in time. Never raises."""
        self.record_light_model()
        try:
            await asyncio.wait_for(self.flush(), seconds)
        except (StoreError, asyncio.TimeoutError) as error:
            reason = str(error) or f"not done in {seconds:g} s"
            _logger.warning("session %s is not archived: %s", self.archiver.key.session_id, reason)

    async def close(self, seconds: float) -> None:
        """Do as `leave`, and cancel tasks."""
        ends_at = time.monotonic() + seconds
        await self._titles.close()
        self._light_models.notify(None)  # cancelled calls end later
        await self.leave(max(ends_at - time.monotonic(), _LEAST_SECONDS))
        await self.archiver.stop()
        self._buffers.release(self)
        self._kept = None

    def _keep_until_archived(self, is_dirty: bool) -> None:
        if is_dirty:
            self._kept = self._prepare()
            self._buffers.hold(self)
        else:
            self._buffers.release(self)
            self._kept = None

    def __del__(self) -> None:
        """Warn of lost messages: the store was away when the loop ended."""
        archiver = getattr(self, "archiver", None)
        if archiver is None or self._process_id != os.getpid() or sys.is_finalizing():
            return
        if not (archiver.unarchived_messages or archiver.chat):  # the next view decides the rest again
            return
        if unwritten := self.unwritten:
            lost = f"{unwritten} are lost: nothing refers to its context any more. Close contexts, or the store"
            _logger.warning("%s", lost)
            warnings.warn(lost, ResourceWarning, stacklevel=2, source=self)
