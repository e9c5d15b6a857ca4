"""Conversations of one application, independent of HTTP.

    request ─▶ session ─▶ hold it ─▶ replay missing messages ─▶ take in ─▶ run the agent ─▶ answer ─▶ batch, later
                                                                   └── the answer is known: given again

A session handles one request at a time. An id is reported once its message is durable, usually with a later answer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from inspect import isawaitable
from uuid import NAMESPACE_OID, uuid5

from autogen_agentchat.base import TaskRunner
from autogen_core.models import ChatCompletionClient
from fastapi import HTTPException
from pydantic import BaseModel, ConfigDict, PositiveFloat, PositiveInt

from memory_context.context.builder import provider_sentence
from memory_context.context.context import MemoryContext
from memory_context.foundation.errors import SessionGoneError, StoreUnavailableError
from memory_context.foundation.identifiers import SessionKey
from memory_context.foundation.policy import ContextPolicy
from memory_context.foundation.runtime.background import Timer
from memory_context.memory.notes import LongTermNotes
from memory_context.sessions.live.cache import SessionCache
from memory_context.sessions.live.entry import SessionStates
from memory_context.store.conversations import ChatMessage, SessionInfo
from memory_context.store.memory_store import MemoryStore

from ..access.errors import try_again
from .run import Delta, RequestRun, RunEnd, RunEvent, RunStart, run_agent
from .schemas import ChatMessage as Answer
from .schemas import ChatStep
from .session import ChatSession, title_of

__all__ = ["AgentBuilder", "CacheBuilder", "Chat", "ChatLimits"]

_logger = logging.getLogger("memory_context")

_CLOSE_SECONDS = 5.0

AgentBuilder = Callable[[MemoryContext], TaskRunner | Awaitable[TaskRunner]]
"""Makes the agent of a session around its context."""
CacheBuilder = Callable[[Callable[[SessionKey], Awaitable[ChatSession]]], SessionCache[ChatSession]]
"""Makes the cache of live sessions from the function that makes a session."""


class ChatLimits(BaseModel):
    """Limits of one client, above zero. A request has at most 100 messages of 200,000 characters.

    Attributes:
        requests_per_minute: Per user, or per address in anonymous use.
        run_seconds: Time for an agent's answer.
        wait_seconds: Wait for a busy session.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    body_bytes: PositiveInt = 1_000_000
    requests_per_minute: PositiveInt = 120
    run_seconds: PositiveFloat = 600
    wait_seconds: PositiveFloat = 10
    ping_seconds: PositiveInt = 15


class Chat:
    """The conversations of one application; arguments as `create_chat_router`, with agent builders by agent id.

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
        states: SessionStates | None = None,
        cache: CacheBuilder | None = None,
        limits: ChatLimits | None = None,
    ) -> None:
        if not agents:
            raise ValueError("there is no agent: name one at least in agents")
        if policy is not None and not policy.archive.enabled:
            raise ValueError("policy.archive.enabled=False: a chat has to be archived, or nothing would be durable")
        if cache is not None and states is not None:
            raise ValueError("give states to the cache you make, not beside it")
        if states is not None:
            memory_store.forgettings.copies.add(states)
        self.memory_store = memory_store
        self._agents = dict(agents)
        self._policy = policy or ContextPolicy()
        self._model_client = model_client
        self._limits = limits or ChatLimits()
        self._runs: dict[RequestRun, SessionKey] = {}
        self.sessions = (
            SessionCache(self._make, memory_store=memory_store, states=states, wait_seconds=self._limits.wait_seconds)
            if cache is None
            else cache(self._make)
        )

    # --- life cycle

    async def open(self) -> None:
        """Open the store; go on if it is unavailable."""
        try:
            await self.memory_store.open()
        except StoreUnavailableError as error:
            _logger.warning("going on without the store for now: %s", error)

    async def close(self) -> None:
        """Stop all runs, archive and release every session; the store stays open."""
        for run in [*self._runs]:
            run.stop(try_again(503, "the server is shutting down", 2))
        if self._runs:
            await asyncio.wait([run.task for run in self._runs], timeout=_CLOSE_SECONDS)
        await self.sessions.close()

    async def check(self) -> None:
        """Raise StoreError if the store does not answer."""
        await self.memory_store.conversations.session("nobody", "none")

    # --- answering

    async def answer(
        self, user_id: str, session_id: str | None, agent_id: str | None, messages: Sequence[ChatMessage]
    ) -> RequestRun:
        """Start answering and return the run, a task of its own; ids as in `ChatRequest`.

        Raises:
            HTTPException: There is no such agent, the session is another agent's, or it was deleted.
        """
        self._check_agent(agent_id)
        is_named = session_id is not None
        session_id = session_id or str(uuid5(NAMESPACE_OID, f"{user_id}\n{messages[0].id}"))
        key, is_stored = await self._key(user_id, session_id, agent_id, is_named)

        async def work(run: RequestRun) -> None:
            async with self.sessions.hold(key) as session:
                session.is_stored = session.is_stored or is_stored
                try:
                    last_events = await self._answer(run, session, messages)
                except SessionGoneError:
                    await self.sessions.discard(key)
                    raise
            for event in last_events:  # now that no other process has had the session meanwhile
                run.emit(event)

        run = RequestRun(work)
        self._runs[run] = key
        run.task.add_done_callback(lambda _: self._runs.pop(run, None))
        return run

    def _check_agent(self, agent_id: str | None) -> None:
        if agent_id is not None and agent_id not in self._agents:
            known = ", ".join(map(repr, self._agents))
            raise HTTPException(404, f"there is no agent {agent_id!r}; there is {known}")

    async def _key(
        self, user_id: str, session_id: str, agent_id: str | None, is_named: bool
    ) -> tuple[SessionKey, bool]:
        live = self._live(user_id, session_id)
        if live is not None:
            its_agent, is_stored = live.key.agent_id, live.is_stored
        else:
            info = await self._info(user_id, session_id, may_be_deleted=not is_named)
            its_agent, is_stored = (info.agent_id, True) if info else (agent_id or next(iter(self._agents)), False)
        if (agent_id or its_agent) != its_agent or its_agent not in self._agents:
            text = f"agent {its_agent!r} began it" + ("" if its_agent in self._agents else ", who is not here")
            raise HTTPException(409, f"{text}; begin a session with another one")
        return SessionKey(user_id, its_agent, session_id), is_stored

    async def _answer(self, run: RequestRun, session: ChatSession, messages: Sequence[ChatMessage]) -> list[RunEvent]:
        """Return the events that end the run."""
        session.check()
        agent = session.agent or await self._build_agent(session)
        await session.replay_missing_messages()
        question = await session.take(messages)
        answer_id = session.answer_id(question.message.id) if question.message else None
        run.emit(RunStart(session_id=session.key.session_id, agent_id=session.key.agent_id, answer_id=answer_id))
        answer = question.answer
        if answer is None and question.message is not None:
            text = None if question.task else session.finished_words(agent)
            if text is None:
                text = await self._run_agent(run, session, agent, question.task)
            answer = None if text is None else session.answer(question.message, text)
        session.check()
        stored_ids = session.stored_ids([*messages, *([answer] if answer else [])])
        end = RunEnd(stored_ids=stored_ids, replayed=question.answer is not None)
        return [end] if answer is None else [Answer.of(answer), end]

    async def _run_agent(
        self, run: RequestRun, session: ChatSession, agent: TaskRunner, task: Sequence[ChatMessage]
    ) -> str | None:
        """Return the answer; after a failure the agent is built again."""
        seconds = self._limits.run_seconds
        too_slow = f"it was stopped after {seconds:g} s; send it again to go on"
        timer = Timer(lambda: run.stop(HTTPException(504, too_slow)))
        timer.plan(seconds)
        run.is_agent_running, session.agent = True, None

        def emit(event: Delta | ChatStep) -> None:
            if isinstance(event, Delta):
                session.note_streamed(event.text)
            run.emit(event)

        try:
            text = await run_agent(agent, session.context, task, run.cancellation, emit)
        except Exception as error:
            said = provider_sentence(error)
            trace = None if said else error  # no trace for a failed service
            _logger.error("the agent of session %s failed: %s", session.key.session_id, said or error, exc_info=trace)
            told = f"{said or 'The log says why.'} Your message is kept: send it again to go on."
            raise HTTPException(502, told) from error
        finally:
            timer.cancel()
            run.is_agent_running = False
        session.agent = agent
        return text

    async def _make(self, key: SessionKey) -> ChatSession:
        user_id, agent_id, session_id = key
        store, model, policy = self.memory_store, self._model_client, self._policy
        context = MemoryContext(user_id, agent_id, session_id, store, model_client=model, policy=policy)
        return ChatSession(key, context)

    async def _build_agent(self, session: ChatSession) -> TaskRunner:
        try:
            made = self._agents[session.key.agent_id](session.context)
            session.agent = await made if isawaitable(made) else made
        except Exception as error:
            _logger.error("agent %r could not be made: %s", session.key.agent_id, error, exc_info=error)
            raise HTTPException(502, "it could not be made; the log says why") from error
        return session.agent

    # --- sessions and their messages

    async def archive(
        self, user_id: str, session_id: str, agent_id: str | None, messages: Sequence[ChatMessage]
    ) -> list[str]:
        """Store chat messages, also during a run of the session, and return their ids.

        Raises:
            HTTPException: There is no such agent, or the session was deleted.
        """
        self._check_agent(agent_id)
        info = await self._info(user_id, session_id)
        its_agent = info.agent_id if info else agent_id or next(iter(self._agents))
        live = self._live(user_id, session_id)
        if live is not None:
            messages = live.confirmed(messages)
        title = None if info else title_of(messages)
        await self.memory_store.conversations.append(
            SessionKey(user_id, its_agent, session_id), chat=messages, title=title
        )
        live = self._live(user_id, session_id)
        if live is not None:
            live.note_archived(messages)
        return [*dict.fromkeys(message.id for message in messages)]

    async def list_sessions(self, user_id: str, limit: int, before: tuple[datetime, str] | None) -> list[SessionInfo]:
        """Return a page, most recently used first."""
        return await self.memory_store.conversations.sessions(user_id, limit=limit, before=before, only_chats=True)

    async def session(self, user_id: str, session_id: str) -> SessionInfo:
        """Return a stored session, or raise HTTPException."""
        info = await self._info(user_id, session_id)
        if info is None:
            raise _unknown(session_id)
        return info

    async def messages(
        self, user_id: str, session_id: str, limit: int, before: tuple[datetime, str] | None
    ) -> list[ChatMessage]:
        """Return the newest stored and buffered messages before a cursor, oldest first."""
        live = self._live(user_id, session_id)
        buffered = live.buffered if live else []  # first: a message written meanwhile is then in both
        stored = await self.memory_store.conversations.chat_page(user_id, session_id, limit=limit, before=before)
        if not stored:
            await self.session(user_id, session_id)
        known = {message.id: message for message in [*buffered, *stored]}
        page = [one for one in known.values() if before is None or (one.timestamp, one.id) < before]
        return sorted(page, key=lambda one: (one.timestamp, one.id))[-limit:]

    async def delete(self, user_id: str, session_id: str) -> None:
        """Delete a session and its sub-agents' items, and stop its runs."""
        if not await self.memory_store.conversations.delete_session(user_id, session_id):
            raise _unknown(session_id)
        live = self._live(user_id, session_id)
        if live is not None:
            live.context.archiver.abandon()
        for run, key in [*self._runs.items()]:
            if (key.user_id, key.session_id) == (user_id, session_id):
                run.stop(HTTPException(410, f"session {session_id!r} was deleted"))
        for agent_id in self._agents:
            await self.sessions.discard(SessionKey(user_id, agent_id, session_id))

    def notes(self, user_id: str, agent_id: str) -> LongTermNotes:
        """Return the notes of one of the agents, or raise HTTPException."""
        self._check_agent(agent_id)
        return LongTermNotes(self.memory_store, user_id, agent_id)

    def _live(self, user_id: str, session_id: str) -> ChatSession | None:
        places = (self.sessions.peek(SessionKey(user_id, agent_id, session_id)) for agent_id in self._agents)
        return next((session for session in places if session is not None), None)

    async def _info(self, user_id: str, session_id: str, *, may_be_deleted: bool = False) -> SessionInfo | None:
        """Raises HTTPException if the session was deleted."""
        conversations = self.memory_store.conversations
        info = await conversations.session(user_id, session_id)
        if info is None and not may_be_deleted:
            at = await conversations.deleted_at(user_id, session_id)
            if at is not None:
                when = f"{at:%Y-%m-%d at %H:%M:%S} UTC"
                raise HTTPException(410, f"session {session_id!r} was deleted on {when}")
        return info


def _unknown(session_id: str) -> HTTPException:
    return HTTPException(404, f"there is no session {session_id!r}")
