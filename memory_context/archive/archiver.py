"""The archive of one context: its transcript, buffered and written in batches, one row and one transaction each.

    add_message ─▶ noted ──batch_messages, batch_seconds, close, SIGTERM──▶ a batch ─▶ recent_conversation_history
                                                                             │
                     chat messages ──────── in the same transaction ─────────┘

Promises: noting does no I/O and never raises; a batch whose answer was lost is sent again as it was, and stored once;
what another process archived under the same number is never overwritten: this one goes on beside it, on a branch. While
the store is away everything waits; nothing is given up.
"""

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from weakref import WeakMethod

from ..errors import SessionGoneError, StoreError, StoreUnavailableError
from ..policy import ArchivePolicy
from ..store import ChatMessage, ConversationArchive, NewBatch
from ..transcript import Transcript
from .batching import batch_after, holds
from .progress import Line, Progress
from .stopping import archived_on_termination
from .taking_up import take_up
from .titles import Titles

__all__ = ["Archiver"]

_logger = logging.getLogger("memory_context")

_ATTEMPTS = 3  # one, one more when its number was taken, one for a state that was loaded meanwhile
_RETRY_SECONDS = 10.0


@dataclass(frozen=True)
class _Sending:
    """A batch on its way, and how far everything is archived once it is there."""

    transcript: Transcript
    batch: NewBatch | None
    chat: tuple[ChatMessage, ...]
    after: Line
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
        titles: Names the session; None for no titles.

    Attributes:
        identity: User, agent, session.
        transactions: How many it has written.
    """

    def __init__(
        self,
        conversations: ConversationArchive,
        policy: ArchivePolicy,
        settle: Callable[[], Awaitable[bool]],
        titles: Titles | None,
    ) -> None:
        self.identity = ("", "", "")
        self.transactions = 0
        self._conversations = conversations
        self._policy = policy
        self._settle = WeakMethod(settle)  # a context that is dropped is gone at once,
        self._kept: object = None  # unless something in it is not archived yet
        self._titles = titles
        self._transcript = Transcript()
        self._line: Line | None = Line()
        self._counted = 0  # messages before this position are counted in the session's row
        self._chat: dict[str, ChatMessage] = {}
        self._delivered: dict[str, int] = {}
        self._archived_ids: set[str] = set()
        self._sending: _Sending | None = None
        self._timer: tuple[asyncio.AbstractEventLoop, asyncio.TimerHandle, float] | None = None
        self._task: asyncio.Task[None] | None = None
        self._has_begun = False
        self._is_gone = False
        self._retry_at = 0.0

    # --- what is to be archived

    def follow(
        self, identity: tuple[str, str, str], transcript: Transcript, progress: Progress, *, has_news: bool = False
    ) -> None:
        """Archive this transcript from now on.

        Args:
            identity: User, agent, session.
            transcript: The transcript.
            progress: How far it is archived.
            has_news: Whether the rest is to be archived although nothing is added to it.
        """
        if identity != self.identity:
            self._chat.clear()
            self._is_gone = False
        self.identity = identity
        line = progress.line
        self._transcript = transcript
        self._line = line
        self._counted = transcript.end if line is None or line.begins_anew else line.position
        self._sending = None
        self._chat.update({message.id: message for message in progress.chat})
        self._delivered = dict(progress.delivered)
        archived_before = 0 if line is None else line.position
        self._archived_ids = {id_ for id_, at in self._delivered.items() if at < archived_before}
        self._has_begun = has_news

    @property
    def progress(self) -> Progress:
        """How far the transcript is archived, and what is not."""
        return Progress(self._line, dict(self._delivered), tuple(self._chat.values()))

    @property
    def is_dirty(self) -> bool:
        """Whether something is not archived yet."""
        if self._is_gone or not self._policy.enabled:
            return False
        return bool(self._chat) or self._sending is not None or (self._has_begun and self._has_news)

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
            self._delivered.setdefault(message.id, at)
        self.note()

    def mark_delivered(self, ids: Iterable[str], at: int) -> None:
        """Note where the words of chat messages that are durable already come into the transcript."""
        for id_ in ids:
            self._delivered.setdefault(id_, at)

    def forget_chat(self, ids: Collection[str]) -> None:
        """Take out what somebody else made durable."""
        for id_ in ids:
            self._chat.pop(id_, None)

    def note(self) -> None:
        """Have what was just added to the transcript written in time. Never raises."""
        self._has_begun = True
        self._kept = self._settle()
        self._schedule_next()

    def _schedule_next(self) -> None:
        if self.is_dirty:
            waiting = max(self._transcript.end - (self._line.position if self._line else 0), len(self._chat))
            self._schedule(0.0 if waiting >= self._policy.batch_messages else self._policy.batch_seconds)

    def abandon(self) -> None:
        """Archive nothing any more: the session was deleted."""
        self._is_gone = True
        self._chat.clear()
        self._cancel_timer()

    # --- writing

    async def flush(self) -> None:
        """Write what is not archived yet.

        Raises:
            StoreError: The store refused or cannot be reached; it stays buffered.
            SessionGoneError: The session was deleted meanwhile; nothing is archived of it any more.
        """
        await self.settled()
        if self.is_dirty:
            await asyncio.shield(self._begin())

    async def settled(self) -> None:
        """Wait for what is being written now, however it ends."""
        running = self._running()
        if running is not None:
            await asyncio.wait([running])

    async def close(self, seconds: float) -> None:
        """Write what is not archived yet, if that is done in so many seconds, and let nothing run on. Never raises."""
        try:
            await asyncio.wait_for(self.flush(), seconds)
        except (StoreError, asyncio.TimeoutError) as error:
            _logger.warning("session %s is not archived: %s", self.identity[2], error or f"not done in {seconds:g} s")
        self._cancel_timer()
        self._kept = None
        running = self._running()
        if running is not None:
            running.cancel()
            await asyncio.wait([running], timeout=1.0)
        if self._titles is not None:
            await self._titles.close()

    def _running(self) -> asyncio.Task[None] | None:
        task = self._task
        return None if task is None or task.done() or task.get_loop() is not asyncio.get_running_loop() else task

    def _begin(self) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._write(), name="memory_context archive")
        task.add_done_callback(_retrieve)
        self._task = task
        return task

    async def _write(self) -> None:
        self._cancel_timer()
        try:
            settle = self._settle()
            if settle is not None and not await settle():
                raise StoreUnavailableError("the history of the session could not be read yet")
            if self._sending is not None:  # its answer was lost
                await self._send(self._sending)
            for _ in range(_ATTEMPTS):
                self._sending = await self._next()
                if self._sending is None or await self._send(self._sending):
                    break
        except SessionGoneError:
            self._is_gone = True
            self._chat.clear()
            _logger.warning("session %s was deleted: it is archived no more", self.identity[2])
            raise
        except StoreError:
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            raise
        finally:
            self._schedule_next()
            if not self.is_dirty:
                self._kept = None

    async def _next(self) -> _Sending | None:
        """Return what is to be sent now."""
        if self._line is None:
            user_id, agent_id, session_id = self.identity
            archived = await self._conversations.read(user_id, session_id, agent_id)
            self._line = Line(archived.head, begins_anew=archived.head >= 0)
        transcript, line = self._transcript, self._line
        end, decisions = transcript.end, len(transcript.log)
        after = replace(line, position=end, decision=decisions, begins_anew=False)
        batch = None
        if (end, decisions) != (line.position, line.decision):
            arrived = {id_ for id_, at in self._delivered.items() if at < end}
            new_ids = arrived if line.begins_anew else arrived - self._archived_ids
            batch = batch_after(line, transcript, new_messages=max(end - self._counted, 0), chat_ids=new_ids)
            after = replace(after, sequence=line.sequence + 1)
        elif not self._chat:
            return None
        title, is_final = ("", False) if self._titles is None else self._titles.current(transcript)
        summary = None if self._titles is None or batch is None else self._titles.summary(transcript)
        return _Sending(transcript, batch, tuple(self._chat.values()), after, title or None, is_final, summary)

    async def _send(self, sending: _Sending) -> bool:
        """Send a batch; False if its number was taken by another process, and everything goes to a branch now."""
        user_id, agent_id, session_id = self.identity
        appended = await self._conversations.append(
            user_id,
            session_id,
            agent_id,
            batch=sending.batch,
            chat=sending.chat,
            title=sending.title,
            title_is_final=sending.title_is_final,
            summary=sending.summary,
            branch=sending.after.branch,
        )
        self.transactions += 1
        self._sending = None
        for message in sending.chat:
            if self._chat.get(message.id) is message:
                del self._chat[message.id]
        transcript = self._transcript
        if sending.transcript is not transcript:
            return False  # another state was loaded meanwhile
        if appended.outcome == "conflict":
            return await self._met_another(sending)
        self._line = sending.after
        self._counted = max(self._counted, sending.after.position)
        self._archived_ids |= set(sending.batch.chat_ids if sending.batch else ())
        return True

    async def _met_another(self, sending: _Sending) -> bool:
        """Its number is taken: by who has all of this, or else it goes on a branch; whether nothing is left to do."""
        transcript, branch = sending.transcript, uuid.uuid4().hex[:12]
        found = (await take_up(self._conversations, self.identity)).transcript
        if transcript is self._transcript and holds(found, transcript.entries()):
            end, decisions = sending.after.position, sending.after.decision
            self._line = Line(-1, branch, end, decisions, begins_anew=True)  # for what may still come
            return True
        self._line = Line(branch=branch, begins_anew=True)
        _logger.warning(
            "session %s was continued elsewhere at the same time; what this process has is archived beside it, as "
            "branch %s. Let one process at a time hold a session (SessionCache does).",
            self.identity[2],
            branch,
        )
        return False

    # --- the timer

    def _schedule(self, seconds: float) -> None:
        """Have everything written in so many seconds, or sooner if that was said before.

        By a timer, not by a task that sleeps: a program may drop its event loop without closing anything.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # the next loop that adds something writes it
        archived_on_termination(loop, self)
        now = time.monotonic()
        due = max(now + seconds, self._retry_at)
        if self._timer is not None:
            its_loop, handle, its_due = self._timer
            if its_loop is loop and its_due <= due and not handle.cancelled():
                return
            self._cancel_timer()
        self._timer = (loop, loop.call_later(due - now, self._on_time), due)

    def _on_time(self) -> None:
        self._timer = None
        if self.is_dirty and self._running() is None:
            self._begin()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None


def _retrieve(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _logger.debug("a batch of the archive waits: %s", error)
