"""The archive of one context: its transcript, buffered and written in batches, one transaction each.

    add_message ─▶ schedule_flush ──end of a turn, batch_seconds, close──▶ a batch ─▶ recent_conversation_history
                                                                                │
                              chat messages ───── in the same transaction ──────┘

Writes are idempotent: a retry with the same sequence and hash returns `known`. After a conflict this process
writes to a branch.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from weakref import WeakMethod

from autogen_core.models import AssistantMessage, FunctionExecutionResultMessage, LLMMessage

from memory_context.foundation.errors import SessionGoneError, StoreUnavailableError
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.policy import ArchivePolicy
from memory_context.foundation.runtime.background import PerLoop, Timer
from memory_context.foundation.runtime.buffers import Flusher
from memory_context.store.conversations import ChatMessage, ConversationArchive, NewBatch
from memory_context.store.jobs import NewJob
from memory_context.store.limits import within

from ..transcript.transcript import Transcript
from .cursor import ArchiveCursor, BatchCursor, BatchJob, contains, known_items, next_batch, traces_of
from .resume import ResumedSession, load_session, new_branch
from .titles import Titles

__all__ = ["Archiver"]

_logger = logging.getLogger("memory_context")

_BATCH_MESSAGES = 1000  # the most that wait within a turn
_ATTEMPTS = 3  # first, after a conflict, after an attach
_ROUNDS = 100  # of measuring
_RETRY_SECONDS = 10.0
_ANSWERED_SECONDS = 0.1  # the surface's copy of the answer comes a moment later and shares the transaction
_RESULTS_SECONDS = 1.0  # an agent that goes on after results asks for a view at once; else they ended its turn
_NO_KEY = SessionKey("", "", "")


@dataclass(frozen=True)
class _Write:
    transcript: Transcript
    batch: NewBatch | None
    chat: tuple[ChatMessage, ...]
    after: BatchCursor
    title: str | None
    title_is_final: bool
    summary: str | None
    jobs: tuple[NewJob, ...]


class Archiver:
    """Archives one session of one agent.

    Args:
        prepare: Awaited before each batch: stores pending content, so that batches hold references; False while the
            history is unread.
        on_state: Called with `is_dirty` whenever that may have changed.
        batch_jobs: Written with each batch that needs them.

    Attributes:
        is_gone: The session was deleted or its user erased; it is no longer archived.
    """

    def __init__(
        self,
        conversations: ConversationArchive,
        policy: ArchivePolicy,
        prepare: Callable[[], Awaitable[bool]],
        titles: Titles,
        on_state: Callable[[bool], None],
        batch_jobs: Sequence[BatchJob] = (),
    ) -> None:
        self.key = _NO_KEY
        self.transcript = Transcript()
        self.is_gone = False
        self.transactions = 0
        self._conversations = conversations
        self._policy = policy
        self._prepare = WeakMethod(prepare)
        self._on_state = WeakMethod(on_state)
        self._titles = titles
        self._batch_jobs = batch_jobs
        self._at: BatchCursor | None = BatchCursor()  # None: the archive must be asked
        self._is_from_scratch = False
        self._counted = 0  # positions below are counted in the session's row
        self._chat: dict[str, ChatMessage] = {}
        self._delivered: dict[str, int] = {}
        self._unarchived: dict[str, int] = {}  # in no batch yet
        self._unanswered: _Write | None = None
        self._known = dict[str, int]()
        self._known_to = (0, 0)  # decision and position
        self._forgotten = set[str]()  # those of the known keys that this process dropped
        self._has_begun = self._is_resumed = False
        self._flusher = Flusher(
            "memory_context archive",
            self._write_in_time,
            self._waiting,
            batch=_BATCH_MESSAGES,
            batch_seconds=policy.batch_seconds,
            retry_seconds=_RETRY_SECONDS,
            on_failure=lambda error: _logger.debug("a batch of the archive waits: %s", error),
        )
        self._turn_ends = PerLoop(lambda: Timer(self._flush_turn))
        self._results_wait = PerLoop(lambda: Timer(self._flush_turn))

    def attach(self, session: ResumedSession) -> None:
        cursor, at, transcript = session.cursor, session.cursor.batch, session.transcript
        self._counted = transcript.end if at is None or at.begins_anew else at.position
        if session.key != self.key:
            self._chat.clear()
            self._titles.begin()
            self.is_gone = False
            self._flusher.breaker.worked()
        elif at is not None and self._is_behind(at):
            at = None
        if cursor.batch is not None and cursor.batch.sequence >= 0:
            self._titles.ask_no_more()
        # an unused context is a template and is not archived
        self._is_from_scratch = at is None and session.report.outcome == "new"
        self._is_resumed = session.report.outcome in ("resumed", "state")
        self._has_begun = self.key != _NO_KEY and session.report.outcome != "resumed" and transcript.end > 0
        self.key, self.transcript, self._at, self._unanswered = session.key, transcript, at, None
        self._known, self._known_to, self._forgotten = {}, (0, transcript.first), set[str]()
        self._chat.update({message.id: message for message in cursor.chat})
        offset = session.position_offset
        before = {} if offset is None else {id_: position + offset for id_, position in self._delivered.items()}
        self._delivered = {**before, **cursor.delivered}
        self._unarchived = {id_: end for id_, end in self._delivered.items() if at is None or end >= at.position}
        if self._policy.enabled:
            transcript.keep_views(transcript.first if at is None or at.begins_anew else at.position)
        self._tell_state()

    def _is_behind(self, at: BatchCursor) -> bool:
        own = self._at
        is_further = own is not None and own.branch == at.branch and own.sequence > at.sequence
        return is_further or self._unanswered is not None

    @property
    def cursor(self) -> ArchiveCursor:
        return ArchiveCursor(self._at, dict(self._delivered), tuple(self._chat.values()))

    @property
    def is_dirty(self) -> bool:
        if self.is_gone or not self._policy.enabled:
            return False
        if self._chat or self._unanswered is not None or self._titles.has_news:
            return True
        return self._has_begun and self._has_news

    @property
    def is_store_away(self) -> bool:
        """True if a write failed a moment ago."""
        return self._flusher.breaker.is_open

    @property
    def _has_news(self) -> bool:
        at = self._at
        return at is None or (self.transcript.end, len(self.transcript.log)) != (at.position, at.decision)

    @property
    def unarchived_messages(self) -> int:
        at = self._at
        return self.transcript.end - (self.transcript.first if at is None or at.begins_anew else at.position)

    @property
    def chat(self) -> Mapping[str, ChatMessage]:
        """Chat messages not durable yet, in order of arrival."""
        return self._chat

    @property
    def delivered(self) -> Set[str]:
        return self._delivered.keys()

    def add_chat(self, messages: Sequence[ChatMessage], at: int) -> None:
        """Archive chat messages, at position `at` of the transcript."""
        for message in messages:
            self._chat[message.id] = message
        self.mark_delivered((message.id for message in messages), at)
        self.schedule_flush()

    def mark_delivered(self, ids: Iterable[str], at: int) -> None:
        """Note the position of durable chat messages."""
        for id_ in ids:
            if id_ not in self._delivered:
                self._delivered[id_] = self._unarchived[id_] = at

    def forget_chat(self, ids: Collection[str]) -> None:
        for id_ in ids:
            self._chat.pop(id_, None)

    def schedule_flush(self) -> None:
        """Schedule a batch. Never raises."""
        if not (self._has_begun or self._is_resumed):
            _logger.info("session %s of agent %s: opened", self.key.session_id, self.key.agent_id)
        self._has_begun = True
        self._tell_state()
        self._flusher.note()

    def note_decisions(self) -> None:
        """Schedule a batch for what a view decided; mostly a message follows and shares it."""
        if self._has_begun:  # a view alone begins no session
            self._tell_state()
            self._flusher.note()

    def note_step(self, message: LLMMessage) -> None:
        """Schedule the batch of a turn that this message ends: an answer does, results may.

        Turns that follow each other within a moment share a batch.
        """
        if isinstance(message, FunctionExecutionResultMessage):
            self._results_wait.here().plan(_RESULTS_SECONDS)
            return
        self.note_view()
        if isinstance(message, AssistantMessage) and isinstance(message.content, str):
            self._turn_ends.here().plan(_ANSWERED_SECONDS)

    def note_view(self) -> None:
        """Note that the agent goes on: results before did not end its turn."""
        self._results_wait.here().cancel()

    def _flush_turn(self) -> None:
        self._results_wait.here().cancel()
        if self._flusher.writing.running() is None:
            self._flusher.note(now=True)
        else:  # that batch may have begun before the turn ended
            self._turn_ends.here().plan(_ANSWERED_SECONDS)

    def _stop_timers(self) -> None:
        for timers in (self._turn_ends, self._results_wait):
            for _, timer in timers.all():
                timer.cancel()

    def abandon(self) -> None:
        self.is_gone = True
        self._chat.clear()
        self._flusher.forget()
        self._stop_timers()
        self._tell_state()

    async def flush(self) -> None:
        """Write everything unarchived.

        Raises:
            StoreError: The store refused or cannot be reached; everything stays buffered.
            SessionGoneError: The session was deleted, or its user erased.
        """
        await self._flusher.flush(if_stopped=f"session {self.key.session_id} was closed while it was being archived")

    async def wait(self, seconds: float | None = None) -> None:
        await self._flusher.writing.wait(seconds)

    async def stop(self) -> None:
        self._titles.ask_no_more()
        self._stop_timers()
        await self._flusher.stop()

    async def _write_in_time(self) -> None:
        self._turn_ends.here().cancel()  # it takes everything
        self._results_wait.here().cancel()
        try:
            await within(self._conversations.limits.call_seconds, self._write())
        finally:
            self._tell_state()

    async def _write(self) -> None:
        try:
            if self._unanswered is not None:  # connection lost; perhaps committed
                await self._send(self._unanswered)
            for _ in range(_ATTEMPTS):
                self._unanswered = self._next_write(await self._prepared_cursor())
                if self._unanswered is None or await self._send(self._unanswered):
                    break
        except SessionGoneError as error:
            self.is_gone = True
            self._chat.clear()
            _logger.warning("%s: it is archived no more", error)
            raise

    async def _prepared_cursor(self) -> BatchCursor:
        """Return the cursor once everything behind it is measured and stored."""
        for _ in range(_ROUNDS):
            prepare = self._prepare()
            if prepare is not None and not await prepare():
                raise StoreUnavailableError("the history of the session could not be read yet")
            key, at = self.key, self._at
            if at is None:
                place = await self._place()
                if self.key == key and self._at is None:
                    self._at = place
            else:
                entries = self.transcript.entries(start=max(at.position, self.transcript.state.start))
                if prepare is None or all(entry.parts is not None for entry in entries):
                    return at
            await asyncio.sleep(0)  # in case nothing above waited
        raise StoreUnavailableError("messages of the session are not measured yet")

    def _next_write(self, at: BatchCursor) -> _Write | None:
        transcript = self.transcript
        end, decisions = transcript.end, len(transcript.log)
        batch, after = None, at
        if self._has_news:
            named = self._delivered if at.begins_anew else self._unarchived
            new_ids = {id_ for id_, position in named.items() if position < end}
            batch = next_batch(at, transcript, new_messages=max(end - self._counted, 0), chat_ids=new_ids)
            after = BatchCursor(at.sequence + 1, at.branch, end, decisions)
        elif not (self._chat or self._titles.has_news):
            return None
        title, is_final = self._titles.current(transcript)
        summary = None if batch is None else self._titles.summary(transcript)
        jobs = () if batch is None else self._jobs_of(batch, after)
        return _Write(transcript, batch, tuple(self._chat.values()), after, title or None, is_final, summary, jobs)

    def _jobs_of(self, batch: NewBatch, after: BatchCursor) -> tuple[NewJob, ...]:
        entries = self.transcript.entries(batch.body["first_position"], after.position)
        jobs = (job.of(self.key, after.branch, batch.sequence, entries) for job in self._batch_jobs)
        return tuple(job for some in jobs for job in some)

    async def _send(self, write: _Write) -> bool:
        """Return False to write again."""
        appended = await self._conversations.append(
            self.key,
            batch=write.batch,
            chat=write.chat,
            title=write.title,
            title_is_final=write.title_is_final,
            summary=write.summary,
            branch=write.after.branch,
            jobs=write.jobs,
            known_keys=self._known_keys(),
            is_known=write.after.sequence >= (0 if write.batch is None else 1),
        )
        self.transactions += 1
        await self._drop_forgotten(appended.forgotten_keys)
        self._unanswered = None
        self._titles.note_kept(write.title)
        for message in write.chat:
            if self._chat.get(message.id) is message:
                del self._chat[message.id]
        if write.transcript is not self.transcript:
            return False
        if appended.outcome == "conflict":
            return await self._handle_conflict(write)
        if write.batch is not None:
            messages = write.after.position - (self._at.position if self._at else 0)
            _logger.info(
                "session %s: archived %d messages, batch %d", self.key.session_id, messages, write.after.sequence
            )
        self._at = write.after
        self.transcript.note_archived(write.after.position, write.after.decision)
        self._counted = max(self._counted, write.after.position)
        for id_ in write.batch.chat_ids if write.batch else ():
            self._unarchived.pop(id_, None)
        return True

    def _known_keys(self) -> Collection[str]:
        transcript = self.transcript
        self._known |= known_items(transcript, self.key, *self._known_to)
        self._known_to = len(transcript.log), transcript.end
        return self._known.keys()

    async def look_for_forgotten(self) -> None:
        """Drop what other processes forgot, as a batch does; raises StoreError."""
        await self._drop_forgotten(await self._conversations.forgotten_keys(self.key.user_id, self._known_keys()))

    async def _drop_forgotten(self, keys: Collection[str]) -> None:
        if new := sorted({*keys} - self._forgotten):
            self._forgotten |= {*new}
            await self._conversations.drop_forgotten(self.key, traces_of(self.transcript, self.key, self._known, new))

    async def _place(self) -> BatchCursor:
        """Return where the transcript goes on, as the archive must be asked."""
        if self._is_from_scratch:  # it replaces what the session had
            archived = await self._conversations.read(self.key, branch="")
            return BatchCursor(archived.head, begins_anew=archived.head >= 0)
        return (await load_session(self._conversations, self.key, with_cleared=True)).place_beside(self.transcript)

    async def _handle_conflict(self, write: _Write) -> bool:
        """Return True if the other writer went on from here; else go on behind its line, or switch branches.

        With the same messages this one has decisions of its own, so its line is written again.
        """
        transcript = write.transcript
        living = await load_session(self._conversations, self.key, with_cleared=True)
        is_behind = living.transcript.end > transcript.end
        if is_behind and transcript is self.transcript and contains(living.transcript, transcript.entries()):
            end, decisions = write.after.position, write.after.decision
            self._at = BatchCursor(-1, new_branch(), end, decisions, begins_anew=True)
            return True
        self._at = living.place_beside(transcript)
        if self._at.sequence < 0:
            _logger.warning(
                "session %s was continued elsewhere at the same time; what this process has is archived beside it, as "
                "branch %s. Let one process at a time hold a session (SessionCache does).",
                self.key.session_id,
                self._at.branch,
            )
        return False

    def _waiting(self) -> int:
        if not self.is_dirty:
            return 0
        return max(self.transcript.end - (self._at.position if self._at else 0), len(self._chat), 1)

    def _tell_state(self) -> None:
        if (on_state := self._on_state()) is not None:
            on_state(self.is_dirty)
