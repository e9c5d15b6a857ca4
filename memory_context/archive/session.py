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
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from weakref import WeakMethod

from ..errors import StoreError, StoreUnavailableError
from ..light_model import LightModelBill, LightModelGuards
from ..outages import OutageLog
from ..policy import ContextPolicy
from ..runtime import Background, Breaker
from ..store import MemoryStore, within
from ..tokens import TokenCounter
from ..transcript import ExpansionShown, ExpansionWithdrawn, LightModelBilled, save_transcript
from .archiver import Archiver
from .resume import ResumedSession, ResumeReport, load_session
from .titles import Titles

__all__ = ["MISSING_HISTORY", "Session"]

_logger = logging.getLogger("memory_context")

_AGAIN_SECONDS = 5.0  # between attempts to load that nobody waits for
_LEAST_SECONDS = 0.1  # for archiving, however long the rest took

MISSING_HISTORY = (
    "[Earlier messages of this conversation could not be read yet. They may exist: do not answer as if nothing had "
    "been said before.]"
)
"""Shown by views while the history could not be read: the model would answer as if there were none."""


class Session:
    """Loads and archives the session of a context.

    The store keeps it, and it keeps its context, until all is archived: programs drop contexts without closing them.

    Args:
        store: Has the archive.
        policy: The settings.
        on_load: A method that takes over the session of the archive.
        prepare: See `Archiver`.
        light_models: Name the session; their calls are recorded in its transcript.

    Attributes:
        archiver: Writes the session.
        report: How the session was resumed.
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
    ) -> None:
        self.report = ResumeReport()
        self._buffers = store.unwritten
        self._conversations = conversations = store.conversations
        self._policy = policy
        self._prepare = WeakMethod(prepare)
        self._kept: object = None  # the context, as long as something in it is not archived
        self._process_id = os.getpid()
        self._on_load = WeakMethod(on_load)
        self._reading = Background[None]("memory_context resume")
        self._breaker = Breaker(policy.store_retry_seconds)
        self._again = Breaker(_AGAIN_SECONDS)
        self._outages = OutageLog()
        self._light_models = light_models
        light_models.notify(self.record_light_model)
        self._titles = Titles(
            policy.user_sources,
            light_models.titles if policy.archive.titles else None,
            masks_credentials=policy.mask_credentials,
        )
        self.archiver = Archiver(conversations, policy.archive, prepare, self._titles, self._keep_until_archived)

    def attach(self, session: ResumedSession) -> None:
        """Archive this session from now on; a pending history is read at the next use."""
        self.report = session.report
        self._breaker.worked()
        self.archiver.attach(session)

    # --- read at first use

    @property
    def is_pending(self) -> bool:
        """True if the history is still to be read."""
        return self.report.outcome == "pending"

    async def ensure_loaded(self) -> bool:
        """Return True if the history is there; read it at first use. Never raises because of the store."""
        if self.is_pending and not self._breaker.is_open:
            await self._load_safely()
        elif self.is_pending and not self._again.is_open:
            self._start_loading()  # beside the agent: the history joins as soon as it can
        self.record_light_model()
        return not self.is_pending

    async def _load_safely(self) -> None:
        seconds = self._policy.archive.resume_timeout_seconds
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
        """Read the history if it was not read yet, or raise a StoreError."""
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

    async def require_history(self) -> None:
        """Raise a StoreUnavailableError if the policy requires the history and it could not be read yet."""
        if self._policy.archive.require_history and not await self.ensure_loaded():
            raise StoreUnavailableError(
                f"the earlier messages of session {self.archiver.key.session_id!r} could not be read yet, and "
                "archive.require_history refuses to go on without them: add the message again in a moment"
            )

    def note_missing_history(self, counter: TokenCounter) -> None:
        """Have the view say so as long as earlier messages could not be read."""
        transcript = self.archiver.transcript
        noted = [one for one in transcript.state.expanded.values() if one.origin == "history"]
        if self.is_pending and not noted and transcript.end > transcript.state.start:
            tokens = counter.count(MISSING_HISTORY)
            transcript.decide(ExpansionShown(transcript.end - 1, MISSING_HISTORY, tokens, (), "history"))
        if noted and not self.is_pending:
            transcript.decide(ExpansionWithdrawn(tuple(one.place for one in noted), "replaced"))

    async def newest(self, saved: ResumedSession, *, may_be_archived: bool) -> ResumedSession:
        """Return the session of a saved state, or of the archive if that is newer and may win. Never raises."""
        if not self._policy.archive.enabled:
            return replace(saved, report=replace(saved.report, outcome="state"))
        if saved.report.outcome == "pending":
            return saved
        try:
            loading = load_session(self._conversations, saved.key)
            found = await asyncio.wait_for(loading, self._policy.archive.resume_timeout_seconds)
        except (StoreError, asyncio.TimeoutError) as error:
            _logger.warning("going on with the saved state, whatever was archived since: %s", str(error) or "no answer")
            return saved
        if may_be_archived and found.is_newer_than(saved):
            return replace(found, cursor=replace(found.cursor, chat=saved.cursor.chat))
        return replace(saved, cursor=found.cursor_for(saved.cursor))

    async def to_state(self) -> dict[str, Any]:
        """Return transcript and cursor, JSON-native; wait a moment for a batch on its way."""
        await self.archiver.wait(self._policy.store_timeout_seconds)
        transcript, cursor = self.archiver.transcript, self.archiver.cursor
        with_cleared = self._policy.archive.enabled and not cursor.has_cleared(transcript)
        return {
            "transcript": save_transcript(transcript, with_cleared=with_cleared),
            "archive": cursor.to_state(transcript, with_cleared=with_cleared),
            "is_without_history": self.is_pending,
        }

    @property
    def light_model_bill(self) -> LightModelBill:
        """The light model's calls in the whole session."""
        return self._light_models.bill(self.archiver.transcript.state.light_model)

    def record_light_model(self) -> None:
        """Record the light model's calls in the transcript, once the history is there: they add to its sums."""
        transcript, bill = self.archiver.transcript, self.light_model_bill
        if not self.is_pending and bill != transcript.state.light_model:
            self._light_models.take_recorded()
            transcript.decide(LightModelBilled(bill))
            self.archiver.schedule_flush()

    # --- written before the end

    @property
    def unwritten(self) -> str:
        """The messages that are not archived yet, in words; "" for none."""
        archiver = self.archiver
        if not archiver.is_dirty:
            return ""
        key, messages = archiver.key, archiver.unarchived_messages
        return f"session {key.session_id!r} of agent {key.agent_id!r}: {messages:,} messages"

    async def write_out(self, *, is_last: bool) -> None:
        """Archive the rest, or raise a StoreError; `is_last`: the event loop ends, so leave no task running."""
        try:
            await self.flush()
        finally:
            if is_last:
                await self._reading.stop()
                await self.archiver.stop()

    async def flush(self) -> None:
        """Archive the rest, after the history was read, or raise a StoreError; the write outlives the call's time."""
        self._breaker.worked()  # read the history, however recently the store failed
        await within(self._conversations.limits.call_seconds, self.archiver.flush())

    async def leave(self, seconds: float) -> None:
        """Archive the rest within so many seconds. Never raises."""
        self.record_light_model()
        try:
            await asyncio.wait_for(self.flush(), seconds)
        except (StoreError, asyncio.TimeoutError) as error:
            reason = str(error) or f"not done in {seconds:g} s"
            _logger.warning("session %s is not archived: %s", self.archiver.key.session_id, reason)

    async def close(self, seconds: float) -> None:
        """Do as `leave`, and cancel the tasks. Never raises."""
        ends_at = time.monotonic() + seconds
        await self._titles.close()
        self._light_models.notify(None)  # calls that are cancelled now end later
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
        """Warn of lost messages: the store was away when their event loop ended."""
        archiver = getattr(self, "archiver", None)
        if archiver is None or self._process_id != os.getpid() or sys.is_finalizing():
            return
        if unwritten := self.unwritten:
            lost = f"{unwritten} are lost: nothing refers to its context any more. Close contexts, or the store"
            _logger.warning("%s", lost)
            warnings.warn(lost, ResourceWarning, stacklevel=2, source=self)
