"""One session of one agent as its context sees it: taken up at first use, archived from then on.

As long as something of it is not archived, the store keeps the session, and the session its context: a program may let
go of a context without closing it, as AutoGen's agents and teams do.
"""

import asyncio
import logging
import os
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any
from weakref import WeakMethod

from autogen_core.models import LLMMessage
from pydantic import TypeAdapter

from ..errors import StoreError, StoreUnavailableError
from ..identifiers import SessionKey, checked_identifier
from ..light_model import LightModelBill, LightModelGuards
from ..policy import ContextPolicy
from ..store import MemoryStore, within
from ..tokens import TokenCounter
from ..transcript import LightModelBilled, Transcript, load_transcript, save_transcript
from .archiver import Archiver
from .cursor import ArchiveCursor
from .loader import SessionLoader
from .missing_history import note_on_history
from .report import ResumeReport
from .resume import ResumedSession, load_session
from .titles import Titles

__all__ = ["Session", "saved_session"]

_logger = logging.getLogger("memory_context")

_LEAST_SECONDS = 0.1  # for archiving, however long the rest took

_MESSAGES: TypeAdapter[list[LLMMessage]] = TypeAdapter(list[LLMMessage])


class Session:
    """Where a context's session comes from, and where it goes.

    Args:
        store: Has the archive of all sessions, and what is to be written before it is closed.
        policy: How it is archived, whose words name it, how long a store that failed is left alone.
        go_on: A method that lets the context go on with what the archive has.
        settle: A method that stores what waits to be stored, before a batch is written; False if that has to wait.
        light_models: Name the session; what they are used for is recorded in its transcript.
        is_new: Whether nothing can be in the archive.
        begins_anew: Whether it goes on without what is there.

    Attributes:
        archiver: Writes what happens.
        progress: How far it is archived before anything is known of it.
    """

    write_order = 1
    extra_seconds = 0.0

    def __init__(
        self,
        store: MemoryStore,
        policy: ContextPolicy,
        go_on: Callable[[ResumedSession], Awaitable[None]],
        settle: Callable[[], Awaitable[bool]],
        light_models: LightModelGuards,
        *,
        is_new: bool,
        begins_anew: bool,
    ) -> None:
        archive = policy.archive
        self._buffers = store.unwritten
        self._conversations = conversations = store.conversations
        self._policy = policy
        self._settle = WeakMethod(settle)
        self._kept: object = None  # the context, as long as something in it is not archived
        self._process_id = os.getpid()
        self._loader = SessionLoader(
            conversations,
            go_on,
            ResumeReport("off" if not archive.enabled else "new" if is_new or begins_anew else "pending"),
            archive.resume_timeout_seconds,
            policy.store_retry_seconds,
        )
        self._light_models = light_models
        light_models.notify(self.record_light_model)
        self._titles = Titles(
            policy.user_sources,
            light_models.titles if archive.titles else None,
            masks_credentials=policy.mask_credentials,
        )
        self.archiver = Archiver(conversations, archive, settle, self._titles, self._keep_until_archived)
        self.progress = ArchiveCursor(line=None) if begins_anew and not is_new else ArchiveCursor()

    @property
    def report(self) -> ResumeReport:
        """How it was taken up."""
        return self._loader.report

    @property
    def is_pending(self) -> bool:
        """Whether its history is still to be read."""
        return self._loader.is_pending

    async def settle(self) -> bool:
        """Return whether its history is there; read it at first use. Never raises because of the store."""
        has_history = await self._loader.settle(self.archiver.key)
        self.record_light_model()
        return has_history

    @property
    def light_model_bill(self) -> LightModelBill:
        """The light model's calls in the session so far, those before a resume included."""
        return self._light_models.bill(self.archiver.transcript.state.light_model)

    def record_light_model(self) -> None:
        """Record the light model's calls in the transcript; not before the history is there, whose sums they add to."""
        transcript, bill = self.archiver.transcript, self.light_model_bill
        if not self.is_pending and bill != transcript.state.light_model:
            self._light_models.take_recorded()
            transcript.decide(LightModelBilled(bill))
            self.archiver.schedule_flush()

    async def require_history(self) -> None:
        """Return once the history is there, if the policy requires it.

        Raises:
            StoreUnavailableError: It could not be read yet.
        """
        if self._policy.archive.require_history and not await self.settle():
            raise StoreUnavailableError(
                f"the earlier messages of session {self.archiver.key.session_id!r} could not be read yet, and "
                "archive.require_history refuses to go on without them: add the message again in a moment"
            )

    def note_history(self, counter: TokenCounter) -> None:
        """Have the view say that earlier messages could not be read yet, as long as that is so."""
        transcript = self.archiver.transcript
        for decision in note_on_history(transcript, counter, is_missing=self.is_pending):
            transcript.decide(decision)

    async def resume(self) -> ResumeReport:
        """Read its history if it was not read yet.

        Raises:
            StoreError: The store refused or cannot be reached; nothing changed.
        """
        return await self._loader.now(self.archiver.key)

    # --- written before the end

    @property
    def unwritten(self) -> str:
        """A description of the messages that are not archived yet; empty if all are."""
        archiver = self.archiver
        if not archiver.is_dirty:
            return ""
        line, transcript = archiver.progress.line, archiver.transcript
        archived = transcript.first if line is None or line.begins_anew else line.position
        key = archiver.key
        return f"session {key.session_id!r} of agent {key.agent_id!r}: {transcript.end - archived:,} messages"

    async def write_out(self, *, is_last: bool) -> None:
        """Archive what is not archived yet.

        Args:
            is_last: True when the event loop ends, so that no task may be left running.

        Raises:
            StoreError: The store refused or cannot be reached; it stays buffered.
        """
        try:
            await self.flush()
        finally:
            if is_last:
                await self._loader.stop()
                await self.archiver.stop()

    async def flush(self) -> None:
        """Archive what is not archived yet, after its history was read.

        What began goes on when the time of a call is over.

        Raises:
            StoreError: The store refused or cannot be reached; it stays buffered.
        """
        self._loader.retry_now()
        await within(self._conversations.limits.call_seconds, self.archiver.flush())

    async def leave(self, seconds: float) -> None:
        """Archive what is not archived yet, if that is done in so many seconds. Never raises."""
        self.record_light_model()
        try:
            await asyncio.wait_for(self.flush(), seconds)
        except (StoreError, asyncio.TimeoutError) as error:
            reason = str(error) or f"not done in {seconds:g} s"
            _logger.warning("session %s is not archived: %s", self.archiver.key.session_id, reason)

    async def close(self, seconds: float) -> None:
        """Do as `leave`, and let nothing run on. Never raises."""
        ends_at = time.monotonic() + seconds
        await self._titles.close()
        self._light_models.notify(None)  # what is cancelled now ends later
        await self.leave(max(ends_at - time.monotonic(), _LEAST_SECONDS))
        await self.archiver.stop()
        self._buffers.release(self)
        self._kept = None

    def _keep_until_archived(self, is_dirty: bool) -> None:
        if is_dirty:
            self._kept = self._settle()
            self._buffers.hold(self)
        else:
            self._buffers.release(self)
            self._kept = None

    def __del__(self) -> None:
        """Warn of what nobody can write any more: it could not be written when its event loop ended."""
        archiver = getattr(self, "archiver", None)
        if archiver is None or self._process_id != os.getpid() or sys.is_finalizing():
            return
        if unwritten := self.unwritten:
            lost = f"{unwritten} are lost: nothing refers to its context any more. Close contexts, or the store"
            _logger.warning("%s", lost)
            warnings.warn(lost, ResourceWarning, stacklevel=2, source=self)

    async def newest(self, key: SessionKey, saved: ResumedSession, *, may_be_archived: bool) -> ResumedSession:
        """Return what it goes on with when a saved state is loaded. Never raises because of the store.

        Args:
            key: The session.
            saved: What the state has.
            may_be_archived: Whether the archive counts if it is newer; else the state does in any case.
        """
        archive = self._policy.archive
        if not archive.enabled:
            return replace(saved, report=replace(saved.report, outcome="state"))
        if saved.report.outcome == "pending":
            return saved
        try:
            found = await asyncio.wait_for(load_session(self._conversations, key), archive.resume_timeout_seconds)
        except (StoreError, asyncio.TimeoutError) as error:
            _logger.warning("going on with the saved state, whatever was archived since: %s", str(error) or "no answer")
            return saved
        if may_be_archived and found.is_newer_than(saved):
            return replace(found, progress=replace(found.progress, chat=saved.progress.chat))
        return replace(saved, progress=found.continued_by(saved.progress))

    def begin(
        self,
        key: SessionKey,
        transcript: Transcript,
        progress: ArchiveCursor,
        report: ResumeReport | None,
        *,
        position_offset: int | None = None,
    ) -> None:
        """Archive a transcript from now on; with a report it was taken up from somewhere (see `Archiver.attach`)."""
        if report is not None:
            self._loader.begin(report)
        has_news = report is not None and report.outcome != "resumed" and transcript.end > 0
        self.archiver.attach(key, transcript, progress, has_news=has_news, position_offset=position_offset)

    async def to_state(self) -> dict[str, Any]:
        """Return the transcript and how far it is archived, JSON-native; waits a moment for a batch on its way."""
        await self.archiver.settled(self._policy.store_timeout_seconds)
        transcript, progress = self.archiver.transcript, self.archiver.progress
        with_cleared = self._policy.archive.enabled and not progress.has_cleared(transcript)
        return {
            "transcript": save_transcript(transcript, with_cleared=with_cleared),
            "archive": progress.to_state(transcript, with_cleared=with_cleared),
            "is_without_history": self.is_pending,
        }


def saved_session(state: Mapping[str, Any], user_id: str, session_id: str) -> tuple[str, ResumedSession]:
    """Return the id of a saved session and what the state has of it, also of the states of AutoGen's own contexts.

    Args:
        state: What a context saved.
        user_id: Whose it has to be.
        session_id: The session it is for, if it does not say.

    Raises:
        ValueError: The state belongs to another user, comes from a newer version, or is none.
    """
    progress = ArchiveCursor(line=None)
    if "transcript" in state:
        if state.get("user_id") != user_id:
            raise ValueError(f"this state belongs to user {state.get('user_id')!r}, not to {user_id!r}")
        transcript, progress = load_transcript(state["transcript"]), ArchiveCursor.from_state(state.get("archive"))
        session_id = checked_identifier("session_id", state.get("session_id"))
    elif "messages" in state:
        transcript = Transcript.of(_MESSAGES.validate_python(state["messages"]))
    else:
        raise ValueError(
            f"this is no state of a chat context: it has neither transcript nor messages, but {[*state]!r}"
        )
    outcome = "pending" if state.get("is_without_history") else "state"
    report = ResumeReport(outcome, transcript.end - transcript.state.start)
    return session_id, ResumedSession(transcript, progress, report)
