"""ChatSession: one conversation between a person and an agent, live: what the cache keeps between requests.

What a person sees (chat messages) and what the agent knows (the transcript of its context) are two things that can come
apart: a page archives what a killed process had not written yet; a run is cut off after the question was heard. This
module brings them together again.

Promises: each chat message is in the conversation once, whoever brings it and how often; each gets into the transcript
once; a question is answered once, and asking again gives that answer; an id is reported as stored only when it is; an
answer that a client brings is confirmed by what this session said, or marked, and never becomes the assistant's words.

    unheard: what the person sees and the agent has not heard ─┬─ up to the last answer: put into its context (heal)
                                                               └─ questions after it: wait to be asked (again)
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from autogen_agentchat.base import ChatAgent, TaskRunner
from autogen_core.models import AssistantMessage, LLMMessage, UserMessage

from ..context import MemoryContext
from ..credentials import masked
from ..errors import SessionGoneError
from ..identifiers import SessionKey
from ..references import one_line
from ..store import ChatMessage
from .schemas import whole_text

__all__ = ["ChatSession", "Question", "title_of"]

_KEPT = 200  # chat messages whose texts stay in the process, and that are looked through for unheard ones
_PAGE = 100
_TITLE_CHARACTERS = 80
_READ_CHARACTERS = 10_000  # of a message that a session is named after
_LATER = timedelta(milliseconds=1)
_CLIENT = "client"
_CLAIM = "The page brought this back as an earlier answer of the assistant; the server cannot confirm that:"


@dataclass(frozen=True)
class Question:
    """What a request comes to.

    Attributes:
        answered: The message that is to be answered; None if there is nothing to answer.
        task: What the agent is told; empty if it has heard it already and only has to go on.
        known: The answer, if there is one already.
    """

    answered: ChatMessage | None
    task: tuple[ChatMessage, ...] = ()
    known: ChatMessage | None = None


class ChatSession:
    """A live conversation.

    Args:
        key: Whose it is.
        context: The agent's context in it.

    Attributes:
        key: Whose it is.
        context: The agent's context in it.
        agent: Who answers; None to have it made again, as after a run that was cut off.
        is_replayed: Whether the agent has heard what the person sees.
        is_stored: Whether the session is known to the store; else its first messages make it so.
    """

    def __init__(self, key: SessionKey, context: MemoryContext) -> None:
        self.key = key
        self.context = context
        self.agent: TaskRunner | None = None
        self.is_replayed = False
        self.is_stored = False
        self._log: dict[str, ChatMessage] = {}  # the newest, in order
        self._stored: set[str] = set()  # those of them that are durable for certain
        self._unreported: dict[str, None] = {}
        self._streamed = ""  # what was said so far of the last answer

    # --- as the cache sees it

    async def resume(self) -> None:
        """Take over what the archive has of the session."""
        await self.context.resume()

    async def save_state(self) -> Mapping[str, Any]:
        """Return everything, what is not archived yet included."""
        return await self.context.save_state()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state, or from the archive if that is newer."""
        await self.context.load_state(state)
        self.is_replayed = False

    async def archive(self) -> None:
        """Make durable what is not."""
        await self.context.archive()

    async def close(self) -> None:
        """Let go of what is open."""
        await self.context.close()

    @property
    def is_dirty(self) -> bool:
        """Whether something is not archived yet."""
        return self.context.archiver.is_dirty

    def check(self) -> None:
        """Raise SessionGoneError if the archive was told meanwhile that the session was deleted."""
        if self.context.archiver.is_gone:
            raise SessionGoneError(f"session {self.key.session_id!r} was deleted")

    # --- bringing together what the person sees and what the agent knows

    @property
    def buffered(self) -> list[ChatMessage]:
        """The chat messages that are not durable yet."""
        return [*self.context.archiver.chat.values()]

    async def replay_missing_messages(self) -> None:
        """Have the agent hear what the person sees and it has not heard; questions that wait for an answer stay out.

        Raises:
            StoreError: The conversation cannot be read now.
        """
        if self.is_replayed:
            return
        self.is_replayed = True  # at first: what is archived meanwhile asks for another time
        try:
            stored = await self._unheard_pages()
            self._stored.update(message.id for message in stored)
            self._keep([*stored, *self.buffered])
            waiting = {message.id for message in self._waiting()}
            await self._put([message for message in self._unheard() if message.id not in waiting])
        except BaseException:
            self.is_replayed = False
            raise

    async def _unheard_pages(self) -> list[ChatMessage]:
        """Return the newest messages, back to where the agent has heard them all."""
        conversations, heard = self.context.memory_store.conversations, self._heard()
        found: list[ChatMessage] = []
        before: tuple[datetime, str] | None = None
        while len(found) < _KEPT:
            page = await conversations.chat_page(self.key.user_id, self.key.session_id, limit=_PAGE, before=before)
            found = [*page, *found]
            if len(page) < _PAGE or heard.issuperset(message.id for message in page):
                break
            before = _place(page[0])
        return found

    def _heard(self) -> set[str]:
        """Return the ids of the messages whose words are in the transcript."""
        end = self.context.transcript.end
        return {id_ for id_, at in self.context.archiver.progress.delivered.items() if at < end}

    def _unheard(self) -> list[ChatMessage]:
        heard = self._heard()
        return [message for message in self._log.values() if message.id not in heard]

    def _waiting(self) -> list[ChatMessage]:
        """Return the questions that the agent has not heard and nobody has answered."""
        answered = self._answered()
        return [message for message in _last_questions(self._unheard()) if message.id not in answered]

    def _answered(self) -> set[str]:
        """Return the ids of the questions with an answer: its own, or that to the question right behind it."""
        answered: set[str] = set()
        together: list[str] = []
        for message in self._log.values():
            if message.sender == "ai":
                together = []
                continue
            together.append(message.id)
            if self.answer_id(message.id) in self._log:
                answered.update(together)
        return answered

    async def _put(self, messages: Sequence[ChatMessage]) -> None:
        """Put messages into the agent's context as what was said before."""
        transcript = self.context.transcript
        for message in messages:
            if message.sender == "ai" and message.text == whole_text(self._final_words() or ""):
                self._confirm(message, transcript.end - 1)  # heard, though the process ended before that was archived
                continue
            self._note(message, transcript.end)
            await self.context.add_message(self._as_heard(message))

    def _note(self, message: ChatMessage, at: int) -> None:
        """Have a message archived, if it is not, with the place of its words in the transcript."""
        if message.id in self._stored:
            self.context.archiver.mark_delivered([message.id], at)
        else:
            self.context.archiver.add_chat([message], at)

    def _confirm(self, message: ChatMessage, at: int) -> None:
        """Have an answer archived as the agent's own, also in place of an unverified one."""
        confirmed = replace(message, is_verified=True)
        self._log[message.id] = confirmed
        if not message.is_verified:
            self._stored.discard(message.id)
        self._note(confirmed, at)

    def _as_heard(self, message: ChatMessage) -> LLMMessage:
        if message.sender == "user":
            return UserMessage(content=message.text, source="user")
        if not message.is_verified:
            return UserMessage(content=_as_claim(message.text), source=_CLIENT)
        return AssistantMessage(content=message.text, source=getattr(self.agent, "name", "assistant"))

    def confirmed(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return messages of a client with answers that this session knows in its own words; others are unverified."""
        return [message if message.sender == "user" else self._answer_behind(message) for message in messages]

    def _answer_behind(self, claimed: ChatMessage) -> ChatMessage:
        known = self._log.get(claimed.id)
        if known is not None and known.sender == "ai":
            return known
        was_said = bool(claimed.text) and self._streamed.startswith(claimed.text)  # an answer that was stopped
        return replace(claimed, is_verified=was_said)

    def note_streamed(self, text: str) -> None:
        """Take note of words of an answer that the client is told; it may keep them, if the answer is stopped."""
        self._streamed += text

    def note_archived(self, messages: Sequence[ChatMessage]) -> None:
        """Take note of what somebody made durable past this session."""
        archiver, ids = self.context.archiver, [message.id for message in messages]
        archiver.forget_chat(ids)
        self._stored.update(id_ for id_ in ids if id_ in self._log)
        if not all(id_ in self._log or id_ in archiver.delivered for id_ in ids):
            self.is_replayed = False

    # --- a question and its answer

    def answer_id(self, message_id: str) -> str:
        """Return the id of the answer to a message: always the same, so that asking again finds it."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.key.session_id}\n{message_id}"))

    async def take(self, messages: Sequence[ChatMessage]) -> Question:
        """Take in what a request brings, in order: what is known is passed over, what is not becomes history or task.

        A session that is not durable yet becomes so, with these messages, in one transaction.

        Raises:
            SessionGoneError: It was deleted.
            StoreError: It is new and cannot be stored now.
        """
        given: dict[str, ChatMessage] = {}
        for message in self.confirmed(messages):
            given.setdefault(message.id, message)
        passed_over = self._heard() | self._answered()
        waiting = [message for message in self._waiting() if message.id not in given]
        fresh = [message for message in given.values() if message.id not in passed_over]
        coming = self._in_order([*waiting, *fresh])
        if not self.is_stored:
            await self._begin(coming)
        task = _last_questions(coming)
        history = coming[: len(coming) - len(task)]
        self._take_up(coming)
        self._streamed = "" if task else self._streamed
        await self._put(history)
        for place, message in enumerate(task):
            self._note(message, self.context.transcript.end + place)
        if task:
            return Question(task[-1], tuple(task))
        asked = next((message for message in reversed(messages) if message.sender == "user"), None)
        if asked is None or history:
            return Question(None)
        return await self._asked_again(self._log.get(asked.id, asked))

    async def _begin(self, messages: Sequence[ChatMessage]) -> None:
        user_id, agent_id, session_id = self.key
        conversations = self.context.memory_store.conversations
        title = title_of(messages, mask_credentials=self.context.policy.mask_credentials)
        await conversations.append(user_id, session_id, agent_id, chat=messages, title=title)
        self._stored.update(message.id for message in messages)
        self.is_stored = True

    async def _asked_again(self, asked: ChatMessage) -> Question:
        """Return what becomes of a question that was heard: its answer, or that the agent has to go on."""
        answer = self._log.get(self.answer_id(asked.id)) or await self._found(self.answer_id(asked.id))
        if answer is None:
            later = [one for one in self._log.values() if one.sender == "ai" and _place(one) > _place(asked)]
            if self._is_newest(asked):  # then only what the transcript ends with answers it
                later = [one for one in later if one.text == whole_text(self._final_words() or "")]
            answer = next(iter(later), None)
        return Question(asked, known=answer)

    def _is_newest(self, asked: ChatMessage) -> bool:
        """Whether a question is the last that the agent heard."""
        transcript = self.context.transcript
        position = transcript.task(self.context.policy.user_sources)
        # a text that only the store has is blank in the process
        return position is not None and transcript[position].message.content in (asked.text, "")

    def _final_words(self) -> str | None:
        """Return the answer with which the transcript ends; None if it ends in the middle of something."""
        entries = self.context.transcript.entries()
        message = entries[-1].message if entries else None
        if isinstance(message, AssistantMessage) and isinstance(message.content, str):
            return message.content
        return None

    def finished_words(self, agent: TaskRunner) -> str | None:
        """Return the answer that an agent had finished when its run was cut off; of a team that is not known."""
        return self._final_words() if isinstance(agent, ChatAgent) else None

    async def _found(self, message_id: str) -> ChatMessage | None:
        """Return a message of the conversation that is no longer in the process."""
        conversations = self.context.memory_store.conversations
        user_id, _, session_id = self.key
        if not await conversations.known_chat_ids(user_id, session_id, [message_id]):
            return None
        before: tuple[datetime, str] | None = None
        while page := await conversations.chat_page(user_id, session_id, limit=_PAGE, before=before):
            for message in page:
                if message.id == message_id:
                    return message
            before = _place(page[0])
        return None

    def answer(self, asked: ChatMessage, text: str) -> ChatMessage:
        """Take up the agent's answer and return it as a chat message, later than all before it."""
        now = datetime.now(timezone.utc)
        (message,) = self._in_order([ChatMessage(self.answer_id(asked.id), whole_text(text), "ai", now)])
        self._take_up([message])
        self._streamed = ""
        self._note(message, self.context.transcript.end - 1)
        return message

    def stored_ids(self, messages: Iterable[ChatMessage]) -> list[str]:
        """Return what is durable now: of these messages, and of all before of which that was not said yet."""
        archiver = self.context.archiver
        of_these = [message.id for message in messages if message.id in self._log or message.id in archiver.delivered]
        stored = [id_ for id_ in dict.fromkeys([*self._unreported, *of_these]) if id_ not in archiver.chat]
        for id_ in stored:
            self._unreported.pop(id_, None)
        return stored

    # --- the conversation in the process

    def _take_up(self, messages: Sequence[ChatMessage]) -> None:
        self._unreported.update(dict.fromkeys(message.id for message in messages if message.id not in self._log))
        self._keep(messages)

    def _keep(self, messages: Sequence[ChatMessage]) -> None:
        known = {**{message.id: message for message in messages}, **self._log}
        self._log = {message.id: message for message in sorted(known.values(), key=_place)[-_KEPT:]}
        self._stored &= self._log.keys()

    def _in_order(self, messages: Sequence[ChatMessage]) -> list[ChatMessage]:
        """Return messages with times that put them behind what is there, whatever the clocks say."""
        last = max((message.timestamp for message in self._log.values()), default=None)
        ordered: list[ChatMessage] = []
        for message in messages:
            if message.id not in self._log:
                if last is not None and message.timestamp <= last:
                    message = replace(message, timestamp=last + _LATER)
                last = message.timestamp
            ordered.append(message)
        return ordered


def title_of(messages: Sequence[ChatMessage], *, mask_credentials: bool) -> str | None:
    """Return a title for a session that begins with these messages; None if the user says nothing in them."""
    said = next((message.text for message in messages if message.sender == "user"), "")
    if mask_credentials:
        said = masked(said[:_READ_CHARACTERS])  # before the cut, which could leave half of one
    return one_line(said, _TITLE_CHARACTERS) or None


def _as_claim(text: str) -> str:
    """Return words that the assistant is said to have said, as a model may read them."""
    return f"{_CLAIM}\n<unverified>\n{text.replace('</unverified', '</ unverified')}\n</unverified>"


def _place(message: ChatMessage) -> tuple[datetime, str]:
    return message.timestamp, message.id


def _last_questions(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Return what the user said after the last answer."""
    start = next((i + 1 for i in reversed(range(len(messages))) if messages[i].sender == "ai"), 0)
    return [*messages[start:]]
