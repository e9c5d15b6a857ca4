"""A live conversation of a person and an agent; chat history and transcript can diverge.

messages the agent has not heard ─┬─ up to the last answer: replayed into its context
                                  └─ questions after it: answered when they are asked again
"""

import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from autogen_agentchat.base import ChatAgent, TaskRunner
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage

from memory_context.context.context import MemoryContext
from memory_context.foundation.credentials.masks import masked
from memory_context.foundation.errors import SessionGoneError
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.references import one_line
from memory_context.store.conversations import ChatMessage

from ..access.errors import replace_surrogates

__all__ = ["ChatSession", "Question", "title_of"]

_LOG_MESSAGES = 200
_PAGE_MESSAGES = 100
_TITLE_CHARACTERS = 80
_READ_CHARACTERS = 10_000  # of the message that becomes the title
_TICK = timedelta(milliseconds=1)
_CLIENT = "client"
_CLAIM = "The page brought this back as an earlier answer of the assistant; the server cannot confirm that:"


@dataclass(frozen=True)
class Question:
    """The message to answer, the task for the agent (empty if it was heard), and the answer if known."""

    message: ChatMessage | None
    task: tuple[ChatMessage, ...] = ()
    answer: ChatMessage | None = None


@dataclass
class _Line:
    message: ChatMessage
    answer_id: str
    is_durable: bool = False
    is_reported: bool = True


class ChatSession:
    """A live conversation. Each message is stored and heard once.

    An answer that a client sends stays unverified unless this session said it.

    Attributes:
        agent: None to build it again, as after a cut-off run.
        is_replayed: True if the agent has heard the chat history.
    """

    def __init__(self, key: SessionKey, context: MemoryContext) -> None:
        self.key = key
        self.context = context
        self.agent: TaskRunner | None = None
        self.is_replayed = False
        self.is_stored = False
        self._log: dict[str, _Line] = {}  # the newest in order, and older unreported ones
        self._streamed = ""  # the last answer, as far as it was sent

    # --- protocol of the session cache

    async def resume(self) -> None:
        await self.context.resume()

    async def save_state(self) -> Mapping[str, Any]:
        return await self.context.save_state()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from this state, or a newer archive."""
        await self.context.load_state(state)
        self.is_replayed = False

    async def archive(self) -> None:
        await self.context.archive()

    async def close(self) -> None:
        await self.context.close()

    @property
    def is_dirty(self) -> bool:
        return self.context.archiver.is_dirty

    def check(self) -> None:
        """Raise SessionGoneError after a deletion."""
        if self.context.archiver.is_gone:
            raise SessionGoneError(f"session {self.key.session_id!r} was deleted")

    # --- chat history and transcript

    @property
    def buffered(self) -> list[ChatMessage]:
        return [*self.context.archiver.chat.values()]

    async def replay_missing_messages(self) -> None:
        """Replay unheard chat messages, except unanswered questions."""
        await self.context.agent_memory.secrets.ready(self.context.memory_store.limits.call_seconds)
        if self.is_replayed:
            return
        self.is_replayed = True  # first: archiving meanwhile clears it again
        try:
            stored = await self._read_unheard()
            self._keep(self.buffered)
            self._keep(stored, are_durable=True)
            await self._replay(self._missing()[0])
        except BaseException:
            self.is_replayed = False
            raise

    async def _read_unheard(self) -> list[ChatMessage]:
        """Return the newest stored messages, back to a page already heard."""
        heard, found = self._heard(), list[ChatMessage]()
        async for page in self._pages():
            found = [*page, *found]
            if len(found) >= _LOG_MESSAGES or heard.issuperset(message.id for message in page):
                break
        return found

    async def _pages(self) -> AsyncIterator[list[ChatMessage]]:
        """Yield pages of stored messages, the newest first."""
        user_id, _, session_id = self.key
        chat_page = self.context.memory_store.conversations.chat_page
        page = await chat_page(user_id, session_id, limit=_PAGE_MESSAGES)
        while page:
            yield page
            is_first = len(page) < _PAGE_MESSAGES
            before = _place(page[0])
            page = [] if is_first else await chat_page(user_id, session_id, limit=_PAGE_MESSAGES, before=before)

    def _heard(self) -> set[str]:
        end = self.context.transcript.end
        return {id_ for id_, at in self.context.archiver.cursor.delivered.items() if at < end}

    def _missing(self) -> tuple[list[ChatMessage], list[ChatMessage]]:
        """Return unheard messages to replay, and unanswered questions."""
        heard, answered = self._heard(), self._answered()
        unheard = [message for message in self._messages() if message.id not in heard]
        questions = [message for message in _last_questions(unheard) if message.id not in answered]
        return [message for message in unheard if message not in questions], questions

    def _answered(self) -> set[str]:
        """Return ids of questions with an answer, or before an answered one."""
        answered: set[str] = set()
        together: list[str] = []
        for line in self._log.values():
            if line.message.sender == "ai":
                together = []
                continue
            together.append(line.message.id)
            if line.answer_id in self._log:
                answered.update(together)
        return answered

    async def _replay(self, messages: Sequence[ChatMessage]) -> None:
        transcript = self.context.transcript
        for message in messages:
            if message.sender == "ai" and message.text == replace_surrogates(self._final_words() or ""):
                self._confirm(message, transcript.end - 1)  # heard by a process that ended unarchived
                continue
            self._record(message, transcript.end)
            await self.context.add_message(self._as_heard(message))

    def _record(self, message: ChatMessage, at: int) -> None:
        line = self._log.get(message.id)
        if line is not None and line.is_durable:
            self.context.archiver.mark_delivered([message.id], at)
        else:
            hidden = self.context.agent_memory.secrets.filter.hide(message.text)
            self.context.archiver.add_chat([replace(message, text=hidden)], at)

    def _confirm(self, message: ChatMessage, at: int) -> None:
        """Mark an answer as the agent's own, also an unverified one."""
        line = self._log[message.id]
        line.message = replace(message, is_verified=True)
        line.is_durable = line.is_durable and message.is_verified
        self._record(line.message, at)

    def _as_heard(self, message: ChatMessage) -> LLMMessage:
        if message.sender == "user":
            return UserMessage(content=message.text, source="user")
        if message.is_verified:
            return AssistantMessage(content=message.text, source=getattr(self.agent, "name", "assistant"))
        text = message.text.replace("</unverified", "</ unverified")
        return UserMessage(content=f"{_CLAIM}\n<unverified>\n{text}\n</unverified>", source=_CLIENT)

    def confirmed(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Replace a client's answers by this session's, or mark them unverified."""
        told: list[ChatMessage] = []
        for message in messages:
            line = self._log.get(message.id)
            if message.sender == "ai" and line is not None and line.message.sender == "ai":
                message = line.message
            elif message.sender == "ai":
                was_said = bool(message.text) and self._streamed.startswith(message.text)  # a stopped answer
                message = replace(message, is_verified=was_said)
            told.append(message)
        return told

    def note_streamed(self, text: str) -> None:
        self._streamed += text

    def note_archived(self, messages: Sequence[ChatMessage]) -> None:
        """Note messages stored directly; unknown ones are replayed later."""
        archiver, ids = self.context.archiver, [message.id for message in messages]
        archiver.forget_chat(ids)
        for id_ in self._log.keys() & set(ids):
            self._log[id_].is_durable = True
        if not all(id_ in self._log or id_ in archiver.delivered for id_ in ids):
            self.is_replayed = False

    # --- a question and its answer

    def answer_id(self, message_id: str) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.key.session_id}\n{message_id}"))

    async def take(self, messages: Sequence[ChatMessage]) -> Question:
        """Take in messages: known ones are skipped, others become history or the task; a new session is stored.

        Raises:
            SessionGoneError: It was deleted.
            StoreError: It is new and cannot be stored.
        """
        given: dict[str, ChatMessage] = {}
        for message in self.confirmed(messages):
            given.setdefault(message.id, message)
        known = self._heard() | self._answered()
        waiting = [message for message in self._missing()[1] if message.id not in given]
        coming = self._in_order([*waiting, *(message for message in given.values() if message.id not in known)])
        begins = not self.is_stored
        if begins:
            await self.context.memory_store.conversations.append(self.key, chat=coming, title=title_of(coming))
            self.is_stored = True
        task = _last_questions(coming)
        history = coming[: len(coming) - len(task)]
        self._keep(coming, are_durable=begins, are_reported=False)
        self._streamed = "" if task else self._streamed
        await self._replay(history)
        for place, message in enumerate(task):
            self._record(message, self.context.transcript.end + place)
        if task:
            return Question(task[-1], tuple(task))
        asked = next((message for message in reversed(messages) if message.sender == "user"), None)
        if asked is None or history:
            return Question(None)
        line = self._log.get(asked.id)
        asked = asked if line is None else line.message
        return Question(asked, answer=await self._known_answer(asked))

    async def _known_answer(self, asked: ChatMessage) -> ChatMessage | None:
        answer_id = self.answer_id(asked.id)
        line = self._log.get(answer_id)
        answer = line.message if line else await self._stored_message(answer_id)
        if answer is not None:
            return answer
        later = [one for one in self._messages() if one.sender == "ai" and _place(one) > _place(asked)]
        transcript = self.context.transcript
        position = transcript.task(self.context.policy.user_sources)
        # texts kept only in the store are empty here
        if position is not None and transcript[position].message.content in (asked.text, ""):
            # the newest question: only the transcript's end answers it
            later = [one for one in later if one.text == replace_surrogates(self._final_words() or "")]
        return next(iter(later), None)

    def _final_words(self) -> str | None:
        """Return None if the transcript ends in the middle of a run."""
        entries = self.context.transcript.entries()
        message = entries[-1].message if entries else None
        if isinstance(message, AssistantMessage) and isinstance(message.content, str):
            return message.content
        return None

    def finished_words(self, agent: TaskRunner) -> str | None:
        """Return a cut-off run's finished answer; None for a team, which may go on."""
        return self._final_words() if isinstance(agent, ChatAgent) else None

    async def _stored_message(self, message_id: str) -> ChatMessage | None:
        user_id, _, session_id = self.key
        if await self.context.memory_store.conversations.known_chat_ids(user_id, session_id, [message_id]):
            async for page in self._pages():
                for message in page:
                    if message.id == message_id:
                        return message
        return None

    def answer(self, asked: ChatMessage, text: str) -> ChatMessage:
        """Record the agent's answer as the latest chat message."""
        now = datetime.now(timezone.utc)
        (message,) = self._in_order([ChatMessage(self.answer_id(asked.id), replace_surrogates(text), "ai", now)])
        self._keep([message], are_reported=False)
        self._streamed = ""
        self._record(message, self.context.transcript.end - 1)
        return message

    def stored_ids(self, messages: Iterable[ChatMessage]) -> list[str]:
        """Return these messages' durable ids, and earlier unreported ones."""
        archiver = self.context.archiver
        unreported = [id_ for id_, line in self._log.items() if not line.is_reported]
        known = [message.id for message in messages if message.id in self._log or message.id in archiver.delivered]
        stored = [id_ for id_ in dict.fromkeys([*unreported, *known]) if id_ not in archiver.chat]
        for id_ in self._log.keys() & set(stored):
            self._log[id_].is_reported = True
        return stored

    # --- the log

    def _messages(self) -> list[ChatMessage]:
        return [line.message for line in self._log.values()]

    def _keep(self, messages: Sequence[ChatMessage], *, are_durable: bool = False, are_reported: bool = True) -> None:
        """Add unknown messages to the log; drop its oldest reported ones."""
        for message in messages:
            line = self._log.get(message.id)
            if line is None:
                line = self._log[message.id] = _Line(message, self.answer_id(message.id), is_reported=are_reported)
            line.is_durable = line.is_durable or are_durable
        lines = sorted(self._log.values(), key=lambda line: _place(line.message))
        unreported = [line for line in lines[:-_LOG_MESSAGES] if not line.is_reported]
        self._log = {line.message.id: line for line in [*unreported, *lines[-_LOG_MESSAGES:]]}

    def _in_order(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return messages with times after the log's, whatever the clocks say."""
        last = max((message.timestamp for message in self._messages()), default=None)
        ordered: list[ChatMessage] = []
        for message in messages:
            if message.id not in self._log:
                if last is not None and message.timestamp <= last:
                    message = replace(message, timestamp=last + _TICK)
                last = message.timestamp
            ordered.append(message)
        return ordered


def title_of(messages: Sequence[ChatMessage]) -> str | None:
    """Return the first user message as title."""
    said = next((message.text for message in messages if message.sender == "user"), "")
    said = masked(said[:_READ_CHARACTERS])  # before the cut, which could halve a credential
    return one_line(said, _TITLE_CHARACTERS) or None


def _place(message: ChatMessage) -> tuple[datetime, str]:
    return message.timestamp, message.id


def _last_questions(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    start = next((i + 1 for i in reversed(range(len(messages))) if messages[i].sender == "ai"), 0)
    return [*messages[start:]]
