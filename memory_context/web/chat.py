"""Chat: people's conversations with agents, apart from how they come over the wire.

    request ─▶ which session? ─▶ hold it ─▶ heal ─▶ take in ─▶ known? ─▶ run the agent ─▶ answer ─▶ batch, later
                                                      └── the answer is there: given again

Promises: a session is at work on one request at a time; in the steady state a request costs no transaction of its own;
a person reaches their own sessions only; whatever is said is durable before its id is reported.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from inspect import isawaitable
from uuid import NAMESPACE_OID, uuid5

from autogen_agentchat.base import TaskRunner
from autogen_core.models import ChatCompletionClient

from ..context import MemoryContext
from ..context_builder import provider_sentence
from ..context_memory import load_parts
from ..errors import SessionGoneError, StoreUnavailableError
from ..identifiers import SessionKey
from ..policy import ContextPolicy
from ..runtime import Timer
from ..sessions import Claims, SessionCache, SessionStates
from ..store import ChatMessage, MemoryStore, SessionInfo
from .agent_run import Answered, Delta, run_agent
from .problems import ProblemError
from .run import RequestRun
from .schemas import ChatStep
from .session import ChatSession, Question, title_of

__all__ = ["AgentBuilder", "Begun", "Chat", "ChatEvent", "Done", "Said"]

_logger = logging.getLogger("memory_context")

_CLOSE_SECONDS = 5.0

AgentBuilder = Callable[[MemoryContext], TaskRunner | Awaitable[TaskRunner]]
"""Makes the agent of a session around its context."""


@dataclass(frozen=True)
class Begun:
    """Work on a session has begun."""

    session_id: str
    agent_id: str


@dataclass(frozen=True)
class Said:
    """The answer."""

    message: ChatMessage


@dataclass(frozen=True)
class Done:
    """The end of a turn: what is durable now, and whether the answer was known."""

    stored_ids: tuple[str, ...]
    replayed: bool


ChatEvent = Begun | Delta | ChatStep | Said | Done


class Chat:
    """The conversations of one application.

    Args:
        memory_store: Where they are; stays open.
        agents: Who answers, by agent id; the first is asked where a request names none.
        policy: The settings of contexts.
        model_client: Their light model.
        claims: Say which process a session belongs to; None for this one.
        states: Where states are kept between requests; None for nowhere.
        cache: Makes the cache of live sessions from what makes one; None for a `SessionCache` with its defaults.
        run_seconds: How long an agent may take.
        wait_seconds: How long a request waits for its session, without a `cache`.

    Raises:
        ValueError: There is no agent, or the policy archives nothing.
    """

    def __init__(
        self,
        memory_store: MemoryStore,
        agents: Mapping[str, AgentBuilder],
        *,
        policy: ContextPolicy | None = None,
        model_client: ChatCompletionClient | None = None,
        claims: Claims | None = None,
        states: SessionStates | None = None,
        cache: "Callable[[Callable[[SessionKey], Awaitable[ChatSession]]], SessionCache[ChatSession]] | None" = None,
        run_seconds: float = 600,
        wait_seconds: float = 10,
    ) -> None:
        if not agents:
            raise ValueError("there is no agent: name one at least in agents")
        if policy is not None and not policy.archive.enabled:
            raise ValueError("policy.archive.enabled=False: a chat has to be archived, or nothing would be durable")
        if cache is not None and (claims is not None or states is not None):
            raise ValueError("give claims and states to the cache you make, not beside it")
        load_parts()
        self.memory_store = memory_store
        self._agents = dict(agents)
        self._policy = policy
        self._model_client = model_client
        self._run_seconds = run_seconds
        self._runs: dict[RequestRun[ChatEvent], SessionKey] = {}
        self.sessions = (
            SessionCache(self._make, claims=claims, states=states, wait_seconds=wait_seconds)
            if cache is None
            else cache(self._make)
        )

    # --- life cycle

    async def open(self) -> None:
        """Open the store now rather than with the first request; one that is away is tried again then."""
        try:
            await self.memory_store.open()
        except StoreUnavailableError as error:
            _logger.warning("going on without the store for now: %s", error)

    async def close(self) -> None:
        """Stop what runs, archive every session and let go of it; the store stays open."""
        for turn in [*self._runs]:
            turn.stop(ProblemError("unavailable", "the server is shutting down", retry_after_seconds=2))
        if self._runs:
            await asyncio.wait([turn.task for turn in self._runs], timeout=_CLOSE_SECONDS)
        await self.sessions.close()

    async def check(self) -> None:
        """Return if the store answers.

        Raises:
            StoreError: It does not.
        """
        await self.memory_store.conversations.session("nobody", "none")

    # --- answering

    async def answer(
        self, user_id: str, session_id: str | None, agent_id: str | None, messages: Sequence[ChatMessage]
    ) -> RequestRun[ChatEvent]:
        """Begin to answer what a person says; the turn that is returned goes on by itself.

        Args:
            user_id: Who says it.
            session_id: In which session; an id that the user has no session by begins one. None begins one, too, or
                finds the one that the same first message began before.
            agent_id: Who is to answer; None for the session's agent, or the first.
            messages: What is said.

        Raises:
            ProblemError: There is no such agent, the session is another agent's, or it was deleted.
        """
        self._check_agent(agent_id)
        is_named = session_id is not None
        session_id = session_id or str(uuid5(NAMESPACE_OID, f"{user_id}\n{messages[0].id}"))
        key, is_stored = await self._key(user_id, session_id, agent_id, is_named)

        async def work(turn: RequestRun[ChatEvent]) -> None:
            await self._work(turn, key, is_stored, messages)

        turn = RequestRun[ChatEvent](work)
        self._runs[turn] = key
        turn.task.add_done_callback(lambda _: self._runs.pop(turn, None))
        return turn

    def _check_agent(self, agent_id: str | None) -> None:
        if agent_id is not None and agent_id not in self._agents:
            known = ", ".join(map(repr, self._agents))
            raise ProblemError("unknown-agent", f"there is no agent {agent_id!r}; there is {known}")

    async def _key(
        self, user_id: str, session_id: str, agent_id: str | None, is_named: bool
    ) -> tuple[SessionKey, bool]:
        """Return the key of a session, and whether the store knows it."""
        live = self._live(user_id, session_id)
        if live is not None:
            its_agent, is_stored = live.key.agent_id, live.is_stored
        else:
            info = await self.memory_store.conversations.session(user_id, session_id)
            if info is None and is_named:
                await self._check_not_deleted(user_id, session_id)
            its_agent, is_stored = (info.agent_id, True) if info else (agent_id or next(iter(self._agents)), False)
        if (agent_id or its_agent) != its_agent or its_agent not in self._agents:
            text = f"agent {its_agent!r} began it" + ("" if its_agent in self._agents else ", who is not here")
            raise ProblemError("other-agent", f"{text}; begin a session with another one")
        return SessionKey(user_id, its_agent, session_id), is_stored

    async def _check_not_deleted(self, user_id: str, session_id: str) -> None:
        at = await self.memory_store.conversations.deleted_at(user_id, session_id)
        if at is not None:
            when = f"{at:%Y-%m-%d at %H:%M:%S} UTC"
            raise ProblemError("session-deleted", f"session {session_id!r} was deleted on {when}")

    async def _work(
        self, turn: RequestRun[ChatEvent], key: SessionKey, is_stored: bool, messages: Sequence[ChatMessage]
    ) -> None:
        async with self.sessions.hold(key) as session:
            session.is_stored = session.is_stored or is_stored
            try:
                await self._answer(turn, session, messages)
            except SessionGoneError:
                await self.sessions.discard(key)
                raise

    async def _answer(self, turn: RequestRun[ChatEvent], session: ChatSession, messages: Sequence[ChatMessage]) -> None:
        session.check()
        agent = session.agent or await self._agent_for(session)
        await session.replay_missing_messages()
        question = await session.take(messages)
        turn.emit(Begun(session.key.session_id, session.key.agent_id))
        answer = question.known
        if answer is None and question.answered is not None:
            answer = await self._run(turn, session, agent, question)
        session.check()
        stored_ids = session.stored_ids([*messages, *([answer] if answer else [])])
        if answer is not None:
            turn.emit(Said(answer))
        turn.emit(Done(tuple(stored_ids), question.known is not None))

    async def _run(
        self, turn: RequestRun[ChatEvent], session: ChatSession, agent: TaskRunner, question: Question
    ) -> ChatMessage | None:
        """Have the agent answer; one that was cut off or failed is made anew for the next question."""
        assert question.answered is not None
        text = None if question.task else session.finished_words(agent)
        if text is None:
            too_slow = ProblemError("too-slow", f"it was stopped after {self._run_seconds:g} s; send it again to go on")
            timer = Timer(lambda: turn.stop(too_slow))
            timer.plan(self._run_seconds)
            turn.is_running = True
            session.agent = None
            try:
                async for event in run_agent(agent, session.context, question.task, turn.cancellation):
                    if isinstance(event, Answered):
                        text = event.text
                        continue
                    if isinstance(event, Delta):
                        session.note_streamed(event.text)
                    turn.emit(event)
            except Exception as error:
                said = provider_sentence(error)
                trace = None if said else error  # of a service that failed, a stack trace says nothing
                _logger.error(
                    "the agent of session %s failed: %s", session.key.session_id, said or error, exc_info=trace
                )
                told = f"{said or 'The log says why.'} Your message is kept: send it again to go on."
                raise ProblemError("agent-failed", told) from error
            finally:
                timer.cancel()
                turn.is_running = False
            session.agent = agent
        return None if text is None else session.answer(question.answered, text)

    async def _make(self, key: SessionKey) -> ChatSession:
        context = MemoryContext(
            key.user_id,
            key.agent_id,
            key.session_id,
            self.memory_store,
            model_client=self._model_client,
            policy=self._policy,
        )
        return ChatSession(key, context)

    async def _agent_for(self, session: ChatSession) -> TaskRunner:
        try:
            made = self._agents[session.key.agent_id](session.context)
            session.agent = await made if isawaitable(made) else made
        except Exception as error:
            _logger.error("agent %r could not be made: %s", session.key.agent_id, error, exc_info=error)
            raise ProblemError("agent-failed", "it could not be made; the log says why") from error
        return session.agent

    # --- what was said

    async def archive(
        self, user_id: str, session_id: str, agent_id: str | None, messages: Sequence[ChatMessage]
    ) -> list[str]:
        """Make chat messages durable, past whatever is at work on the session; return the ids that are.

        An id that the user has no session by begins one, so that a page can archive before it has an answer.

        Args:
            user_id: Whose session.
            session_id: Which one.
            agent_id: Who answers in it, if it is new; None for the first.
            messages: What was said, as a client has it.

        Raises:
            ProblemError: There is no such agent, or the session was deleted.
            StoreError: The store cannot be reached now.
        """
        self._check_agent(agent_id)
        conversations = self.memory_store.conversations
        info = await conversations.session(user_id, session_id)
        if info is None:
            await self._check_not_deleted(user_id, session_id)
        its_agent = info.agent_id if info else agent_id or next(iter(self._agents))
        live = self._live(user_id, session_id)
        if live is not None:
            messages = live.confirmed(messages)
        masks = (self._policy or ContextPolicy()).mask_credentials
        title = None if info else title_of(messages, mask_credentials=masks)
        await conversations.append(user_id, session_id, its_agent, chat=messages, title=title)
        live = self._live(user_id, session_id)
        if live is not None:
            live.note_archived(messages)
        return [*dict.fromkeys(message.id for message in messages)]

    async def list_sessions(self, user_id: str, limit: int, before: tuple[datetime, str] | None) -> list[SessionInfo]:
        """Return a page of a person's sessions, the last used first."""
        return await self.memory_store.conversations.sessions(user_id, limit=limit, before=before, only_chats=True)

    async def session(self, user_id: str, session_id: str) -> SessionInfo:
        """Return what is known of a session; raises ProblemError if there is none."""
        return await self._info(user_id, session_id)

    async def messages(
        self, user_id: str, session_id: str, limit: int, before: tuple[datetime, str] | None
    ) -> list[ChatMessage]:
        """Return the newest messages before a place, the oldest first: what is durable and what is still buffered here.

        Raises:
            ProblemError: There is no such session, or it was deleted.
        """
        live = self._live(user_id, session_id)
        buffered = live.buffered if live else []  # first: what is written meanwhile is in both, and counts once
        found = await self.memory_store.conversations.chat_page(user_id, session_id, limit=limit, before=before)
        if not found:
            await self._info(user_id, session_id)
        known = {message.id: message for message in [*buffered, *found]}
        page = [one for one in known.values() if before is None or (one.timestamp, one.id) < before]
        return sorted(page, key=lambda one: (one.timestamp, one.id))[-limit:]

    async def delete(self, user_id: str, session_id: str) -> None:
        """Delete a session, with its items and those of its sub-agents; who is at work on it is stopped.

        Raises:
            ProblemError: There is no such session.
        """
        if not await self.memory_store.conversations.delete_session(user_id, session_id):
            raise ProblemError("unknown-session", f"there is no session {session_id!r}")
        live = self._live(user_id, session_id)
        if live is not None:
            live.context.archiver.abandon()
        for turn, key in [*self._runs.items()]:
            if (key.user_id, key.session_id) == (user_id, session_id):
                turn.stop(ProblemError("session-deleted", f"session {session_id!r} was deleted"))
        for agent_id in self._agents:
            await self.sessions.discard(SessionKey(user_id, agent_id, session_id))

    def _live(self, user_id: str, session_id: str) -> ChatSession | None:
        places = (self.sessions.peek(SessionKey(user_id, agent_id, session_id)) for agent_id in self._agents)
        return next((session for session in places if session is not None), None)

    async def _info(self, user_id: str, session_id: str) -> SessionInfo:
        info = await self.memory_store.conversations.session(user_id, session_id)
        if info is None:
            await self._check_not_deleted(user_id, session_id)
            raise ProblemError("unknown-session", f"there is no session {session_id!r}")
        return info
