"""The archive of one context: its transcript, buffered and written in batches, one row and one transaction each.

    add_message ─▶ noted ──batch_messages, batch_seconds, the end──▶ a batch ─▶ recent_conversation_history
                                                                       │
                     chat messages ───── in the same transaction ──────┘

Promises: noting does no I/O and never raises; a batch whose answer was lost is sent again as it was, and stored once;
what another process archived under the same number is never overwritten: this one goes on beside it, on a branch. While
the store is away everything waits; nothing is given up.
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from weakref import WeakMethod

from ..errors import SessionGoneError, StoreUnavailableError
from ..identifiers import SessionKey
from ..policy import ArchivePolicy
from ..runtime import Flusher
from ..store import ChatMessage, ConversationArchive, NewBatch, within
from ..transcript import Transcript
from .batch import holds, next_batch
from .cursor import ArchiveCursor, BatchCursor
from .resume import load_session
from .titles import Titles

__all__ = ["Archiver"]

_logger = logging.getLogger("memory_context")

_ATTEMPTS = 3  # one, one more when its number was taken, one for a state that was loaded meanwhile
_ROUNDS = 100  # in which everything is measured, though other tasks add messages
_RETRY_SECONDS = 10.0


@dataclass(frozen=True)
class _Sending:
    """A batch on its way, and how far everything is archived once it is there."""

    transcript: Transcript
    batch: NewBatch | None
    chat: tuple[ChatMessage, ...]
    after: BatchCursor
    title: str | None
    title_is_final: bool
    summary: str | None


class Archiver:
    """Archives one session of one agent.

    Args:
        conversations: Where batches go.
        policy: When batches are written.
        settle: A method, awaited before a batch is made: stores what waits to be stored, so that batches hold
            references; False if the history of the session is still to be read.
        titles: Names the session.
        on_state: A method, called with whether something is unwritten, whenever that may have changed.

    Attributes:
        key: The session.
        transactions: How many it has written.
    """

    def __init__(
        self,
        conversations: ConversationArchive,
        policy: ArchivePolicy,
        settle: Callable[[], Awaitable[bool]],
        titles: Titles,
        on_state: Callable[[bool], None],
    ) -> None:
        self.key = SessionKey("", "", "")
        self.transactions = 0
        self._conversations = conversations
        self._policy = policy
        self._settle = WeakMethod(settle)
        self._on_state = WeakMethod(on_state)
        self._titles = titles
        self._transcript = Transcript()
        self._line: BatchCursor | None = BatchCursor()
        self._counted = 0  # messages before this position are counted in the session's row
        self._chat: dict[str, ChatMessage] = {}
        self._delivered: dict[str, int] = {}
        self._unarchived: dict[str, int] = {}  # those of them that no batch names yet
        self._sending: _Sending | None = None
        self._has_begun = False
        self._is_gone = False
        self._flusher = Flusher(
            "memory_context archive",
            self._write_in_time,
            self._waiting,
            batch=policy.batch_messages,
            batch_seconds=policy.batch_seconds,
            retry_seconds=_RETRY_SECONDS,
            on_failure=self._note_failure,
        )

    # --- what is to be archived

    def attach(
        self,
        key: SessionKey,
        transcript: Transcript,
        progress: ArchiveCursor,
        *,
        has_news: bool = False,
        position_offset: int | None = None,
    ) -> None:
        """Archive this transcript from now on.

        Args:
            key: The session.
            transcript: The transcript.
            progress: How far it is archived.
            has_news: Whether the rest is to be archived although nothing is added to it.
            position_offset: Add this to positions of the previous transcript to get positions here; None if unrelated.
        """
        line = progress.line
        self._counted = transcript.end if line is None or line.begins_anew else line.position
        if key != self.key:
            self._chat.clear()
            self._titles.begin()
            self._is_gone = False
            self._flusher.breaker.worked()
        elif line is not None and self._is_behind(line):
            line = None
        if progress.line is not None and progress.line.sequence >= 0:
            self._titles.ask_no_more()
        self.key = key
        self._transcript = transcript
        self._line = line
        self._sending = None
        self._chat.update({message.id: message for message in progress.chat})
        before = {} if position_offset is None else {id_: at + position_offset for id_, at in self._delivered.items()}
        self._delivered = {**before, **progress.delivered}
        self._unarchived = {id_: at for id_, at in self._delivered.items() if line is None or at >= line.position}
        self._has_begun = has_news
        self._tell_state()

    def _is_behind(self, line: BatchCursor) -> bool:
        """Whether more was written, or may have been, than a place says that was read or saved before."""
        own = self._line
        is_further = own is not None and own.branch == line.branch and own.sequence > line.sequence
        return is_further or self._sending is not None

    @property
    def transcript(self) -> Transcript:
        """What is archived."""
        return self._transcript

    @property
    def progress(self) -> ArchiveCursor:
        """How far the transcript is archived, and what is not."""
        return ArchiveCursor(self._line, dict(self._delivered), tuple(self._chat.values()))

    @property
    def is_dirty(self) -> bool:
        """Whether something is not archived yet."""
        if self._is_gone or not self._policy.enabled:
            return False
        if self._chat or self._sending is not None or self._titles.has_news:
            return True
        return self._has_begun and self._has_news

    @property
    def is_gone(self) -> bool:
        """Whether the session was deleted, so that nothing of it is archived any more."""
        return self._is_gone

    @property
    def _has_news(self) -> bool:
        line = self._line
        return line is None or (self._transcript.end, len(self._transcript.log)) != (line.position, line.decision)

    @property
    def chat(self) -> Mapping[str, ChatMessage]:
        """The chat messages that are not durable yet, by id, in the order they came."""
        return self._chat

    @property
    def delivered(self) -> Set[str]:
        """Ids of the chat messages whose words are in the transcript."""
        return self._delivered.keys()

    def add_chat(self, messages: Sequence[ChatMessage], at: int) -> None:
        """Have chat messages archived with the next batch.

        Args:
            messages: What a person sees.
            at: Position in the transcript: their words are in it once it has an entry there.
        """
        for message in messages:
            self._chat[message.id] = message
        self.mark_delivered((message.id for message in messages), at)
        self.schedule_flush()

    def mark_delivered(self, ids: Iterable[str], at: int) -> None:
        """Note where the words of chat messages that are durable already come into the transcript."""
        for id_ in ids:
            if id_ not in self._delivered:
                self._delivered[id_] = self._unarchived[id_] = at

    def forget_chat(self, ids: Collection[str]) -> None:
        """Take out what somebody else made durable."""
        for id_ in ids:
            self._chat.pop(id_, None)

    def schedule_flush(self) -> None:
        """Have what was just added to the transcript written in time. Never raises."""
        self._has_begun = True
        self._tell_state()
        self._flusher.note()

    def abandon(self) -> None:
        """Archive nothing any more: the session was deleted."""
        self._is_gone = True
        self._chat.clear()
        self._flusher.forget()
        self._tell_state()

    # --- writing

    async def flush(self) -> None:
        """Write what is not archived yet.

        Raises:
            StoreError: The store refused or cannot be reached; it stays buffered.
            SessionGoneError: The session was deleted meanwhile; nothing is archived of it any more.
        """
        await self._flusher.flush(if_stopped=f"session {self.key.session_id} was closed while it was being archived")

    async def settled(self, seconds: float | None = None) -> None:
        """Wait for what is being written now, however it ends, but not longer than told."""
        await self._flusher.writing.wait(seconds)

    async def stop(self) -> None:
        """Let nothing run on; what is not archived stays buffered."""
        self._titles.ask_no_more()
        await self._flusher.stop()

    async def _write_in_time(self) -> None:
        try:
            await within(self._conversations.limits.call_seconds, self._write())
        finally:
            self._tell_state()

    async def _write(self) -> None:
        try:
            if self._sending is not None:  # its answer was lost
                await self._send(self._sending)
            for _ in range(_ATTEMPTS):
                self._sending = self._next(await self._prepared())
                if self._sending is None or await self._send(self._sending):
                    break
        except SessionGoneError:
            self._is_gone = True
            self._chat.clear()
            _logger.warning("session %s was deleted: it is archived no more", self.key.session_id)
            raise

    async def _prepared(self) -> BatchCursor:
        """Return the place in the archive, once all before it is there and what comes after it can be written.

        Raises:
            StoreError: The store refused or cannot be reached.
        """
        for _ in range(_ROUNDS):
            settle = self._settle()
            if settle is not None and not await settle():
                raise StoreUnavailableError("the history of the session could not be read yet")
            key, line = self.key, self._line
            if line is None:
                archived = await self._conversations.read(key)
                if self.key == key and self._line is None:
                    self._line = BatchCursor(archived.head, begins_anew=archived.head >= 0)
            # what came while this waited may not be measured yet, and what is told of its parts later needs that
            elif settle is None or all(
                entry.parts is not None
                for entry in self._transcript.entries(start=max(line.position, self._transcript.state.start))
            ):
                return line
            await asyncio.sleep(0)  # nothing above may have waited
        raise StoreUnavailableError("messages of the session are not measured yet")

    def _next(self, line: BatchCursor) -> _Sending | None:
        """Return what is to be sent now."""
        transcript = self._transcript
        end, decisions = transcript.end, len(transcript.log)
        batch, after = None, line
        if self._has_news:
            named = self._delivered if line.begins_anew else self._unarchived
            new_ids = {id_ for id_, at in named.items() if at < end}
            batch = next_batch(line, transcript, new_messages=max(end - self._counted, 0), chat_ids=new_ids)
            after = BatchCursor(line.sequence + 1, line.branch, end, decisions)
        elif not (self._chat or self._titles.has_news):
            return None
        title, is_final = self._titles.current(transcript)
        summary = None if batch is None else self._titles.summary(transcript)
        return _Sending(transcript, batch, tuple(self._chat.values()), after, title or None, is_final, summary)

    async def _send(self, sending: _Sending) -> bool:
        """Send a batch; False if its number was taken by another process, and everything goes to a branch now."""
        appended = await self._conversations.append(
            self.key,
            batch=sending.batch,
            chat=sending.chat,
            title=sending.title,
            title_is_final=sending.title_is_final,
            summary=sending.summary,
            branch=sending.after.branch,
        )
        self.transactions += 1
        self._sending = None
        self._titles.note_kept(sending.title)
        for message in sending.chat:
            if self._chat.get(message.id) is message:
                del self._chat[message.id]
        transcript = self._transcript
        if sending.transcript is not transcript:
            return False  # another state was loaded meanwhile
        if appended.outcome == "conflict":
            return await self._handle_conflict(sending)
        self._line = sending.after
        self._counted = max(self._counted, sending.after.position)
        for id_ in sending.batch.chat_ids if sending.batch else ():
            self._unarchived.pop(id_, None)
        return True

    async def _handle_conflict(self, sending: _Sending) -> bool:
        """Its number is taken: by who has all of this, or else it goes on a branch; whether nothing is left to do."""
        transcript, branch = sending.transcript, uuid.uuid4().hex[:12]
        found = (await load_session(self._conversations, self.key)).transcript
        if transcript is self._transcript and holds(found, transcript.entries()):
            end, decisions = sending.after.position, sending.after.decision
            self._line = BatchCursor(-1, branch, end, decisions, begins_anew=True)  # for what may still come
            return True
        self._line = BatchCursor(branch=branch, begins_anew=True)
        _logger.warning(
            "session %s was continued elsewhere at the same time; what this process has is archived beside it, as "
            "branch %s. Let one process at a time hold a session (SessionCache does).",
            self.key.session_id,
            branch,
        )
        return False

    # --- when

    def _waiting(self) -> int:
        """Return how many messages wait; at least 1 if anything is not archived."""
        if not self.is_dirty:
            return 0
        return max(self._transcript.end - (self._line.position if self._line else 0), len(self._chat), 1)

    def _tell_state(self) -> None:
        if (on_state := self._on_state()) is not None:
            on_state(self.is_dirty)

    def _note_failure(self, error: BaseException) -> None:
        _logger.debug("a batch of the archive waits: %s", error)
